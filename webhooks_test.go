package paymentsvc_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const (
	hookNow                          = 1_700_000_000 // what these tests' clock shows
	hookTolerance                    = 5 * time.Minute
	hookOther      paymentsvc.Secret = "another-project-secret-key"
	hookBody                         = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS","status_code":20,"amount":10.50,"user_data":"order-1"}`
	hookBodyLimit                    = 64 << 10
	hookClockShown                   = "1700000000"
)

// hookScheme is these tests' choice; the document shows none. It is what plainSignature makes.
func hookScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

// plainSignature is hookScheme's signature, made without this module.
func plainSignature(secret paymentsvc.Secret, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(string(secret)))
	_, _ = io.WriteString(mac, timestamp+"\n"+body)
	return hex.EncodeToString(mac.Sum(nil))
}

// hookHeader signs a body with testSecret under hookScheme.
func hookHeader(timestamp, body string) http.Header {
	return http.Header{
		"Timestamp": {timestamp},
		"Signature": {plainSignature(testSecret, timestamp, body)},
	}
}

// newHook makes a Webhook of hookScheme and testSecret whose clock shows hookNow, changed by options.
func newHook(t testing.TB, options ...func(*paymentsvc.WebhookConfig)) *paymentsvc.Webhook {
	t.Helper()
	c := paymentsvc.WebhookConfig{
		Scheme:    hookScheme(),
		Secrets:   []paymentsvc.Secret{testSecret},
		Tolerance: hookTolerance,
		Now:       func() time.Time { return time.Unix(hookNow, 0) },
	}
	for _, option := range options {
		option(&c)
	}
	webhook, err := paymentsvc.NewWebhook(c)
	require.NoError(t, err)
	return webhook
}

func anyAge(c *paymentsvc.WebhookConfig) { c.Tolerance = paymentsvc.AnyAge }

func withSecrets(secrets ...paymentsvc.Secret) func(*paymentsvc.WebhookConfig) {
	return func(c *paymentsvc.WebhookConfig) { c.Secrets = secrets }
}

func withScheme(s paymentsvc.Scheme) func(*paymentsvc.WebhookConfig) {
	return func(c *paymentsvc.WebhookConfig) { c.Scheme = s }
}

// hookRequest is a request as a server has read it, with the header for the body that hookHeader makes.
func hookRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(body))
	r.Header = hookHeader(hookClockShown, body)
	return r
}

// answerOf is what h answers to r.
func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// neverCalled is a function for a Handler that must refuse.
func neverCalled(t testing.TB) func(context.Context, *paymentsvc.Notification) error {
	return func(context.Context, *paymentsvc.Notification) error {
		assert.Fail(t, "the function was called")
		return nil
	}
}

func accept(context.Context, *paymentsvc.Notification) error { return nil }

// isOnly asserts that of all the sentinels err is want and nothing else, so that no fault is taken for another.
func isOnly(t testing.TB, err, want error) {
	t.Helper()
	for _, sentinel := range []error{
		paymentsvc.ErrInvalidRequest, paymentsvc.ErrUnexpectedResponse, paymentsvc.ErrResponseTooLarge,
		paymentsvc.ErrMissingHeader, paymentsvc.ErrMalformedHeader, paymentsvc.ErrSignatureMismatch,
		paymentsvc.ErrTimestampTooOld, paymentsvc.ErrTimestampTooNew, paymentsvc.ErrBodyTooLarge,
		paymentsvc.ErrEmptyBody, paymentsvc.ErrMethodNotAllowed, paymentsvc.ErrMalformedNotification,
	} {
		assert.Equal(t, sentinel == want, errors.Is(err, sentinel), "is %q %q?", err, sentinel) //nolint:errorlint // the sentinels themselves are compared
	}
	var malformed *paymentsvc.NotificationError
	isMalformed := errors.As(err, &malformed)
	assert.Equal(t, want == paymentsvc.ErrMalformedNotification, isMalformed, "%v", err) //nolint:errorlint // as above
}

func TestNewWebhookNamesTheFieldThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name, field string
		change      func(*paymentsvc.WebhookConfig)
	}{
		{"no Canonical", "Scheme.Canonical", func(c *paymentsvc.WebhookConfig) { c.Scheme.Canonical = nil }},
		{"no Encoding", "Scheme.Encoding", func(c *paymentsvc.WebhookConfig) { c.Scheme.Encoding = nil }},
		{"an Encoding that is a nil pointer", "Scheme.Encoding", func(c *paymentsvc.WebhookConfig) {
			c.Scheme.Encoding = (*base64.Encoding)(nil)
		}},
		{"nil Secrets", "Secrets", func(c *paymentsvc.WebhookConfig) { c.Secrets = nil }},
		{"an empty list of Secrets", "Secrets", func(c *paymentsvc.WebhookConfig) { c.Secrets = []paymentsvc.Secret{} }},
		{"an empty secret", "Secret", func(c *paymentsvc.WebhookConfig) { c.Secrets = []paymentsvc.Secret{""} }},
		{"an empty secret behind a good one", "Secrets[1]", func(c *paymentsvc.WebhookConfig) {
			c.Secrets = []paymentsvc.Secret{testSecret, ""}
		}},
		{"the placeholder of a secret", "Secrets[0]", func(c *paymentsvc.WebhookConfig) {
			c.Secrets = []paymentsvc.Secret{paymentsvc.Secret(fmt.Sprint(testSecret)), hookOther}
		}},
		{"no Tolerance", "Tolerance", func(c *paymentsvc.WebhookConfig) { c.Tolerance = 0 }},
		{"a Tolerance below a second", "Tolerance", func(c *paymentsvc.WebhookConfig) { c.Tolerance = time.Second - 1 }},
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

func TestAWebhookThatNobodyMadeFailsAndDoesNotPanic(t *testing.T) {
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
			assert.Equal(t, http.StatusInternalServerError, answer.Code, "the fault is this side's, so the service may try again")
			assert.Equal(t, http.StatusMethodNotAllowed,
				answerOf(webhook.Handler(accept), httptest.NewRequest(http.MethodGet, "/", nil)).Code)
		})
	}
	t.Run("a nil function", func(t *testing.T) {
		var reason error
		webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
			c.Respond = func(_ http.ResponseWriter, _ *http.Request, err error) { reason = err }
		})
		answerOf(webhook.Handler(nil), hookRequest(hookBody))
		require.ErrorIs(t, reason, paymentsvc.ErrInvalidRequest)
		assert.Equal(t, http.StatusInternalServerError, answerOf(newHook(t).Handler(nil), hookRequest(hookBody)).Code)
	})
}

// unread asserts that the body of r reads as want, whatever was done with it.
func unread(t testing.TB, r *http.Request, want string) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.True(t, want == string(body), "the body reads as %d bytes, where %d were sent", len(body), len(want)) //nolint:testifylint // 70 KB are not to be printed
}

func TestANotificationIsReadWhole(t *testing.T) {
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
}

func TestEverySecretIsTriedAndSecretIndexSaysWhichMatched(t *testing.T) {
	secrets := []paymentsvc.Secret{testSecret, hookOther, "a third key"}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		listed := []paymentsvc.Secret{secrets[order[0]], secrets[order[1]], secrets[order[2]]}
		webhook := newHook(t, withSecrets(listed...))
		for message := range 60 { // every order of signers, one after the other on one Webhook
			signedBy := (message*message + message/7) % len(listed)
			timestamp := strconv.Itoa(hookNow - message)
			n, err := webhook.Parse(http.Header{
				"Timestamp": {timestamp}, "Signature": {plainSignature(listed[signedBy], timestamp, hookBody)},
			}, []byte(hookBody))
			require.NoError(t, err)
			assert.Equal(t, signedBy, n.SecretIndex)
		}
	}
	_, err := newHook(t, withSecrets(hookOther, "a third key")).Parse(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	isOnly(t, err, paymentsvc.ErrSignatureMismatch)
	n, err := newHook(t, withSecrets(hookOther, testSecret, testSecret)).Parse(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	require.NoError(t, err)
	assert.Equal(t, 1, n.SecretIndex, "the first that matches")
}

func TestChangingTheListOfSecretsAfterwardsChangesNothing(t *testing.T) {
	list := []paymentsvc.Secret{testSecret}
	webhook := newHook(t, withSecrets(list...))
	list[0] = hookOther
	require.NoError(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)))
}

