// Package checkout starts the payments of buyers, each at most once, and finds out what became of those whose answer
// was lost.
package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// ErrInvalid says that a buyer's order cannot be one: its payment type is unknown, or its amount is not more than 0.
var ErrInvalid = errors.New("checkout: invalid order")

// ErrClosed says that Run has returned, so that nothing is started any more.
var ErrClosed = errors.New("checkout: closed")

// Service is what a Checkout asks of a *paymentsvc.Client.
type Service interface {
	InitPayment(context.Context, paymentsvc.PaymentType, paymentsvc.PaymentRequest) (
		*paymentsvc.InitPaymentResponse, error)
	StatusPayment(context.Context, paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error)
}

// Config configures a Checkout.
type Config struct {
	// Store and Client are required.
	Store  *store.Store
	Client Service
	// NotFound says which error of StatusPayment means that the service has no such payment. The interface document
	// shows none, so nil means that no error does: an order whose answer was lost then waits for its notification.
	NotFound func(*paymentsvc.Error) bool
	// Timeout limits one call, with all its attempts and the making of its claim; 0 means 40 seconds. It is held below
	// half of Lease, so that what a call came to is recorded before its claim runs out.
	Timeout time.Duration
	// Lease is how long a claim lasts whose process has died; 0 means 2 minutes.
	Lease time.Duration
	// Grace is how long after its last claim an order may turn up at the service: before, "no such payment" is not
	// believed. 0 means 2 minutes. It is held at Timeout at least, since for that long there may be a call.
	Grace time.Duration
	// GiveUp is how long after it was made an order that the service does not have is still started; 0 means 15
	// minutes. Its buyer has gone then.
	GiveUp time.Duration
	// Interval is the time between two rounds of Run; 0 means 1 second.
	Interval time.Duration
	// Now gives the time; nil means time.Now. It must be the Store's.
	Now func() time.Time
	// Log is told what a person may want to know; nil means slog.Default().
	Log *slog.Logger
}

// Checkout starts payments. Make it with New; it is safe for concurrent use, also by several processes on one database.
type Checkout struct {
	Config

	mu          sync.Mutex
	running     sync.WaitGroup // calls whose outcome is not recorded yet
	closed      bool
	pausedUntil time.Time // no order is started again before: the service refuses the caller
}

// New makes a Checkout.
func New(c Config) *Checkout {
	c.Lease = cmp.Or(c.Lease, 2*time.Minute)
	c.Timeout = min(cmp.Or(c.Timeout, 40*time.Second), c.Lease*2/5)
	c.Grace = max(cmp.Or(c.Grace, 2*time.Minute), c.Timeout)
	c.GiveUp = cmp.Or(c.GiveUp, 15*time.Minute)
	c.Interval = cmp.Or(c.Interval, time.Second)
	if c.NotFound == nil {
		c.NotFound = func(*paymentsvc.Error) bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Checkout{Config: c}
}

// Start stores a new order and starts its payment. It returns when the outcome is recorded, or when ctx is done: the
// order is then still store.StateStarting, and the call goes on without it, for a buyer who leaves must not cut off
// what may already be paid for. Whatever became of the payment is the order's state and no error. An error is
// ErrInvalid, ErrClosed or the database's.
func (c *Checkout) Start(ctx context.Context, t paymentsvc.PaymentType, amount paymentsvc.Amount) (store.Order, error) {
	if err := check(t, amount); err != nil {
		return store.Order{}, err
	}
	if !c.enter() {
		return store.Order{}, ErrClosed
	}
	deadline := c.deadline()
	claim, err := c.create(ctx, t, amount)
	if err != nil {
		go func() { // it may have been committed all the same, and the buyer is told that there is no order
			defer c.running.Done()
			_ = try(ctx, func(ctx context.Context) error { return c.Store.Refused(ctx, claim, "not stored") })
		}()
		return store.Order{}, fmt.Errorf("checkout: %w", err)
	}
	recorded := make(chan struct{})
	go func() {
		defer c.running.Done()
		defer close(recorded)
		c.call(context.WithoutCancel(ctx), claim, deadline, t, amount, 1)
	}()
	select {
	case <-recorded:
	case <-ctx.Done():
	}
	// The order exists, so its buyer is told of it even if ctx is done.
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	order, err := c.Store.Order(reading, claim.UserData)
	if err != nil {
		return store.Order{UserData: claim.UserData, Type: t, Amount: amount, State: store.StateStarting},
			fmt.Errorf("checkout: order %s: %w", claim.UserData, err)
	}
	return order, nil
}

func check(t paymentsvc.PaymentType, amount paymentsvc.Amount) error {
	if !t.Known() {
		return fmt.Errorf("%w: payment type", ErrInvalid)
	}
	if amount.Sign() <= 0 {
		return fmt.Errorf("%w: amount", ErrInvalid)
	}
	return nil
}

// enter counts a call that Run has to wait for; false once Run waits.
func (c *Checkout) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// deadline is when a call must have ended whose claim is about to be made. It counts from before the claim, as the
// lease does: the database or the whole process may stand still until another process takes the claim for abandoned.
// Round(0) leaves the wall clock, by which leases are kept: the other one stands still while the machine is suspended.
func (c *Checkout) deadline() time.Time { return time.Now().Round(0).Add(c.Timeout) }

// create stores a new order and claims it.
func (c *Checkout) create(
	ctx context.Context, t paymentsvc.PaymentType, amount paymentsvc.Amount,
) (store.Claim, error) {
	ctx, cancel := c.claiming(ctx)
	defer cancel()
	return c.Store.CreateOrder(ctx, paymentsvc.NewUserData(), t, amount, c.Lease)
}

// claim claims an order that is stored.
func (c *Checkout) claim(ctx context.Context, userData string) (store.Claim, error) {
	ctx, cancel := c.claiming(ctx)
	defer cancel()
	return c.Store.Claim(ctx, store.Orders, userData, c.Lease)
}

// claiming bounds the making of a claim: one that takes longer than its call may is of no use.
func (c *Checkout) claiming(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(databaseTimeout, c.Timeout))
}

