package paymentsvc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestErrorTextStatesOutcome(t *testing.T) {
	for _, test := range []struct {
		name string
		err  paymentsvc.Error
		want string
	}{
		{"unknown start", paymentsvc.Error{Endpoint: "init_payout", Attempts: 1, HTTPStatus: 502, Err: io.EOF},
			"paymentsvc: init_payout: outcome unknown, the request may have been carried out: HTTP 502: EOF"},
		{"unknown read", paymentsvc.Error{Endpoint: "get_balance", Attempts: 3, Err: io.ErrUnexpectedEOF},
			"paymentsvc: get_balance: unexpected EOF (after 3 attempts)"},
		{"not sent", paymentsvc.Error{Endpoint: "init_payment/card", Outcome: paymentsvc.OutcomeNotSent, Err: io.EOF},
			"paymentsvc: init_payment/card: not sent: EOF"},
		{"rejected", paymentsvc.Error{
			Endpoint: "init_form", Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 200, Attempts: 1, Err: io.EOF,
		},
			"paymentsvc: init_form: rejected: HTTP 200: EOF"},
		{"rejected read", paymentsvc.Error{Endpoint: "status_payment", Outcome: paymentsvc.OutcomeRejected, Err: io.EOF},
			"paymentsvc: status_payment: EOF"},
		{"the zero value", paymentsvc.Error{}, "paymentsvc: : "},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.err.Error())
			assert.Equal(t, test.want, fmt.Sprintf("%v", test.err), "a copy reads like the pointer")
		})
	}
	assert.Equal(t, "unknown, not sent, rejected", strings.Join([]string{
		paymentsvc.OutcomeUnknown.String(), paymentsvc.OutcomeNotSent.String(), paymentsvc.OutcomeRejected.String(),
	}, ", "))
}

func TestErrorOfARejectedSignatureNamesTheClocks(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		date   time.Duration // difference between the service's and the local clock
		waits  time.Duration // for a connection or a rate limiter
		want   string
	}{
		{"the clock is right", 401, 0, 0, "unauthorized%s; the timestamp was 0s old when the response arrived"},
		{"the clock is behind", 401, 90 * time.Second, 0, "unauthorized%s; " +
			"the timestamp was 0s old when the response arrived; the local clock is 1m30s behind the service's"},
		{"the clock is ahead", 403, -time.Hour, 0, "forbidden%s; the timestamp was 0s old when the response arrived" +
			"; the local clock is 1h0m0s ahead of the service's"},
		{"the request left late", 401, 0, 20 * time.Second, "unauthorized%s; " +
			"the timestamp was 20s old when the response arrived"},
		{"not about a signature", 404, 0, 0, "not found%s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, "http://127.0.0.1", over(roundTripFunc(func(*http.Request) (*http.Response, error) {
					time.Sleep(test.waits)
					date := time.Now().Add(test.date).UTC().Format(http.TimeFormat)
					return canned(test.status, http.Header{"Date": {date}}, ""), nil
				})))
				_, err := c.GetBalance(t.Context())
				want := fmt.Sprintf(test.want, ": without Config.DecodeError this may be a proxy's response")
				require.EqualError(t, err, fmt.Sprintf("paymentsvc: get_balance: HTTP %d: %s", test.status, want))
			})
		})
	}
}

func TestErrorOfARejectedSignatureNamesTheSignersClock(t *testing.T) {
	const clean = "unauthorized: without Config.DecodeError this may be a proxy's response; " +
		"the timestamp was %s old when the response arrived"
	for _, test := range []struct {
		shift, waits time.Duration // of the signer's clock; a remote signer waits before it signs
		want         string
	}{
		{10 * time.Minute, 0, "; the signer's clock is 10m0s ahead of the local clock"},
		{-time.Hour, 0, "; the signer's clock is 1h0m0s behind the local clock"},
		{2 * time.Second, 0, fmt.Sprintf(clean, "0s")},
		{-2 * time.Second, 0, fmt.Sprintf(clean, "0s")},
		{0, 20 * time.Second, fmt.Sprintf(clean, "20s")},
	} {
		synctest.Test(t, func(t *testing.T) {
			signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
				Scheme: testScheme(), Secret: testSecret, Now: func() time.Time { return time.Now().Add(test.shift) },
			})
			require.NoError(t, err)
			c := newClient(t, "http://127.0.0.1", signedBy(paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
				time.Sleep(test.waits)
				return signer.Sign(r, body)
			})), answers(http.StatusUnauthorized, http.Header{}, ""))
			_, err = c.GetBalance(t.Context())
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.shift.Abs() > 2*time.Second, !strings.Contains(err.Error(), "old when"))
		})
	}
}

