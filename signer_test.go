package paymentsvc_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// vector is a message signed by openssl, from testdata/make-vectors.sh.
type vector struct {
	Name        string              `json:"name"`
	Secret      string              `json:"secret"`
	Composition string              `json:"composition"`
	Encoding    string              `json:"encoding"`
	Path        string              `json:"path"`
	Timestamp   string              `json:"timestamp"`
	Body        string              `json:"body"`
	Canonical   string              `json:"canonical"`
	Command     string              `json:"command"`
	Signature   string              `json:"signature"`
	scheme      paymentsvc.Scheme   // of Composition and Encoding
	message     *paymentsvc.Message // with KindRequest
}

// vectors reads the vectors of requests and notifications.
func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var list []vector
	require.NoError(t, decoder.Decode(&list))
	require.NotEmpty(t, list)

	compositions := map[string]paymentsvc.CanonicalFunc{
		`body`:            canonical.Body,
		`timestamp.body`:  canonical.Join(".", canonical.Timestamp, canonical.Body),
		`timestamp\nbody`: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		`method\npath\ntimestamp\nbody`: canonical.Join(
			"\n", canonical.Method, canonical.Path, canonical.Timestamp, canonical.Body,
		),
		`method path timestamp sha256(body)`: canonical.Join(" ",
			canonical.Method, canonical.Path, canonical.Timestamp, canonical.BodySHA256),
	}
	encodings := map[string]paymentsvc.Encoding{
		"hex": paymentsvc.Hex, "hex-upper": paymentsvc.HexUpper,
		"base64": base64.StdEncoding, "base64-raw": base64.RawStdEncoding,
		"base64url": base64.URLEncoding, "base64url-raw": base64.RawURLEncoding,
	}
	for i := range list {
		v := &list[i]
		v.scheme = paymentsvc.Scheme{Canonical: compositions[v.Composition], Encoding: encodings[v.Encoding]}
		address, err := url.Parse("https://pay.example.com" + v.Path)
		require.NoError(t, err)
		v.message = &paymentsvc.Message{
			Method: http.MethodPost, URL: address, Timestamp: v.Timestamp, Body: []byte(v.Body),
		}
	}
	return list
}

func TestSignerMatchesOpenSSL(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			text, err := v.scheme.Canonical(nil, v.message)
			require.NoError(t, err)
			require.Equal(t, v.Canonical, string(text))

			signature, err := v.scheme.Signature(paymentsvc.Secret(v.Secret), v.message)
			require.NoError(t, err)
			assert.Equal(t, v.Signature, signature)

			seconds, err := strconv.ParseInt(v.Timestamp, 10, 64)
			require.NoError(t, err)
			signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
				Scheme: v.scheme, Secret: paymentsvc.Secret(v.Secret),
				Now: func() time.Time { return time.Unix(seconds, 999) },
			})
			require.NoError(t, err)
			for range 2 { // the second time with reused buffers
				r := &http.Request{Method: http.MethodPost, URL: v.message.URL}
				require.NoError(t, signer.Sign(r, []byte(v.Body)))
				assert.Equal(t, http.Header{"Timestamp": {v.Timestamp}, "Signature": {v.Signature}}, r.Header)
			}
		})
	}
}

func TestWebhookAcceptsOpenSSLSignatures(t *testing.T) {
	events := map[paymentsvc.EventType]int{}
	for _, v := range vectors(t) {
		if !strings.Contains(v.Body, `"event"`) {
			continue // a request
		}
		t.Run(v.Name, func(t *testing.T) {
			webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
				Scheme: v.scheme, Secrets: []paymentsvc.Secret{"a newer key", paymentsvc.Secret(v.Secret)},
				Tolerance: paymentsvc.AnyAge,
			})
			require.NoError(t, err)
			deliver := func(body string) (*paymentsvc.Notification, error) {
				r := httptest.NewRequest(http.MethodPost, v.Path, strings.NewReader(body))
				r.Header = http.Header{"Timestamp": {v.Timestamp}, "Signature": {v.Signature}}
				return webhook.ParseRequest(r)
			}
			n, err := deliver(v.Body)
			require.NoError(t, err)
			assert.Equal(t, v.Body, string(n.Raw))
			assert.Equal(t, 1, n.SecretIndex)
			events[n.Event]++

			_, err = deliver(v.Body + " ")
			require.ErrorIs(t, err, paymentsvc.ErrSignatureMismatch)
		})
	}
	assert.Len(t, events, 3, "all three events")
}