func TestConcurrentMessagesDoNotMeet(t *testing.T) {
	webhook := newHook(t, withSecrets(testSecret, hookOther))
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range 200 {
				secret, index := testSecret, 0
				if (worker+i)%2 == 1 {
					secret, index = hookOther, 1
				}
				orderID := strings.Repeat(strconv.Itoa(worker), 1+i%50)
				body := strings.Replace(hookBody, "o-1", orderID, 1)
				header := http.Header{"Timestamp": {hookClockShown}, "Signature": {plainSignature(secret, hookClockShown, body)}}
				n, err := webhook.Parse(header, []byte(body))
				if assert.NoError(t, err) {
					assert.Equal(t, orderID, n.OrderID)
					assert.Equal(t, index, n.SecretIndex)
				}
				header.Set("Signature", plainSignature("wrong", hookClockShown, body))
				assert.ErrorIs(t, webhook.Verify(header, []byte(body)), paymentsvc.ErrSignatureMismatch)
			}
		})
	}
	wait.Wait()
}

func TestExactlyOneValueStandsInEachHeader(t *testing.T) {
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
			{"another value before it", func(h http.Header) { h[name] = []string{"1", value} }, paymentsvc.ErrMalformedHeader},
			{"an empty value behind it", func(h http.Header) { h.Add(name, "") }, paymentsvc.ErrMalformedHeader},
			{"a second one in lower case", func(h http.Header) { h[strings.ToLower(name)] = []string{value} }, paymentsvc.ErrMalformedHeader},
			{"two, neither spelled as net/http does", func(h http.Header) {
				delete(h, name)
				h[strings.ToLower(name)], h[strings.ToUpper(name)] = []string{value}, []string{value}
			}, paymentsvc.ErrMalformedHeader},
			{"one in lower case", func(h http.Header) { delete(h, name); h[strings.ToLower(name)] = []string{value} }, nil},
			{"one in upper case", func(h http.Header) { delete(h, name); h[strings.ToUpper(name)] = []string{value} }, nil},
			{"one and an empty list under another spelling", func(h http.Header) { h[strings.ToLower(name)] = []string{} }, nil},
			{"one and others with longer names", func(h http.Header) { h["X-"+name], h[name+"2"] = []string{"1"}, []string{"1"} }, nil},
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
				assert.Contains(t, err.Error(), strings.ToLower(name), "the header is named")
				n, err := newHook(t).Parse(header, []byte(hookBody))
				isOnly(t, err, test.want)
				assert.Nil(t, n)
			})
		}
	}
	isOnly(t, newHook(t).Verify(nil, []byte(hookBody)), paymentsvc.ErrMissingHeader)
}

func TestTimestampsAreDigits(t *testing.T) {
	for name, timestamp := range map[string]string{
		"empty":                          "",
		"a plus":                         "+5",
		"a minus":                        "-1",
		"minus zero":                     "-0",
		"an exponent":                    "1e9",
		"a space before":                 " 1",
		"a space behind":                 "1 ",
		"a line end":                     "1700000000\n",
		"a zero byte":                    "1700000000\x00",
		"a fraction":                     "1700000000.5",
		"hexadecimal":                    "0x6553f100",
		"underscores":                    "1_700_000_000",
		"two in one value":               "1700000000,1700000000",
		"a date":                         "Tue, 14 Nov 2023 22:13:20 GMT",
		"20 digits":                      "17000000000000000000",
		"more than 64 bits":              "18446744073709551616",
		"19 digits":                      "1700000000000000000",
		"milliseconds":                   "1700000000000",
		"the first second of year 10000": "253402300800",
		"Arabic-Indic digits":            "١٧٠٠٠٠٠٠٠٠",
		"full-width digits":              "１７００００００００",
		"an Arabic-Indic digit at last":  "170000000٠",
	} {
		t.Run(name, func(t *testing.T) {
			header := hookHeader(timestamp, hookBody) // signed right, so that it is the timestamp that fails
			err := newHook(t, anyAge).Verify(header, []byte(hookBody))
			isOnly(t, err, paymentsvc.ErrMalformedHeader)
			assert.Contains(t, err.Error(), "timestamp")
		})
	}
	for _, timestamp := range []string{"0", "1", "1699999999", "253402300799"} {
		n, err := newHook(t, anyAge).Parse(hookHeader(timestamp, hookBody), []byte(hookBody))
		require.NoError(t, err, timestamp)
		assert.Equal(t, timestamp, strconv.FormatInt(n.Timestamp.Unix(), 10))
	}
}

