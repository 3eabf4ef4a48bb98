package riverqueue_test

import (
	"context"
	"database/sql"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
	"github.com/paymentsvc/paymentsvc/durable/riverqueue"
)

// Both sets of tables exist: see [durable.Migrate] and River's rivermigrate. River uses pool for LISTEN.
func Example() {
	work := func(
		ctx context.Context, db *sql.DB, pool *pgxpool.Pool, store *durable.Store, p []durable.NewPayout, file io.ReadSeeker,
	) error {
		queue, err := riverqueue.New(store, riverqueue.Config{})
		if err != nil {
			return err
		}
		config := &river.Config{Workers: river.NewWorkers()} // with your own workers and queues
		if err := queue.AddTo(config); err != nil {
			return err
		}
		client, err := river.NewClient(riverdatabasesql.NewWithPgxListener(db, pool), config)
		if err != nil {
			return err
		}
		if err := queue.Start(ctx, client); err != nil { // sends the payouts from before a crash
			return err
		}
		wake := func(ctx context.Context, tx *sql.Tx) error { return queue.Wake(ctx, client, tx) }

		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // has no effect after Commit
		if _, err := store.QueuePayouts(ctx, tx, p...); err != nil {
			return err
		}
		if err := wake(ctx, tx); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}

		_, err = payoutcsv.Import(ctx, payoutcsv.ImportConfig{DB: db, Store: store, Wake: wake}, file)
		return err
	}
	_ = work // needs a PostgreSQL server
	// Output:
}
