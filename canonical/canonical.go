// Package canonical has parts to compose a canonical string from: the text that a signature of the Payment
// Service runs over, whose composition the interface document does not show (section 5). Which parts, in which
// order and with what between them is for you to find out from the service, and to say:
//
//	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
//
// Parts append to dst and allocate nothing of their own.
package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
)

// Timestamp is the timestamp header's text: Unix time in seconds.
func Timestamp(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Timestamp...), nil
}

// Method is the HTTP method in upper case, such as POST.
func Method(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Method...), nil
}

// Path is the address's path as it is sent, with escapes and with the path of the base address. It is an error
// for a notification that came without its address, as through Webhook.Verify and Webhook.Parse.
func Path(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, errors.New("canonical: Path needs the address, which this message came without")
	}
	return append(dst, m.URL.EscapedPath()...), nil
}

// Body is the body, byte for byte.
func Body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Body...), nil
}

// BodySHA256 is the SHA-256 of the body as hexadecimal in lower case.
func BodySHA256(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	sum := sha256.Sum256(m.Body)
	return hex.AppendEncode(dst, sum[:]), nil
}

// Literal is the text s.
func Literal(s string) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		return append(dst, s...), nil
	}
}

// Join puts parts one behind another with sep between them. The error of a part is the error of the whole.
func Join(sep string, parts ...paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		for i, part := range parts {
			if i > 0 {
				dst = append(dst, sep...)
			}
			if part == nil {
				return nil, fmt.Errorf("canonical: part %d of Join is nil", i+1)
			}
			var err error
			if dst, err = part(dst, m); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
}
