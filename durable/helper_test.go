package durable

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
)

// variable names the environment variable with the address of a PostgreSQL server on which databases may be made.
const variable = "TEST_DATABASE_URL"

// database is an empty database of a test.
type database struct {
	dialect Dialect
	address string
	*sql.DB
}

// each runs f on SQLite and on PostgreSQL, which is skipped without TEST_DATABASE_URL.
func each(t *testing.T, f func(t *testing.T, db database)) {
	t.Run("SQLite", func(t *testing.T) { f(t, sqlite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, postgres(t)) })
}

const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func sqlite(t *testing.T) database {
	t.Helper()
	return opened(t, SQLite, "file:"+filepath.Join(t.TempDir(), "test.db")+pragmas)
}

func opened(t *testing.T, d Dialect, address string) database {
	t.Helper()
	driver := "pgx"
	if d == SQLite {
		driver = "sqlite"
	}
	db, err := sql.Open(driver, address)
	require.NoError(t, err)
	if d == SQLite {
		db.SetMaxOpenConns(1)
	}
	t.Cleanup(func() { db.Close() })
	require.NoError(t, Migrate(t.Context(), db))
	return database{d, address, db}
}

func postgres(t *testing.T) database {
	t.Helper()
	server := os.Getenv(variable)
	if server == "" {
		t.Skip("no PostgreSQL: " + variable + " is not set. Run the tests with .ci/postgres go -C durable test ./...")
	}
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	name := "test_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		admin.Close()
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return opened(t, PostgreSQL, u.String())
}

// service starts whatever it is sent as often as it is sent, unless before or after says otherwise.
type service struct {
	mu      sync.Mutex
	started map[string][]string // order_ids by user_data
	calls   int
	before  func(n int, userData string) error // an error instead of the start of call n, from 1
	after   func(n int, userData string) error // an error after it
	foreign bool                               // StatusPayment answers with another payment
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

func (f *service) InitPayment(_ context.Context, _ paymentsvc.PaymentType, r paymentsvc.PaymentRequest) (*paymentsvc.InitPaymentResponse, error) {
	order, err := f.start(r.UserData)
	return &paymentsvc.InitPaymentResponse{OrderID: order, RedirectURL: "https://pay.example/" + order}, err
}

func (f *service) InitPayout(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	order, err := f.start(r.UserData)
	return &paymentsvc.InitPayoutResponse{OrderID: order}, err
}

var errNotFound = refused(404, "order_not_found")

func (f *service) StatusPayment(_ context.Context, r paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	orders := f.started[r.UserData]
	if f.foreign {
		return &paymentsvc.StatusResponse{UserData: "another", OrderID: "another's"}, nil
	}
	if len(orders) == 0 {
		return nil, errNotFound
	}
	return &paymentsvc.StatusResponse{UserData: r.UserData, OrderID: orders[0]}, nil
}

func (f *service) StatusPayout(_ context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error) {
	userData, _, _ := strings.Cut(r.OrderID, "/")
	return &paymentsvc.StatusResponse{UserData: userData, OrderID: r.OrderID}, nil
}

func (f *service) GetBalance(context.Context) (*paymentsvc.Balance, error) {
	return &paymentsvc.Balance{}, nil
}

// starts returns how often something was started, and for how many user_data.
func (f *service) starts() (n, different int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, orders := range f.started {
		n += len(orders)
	}
	return n, len(f.started)
}

// Errors as a Client returns them. Codes are made up.
func refused(status int, code string) error {
	return &paymentsvc.Error{
		Endpoint: "init_payout", Outcome: paymentsvc.OutcomeRejected, HTTPStatus: status, Err: &paymentsvc.ServiceError{Code: code},
	}
}

func unanswered(orderID string) error {
	return &paymentsvc.Error{Endpoint: "init_payout", OrderID: orderID, Err: errors.New("connection reset")}
}

func notSent() error {
	return &paymentsvc.Error{Endpoint: "init_payout", Outcome: paymentsvc.OutcomeNotSent, Err: errors.New("connection refused")}
}

// journal is a log that goroutines share.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// clocks are the database's and the process's.
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

// shim is a database clock that a test sets.
const shim = `(SELECT millis FROM test_clock)`

func setClock(t require.TestingT, db database, at time.Time) {
	_, err := db.ExecContext(context.Background(), `CREATE TABLE IF NOT EXISTS test_clock (one BIGINT PRIMARY KEY, millis BIGINT)`)
	require.NoError(t, err)
	_, err = db.ExecContext(context.Background(), fmt.Sprintf(`INSERT INTO test_clock VALUES (1, %[1]d)
		ON CONFLICT (one) DO UPDATE SET millis = %[1]d`, at.UnixMilli()))
	require.NoError(t, err)
}

// config is a test's, with defaults that fit it.
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

var ten = paymentsvc.MustParseAmount("10.50")

// payouts returns n payouts with references from prefix.
func payouts(prefix string, n int) []NewPayout {
	list := make([]NewPayout, n)
	for i := range list {
		list[i] = NewPayout{Reference: fmt.Sprintf("%s-%04d", prefix, i), Amount: ten, Destination: "4111111111111111"}
	}
	return list
}

func queue(t testing.TB, s *Store, p ...NewPayout) []Queued {
	tx, err := s.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	queued, err := s.QueuePayouts(t.Context(), tx, p...)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return queued
}

func count(t testing.TB, s *Store, k Kind) map[State]int64 {
	c, err := s.Counts(t.Context(), Filter{Kind: k})
	require.NoError(t, err)
	return c.States
}

func get(t require.TestingT, s *Store, userData string) Row {
	r, err := s.row(context.Background(), userData)
	require.NoError(t, err)
	return r
}

func notice(event paymentsvc.EventType, userData, orderID string, status paymentsvc.StatusName) *paymentsvc.Notification {
	return &paymentsvc.Notification{
		Event: event, UserData: userData, OrderID: orderID, StatusDescription: status, Amount: ten,
		Raw: []byte(`{"order_id":"` + orderID + `"}`),
	}
}
