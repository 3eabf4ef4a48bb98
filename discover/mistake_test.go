package discover_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

func TestMistakeExplainsTheWrongSignature(t *testing.T) {
	const wanted = `hex(timestamp "." body)`
	for signedText, want := range map[string]string{
		`hex(body)`:                              "signed hex(body), want " + wanted,
		`hex(timestamp body)`:                    "signed hex(timestamp body), want " + wanted,
		`hex(timestamp ":" body)`:                `signed hex(timestamp ":" body), want ` + wanted,
		`hex(body "." timestamp)`:                `signed hex(body "." timestamp), want ` + wanted,
		`hex(timestamp "." path "." body)`:       `signed hex(timestamp "." path "." body), want ` + wanted,
		`base64(timestamp "." body)`:             `signed base64(timestamp "." body), want ` + wanted,
		`chain(hex, base64)(timestamp "." body)`: `signed chain(hex, base64)(timestamp "." body), want ` + wanted,
		`prefixed("sha256=", hex)(timestamp "." body)`: `signed prefixed("sha256=", hex)(timestamp "." body), want ` +
			wanted,
		`hex(timestamp "." body-sorted)`:                `signed hex(timestamp "." body-sorted), want ` + wanted,
		`hex(timestamp "." json(escape-slash))`:         `signed hex(timestamp "." json(escape-slash)), want ` + wanted,
		`hex(timestamp "." body), key sha256`:           `signed hex(timestamp "." body), key sha256, want ` + wanted,
		`hex(timestamp "." header("X-Nonce") "." body)`: `signed hex(timestamp "." header("X-Nonce") "." body), want ` + wanted,
	} {
		t.Run(signedText, func(t *testing.T) {
			m := post(cardURL, "1700000000", `{"z":"a/b","amount":10.50}`, "X-Nonce", "n-1")
			scheme, key, err := canonical.ParseSchemeWith(signedText, secret)
			require.NoError(t, err)
			signature, err := scheme.Signature(key, &m)
			require.NoError(t, err)
			got, explained := discover.Mistake(t.Context(), wanted, secret, discover.Sample{Message: m, Signature: signature})
			require.True(t, explained)
			require.Equal(t, want, got)
		})
	}
}

func TestMistakeExplainsTheWrongKey(t *testing.T) {
	const wanted = `hex(timestamp "." body)`
	m := post(cardURL, "1700000000", cardBody)
	scheme, err := canonical.ParseScheme(wanted)
	require.NoError(t, err)
	for key, words := range map[paymentsvc.Secret]string{
		"\ufeff" + secret: "a byte order mark and the secret", `"` + secret + `"`: "the secret in double quotes",
		secret + "\n": "the secret and a line break",
	} {
		text, err := scheme.Canonical(nil, &m)
		require.NoError(t, err)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write(text)
		s := discover.Sample{Message: m, Signature: hex.EncodeToString(mac.Sum(nil))}
		got, explained := discover.Mistake(t.Context(), wanted, secret, s)
		require.True(t, explained, words)
		require.Equal(t, "signed "+wanted+" with "+words+", want "+wanted, got)
	}
}

func TestMistakeExplainsOnlyWrongSignatures(t *testing.T) {
	const wanted = `hex(timestamp "." body)`
	m := post(cardURL, "1700000000", cardBody)
	scheme, err := canonical.ParseScheme(wanted)
	require.NoError(t, err)
	right, err := scheme.Signature(secret, &m)
	require.NoError(t, err)
	for name, signature := range map[string]string{"right": right, "unknown": strings.Repeat("ab", 32)} {
		_, explained := discover.Mistake(t.Context(), wanted, secret, discover.Sample{Message: m, Signature: signature})
		require.False(t, explained, name)
	}
	sha1 := base64.StdEncoding.EncodeToString(make([]byte, 20))
	got, explained := discover.Mistake(t.Context(), wanted, secret, discover.Sample{Message: m, Signature: sha1})
	require.True(t, explained)
	require.Contains(t, got, "the size of SHA-1")
}
