package paymentsvc_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// The statuses of the matrix: all that are registered, and some that are not.
func allStatuses() []int {
	statuses := []int{299, 306, 432, 499, 520, 599, 600, 999}
	for status := 200; status < 600; status++ {
		if http.StatusText(status) != "" {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// statusesAboutTheRequest are about a request as it came in, whoever answers.
var statusesAboutTheRequest = []int{400, 401, 405, 411, 413, 414, 415, 417, 421, 422, 431}

const (
	success  = "success"
	rejected = "rejected"
	unknown  = "unknown"
)

// byStatus names what an answer proves: of a 2xx other than 202, of 202, and of a 4xx other than those about time.
// Everything else proves nothing.
func byStatus(on2xx, on202, on4xx string) func(status int) string {
	return func(status int) string {
		switch {
		case status == 202:
			return on202
		case status/100 == 2:
			return on2xx
		case status/100 == 4 && status != 408 && status != 409 && status != 425 && status != 499:
			return on4xx
		}
		return unknown
	}
}

// undecoded is what an answer proves to a client without DecodeError.
func undecoded(on2xx string) func(status int) string {
	return func(status int) string {
		if status/100 == 2 {
			return on2xx
		}
		if slices.Contains(statusesAboutTheRequest, status) {
			return rejected
		}
		return unknown
	}
}

func always(what string) func(int) string { return func(int) string { return what } }

// Every status, body and decoder with each of the seven endpoints. docs/outcomes.md has the same table.
func TestOutcomeMatrix(t *testing.T) {
	withError := func(body string) string {
		return strings.Replace(strings.Replace(body, "{", `{"error_code":"E17","error_message":"no",`, 1), ",}", "}", 1)
	}
	fields := paymentsvc.ErrorFields("error_code", "error_message")
	withEffect := func(effect paymentsvc.Effect) paymentsvc.ErrorDecoder {
		return func(status int, body []byte) *paymentsvc.ServiceError {
			found := fields(status, body)
			if found != nil {
				found.Effect = effect
			}
			return found
		}
	}
	for _, row := range []struct {
		name    string
		decoder paymentsvc.ErrorDecoder
		body    func(op operation) string
		want    func(op operation) func(status int) string
	}{
		{"a success, undecoded", nil, operation.success, func(operation) func(int) string { return undecoded(success) }},
		{"an error, undecoded", nil, fixed(withError("{}")), func(op operation) func(int) string { return undecoded(op.anyObject()) }},
		{"a page, undecoded", nil, fixed("<html>403 Forbidden</html>"), func(operation) func(int) string { return undecoded(unknown) }},
		{"nothing, undecoded", nil, fixed(""), func(operation) func(int) string { return undecoded(unknown) }},

		{"a success", fields, operation.success, func(operation) func(int) string { return byStatus(success, success, unknown) }},
		{"a success with an empty code", fields, func(op operation) string {
			return strings.Replace(withError(op.answer), `"E17"`, "0", 1)
		}, func(operation) func(int) string { return byStatus(success, success, unknown) }},
		{"an error", fields, fixed(withError("{}")), func(operation) func(int) string { return byStatus(rejected, unknown, rejected) }},
		{"an error beside an empty order_id and redirect_url", fields, fixed(withError(`{"order_id":"","redirect_url":null}`)),
			func(operation) func(int) string { return byStatus(rejected, unknown, rejected) }},
		{"an error beside a started order", fields, fixed(withError(`{"order_id":"o-1","redirect_url":"https://pay.example"}`)),
			func(operation) func(int) string { return byStatus(unknown, unknown, rejected) }},
		{"an error beside an order_id that is no string", fields, fixed(withError(`{"order_id":17,"redirect_url":{"a":1}}`)),
			func(operation) func(int) string { return byStatus(unknown, unknown, rejected) }},
		{"an error beside an order_id alone", fields, fixed(withError(`{"order_id":"o-1"}`)), func(op operation) func(int) string {
			if op.name == "init_form" {
				return byStatus(rejected, unknown, rejected)
			}
			return byStatus(unknown, unknown, rejected)
		}},
		{"a gateway's JSON", fields, fixed(`{"message":"Forbidden"}`), func(op operation) func(int) string {
			return byStatus(op.anyObject(), op.anyObject(), unknown)
		}},
		{"a page", fields, fixed("<html>403 Forbidden</html>"), func(operation) func(int) string { return always(unknown) }},
		{"nothing", fields, fixed(""), func(operation) func(int) string { return always(unknown) }},
		{"an error that is cut off", fields, fixed(`{"error_code":"E17"`), func(operation) func(int) string { return always(unknown) }},

		{"an error without effect", withEffect(paymentsvc.EffectNone), fixed(withError("{}")),
			func(operation) func(int) string { return always(rejected) }},
		{"an error without effect beside a started order", withEffect(paymentsvc.EffectNone), fixed(withError(`{"order_id":"o-1"}`)),
			func(operation) func(int) string { return always(rejected) }},
		{"an error that may have an effect", withEffect(paymentsvc.EffectPossible), fixed(withError("{}")),
			func(operation) func(int) string { return always(unknown) }},
		{"an error with an effect of no meaning", withEffect(77), fixed(withError("{}")),
			func(operation) func(int) string { return always(unknown) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, op := range operations() {
				body := row.body(op)
				want := row.want(op)
				for _, status := range allStatuses() {
					sent := 0
					c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) {
						cfg.DecodeError = row.decoder
						cfg.Retry.MaxAttempts = 2
					}, over(roundTripFunc(func(*http.Request) (*http.Response, error) {
						sent++
						return canned(status, nil, body), nil
					})))
					response, err := op.call(t, c)
					if want(status) == success {
						assert.NoError(t, err, "%s %d", op.name, status)
						continue
					}
					require.Error(t, err, "%s %d", op.name, status)
					assert.Nil(t, response)
					assert.Equal(t, want(status), paymentsvc.OutcomeOf(err).String(), "%s %d: %v", op.name, status, err)
					assert.True(t, sent == 1 || !op.starts, "%s %d: a start is sent once", op.name, status)
					unauthorized := status == http.StatusUnauthorized || status == http.StatusForbidden
					assert.Equal(t, unauthorized, errors.Is(err, paymentsvc.ErrUnauthorized))
					assert.Equal(t, status == http.StatusTooManyRequests, errors.Is(err, paymentsvc.ErrRateLimited))
					about := unauthorized || status == http.StatusTooManyRequests
					assert.Equal(t, want(status) == rejected && about, paymentsvc.SafeToRetry(err), "%s %d", op.name, status)
					saysSo := strings.Contains(err.Error(), "Config.DecodeError")
					reported := errors.As(err, new(*paymentsvc.ServiceError))
					assert.Equal(t, status/100 == 4 && want(status) == unknown && !reported, saysSo, "%s %d: %v", op.name, status, err)
				}
			}
		})
	}
}

func fixed(body string) func(operation) string { return func(operation) string { return body } }

func (op operation) success() string { return op.answer }

// anyObject is what a 2xx with an object of unknown members proves: all fields of a status answer are optional.
func (op operation) anyObject() string {
	if strings.HasPrefix(op.name, "status_") {
		return success
	}
	return unknown
}

// A proxy's answer under a decoder of few words: the payout was made, and the proxy answers in the service's place.
func TestOutcomeOfAProxysAnswerIsUnknown(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"a firewall":                  {403, "<html><center>nginx</center></html>"},
		"a proxy's deny page":         {403, "<h1>Access Denied.</h1>"},
		"a page for a missing page":   {404, "<html>404 Not Found</html>"},
		"a gateway's time-out":        {504, `{"message":"Endpoint request timed out"}`},
		"a gateway's rate limit":      {429, `{"message":"Too Many Requests"}`},
		"a gateway's JSON with error": {403, `{"message":null,"error":"forbidden"}`},
	} {
		for decoder, decode := range map[string]paymentsvc.ErrorDecoder{"none": nil, "fields": paymentsvc.ErrorFields("code", "message")} {
			t.Run(name+", decoder "+decoder, func(t *testing.T) {
				s := newService(t, answering(answer.status, answer.body))
				c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.DecodeError = decode })
				response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
				failed(t, response, err, paymentsvc.OutcomeUnknown)
				assert.False(t, paymentsvc.SafeToRetry(err))
				assert.Len(t, s.received(), 1)
			})
		}
	}
}

