package paymentsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestNewWebhookNamesInvalidField(t *testing.T) {
	for _, test := range []struct {
		name, field string
		change      func(*paymentsvc.WebhookConfig)
	}{
		{"no Canonical", "Scheme.Canonical", func(c *paymentsvc.WebhookConfig) { c.Scheme.Canonical = nil }},
		{"nil Secrets", "Secrets", func(c *paymentsvc.WebhookConfig) { c.Secrets = nil }},
		{"an empty secret", "Secret", func(c *paymentsvc.WebhookConfig) { c.Secrets = []paymentsvc.Secret{""} }},
		{"an empty secret behind a good one", "Secrets[1]", func(c *paymentsvc.WebhookConfig) {
			c.Secrets = []paymentsvc.Secret{testSecret, ""}
		}},
		{"no Tolerance", "Tolerance", func(c *paymentsvc.WebhookConfig) { c.Tolerance = 0 }},
		{"a Tolerance of a second and a half", "Tolerance", func(c *paymentsvc.WebhookConfig) {
			c.Tolerance = 3 * time.Second / 2
		}},
		{"a negative Tolerance", "Tolerance", func(c *paymentsvc.WebhookConfig) { c.Tolerance = -time.Second }},
		{"the most negative Tolerance", "Tolerance", func(c *paymentsvc.WebhookConfig) { c.Tolerance = math.MinInt64 }},
		{"a negative MaxBodyBytes", "MaxBodyBytes", func(c *paymentsvc.WebhookConfig) { c.MaxBodyBytes = -1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := paymentsvc.WebhookConfig{
				Scheme: hookScheme(), Secrets: []paymentsvc.Secret{testSecret}, Tolerance: time.Minute,
			}
			test.change(&c)
			webhook, err := paymentsvc.NewWebhook(c)
			assert.Nil(t, webhook)
			require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.Contains(t, err.Error(), ": "+test.field)
		})
	}
}

func TestWebhookZeroValueReturnsError(t *testing.T) {
	for name, webhook := range map[string]*paymentsvc.Webhook{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			header := hookHeader(hookClockShown, hookBody)
			require.ErrorContains(t, webhook.Verify(header, []byte(hookBody)), "nil or zero value: use New")
			n, err := webhook.Parse(header, []byte(hookBody))
			require.ErrorContains(t, err, "nil or zero value: use New")
			assert.Nil(t, n)
			r := hookRequest(hookBody)
			n, err = webhook.ParseRequest(r)
			require.ErrorContains(t, err, "nil or zero value: use New")
			assert.Nil(t, n)
			unread(t, r, hookBody)
			answer := answerOf(webhook.Handler(neverCalled(t)), hookRequest(hookBody))
			assert.Equal(t, http.StatusInternalServerError, answer.Code, "a local fault, so the service may retry")
			assert.Equal(t, http.StatusMethodNotAllowed,
				answerOf(webhook.Handler(accept), httptest.NewRequest(http.MethodGet, "/", nil)).Code)
		})
	}
	t.Run("a nil function", func(t *testing.T) {
		var reason error
		answerOf(newHook(t, respondingInto(&reason)).Handler(nil), hookRequest(hookBody))
		require.ErrorIs(t, reason, paymentsvc.ErrInvalidRequest)
		assert.Equal(t, http.StatusInternalServerError, answerOf(newHook(t).Handler(nil), hookRequest(hookBody)).Code)
	})
}

// unread asserts that the body of r is still readable.
func unread(t testing.TB, r *http.Request, want string) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	//nolint:testifylint // Equal would print 70 KB
	assert.True(t, want == string(body), "the body has %d bytes, want the %d sent bytes", len(body), len(want))
}

func TestWebhookDecodesEveryField(t *testing.T) {
	want := paymentsvc.Notification{
		Event:             paymentsvc.EventPaymentStatusChanged,
		OrderID:           "o-1",
		Status:            2,
		StatusDescription: paymentsvc.StatusSuccess,
		StatusCode:        20,
		Amount:            paymentsvc.MustParseAmount("10.50"),
		UserData:          "order-1",
		Timestamp:         time.Unix(hookNow, 0),
		SecretIndex:       0,
		Raw:               json.RawMessage(hookBody),
	}
	header := hookHeader(hookClockShown, hookBody)
	require.NoError(t, newHook(t).Verify(header, []byte(hookBody)))
	n, err := newHook(t).Parse(header, []byte(hookBody))
	require.NoError(t, err)
	assert.Equal(t, want, *n)
	n, err = newHook(t).ParseRequest(hookRequest(hookBody))
	require.NoError(t, err)
	assert.Equal(t, want, *n)

	type key struct{}
	answer := answerOf(newHook(t).Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		assert.Equal(t, want, *n)
		assert.Equal(t, "of the request", ctx.Value(key{}))
		return nil
	}), hookRequest(hookBody).WithContext(context.WithValue(t.Context(), key{}, "of the request")))
	assert.Equal(t, http.StatusOK, answer.Code)
}

func TestWebhookTriesEverySecret(t *testing.T) {
	secrets := []paymentsvc.Secret{testSecret, hookOther, "a third key"}
	webhook := newHook(t, withSecrets(append(secrets, testSecret)...))
	for _, signer := range []int{0, 1, 2, 0, 2, 1, 1} { // one after the other on one Webhook
		n, err := webhook.Parse(http.Header{
			"Timestamp": {hookClockShown}, "Signature": {plainSignature(secrets[signer], hookClockShown, hookBody)},
		}, []byte(hookBody))
		require.NoError(t, err)
		assert.Equal(t, signer, n.SecretIndex, "the first match")
	}
	others := newHook(t, withSecrets(secrets[1:]...))
	isOnly(t, others.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)), paymentsvc.ErrSignatureMismatch)
}

func TestWebhookCopiesSecrets(t *testing.T) {
	list := []paymentsvc.Secret{testSecret}
	webhook := newHook(t, withSecrets(list...))
	list[0] = hookOther
	require.NoError(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)))
}

