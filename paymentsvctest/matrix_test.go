package paymentsvctest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// matrix has the result of a call with faults in one or all of its requests. The columns are for calls that start an
// order, for status calls and for get_balance. The first column selects the requests, and the second has the faults as
// texts for ParseFault. A cell has the outcome ("ok" is success), the attempts of the client, and the orders of the
// fake afterwards. An "unknown" with and without an order looks the same to the client. The client repeats a start only
// after "not sent", and status calls and get_balance after each temporary failure.
//
// Three rows need an explanation. "answer after 200 application/json {}": all fields of the two status responses are
// optional in the document, so an empty object is a success. "cut-unframed 1000" is longer than the response. "reject
// 500": an error of the service with a 5xx is not proof, because a gateway may have forwarded the request.
const matrix = `
which   | faults                                               | start        | status       | balance
--------|------------------------------------------------------|--------------|--------------|-------------
none    |                                                      | ok 1/1       | ok 1/0       | ok 1/0
every   | nobody listens                                       | not sent 3/0 | not sent 3/0 | not sent 3/0
every   | refuse                                               | not sent 3/0 | not sent 3/0 | not sent 3/0
first 2 | refuse                                               | ok 3/1       | ok 3/0       | ok 3/0
every   | reset                                                | unknown 1/0  | unknown 3/0  | unknown 3/0
first   | reset                                                | unknown 1/0  | ok 2/0       | ok 2/0
every   | drop before                                          | unknown 1/0  | unknown 3/0  | unknown 3/0
every   | drop after                                           | unknown 1/1  | unknown 3/0  | unknown 3/0
first   | drop after                                           | unknown 1/1  | ok 2/0       | ok 2/0
every   | late-commit 2                                        | unknown 1/1  | ok 1/0       | ok 1/0
every   | hang before                                          | unknown 1/0  | unknown 3/0  | unknown 3/0
every   | hang after                                           | unknown 1/1  | unknown 3/0  | unknown 3/0
first   | hang after                                           | unknown 1/1  | ok 2/0       | ok 2/0
every   | cut 0                                                | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut 10                                               | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut-chunked 10                                       | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut-chunked 1000                                     | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut-unframed 0                                       | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut-unframed 10                                      | unknown 1/1  | unknown 3/0  | unknown 3/0
first   | cut-unframed 10                                      | unknown 1/1  | ok 2/0       | ok 2/0
every   | cut-unframed 1000                                    | ok 1/1       | ok 1/0       | ok 1/0
every   | cut-header 0                                         | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | cut-header 20                                        | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | bad-gateway before                                   | unknown 1/0  | unknown 3/0  | unknown 3/0
every   | bad-gateway after                                    | unknown 1/1  | unknown 3/0  | unknown 3/0
first   | bad-gateway after                                    | unknown 1/1  | ok 2/0       | ok 2/0
every   | bad-gateway after + cut 10                           | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | wrong-shape                                          | unknown 1/1  | ok 1/0       | unknown 1/0
every   | answer after 200 application/json {}                 | unknown 1/1  | ok 1/0       | unknown 1/0
every   | answer after 200 application/json                    | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | answer after 200 application/json null               | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | answer after 200 text/html <p>please log in</p>      | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | oversized 131072                                     | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | oversized 131072 + cut 1000                          | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | gzip-bomb 131072                                     | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | slow 100us                                           | ok 1/1       | ok 1/0       | ok 1/0
every   | slow 1h                                              | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | slow 100us + cut 20                                  | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | redirect before {elsewhere}                          | unknown 1/0  | unknown 1/0  | unknown 1/0
every   | redirect after {elsewhere}                           | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | wrong-date -24h                                      | ok 1/1       | ok 1/0       | ok 1/0
every   | wrong-date -24h + reject 401 E1 clock                | rejected 1/0 | rejected 1/0 | rejected 1/0
every   | too-many-requests before 1h                          | rejected 1/0 | rejected 3/0 | rejected 3/0
first   | too-many-requests before 1h                          | rejected 1/0 | ok 2/0       | ok 2/0
every   | too-many-requests after 1h                           | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | reject 200 E17 no money                              | rejected 1/0 | rejected 1/0 | rejected 1/0
every   | reject 402 E17 no money                              | rejected 1/0 | rejected 1/0 | rejected 1/0
every   | reject 403 E18 not you                               | rejected 1/0 | rejected 1/0 | rejected 1/0
every   | reject 202 E17 no money                              | unknown 1/0  | unknown 1/0  | unknown 1/0
every   | reject 409 E19 used before                           | unknown 1/0  | unknown 1/0  | unknown 1/0
every   | reject 500 E17 no money                              | unknown 1/0  | unknown 3/0  | unknown 3/0
every   | reject 402 E17 no money + cut 10                     | unknown 1/0  | unknown 3/0  | unknown 3/0
every   | answer after 403 text/html <h1>denied</h1>           | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | answer after 504 application/json {"message":"late"} | unknown 1/1  | unknown 3/0  | unknown 3/0
every   | answer before 409 text/plain busy                    | unknown 1/0  | unknown 1/0  | unknown 1/0
every   | answer after 408 text/plain slow                     | unknown 1/1  | unknown 1/0  | unknown 1/0
every   | answer before 503 text/plain later                   | unknown 1/0  | unknown 3/0  | unknown 3/0
`

// row is a line of the matrix.
type row struct{ which, faults, start, status, balance string }

// want returns the cell of an operation.
func (r row) want(o operation) string {
	switch {
	case o.kind != "":
		return r.start
	case o.endpoint == paymentsvctest.GetBalance:
		return r.balance
	}
	return r.status
}