func TestOutcomeOfAnAnswerThatIsNotWholeIsUnknown(t *testing.T) {
	for name, behave := range map[string]string{
		"a rejection cut off":    "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 900\r\n\r\n{\"error_code\":\"E17\"}",
		"400 cut off":            "HTTP/1.1 400 Bad Request\r\nContent-Length: 900\r\n\r\n",
		"400 with half a header": "HTTP/1.1 400 Bad Request\r\nContent-Le",
	} {
		for _, decode := range []paymentsvc.ErrorDecoder{nil, paymentsvc.ErrorFields("error_code", "")} {
			t.Run(fmt.Sprintf("%s, decoder %t", name, decode != nil), func(t *testing.T) {
				s := newRawServer(t, func(c *net.TCPConn, _ int) bool { write(c, behave); return false })
				c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.DecodeError = decode })
				response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
				failed(t, response, err, paymentsvc.OutcomeUnknown)
			})
		}
	}
}

func TestOutcomeText(t *testing.T) {
	decode := paymentsvc.ErrorFields("error_code", "")
	for _, test := range []struct {
		status  int
		body    string
		decoder paymentsvc.ErrorDecoder
		want    string
	}{
		{404, "", nil, "outcome unknown, the request may have been carried out: HTTP 404: not found: " +
			"without Config.DecodeError this may be a proxy's answer"},
		{404, "", decode, "outcome unknown, the request may have been carried out: HTTP 404: not found: " +
			"no error that Config.DecodeError knows, so perhaps not the service's answer"},
		{400, "", nil, "rejected: HTTP 400: bad request"},
		{422, `{"error_code":4111}`, decode, "rejected: HTTP 422: the service reported an error, see ServiceError.Code and Message"},
		{500, "", nil, "outcome unknown, the request may have been carried out: HTTP 500: internal server error"},
		{302, "", nil, "outcome unknown, the request may have been carried out: HTTP 302: unexpected response: found"},
		{600, "", nil, "outcome unknown, the request may have been carried out: HTTP 600: unexpected response: no such status"},
	} {
		t.Run(strconv.Itoa(test.status), func(t *testing.T) {
			c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.DecodeError = test.decoder },
				over(roundTripFunc(func(*http.Request) (*http.Response, error) { return canned(test.status, nil, test.body), nil })))
			_, err := c.InitPayout(t.Context(), payoutRequest())
			require.EqualError(t, err, "paymentsvc: init_payout: "+test.want)
		})
	}
}

