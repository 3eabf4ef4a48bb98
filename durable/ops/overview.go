package ops

import (
	"context"
	"errors"
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
	Review    []durable.Row // the oldest rows in need of review
	More      bool          // whether further rows need review
	Unmatched []durable.Notice
	// Unreadable counts all unreadable notifications, because their kinds are unknown.
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

func (p *page) overview(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	f, err := p.frame(r, "Overview", "overview")
	if err != nil {
		return err
	}
	v := overviewView{frame: f, Refreshes: r.FormValue("refresh") == "1"}
	for _, kind := range []durable.Kind{durable.KindPayment, durable.KindPayout} {
		counts, err := p.store.Counts(ctx, durable.Filter{Kind: kind})
		if err != nil {
			return err
		}
		of := kindCounts{Kind: kind, Counts: counts}
		for _, state := range durable.States() {
			if n := counts.States[state]; n.Rows > 0 {
				of.States = append(of.States, stateCount{state, n})
			}
		}
		v.Counts, v.Unreadable = append(v.Counts, of), counts.Unreadable
	}
	v.Review, v.More, err = p.collect(ctx, durable.Filter{Review: true, OldestFirst: true}, 10)
	if err != nil {
		return err
	}
	v.Unmatched, err = p.store.Unmatched(ctx)
	if err != nil {
		return err
	}
	v.Files, err = p.filesView(ctx, 5, 5_000)
	if err != nil {
		return err
	}
	if v.Refreshes {
		w.Header().Set("Refresh", "5")
	}
	v.Balance, v.BalanceAt = p.balance.get(ctx)
	p.show(w, http.StatusOK, "overview", v)
	return nil
}

// fileView is a file of payouts with the numbers of its payouts.
type fileView struct {
	durable.Batch
	// Newest reports that only the newest payouts are counted, because the file may have more payouts. Review is then 1 if
	// any payout of the file needs review, or else 0. Held is then 1 if any payout of the file is held, or else 0.
	Newest                      bool
	Total, Called, Review, Held int64 // Called is Total without the created and the starting payouts
}

// Lines returns the approximate number of lines of the file, or 0 if ExpectedRows is 0.
func (v fileView) Lines() int64 {
	if v.ExpectedRows == 0 {
		return 0
	}
	return 1 + v.ExpectedRows + v.Rejected
}

// minCounted is the lowest limit that filesView passes to count, so that the last files have numbers too.
const minCounted = 100

// filesView returns up to maxFiles newest files. It counts about maxCounted payouts, so that a page loads quickly.
func (p *page) filesView(ctx context.Context, maxFiles, maxCounted int) (list []fileView, err error) {
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
		limit := min(max(maxCounted, minCounted), durable.CountLimit)
		if err := p.count(ctx, &list[i], limit); err != nil {
			return nil, err
		}
		maxCounted -= int(list[i].Total)
	}
	return list, nil
}

// count counts up to limit payouts of a file.
func (p *page) count(ctx context.Context, v *fileView, limit int) error {
	f := durable.Filter{Kind: durable.KindPayout, Batch: v.ID, Limit: limit}
	counts, err := p.store.Counts(ctx, f)
	if err != nil {
		return err
	}
	for _, n := range counts.States {
		v.Total += n.Rows
	}
	v.Called = v.Total - counts.States[durable.StateCreated].Rows - counts.States[durable.StateStarting].Rows
	v.Review, v.Held = counts.Review.Rows, counts.Held.Rows
	v.Newest = v.Total == int64(limit)
	if !v.Newest {
		return nil
	}
	for into, f := range map[*int64]durable.Filter{
		&v.Review: {Batch: v.ID, Review: true}, &v.Held: {Batch: v.ID, Held: true},
	} {
		rows, _, err := p.collect(ctx, f, 1)
		if err != nil {
			return err
		}
		*into = int64(len(rows))
	}
	return nil
}

func (p *page) files(w http.ResponseWriter, r *http.Request) error {
	f, err := p.frame(r, "Files of payouts", "files")
	if err != nil {
		return err
	}
	list, err := p.filesView(r.Context(), rowsPerPage, 20_000)
	if err != nil {
		return err
	}
	p.show(w, http.StatusOK, "files", struct {
		frame
		Files []fileView
	}{f, list})
	return nil
}

// unreadable lists the notifications with an unreadable body.
func (p *page) unreadable(w http.ResponseWriter, r *http.Request) error {
	f, err := p.frame(r, "Unreadable notifications", "")
	if err != nil {
		return err
	}
	list, err := p.store.Unreadable(r.Context())
	if err != nil {
		return err
	}
	p.show(w, http.StatusOK, "unreadable", struct {
		frame
		List []durable.Unreadable
	}{f, list})
	return nil
}

// reviewUnreadable ends the review of a notification. Another operator may have ended it before.
func (p *page) reviewUnreadable(w http.ResponseWriter, r *http.Request) error {
	key := r.PostFormValue("key")
	err := p.store.ReviewUnreadable(r.Context(), key, by(r))
	if err != nil && !errors.Is(err, durable.ErrNotFound) {
		return err
	}
	if err == nil {
		p.Log.Info("ops: unreadable notification reviewed", "key", key, "by", by(r))
	}
	http.Redirect(w, r, p.location("/unreadable", nil), http.StatusSeeOther)
	return nil
}

const (
	balanceAge     = 10 * time.Second
	balanceTimeout = 3 * time.Second // the longest wait of a page for the balance
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balanceTimeout) // other requests use the result
		defer cancel()
		var err error
		b.last, err = b.ask(ctx)
		if err != nil {
			b.last = nil
			b.log.Warn("ops: the balance is unknown", "err", err)
		}
		b.at = now
	}
	return b.last, b.at
}
