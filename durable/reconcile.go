package durable

import (
	"cmp"
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

// reconcile polls the service for due unknown rows, and for due pending rows with FinalState. It polls for unknown
// payments by user_data, and for other rows by order_id.
func (s *Store) reconcile(ctx context.Context) error {
	begun := s.now()
	polls, err := s.ledger.DuePolls(ctx, sweepRows, pollsBeforeReview)
	if err != nil {
		return err
	}
	pending, err := s.duePending(ctx)
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots, records := make(chan struct{}, maxPolls), make(chan struct{}, maxRecords)
	for _, p := range append(polls, pending...) {
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

// reconcileRow polls for one row. Without FinalState the response has no status, so a found row becomes pending, and its
// notification ends it.
func (s *Store) reconcileRow(ctx context.Context, p ledger.Poll, records chan struct{}) error {
	// Before the poll, so that its result belongs to a time after Grace.
	seen := s.leases.since(claimName(p.UserData, p.Claims, p.ClaimedAt), s.now())
	endpoint := "status_payment"
	if p.Kind == row.Payout {
		endpoint = "status_payout"
	}
	span := s.trace(ctx, endpoint, p.UserData)
	ctx = span.ctx
	status, err := s.poll(ctx, p, endpoint)
	defer func() { span.end(printable(err)) }()
	if p.State == row.Pending {
		s.pending.observe(s.now(), err)
	}
	records <- struct{}{}
	defer func() { <-records }()
	log := s.c.Log.With("user_data", p.UserData, "polls", p.Polls)
	if err == nil {
		if !isAbout(status, p) {
			log.WarnContext(ctx, "durable: the status is not of this row")
			return nil
		}
		return s.recordStatus(ctx, p, status, s.finalStatus(ctx, p, status))
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

func (s *Store) poll(ctx context.Context, p ledger.Poll, endpoint string) (
	status *paymentsvc.StatusResponse, err error,
) {
	begun := s.now()
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	switch {
	case p.Kind == row.Payout:
		status, err = s.c.Service.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: p.OrderID})
	case p.State == row.Pending:
		status, err = s.c.Service.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{OrderID: p.OrderID})
	default:
		status, err = s.c.Service.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: p.UserData})
	}
	s.reportCall(ctx, endpoint, begun, err)
	return status, err
}

// isAbout reports whether a response is about the row of a poll. All fields are optional, so a response without the
// row's ids proves nothing.
func isAbout(status *paymentsvc.StatusResponse, p ledger.Poll) bool {
	if status == nil {
		return false
	}
	sameUserData, sameOrderID := status.UserData == p.UserData, ledger.Identifier(status.OrderID) == p.OrderID
	switch {
	case p.State == row.Pending:
		return (sameUserData || sameOrderID) && (sameUserData || status.UserData == "") &&
			(sameOrderID || status.OrderID == "")
	case p.Kind == row.Payout && p.OrderID != "" && !sameOrderID:
		return false
	default:
		return sameUserData && status.OrderID != ""
	}
}

// recordStatus records the order_id of an unknown row, and a final status, "" without one.
func (s *Store) recordStatus(
	ctx context.Context, p ledger.Poll, status *paymentsvc.StatusResponse, final paymentsvc.StatusName,
) error {
	orderID := cmp.Or(ledger.Identifier(status.OrderID), p.OrderID)
	if p.State == row.Pending && final == "" {
		return nil
	}
	err := s.ledger.Change(ctx, p.UserData, orderID, func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
		taken, err := tx.Taken(ctx, r, orderID)
		switch {
		case err != nil:
			return err
		case final == "":
			r.FoundWith(orderID, status.Amount, taken)
		case status.Amount.IsSet():
			r.Notify(orderID, final, status.Amount, taken)
		default:
			r.Notify(orderID, final, r.Amount, taken)
		}
		return nil
	})
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: the service has it",
			"user_data", p.UserData, "order_id", orderID, "status", string(final))
	}
	return err
}
