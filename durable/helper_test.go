package durable

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// database is a database with durable's tables.
type database = dbtest.Database

// each runs f on SQLite and on PostgreSQL, which is skipped without TEST_DATABASE_URL.
func each(t *testing.T, f func(t *testing.T, db database)) {
	dbtest.Each(t, func(t *testing.T, db database) { f(t, migrated(t, db)) })
}

// eachStore runs f with a store on SQLite and on PostgreSQL.
func eachStore(t *testing.T, f func(t *testing.T, db database, s *Store)) {
	each(t, func(t *testing.T, db database) { f(t, db, openStore(t, db, Config{})) })
}

func migrated(t *testing.T, db database) database {
	t.Helper()
	require.NoError(t, Migrate(t.Context(), db.DB))
	return db
}

func sqlite(t *testing.T) database   { return migrated(t, dbtest.SQLite(t)) }
func postgres(t *testing.T) database { return migrated(t, dbtest.Open(t, dbtest.Postgres(t))) }

func dialect(db database) Dialect {
	if db.SQLite {
		return SQLite
	}
	return PostgreSQL
}

// service creates an order for every start, also for a repeated one, unless the function before returns an error.
type service struct {
	mu      sync.Mutex
	started map[string][]string // order_ids by user_data
	calls   int
	before  func(n int, userData string) error // an error instead of the start of call n, from 1
	after   func(n int, userData string) error // an error after the start
	// call, if set, runs at the beginning of each start and each StatusPayment, which returns its error.
	call    func(ctx context.Context, endpoint string) error
	order   func(userData string) string // replaces the order_id of a start, if it is set
	foreign bool                         // StatusPayment returns another payment
	// status, if set, changes the response of a status call, and may do more before the response arrives.
	status func(*paymentsvc.StatusResponse) error
	polls  int
	asked  paymentsvc.StatusPaymentRequest // the last request
}

func (f *service) start(userData string) (string, error) {
	f.mu.Lock()
	f.calls++
	n, before, after := f.calls, f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(n, userData); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	if f.started == nil {
		f.started = map[string][]string{}
	}
	order := fmt.Sprintf("%s/%d", userData, len(f.started[userData])+1)
	f.started[userData] = append(f.started[userData], order)
	f.mu.Unlock()
	if after != nil {
		return order, after(n, userData)
	}
	return order, nil
}

func (f *service) begin(ctx context.Context, endpoint string) error {
	if f.call == nil {
		return nil
	}
	return f.call(ctx, endpoint)
}

func (f *service) init(ctx context.Context, endpoint, userData string) (order string, err error) {
	if err := f.begin(ctx, endpoint); err != nil {
		return "", err
	}
	order, err = f.start(userData)
	if f.order != nil {
		order = f.order(userData)
	}
	return order, err
}

func (f *service) InitPayment(
	ctx context.Context, _ paymentsvc.PaymentType, r paymentsvc.PaymentRequest,
) (*paymentsvc.InitPaymentResponse, error) {
	order, err := f.init(ctx, "init_payment", r.UserData)
	return &paymentsvc.InitPaymentResponse{OrderID: order, RedirectURL: "https://pay.example/" + order}, err
}

func (f *service) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	order, err := f.init(ctx, "init_payout", r.UserData)
	return &paymentsvc.InitPayoutResponse{OrderID: order}, err
}

var errNotFound = refused(404, "order_not_found")

func (f *service) StatusPayment(
	ctx context.Context, r paymentsvc.StatusPaymentRequest,
) (*paymentsvc.StatusResponse, error) {
	if err := f.begin(ctx, "status_payment"); err != nil {
		return nil, err
	}
	userData := r.UserData
	if userData == "" {
		userData, _, _ = strings.Cut(r.OrderID, "/")
	}
	f.mu.Lock()
	orders := f.started[userData]
	f.asked = r
	f.mu.Unlock()
	if f.foreign {
		return &paymentsvc.StatusResponse{UserData: "another", OrderID: "another's"}, nil
	}
	if len(orders) == 0 {
		return nil, errNotFound
	}
	return f.respond(userData, orders[0])
}