func TestTheAgeIsJudgedToTheSecond(t *testing.T) {
	for _, test := range []struct {
		name      string
		tolerance time.Duration
		clock     time.Time
		timestamp int64
		want      error
	}{
		{"now", hookTolerance, time.Unix(hookNow, 0), hookNow, nil},
		{"as old as is tolerated", hookTolerance, time.Unix(hookNow, 0), hookNow - 300, nil},
		{"a second older", hookTolerance, time.Unix(hookNow, 0), hookNow - 301, paymentsvc.ErrTimestampTooOld},
		{"as new as is tolerated", hookTolerance, time.Unix(hookNow, 0), hookNow + 300, nil},
		{"a second newer", hookTolerance, time.Unix(hookNow, 0), hookNow + 301, paymentsvc.ErrTimestampTooNew},
		{"as old as is tolerated, late in the second", hookTolerance, time.Unix(hookNow, 999_999_999), hookNow - 300, nil},
		{"a second older, early in the second", hookTolerance, time.Unix(hookNow, 1), hookNow - 301, paymentsvc.ErrTimestampTooOld},
		{"as new as is tolerated, late in the second", hookTolerance, time.Unix(hookNow, 999_999_999), hookNow + 300, nil},
		{"a second newer, late in the second", hookTolerance, time.Unix(hookNow, 999_999_999), hookNow + 301, paymentsvc.ErrTimestampTooNew},
		{"a clock of another zone", hookTolerance, time.Unix(hookNow, 0).In(time.FixedZone("", 9*60*60)), hookNow - 300, nil},
		{"a tolerance of one second, kept", time.Second, time.Unix(hookNow, 0), hookNow - 1, nil},
		{"a tolerance of one second, missed", time.Second, time.Unix(hookNow, 0), hookNow - 2, paymentsvc.ErrTimestampTooOld},
		{"the year 1970", hookTolerance, time.Unix(hookNow, 0), 0, paymentsvc.ErrTimestampTooOld},
		{"300 years ahead, more than a Duration holds", hookTolerance, time.Unix(hookNow, 0), hookNow + 300*366*86400, paymentsvc.ErrTimestampTooNew},
		{"the year 9999", hookTolerance, time.Unix(hookNow, 0), 253402300799, paymentsvc.ErrTimestampTooNew},
		{"a clock that went back 300 years", hookTolerance, time.Unix(hookNow-300*366*86400, 0), hookNow, paymentsvc.ErrTimestampTooNew},
		{"a clock that went on 300 years", hookTolerance, time.Unix(hookNow+300*366*86400, 0), hookNow, paymentsvc.ErrTimestampTooOld},
		{"any age, long ago", paymentsvc.AnyAge, time.Unix(hookNow, 0), 0, nil},
		{"any age, the year 9999", paymentsvc.AnyAge, time.Unix(hookNow, 0), 253402300799, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
				c.Tolerance, c.Now = test.tolerance, func() time.Time { return test.clock }
			})
			err := webhook.Verify(hookHeader(strconv.FormatInt(test.timestamp, 10), hookBody), []byte(hookBody))
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			isOnly(t, err, test.want)
		})
	}
}

func TestWithoutNowTheClockIsTheMachines(t *testing.T) {
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.Now = nil })
	now := strconv.FormatInt(time.Now().Unix(), 10)
	require.NoError(t, webhook.Verify(hookHeader(now, hookBody), []byte(hookBody)))
	isOnly(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)), paymentsvc.ErrTimestampTooOld)
}

func TestTheSignatureIsCheckedBeforeTheAge(t *testing.T) {
	for _, timestamp := range []string{"0", "1800000000"} {
		header := hookHeader(timestamp, hookBody)
		header.Set("Signature", plainSignature(hookOther, timestamp, hookBody))
		isOnly(t, newHook(t).Verify(header, []byte(hookBody)), paymentsvc.ErrSignatureMismatch)
	}
}

func TestTheSignatureIsCheckedBeforeTheBodyIsRead(t *testing.T) {
	for _, body := range []string{"not JSON", "{}", hookBody + hookBody} {
		header := http.Header{"Timestamp": {hookClockShown}, "Signature": {plainSignature(hookOther, hookClockShown, body)}}
		_, err := newHook(t).Parse(header, []byte(body))
		isOnly(t, err, paymentsvc.ErrSignatureMismatch)
		_, err = newHook(t).Parse(hookHeader("0", body), []byte(body))
		isOnly(t, err, paymentsvc.ErrTimestampTooOld)
	}
}