// rows returns the lines of the matrix.
func rows(t testing.TB) (list []row) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(matrix), "\n")[2:] {
		cells := strings.Split(line, "|")
		require.Len(t, cells, 5, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		list = append(list, row{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return list
}

func TestMatrixOfFaultsAndEndpoints(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(func() {
		other.Close()
		assert.Zero(t, elsewhere.Load(), "requests that followed a redirect")
	})
	for _, row := range rows(t) {
		row.faults = strings.ReplaceAll(row.faults, "{elsewhere}", other.URL)
		for _, o := range operations() {
			check := func(t *testing.T, srv *paymentsvctest.Server, kept bool) {
				assert.Equal(t, row.want(o), cell(t, srv, row, o, kept))
			}
			for connection, kept := range map[string]bool{"new connection": false, "kept connection": true} {
				t.Run(fmt.Sprintf("%s %s/%s/%s", row.which, row.faults, o.endpoint, connection), func(t *testing.T) {
					t.Parallel()
					// hang and slow wait for the timeout of the client.
					if !strings.HasPrefix(row.faults, "hang") && row.faults != "slow 1h" {
						check(t, paymentsvctest.Start(t, config(everyStartCounts)), kept)
					}
					synctest.Test(t, func(t *testing.T) {
						check(t, paymentsvctest.StartInMemory(t, config(everyStartCounts)), kept)
					})
				})
			}
		}
	}
}

// cell makes one call and returns its cell of the matrix.
func cell(t *testing.T, srv *paymentsvctest.Server, row row, o operation, kept bool) string {
	attempts := 0
	client := newClient(t, srv, func(cfg *paymentsvc.Config) {
		cfg.Timeout = 30 * time.Minute // passes in the fake time of a bubble only
		cfg.MaxResponseBytes = 64 << 10
		cfg.OnAttempt = func(context.Context, paymentsvc.Attempt) { attempts++ }
	})
	patient := newClient(t, srv) // over the same connections
	paymentID, payoutID := pay(t, patient, "payment before"), payOut(t, patient, "payout before")
	if !kept {
		client.CloseIdleConnections()
	}
	before, arrived := len(srv.Orders()), srv.Requests(o.endpoint)
	rule := strike(t, srv, o.endpoint, row)

	err := o.call(t.Context(), client, "the order", paymentID, payoutID)
	require.NotErrorIs(t, err, errWrongAnswer)
	client.CloseIdleConnections()
	require.NoError(t, srv.Drain(t.Context()))
	outcome := "ok"
	if err != nil {
		var e *paymentsvc.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, attempts, e.Attempts, "Error.Attempts and calls of OnAttempt")
		outcome = e.Outcome.String()
	}
	started := srv.Started("the order")
	assert.Len(t, srv.Orders(), before+started)
	srv.AssertAllSigned(t)
	srv.AssertNoneRejected(t)
	result := fmt.Sprintf("%s %d/%d", outcome, attempts, started)
	if rule == nil {
		return result
	}
	harmless := row.faults == "cut-unframed 1000" || row.faults == "late-commit 2" && o.kind == ""
	if rule.Hits() == 0 != harmless {
		result += ", but the fault had no effect, or one where it can have none"
	}
	if got := srv.Requests(o.endpoint) - arrived; got != attempts && row.faults != "refuse" {
		result += fmt.Sprintf(", but %d arrived", got)
	}
	srv.ClearFaults()
	if row.faults == "late-commit 2" && o.kind != "" {
		for _, want := range []bool{false, false, true, true} {
			assert.Equal(t, want, found(t, patient, srv.OrdersOf("the order")[0]))
			assert.True(t, found(t, patient, paymentsvctest.Order{UserData: "payment before"}), "other orders are found")
		}
	}
	if o.kind != "" && o.kind != paymentsvctest.KindPayout {
		assert.Equal(t, started > 0, found(t, patient, paymentsvctest.Order{UserData: "the order"}), "by user_data")
	}
	return result
}

// strike sets the faults of the row, or closes the fake.
func strike(t *testing.T, srv *paymentsvctest.Server, endpoint string, row row) *paymentsvctest.Rule {
	var which paymentsvctest.Which
	switch row.which {
	case "none":
		return nil
	case "first":
		which = paymentsvctest.Nth(1)
	case "first 2":
		which = paymentsvctest.First(2)
	}
	if row.faults == "nobody listens" {
		srv.Close()
		return nil
	}
	return srv.Fault(endpoint, which, parsed(t, row.faults, paymentsvctest.ParseFault)...)
}

func TestResponseCutAtAnyByteIsNeverASuccess(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config())
	client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 })
	paymentID, payoutID := pay(t, client, "payment before"), payOut(t, client, "payout before")
	for _, o := range operations() {
		for _, cut := range []func(int) paymentsvctest.Fault{
			paymentsvctest.Cut, paymentsvctest.CutChunked, paymentsvctest.CutUnframed, paymentsvctest.CutHeader,
		} {
			t.Run(o.endpoint+" "+strings.Fields(cut(0).String())[0], func(t *testing.T) {
				whole := 0
				for n := 0; whole < 3 && n < 200; n++ {
					rule := srv.Fault(o.endpoint, paymentsvctest.Every(), cut(n))
					err := o.call(t.Context(), client, fmt.Sprintf("%s %s", o.endpoint, cut(n)), paymentID, payoutID)
					rule.Remove()
					require.Equal(t, err != nil, rule.Hits() == 1)
					if err == nil {
						whole++
						continue
					}
					require.Zero(t, whole, "a longer piece failed, a shorter one did not")
					require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "cut at %d: %v", n, err)
				}
				switch strings.Fields(cut(0).String())[0] {
				case "cut-chunked", "cut-header":
					require.Zero(t, whole)
				default:
					require.Equal(t, 3, whole, "the end of the answer was never reached")
				}
			})
		}
	}
}