func TestWebhookRequiresOneValuePerHeader(t *testing.T) {
	right := hookHeader(hookClockShown, hookBody)
	for _, name := range []string{"Timestamp", "Signature"} {
		value := right.Get(name)
		for _, test := range []struct {
			name   string
			change func(http.Header)
			want   error
		}{
			{"none", func(h http.Header) { delete(h, name) }, paymentsvc.ErrMissingHeader},
			{"a name without values", func(h http.Header) { h[name] = nil }, paymentsvc.ErrMissingHeader},
			{"an empty value", func(h http.Header) { h.Set(name, "") }, paymentsvc.ErrMalformedHeader},
			{"the value twice", func(h http.Header) { h.Add(name, value) }, paymentsvc.ErrMalformedHeader},
			{"another value behind it", func(h http.Header) { h.Add(name, "1") }, paymentsvc.ErrMalformedHeader},
			{"another value before it", func(h http.Header) {
				h[name] = []string{"1", value}
			}, paymentsvc.ErrMalformedHeader},
			{"an empty value behind it", func(h http.Header) { h.Add(name, "") }, paymentsvc.ErrMalformedHeader},
			{
				"a second one in lower case", func(h http.Header) { h[strings.ToLower(name)] = []string{value} },
				paymentsvc.ErrMalformedHeader,
			},
			{"two in other letter cases", func(h http.Header) {
				delete(h, name)
				h[strings.ToLower(name)], h[strings.ToUpper(name)] = []string{value}, []string{value}
			}, paymentsvc.ErrMalformedHeader},
			{"one in upper case", func(h http.Header) {
				delete(h, name)
				h[strings.ToUpper(name)] = []string{value}
			}, nil},
			{"one and an empty list under another spelling", func(h http.Header) {
				h[strings.ToLower(name)] = []string{}
			}, nil},
			{"one and others with longer names", func(h http.Header) {
				h["X-"+name], h[name+"2"] = []string{"1"}, []string{"1"}
			}, nil},
		} {
			t.Run(strings.ToLower(name)+": "+test.name, func(t *testing.T) {
				header := right.Clone()
				test.change(header)
				err := newHook(t).Verify(header, []byte(hookBody))
				if test.want == nil {
					require.NoError(t, err)
					return
				}
				isOnly(t, err, test.want)
				assert.Contains(t, err.Error(), strings.ToLower(name), "the error contains the header's name")
				n, err := newHook(t).Parse(header, []byte(hookBody))
				isOnly(t, err, test.want)
				assert.Nil(t, n)
			})
		}
	}
	isOnly(t, newHook(t).Verify(nil, []byte(hookBody)), paymentsvc.ErrMissingHeader)
}

func TestWebhookRejectsTimestampsOtherThanUnixSeconds(t *testing.T) {
	for timestamp, reason := range map[string]string{
		"":                      "empty",
		"+5":                    "not digits, want Unix time in seconds",
		"1700000000\n":          "not digits, want Unix time in seconds",
		"-0":                    "not digits, want Unix time in seconds",
		"1e9":                   "not digits, want Unix time in seconds",
		"１７００００００００":            "not digits, want Unix time in seconds",
		"0":                     "0, want Unix time in seconds",
		"007":                   "leading zeros, want Unix time in seconds",
		"1795908604000":         "in milliseconds, want Unix time in seconds",
		"1795908604000000":      "in microseconds, want Unix time in seconds",
		"1795908604000000000":   "in nanoseconds, want Unix time in seconds",
		"253402300800":          "too large for Unix time in seconds",
		strings.Repeat("9", 38): "too large for Unix time in seconds",
		"18446744073709551617":  "too large for Unix time in seconds", // 1 after an overflow
	} {
		// The signature is correct, so only the timestamp is wrong.
		err := newHook(t, anyAge).Verify(hookHeader(timestamp, hookBody), []byte(hookBody))
		isOnly(t, err, paymentsvc.ErrMalformedHeader)
		require.EqualError(t, err, "paymentsvc: notification: malformed header: timestamp: "+reason, "%q", timestamp)
	}
	for _, timestamp := range []string{"1", "1699999999", "253402300799"} {
		n, err := newHook(t, anyAge).Parse(hookHeader(timestamp, hookBody), []byte(hookBody))
		require.NoError(t, err, timestamp)
		assert.Equal(t, timestamp, strconv.FormatInt(n.Timestamp.Unix(), 10))
	}
}

