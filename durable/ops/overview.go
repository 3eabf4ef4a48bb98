package ops

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

type overviewView struct {
	frame
	Refreshes bool
	Balance   *paymentsvc.Balance
	BalanceAt time.Time
	Counts    []kindCounts
	Review    []durable.Row // the oldest
	More      bool          // rows need review
	Unmatched []durable.Notice
	// Unreadable counts notifications of both kinds.
	Unreadable durable.Count
	Files      []fileView
}

type kindCounts struct {
	Kind   durable.Kind
	States []stateCount
	durable.Counts
}

type stateCount struct {
	State durable.State
	durable.Count
}

func (p *page) overview(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	f, err := p.frame(r, "Overview", "overview")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := overviewView{frame: f, Refreshes: r.FormValue("refresh") == "1"}
	for _, kind := range []durable.Kind{durable.KindPayment, durable.KindPayout} {
		counts, err := p.store.Counts(ctx, durable.Filter{Kind: kind})
		if err != nil {
			p.fail(w, r, err)
			return
		}
		of := kindCounts{Kind: kind, Counts: counts}
		for _, state := range durable.States() {
			if n := counts.States[state]; n.Rows > 0 {
				of.States = append(of.States, stateCount{state, n})
			}
		}
		v.Counts, v.Unreadable = append(v.Counts, of), counts.Unreadable
	}
	if v.Review, v.More, err = p.collect(ctx, durable.Filter{Review: true, OldestFirst: true}, 10); err != nil {
		p.fail(w, r, err)
		return
	}
	if v.Unmatched, err = p.store.Unmatched(ctx); err != nil {
		p.fail(w, r, err)
		return
	}
	if v.Files, err = p.filesView(ctx, 5); err != nil {
		p.fail(w, r, err)
		return
	}
	if v.Refreshes {
		w.Header().Set("Refresh", "5")
	}
	v.Balance, v.BalanceAt = p.balance.get(ctx)
	p.views.show(w, http.StatusOK, "overview.html", v)
}

// fileView is a file of payouts with the numbers of its payouts.
type fileView struct {
	durable.Batch
	Total, Called, Review, Held int64
}

// Lines returns the approximate number of lines of the file, 0 without ExpectedRows.
func (v fileView) Lines() int64 {
	if v.ExpectedRows == 0 {
		return 0
	}
	return 1 + v.ExpectedRows + v.Rejected
}

func (p *page) filesView(ctx context.Context, maxFiles int) (list []fileView, err error) {
	for batch, err := range p.store.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		if len(list) == maxFiles {
			break
		}
		list = append(list, fileView{Batch: batch})
	}
	for i := range list {
		counts, err := p.store.Counts(ctx, durable.Filter{Kind: durable.KindPayout, Batch: list[i].ID})
		if err != nil {
			return nil, err
		}
		for _, n := range counts.States {
			list[i].Total += n.Rows
		}
		list[i].Called = list[i].Total - counts.States[durable.StateCreated].Rows - counts.States[durable.StateStarting].Rows
		list[i].Review, list[i].Held = counts.Review.Rows, counts.Held.Rows
	}
	return list, nil
}

func (p *page) files(w http.ResponseWriter, r *http.Request) {
	f, err := p.frame(r, "Files of payouts", "files")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	list, err := p.filesView(r.Context(), rowsPerPage)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.views.show(w, http.StatusOK, "files.html", struct {
		frame
		Files []fileView
	}{f, list})
}

const (
	balanceAge     = 10 * time.Second
	balanceTimeout = 3 * time.Second // a page waits that long
)

// balance calls the service at most once in balanceAge for all requests.
type balance struct {
	ask func(context.Context) (*paymentsvc.Balance, error)
	log *slog.Logger

	mu   sync.Mutex
	at   time.Time
	last *paymentsvc.Balance // nil if unknown
}

func (b *balance) get(ctx context.Context) (*paymentsvc.Balance, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.at.IsZero() || now.Sub(b.at) >= balanceAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balanceTimeout) // for all waiting requests
		defer cancel()
		var err error
		if b.last, err = b.ask(ctx); err != nil {
			b.last = nil
			b.log.Warn("ops: the balance is unknown", "err", err)
		}
		b.at = now
	}
	return b.last, b.at
}
