package canonical

import (
	"crypto/md5"  //nolint:gosec // some services sign the MD5 of a body; HMAC-SHA256 protects the message
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
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
	return transform("Encode", enc, part, func(dst, src []byte) []byte { return append(dst, src...) })
}

// SHA256 returns the SHA-256 of part in an encoding. Both arguments are required.
func SHA256(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transform("SHA256", enc, part, func(dst, src []byte) []byte {
		sum := sha256.Sum256(src)
		return append(dst, sum[:]...)
	})
}

// SHA512 returns the SHA-512 of part in an encoding. Both arguments are required.
func SHA512(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transform("SHA512", enc, part, func(dst, src []byte) []byte {
		sum := sha512.Sum512(src)
		return append(dst, sum[:]...)
	})
}

// SHA1 returns the SHA-1 of part in an encoding. Both arguments are required.
func SHA1(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transform("SHA1", enc, part, func(dst, src []byte) []byte {
		sum := sha1.Sum(src) //nolint:gosec // see the imports
		return append(dst, sum[:]...)
	})
}

// MD5 returns the MD5 of part in an encoding. Both arguments are required.
func MD5(enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transform("MD5", enc, part, func(dst, src []byte) []byte {
		sum := md5.Sum(src) //nolint:gosec // see the imports
		return append(dst, sum[:]...)
	})
}

// transform returns a part that encodes the digest of part. It reuses two buffers, so a call does not allocate.
func transform(
	name string, enc paymentsvc.Encoding, part paymentsvc.CanonicalFunc, digest func(dst, src []byte) []byte,
) paymentsvc.CanonicalFunc {
	type buffer struct{ src, sum []byte }
	buffers := sync.Pool{New: func() any { return new(buffer) }}
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
		b.sum = digest(b.sum[:0], src)
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

// AppendEncode appends src after all encodings.
func (e chainEncoding) AppendEncode(dst, src []byte) []byte {
	for i, encoding := range e {
		if i == len(e)-1 {
			return encoding.AppendEncode(dst, src)
		}
		src = encoding.AppendEncode(nil, src)
	}
	return append(dst, src...)
}
