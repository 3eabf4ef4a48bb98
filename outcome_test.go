package paymentsvc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// allStatuses returns the registered statuses from 200 and some unregistered ones.
func allStatuses() []int {
	statuses := []int{299, 306, 432, 499, 520, 599, 600, 999}
	for status := 200; status < 600; status++ {
		if http.StatusText(status) != "" {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

const (
	success  = "success"
	rejected = "rejected"
	unknown  = "unknown"
)

// byStatus returns the expected outcome by status: of a 2xx except 202, of 202, and of a 4xx except 408, 409, 425 and
// 499. For any other status the outcome is unknown.
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

// undecoded returns the expected outcome without DecodeError.
func undecoded(on2xx string) func(status int) string { return byStatus(on2xx, on2xx, unknown) }

func always(outcome string) func(int) string { return func(int) string { return outcome } }

// TestOutcomeFollowsStatusBodyAndDecoder combines statuses, bodies, decoders and the seven endpoints. docs/outcomes.md
// has the same table.
func TestOutcomeFollowsStatusBodyAndDecoder(t *testing.T) {
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
	// like a partner's decoder that reports an error if json.Unmarshal fails
	anyError := func(int, []byte) *paymentsvc.ServiceError { return new(paymentsvc.ServiceError) }
	for _, row := range []struct {
		name    string
		decoder paymentsvc.ErrorDecoder
		body    func(op operation) string
		want    func(op operation) func(status int) string
	}{
		{"a success, undecoded", nil, operation.success, same(undecoded(success))},
		{
			"an error, undecoded", nil, fixed(withError("{}")),
			func(op operation) func(int) string { return undecoded(op.anyObject()) },
		},
		{"a page, undecoded", nil, fixed("<html>403 Forbidden</html>"), same(undecoded(unknown))},
		{"nothing, undecoded", nil, fixed(""), same(undecoded(unknown))},

		{"a success", fields, operation.success, same(byStatus(success, success, unknown))},
		{"a success with an empty code", fields, func(op operation) string {
			return strings.Replace(withError(op.answer), `"E17"`, "0", 1)
		}, same(byStatus(success, success, unknown))},
		{"an error", fields, fixed(withError("{}")), same(byStatus(rejected, unknown, rejected))},
		{"an error beside an empty order_id and redirect_url", fields,
			fixed(withError(`{"order_id":"","redirect_url":null}`)),
			same(byStatus(rejected, unknown, rejected))},
		{"an error beside a started order", fields,
			fixed(withError(`{"order_id":"o-1","redirect_url":"https://pay.example"}`)),
			same(byStatus(unknown, unknown, rejected))},
		{"an error beside an order_id that is no string", fields,
			fixed(withError(`{"order_id":17,"redirect_url":{"a":1}}`)),
			same(byStatus(unknown, unknown, rejected))},
		{"an error beside an order_id alone", fields, fixed(withError(`{"order_id":"o-1"}`)),
			func(op operation) func(int) string {
				if op.name == "init_form" {
					return byStatus(rejected, unknown, rejected)
				}
				return byStatus(unknown, unknown, rejected)
			}},
		{"an error beside a started order in an envelope", fields,
			fixed(`{"error_code":"E17","data":[{"Order_ID":"o-1","redirect_url":"u"}]}`),
			same(byStatus(unknown, unknown, rejected))},
		{"an error beside a started order in a string", fields,
			fixed(`{"error_code":"E17","data":"{\"order_id\":\"o-1\",\"redirect_url\":\"u\"}"}`),
			same(byStatus(unknown, unknown, rejected))},
		{"an error beside a started order in a string in a string, escaped", fields,
			fixed(`{"error_code":"E17","data":"\"{\\\"ORDER\\u005fID\\\":1,\\\"\\u0072edirect_url\\\":\\\"u\\\"}\""}`),
			same(byStatus(unknown, unknown, rejected))},
		{"an error about order_id and redirect_url", fields,
			fixed(`{"error_code":"E17","field":"order_id","error_message":"order_id is required, as is \"redirect_url\""}`),
			same(byStatus(rejected, unknown, rejected))},
		{"a gateway's JSON", fields, fixed(`{"message":"Forbidden"}`), func(op operation) func(int) string {
			return byStatus(op.anyObject(), op.anyObject(), unknown)
		}},
		{"a page", fields, fixed("<html>403 Forbidden</html>"), same(always(unknown))},
		{"nothing", fields, fixed(""), same(always(unknown))},
		{"an error that is cut off", fields, fixed(`{"error_code":"E17"`), same(always(unknown))},

		{"an error beside an invoice_url alone", fields, fixed(withError(`{"invoice_url":"https://pay.example"}`)),
			func(op operation) func(int) string {
				if op.name == "init_invoice" {
					return byStatus(unknown, unknown, rejected)
				}
				return byStatus(rejected, unknown, rejected)
			}},
		{"a page that the decoder calls an error", anyError, fixed("<html>403 Forbidden</html>"), same(always(unknown))},
		{"half a success that the decoder calls an error", anyError, fixed(`{"status":1,"ord`), same(always(unknown))},
		{"a compressed success that the decoder calls an error", anyError, fixed("\x0b\x04\x80\x03"),
			same(always(unknown))},
		{"text that the decoder calls an error", anyError, fixed(`"E17"`), same(always(unknown))},
		{"an object that the decoder calls an error", anyError, fixed("\ufeff {}\n"),
			same(byStatus(rejected, unknown, rejected))},

		{"an error without effect", withEffect(paymentsvc.EffectNone), fixed(withError("{}")),
			same(always(rejected))},
		{"a page without effect", func(int, []byte) *paymentsvc.ServiceError {
			return &paymentsvc.ServiceError{Effect: paymentsvc.EffectNone}
		}, fixed("<html>429 Too Many Requests</html>"), same(always(rejected))},
		{"an error without effect beside a started order", withEffect(paymentsvc.EffectNone),
			fixed(withError(`{"order_id":"o-1","redirect_url":"u"}`)), func(operation) func(int) string {
				return func(status int) string {
					if status/100 == 2 {
						return unknown
					}
					return rejected
				}
			}},
		{"an error that may have an effect", withEffect(paymentsvc.EffectPossible), fixed(withError("{}")),
			same(always(unknown))},
		{"an error with an undefined effect", withEffect(77), fixed(withError("{}")),
			same(always(unknown))},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, op := range operations {
				body := row.body(op)
				want := row.want(op)
				var status, sent int
				c := newClient(t, "http://127.0.0.1", decoding(row.decoder), attempts(2),
					over(roundTripFunc(func(*http.Request) (*http.Response, error) {
						sent++
						return canned(status, nil, body), nil
					})))
				for _, status = range allStatuses() {
					sent = 0
					response, err := op.call(t, c)
					if want(status) == success {
						assert.NoError(t, err, "%s %d", op.name, status)
						continue
					}
					e, failure := errors.AsType[*paymentsvc.Error](err)
					require.True(t, failure, "%s %d", op.name, status)
					failed(t, response, err, e.Outcome)
					assert.Equal(t, want(status), e.Outcome.String(), "%s %d: %v", op.name, status, err)
					incomplete := errors.Is(err, io.ErrUnexpectedEOF)
					retried := !op.starts && (status == http.StatusTooManyRequests || status/100 == 5 || incomplete)
					assert.Equal(t, map[bool]int{false: 1, true: 2}[retried], sent, "%s %d: attempts", op.name, status)
					assert.Equal(t, paymentsvc.Error{
						Endpoint: op.path, HTTPStatus: status, Attempts: sent, Body: []byte(body),
					}, paymentsvc.Error{
						Endpoint: e.Endpoint, HTTPStatus: e.HTTPStatus, Attempts: e.Attempts, Body: e.Body,
					})
					unauthorized := status == http.StatusUnauthorized || status == http.StatusForbidden
					assert.Equal(t, unauthorized, errors.Is(err, paymentsvc.ErrUnauthorized))
					assert.Equal(t, status == http.StatusTooManyRequests, errors.Is(err, paymentsvc.ErrRateLimited))
					about := unauthorized || status == http.StatusTooManyRequests
					safe := want(status) == rejected && about && op.starts
					assert.Equal(t, safe, paymentsvc.SafeToRetry(err), "%s %d", op.name, status)
					reported := errors.As(err, new(*paymentsvc.ServiceError))
					advised := status/100 == 4 && want(status) == unknown && !reported
					advice := strings.Contains(err.Error(), "Config.DecodeError")
					assert.Equal(t, advised, advice, "%s %d: %v", op.name, status, err)
				}
			}
		})
	}
}

// same returns want for every operation.
func same(want func(int) string) func(operation) func(int) string {
	return func(operation) func(int) string { return want }
}

func fixed(body string) func(operation) string { return func(operation) string { return body } }

func (op operation) success() string { return op.answer }

// anyObject returns the expected outcome of a 2xx with unknown members. All fields of a status response are optional.
func (op operation) anyObject() string {
	if strings.HasPrefix(op.name, "status_") {
		return success
	}
	return unknown
}

func TestOutcomeIsInTheErrorText(t *testing.T) {
	decode := paymentsvc.ErrorFields("error_code", "")
	for _, test := range []struct {
		status  int
		body    string
		decoder paymentsvc.ErrorDecoder
		want    string
	}{
		{404, "", nil, "outcome unknown, the request may have been carried out: HTTP 404: not found: " +
			"without Config.DecodeError this may be a proxy's response"},
		{404, "", decode, "outcome unknown, the request may have been carried out: HTTP 404: not found: " +
			"Config.DecodeError finds no error, so this may be a proxy's response"},
		{401, "", nil, "outcome unknown, the request may have been carried out: HTTP 401: unauthorized: " +
			"without Config.DecodeError this may be a proxy's response; the timestamp was 0s old when the response arrived"},
		{
			422, `{"error_code":4111}`, decode,
			"rejected: HTTP 422: the service reported an error, see ServiceError.Code and Message",
		},
		{500, "", nil, "outcome unknown, the request may have been carried out: HTTP 500: internal server error"},
		{302, "", nil, "outcome unknown, the request may have been carried out: HTTP 302: unexpected response: found"},
		{
			600, "", nil,
			"outcome unknown, the request may have been carried out: HTTP 600: unexpected response: no such status",
		},
	} {
		t.Run(strconv.Itoa(test.status), func(t *testing.T) {
			c := newClient(t, "http://127.0.0.1", decoding(test.decoder), answers(test.status, nil, test.body))
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
		{"a required number that is text", 200, `{"order_id":"po-1","status":1,"status_code":"accepted"}`, "po-1"},
		{"half a surrogate pair", 200, `{"order_id":"po-\ud83d"}`, ""},
		{"a number", 200, `{"order_id":17}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(
				t, "http://127.0.0.1", decoding(paymentsvc.ErrorFields("error_code", "")),
				answers(test.status, nil, test.body),
			)
			response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, test.want, e.OrderID)
		})
	}
}

func TestOutcomeOfAndSafeToRetryReadTheTreeOfErrors(t *testing.T) {
	notSent := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: io.EOF}
	invalid := &paymentsvc.Error{
		Outcome: paymentsvc.OutcomeNotSent, Err: fmt.Errorf("%w: x", paymentsvc.ErrInvalidRequest),
	}
	refused := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 422, Err: io.EOF}
	noKey := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 401, Err: io.EOF}
	forbidden := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 403, Err: io.EOF}
	limited := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 429, Err: io.EOF}
	lost := &paymentsvc.Error{HTTPStatus: 401, Err: io.EOF}
	of := func(endpoint string, e *paymentsvc.Error) error {
		called := *e
		called.Endpoint = endpoint
		return &called
	}
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
		{
			"several that differ, further down", fmt.Errorf("x: %w", errors.Join(notSent, lost)),
			paymentsvc.OutcomeUnknown, false,
		},
		{"a nil *Error", (*paymentsvc.Error)(nil), paymentsvc.OutcomeUnknown, false},
		{"a nil *NotificationError", (*paymentsvc.NotificationError)(nil), paymentsvc.OutcomeUnknown, false},
		{"a start", of("init_payment/card", notSent), paymentsvc.OutcomeNotSent, true},
		{"a status call that was not sent", of("status_payment", notSent), paymentsvc.OutcomeUnknown, false},
		{"a status call that does not find the payment", of("status_payment", refused), paymentsvc.OutcomeUnknown, false},
		{"a status call with 401", of("status_payout", noKey), paymentsvc.OutcomeUnknown, false},
		{"a balance with 429", of("get_balance", limited), paymentsvc.OutcomeUnknown, false},
		{"a safe start beside a status call", errors.Join(notSent, of("status_payment", notSent)),
			paymentsvc.OutcomeUnknown, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, paymentsvc.OutcomeOf(test.err))
			assert.Equal(t, test.safe, paymentsvc.SafeToRetry(test.err))
			assert.NotEmpty(t, errors.Join(io.EOF, test.err).Error(), "a text without a panic")
		})
	}
}

func TestOutcomeIsDecidedAfterTheAttemptsContextEnded(t *testing.T) {
	var attempt context.Context
	c := newClient(t, "http://127.0.0.1", trusted, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		attempt = r.Context()
		return nil, io.ErrClosedPipe
	})), func(cfg *paymentsvc.Config) {
		cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { assert.Error(t, attempt.Err()) })
	})
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.NotEqual(t, t.Context(), attempt, "the attempt has a context of its own")
}

func TestOutcomeStartIsSentAtMostOnce(t *testing.T) {
	writes := func(text string) func(*net.TCPConn) { return func(c *net.TCPConn) { write(c, text) } }
	for name, behave := range map[string]func(*net.TCPConn){
		"the connection is closed":   func(*net.TCPConn) {},
		"the connection is reset":    func(c *net.TCPConn) { _ = c.SetLinger(0) },
		"half a status line":         writes("HTTP/1.1 20"),
		"half a header":              writes("HTTP/1.1 200 OK\r\nContent-Type: appl"),
		"something that is not HTTP": writes("SSH-2.0-OpenSSH_9.2\r\n"),
		"a header without a colon":   writes("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"),
		"a body shorter than it says": writes(
			"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + paymentAnswer,
		),
		"a body cut, without a length": writes("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + paymentAnswer[:30]),
		"a chunked body without its end": writes(fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(paymentAnswer), paymentAnswer,
		)),
		"no body at all":       writes("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
		"100 and then the end": writes("HTTP/1.1 100 Continue\r\n\r\n"),
		"103 and then the end": writes("HTTP/1.1 103 Early Hints\r\n\r\n"),
		"a rejection cut off": writes(
			"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 900\r\n\r\n" + `{"error_code":"E17"}`,
		),
		"a rejection with half a header": writes("HTTP/1.1 400 Bad Request\r\nContent-Le"),
		"408, as proxies close with":     writes("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range operations {
				s := newRawServer(t, func(c *net.TCPConn, _ int) bool { behave(c); return false })
				response, err := op.call(t, newClient(t, s.base(), decoding(paymentsvc.ErrorFields("error_code", ""))))
				e := failed(t, response, err, paymentsvc.OutcomeUnknown)
				want := int32(3)
				if op.starts || name == "408, as proxies close with" {
					want = 1
				}
				assert.Equal(t, want, s.taken.Load(), op.name)
				assert.EqualValues(t, want, e.Attempts, op.name)
				inBody := strings.Contains(name, "body")
				assert.Equal(t, inBody, errors.Is(err, paymentsvc.ErrUnexpectedResponse), op.name)
			}
		})
	}
}

func TestOutcomeStartOnABrokenKeptConnectionIsSentAtMostOnce(t *testing.T) {
	for _, op := range operations {
		s := newRawServer(t, func(c *net.TCPConn, nth int) bool {
			if nth > 1 {
				return false
			}
			write(c, okResponse(op.answer))
			return true
		})
		meddles := paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
			r.Header.Set("Idempotency-Key", "k") // with this header, net/http repeats a POST
			return nil
		})
		c := newClient(t, s.base(), signedBy(meddles), attempts(1))
		_, err := op.call(t, c)
		require.NoError(t, err)
		response, err := op.call(t, c)
		failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.EqualValues(t, 2, s.taken.Load(), op.name)
	}
}

func TestOutcomeStartRefusedOverHTTP2IsSentAtMostOnce(t *testing.T) {
	s, transport := newRefusingServer(t)
	c := newClient(t, s.base(), over(transport))
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.EqualValues(t, 1, s.taken.Load())
}

// newRefusingServer returns a server with refuseStreams, and a transport that speaks HTTP/2 with it. After
// REFUSED_STREAM, net/http sends a request again if GetBody is set.
func newRefusingServer(t *testing.T) (*rawServer, *http.Transport) {
	s := newListener(t)
	s.serve(func(conn *net.TCPConn) { refuseStreams(conn, &s.taken) })
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return s, transport
}

// refuseStreams is a minimal HTTP/2 server that counts complete requests and refuses each of them.
func refuseStreams(conn net.Conn, taken *atomic.Int32) {
	const (
		data, headers, resetStream, settings = 0x0, 0x1, 0x3, 0x4
		endStream, ack                       = 0x1, 0x1
		refusedStream                        = 0x7
	)
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	}
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	frame(settings, 0, 0, nil)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == settings && flags&ack == 0:
			frame(settings, ack, 0, nil)
		case (kind == data || kind == headers) && flags&endStream != 0:
			taken.Add(1)
			frame(resetStream, 0, stream, binary.BigEndian.AppendUint32(nil, refusedStream))
		}
	}
}

func TestNotSentNeedsProof(t *testing.T) {
	foreign := roundTripFunc(http.DefaultTransport.RoundTrip)
	without := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	foreignEntry := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{
		"other": func(string, *tls.Conn) http.RoundTripper { return nil },
	}}
	registered := &http.Transport{}
	registered.RegisterProtocol("http", sendsThenAsks{})
	neverAsked := roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
	connectedBefore := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("first")
		trace.GotConn(httptrace.GotConnInfo{})
		trace.GetConn("second")
		return nil, syscall.ECONNREFUSED
	})
	responds := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GetConn("")
		broken := io.NopCloser(iotest.ErrReader(syscall.ECONNREFUSED))
		return &http.Response{StatusCode: http.StatusOK, Body: broken}, nil
	})
	for _, test := range []struct {
		name      string
		transport http.RoundTripper // nil is http.DefaultTransport
		trust     bool
		outcome   paymentsvc.Outcome
		attempts  int
	}{
		{"its own transport", paymentsvc.NewTransport(), false, paymentsvc.OutcomeNotSent, 3},
		{"a plain *http.Transport", &http.Transport{}, false, paymentsvc.OutcomeNotSent, 3},
		{"a transport without HTTP/2", without, false, paymentsvc.OutcomeNotSent, 3},
		{"an http.Client without a transport", nil, false, paymentsvc.OutcomeNotSent, 3},
		{"a foreign entry in TLSNextProto", foreignEntry, false, paymentsvc.OutcomeUnknown, 1},
		{"a foreign RoundTripper", foreign, false, paymentsvc.OutcomeUnknown, 1},
		{"a trusted foreign RoundTripper", foreign, true, paymentsvc.OutcomeNotSent, 3},
		{"a registered foreign protocol", registered, false, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one that reads the body before a connection", sendsThenAsks{}, true, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one that never asked for a connection", neverAsked, true, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one with a connection before the next", connectedBefore, true, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one with a broken response", responds, true, paymentsvc.OutcomeUnknown, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, refusingPort(t), over(test.transport), func(cfg *paymentsvc.Config) {
				cfg.TrustTransport = test.trust
			})
			response, err := pay(t.Context(), c)
			e := failed(t, response, err, test.outcome)
			assert.Equal(t, test.attempts, e.Attempts)
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
	response, err := pay(t.Context(), newClient(t, refusingPort(t)))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
}

// sendsThenAsks reads the body, and then fails to get a connection from net/http.
type sendsThenAsks struct{}

func (sendsThenAsks) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	fallback, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	return new(http.Transport).RoundTrip(fallback)
}

func TestNotSentNeedsProofFromEveryAttempt(t *testing.T) {
	calls := 0
	c := newClient(t, "http://127.0.0.1", trusted, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		calls++
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("")
		if calls == 1 {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		return nil, syscall.ECONNRESET
	})))
	response, err := nilOr(c.GetBalance(t.Context()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.Equal(t, 3, calls)
}

func TestNotSentIsNotProvedByASignersRequests(t *testing.T) {
	asks := paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
		// The signer requests a connection to a key server, fails, and signs with an old key.
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
			trace.GetConn("keys")
		}
		return nil
	})
	sent := 0
	c := newClient(t, "http://127.0.0.1", trusted, signedBy(asks),
		over(roundTripFunc(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, io.ErrUnexpectedEOF
		})))
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.Equal(t, 1, sent)
}

func TestNotSentIfTheContextEndsBeforeOrWhileSigning(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := newService(t, answering(http.StatusOK, paymentAnswer))
		ctx, cancel := context.WithCancel(t.Context())
		if before {
			cancel()
		}
		c := newClient(t, s.base(), meddling(func(*http.Request) { assert.False(t, before, "signed"); cancel() }))
		response, err := pay(ctx, c)
		e := failed(t, response, err, paymentsvc.OutcomeNotSent)
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, !before || e.Attempts == 0, e.Attempts)
		assert.Empty(t, s.received())
	}
}

func TestNotSentAfterASignersError(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	broken := errors.New("key server away")
	for _, op := range operations {
		calls := 0
		c := newClient(t, s.base(), func(cfg *paymentsvc.Config) {
			cfg.Signer = paymentsvc.SignerFunc(func(*http.Request, []byte) error { calls++; return broken })
		})
		response, err := op.call(t, c)
		e := failed(t, response, err, paymentsvc.OutcomeNotSent)
		assert.ErrorIs(t, err, broken)
		assert.Zero(t, e.Attempts)
		assert.Equal(t, 1, calls)
	}
	assert.Empty(t, s.received())
}

func TestNotSentRemainsAfterCancelledBackOff(t *testing.T) {
	refusing := refusingPort(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, refusing, func(cfg *paymentsvc.Config) {
		cfg.Retry = paymentsvc.Retry{BaseDelay: time.Hour, MaxDelay: time.Hour}
		cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { cancel() })
	})
	response, err := pay(ctx, c)
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// seenConn records the ids of the requests received on a connection.
type seenConn struct {
	net.Conn
	arrived *sync.Map
}

func (c seenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for _, match := range idHeader.FindAllSubmatch(p[:n], -1) {
		c.arrived.Store(string(match[1]), true)
	}
	return n, err
}

var idHeader = regexp.MustCompile(`X-Test-Id: (\d+)\r\n`)

type seenListener struct {
	net.Listener
	arrived *sync.Map
}

func (l seenListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return seenConn{conn, l.arrived}, nil
}

var cancels = flag.Int64("cancels", 2_000, "random cancellations over each protocol, at least")

func TestNotSentIsNeverReportedForArrivedRequests(t *testing.T) {
	const callers = 16
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			var arrived sync.Map
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived.Store(r.Header.Get("X-Test-Id"), true)
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, paymentAnswer)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // no log of cancelled handshakes
			patience, http2 := 2*time.Millisecond, true
			switch protocol {
			case "HTTP/1.1":
				server.Listener = seenListener{server.Listener, &arrived}
				server.Start()
				patience, http2 = 600*time.Microsecond, false
			case "HTTP/2":
				server.EnableHTTP2 = true
				server.StartTLS()
			case "h2c":
				server.Config.Protocols = new(http.Protocols)
				server.Config.Protocols.SetUnencryptedHTTP2(true)
				server.Start()
			}
			defer server.Close()
			transport := server.Client().Transport.(*http.Transport)
			if protocol == "h2c" {
				transport.Protocols = server.Config.Protocols
			}
			if !http2 {
				transport = paymentsvc.NewTransport()
				transport.MaxConnsPerHost = callers / 4 // some calls wait for a connection
			}

			var id, cancelled atomic.Int64
			c := newClient(t, server.URL, over(transport), func(cfg *paymentsvc.Config) {
				cfg.Retry.MaxAttempts = 1
				cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
					r.Header.Set("X-Test-Id", r.Context().Value(idHeader).(string))
					return nil
				})
			})
			var notSent sync.Map
			var outcomes [3]atomic.Int64
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for {
						n := id.Add(1)
						count := outcomes[paymentsvc.OutcomeNotSent].Load()
						if n > *cancels && count > 0 && outcomes[paymentsvc.OutcomeUnknown].Load() > 0 {
							return
						}
						name := strconv.FormatInt(n, 10)
						ctx, cancel := context.WithCancel(context.WithValue(t.Context(), idHeader, name))
						if rand.N(500) == 0 && http2 {
							transport.CloseIdleConnections() // some calls dial
						}
						// Longer waits reach the time between request and response on slow machines.
						longer := 6 + min(n / *cancels, 10)
						timer := time.AfterFunc(rand.N(patience<<rand.N(longer)), cancel)
						_, err := pay(ctx, c)
						timer.Stop()
						cancel()
						if err == nil {
							continue
						}
						cancelled.Add(1)
						outcome := paymentsvc.OutcomeOf(err)
						outcomes[outcome].Add(1)
						if outcome == paymentsvc.OutcomeNotSent {
							notSent.Store(name, true)
						}
						if !errors.Is(err, context.Canceled) && !http2 { // HTTP/2 may close a connection during its use
							t.Errorf("another error: %v", err)
						}
					}
				})
			}
			group.Wait()
			transport.CloseIdleConnections()
			server.Close() // waits for the handlers

			notSent.Range(func(name, _ any) bool {
				_, wrong := arrived.Load(name)
				return assert.False(t, wrong, "request %s arrived, but is reported as not sent", name)
			})
			t.Logf("%d cancelled: %d not sent, %d unknown", cancelled.Load(),
				outcomes[paymentsvc.OutcomeNotSent].Load(), outcomes[paymentsvc.OutcomeUnknown].Load())
		})
	}
}

func TestTransportSpeaksHTTP1Only(t *testing.T) {
	transport := paymentsvc.NewTransport()
	assert.NotSame(t, transport, paymentsvc.NewTransport(), "callers may change it")
	assert.Equal(t, reflect.ValueOf(http.ProxyFromEnvironment).Pointer(), reflect.ValueOf(transport.Proxy).Pointer())
	assert.Less(t, transport.IdleConnTimeout, 5*time.Second, "before Apache and Node end a connection")
	assert.Equal(t, 100, transport.MaxIdleConns)
	assert.Equal(t, 100, transport.MaxIdleConnsPerHost)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Protocol", r.Proto)
		_, _ = io.WriteString(w, payoutAnswer)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	transport.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	var protocol string
	c := newClient(t, s.URL, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := transport.RoundTrip(r)
		if err == nil {
			protocol = resp.Header.Get("X-Protocol")
		}
		return resp, err
	})))
	_, err := c.InitPayout(t.Context(), payoutRequest())
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1", protocol)
	transport.CloseIdleConnections()
}

func TestTransportReceivesNoRepeatableRequest(t *testing.T) {
	signer := testSigner(t)
	meddles := paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("X-Idempotency-Key", "k")
		r.Header["idempotency-key"] = []string{"k"}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body = io.NopCloser(strings.NewReader("something else"))
		r.ContentLength = 5
		return signer.Sign(r, body)
	})
	c := newClient(t, "http://127.0.0.1", signedBy(meddles),
		over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			assert.Nil(t, r.GetBody)
			for name := range r.Header {
				assert.NotContains(t, strings.ToLower(name), "idempotency")
			}
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			assert.Equal(t, operations[0].sent, string(body), "the bytes signed are the bytes sent")
			assert.Equal(t, int64(len(body)), r.ContentLength)
			return canned(http.StatusOK, nil, paymentAnswer), nil
		})))
	_, err := pay(t.Context(), c)
	require.NoError(t, err)
}

// repeatingTransports returns wrappers that send a request again, as programs of partners do.
func repeatingTransports() map[string]func(base http.RoundTripper) http.RoundTripper {
	buffered := func(r *http.Request) func(ctx context.Context) *http.Request {
		body, _ := io.ReadAll(r.Body)
		return func(ctx context.Context) *http.Request {
			again, _ := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), bytes.NewReader(body))
			again.Header = r.Header.Clone()
			return again
		}
	}
	// repeats sends the changed request until a response below 500, but no more often than the given number.
	repeats := func(
		times int, change func(again *http.Request, n int) *http.Request,
	) func(http.RoundTripper) http.RoundTripper {
		return func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (resp *http.Response, err error) {
				next := buffered(r)
				for n := range times {
					resp, err = base.RoundTrip(change(next(r.Context()), n))
					if err == nil && resp.StatusCode < 500 {
						return resp, nil
					}
					if resp != nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}
				return nil, errors.Join(errors.New("giving up"), err)
			})
		}
	}
	unchanged := func(again *http.Request, _ int) *http.Request { return again }
	uncancelled := func(again *http.Request, _ int) *http.Request {
		return again.WithContext(context.WithoutCancel(again.Context()))
	}
	return map[string]func(http.RoundTripper) http.RoundTripper{
		"one that buffers the body and sends it again":           repeats(5, unchanged),
		"one that rebuilds the request, GetBody included":        repeats(1, unchanged),
		"one that sends it under a context without cancellation": repeats(3, uncancelled),
		"one that adds Idempotency-Key": repeats(3, func(again *http.Request, _ int) *http.Request {
			again.Header.Set("Idempotency-Key", "k")
			return again
		}),
		"one that sends it to another name of the host": repeats(3, func(again *http.Request, _ int) *http.Request {
			again.URL.Host = strings.Replace(again.URL.Host, "127.0.0.1", "localhost", 1)
			again.Host = again.URL.Host // only the signature identifies the request
			return again
		}),
		"one that signs each delivery anew": repeats(3, func(again *http.Request, n int) *http.Request {
			again.Header.Set("Signature", fmt.Sprint("HMAC ", n))
			return uncancelled(again, n)
		}),
		"one that renames the signature": repeats(3, func(again *http.Request, _ int) *http.Request {
			again.Header.Set("X-Signature", again.Header.Get("Signature"))
			again.Header.Del("Signature")
			return again
		}),
		"one that hedges": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				var group sync.WaitGroup
				for range 3 {
					again := next(r.Context())
					group.Go(func() {
						if resp, err := base.RoundTrip(again); err == nil {
							_ = resp.Body.Close()
						}
					})
				}
				group.Wait()
				return nil, errors.New("giving up")
			})
		},
	}
}

// breakingServer counts complete requests by body. It breaks the connection or responds with 503, in turn.
type breakingServer struct {
	*httptest.Server
	mu    sync.Mutex
	taken map[string]int
}

func newBreakingServer(t testing.TB, http2 bool) *breakingServer {
	t.Helper()
	s := &breakingServer{taken: map[string]int{}}
	var requests atomic.Int64
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			s.mu.Lock()
			s.taken[string(body)]++
			s.mu.Unlock()
		}
		if requests.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

var repeats = flag.Int64("repeats", 16, "calls through each transport that repeats")

func TestTransportThatRepeatsIsStopped(t *testing.T) {
	const callers = 8
	calls := *repeats
	for name, wrap := range repeatingTransports() {
		for _, http2 := range []bool{false, true} {
			for _, trust := range []bool{false, true} {
				protocol := map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2]
				t.Run(name+", "+protocol+map[bool]string{true: ", trusted"}[trust], func(t *testing.T) {
					t.Parallel()
					s := newBreakingServer(t, http2)
					base := s.Client().Transport.(*http.Transport)
					if http2 {
						base.TLSClientConfig.ServerName = "example.com" // for any host name
					}
					c := newClient(t, s.URL, over(wrap(base)), func(cfg *paymentsvc.Config) {
						cfg.TrustTransport = trust
					})
					var n, stopped atomic.Int64
					var group sync.WaitGroup
					for range callers {
						group.Go(func() {
							for n.Add(1) <= calls {
								r := payoutRequest()
								r.UserData = paymentsvc.NewUserData()
								_, err := c.InitPayout(t.Context(), r)
								if assert.Error(t, err) {
									assert.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), err)
									assert.NotErrorIs(t, err, context.Canceled, "the caller has not left")
									if strings.Contains(err.Error(), "the transport tried to send the request again") {
										stopped.Add(1)
									}
								}
							}
						})
					}
					group.Wait()
					base.CloseIdleConnections()
					s.Close()
					s.mu.Lock() // a handler of HTTP/2 may outlive its connection
					defer s.mu.Unlock()
					for body, times := range s.taken {
						assert.Equal(t, 1, times, body)
					}
					assert.LessOrEqual(t, len(s.taken), int(calls))
					if name != "one that hedges" { // the guard may stop both deliveries
						assert.NotEmpty(t, s.taken, "requests arrived")
					}
					if !strings.Contains(name, "rebuilds") { // this wrapper sends once
						assert.Positive(t, stopped.Load())
					}
				})
			}
		}
	}
}

// With GetBody, net/http repeats a request over HTTP/2 after a refused stream. A server may refuse a stream after it
// has read the complete request.
func TestTransportThatRestoresGetBodyIsStopped(t *testing.T) {
	for name, wrap := range repeatingTransports() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // net/http waits before it repeats
			s, base := newRefusingServer(t)
			c := newClient(t, s.base(), over(wrap(base)))
			for calls := int32(1); calls <= 3; calls++ {
				response, err := pay(t.Context(), c)
				failed(t, response, err, paymentsvc.OutcomeUnknown)
				require.LessOrEqual(t, s.taken.Load(), calls)
			}
			if name != "one that hedges" { // the guard may stop both deliveries
				assert.Positive(t, s.taken.Load())
			}
		})
	}
}

// The response of a stopped transport does not prove a rejection of the earlier delivery.
func TestTransportThatRepeatsProvesNoRejection(t *testing.T) {
	s := newBreakingServer(t, false)
	base := s.Client().Transport.(*http.Transport)
	wrap := repeatingTransports()["one that buffers the body and sends it again"](base)
	c := newClient(t, s.URL, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if _, err := wrap.RoundTrip(r); err == nil {
			t.Error("the server answers nothing")
		}
		return canned(http.StatusBadRequest, nil, `{"error_code":"E17"}`), nil
	})), decoding(paymentsvc.ErrorFields("error_code", "")))
	response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
}

// A transport may keep a copy of the body and deliver after the call, for example a slow hedge. A second delivery is
// stopped, and after an incomplete response the first one as well.
func TestTransportThatDeliversLaterIsStopped(t *testing.T) {
	for name, test := range map[string]struct {
		before   int // deliveries before the transport returns
		response string
		arrive   int
	}{
		"after a response":           {1, payoutAnswer, 1},
		"after a failure":            {1, "", 1},
		"only later, with response":  {0, payoutAnswer, 1},
		"only later, with a failure": {0, "", 0},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				s := newBreakingServer(t, http2)
				base := s.Client().Transport.(*http.Transport)
				var deliver func(rt http.RoundTripper)
				c := newClient(t, s.URL, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(r.Body)
					deliver = func(rt http.RoundTripper) {
						again := r.Clone(context.WithoutCancel(r.Context()))
						again.Body = io.NopCloser(bytes.NewReader(body))
						if resp, err := rt.RoundTrip(again); err == nil {
							_ = resp.Body.Close()
						}
					}
					for range test.before {
						deliver(base)
					}
					if test.response == "" {
						return nil, errors.Join(errors.New("later"), err)
					}
					return canned(http.StatusOK, nil, test.response), err
				})))
				_, err := c.InitPayout(t.Context(), payoutRequest())
				assert.Equal(t, test.response == "", err != nil, err)
				for _, rt := range []*http.Transport{base, base.Clone()} { // a kept connection and a new one
					deliver(rt)
					deliver(rt)
					rt.CloseIdleConnections()
				}
				s.Close()
				s.mu.Lock() // a handler of HTTP/2 may outlive its connection
				defer s.mu.Unlock()
				arrived := 0
				for _, times := range s.taken {
					arrived += times
				}
				assert.Equal(t, test.arrive, arrived)
			})
		}
	}
}

// A request reported as not sent has no body any more.
func TestTransportCannotSendAfterNotSent(t *testing.T) {
	for _, trust := range []bool{false, true} {
		var kept *http.Request
		transport := &http.Transport{}
		later := roundTripFunc(func(r *http.Request) (*http.Response, error) {
			kept = r
			asked, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
			require.NoError(t, err)
			return new(http.Transport).RoundTrip(asked)
		})
		transport.RegisterProtocol("http", later)
		options := []func(*paymentsvc.Config){over(transport), attempts(1)}
		if trust {
			options = append(options, over(later), trusted)
		}
		_, err := newClient(t, refusingPort(t), options...).InitPayout(t.Context(), payoutRequest())
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
		body, _ := io.ReadAll(kept.Body) // an error or no bytes
		assert.Empty(t, body)
	}
}

// After a failure, a request kept by a wrapper or a foreign protocol has no body.
func TestTransportCannotSendKeptRequest(t *testing.T) {
	var kept *http.Request
	keeps := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		kept = r
		return nil, errors.New("later")
	})
	registered := new(http.Transport)
	registered.RegisterProtocol("http", keeps)
	for name, transport := range map[string]http.RoundTripper{"a wrapper": keeps, "a protocol": registered} {
		c := newClient(t, "http://127.0.0.1", over(transport))
		response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
		failed(t, response, err, paymentsvc.OutcomeUnknown)
		body, _ := io.ReadAll(kept.Body)
		assert.Empty(t, body, name)
	}
}

// A wrapper may use the context for its own requests, such as a token request before the call and a report after it.
func TestTransportMayCallAnotherHost(t *testing.T) {
	asked := map[string]int{}
	other := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked[r.URL.Path]++ }))
	s := newService(t, answering(http.StatusOK, payoutAnswer))
	base := s.Client().Transport
	ask := func(r *http.Request, path string) {
		own, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other+path, strings.NewReader("{}"))
		require.NoError(t, err)
		resp, err := base.RoundTrip(own)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	c := newClient(t, s.base(), over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		ask(r, "/token")
		ask(r, "/token")
		resp, err := base.RoundTrip(r)
		ask(r, "/report")
		ask(r, "/report")
		return resp, err
	})))
	for range 3 {
		_, err := c.InitPayout(t.Context(), payoutRequest())
		require.NoError(t, err)
	}
	assert.Equal(t, map[string]int{"/token": 6, "/report": 6}, asked)
	assert.Len(t, s.received(), 3)
}