func TestWebhookToleranceIsExactToSecond(t *testing.T) {
	const (
		late      = 999_999_999 // nanoseconds
		centuries = 300 * 366 * 86400
		year9999  = 253402300799
	)
	tooOld, tooNew := paymentsvc.ErrTimestampTooOld, paymentsvc.ErrTimestampTooNew
	for _, test := range []struct {
		name      string
		tolerance time.Duration
		clock     time.Time
		timestamp int64
		want      error
	}{
		{"now", hookTolerance, time.Unix(hookNow, 0), hookNow, nil},
		{"as old as is tolerated", hookTolerance, time.Unix(hookNow, 0), hookNow - 300, nil},
		{"a second older", hookTolerance, time.Unix(hookNow, 0), hookNow - 301, tooOld},
		{"as new as is tolerated", hookTolerance, time.Unix(hookNow, 0), hookNow + 300, nil},
		{"a second newer", hookTolerance, time.Unix(hookNow, 0), hookNow + 301, tooNew},
		{"as old as is tolerated, late in the second", hookTolerance, time.Unix(hookNow, late), hookNow - 300, nil},
		{"a second older, early in the second", hookTolerance, time.Unix(hookNow, 1), hookNow - 301, tooOld},
		{"as new as is tolerated, late in the second", hookTolerance, time.Unix(hookNow, late), hookNow + 300, nil},
		{"a second newer, late in the second", hookTolerance, time.Unix(hookNow, late), hookNow + 301, tooNew},
		{"a tolerance of one second, kept", time.Second, time.Unix(hookNow, 0), hookNow - 1, nil},
		{"a tolerance of one second, missed", time.Second, time.Unix(hookNow, 0), hookNow - 2, tooOld},
		{"the year 1970", hookTolerance, time.Unix(hookNow, 0), 1, tooOld},
		{"more ahead than a Duration holds", hookTolerance, time.Unix(hookNow, 0), hookNow + centuries, tooNew},
		{"the year 9999", hookTolerance, time.Unix(hookNow, 0), year9999, tooNew},
		{"a clock 300 years behind", hookTolerance, time.Unix(hookNow-centuries, 0), hookNow, tooNew},
		{"a clock 300 years ahead", hookTolerance, time.Unix(hookNow+centuries, 0), hookNow, tooOld},
		{"any age, long ago", paymentsvc.AnyAge, time.Unix(hookNow, 0), 1, nil},
		{"any age, the year 9999", paymentsvc.AnyAge, time.Unix(hookNow, 0), year9999, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
				c.Tolerance, c.Now = test.tolerance, func() time.Time { return test.clock }
			})
			header := hookHeader(strconv.FormatInt(test.timestamp, 10), hookBody)
			err := webhook.Verify(header, []byte(hookBody))
			require.Equal(t, test.want == nil, err == nil, err)
			isOnly(t, err, test.want)
		})
	}
	err := newHook(t).Verify(hookHeader("1700000301", hookBody), []byte(hookBody))
	require.EqualError(t, err, "paymentsvc: notification: timestamp too new: 5m1s ahead, tolerance 5m0s")
	err = newHook(t).Verify(hookHeader("1699999699", hookBody), []byte(hookBody))
	require.EqualError(t, err, "paymentsvc: notification: timestamp too old: 5m1s, tolerance 5m0s")
	err = newHook(t).Verify(hookHeader(strconv.Itoa(year9999), hookBody), []byte(hookBody))
	require.ErrorContains(t, err, "timestamp too new: more than 292 years ahead, tolerance 5m0s")
	ahead := func(c *paymentsvc.WebhookConfig) { c.Now = func() time.Time { return time.Unix(hookNow+centuries, 0) } }
	err = newHook(t, ahead).Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	require.ErrorContains(t, err, "timestamp too old: more than 292 years, tolerance 5m0s")
}

func TestWebhookUsesCurrentTimeByDefault(t *testing.T) {
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.Now = nil })
	now := strconv.FormatInt(time.Now().Unix(), 10)
	require.NoError(t, webhook.Verify(hookHeader(now, hookBody), []byte(hookBody)))
	isOnly(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)), paymentsvc.ErrTimestampTooOld)
}

func TestWebhookChecksSignatureBeforeAge(t *testing.T) {
	for _, timestamp := range []string{"1", "1800000000"} {
		header := hookHeader(timestamp, hookBody)
		header.Set("Signature", plainSignature(hookOther, timestamp, hookBody))
		isOnly(t, newHook(t).Verify(header, []byte(hookBody)), paymentsvc.ErrSignatureMismatch)
	}
}

// The webhook compares signatures as text. A lenient decoder would accept several spellings of the same bytes.
func TestWebhookRejectsOtherSpellingsOfSignature(t *testing.T) {
	encodings := map[string]paymentsvc.Encoding{
		"Hex": paymentsvc.Hex, "HexUpper": paymentsvc.HexUpper,
		"StdEncoding": base64.StdEncoding, "RawStdEncoding": base64.RawStdEncoding,
		"URLEncoding": base64.URLEncoding, "RawURLEncoding": base64.RawURLEncoding,
	}
	// Find a message with a different signature text in each encoding.
	var body string
	var sum []byte
	for i := 0; !strings.ContainsAny(base64.StdEncoding.EncodeToString(sum), "+/"); i++ {
		body = strings.Replace(hookBody, "o-1", strconv.Itoa(i), 1)
		var err error
		sum, err = hex.DecodeString(plainSignature(testSecret, hookClockShown, body))
		require.NoError(t, err)
	}
	for name, encoding := range encodings {
		webhook := newHook(t, withScheme(paymentsvc.Scheme{Canonical: hookScheme().Canonical, Encoding: encoding}))
		verify := func(signature string) error {
			return webhook.Verify(http.Header{"Timestamp": {hookClockShown}, "Signature": {signature}}, []byte(body))
		}
		right := string(encoding.AppendEncode(nil, sum))
		require.NoError(t, verify(right), name)

		spellings := []string{
			strings.ToUpper(right), strings.ToLower(right), strings.ToUpper(right[:1]) + right[1:],
			" " + right, right + " ", right + "\n", right[:20] + "\n" + right[20:],
			`"` + right + `"`, right + "," + right, right + "=", strings.TrimRight(right, "="),
			right[:len(right)-1], right + "0", string(sum),
		}
		if len(right) == 43 { // two bits of the last letter are not used, and a decoder ignores them
			spellings = append(spellings, right[:42]+string(right[42]+1))
		}
		for _, other := range encodings {
			spellings = append(spellings, string(other.AppendEncode(nil, sum)))
		}
		for _, spelled := range spellings {
			if spelled != right {
				isOnly(t, verify(spelled), paymentsvc.ErrSignatureMismatch)
				require.False(t, t.Failed(), "%s: %q passed", name, spelled)
			}
		}
	}
}

var alteredMessages = flag.Int("altered", 50_000, "messages that are altered after they were signed")

func TestWebhookRejectsAlteredMessages(t *testing.T) {
	webhook := newHook(t, anyAge, withSecrets(testSecret, hookOther)) // only the signature protects
	changes := []func(r *rand.Rand, text []byte) []byte{
		func(r *rand.Rand, text []byte) []byte { text[r.IntN(len(text))] ^= 1 << r.IntN(8); return text },
		func(r *rand.Rand, text []byte) []byte { text[r.IntN(len(text))] += byte(1 + r.IntN(255)); return text },
		func(r *rand.Rand, text []byte) []byte {
			return slices.Insert(text, r.IntN(len(text)+1), byte(r.IntN(256)))
		},
		func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text))] },
	}
	random := rand.New(rand.NewPCG(1, 1))
	signature := plainSignature(testSecret, hookClockShown, hookBody)
	require.NoError(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)))
	for i := range *alteredMessages {
		parts := [][]byte{[]byte(hookClockShown), []byte(signature), []byte(hookBody)}
		change := changes[i/len(parts)%len(changes)]
		parts[i%len(parts)] = change(random, parts[i%len(parts)])
		header := http.Header{"Timestamp": {string(parts[0])}, "Signature": {string(parts[1])}}
		n, err := webhook.Parse(header, parts[2])
		require.Nil(t, n, "%q", parts)
		require.True(t, isRejection(err), "%q: %v", parts, err)
	}
}

