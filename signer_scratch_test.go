package paymentsvc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// A canonical string that is the body and nothing else tempts a function to return the body itself. A signer keeps
// what it works with, and must not take the caller's body for its own.
func TestSigningWritesOverNoBody(t *testing.T) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
				if m.Method == http.MethodPost {
					return m.Body, nil
				}
				return append(dst, "another text"...), nil
			},
			Encoding: paymentsvc.Hex,
		},
		Secret: testSecret,
	})
	require.NoError(t, err)
	sign := func(method string, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost", nil)
		require.NoError(t, err)
		require.NoError(t, signer.Sign(req, body))
	}
	for _, body := range []string{"{}", paymentAnswer, strings.Repeat("a", 1000)} {
		signed := []byte(body)
		sign(http.MethodPost, signed)
		for range 20 { // a pool need not give at once what was put into it last
			sign(http.MethodPut, nil)
		}
		assert.Equal(t, body, string(signed))
	}
}
