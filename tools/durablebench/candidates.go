package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/riverqueue"
)

// newService starts a service that answers after a time. It checks nothing, or it would be what is measured.
func newService(takes time.Duration) *httptest.Server {
	var orders atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(takes)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "status") {
			var request paymentsvc.StatusPaymentRequest
			_ = json.Unmarshal(body, &request)
			_, _ = fmt.Fprintf(w, `{"order_id":"of %[1]s","user_data":%[1]q}`, request.UserData)
			return
		}
		_, _ = fmt.Fprintf(w, `{"order_id":"order-%d-%d","status":1,"status_code":10,"redirect_url":"https://pay.example/"}`,
			takes, orders.Add(1))
	}))
}

func newClient(address string) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex}, Secret: "the-secret-of-the-benchmark",
	})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{BaseURL: address, PartnerID: 1001, ProjectID: 2002, Signer: signer})
}

const (
	amount      = "10.50"
	destination = "4111111111111111"
)

// bare is the loop that a program has without durable: a claim of one row, the call, the record of its outcome.
func bare(database, service string) func(context.Context, int, int) (time.Duration, error) {
	return func(ctx context.Context, _, rows int) (time.Duration, error) {
		client, err := newClient(service)
		if err != nil {
			return 0, err
		}
		db, err := connect(database)
		if err != nil {
			return 0, err
		}
		defer func() { _ = db.Close() }()
		skip := " FOR UPDATE SKIP LOCKED"
		if db.Stats().MaxOpenConnections == 1 {
			skip = ""
		}
		for _, statement := range []string{
			`DROP TABLE IF EXISTS payouts`,
			`CREATE TABLE payouts (user_data TEXT PRIMARY KEY, amount TEXT NOT NULL, destination TEXT NOT NULL,
				state TEXT NOT NULL, order_id TEXT UNIQUE, due_at BIGINT NOT NULL)`,
			`CREATE INDEX payouts_due ON payouts (due_at, user_data) WHERE state = 'created'`,
			fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				INSERT INTO payouts SELECT 'payout-' || i, '%s', '%s', 'created', NULL, i FROM n`, rows, amount, destination),
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return 0, err
			}
		}
		claim := `UPDATE payouts SET state = 'starting' WHERE state = 'created' AND user_data = (SELECT user_data FROM payouts
			WHERE state = 'created' ORDER BY due_at, user_data LIMIT 1` + skip + `) RETURNING user_data, amount, destination`
		begun := time.Now()
		errs := make([]error, workers)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				for errs[i] == nil {
					errs[i] = payOne(ctx, db, client, claim)
				}
			})
		}
		wg.Wait()
		took := time.Since(begun)
		for _, err := range errs {
			if !errors.Is(err, sql.ErrNoRows) {
				return 0, err
			}
		}
		return took, nil
	}
}

func payOne(ctx context.Context, db *sql.DB, client *paymentsvc.Client, claim string) error {
	var r paymentsvc.PayoutRequest
	if err := db.QueryRowContext(ctx, claim).Scan(&r.UserData, &r.Amount, &r.Destination); err != nil {
		return err
	}
	response, err := client.InitPayout(ctx, r)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE payouts SET state = 'pending', order_id = $1 WHERE user_data = $2`, response.OrderID, r.UserData)
	return err
}

// open opens a Store with its tables, and other ones of the same database.
func open(ctx context.Context, database, service string, processes int, hooks durable.Hooks) (dbs []*sql.DB, stores []*durable.Store, err error) {
	client, err := newClient(service)
	if err != nil {
		return nil, nil, err
	}
	for range processes {
		db, err := connect(database)
		if err != nil {
			return nil, nil, err
		}
		if err := durable.Migrate(ctx, db); err != nil {
			return nil, nil, err
		}
		store, err := durable.Open(ctx, db, durable.Config{
			Service: client, Project: "bench", Slots: workers, Hooks: hooks, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, nil, err
		}
		dbs, stores = append(dbs, db), append(stores, store)
	}
	return dbs, stores, nil
}

// add queues payouts beside those of the turns before.
func add(ctx context.Context, db *sql.DB, store *durable.Store, rows int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	prefix := paymentsvc.NewUserData()
	var p []durable.NewPayout
	for i := range rows {
		p = append(p, durable.NewPayout{
			Reference: fmt.Sprint(prefix, i), Amount: paymentsvc.MustParseAmount(amount), Destination: destination,
		})
	}
	if _, err := store.QueuePayouts(ctx, tx, p...); err != nil {
		return err
	}
	return tx.Commit()
}

// ours is a Turn of as many Stores as there are to be processes. They share this process and have connections of their
// own, which are kept: the first turn warms them up.
func ours(database, service string) func(context.Context, int, int) (time.Duration, error) {
	var dbs []*sql.DB
	var stores []*durable.Store
	return func(ctx context.Context, processes, rows int) (_ time.Duration, err error) {
		if stores == nil {
			if dbs, stores, err = open(ctx, database, service, processes, durable.Hooks{}); err != nil {
				return 0, err
			}
		}
		if err := add(ctx, dbs[0], stores[0], rows); err != nil {
			return 0, err
		}
		begun := time.Now()
		errs := make([]error, processes)
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() { _, errs[i] = s.Turn(ctx, durable.Limit{}) })
		}
		wg.Wait()
		return time.Since(begun), errors.Join(errs...)
	}
}

