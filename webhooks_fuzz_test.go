package paymentsvc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// Who signs a fuzzed message, so that the fuzzer gets behind the signature, which it could never make itself.
const (
	signedByNobody = iota
	signedByFirst
	signedBySecond
	signedByOther
	signers
)

// fuzzedSignature gives the signature of a message, and the index of the secret that makes it or -1.
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

// fuzzedHook accepts two secrets and, of the timestamps, those that are five minutes or less from hookNow.
func fuzzedHook(t testing.TB) *paymentsvc.Webhook {
	return newHook(t, withSecrets(testSecret, hookOther))
}

// secondsFromNow gives the distance of a timestamp of plain digits, false for every other text.
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
	bodies := []string{hookBody, "", "{}", "null", hookBody + hookBody, " " + hookBody + "\n", "\x00", `{"event":"\ud800"}`}
	for _, fault := range notificationFaults() {
		bodies = append(bodies, fault.body)
	}
	for _, body := range bodies {
		add(signedByFirst, hookClockShown, "", body)
	}
	for signer := range uint8(signers) {
		for _, timestamp := range []string{hookClockShown, "1699999700", "1699999699", "1700000301", "", "+5", "253402300799", "٤"} {
			add(signer, timestamp, plainSignature(testSecret, timestamp, hookBody), hookBody)
		}
	}
	add(signedByNobody, hookClockShown, strings.ToUpper(plainSignature(testSecret, hookClockShown, hookBody)), hookBody)
}

func FuzzParse(f *testing.F) {
	addSeeds(func(signer uint8, timestamp, signature, body string) {
		f.Add(signer, timestamp, signature, "X-Other", "", []byte(body))
	})
	f.Add(uint8(signedByFirst), hookClockShown, "", "signature", "a", []byte(hookBody))
	f.Add(uint8(signedByFirst), hookClockShown, "", "TIMESTAMP", hookClockShown, []byte(hookBody))
	f.Add(uint8(signedByFirst), hookClockShown, "", "time\u017ftamp", hookClockShown, []byte(hookBody))
	webhook := fuzzedHook(f)

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

func FuzzHandler(f *testing.F) {
	addSeeds(func(signer uint8, timestamp, signature, body string) {
		f.Add(signer, "POST", timestamp, signature, body, int64(len(body)), uint8(0))
	})
	f.Add(uint8(signedByFirst), "GET", hookClockShown, "", hookBody, int64(len(hookBody)), uint8(0))
	f.Add(uint8(signedByFirst), "POST", hookClockShown, "", hookBody, int64(-1), uint8(1))
	f.Add(uint8(signedByFirst), "POST", hookClockShown, "", hookBody, int64(1<<40), uint8(2))
	f.Add(uint8(signedByFirst), "POST", hookClockShown, "", hookBody+strings.Repeat(" ", hookBodyLimit), int64(0), uint8(3))
	webhook := fuzzedHook(f)
	errBroken := errors.New("broken")

	f.Fuzz(func(t *testing.T, signer uint8, method, timestamp, signature, body string, length int64, how uint8) {
		given, index := fuzzedSignature(signer, timestamp, signature, body)
		var handled *paymentsvc.Notification
		failing := how&4 != 0
		handler := webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
			handled = n
			if failing {
				return paymentsvc.ErrSignatureMismatch // of another message
			}
			return nil
		})
		var reader io.Reader = strings.NewReader(body)
		broken := false
		switch how % 4 {
		case 1:
			reader = iotest.OneByteReader(reader)
		case 2:
			reader = iotest.DataErrReader(reader)
		case 3:
			reader, broken = io.MultiReader(reader, iotest.ErrReader(errBroken)), true
		}
		r := httptest.NewRequest(http.MethodPost, "/notifications", nil)
		r.Method, r.ContentLength, r.Body = method, length, io.NopCloser(reader)
		r.Header = http.Header{"Timestamp": {timestamp}, "Signature": {given}}
		answer := answerOf(handler, r)

		age, digits := secondsFromNow(timestamp)
		tooLarge := len(body) > hookBodyLimit || length > hookBodyLimit
		verified := index >= 0 && digits && age <= 300 && body != "" && !tooLarge && !broken && method == http.MethodPost
		if handled != nil {
			require.True(t, verified, "handled, and nobody signed it")
			require.Equal(t, body, string(handled.Raw))
			require.Equal(t, index, handled.SecretIndex)
		}
		var allowed []int
		switch {
		case method != http.MethodPost:
			allowed = []int{http.StatusMethodNotAllowed}
		case tooLarge:
			allowed = []int{http.StatusRequestEntityTooLarge}
		case broken:
			allowed = []int{http.StatusBadRequest}
		case handled != nil && failing:
			allowed = []int{http.StatusInternalServerError}
		case handled != nil:
			allowed = []int{http.StatusOK}
		case verified:
			allowed = []int{http.StatusBadRequest} // signed, and no notification
		case body == "":
			allowed = []int{http.StatusBadRequest, http.StatusUnauthorized} // whichever is seen first
		default:
			allowed = []int{http.StatusUnauthorized}
		}
		require.Contains(t, allowed, answer.Code)
		if handled == nil || failing {
			require.NotEqual(t, http.StatusOK, answer.Code)
		}
	})
}