func TestErrorFieldsFindsCodeAndMessage(t *testing.T) {
	type found = paymentsvc.ServiceError
	for _, test := range []struct {
		name, code, message, body string
		want                      *found
	}{
		{"flat", "code", "message", `{"code":"E1","message":"no"}`, &found{Code: "E1", Message: "no"}},
		{
			"nested", "error.code", "error.text", `{"error":{"code":"E1","text":"no"}}`,
			&found{Code: "E1", Message: "no"},
		},
		{"three deep", "a.b.c", "", `{"a":{"b":{"c":7}}}`, &found{Code: "7"}},
		{
			"in a list", "errors.0.code", "errors.1.text", `{"errors":[{"code":"E1"},{"text":"no"}]}`,
			&found{Code: "E1", Message: "no"},
		},
		{"in an object with a number as its name", "e.0", "", `{"e":{"0":"E1"}}`, &found{Code: "E1"}},
		{"in a list in a list", "a.0.1", "", `{"a":[[null,"E1"]]}`, &found{Code: "E1"}},
		{"a number keeps its text", "code", "message", `{"code":1.50}`, &found{Code: "1.50"}},
		{
			"a long number keeps its digits", "code", "message", `{"code":12345678901234567890}`,
			&found{Code: "12345678901234567890"},
		},
		{"an empty message", "code", "message", `{"code":7,"message":""}`, &found{Code: "7"}},
		{"a message alone, where no code is named", "", "message", `{"message":"no"}`, &found{Message: "no"}},
		{"what is neither string nor number is JSON", "error", "", `{"error":{"a":[1]}}`, &found{Code: `{"a":[1]}`}},
		{"true", "error", "", `{"error":true}`, &found{Code: "true"}},
		{"escapes are read", "code", "", `{"code":"\u0041"}`, &found{Code: "A"}},
		{"a byte order mark", "code", "", "\ufeff" + `{"code":"A"}`, &found{Code: "A"}},

		{"a message alone", "code", "message", `{"message":"no"}`, nil},
		{"a message beside an empty code", "code", "message", `{"code":0,"message":"OK"}`, nil},
		{"an empty message alone, where no code is named", "", "message", `{"message":""}`, nil},
		{"zero", "code", "message", `{"code":0}`, nil},
		{"both absent", "code", "message", `{"order_id":"1"}`, nil},
		{"the way there is null", "error.code", "error.message", `{"error":null}`, nil},
		{"the way there is text", "error.code", "error.message", `{"error":"x"}`, nil},
		{"no field is named", "", "", `{"":"E1"}`, nil},
		{"a name that ends in a dot", "code.", "", `{"code":{"":"E1"}}`, nil},
		{"an empty list", "errors.0.code", "", `{"errors":[]}`, nil},
		{"an empty element", "errors.0", "", `{"errors":["","E2"]}`, nil},
		{"an element after the last", "errors.1", "", `{"errors":["E1"]}`, nil},
		{"a list without an index", "errors.code", "", `{"errors":[{"code":"E1"}]}`, nil},
		{"an index before the first", "errors.-1", "", `{"errors":["E1"]}`, nil},
		{"an index with a sign", "errors.+0", "", `{"errors":["E1"]}`, nil},
		{"an index that is huge", "errors.99999999999999999999", "", `{"errors":["E1"]}`, nil},
		{"null in a list", "errors.0", "", `{"errors":[null]}`, nil},
		{"half of a list", "errors.0", "", `{"errors":["E1"`, nil},
		{"a list as the whole response", "0.code", "", `[{"code":"E1"}]`, nil},
		{"no JSON", "code", "message", `<html>`, nil},
		{"half of it", "code", "message", `{"code":"E1"`, nil},
		{"nothing", "code", "message", ``, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			decode := paymentsvc.ErrorFields(test.code, test.message)
			assert.Equal(t, test.want, decode(http.StatusOK, []byte(test.body)))
		})
	}
}