func TestOutcomeKeepsTheOrderID(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a status that is no integer", 200, `{"order_id":"po-1","status":"x","status_code":1}`, "po-1"},
		{"no status", 202, `{"order_id":"po-1"}`, "po-1"},
		{"a gateway's 504 around the service's answer", 504, `{"order_id":"po-1","status":1,"status_code":2}`, "po-1"},
		{"an error beside it", 200, `{"order_id":"po-1","error_code":7}`, "po-1"},
		{"a cut body", 200, `{"order_id":"po-1","status":1,"sta`, "po-1"},
		{"a byte order mark", 200, "\ufeff" + `{"order_id":"po-1"}`, "po-1"},
		{"escapes", 200, `{"order_\u0069d":"po\u002d1"}`, "po-1"},
		{"cut inside it", 200, `{"order_id":"po-`, ""},
		{"a number", 200, `{"order_id":17}`, ""},
		{"another letter case", 200, `{"Order_ID":"po-1"}`, ""},
		{"one further down", 200, `{"order":{"order_id":"po-1"}}`, ""},
		{"none", 200, `{}`, ""},
		{"a page", 502, `<html>`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.DecodeError = paymentsvc.ErrorFields("error_code", "") },
				over(roundTripFunc(func(*http.Request) (*http.Response, error) { return canned(test.status, nil, test.body), nil })))
			response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, test.want, e.OrderID)
		})
	}
	t.Run("and a success needs none", func(t *testing.T) {
		s := newService(t, answering(http.StatusOK, payoutAnswer))
		_, err := newClient(t, s.base()).InitPayout(t.Context(), payoutRequest())
		require.NoError(t, err)
	})
}

