package canonical

import (
	"crypto/md5"  //nolint:gosec // some services sign the MD5 of a body; HMAC-SHA256 protects the message
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"sync"

	"github.com/paymentsvc/paymentsvc"
)

// BodySHA256 appends the SHA-256 of the body in lower-case hexadecimal. The error is always nil.
func BodySHA256(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	sum := sha256.Sum256(m.Body)
	return hex.AppendEncode(dst, sum[:]), nil
}

// Encode returns part in an encoding, for example Encode(base64.StdEncoding, Body). Both arguments are required.
func Encode(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return digest("Encode", enc, part, nil)
}

// SHA256 returns the SHA-256 of part in an encoding. Both arguments are required.
func SHA256(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return digest("SHA256", enc, part, sha256.New)
}

// SHA512 returns the SHA-512 of part in an encoding. Both arguments are required.
func SHA512(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return digest("SHA512", enc, part, sha512.New)
}

// SHA1 returns the SHA-1 of part in an encoding. Both arguments are required.
func SHA1(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return digest("SHA1", enc, part, sha1.New)
}

// MD5 returns the MD5 of part in an encoding. Both arguments are required.
func MD5(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return digest("MD5", enc, part, md5.New)
}

// digest returns a part that encodes the digest of part, or part itself if newHash is nil. The part reuses two buffers
// and a hash, so a call usually does not allocate.
func digest(
	name string, enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc, newHash func() hash.Hash,
) paymentsvc.CanonicalFunc {
	type buffer struct {
		src, sum []byte
		hash     hash.Hash
	}
	buffers := sync.Pool{New: func() any {
		if newHash == nil {
			return new(buffer)
		}
		return &buffer{hash: newHash()}
	}}
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if enc == nil || part == nil {
			return nil, fmt.Errorf("canonical: %s needs an encoding and a part", name)
		}
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		src, err := appendPart(b.src[:0], part, m)
		if err != nil {
			return nil, err
		}
		b.src = src
		if b.hash == nil {
			return enc.AppendEncode(dst, src), nil
		}
		b.hash.Reset()
		_, _ = b.hash.Write(src)
		b.sum = b.hash.Sum(b.sum[:0])
		return enc.AppendEncode(dst, b.sum), nil
	}
}

// Raw is the encoding that keeps the bytes unchanged, for services that sign the bytes of a digest.
var Raw paymentsvc.Encoding = rawEncoding{}

type rawEncoding struct{}

// AppendEncode appends src.
func (rawEncoding) AppendEncode(dst, src []byte) []byte { return append(dst, src...) }

// Prefixed returns an encoding with a fixed text at the start, for signatures such as "sha256=…".
func Prefixed(prefix string, enc paymentsvc.Encoding) paymentsvc.Encoding {
	return prefixedEncoding{prefix, enc}
}

type prefixedEncoding struct {
	prefix string
	inner  paymentsvc.Encoding
}

// AppendEncode appends the prefix, then src in the inner encoding.
func (e prefixedEncoding) AppendEncode(dst, src []byte) []byte {
	return e.inner.AppendEncode(append(dst, e.prefix...), src)
}

// Chain returns an encoding that applies each encoding to the output of the previous one. For example,
// Chain(paymentsvc.Hex, base64.StdEncoding) is the base64 of the hexadecimal text.
func Chain(encodings ...paymentsvc.Encoding) paymentsvc.Encoding {
	return chainEncoding(slices.Clone(encodings))
}

type chainEncoding []paymentsvc.Encoding

// AppendEncode applies the encodings to src in order, and appends the result.
func (e chainEncoding) AppendEncode(dst, src []byte) []byte {
	for i, encoding := range e {
		if i == len(e)-1 {
			return encoding.AppendEncode(dst, src)
		}
		src = encoding.AppendEncode(nil, src)
	}
	return append(dst, src...)
}
