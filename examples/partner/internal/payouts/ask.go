package payouts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

const (
	// askRows is how many unknown payouts one sweep asks for.
	askRows = 100
	// askedInVain is how many questions without an answer call for a person. The service is asked on all the same, at
	// last every slowest.
	askedInVain = 8
	slowest     = 10 * time.Minute
	// notSaid is for people to read.
	notSaid = "The service does not say whether it has this payout."
)

// ask asks the service for the unknown payouts that have an order_id (section 4.4) and are due.
func (w *worker) ask(ctx context.Context) error {
	due, err := w.Store.UnknownPayouts(ctx, askRows)
	if err != nil {
		return err
	}
	var failures []error
	for _, userData := range due {
		if ctx.Err() != nil {
			break
		}
		if err := w.askFor(ctx, userData); err != nil && !errors.Is(err, store.ErrNotFound) { // another process was faster
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// askFor asks for one payout. The answer has no status, so a payout that is found is pending: its notification ends it.
func (w *worker) askFor(ctx context.Context, userData string) error {
	p, err := w.Store.Payout(ctx, userData)
	if err != nil {
		return err
	}
	reason := ""
	if p.Asked >= askedInVain {
		reason = notSaid
	}
	next := time.Now().Add(min(time.Second<<min(p.Asked, 20), slowest))
	if err := w.Store.Asking(ctx, store.Payouts, userData, reason, next); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	status, err := w.Client.StatusPayout(asking, paymentsvc.StatusPayoutRequest{OrderID: p.OrderID})
	log := w.Log.With("user_data", userData, "asked", p.Asked+1)
	switch {
	case err != nil:
		log.WarnContext(ctx, "payout: status", slog.Any("error", err))
		return nil
	case status.OrderID != p.OrderID || status.UserData != userData:
		// All fields are optional, so any object is an answer, and one that does not name the payout says nothing.
		log.WarnContext(ctx, "payout: status not of this payout")
		return nil
	}
	log.InfoContext(ctx, "payout: the service has it", "order_id", p.OrderID)
	return w.record(ctx, func(ctx context.Context) error {
		return w.Store.Found(ctx, store.Payouts, userData, p.OrderID, status.Amount)
	})
}
