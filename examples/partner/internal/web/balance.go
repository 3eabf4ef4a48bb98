package web

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Balance asks the service for the balance at most once in ten seconds, however many look at the page.
type Balance struct {
	ask func(context.Context) (*paymentsvc.Balance, error)
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	at      time.Time
	balance *paymentsvc.Balance // nil when it is not known
}

const (
	balanceAge     = 10 * time.Second
	balanceTimeout = 3 * time.Second // a page waits for it
)

// NewBalance makes a Balance of ask, which is paymentsvc.Client.GetBalance.
func NewBalance(ask func(context.Context) (*paymentsvc.Balance, error), log *slog.Logger) *Balance {
	return &Balance{ask: ask, log: log, now: time.Now}
}

// Get gives the balance and when it was asked for, nil when the service did not say.
func (b *Balance) Get(ctx context.Context) (*paymentsvc.Balance, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); b.at.IsZero() || now.Sub(b.at) >= balanceAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balanceTimeout) // others wait for it too
		defer cancel()
		var err error
		if b.balance, err = b.ask(ctx); err != nil {
			b.balance = nil
			b.log.Warn("the balance is not known", "err", err)
		}
		b.at = now
	}
	return b.balance, b.at
}