// call calls the service for a claim that is committed, once, and records what came of it. Past deadline it does not:
// the Client sends nothing then, and says so.
func (c *Checkout) call(ctx context.Context, claim store.Claim, deadline time.Time, t paymentsvc.PaymentType,
	amount paymentsvc.Amount, attempts int,
) {
	calling, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	payment, err := c.Client.InitPayment(calling, t, paymentsvc.PaymentRequest{Amount: amount, UserData: claim.UserData})
	if err == nil {
		c.record(ctx, claim, "started", func(ctx context.Context) error {
			return c.Store.Started(ctx, claim, payment.OrderID, payment.RedirectURL)
		}, slog.String("order_id", payment.OrderID))
		return
	}
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		failure = &paymentsvc.Error{Err: err} // not of a Client, so the outcome is unknown
	}
	wait, _ := failure.RetryAfter()
	wait = max(backoff(attempts, time.Minute), min(wait, longestWait))
	again := c.Now().Add(wait)
	if errors.Is(err, paymentsvc.ErrUnauthorized) || errors.Is(err, paymentsvc.ErrRateLimited) {
		c.pause(again) // whatever the outcome: the next order would fare the same
	}
	var write func(context.Context) error
	switch {
	case paymentsvc.SafeToRetry(err):
		retry := c.Store.Postponed
		if paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent {
			retry = c.Store.NotSent
		}
		write = func(ctx context.Context) error { return retry(ctx, claim, again) }
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		write = func(ctx context.Context) error {
			return c.Store.Unknown(ctx, claim, failure.OrderID, "", c.Now().Add(firstQuestion))
		}
	default:
		write = func(ctx context.Context) error { return c.Store.Refused(ctx, claim, store.Refusal(err)) }
	}
	c.record(ctx, claim, paymentsvc.OutcomeOf(err).String(), write, slog.Any("error", err))
}

const (
	// firstQuestion is when the service is asked for an order whose answer was lost.
	firstQuestion = time.Second
	// longestWait is the longest Retry-After that is believed.
	longestWait = 15 * time.Minute
)

// backoff is the wait after the nth time, from 1 on: a second, doubled each time, and no more than most.
func backoff(n int, most time.Duration) time.Duration {
	return min(time.Second<<min(n-1, 20), most)
}

// pause stops the starting of orders that had been put off before. New ones are tried: they show when it is over.
func (c *Checkout) pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.pausedUntil) {
		c.pausedUntil = until
	}
}

func (c *Checkout) paused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Now().Before(c.pausedUntil)
}

// databaseTimeout limits one request to the database.
const databaseTimeout = 5 * time.Second

// record records an outcome, also when ctx is done, and tries again when the database is away. What cannot be recorded
// is left to the end of the claim's lease: the order is then unknown, which is true. The log has the order_id.
func (c *Checkout) record(ctx context.Context, claim store.Claim, result string, write func(context.Context) error,
	more ...any,
) {
	log := c.Log.With("user_data", claim.UserData, "outcome", result).With(more...)
	var err error
	for n := range 5 {
		if n > 0 {
			time.Sleep(100 * time.Millisecond << n) // 3 seconds in all, of a call that may take 40
		}
		err = try(ctx, write)
		switch {
		case err == nil:
			log.InfoContext(ctx, "payment")
			return
		case errors.Is(err, store.ErrNotFound):
			log.InfoContext(ctx, "payment: known otherwise meanwhile")
			return
		}
	}
	log.ErrorContext(ctx, "payment: the outcome cannot be recorded", "database", err)
}

// try is one try at the database, whatever becomes of ctx.
func try(ctx context.Context, write func(context.Context) error) error {
	return bounded(context.WithoutCancel(ctx), write)
}

// bounded is one request to the database, which may not answer: a stop must not wait for that, nor the next round.
func bounded(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return ask(ctx)
}
