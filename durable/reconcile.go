package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

const (
	// maxPolls is the maximum number of concurrent polls in a sweep, so polls of 200 ms reach 250 per second. After
	// sweepTime a sweep begins no more polls, because a hanging service must not delay the next sweep.
	maxPolls  = 50
	sweepTime = 10 * time.Second
	// pollsBeforeReview is the number of polls without a result after which a row needs review. Polls continue, with waits
	// of at most maxPollWait.
	pollsBeforeReview = 8
	maxPollWait       = 10 * time.Minute
)

// reconcile polls the service for due unknown rows and, if Config.FinalState is set, for due pending rows. It polls for
// unknown payments by user_data, and for other rows by order_id.
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
		if ctx.Err() != nil || s.now().Sub(begun) > sweepTime { // the remaining rows are due again later
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

// reconcileRow polls for one row. Without FinalState the response has no status, so a found row becomes pending and
// waits for its notification.
func (s *Store) reconcileRow(ctx context.Context, p ledger.Poll, records chan struct{}) error {
	// Measure before the poll, because "not found" counts only if the poll begins after Grace.
	seen := s.leases.since(row.Claim{UserData: p.UserData, Claims: p.Claims, ClaimedAt: p.ClaimedAt}, s.now())
	endpoint := "status_payment"
	if p.Kind == row.Payout {
		endpoint = "status_payout"
	}
	span := s.trace(ctx, endpoint, p.UserData)
	ctx = span.ctx
	status, err := s.poll(ctx, p, endpoint)
	defer func() { span.end(printable(err)) }()
	if p.State == row.Pending {
		s.pending.observe(s.now(), p.Kind, err)
	}
	records <- struct{}{}
	defer func() { <-records }()
	log := s.c.Log.With("user_data", p.UserData, "polls", p.Polls)
	if err == nil {
		if !isAbout(status, p) {
			log.WarnContext(ctx, "durable: the status response does not identify this row")
			return nil
		}
		return s.recordStatus(ctx, p, status, s.finalStatus(ctx, p, status))
	}
	failure := onlyFailure(err)
	rejected := failure != nil && failure.Outcome == paymentsvc.OutcomeRejected
	absent := rejected && p.Kind == row.Payment && s.c.NotFound(failure)
	log.InfoContext(ctx, "durable: status", slog.Any("error", printable(err)), slog.Bool("absent", absent))
	if !absent || seen < s.c.Grace || !p.ClaimedBefore(s.c.Grace.Milliseconds()) {
		return nil
	}
	late := p.CreatedAt < p.Now-s.c.GiveUp.Milliseconds()
	return s.changeSwept(ctx, p.UserData, "durable: the service does not have the payment",
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
// row's ids is not evidence.
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

// recordStatus records the order_id of an unknown row, and the final status if final is not "".
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
		s.c.Log.InfoContext(ctx, "durable: the service has the row",
			"user_data", p.UserData, "order_id", orderID, "status", string(final))
	}
	return err
}

// maxPendingPolls is the maximum number of polls of pending rows per second in this process. These polls are less
// urgent than starts, and many rows may be pending for days.
const maxPendingPolls = 20

// pendingPolls decides when this process polls for pending rows, and for which rows.
type pendingPolls struct {
	mu    sync.Mutex
	next  time.Time // time of the next pass, by the process's clock
	kind  row.Kind  // kind of the last pass
	kinds map[row.Kind]*pollsOfKind
}

type pollsOfKind struct {
	after    ledger.Place
	failures int       // successive passes in which a poll failed, other than by a rejection of its row
	resume   time.Time // end of the wait after failures
}

// of returns the polls of a kind. p.mu is held.
func (p *pendingPolls) of(kind row.Kind) *pollsOfKind {
	if p.kinds == nil {
		p.kinds = map[row.Kind]*pollsOfKind{row.Payment: {}, row.Payout: {}}
	}
	return p.kinds[kind]
}

// duePending returns the pending rows of a pass, which is limited by maxPendingPolls and PerSecond.
func (s *Store) duePending(ctx context.Context) ([]ledger.Poll, error) {
	if s.c.FinalState == nil {
		return nil, nil
	}
	rate := float64(maxPendingPolls)
	if s.c.PerSecond > 0 {
		rate = min(rate, s.c.PerSecond)
	}
	limit := max(1, int(rate))
	kind, after, due := s.pending.begin(s.now(), time.Duration(float64(limit)/rate*float64(time.Second)))
	if !due {
		return nil, nil
	}
	polls, next, err := s.ledger.DuePending(ctx, kind, after, limit)
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	s.pending.of(kind).after = next
	return polls, err
}

// begin reports whether a pass is due, and for which rows. The next pass is for the other kind, after at least wait.
func (p *pendingPolls) begin(now time.Time, wait time.Duration) (kind row.Kind, after ledger.Place, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return "", ledger.Place{}, false
	}
	p.next = now.Add(wait)
	last := p.kind
	p.kind = row.Payment
	if last == row.Payment {
		p.kind = row.Payout
	}
	polls := p.of(p.kind)
	return p.kind, polls.after, !now.Before(polls.resume)
}

// observe postpones the passes of a kind after a failed poll, except after a rejection of its row.
func (p *pendingPolls) observe(now time.Time, kind row.Kind, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	polls := p.of(kind)
	caller := errors.Is(err, paymentsvc.ErrUnauthorized) || errors.Is(err, paymentsvc.ErrRateLimited)
	failure := onlyFailure(err)
	if err == nil || failure != nil && failure.Outcome == paymentsvc.OutcomeRejected && !caller {
		polls.failures = 0
		return
	}
	if !now.Before(polls.resume) { // otherwise another poll of the same pass has failed
		polls.failures++
	}
	retryAfter, _ := failure.RetryAfter()
	wait := max(schedule.Backoff(polls.failures+3, time.Minute), min(retryAfter, maxRetryAfter))
	if resume := now.Add(wait); resume.After(polls.resume) {
		polls.resume = resume
	}
}

// finalStatus returns the final status that FinalState finds in a response, or "".
func (s *Store) finalStatus(
	ctx context.Context, p ledger.Poll, status *paymentsvc.StatusResponse,
) (final paymentsvc.StatusName) {
	if s.c.FinalState == nil {
		return ""
	}
	final, err := s.readStatus(p, status)
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: no state from FinalState", "user_data", p.UserData, "error", err.Error())
	}
	return final
}

// readStatus calls FinalState. Its errors omit the texts of FinalState's errors, which may quote the response.
func (s *Store) readStatus(p ledger.Poll, status *paymentsvc.StatusResponse) (final paymentsvc.StatusName, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			final, err = "", fmt.Errorf("panic of type %T\n%s", cause, debug.Stack())
		}
	}()
	for _, field := range []string{"order_id", "user_data", "amount"} {
		if slices.Contains(status.Malformed, field) {
			return "", fmt.Errorf("not called, because %s is unreadable", field)
		}
	}
	state, err := s.c.FinalState(Kind(p.Kind), status.Raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("an error of type %T", err)
	case state == StateSucceeded:
		return paymentsvc.StatusSuccess, nil
	case state == StateFailed:
		return paymentsvc.StatusFailure, nil
	case state == StatePending, state == "":
		return "", nil
	default:
		return "", errors.New("it returned a state other than succeeded, failed or pending")
	}
}
