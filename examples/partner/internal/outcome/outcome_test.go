package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/outcome"
)

// answered is the error of a call that the service answered with an error of its own.
func answered(status int, code string) error {
	return &paymentsvc.Error{
		Outcome: paymentsvc.OutcomeRejected, HTTPStatus: status, Err: &paymentsvc.ServiceError{Code: code},
	}
}

func TestAnErrorMeansNoMoreThanItProves(t *testing.T) {
	notSent := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: context.Canceled}
	invalid := &paymentsvc.Error{
		Outcome: paymentsvc.OutcomeNotSent, Err: fmt.Errorf("%w: amount", paymentsvc.ErrInvalidRequest),
	}
	for _, test := range []struct {
		name string
		err  error
		want outcome.Meaning
	}{
		{"not sent", notSent, outcome.NotSent},
		{"not sent, wrapped", fmt.Errorf("call: %w", notSent), outcome.NotSent},
		{"never to be sent", invalid, outcome.Refused},
		{"no answer", &paymentsvc.Error{Err: context.DeadlineExceeded}, outcome.Unknown},
		{"another shape", &paymentsvc.Error{HTTPStatus: 200, Err: paymentsvc.ErrUnexpectedResponse}, outcome.Unknown},
		{"not of a client", errors.New("broken"), outcome.Unknown},
		{"two that do not agree", errors.Join(notSent, answered(402, "E17")), outcome.Unknown},
		{"rejected without a status", answered(0, "E17"), outcome.Unknown},
		{"none", nil, outcome.Unknown},
	} {
		assert.Equal(t, test.want, outcome.Of(test.err), test.name)
	}
}

// An error code beside a status of a gateway is no proof that the service refused it.
func TestAStatusTellsWhoIsRefused(t *testing.T) {
	for meaning, statuses := range map[outcome.Meaning][]int{
		outcome.CallerRefused: {401, 403, 404, 405, 429},
		outcome.Unknown:       {302, 408, 409, 499, 500, 501, 502, 503, 504, 520, 599},
		outcome.Refused:       {200, 201, 400, 402, 410, 413, 415, 422, 451},
	} {
		for _, status := range statuses {
			assert.Equal(t, meaning, outcome.Of(answered(status, "upstream_timeout")), status)
		}
	}
}

func TestACodeIsShownIfItLooksLikeOne(t *testing.T) {
	invalid := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}
	for _, test := range []struct {
		err  error
		want string
	}{
		{answered(402, "E17"), "E17"},
		{answered(402, "payments.no-money:7_a"), "payments.no-money:7_a"},
		{answered(402, ""), "HTTP 402"},
		{answered(200, "card 4111 1111 1111 1111"), "HTTP 200"},
		{answered(402, "E17\nE18"), "HTTP 402"},
		{answered(402, "größer"), "HTTP 402"},
		{answered(402, strings.Repeat("E", 64)), strings.Repeat("E", 64)},
		{answered(402, strings.Repeat("E", 65)), "HTTP 402"},
		{invalid, "invalid request"},
	} {
		assert.Equal(t, test.want, outcome.Code(test.err))
	}
}

func TestRetryAfterIsKeptWithinBounds(t *testing.T) {
	now := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                         0,
		"0":                        0,
		"7":                        7 * time.Second,
		"900":                      15 * time.Minute,
		"901":                      15 * time.Minute,
		"2147483647":               15 * time.Minute,
		strconv.Itoa(1 << 62):      15 * time.Minute,
		"-1":                       0,
		"1.5":                      0,
		"soon":                     0,
		date(now.Add(time.Minute)): time.Minute,
		date(now.Add(time.Hour)):   15 * time.Minute,
		date(now.Add(-time.Hour)):  0,
	} {
		header := http.Header{"Retry-After": {value}}
		err := fmt.Errorf("call: %w", &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 429, Header: header})
		assert.Equal(t, want, outcome.RetryAfter(err, now), value)
	}
	assert.Zero(t, outcome.RetryAfter(&paymentsvc.Error{}, now), "no answer")
	assert.Zero(t, outcome.RetryAfter(errors.New("broken"), now))
}

func date(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second,
		7: time.Minute, 1000: time.Minute,
	} {
		assert.Equal(t, want, outcome.Backoff(n, time.Minute), n)
	}
	assert.Equal(t, time.Millisecond, outcome.Backoff(1, time.Millisecond))
}
