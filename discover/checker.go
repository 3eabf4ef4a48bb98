package discover

import (
	"crypto/sha256"
	"encoding"
	"hash"
	"slices"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// key is a reading of the secret, with the two SHA-256 states at the start of an HMAC.
type key struct {
	form         canonical.SecretForm
	secret       paymentsvc.Secret
	inner, outer []byte
}

// savedHash is a SHA-256 with a saved state, as crypto/sha256 documents.
type savedHash interface {
	hash.Hash
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

func newKey(form canonical.SecretForm, secret paymentsvc.Secret) key {
	block := make([]byte, sha256.BlockSize)
	if len(secret) > len(block) {
		sum := sha256.Sum256([]byte(secret))
		copy(block, sum[:])
	} else {
		copy(block, secret)
	}
	padded := func(pad byte) []byte {
		out := make([]byte, len(block))
		for i := range block {
			out[i] = block[i] ^ pad
		}
		return out
	}
	c := newChecker(nil)
	start, _ := c.hash.AppendBinary(nil) // cannot fail
	return key{form, secret, c.stateAfter(nil, start, padded(0x36)), c.stateAfter(nil, start, padded(0x5c))}
}

// rarity returns the rarity of a reading of the secret among all possible readings.
func (k *key) rarity(all []key) int {
	readable := func(forms ...canonical.SecretForm) bool {
		return slices.ContainsFunc(all, func(o key) bool { return slices.Contains(forms, o.form) })
	}
	switch k.form {
	case canonical.SecretText, canonical.SecretHex, canonical.SecretBase64Tail:
		return common
	case canonical.SecretBase64:
		if readable(canonical.SecretHex, canonical.SecretBase64Tail) { // most of their texts are valid base64 too
			return uncommon
		}
		return common
	default:
		return rare
	}
}

// checker compares the HMACs of texts with wanted sums. Texts with the same start share the state after this start.
type checker struct {
	wanted []string  // sums that the signature can encode
	first  [256]bool // their first bytes
	hash   savedHash
	sum    []byte
}

func newChecker(wanted []string) *checker {
	c := &checker{hash: sha256.New().(savedHash)}
	c.want(wanted)
	return c
}

// want sets the wanted sums.
func (c *checker) want(sums []string) {
	c.wanted, c.first = slices.Clone(sums), [256]bool{}
	slices.Sort(c.wanted)
	for _, sum := range sums {
		c.first[sum[0]] = true
	}
}

// matches reports whether the HMAC of a text is wanted. state is the state of the inner hash before rest, the end of
// the text.
func (c *checker) matches(k *key, state, rest []byte) bool {
	c.load(state, rest)
	c.sum = c.hash.Sum(c.sum[:0])
	c.load(k.outer, c.sum)
	c.sum = c.hash.Sum(c.sum[:0])
	if !c.first[c.sum[0]] {
		return false
	}
	_, found := slices.BinarySearch(c.wanted, string(c.sum))
	return found
}

// stateAfter hashes text from a saved state, and appends the new state to dst.
func (c *checker) stateAfter(dst, state, text []byte) []byte {
	c.load(state, text)
	dst, _ = c.hash.AppendBinary(dst) // cannot fail
	return dst
}

func (c *checker) load(state, text []byte) {
	_ = c.hash.UnmarshalBinary(state) // a state of AppendBinary is valid
	_, _ = c.hash.Write(text)
}
