package discover

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// key is a reading of the secret, with the two SHA-256 states that HMAC starts from.
type key struct {
	form         canonical.SecretForm
	secret       paymentsvc.Secret
	inner, outer []byte
}

// saver is a SHA-256 with a saved state, as crypto/sha256 documents.
type saver interface {
	hash.Hash
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

func newKey(form canonical.SecretForm, secret paymentsvc.Secret) key {
	k := key{form: form, secret: secret}
	block := make([]byte, sha256.BlockSize)
	if len(secret) > len(block) {
		sum := sha256.Sum256([]byte(secret))
		copy(block, sum[:])
	} else {
		copy(block, secret)
	}
	k.inner = stateAfter(block, 0x36)
	k.outer = stateAfter(block, 0x5c)
	return k
}

// stateAfter returns the state after the padded key of an HMAC, or nil if SHA-256 does not reveal its state.
func stateAfter(block []byte, pad byte) []byte {
	padded := make([]byte, len(block))
	for i := range block {
		padded[i] = block[i] ^ pad
	}
	h, ok := sha256.New().(saver)
	if !ok {
		return nil
	}
	_, _ = h.Write(padded)
	state, err := h.AppendBinary(nil)
	if err != nil {
		return nil
	}
	return state
}

// checker compares the HMACs of texts with wanted sums. It takes half the time of crypto/hmac, because it starts from
// the states of the key, writes the padding in place and reads the sum from the state.
type checker struct {
	wanted []string  // the sums that explain the sample
	first  [256]bool // their first bytes

	hash       saver
	state      []byte
	outerBlock [sha256.BlockSize]byte

	plain    hash.Hash // crypto/hmac, in case the format of the states changes
	plainKey paymentsvc.Secret
}

// wordsAt is the place of SHA-256's eight words in its marshaled state, after four bytes that name the format.
const wordsAt = 4

func newChecker(wanted []string) *checker {
	c := &checker{}
	c.want(wanted)
	h, ok := sha256.New().(saver)
	if !ok {
		return c
	}
	c.hash = h
	// The outer hash takes in the key's block and the 32 bytes of the inner sum, and pads them to a block.
	c.outerBlock[sha256.Size] = 0x80
	binary.BigEndian.PutUint64(c.outerBlock[sha256.BlockSize-8:], (sha256.BlockSize+sha256.Size)*8)
	if !c.sound() {
		c.hash = nil
	}
	return c
}

// sound compares the fast way with crypto/hmac, since the format of the state may change.
func (c *checker) sound() bool {
	k := newKey(canonical.SecretText, "a key of no importance")
	if k.inner == nil || k.outer == nil {
		return false
	}
	for _, length := range []int{0, 55, 56, 64, 200} {
		text := bytes.Repeat([]byte{'x'}, length)
		mac := hmac.New(sha256.New, []byte(k.secret))
		_, _ = mac.Write(text)
		buf := make([]byte, length, length+paddingSpace)
		copy(buf, text)
		if string(c.sum(&k, k.inner, 0, buf, length)) != string(mac.Sum(nil)) {
			return false
		}
	}
	return true
}

// paddingSpace is how many bytes the padding of a text may take.
const paddingSpace = 2 * sha256.BlockSize

// matches reports whether the HMAC of buf[:n] is wanted. state is that of the inner hash after buf[:done], where done
// is a multiple of the block size. It overwrites up to paddingSpace bytes of buf after n.
func (c *checker) matches(k *key, state []byte, done int, buf []byte, n int) bool {
	var sum []byte
	if c.hash == nil {
		sum = c.plainSum(k, buf[:n])
	} else {
		sum = c.sum(k, state, done, buf, n)
	}
	if !c.first[sum[0]] {
		return false
	}
	_, found := slices.BinarySearch(c.wanted, string(sum))
	return found
}

// want sets the wanted sums.
func (c *checker) want(sums []string) {
	c.wanted, c.first = slices.Clone(sums), [256]bool{}
	slices.Sort(c.wanted)
	for _, sum := range sums {
		c.first[sum[0]] = true
	}
}

// sum returns the HMAC, in bytes that the next call overwrites.
func (c *checker) sum(k *key, state []byte, done int, buf []byte, n int) []byte {
	end := done + (n-done+1+8+sha256.BlockSize-1)&^(sha256.BlockSize-1)
	buf = buf[:end]
	buf[n] = 0x80
	clear(buf[n+1 : end-8])
	binary.BigEndian.PutUint64(buf[end-8:], uint64(sha256.BlockSize+n)*8) //nolint:gosec // lengths are positive

	c.load(state, buf[done:end])
	copy(c.outerBlock[:], c.state[wordsAt:wordsAt+sha256.Size])
	c.load(k.outer, c.outerBlock[:])
	return c.state[wordsAt : wordsAt+sha256.Size]
}

// load restores a state, hashes whole blocks, and saves the new state in c.state.
func (c *checker) load(state, blocks []byte) {
	_ = c.hash.UnmarshalBinary(state) // sound has seen that states can be taken up
	_, _ = c.hash.Write(blocks)
	c.state, _ = c.hash.AppendBinary(c.state[:0])
}

// stateAt hashes the whole blocks of buf[done:n] and appends the state to dst.
func (c *checker) stateAt(dst, state []byte, done int, buf []byte, n int) (_ []byte, newDone int) {
	whole := (n - done) &^ (sha256.BlockSize - 1)
	if whole == 0 || c.hash == nil {
		return append(dst, state...), done
	}
	c.load(state, buf[done:done+whole])
	return append(dst, c.state...), done + whole
}

func (c *checker) plainSum(k *key, text []byte) []byte {
	if c.plain == nil || c.plainKey != k.secret {
		c.plain, c.plainKey = hmac.New(sha256.New, []byte(k.secret)), k.secret
	}
	c.plain.Reset()
	_, _ = c.plain.Write(text)
	c.state = c.plain.Sum(c.state[:0])
	return c.state
}