func TestTheSameBytesPassAndTheSameJSONWrittenAnewFails(t *testing.T) {
	header := hookHeader(hookClockShown, hookBody)
	require.NoError(t, newHook(t).Verify(header, []byte(hookBody)))

	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(hookBody), &members))
	again, err := json.Marshal(members)
	require.NoError(t, err)
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, []byte(hookBody), "", "  "))
	for name, body := range map[string]string{
		"through a map":     string(again),
		"indented":          indented.String(),
		"a line end behind": hookBody + "\n",
		"a space before":    " " + hookBody,
		"an escape":         strings.Replace(hookBody, "o-1", `\u006f-1`, 1),
		"another scale":     strings.Replace(hookBody, "10.50", "10.5", 1),
	} {
		require.True(t, json.Valid([]byte(body)), name)
		isOnly(t, newHook(t).Verify(header, []byte(body)), paymentsvc.ErrSignatureMismatch)
	}
}

// A signature is compared as text: what a lenient decoder reads as the same bytes is not the same.
func TestOtherSpellingsOfASignatureFail(t *testing.T) {
	encodings := map[string]paymentsvc.Encoding{
		"Hex": paymentsvc.Hex, "HexUpper": paymentsvc.HexUpper,
		"StdEncoding": base64.StdEncoding, "RawStdEncoding": base64.RawStdEncoding,
		"URLEncoding": base64.URLEncoding, "RawURLEncoding": base64.RawURLEncoding,
	}
	// A message is searched whose sum is spelled in another way by each of these encodings.
	var body string
	var sum []byte
	for i := 0; ; i++ {
		body = strings.Replace(hookBody, "o-1", strconv.Itoa(i), 1)
		var err error
		sum, err = hex.DecodeString(plainSignature(testSecret, hookClockShown, body))
		require.NoError(t, err)
		if strings.ContainsAny(base64.StdEncoding.EncodeToString(sum), "+/") {
			break
		}
	}
	for name, encoding := range encodings {
		webhook := newHook(t, withScheme(paymentsvc.Scheme{Canonical: hookScheme().Canonical, Encoding: encoding}))
		verify := func(signature string) error {
			return webhook.Verify(http.Header{"Timestamp": {hookClockShown}, "Signature": {signature}}, []byte(body))
		}
		right := string(encoding.AppendEncode(nil, sum))
		require.NoError(t, verify(right), name)

		spellings := map[string]string{
			"upper case": strings.ToUpper(right), "lower case": strings.ToLower(right),
			"a space before": " " + right, "a space behind": right + " ", "a tab behind": right + "\t",
			"a line end": right + "\n", "a line end inside": right[:20] + "\n" + right[20:], "a zero byte": right + "\x00",
			"quotes": `"` + right + `"`, "a label": "sha256=" + right, "twice": right + "," + right,
			"padding": right + "=", "two of padding": right + "==", "no padding": strings.TrimRight(right, "="),
			"cut": right[:len(right)-1], "half": right[:len(right)/2], "the first byte": right[:1], "longer": right + "0",
			"the bytes themselves": string(sum), "percent-encoded": "%" + right,
			"one in upper case": strings.ToUpper(right[:1]) + right[1:], "one in lower case": strings.ToLower(right[:1]) + right[1:],
		}
		if len(right) == 43 { // two bits of the last letter are not used, and a decoder passes over them
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			if at := strings.IndexByte(alphabet, right[42]); at >= 0 && at+1 < len(alphabet) {
				spellings["unused bits set"] = right[:42] + alphabet[at+1:at+2]
			}
		}
		for other, as := range encodings {
			spellings["as "+other] = string(as.AppendEncode(nil, sum))
		}
		for how, spelled := range spellings {
			if spelled == right {
				continue // an encoding's own spelling
			}
			isOnly(t, verify(spelled), paymentsvc.ErrSignatureMismatch)
			if t.Failed() {
				require.FailNow(t, "a spelling passed", "%s: %s", name, how)
			}
		}
	}
}

