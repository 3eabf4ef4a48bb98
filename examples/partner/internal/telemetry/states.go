package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// States is how many rows are in which state.
type States struct {
	// Orders and Payouts count by state.
	Orders, Payouts map[string]int64
	// OrdersAttention and PayoutsAttention count what a person has to look at.
	OrdersAttention, PayoutsAttention int64
}

// WatchStates measures what count finds, at most once in every, since a count goes through an index of all rows. A count
// that fails leaves the gauges out, which an alert can tell from zero.
func (t *Telemetry) WatchStates(every time.Duration, count func(context.Context) (States, error)) error {
	m := t.meter()
	orders, err := m.Int64ObservableGauge("partner.orders", metric.WithDescription("Orders by state."))
	if err != nil {
		return err
	}
	payouts, err := m.Int64ObservableGauge("partner.payouts", metric.WithDescription("Payouts by state."))
	if err != nil {
		return err
	}
	attention, err := m.Int64ObservableGauge("partner.attention", metric.WithDescription("Orders and payouts that a person has to look at."))
	if err != nil {
		return err
	}
	recent := &recentStates{every: every, count: count}
	_, err = m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		states, err := recent.get(ctx)
		if err != nil {
			t.log.Warn("the states cannot be counted", "err", err)
			return nil
		}
		for state, n := range states.Orders {
			o.ObserveInt64(orders, n, metric.WithAttributes(attribute.String("state", state)))
		}
		for state, n := range states.Payouts {
			o.ObserveInt64(payouts, n, metric.WithAttributes(attribute.String("state", state)))
		}
		o.ObserveInt64(attention, states.OrdersAttention, metric.WithAttributes(attribute.String("of", "orders")))
		o.ObserveInt64(attention, states.PayoutsAttention, metric.WithAttributes(attribute.String("of", "payouts")))
		return nil
	}, orders, payouts, attention)
	return err
}

// recentStates counts again when the last count is old.
type recentStates struct {
	every time.Duration
	count func(context.Context) (States, error)

	mu     sync.Mutex
	at     time.Time
	states States
	err    error
}

func (r *recentStates) get(ctx context.Context) (States, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= r.every {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		r.states, r.err = r.count(ctx)
		r.at = now
	}
	return r.states, r.err
}