func (f *service) StatusPayout(
	_ context.Context, r paymentsvc.StatusPayoutRequest,
) (*paymentsvc.StatusResponse, error) {
	userData, _, _ := strings.Cut(r.OrderID, "/")
	return f.respond(userData, r.OrderID)
}

func (f *service) respond(userData, orderID string) (*paymentsvc.StatusResponse, error) {
	f.mu.Lock()
	f.polls++
	f.mu.Unlock()
	r := &paymentsvc.StatusResponse{UserData: userData, OrderID: orderID}
	if f.status == nil {
		return r, nil
	}
	return r, f.status(r)
}

func (f *service) DecodesErrors() bool { return true }

func (f *service) GetBalance(context.Context) (*paymentsvc.Balance, error) {
	return &paymentsvc.Balance{}, nil
}

// requireStarts requires n starts, each with its own user_data.
func (f *service) requireStarts(t *testing.T, n int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.started, n)
	for _, orders := range f.started {
		require.Len(t, orders, 1)
	}
}

// Errors as a Client returns them. Codes are made up.
func refused(status int, code string) error {
	return &paymentsvc.Error{
		Endpoint: "init_payout", Outcome: paymentsvc.OutcomeRejected, HTTPStatus: status,
		Err: &paymentsvc.ServiceError{Code: code},
	}
}

func unanswered(orderID string) error {
	return &paymentsvc.Error{Endpoint: "init_payout", OrderID: orderID, Err: errors.New("connection reset")}
}

func notSent() error {
	return &paymentsvc.Error{Endpoint: "init_payout", Outcome: paymentsvc.OutcomeNotSent,
		Err: errors.New("connection refused")}
}

// safeBuffer is a log that goroutines may write concurrently.
type safeBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// clocks is the clock of a process. setClock sets the database's clock.
type clocks struct {
	mu      sync.Mutex
	process time.Time
}

func (c *clocks) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

func (c *clocks) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = c.process.Add(d)
}

// shim is the SQL expression for a database clock that a test sets.
const shim = `(SELECT millis FROM test_clock)`

func setClock(t require.TestingT, db database, at time.Time) {
	db.Exec(t, `CREATE TABLE IF NOT EXISTS test_clock (one BIGINT PRIMARY KEY, millis BIGINT)`,
		fmt.Sprintf(`INSERT INTO test_clock VALUES (1, %[1]d)
			ON CONFLICT (one) DO UPDATE SET millis = %[1]d`, at.UnixMilli()))
}