// isRejection reports whether err rejects a message for its headers, its signature or its empty body.
func isRejection(err error) bool {
	return errors.Is(err, paymentsvc.ErrSignatureMismatch) || errors.Is(err, paymentsvc.ErrMalformedHeader) ||
		errors.Is(err, paymentsvc.ErrEmptyBody)
}

// An attacker with a log of the partner's own requests has valid signatures under the same key. A Scheme that ignores
// Message.Kind accepts such a signature, so Parse must reject the body.
func TestWebhookRejectsClientRequests(t *testing.T) {
	var requests []*http.Request
	var bodies []string
	signer := newSigner(t, hookScheme(), testSecret)
	c := newClient(t, "https://pay.example.com", signedBy(signer),
		over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			requests, bodies = append(requests, r), append(bodies, string(body))
			return canned(http.StatusBadRequest, nil, ""), err
		})))
	for _, op := range operations {
		_, err := op.call(t, c)
		require.Error(t, err)
	}
	// A payer can put the text of a notification into a field of a request.
	forged := paymentRequest()
	forged.UserData = hookBody
	forged.CardData, forged.Payer = map[string]any{"event": "payment.status_changed"}, map[string]any{"order_id": "o-1"}
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, forged)
	require.Error(t, err)

	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.Now = time.Now })
	require.Len(t, requests, len(operations)+1)
	for i, r := range requests {
		require.NoError(t, webhook.Verify(r.Header, []byte(bodies[i])), "the signature is valid")
		n, err := webhook.Parse(r.Header, []byte(bodies[i]))
		isOnly(t, err, paymentsvc.ErrMalformedNotification)
		assert.Nil(t, n)
	}
}

// An encoding without output makes all signatures equal. The webhook must then reject every message.
func TestWebhookRejectsEmptySignatures(t *testing.T) {
	scheme := hookScheme()
	scheme.Encoding = encodingFunc(func(dst, _ []byte) []byte { return dst })
	webhook := newHook(t, withScheme(scheme))
	for _, signature := range []string{"", " ", "0", "\x00", plainSignature(testSecret, hookClockShown, hookBody)} {
		err := webhook.Verify(http.Header{"Timestamp": {hookClockShown}, "Signature": {signature}}, []byte(hookBody))
		require.Error(t, err, "%q", signature)
		assert.True(t, isRejection(err), "%q: %v", signature, err)
	}
}

func TestWebhookCanonicalReceivesNotification(t *testing.T) {
	var seen paymentsvc.Message
	scheme := paymentsvc.Scheme{
		Encoding: paymentsvc.Hex,
		Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
			seen = *m
			seen.Body = bytes.Clone(m.Body)
			return hookScheme().Canonical(dst, m)
		},
	}
	header := hookHeader(hookClockShown, hookBody)
	header.Set("X-Project", "7")
	webhook := newHook(t, withScheme(scheme))
	want := paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: http.MethodPost, Header: header, Timestamp: hookClockShown,
		Body: []byte(hookBody),
	}

	require.NoError(t, webhook.Verify(header, []byte(hookBody)))
	assert.Equal(t, want, seen)
	seen = paymentsvc.Message{}
	_, err := webhook.Parse(header, []byte(hookBody))
	require.NoError(t, err)
	assert.Equal(t, want, seen)

	r := httptest.NewRequest(http.MethodPut, "/a%2Fb/c?d=e&f", strings.NewReader(hookBody))
	r.Header = header
	_, err = webhook.ParseRequest(r)
	require.NoError(t, err)
	want.Method, want.URL = http.MethodPut, &url.URL{
		Host: "example.com", Path: "/a/b/c", RawPath: "/a%2Fb/c", RawQuery: "d=e&f",
	}
	assert.Equal(t, want, seen)

	r = httptest.NewRequest(http.MethodPost, "http://other.example/a", strings.NewReader(hookBody))
	r.Header, r.Host = header, "example.com" // a middleware's setting
	_, err = webhook.ParseRequest(r)
	require.NoError(t, err)
	assert.Equal(t, "http://example.com/a", seen.URL.String())

	r, err = http.NewRequest(http.MethodPost, "https://partner.example/a?b=c", strings.NewReader(hookBody))
	require.NoError(t, err)
	r.Header = header // no server has read this request
	_, err = webhook.ParseRequest(r)
	require.NoError(t, err)
	assert.Equal(t, r.URL, seen.URL)
	assert.NotSame(t, r.URL, seen.URL)
	r.URL = nil
	_, err = webhook.ParseRequest(r)
	require.NoError(t, err)
	assert.Nil(t, seen.URL)
}

func TestWebhookReturnsErrorOfCanonical(t *testing.T) {
	errOfMine := errors.New("no header X-Project")
	webhook := newHook(t, withScheme(paymentsvc.Scheme{
		Encoding:  paymentsvc.Hex,
		Canonical: func([]byte, *paymentsvc.Message) ([]byte, error) { return nil, errOfMine },
	}))
	err := webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	require.ErrorIs(t, err, errOfMine)
	isOnly(t, err, nil)
	_, err = webhook.ParseRequest(hookRequest(hookBody))
	require.ErrorIs(t, err, errOfMine)
}