// internal/transport tests the forms of the header.
func TestErrorRetryAfterReadsTheHeaderOfTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"3600": time.Hour, "": 0, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
		} {
			header := http.Header{"Retry-After": {value}}
			c := newClient(t, "http://127.0.0.1", answers(http.StatusTooManyRequests, header, ""))
			response, err := pay(t.Context(), c)
			wait, ok := failed(t, response, err, paymentsvc.OutcomeUnknown).RetryAfter()
			assert.Equal(t, want, wait)
			assert.Equal(t, want > 0, ok)
		}
	})
}

func TestErrorClockSkewNeedsAValidDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(-90 * time.Second).UTC().Format(http.TimeFormat)
		for _, test := range []struct {
			header http.Header
			want   time.Duration
			known  bool
		}{
			{http.Header{"Date": {date}}, -90 * time.Second, true},
			{http.Header{"Date": {"yesterday"}}, 0, false},
			{nil, 0, false},
		} {
			c := newClient(t, "http://127.0.0.1", answers(http.StatusUnauthorized, test.header, ""))
			response, err := pay(t.Context(), c)
			skew, known := failed(t, response, err, paymentsvc.OutcomeUnknown).ClockSkew()
			assert.Equal(t, test.want, skew)
			assert.Equal(t, test.known, known)
		}
	})
	t.Run("unknown for nil", func(t *testing.T) {
		_, known := (*paymentsvc.Error)(nil).ClockSkew()
		assert.False(t, known)
		_, known = (*paymentsvc.Error)(nil).RetryAfter()
		assert.False(t, known)
		assert.Equal(t, "paymentsvc: a nil *Error", (*paymentsvc.Error)(nil).Error())
	})
	t.Run("unknown without a response", func(t *testing.T) {
		_, err := pay(t.Context(), newClient(t, refusingPort(t)))
		var e *paymentsvc.Error
		require.ErrorAs(t, err, &e)
		_, known := e.ClockSkew()
		assert.False(t, known)
	})
}

func TestErrorOfACancellationKeepsItsCause(t *testing.T) {
	cause := errors.New("the payer left")
	asked := make(chan struct{})
	release := make(chan struct{})
	s := newService(t, func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	})
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(cause)
	}()
	response, err := pay(ctx, newClient(t, s.base()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, cause)
}

// An errgroup cancels its other calls with the error of the first failed call as the cause.
func TestErrorOfACancellationDoesNotDescribeAnotherCall(t *testing.T) {
	notFound := &paymentsvc.ServiceError{Code: "order_not_found"}
	for _, cause := range []error{
		&paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: http.StatusUnauthorized, Err: notFound},
		&paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest},
		fmt.Errorf("query: %w", notFound),
	} {
		for when, outcome := range map[string]paymentsvc.Outcome{
			"before the call": paymentsvc.OutcomeNotSent, "during an attempt": paymentsvc.OutcomeUnknown,
			"before a retry": paymentsvc.OutcomeUnknown,
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			leave := func(at string) {
				if at == when {
					cancel(cause)
				}
			}
			leave("before the call")
			c := newClient(t, "http://127.0.0.1", over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
				leave("during an attempt")
				if err := context.Cause(r.Context()); err != nil {
					return nil, err
				}
				return canned(http.StatusServiceUnavailable, nil, ""), nil
			})), func(cfg *paymentsvc.Config) {
				cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { leave("before a retry") })
			})
			_, err := c.GetBalance(ctx)
			e, _ := errors.AsType[*paymentsvc.Error](err)
			require.Equal(t, outcome, e.Outcome, when)
			require.ErrorIs(t, err, context.Canceled, when)
			assert.NotErrorIs(t, err, paymentsvc.ErrUnauthorized, when)
			assert.NotErrorIs(t, err, paymentsvc.ErrInvalidRequest, when)
			assert.NotErrorAs(t, err, new(*paymentsvc.ServiceError), when)
			_, err = pay(ctx, c)
			assert.True(t, paymentsvc.SafeToRetry(err), "%s: %v", when, err)
		}
	}
}

func TestErrorOfAnAttemptDoesNotChangeLater(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var reported *paymentsvc.Error
	var text string
	c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "60"))), func(cfg *paymentsvc.Config) {
		cfg.Retry = paymentsvc.Retry{MaxDelay: time.Hour}
		cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) {
			require.ErrorAs(t, a.Err, &reported)
			text = a.Err.Error()
			cancel()
		})
	})
	_, err := c.GetBalance(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotSame(t, reported, err)
	assert.Equal(t, text, reported.Error())
}