func TestCanonicalSeesTheNotification(t *testing.T) {
	var seen paymentsvc.Message
	scheme := paymentsvc.Scheme{Encoding: paymentsvc.Hex, Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		seen = *m
		seen.Body = bytes.Clone(m.Body)
		return hookScheme().Canonical(dst, m)
	}}
	header := hookHeader(hookClockShown, hookBody)
	header.Set("X-Project", "7")
	webhook := newHook(t, withScheme(scheme))
	want := paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: http.MethodPost, Header: header, Timestamp: hookClockShown, Body: []byte(hookBody),
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
	want.Method, want.URL = http.MethodPut, &url.URL{Host: "example.com", Path: "/a/b/c", RawPath: "/a%2Fb/c", RawQuery: "d=e&f"}
	assert.Equal(t, want, seen)
}

func TestTheAddressIsTheWholeOneWhicheverRouterCutIt(t *testing.T) {
	const path = "/hooks/in/v1%2F2/notifications"
	webhook := newHook(t, withScheme(testScheme()))
	handled := 0
	handler := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { handled++; return nil })
	routers := map[string]http.Handler{
		"no router":                 handler,
		"StripPrefix":               http.StripPrefix("/hooks", handler),
		"StripPrefix twice":         http.StripPrefix("/hooks", http.StripPrefix("/in", handler)),
		"a mux below a StripPrefix": http.StripPrefix("/hooks", muxOf("POST /in/{version}/notifications", handler)),
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
				signature, err := testScheme().Signature(testSecret, &paymentsvc.Message{
					Kind: paymentsvc.KindNotification, Method: http.MethodPost, URL: &url.URL{Path: mustUnescape(t, signed.path), RawPath: signed.path},
					Header: header, Timestamp: hookClockShown, Body: []byte(hookBody),
				})
				require.NoError(t, err)
				header.Set("Signature", signature)
				assert.Equal(t, signed.want, post(t, server, path, header, strings.NewReader(hookBody)))
			}
			assert.Equal(t, 1, handled)
		})
	}
	t.Run("a request that no server has read", func(t *testing.T) {
		var seen *url.URL
		webhook := newHook(t, withScheme(paymentsvc.Scheme{Encoding: paymentsvc.Hex, Canonical: func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
			seen = m.URL
			return hookScheme().Canonical(dst, m)
		}}))
		r, err := http.NewRequest(http.MethodPost, "https://partner.example/notifications?a=b", strings.NewReader(hookBody))
		require.NoError(t, err)
		r.Header = hookHeader(hookClockShown, hookBody)
		_, err = webhook.ParseRequest(r)
		require.NoError(t, err)
		assert.Equal(t, "https://partner.example/notifications?a=b", seen.String())
		assert.NotSame(t, r.URL, seen)

		r.URL, r.Body = nil, io.NopCloser(strings.NewReader(hookBody))
		_, err = webhook.ParseRequest(r)
		require.NoError(t, err)
		assert.Nil(t, seen)
	})
}

func muxOf(pattern string, h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	return mux
}

func mustUnescape(t testing.TB, path string) string {
	t.Helper()
	text, err := url.PathUnescape(path)
	require.NoError(t, err)
	return text
}

// post sends a notification to server and gives the answer's status.
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

func TestAPartThatNeedsTheAddressFailsClearlyWithoutOne(t *testing.T) {
	webhook := newHook(t, withScheme(testScheme()))
	header := hookHeader(hookClockShown, hookBody)
	_, parseErr := webhook.Parse(header, []byte(hookBody))
	for _, err := range []error{webhook.Verify(header, []byte(hookBody)), parseErr} {
		isOnly(t, err, nil)
		assert.Contains(t, err.Error(), "canonical string")
		assert.Contains(t, err.Error(), "Path")
		assert.Contains(t, err.Error(), "address")
	}
}

func TestTheErrorOfCanonicalIsReached(t *testing.T) {
	errOfMine := errors.New("no header X-Project")
	webhook := newHook(t, withScheme(paymentsvc.Scheme{
		Encoding: paymentsvc.Hex, Canonical: func([]byte, *paymentsvc.Message) ([]byte, error) { return nil, errOfMine },
	}))
	err := webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	require.ErrorIs(t, err, errOfMine)
	isOnly(t, err, nil)
	_, err = webhook.ParseRequest(hookRequest(hookBody))
	require.ErrorIs(t, err, errOfMine)
}

func TestRawIsACopyOfABufferThatIsUsedAgain(t *testing.T) {
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