// A Canonical may append to Message.Body. The bytes after the body may belong to another notification.
func TestWebhookCanonicalCannotWriteBehindBody(t *testing.T) {
	buffer := []byte(hookBody + "the next request in the same buffer")
	kept := bytes.Clone(buffer)
	scheme := hookScheme()
	canonical := scheme.Canonical
	scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		_ = append(m.Body, "written behind the body"...)
		return canonical(dst, m)
	}
	webhook := newHook(t, withScheme(scheme))
	require.NoError(t, webhook.Verify(hookHeader(hookClockShown, hookBody), buffer[:len(hookBody)]))
	assert.Equal(t, string(kept), string(buffer))
}

func TestWebhookCopiesBody(t *testing.T) {
	header, buffer := hookHeader(hookClockShown, hookBody), []byte(hookBody)
	n, err := newHook(t).Parse(header, buffer)
	require.NoError(t, err)
	key := n.Key()
	broken := []byte(`{"order_id":"o-1"}`)
	_, err = newHook(t).Parse(hookHeader(hookClockShown, string(broken)), broken)
	var malformed *paymentsvc.NotificationError
	require.ErrorAs(t, err, &malformed)

	for i := range buffer {
		buffer[i] = 'x'
	}
	for i := range broken {
		broken[i] = 'x'
	}
	header.Set("Timestamp", "x")
	assert.Equal(t, hookBody, string(n.Raw))
	assert.Equal(t, key, n.Key())
	assert.Equal(t, `{"order_id":"o-1"}`, string(malformed.Raw))
}

func TestWebhookUsesRequestedAddressBehindRouters(t *testing.T) {
	const path = "/hooks/in/v1%2F2/notifications"
	webhook := newHook(t, withScheme(testScheme()))
	handled := 0
	handler := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { handled++; return nil })
	routers := map[string]http.Handler{
		"no router":   handler,
		"StripPrefix": http.StripPrefix("/hooks", handler),
		"a router that rewrites the address": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL = &url.URL{Path: "/"}
			handler.ServeHTTP(w, r)
		}),
	}
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(router)
			defer server.Close()
			handled = 0
			for _, signed := range []struct {
				path string
				want int
			}{{path, http.StatusOK}, {"/notifications", http.StatusUnauthorized}} {
				header := http.Header{"Timestamp": {hookClockShown}}
				address, err := url.Parse(signed.path)
				require.NoError(t, err)
				signature, err := testScheme().Signature(testSecret, &paymentsvc.Message{
					Kind: paymentsvc.KindNotification, Method: http.MethodPost, URL: address,
					Header: header, Timestamp: hookClockShown, Body: []byte(hookBody),
				})
				require.NoError(t, err)
				header.Set("Signature", signature)
				assert.Equal(t, signed.want, post(t, server, path, header, strings.NewReader(hookBody)))
			}
			assert.Equal(t, 1, handled)
		})
	}
}

// post sends a notification to server and returns the status of the response.
func post(t testing.TB, server *httptest.Server, path string, header http.Header, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, body)
	require.NoError(t, err)
	r.Header = header
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	return answer.StatusCode
}

// hookFault is a rejected delivery with its sentinel and Handler's status.
type hookFault struct {
	name   string
	want   error
	status int
	make   func() *http.Request
	body   string // readable after the call
}

// hookFaults returns a delivery for each reason of a rejection.
func hookFaults() []hookFault {
	changed := func(body string, change func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := hookRequest(body)
			change(r)
			return r
		}
	}
	large := strings.Replace(hookBody, "o-1", strings.Repeat("o", hookBodyLimit), 1)
	return []hookFault{
		{"no timestamp", paymentsvc.ErrMissingHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Del("Timestamp") }), hookBody},
		{"no signature", paymentsvc.ErrMissingHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Del("Signature") }), hookBody},
		{"two signatures", paymentsvc.ErrMalformedHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Add("Signature", "a") }), hookBody},
		{"an invalid timestamp", paymentsvc.ErrMalformedHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1e9", hookBody) }), hookBody},
		{"a forged signature", paymentsvc.ErrSignatureMismatch, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) {
				r.Header.Set("Signature", plainSignature(hookOther, hookClockShown, hookBody))
			}), hookBody},
		{"a forged signature of an invalid body", paymentsvc.ErrSignatureMismatch, http.StatusUnauthorized,
			changed("no JSON", func(r *http.Request) { r.Header.Set("Signature", "a") }), "no JSON"},
		{"too old", paymentsvc.ErrTimestampTooOld, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1699999699", hookBody) }), hookBody},
		{"too new", paymentsvc.ErrTimestampTooNew, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1700000301", hookBody) }), hookBody},
		{"an empty body", paymentsvc.ErrEmptyBody, http.StatusBadRequest,
			changed("", func(*http.Request) {}), ""},
		{"an already read body", paymentsvc.ErrEmptyBody, http.StatusBadRequest,
			changed(hookBody, func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), ""},
		{"a signed body without JSON", paymentsvc.ErrMalformedNotification, http.StatusBadRequest,
			changed("no JSON", func(*http.Request) {}), "no JSON"},
		{"a signed object without fields", paymentsvc.ErrMalformedNotification, http.StatusBadRequest,
			changed("{}", func(*http.Request) {}), "{}"},
		{"a large body of known length", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(large, func(*http.Request) {}), large},
		{"a large body of unknown length", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(large, func(r *http.Request) { r.ContentLength = -1 }), large},
		{"a small body with a large declared length", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(hookBody, func(r *http.Request) { r.ContentLength = hookBodyLimit + 1 }), hookBody},
	}
}

