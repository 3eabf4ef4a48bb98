package durable

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

const (
	// maxPolls is the number of concurrent polls of a sweep, for more than a hundred per second at 200 ms each. After
	// sweepTime a sweep begins no more polls, because a hanging service must not delay the rest.
	maxPolls  = 50
	sweepTime = 10 * time.Second
	// pollsBeforeReview is the number of polls without a result that needs review. Polls continue, at last every
	// maxPollWait.
	pollsBeforeReview = 8
	maxPollWait       = 10 * time.Minute
)

// reconcile polls the service for due unknown rows. It polls for payments by user_data and for payouts by order_id.
func (s *Store) reconcile(ctx context.Context) error {
	begun := s.now()
	polls, err := s.ledger.DuePolls(ctx, sweepRows, pollsBeforeReview)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots, records := make(chan struct{}, maxPolls), make(chan struct{}, maxRecords)
	for _, p := range polls {
		slots <- struct{}{}
		if ctx.Err() != nil || s.now().Sub(begun) > sweepTime { // the others are due again later
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if failed := s.reconcileRow(ctx, p, records); failed != nil {
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return err
}

// reconcileRow polls for one row. The response has no status, so a found row becomes pending, and its notification ends
// it.
func (s *Store) reconcileRow(ctx context.Context, p ledger.Poll, records chan struct{}) error {
	// Before the poll, so that its result belongs to a time after Grace.
	seen := s.leases.since(claimName(p.UserData, p.Claims, p.ClaimedAt), s.now())
	polling, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	status, err := s.poll(polling, p)
	records <- struct{}{}
	defer func() { <-records }()
	log := s.c.Log.With("user_data", p.UserData, "polls", p.Polls)
	if err == nil {
		if status == nil || status.UserData != p.UserData || status.OrderID == "" ||
			p.OrderID != "" && p.Kind == row.Payout && ledger.Identifier(status.OrderID) != p.OrderID {
			// All fields are optional, so a response without the row's ids proves nothing.
			log.WarnContext(ctx, "durable: the status is not of this row")
			return nil
		}
		return s.recordFound(ctx, p, ledger.Identifier(status.OrderID), status.Amount)
	}
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	absent := ok && p.Kind == row.Payment && failure.Outcome == paymentsvc.OutcomeRejected && s.c.NotFound(failure)
	log.InfoContext(ctx, "durable: status", slog.Any("error", printable(err)), slog.Bool("absent", absent))
	if !absent || seen < s.c.Grace || !p.ClaimedBefore(s.c.Grace.Milliseconds()) {
		return nil
	}
	late := p.CreatedAt < p.Now-s.c.GiveUp.Milliseconds()
	return s.changeSwept(ctx, p.UserData, "durable: the service does not have it",
		func(r *row.Row) error { return r.Absent(p.Claims, late) })
}

func (s *Store) poll(ctx context.Context, p ledger.Poll) (status *paymentsvc.StatusResponse, err error) {
	begun, endpoint := s.now(), "status_payment"
	if p.Kind == row.Payment {
		status, err = s.c.Service.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: p.UserData})
	} else {
		endpoint = "status_payout"
		status, err = s.c.Service.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: p.OrderID})
	}
	s.reportCall(ctx, endpoint, begun, err)
	return status, err
}

// recordFound records the order_id of an unknown row.
func (s *Store) recordFound(ctx context.Context, p ledger.Poll, orderID string, amount paymentsvc.Amount) error {
	err := s.ledger.Change(ctx, p.UserData, orderID, func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
		taken, err := tx.Taken(ctx, r, orderID)
		if err != nil {
			return err
		}
		r.FoundWith(orderID, amount, taken)
		return nil
	})
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: the service has it", "user_data", p.UserData, "order_id", orderID)
	}
	return err
}