func TestNewHMACSignerNamesInvalidField(t *testing.T) {
	for _, test := range []struct {
		name, field string
		change      func(*paymentsvc.HMACConfig)
	}{
		{"no Canonical", "Scheme.Canonical", func(c *paymentsvc.HMACConfig) { c.Scheme.Canonical = nil }},
		{"no Encoding", "Scheme.Encoding", func(c *paymentsvc.HMACConfig) { c.Scheme.Encoding = nil }},
		{"a nil *base64.Encoding", "Scheme.Encoding", func(c *paymentsvc.HMACConfig) {
			c.Scheme.Encoding = (*base64.Encoding)(nil)
		}},
		{"no secret", "Secret", func(c *paymentsvc.HMACConfig) { c.Secret = "" }},
		{"the placeholder of a secret", "Secret", func(c *paymentsvc.HMACConfig) {
			c.Secret = paymentsvc.Secret(fmt.Sprint(testSecret))
		}},
		{"a secret of NULs, equal to the empty key", "Secret", func(c *paymentsvc.HMACConfig) {
			c.Secret = "\x00\x00"
		}},
		{"a secret of white space", "Secret", func(c *paymentsvc.HMACConfig) {
			c.Secret = " \t\r\n\v\u00a0\ufeff\x00"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := paymentsvc.HMACConfig{Scheme: testScheme(), Secret: testSecret}
			test.change(&c)
			signer, err := paymentsvc.NewHMACSigner(c)
			assert.Nil(t, signer)
			require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.Contains(t, err.Error(), ": "+test.field+": ")

			signature, err := c.Scheme.Signature(c.Secret, &paymentsvc.Message{URL: &url.URL{}})
			assert.Empty(t, signature)
			require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.Contains(t, err.Error(), ": "+test.field+": ")
		})
	}
}

// A key file with a trailing line break is the most frequent mistake, and the service's 401 does not mention it.
func TestSecretRejectsTrailingLineBreak(t *testing.T) {
	for _, ending := range []string{"\n", "\r\n", "\r", "\n\n"} {
		secret := testSecret + paymentsvc.Secret(ending)
		hmac := paymentsvc.HMACConfig{Scheme: testScheme(), Secret: secret}
		_, err := paymentsvc.NewHMACSigner(hmac)
		require.EqualError(t, err, "paymentsvc: HMACConfig: invalid request: Secret: ends in a line break, "+
			"as a key read from a file often does: trim it, or set SecretEndsInLineBreak")
		hmac.SecretEndsInLineBreak = true
		signer, err := paymentsvc.NewHMACSigner(hmac)
		require.NoError(t, err)

		webhook := paymentsvc.WebhookConfig{
			Scheme: testScheme(), Secrets: []paymentsvc.Secret{testSecret, secret}, Tolerance: time.Minute,
		}
		_, err = paymentsvc.NewWebhook(webhook)
		require.ErrorContains(t, err, "Secrets[1]: ends in a line break")
		webhook.SecretEndsInLineBreak = true
		_, err = paymentsvc.NewWebhook(webhook)
		require.NoError(t, err)

		r := httptest.NewRequest(http.MethodPost, "/", nil)
		require.NoError(t, signer.Sign(r, nil))
		want, err := testScheme().Signature(secret, &paymentsvc.Message{
			Method: r.Method, URL: r.URL, Timestamp: r.Header.Get("Timestamp"),
		})
		require.NoError(t, err)
		assert.Equal(t, want, r.Header.Get("Signature"), "the line break is part of the key")
	}
	newSigner(t, testScheme(), "\x8f\x00 decoded bytes \r\n") // random bytes may end in a line break by chance
}

func TestSecretRejectsByteOrderMark(t *testing.T) {
	_, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: testScheme(), Secret: "\ufeff" + testSecret})
	require.EqualError(t, err, "paymentsvc: HMACConfig: invalid request: Secret: begins with a byte order mark, "+
		"which editors put before text: remove it")
	newSigner(t, testScheme(), "\ufeff decoded bytes \xff") // random bytes may begin like a byte order mark by chance
}