// turns is the same by jobs of River.
func turns(database, service string) func(context.Context, int, int) (time.Duration, error) {
	var started *rivers
	return func(ctx context.Context, _, rows int) (_ time.Duration, err error) {
		if started == nil {
			if started, err = newRivers(ctx, database, service); err != nil {
				return 0, err
			}
		}
		if err := started.client.QueuePause(ctx, "payouts", nil); err != nil {
			return 0, err
		}
		time.Sleep(200 * time.Millisecond) // it is notified of the pause
		started.left.Store(int64(rows))
		if err := add(ctx, started.db, started.store, rows); err != nil {
			return 0, err
		}
		if err := started.client.QueueResume(ctx, "payouts", nil); err != nil {
			return 0, err
		}
		begun := <-started.first
		<-started.last
		return time.Since(begun), nil
	}
}

// rivers is a Store whose turns River starts.
type rivers struct {
	db          *sql.DB
	store       *durable.Store
	client      *river.Client[*sql.Tx]
	left        atomic.Int64 // calls until last
	first       chan time.Time
	last        chan bool
	beforeFirst atomic.Int64
}

func newRivers(ctx context.Context, database, service string) (*rivers, error) {
	r := &rivers{first: make(chan time.Time, 1), last: make(chan bool, 1)}
	dbs, stores, err := open(ctx, database, service, 1, durable.Hooks{
		Round: func(_ context.Context, round durable.Round) {
			if round.Claimed > 0 && len(r.first) == 0 && r.beforeFirst.CompareAndSwap(0, 1) {
				r.first <- time.Now().Add(-round.Duration)
			}
		},
		Change: func(context.Context, durable.Kind, durable.State, durable.State) {
			if r.left.Add(-1) == 0 {
				r.beforeFirst.Store(0)
				r.last <- true
			}
		},
	})
	if err != nil {
		return nil, err
	}
	r.db, r.store = dbs[0], stores[0]
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverdatabasesql.New(r.db), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	queue, err := riverqueue.New(r.store, riverqueue.Config{})
	if err != nil {
		return nil, err
	}
	config := &river.Config{Workers: river.NewWorkers(), Logger: quiet}
	if err := queue.AddTo(config); err != nil {
		return nil, err
	}
	if r.client, err = river.NewClient(riverdatabasesql.NewWithPgxListener(r.db, pool), config); err != nil {
		return nil, err
	}
	if err := r.client.Start(ctx); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // it elects a leader
	return r, nil
}
