// Package durable makes payments and payouts survive crashes: each is a row in your database that is committed before
// the service is called, so a process may be killed at any line and no payout is sent twice. It needs database/sql and
// PostgreSQL or SQLite; you bring the driver.
//
//	if err := durable.Migrate(ctx, db); err != nil { ... }
//	store, err := durable.Open(ctx, db, durable.Config{
//		Service: client, // a *paymentsvc.Client
//		Project: "https://pay.example.com 1001 2002",
//		OnChange: func(ctx context.Context, tx *sql.Tx, e durable.Event) error {
//			if e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded {
//				return ship(ctx, tx, e.Row.Reference) // commits together with the payment
//			}
//			return nil
//		},
//	})
//	go store.Run(ctx)
//
//	row, err := store.Pay(ctx, durable.NewPayment{Key: basket, Type: paymentsvc.PaymentTypeCard, Amount: amount})
//	// StatePending: redirect to row.RedirectURL. StateSucceeded: thanks. StateFailed and StateRejected: try again with
//	// a new Key. Any other state, and any row with Attention: "we are finding out". A basket is never "".
//
//	queued, err := store.QueuePayouts(ctx, tx, durable.NewPayout{Reference: "salary-1", Amount: amount, Destination: to})
//
//	mux.Handle("/notifications", webhook.Handler(store.Notified))
//
// # How it works
//
// A worker claims no more rows than it has free call slots, commits the claim, calls the service once, and records the
// outcome. Outcomes and the next claims share one commit, grouped by who waits and never by a timer. A row whose process
// died is unknown after its lease: it is never sent again before the service, a notification or a person has said that
// it was not started. A notification is stored once by its Key, and applied once.
//
// A lease has ended only when the database's clock says so and the sweeping process has itself watched the row for a
// whole lease by its own stopwatch, so a clock that is wrong starts nothing twice.
//
// # What is stored
//
// The destination of a payout is stored in full, since sending it needs it: it may be a card number, so protect the
// database accordingly. It appears in no error, log, hook, or text of a [Row]. Card data of payers is neither stored nor
// sent: the payer enters it on the service's page.
//
// Never delete a row that is younger than a day: a row that has vanished looks like a lost commit, and holds all payouts.
package durable