func TestOutcomeOf(t *testing.T) {
	notSent := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: io.EOF}
	invalid := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: fmt.Errorf("%w: x", paymentsvc.ErrInvalidRequest)}
	refused := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 422, Err: io.EOF}
	noKey := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 401, Err: io.EOF}
	forbidden := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 403, Err: io.EOF}
	limited := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 429, Err: io.EOF}
	lost := &paymentsvc.Error{HTTPStatus: 401, Err: io.EOF}
	for _, test := range []struct {
		name string
		err  error
		want paymentsvc.Outcome
		safe bool
	}{
		{"nil", nil, paymentsvc.OutcomeUnknown, false},
		{"a foreign error", io.EOF, paymentsvc.OutcomeUnknown, false},
		{"not sent", notSent, paymentsvc.OutcomeNotSent, true},
		{"not sent for what the request is", invalid, paymentsvc.OutcomeNotSent, false},
		{"rejected for what the order is", refused, paymentsvc.OutcomeRejected, false},
		{"rejected with 401", noKey, paymentsvc.OutcomeRejected, true},
		{"rejected with 403", forbidden, paymentsvc.OutcomeRejected, true},
		{"rejected with 429", limited, paymentsvc.OutcomeRejected, true},
		{"unknown with 401", lost, paymentsvc.OutcomeUnknown, false},
		{"a wrapped *Error", fmt.Errorf("checkout: %w", noKey), paymentsvc.OutcomeRejected, true},
		{"beside foreign errors", errors.Join(io.EOF, refused), paymentsvc.OutcomeRejected, false},
		{"beside foreign errors, safe", errors.Join(io.EOF, limited), paymentsvc.OutcomeRejected, true},
		{"several that agree", errors.Join(notSent, fmt.Errorf("x: %w", notSent)), paymentsvc.OutcomeNotSent, true},
		{"several of which one is not safe", errors.Join(limited, refused), paymentsvc.OutcomeRejected, false},
		{"several that differ and are safe", errors.Join(notSent, limited), paymentsvc.OutcomeUnknown, true},
		{"several that differ", errors.Join(notSent, refused), paymentsvc.OutcomeUnknown, false},
		{"several that differ, further down", fmt.Errorf("x: %w", errors.Join(notSent, lost)), paymentsvc.OutcomeUnknown, false},
		{"a nil *Error", (*paymentsvc.Error)(nil), paymentsvc.OutcomeUnknown, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, paymentsvc.OutcomeOf(test.err))
			assert.Equal(t, test.safe, paymentsvc.SafeToRetry(test.err))
		})
	}
}