// config returns c with defaults for tests.
func config(c Config) Config {
	c.Project, c.AllowUnsafeDatabase = "test", true
	if c.Service == nil {
		c.Service = &service{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Poll == 0 {
		c.Poll = 20 * time.Millisecond
	}
	if c.NotFound == nil {
		c.NotFound = func(err *paymentsvc.Error) bool { return errors.Is(err, errNotFound) }
	}
	return c
}

func openStore(t testing.TB, db database, c Config) *Store {
	s, err := Open(t.Context(), db.DB, config(c))
	require.NoError(t, err)
	return s
}

// openShimmed opens a store whose clocks the test moves.
func openShimmed(t testing.TB, db database, c Config, clock *clocks) *Store {
	setClock(t, db, clock.Now())
	s, err := open(t.Context(), db.DB, config(c), shim, clock.Now)
	require.NoError(t, err)
	return s
}

// openClocked opens a store with clocks that begin an hour ahead, so a slow test reaches no deadline of a call.
func openClocked(t testing.TB, db database, c Config) (*Store, *clocks) {
	clock := &clocks{process: time.Now().Add(time.Hour)}
	return openShimmed(t, db, c, clock), clock
}

var ten = paymentsvc.MustParseAmount("10.50")

// payouts returns n payouts with references from prefix.
func payouts(prefix string, n int) []NewPayout {
	list := make([]NewPayout, n)
	for i := range list {
		list[i] = NewPayout{Reference: fmt.Sprintf("%s-%04d", prefix, i), Amount: ten, Destination: "4111111111111111"}
	}
	return list
}

// waitUntil waits until f returns true. It has no time limit, because machines may be slow.
func waitUntil(t testing.TB, f func() bool) {
	t.Helper()
	for !f() {
		time.Sleep(5 * time.Millisecond)
	}
}

// begin begins a transaction with statements. It ends with the test at the latest.
func begin(t testing.TB, db *sql.DB, statements ...string) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, statement := range statements {
		_, err := tx.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	return tx
}

// hold holds payouts, ends Grace after the hold, and returns the generation.
func hold(t testing.TB, s *Store) int64 {
	t.Helper()
	generation, err := s.HoldPayouts(t.Context(), "ada", "a restore")
	require.NoError(t, err)
	_, err = s.ledger.DB.ExecContext(t.Context(), `UPDATE durable_control SET held_at = 0`)
	require.NoError(t, err)
	return generation
}

// release requires that n payouts are held, and releases them.
func release(t testing.TB, s *Store, n int) {
	t.Helper()
	released, err := s.Release(t.Context(), "ada", status(t, s).Generation, Filter{})
	require.NoError(t, err)
	require.Equal(t, n, released)
}

func queue(t testing.TB, s *Store, p ...NewPayout) []Queued {
	tx := begin(t, s.ledger.DB)
	queued, err := s.QueuePayouts(t.Context(), tx, p...)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return queued
}

// queueOne queues one row of a kind.
func queueOne(t require.TestingT, s *Store, k Kind, reference string) Queued {
	ctx := context.Background()
	tx, err := s.ledger.DB.BeginTx(ctx, nil)
	require.NoError(t, err)
	var queued []Queued
	if k == KindPayout {
		queued, err = s.QueuePayouts(ctx, tx, NewPayout{Reference: reference, Amount: ten, Destination: "4111111111111111"})
	} else {
		queued, err = s.QueuePayments(ctx, tx, NewPayment{Key: reference, Type: paymentsvc.PaymentTypeCard, Amount: ten})
	}
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return queued[0]
}

// send queues payouts, and sends all due rows.
func send(t testing.TB, s *Store, p ...NewPayout) []Queued {
	t.Helper()
	queued := queue(t, s, p...)
	runBatch(t, s, nil)
	return queued
}

func count(t testing.TB, s *Store, k Kind) map[State]int64 {
	states := map[State]int64{}
	for state, n := range counts(t, s, Filter{Kind: k}).States {
		states[state] = n.Rows
	}
	return states
}

func get(t require.TestingT, s *Store, userData string) Row {
	r, err := s.ledger.Row(context.Background(), userData)
	require.NoError(t, err)
	return publicRow(r)
}

// set changes columns of the row userData, or of all rows if userData is "", with all consequences for the queue, the
// claims and the order_ids. state may be 'starting', which claims the row with the token T.
func set(t require.TestingT, db database, userData, columns string) {
	where := ``
	if userData != "" {
		where = ` WHERE user_data = '` + userData + `'`
	}
	db.Exec(t, `UPDATE durable_rows SET `+columns+where, `DELETE FROM durable_queue`+where,
		`DELETE FROM durable_orders`+where)
	if where == "" {
		where = ` WHERE TRUE`
	}
	db.Exec(t,
		`INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
			SELECT user_data, kind, 'T', claims + 1, due_at, due_at + 1, created_at
			FROM durable_rows`+where+` AND state = 'starting'`,
		`DELETE FROM durable_claims WHERE user_data IN (SELECT user_data FROM durable_rows`+where+` AND state <> 'starting')`,
		`UPDATE durable_rows SET state = 'created'`+where+` AND state = 'starting'`,
		`INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
			SELECT kind, generation, due_at, user_data, created_at FROM durable_rows`+where+` AND state = 'created'
			AND user_data NOT IN (SELECT user_data FROM durable_claims)`,
		`INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
			SELECT kind, order_id, user_data, created_at, state FROM durable_rows`+where+` AND order_id <> ''`)
}

func round(t testing.TB, s *Store, r schedule.Request[callResult]) schedule.Result[job] {
	t.Helper()
	got, err := rounder{s}.Round(t.Context(), r)
	require.NoError(t, err)
	return got
}

// claim claims rows in a round without completions.
func claim(t testing.TB, s *Store, rows, payments int, token string) []job {
	t.Helper()
	request := schedule.Request[callResult]{Token: token, Free: rows, MaxRows: rows, MaxPayments: payments}
	return round(t, s, request).Jobs
}

// started is the result of a successful call.
func started(orderID string) callResult {
	return callResult{Result: row.Result{Kind: row.Started, OrderID: orderID}}
}

// settle records the result of a job separately.
func (s *Store) settle(ctx context.Context, j job, r callResult) error {
	r.job = j
	return s.record(ctx, r)
}

// completionOf is the completion of a job for a round.
func completionOf(j job, orderID string, slot int) schedule.Completion[callResult] {
	r := started(orderID)
	r.job = j
	return schedule.Completion[callResult]{UserData: j.UserData, OrderID: orderID, OrderKey: orderID, Slot: slot, Done: r}
}

const (
	success        = paymentsvc.StatusSuccess
	failure        = paymentsvc.StatusFailure
	payoutChanged  = paymentsvc.EventPayoutStatusChanged
	paymentChanged = paymentsvc.EventPaymentStatusChanged
)

// changed is the event of a notification about a row.
func changed(k Kind) paymentsvc.EventType {
	if k == KindPayout {
		return payoutChanged
	}
	return paymentChanged
}

func notice(event paymentsvc.EventType, userData, orderID string,
	status paymentsvc.StatusName) *paymentsvc.Notification {
	return &paymentsvc.Notification{
		Event: event, UserData: userData, OrderID: orderID, StatusDescription: status, Amount: ten,
		Raw: []byte(`{"order_id":"` + orderID + `"}`),
	}
}

// pass moves the clocks of the database and of the process.
func pass(t require.TestingT, db database, c *clocks, d time.Duration) {
	c.Add(d)
	setClock(t, db, c.Now())
}

// runBatch sends the due rows and returns the number of calls. want is the error, nil for none.
func runBatch(t testing.TB, s *Store, want error) int {
	t.Helper()
	calls, err := s.RunBatch(t.Context(), BatchLimit{})
	require.ErrorIs(t, err, want)
	return calls
}

// pay pays with a card. The key "" means a new key.
func pay(t testing.TB, s *Store, key string) Row {
	t.Helper()
	r, err := s.Pay(t.Context(), NewPayment{Key: cmp.Or(key, rand.Text()), Type: paymentsvc.PaymentTypeCard, Amount: ten})
	require.NoError(t, err)
	return r
}

func status(t testing.TB, s *Store) Status {
	t.Helper()
	got, err := s.Status(t.Context())
	require.NoError(t, err)
	return got
}

func counts(t testing.TB, s *Store, f Filter) Counts {
	t.Helper()
	got, err := s.Counts(t.Context(), f)
	require.NoError(t, err)
	return got
}

// decideAll decides about the rows of f that the decision fits, and returns their number.
func decideAll(t *testing.T, s *Store, f Filter, k DecisionKind) (n int) {
	t.Helper()
	for _, r := range collect(t, s.Rows(t.Context(), f)) {
		if k.Allowed(r) {
			require.NoError(t, s.Decide(t.Context(), Decision{Kind: k, UserData: r.UserData, By: "ada", Version: r.Version}))
			n++
		}
	}
	return n
}
