package durable_test

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net/http"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// What the examples need of the program around them.
type shop struct {
	client  *paymentsvc.Client
	scheme  paymentsvc.Scheme
	secrets []paymentsvc.Secret
	mux     *http.ServeMux
}

func ship(context.Context, *sql.Tx, string) error { return nil }

func ExampleStore_Pay() {
	checkout := func(ctx context.Context, db *sql.DB, a shop) error {
		if err := durable.Migrate(ctx, db); err != nil {
			return err
		}
		store, err := durable.Open(ctx, db, durable.Config{
			Service: a.client,
			Project: "https://pay.example.com 1001 2002",
			OnChange: func(ctx context.Context, tx *sql.Tx, e durable.Event) error {
				if e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded {
					return ship(ctx, tx, e.Row.Reference) // commits together with the payment
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: a.scheme, Secrets: a.secrets,
			OnError: func(_ *http.Request, err error) { slog.Warn("notification rejected", "error", err) },
		})
		if err != nil {
			return err
		}
		a.mux.Handle("/notifications", webhook.Handler(store.Notified))
		a.mux.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
			basket := r.FormValue("basket")
			if basket == "" { // with Key "", each call would be a new payment
				http.Error(w, "There is no basket.", http.StatusBadRequest)
				return
			}
			row, err := store.Pay(r.Context(), durable.NewPayment{
				Key: basket, Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("10.50"),
			})
			switch clear := row.Attention == ""; { // otherwise the service contradicts itself
			case err != nil:
				http.Error(w, "Please try again.", http.StatusServiceUnavailable) // with the same basket
			case clear && row.State == durable.StatePending && row.RedirectURL != "":
				http.Redirect(w, r, row.RedirectURL, http.StatusSeeOther)
			case clear && row.State == durable.StateSucceeded:
				_, _ = io.WriteString(w, "Thank you.")
			case clear && (row.State == durable.StateFailed || row.State == durable.StateRejected):
				http.Error(w, "It was not paid. You can try again.", http.StatusConflict) // with a new basket key
			default:
				http.Error(w, "We are finding out.", http.StatusAccepted) // never a second payment for this basket
			}
		})
		return store.Run(ctx)
	}
	_ = checkout
	// Output:
}

func ExampleStore_QueuePayouts() {
	salaries := func(ctx context.Context, db *sql.DB, store *durable.Store, list []durable.NewPayout) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		// Your own rows go into the same transaction.
		queued, err := store.QueuePayouts(ctx, tx, list...)
		if err != nil {
			return err
		}
		for _, q := range queued {
			if q.Err != nil {
				return q.Err // this reference belongs to another payout
			}
		}
		return tx.Commit() // Run sends them, each once
	}
	_ = salaries
	// Output:
}