func TestErrorFields(t *testing.T) {
	type found = paymentsvc.ServiceError
	for _, test := range []struct {
		name, code, message, body string
		want                      *found
	}{
		{"flat", "code", "message", `{"code":"E1","message":"no"}`, &found{Code: "E1", Message: "no"}},
		{"nested", "error.code", "error.text", `{"error":{"code":"E1","text":"no"}}`, &found{Code: "E1", Message: "no"}},
		{"three deep", "a.b.c", "", `{"a":{"b":{"c":7}}}`, &found{Code: "7"}},
		{"a number keeps its text", "code", "message", `{"code":1.50}`, &found{Code: "1.50"}},
		{"a long number keeps its digits", "code", "message", `{"code":12345678901234567890}`, &found{Code: "12345678901234567890"}},
		{"an empty message", "code", "message", `{"code":7,"message":""}`, &found{Code: "7"}},
		{"a message alone, where no code is named", "", "message", `{"message":"no"}`, &found{Message: "no"}},
		{"what is neither string nor number is JSON", "error", "", `{"error":{"a":[1]}}`, &found{Code: `{"a":[1]}`}},
		{"true", "error", "", `{"error":true}`, &found{Code: "true"}},
		{"escapes are read", "code", "", `{"code":"\u0041"}`, &found{Code: "A"}},
		{"a byte order mark", "code", "", "\ufeff" + `{"code":"A"}`, &found{Code: "A"}},
		{"a second code that is not empty", "code", "", `{"code":0,"code":"A"}`, &found{Code: "A"}},
		{"two zeros are a code", "code", "", `{"code":"00"}`, &found{Code: "00"}},

		{"a message alone", "code", "message", `{"message":"no"}`, nil},
		{"a message beside an empty code", "code", "message", `{"code":0,"message":"OK"}`, nil},
		{"an empty message alone, where no code is named", "", "message", `{"message":""}`, nil},
		{"zero", "code", "message", `{"code":0}`, nil},
		{"zero with decimals", "code", "message", `{"code":-0.00e5}`, nil},
		{"zero as text", "code", "message", `{"code":"0"}`, nil},
		{"empty text", "code", "message", `{"code":""}`, nil},
		{"false", "code", "message", `{"code":false}`, nil},
		{"an empty object", "code", "message", `{"code":{ }}`, nil},
		{"an empty list", "code", "message", `{"code":[]}`, nil},
		{"both absent", "code", "message", `{"order_id":"1"}`, nil},
		{"both null", "code", "message", `{"code":null,"message":null}`, nil},
		{"the way there is null", "error.code", "error.message", `{"error":null}`, nil},
		{"the way there is text", "error.code", "error.message", `{"error":"x"}`, nil},
		{"another letter case", "code", "message", `{"Code":"E1"}`, nil},
		{"no field is named", "", "", `{"":"E1"}`, nil},
		{"a name that ends in a dot", "code.", "", `{"code":{"":"E1"}}`, nil},
		{"no JSON", "code", "message", `<html>`, nil},
		{"half of it", "code", "message", `{"code":"E1"`, nil},
		{"two values", "code", "message", `{"code":"E1"}{}`, nil},
		{"a list", "code", "message", `[{"code":"E1"}]`, nil},
		{"nothing", "code", "message", ``, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, paymentsvc.ErrorFields(test.code, test.message)(http.StatusOK, []byte(test.body)))
		})
	}
}

func TestErrorRetryAfter(t *testing.T) {
	answered := func(header http.Header) *paymentsvc.Error {
		c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 },
			over(roundTripFunc(func(*http.Request) (*http.Response, error) {
				return canned(http.StatusTooManyRequests, header, ""), nil
			})))
		_, err := c.InitPayout(t.Context(), payoutRequest())
		var e *paymentsvc.Error
		require.ErrorAs(t, err, &e)
		return e
	}
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"seconds", http.Header{"Retry-After": {"3600"}}, time.Hour},
		{"a date, by the service's clock", http.Header{
			"Retry-After": {date.Add(time.Minute).Format(http.TimeFormat)}, "Date": {date.Format(http.TimeFormat)},
		}, time.Minute},
		{"a date that has passed", http.Header{"Retry-After": {date.Format(http.TimeFormat)}, "Date": {date.Add(1).Format(http.TimeFormat)}}, 0},
		{"zero", http.Header{"Retry-After": {"0"}}, 0},
		{"nonsense", http.Header{"Retry-After": {"soon"}}, 0},
		{"no header", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			wait, ok := answered(test.header).RetryAfter()
			assert.Equal(t, test.want, wait)
			assert.Equal(t, test.want > 0, ok)
		})
	}
	t.Run("a date without any clock to measure it by", func(t *testing.T) {
		e := paymentsvc.Error{Header: http.Header{"Retry-After": {date.Format(http.TimeFormat)}}}
		_, ok := e.RetryAfter()
		assert.False(t, ok)
	})
}

// The documented switch: a success first, and nothing but what is proved.
func TestTheDocumentedSwitchTellsTheFourCasesApart(t *testing.T) {
	what := func(err error) string {
		switch {
		case err == nil:
			return "started"
		case paymentsvc.SafeToRetry(err):
			return "retry"
		case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
			return "reconcile"
		default:
			return "rejected for good"
		}
	}
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{200, payoutAnswer, "started"},
		{401, "", "retry"},
		{403, `{"error_code":"E1"}`, "retry"},
		{429, `{"error_code":"E2"}`, "retry"},
		{402, `{"error_code":"E3"}`, "rejected for good"},
		{403, "<html>", "reconcile"},
		{503, `{"error_code":"E4"}`, "reconcile"},
	} {
		c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) {
			if test.status != 401 {
				cfg.DecodeError = paymentsvc.ErrorFields("error_code", "")
			}
		}, over(roundTripFunc(func(*http.Request) (*http.Response, error) { return canned(test.status, nil, test.body), nil })))
		_, err := c.InitPayout(t.Context(), payoutRequest())
		assert.Equal(t, test.want, what(err), "%d %s", test.status, test.body)
	}
	_, err := newClient(t, refusingPort(t)).InitPayout(t.Context(), payoutRequest())
	assert.Equal(t, "retry", what(err))
	_, err = newClient(t, refusingPort(t)).InitPayout(t.Context(), paymentsvc.PayoutRequest{})
	assert.Equal(t, "rejected for good", what(err), "it would be rejected again tomorrow")
}