func TestWebhookReportsEachFault(t *testing.T) {
	type call struct {
		request *http.Request
		err     error
	}
	var calls []call
	noting := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.OnError = func(r *http.Request, err error) { calls = append(calls, call{r, err}) }
	})
	responding := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(w http.ResponseWriter, r *http.Request, err error) {
			calls = append(calls, call{r, err})
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"taken":true}`)
		}
	})
	faults := append(hookFaults(), hookFault{
		"success", nil, http.StatusOK, func() *http.Request { return hookRequest(hookBody) }, hookBody,
	})
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			function, is := neverCalled(t), func(err error) { isOnly(t, err, fault.want) }
			if fault.want == nil {
				function, is = accept, func(err error) { require.NoError(t, err) }
			}
			r := fault.make()
			closer := &closeCounter{ReadCloser: r.Body}
			r.Body = closer
			n, err := newHook(t).ParseRequest(r)
			is(err)
			assert.Equal(t, fault.want == nil, n != nil)
			unread(t, r, fault.body)
			require.NoError(t, r.Body.Close())
			assert.Equal(t, 1, closer.closed, "closing closes the request's own body")

			calls, r = nil, fault.make()
			answer := answerOf(noting.Handler(function), r)
			assert.Equal(t, fault.status, answer.Code)
			rest := fault.status == http.StatusRequestEntityTooLarge
			assert.Equal(t, rest, answer.Header().Get("Connection") == "close", "the server must not read the rest")
			if fault.want == nil {
				assert.Empty(t, answer.Body.String())
				assert.Empty(t, calls, "a success is no error")
			} else {
				assert.Equal(t, http.StatusText(fault.status)+"\n", answer.Body.String(), "only the status")
				require.Len(t, calls, 1)
				assert.Same(t, r, calls[0].request)
				is(calls[0].err)
			}

			calls, r = nil, fault.make()
			answer = answerOf(responding.Handler(function), r)
			assert.Equal(t, http.StatusAccepted, answer.Code)
			assert.Equal(t, `{"taken":true}`, answer.Body.String(), "and nothing else")
			require.Len(t, calls, 1)
			assert.Same(t, r, calls[0].request)
			is(calls[0].err)
		})
	}
}

func TestWebhookLeavesTruncatedBodyReadable(t *testing.T) {
	r := hookRequest(hookBody)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(hookBody[:40]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	_, err := newHook(t).ParseRequest(r)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	isOnly(t, err, nil)
	body, err := io.ReadAll(r.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, hookBody[:40], string(body))
}

type closeCounter struct {
	io.ReadCloser
	closed int
}

func (c *closeCounter) Close() error {
	c.closed++
	return c.ReadCloser.Close()
}

func TestWebhookReportsEmptyBody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		_, err := newHook(t).Parse(hookHeader(hookClockShown, ""), nil)
		isOnly(t, err, paymentsvc.ErrEmptyBody)
		r := hookRequest(hookBody)
		r.Body = body // like a middleware that does not restore the body
		_, err = newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrEmptyBody)
		assert.Contains(t, err.Error(), "already read", "the error mentions the likely cause")
	}
}

// endless is a body that counts the bytes read. It ends after 16 MiB, in case the reader has no limit.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 16<<20 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'a'
	}
	e.read += len(p)
	return len(p), nil
}

func TestWebhookLimitsBody(t *testing.T) {
	padded := func(size int) string { return hookBody + strings.Repeat(" ", size-len(hookBody)) }
	for _, test := range []struct {
		name  string
		limit int64
		size  int
		want  error
	}{
		{"64 KiB pass", 0, 64 << 10, nil},
		{"a byte more does not", 0, 64<<10 + 1, paymentsvc.ErrBodyTooLarge},
		{"a higher limit", 1 << 20, 1 << 20, nil},
		{"a byte more than the higher limit", 1 << 20, 1<<20 + 1, paymentsvc.ErrBodyTooLarge},
		{"the highest limit", math.MaxInt64, 1 << 20, nil},
		{"a limit of one byte", 1, 200, paymentsvc.ErrBodyTooLarge},
	} {
		for _, declared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, declared: %t", test.name, declared), func(t *testing.T) {
				webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.MaxBodyBytes = test.limit })
				r := hookRequest(padded(test.size))
				if !declared {
					r.ContentLength = -1
				}
				n, err := webhook.ParseRequest(r)
				if test.want == nil {
					require.NoError(t, err)
					assert.Len(t, n.Raw, test.size)
					return
				}
				isOnly(t, err, test.want)
			})
		}
	}
	for declared, read := range map[int64]int{-1: hookBodyLimit + 1, hookBodyLimit + 1: 0} {
		body := &endless{}
		r := hookRequest(hookBody)
		r.Body, r.ContentLength = io.NopCloser(body), declared
		_, err := newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrBodyTooLarge)
		assert.Equal(t, read, body.read, "bytes read of an endless body, declared length %d", declared)
	}
	t.Run("Verify and Parse have no limit", func(t *testing.T) {
		body := padded(1 << 20)
		require.NoError(t, newHook(t).Verify(hookHeader(hookClockShown, body), []byte(body)))
	})
}

func TestWebhookReportsBodyCutByMaxBytesHandler(t *testing.T) {
	limited := http.MaxBytesHandler(newHook(t).Handler(accept), int64(len(hookBody)-1))
	assert.Equal(t, http.StatusRequestEntityTooLarge, answerOf(limited, hookRequest(hookBody)).Code)
}

// dialHook opens a connection to h and sends the head of a notification with the signature of hookBody.
func dialHook(t testing.TB, h http.Handler, header ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(newServer(t, h), "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	write(conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: partner.example\r\nTimestamp: %s\r\nSignature: %s\r\n%s\r\n\r\n",
		hookClockShown, plainSignature(testSecret, hookClockShown, hookBody), strings.Join(header, "\r\n")))
	return conn
}

// statusOn reads the status of the response on conn.
func statusOn(t testing.TB, conn net.Conn) int {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusRequestEntityTooLarge {
		assert.True(t, answer.Close, "the rest of the body must not count as another request")
	}
	return answer.StatusCode
}

func TestWebhookRejectsLargeBodyUnread(t *testing.T) {
	handler := newHook(t).Handler(neverCalled(t))
	for name, header := range map[string][]string{
		"1 GB declared but not sent":      {"Content-Length: 1000000000"},
		"1 GB after Expect: 100-continue": {"Content-Length: 1000000000", "Expect: 100-continue"},
	} {
		assert.Equal(t, http.StatusRequestEntityTooLarge, statusOn(t, dialHook(t, handler, header...)), name)
	}
	conn := dialHook(t, handler, "Transfer-Encoding: chunked")
	go func() { // chunks without end, until the server closes the connection
		chunk := "8000\r\n" + strings.Repeat("a", 0x8000) + "\r\n"
		for {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}()
	assert.Equal(t, http.StatusRequestEntityTooLarge, statusOn(t, conn))
}

// Proxies disagree about ambiguous requests. The function gets only the signed notification.
func TestWebhookHandlesOneSignedRequestOnWire(t *testing.T) {
	length := "Content-Length: " + strconv.Itoa(len(hookBody))
	signature := plainSignature(testSecret, hookClockShown, hookBody)
	signed := "Timestamp: " + hookClockShown + "\r\nSignature: " + signature + "\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(hookBody), hookBody)
	for _, test := range []struct {
		name, head, body string
		handled          int64
	}{
		{"as it should be", signed + length, hookBody, 1},
		{"chunked", signed + "Transfer-Encoding: chunked", chunked + "\r\n", 1},
		// chunked wins
		{"chunked, and a length as well", signed + length + "\r\nTransfer-Encoding: chunked", chunked + "\r\n", 1},
		{"two lengths that differ", signed + length + "\r\nContent-Length: 2", hookBody, 0},
		{
			"headers behind the body", "Transfer-Encoding: chunked\r\nTrailer: Signature, Timestamp",
			chunked + signed + "\r\n", 0,
		},
		{
			"a signature behind the body",
			"Timestamp: " + hookClockShown + "\r\nTransfer-Encoding: chunked\r\nTrailer: Signature",
			chunked + "Signature: " + signature + "\r\n\r\n", 0,
		},
		{"a second signature behind the body", signed + "Transfer-Encoding: chunked\r\nTrailer: Signature",
			chunked + "Signature: " + signature + "\r\n\r\n", 1}, // a trailer is no header
		{
			"a space before the colon",
			"Timestamp: " + hookClockShown + "\r\nSignature : " + signature + "\r\n" + length, hookBody, 0,
		},
		{
			"a folded signature",
			"Timestamp: " + hookClockShown + "\r\nSignature: " + signature[:32] + "\r\n " + signature[32:] + "\r\n" + length,
			hookBody, 0,
		},
		{"another request in the body", signed + "Content-Length: " + strconv.Itoa(2*len(hookBody)),
			"0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\n" + signed + length + "\r\n\r\n" + hookBody, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var handled atomic.Int64
			server := httptest.NewServer(newHook(t).Handler(func(_ context.Context, n *paymentsvc.Notification) error {
				handled.Add(1)
				assert.Equal(t, hookBody, string(n.Raw))
				return nil
			}))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			write(conn, "POST / HTTP/1.1\r\nHost: partner.example\r\n"+test.head+"\r\n\r\n"+test.body)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			assert.Equal(t, test.handled == 1, answer.StatusCode == http.StatusOK, "answered %d", answer.StatusCode)
			_ = conn.Close()
			server.Close() // waits for running handlers
			assert.Equal(t, test.handled, handled.Load())
		})
	}
}

func TestWebhookHandlerAllowsOnlyPOST(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", ""} {
		t.Run(method, func(t *testing.T) {
			r := hookRequest(hookBody)
			r.Method = method
			body := &endless{}
			r.Body = io.NopCloser(body)
			answer := answerOf(newHook(t).Handler(neverCalled(t)), r)
			assert.Equal(t, http.StatusMethodNotAllowed, answer.Code)
			assert.Equal(t, []string{"POST"}, answer.Header().Values("Allow"))
			assert.Zero(t, body.read)
		})
	}
	var reason error
	webhook := newHook(t, respondingInto(&reason))
	answerOf(webhook.Handler(neverCalled(t)), httptest.NewRequest(http.MethodGet, "/", nil))
	isOnly(t, reason, paymentsvc.ErrMethodNotAllowed)
}

// functionErrors returns errors of the caller's function. Some wrap sentinels of this package.
func functionErrors() map[string]error {
	return map[string]error{
		"an error of its own":                 errors.New("the database is away"),
		"one that wraps ErrSignatureMismatch": fmt.Errorf("other service: %w", paymentsvc.ErrSignatureMismatch),
		"one that wraps ErrBodyTooLarge":      fmt.Errorf("other service: %w", paymentsvc.ErrBodyTooLarge),
		"one that wraps ErrEmptyBody":         paymentsvc.ErrEmptyBody,
		"a *NotificationError": &paymentsvc.NotificationError{
			Err: errors.New("of another notification"),
		},
		"the error of a context": context.Canceled,
	}
}

func TestWebhookHandlerRespondsWith500ToFunctionErrors(t *testing.T) {
	for name, err := range functionErrors() {
		t.Run(name, func(t *testing.T) {
			failing := func(context.Context, *paymentsvc.Notification) error { return err }
			var reason error
			webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
				c.OnError = func(_ *http.Request, err error) { reason = err }
			})
			answer := answerOf(webhook.Handler(failing), hookRequest(hookBody))
			assert.Equal(t, http.StatusInternalServerError, answer.Code)
			assert.NotContains(t, answer.Body.String(), err.Error(), "the response hides the reason")
			assert.Empty(t, answer.Header().Get("Connection"))
			assert.Same(t, err, reason, "OnError gets the same error")

			reason = nil
			answerOf(newHook(t, respondingInto(&reason)).Handler(failing), hookRequest(hookBody))
			assert.Same(t, err, reason, "Respond gets the same error")
		})
	}
}

func TestWebhookHandlerPassesOnUnreadableNotifications(t *testing.T) {
	const body = `{"event":"payment.status_changed"}`
	forged := hookRequest(body)
	forged.Header.Set("Signature", "00")
	for _, test := range []struct {
		name    string
		request *http.Request
		failure error
		status  int
		raw     string
	}{
		{"stored", hookRequest(body), nil, http.StatusOK, body},
		{"not stored", hookRequest(body), errors.New("no database"), http.StatusInternalServerError, body},
		{"forged", forged, nil, http.StatusUnauthorized, ""},
		{"empty", hookRequest(""), nil, http.StatusBadRequest, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var raw string
			var reasons []error
			webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
				c.OnError = func(_ *http.Request, err error) { reasons = append(reasons, err) }
				c.OnUnreadable = func(ctx context.Context, e *paymentsvc.NotificationError) error {
					assert.Equal(t, test.request.Context(), ctx)
					raw = string(e.Raw)
					return test.failure
				}
			})
			assert.Equal(t, test.status, answerOf(webhook.Handler(neverCalled(t)), test.request).Code)
			assert.Equal(t, test.raw, raw)
			assert.Len(t, reasons, min(1, test.status-http.StatusOK))
			if test.failure != nil {
				assert.Same(t, test.failure, reasons[0])
			}
		})
	}
}

func TestWebhookHandlerLeavesPanicsToServer(t *testing.T) {
	responded := false
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(http.ResponseWriter, *http.Request, error) { responded = true }
	})
	panicking := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { panic(http.ErrAbortHandler) })
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { answerOf(panicking, hookRequest(hookBody)) })
	assert.False(t, responded, "the outcome is unknown after a panic")
	// like gin and chi after some panics
	recovered := answerOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		panicking.ServeHTTP(w, r)
	}), hookRequest(hookBody))
	assert.Equal(t, http.StatusInternalServerError, recovered.Code)

	server := httptest.NewServer(panicking)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(hookBody))
	require.NoError(t, err)
	r.Header = hookHeader(hookClockShown, hookBody)
	_, err = server.Client().Do(r)
	require.ErrorIs(t, err, io.EOF, "net/http closes the connection without a response")
}

// These are the signers of a fuzzed message. The fuzzer cannot find a valid signature itself.
const (
	signedByNobody = iota
	signedByFirst
	signedBySecond
	signedByOther
	signers
)

// fuzzedSignature returns the signature of a message and the index of its secret, or -1.
func fuzzedSignature(signer uint8, timestamp, signature, body string) (given string, index int) {
	switch signer % signers {
	case signedByFirst:
		signature = plainSignature(testSecret, timestamp, body)
	case signedBySecond:
		signature = plainSignature(hookOther, timestamp, body)
	case signedByOther:
		signature = plainSignature("a key that nobody accepts", timestamp, body)
	}
	for i, secret := range []paymentsvc.Secret{testSecret, hookOther} {
		if signature == plainSignature(secret, timestamp, body) {
			return signature, i
		}
	}
	return signature, -1
}

// secondsFromNow returns the distance of a timestamp of digits from hookNow. It returns false for other text.
func secondsFromNow(timestamp string) (int64, bool) {
	if timestamp == "" || strings.Trim(timestamp, "0123456789") != "" {
		return 0, false
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || seconds >= time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() {
		return 0, false
	}
	return max(seconds-hookNow, hookNow-seconds), true
}

func addSeeds(add func(signer uint8, timestamp, signature, body string)) {
	bodies := []string{
		hookBody, "", "{}", "null", hookBody + hookBody, " " + hookBody + "\n", "\x00", `{"event":"\ud800"}`,
	}
	for _, fault := range notificationFaults() {
		bodies = append(bodies, fault.body)
	}
	for _, body := range bodies {
		add(signedByFirst, hookClockShown, "", body)
	}
	for signer := range uint8(signers) {
		for _, timestamp := range []string{
			hookClockShown, "1699999700", "1699999699", "1700000301", "", "+5", "253402300799", "٤",
		} {
			add(signer, timestamp, plainSignature(testSecret, timestamp, hookBody), hookBody)
		}
	}
	add(signedByNobody, hookClockShown, strings.ToUpper(plainSignature(testSecret, hookClockShown, hookBody)), hookBody)
}

func FuzzWebhookParse(f *testing.F) {
	addSeeds(func(signer uint8, timestamp, signature, body string) {
		f.Add(signer, timestamp, signature, "X-Other", "", []byte(body))
	})
	f.Add(uint8(signedByFirst), hookClockShown, "", "signature", "a", []byte(hookBody))
	f.Add(uint8(signedByFirst), hookClockShown, "", "TIMESTAMP", hookClockShown, []byte(hookBody))
	f.Add(uint8(signedByFirst), hookClockShown, "", "time\u017ftamp", hookClockShown, []byte(hookBody))
	webhook := newHook(f, withSecrets(testSecret, hookOther))

	f.Fuzz(func(t *testing.T, signer uint8, timestamp, signature, name, value string, body []byte) {
		given, index := fuzzedSignature(signer, timestamp, signature, string(body))
		header := http.Header{"Timestamp": {timestamp}, "Signature": {given}}
		header[name] = append(header[name], value)
		again := len(name) == 9 && (strings.EqualFold(name, "timestamp") || strings.EqualFold(name, "signature"))
		before := bytes.Clone(body)

		verifyErr := webhook.Verify(header, body)
		n, parseErr := webhook.Parse(header, body)
		require.Equal(t, before, body, "the body was changed")

		age, digits := secondsFromNow(timestamp)
		acceptable := index >= 0 && digits && age <= 300 && len(body) > 0 && !again
		require.Equal(t, acceptable, verifyErr == nil, "Verify: %v", verifyErr)
		if !acceptable {
			require.Nil(t, n)
			require.EqualError(t, parseErr, verifyErr.Error())
			require.NotErrorIs(t, parseErr, paymentsvc.ErrMalformedNotification)
			return
		}
		if parseErr != nil {
			var malformed *paymentsvc.NotificationError
			require.ErrorAs(t, parseErr, &malformed)
			require.Equal(t, body, malformed.Raw)
			return
		}
		require.Equal(t, index, n.SecretIndex)
		require.Equal(t, body, []byte(n.Raw))
		require.True(t, n.Amount.IsSet())
		require.NotEmpty(t, n.Event)
		require.NotEmpty(t, n.OrderID)
		require.NotEmpty(t, n.StatusDescription)
		require.Len(t, n.Key(), 64)
	})
}
