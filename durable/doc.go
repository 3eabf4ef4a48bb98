// Package durable makes payments and payouts survive crashes. It commits a row for each payment or payout before it
// calls the service, so a kill at any line does not cause a second payout. It needs database/sql and PostgreSQL or
// SQLite, with a driver of your choice.
//
//	if err := durable.Migrate(ctx, db); err != nil { ... }
//	store, err := durable.Open(ctx, db, durable.Config{
//		Service: client, // a *paymentsvc.Client
//		Project: "pay 1001 2002", // your own name, because it must never change
//		Witness: durable.FileWitness("/mnt/another-volume/witness"), // notices a restored database
//		OnChange: func(ctx context.Context, tx *sql.Tx, e durable.Event) error {
//			if e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded {
//				return ship(ctx, tx, e.Row.Reference) // after an error, called again later
//			}
//			return nil
//		},
//	})
//	go store.Run(ctx)
//
//	row, err := store.Pay(ctx, durable.NewPayment{Key: basket, Type: paymentsvc.PaymentTypeCard, Amount: amount})
//	// No two purchases may have one basket. For StatePending, show a page with a link to row.RedirectURL instead of a
//	// redirect, because the payer may have paid already. For StateSucceeded, thank the payer. For StateFailed and
//	// StateRejected, offer a new attempt with a new Key. For any other state, and any row with a ReviewReason, show
//	// "we are finding out".
//
//	queued, err := store.QueuePayouts(ctx, tx, durable.NewPayout{Reference: "salary-1", Amount: amount, Destination: to})
//
//	// with WebhookConfig.OnUnreadable: store.KeepUnreadable
//	mux.Handle("/notifications", webhook.Handler(store.Notified))
//
// # How it works
//
// A worker claims at most one row per free call slot, commits the claim, calls the service once, and records the
// outcome. Completed calls and new claims share one commit. While a commit is in progress, later completions and claims
// wait for the next commit. If a process dies, its claimed rows become unknown at the end of their leases. An unknown
// row is sent again only after the service or an operator has confirmed that it was not started. A notification is
// stored once per Key, and applied once.
//
// A lease ends when both the database's clock and the monotonic clock of a process that has watched the claim have
// measured a whole lease. So a wrong clock does not start a row twice.
//
// # Where to look
//
//   - internal/ledger/round_postgres.sql claims rows in its part "claimed" and records outcomes in its part "recorded".
//     On SQLite, claim.sql and record_sqlite.sql in the same directory do the same.
//   - Store.endLeases in sweep.go ends a lease.
//   - internal/row has the state machine, internal/schedule decides when to claim, and internal/recognize notices a
//     restored or replaced database.
//
// # What is stored
//
// The destination of a payout is stored in full, because a call needs it. It may be a card number, so protect the
// database accordingly. No error, log, hook or text of a [Row] contains it. Card data of payers is never stored or
// sent, because the payer enters it on the service's page.
//
// [Store.Prune] deletes old final rows. Never delete rows in another way. A missing row can look like a lost commit,
// which holds all payouts, and the row's reference could be paid again.
package durable