func TestResultNamesWhatBecameOfAnAttempt(t *testing.T) {
	for want, a := range map[string]paymentsvc.Attempt{
		"success":  {},
		"not sent": {Err: io.EOF, Outcome: paymentsvc.OutcomeNotSent},
		"rejected": {Err: io.EOF, Outcome: paymentsvc.OutcomeRejected},
		"unknown":  {Err: io.EOF},
	} {
		assert.Equal(t, want, a.Result())
	}
}

// What the document requires decides, and what it does not is named: a payment that was started must not look lost
// because of a description.
func TestMalformed(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		malformed        []string
	}{
		{"redirect_url: false", "init_payment/card", `{"order_id":"o","status":1,"status_code":2,"redirect_url":false}`, []string{"redirect_url"}},
		{"redirect_url twice", "init_payment/card", `{"order_id":"o","redirect_url":"a","status":1,"status_code":2,"redirect_url":"b"}`, []string{"redirect_url"}},
		{"Status beside status", "init_payment/card", `{"order_id":"o","Status":"x","status":1,"status_code":2}`, nil},
		{"integers with decimals and exponents", "init_payout", `{"order_id":"o","status":1.0,"status_code":1e0}`, nil},
		{"a byte order mark", "init_payout", "\ufeff" + payoutAnswer, nil},
		{"order_id is no field of a form", "init_form", `{"redirect_url":"u","order_id":1}`, nil},
		{"partner_id as text", "status_payment", `{"partner_id":"7","project_id":2.0}`, []string{"partner_id"}},
		{"an empty amount", "status_payout", `{"amount":"","order_id":"o"}`, []string{"amount"}},
		{"half a surrogate pair", "status_payment", `{"order_id":"o","description":"\ud83d"}`, []string{"description"}},
		{"all of them", "status_payment", `{"order_id":1,"user_data":{},"description":[],"amount":true,"project_id":1.5,"partner_id":"x"}`,
			[]string{"partner_id", "project_id", "amount", "description", "user_data", "order_id"}},
		{"one balance", "get_balance", `{"payout_balance":1,"expected_balance":"x","currency":"EUR"}`, []string{"expected_balance"}},
		{"the other balance", "get_balance", `{"payout_balance":null,"expected_balance":1,"currency":"EUR"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, answering(http.StatusOK, test.body))
			for _, op := range operations() {
				if op.path != test.path {
					continue
				}
				response, err := op.call(t, newClient(t, s.base()))
				require.NoError(t, err)
				var got struct {
					Malformed []string
					Raw       json.RawMessage
				}
				switch r := response.(type) {
				case *paymentsvc.InitPaymentResponse:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				case *paymentsvc.InitPayoutResponse:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				case *paymentsvc.InitFormResponse:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				case *paymentsvc.InitInvoiceResponse:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				case *paymentsvc.StatusResponse:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				case *paymentsvc.Balance:
					got.Malformed, got.Raw = r.Malformed, r.Raw
				}
				assert.Equal(t, test.malformed, got.Malformed)
				assert.Equal(t, test.body, string(got.Raw))
			}
			assert.Len(t, s.received(), 1, cmp.Or(test.path, "no such endpoint"))
		})
	}
}

func TestPaymentTypeKnown(t *testing.T) {
	for _, known := range []paymentsvc.PaymentType{"card", "sbp", "crypto", "mc"} {
		assert.True(t, known.Known())
	}
	for _, other := range []paymentsvc.PaymentType{"", "Card", "card ", "wire"} {
		assert.False(t, other.Known())
	}
}
