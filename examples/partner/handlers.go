package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/checkout"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/telemetry"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/web"
)

// countEvery is how often the states are counted for the metrics.
const countEvery = 5 * time.Second

// handlers makes what the two listeners serve, and the workers behind it.
func (s *serving) handlers(ctx context.Context) (public, admin http.Handler, err error) {
	webhook, err := newWebhook(s.set, func(_ *http.Request, err error) {
		s.log.Warn("a notification was not taken", "err", err)
	})
	if err != nil {
		return nil, nil, err
	}
	if s.queue, err = payouts.NewQueue(ctx, s.payoutsConfig()); err != nil {
		return nil, nil, err
	}
	buying := checkout.New(checkout.Config{
		Store: s.store, Client: s.calls, NotFound: s.set.NotFound,
		Timeout: s.set.CallTimeout, Lease: s.set.Lease, Grace: s.set.Grace, GiveUp: s.set.GiveUp, Log: s.log,
	})
	s.workers = []worker{{"checkout", buying.Run}, {"payouts", s.queue.Run}}
	if err := s.measure.WatchStates(countEvery, s.states); err != nil {
		return nil, nil, err
	}
	buyers := &web.Public{
		Store: s.store, Checkout: buying, Notifications: webhook.Handler(s.store.ApplyNotification),
		Ready: s.ready, Demo: s.fake != nil, Log: s.log,
	}
	operators := &web.Admin{
		Store: s.store, Balance: web.NewBalance(s.calls.GetBalance, s.log), Metrics: s.measure.Handler(),
		Enqueue: s.queue.Enqueue, Paused: s.paused, Hosts: s.set.AdminHosts, UserHeader: s.set.UserHeader,
		Demo: s.fake != nil, Log: s.log,
	}
	return s.measure.Handle(buyers.Handler()), operators.Handler(), nil
}

// ready says why this process should get no requests.
func (s *serving) ready(ctx context.Context) error {
	switch {
	case s.stopping.Load():
		return errors.New("stopping")
	case !s.queue.Running():
		return errors.New("the payouts are not worked on")
	}
	return s.store.Ping(ctx)
}

// paused says why no payouts are sent at the moment, "" when they are.
func (s *serving) paused() string {
	pause := s.queue.Pause()
	if !pause.Paused {
		return ""
	}
	return fmt.Sprintf("%s, until %s UTC", pause.Reason, pause.Until.UTC().Format(time.TimeOnly))
}

// states counts for the metrics.
func (s *serving) states(ctx context.Context) (telemetry.States, error) {
	orders, err := s.store.Counts(ctx, store.Orders)
	if err != nil {
		return telemetry.States{}, err
	}
	out, err := s.store.Counts(ctx, store.Payouts)
	if err != nil {
		return telemetry.States{}, err
	}
	return telemetry.States{
		Orders: byName(orders.States), Payouts: byName(out.States),
		OrdersAttention: orders.Attention, PayoutsAttention: out.Attention,
	}, nil
}

// byName counts under every state's name, so that one that no row is in is 0 and not absent.
func byName(counts map[store.State]int64) map[string]int64 {
	named := map[string]int64{}
	for _, state := range store.States() {
		named[string(state)] = counts[state]
	}
	return named
}
