package checkout

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

const (
	// batch is how many orders of a state one round deals with, and abreast how many at once. After roundTime it takes
	// up no more of them, so that a service that hangs does not hold up all else.
	batch     = 100
	abreast   = 4
	roundTime = 10 * time.Second
	// askedInVain is how many questions without an answer call for a person. The service is
	// asked on all the same, at last every slowest.
	askedInVain = 8
	slowest     = 10 * time.Minute
	// attention and notReached are for people to read.
	attention  = "The service does not say whether it has this order."
	notReached = "not reached"
)

// Run makes a round, see Pass, every Config.Interval until ctx is done. It then refuses new orders, and returns when
// the outcomes of all calls are recorded: within Config.Timeout and some seconds for the database.
func (c *Checkout) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := c.Pass(ctx); err != nil && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "checkout: round", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// Pass is one round: claims whose process has died become unknown, the service is asked for unknown orders that are
// due, and orders that it certainly does not have are started again. It returns when all that is recorded. Rounds of
// several processes may run at once.
func (c *Checkout) Pass(ctx context.Context) error {
	if err := bounded(ctx, c.sweep); err != nil {
		return err
	}
	return errors.Join(c.each(ctx, store.StateUnknown, c.ask), c.each(ctx, store.StateCreated, c.restart))
}

// sweep advances the orders that are due and need no call.
func (c *Checkout) sweep(ctx context.Context) error {
	n, err := c.Store.Abandoned(ctx, store.Orders, "")
	if err != nil {
		return err
	}
	if n > 0 {
		c.Log.WarnContext(ctx, "checkout: claims ran out", "orders", n)
	}
	_, err = c.Store.GiveUp(ctx, c.Now().Add(-c.GiveUp), notReached)
	return err
}

// each does what is to be done to the orders of a state that are due, some at once.
func (c *Checkout) each(ctx context.Context, state store.State, do func(context.Context, store.Order) error) error {
	var orders []store.Order
	if err := bounded(ctx, func(ctx context.Context) (err error) {
		orders, err = c.Store.DueOrders(ctx, state, batch)
		return err
	}); err != nil {
		return err
	}
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		failures []error
	)
	slots, end := make(chan struct{}, abreast), c.Now().Add(roundTime)
	for _, o := range orders {
		slots <- struct{}{}
		if c.Now().After(end) {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := do(ctx, o); err != nil && !errors.Is(err, store.ErrNotFound) { // another process was faster
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// restart starts an order that the service certainly does not have.
func (c *Checkout) restart(ctx context.Context, o store.Order) error {
	if c.paused() || !c.enter() {
		return nil
	}
	defer c.running.Done()
	deadline := c.deadline()
	claim, err := c.claim(ctx, o.UserData)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // it may have been committed all the same
		_ = try(ctx, func(ctx context.Context) error { return c.Store.NotSent(ctx, claim, c.Now()) })
	}
	if err != nil {
		return err
	}
	c.call(context.WithoutCancel(ctx), claim, deadline, o.Type, o.Amount, o.Attempts+1)
	return nil
}

// ask finds out whether the service has an unknown order (section 4.2). Its answer carries no status, so an order
// that is found is pending: its notification ends it.
func (c *Checkout) ask(ctx context.Context, o store.Order) error {
	now, trusted := c.Now(), o.ClaimedAt.Add(c.Grace)
	next := now.Add(backoff(o.Asked+1, slowest))
	if now.Before(trusted) && next.After(trusted) {
		next = trusted // as soon as "no such payment" is believed
	}
	reason := ""
	if o.Asked >= askedInVain {
		reason = attention
	}
	if err := bounded(ctx, func(ctx context.Context) error {
		return c.Store.Asking(ctx, store.Orders, o.UserData, reason, next)
	}); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, err := c.Client.StatusPayment(asking, paymentsvc.StatusPaymentRequest{UserData: o.UserData})
	log := c.Log.With("user_data", o.UserData, "asked", o.Asked+1)
	if err == nil {
		if status.UserData != o.UserData || status.OrderID == "" {
			// All fields are optional, so any object is an answer, and one that does not name the order says nothing.
			log.WarnContext(ctx, "status: not of this order")
			return nil
		}
		log.InfoContext(ctx, "status: the service has it", "order_id", status.OrderID)
		return try(ctx, func(ctx context.Context) error {
			return c.Store.Found(ctx, store.Orders, o.UserData, status.OrderID, status.Amount)
		})
	}
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	absent := ok && failure.Outcome == paymentsvc.OutcomeRejected && c.NotFound(failure)
	log.InfoContext(ctx, "status", slog.Any("error", err), slog.Bool("absent", absent))
	if !absent || now.Before(trusted) {
		return nil
	}
	reason = ""
	if o.CreatedAt.Before(now.Add(-c.GiveUp)) {
		reason = notReached // the buyer has gone
	}
	return try(ctx, func(ctx context.Context) error { return c.Store.Absent(ctx, o.UserData, o.Attempt, reason) })
}