func TestSignerZeroValueReturnsError(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for _, signer := range []paymentsvc.Signer{(*paymentsvc.HMACSigner)(nil), &paymentsvc.HMACSigner{}} {
		require.ErrorContains(t, signer.Sign(r, nil), "nil or zero value: use New")
	}
	require.ErrorIs(t, paymentsvc.SignerFunc(nil).Sign(r, nil), paymentsvc.ErrInvalidRequest)
	require.ErrorIs(t, testSigner(t).Sign(nil, nil), paymentsvc.ErrInvalidRequest)
	errOfMine := errors.New("no key")
	failing := paymentsvc.SignerFunc(func(*http.Request, []byte) error { return errOfMine })
	require.Equal(t, errOfMine, failing.Sign(r, nil))
}

func TestSchemeCanonicalReceivesRequest(t *testing.T) {
	var seen paymentsvc.Message
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Encoding: paymentsvc.Hex,
			Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
				seen = *m
				seen.Header = m.Header.Clone()
				return dst, nil
			},
		},
		Secret: testSecret,
		Now:    func() time.Time { return time.Unix(1_700_000_000, 999_999_999).In(time.FixedZone("", 3600)) },
	})
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "https://pay.example.com/base/get_balance", nil)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Timestamp": {"1"}, "Signature": {"of an earlier attempt"},
	}
	body := []byte(`{"a":1}`)
	require.NoError(t, signer.Sign(r, body))
	assert.Equal(t, paymentsvc.Message{
		Kind:   paymentsvc.KindRequest,
		Method: http.MethodPost,
		URL:    r.URL,
		Header: http.Header{
			"Content-Type": {"application/json"}, "Timestamp": {"1700000000"}, "Signature": {"of an earlier attempt"},
		},
		Timestamp: "1700000000",
		Body:      body,
	}, seen)
	assert.Equal(t, []string{"1700000000"}, r.Header.Values("Timestamp"))
	require.Len(t, r.Header.Values("Signature"), 1)
	assert.Regexp(t, `^[0-9a-f]{64}$`, r.Header.Get("Signature"), "the new signature replaces the old one")
	assert.Equal(t, `{"a":1}`, string(body))
}

func TestSchemeCanonicalErrorLeavesRequestUnsigned(t *testing.T) {
	errOfMine := errors.New("no header X-Project")
	scheme := paymentsvc.Scheme{
		Encoding:  paymentsvc.Hex,
		Canonical: func([]byte, *paymentsvc.Message) ([]byte, error) { return nil, errOfMine },
	}
	signer := newSigner(t, scheme, testSecret)
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	require.ErrorIs(t, signer.Sign(r, nil), errOfMine)
	assert.Empty(t, r.Header.Values("Signature"))
	_, err := scheme.Signature(testSecret, &paymentsvc.Message{})
	require.ErrorIs(t, err, errOfMine)
}

// A function that returns the body itself, instead of appending it, violates the contract of CanonicalFunc. The client
// must not overwrite such a body, because it is sent or parsed later.
func TestSchemeCanonicalCannotOverwriteBody(t *testing.T) {
	canonical := func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		switch m.URL.Path {
		case "/append":
			return append(dst, "over and over and over and over"...), nil
		case "/nothing":
			return nil, nil
		case "/part":
			return m.Body[1:], nil
		default:
			return m.Body, nil
		}
	}
	signer := newSigner(t, paymentsvc.Scheme{Encoding: paymentsvc.Hex, Canonical: canonical}, testSecret)
	sign := func(path, body string) []byte {
		sent := []byte(body)
		require.NoError(t, signer.Sign(&http.Request{URL: &url.URL{Path: path}}, sent))
		return sent
	}
	for range 50 { // until the pool returns the memory of an earlier message
		for _, path := range []string{"/lazy", "/part", "/nothing"} {
			body := sign(path, `{"order_id":"1","of":"the earlier message"}`)
			sign("/append", "{}")
			require.Equal(t, `{"order_id":"1","of":"the earlier message"}`, string(body))
		}
	}
}
