package durable

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Filter selects rows. The zero value selects all rows, the newest first.
type Filter struct {
	// Kind, State, Batch and ErrorCode select rows with the same value. "" selects all rows.
	Kind      Kind
	State     State
	Batch     string
	ErrorCode string
	// Review selects the rows with a [Row].ReviewReason and the overdue rows, see [Row].Overdue.
	Review bool
	// Held selects payouts that wait for [Store.Release].
	Held bool
	// MinAge selects rows created at least this long ago, by the database's clock.
	MinAge time.Duration
	// UserData selects these rows; nil selects all.
	UserData []string
	// Current makes [Store.Rows] read from the database of [Open], because [Config].ReadDB may lag. With UserData, rows
	// are always current.
	Current bool
	// OldestFirst reverses the order of the rows.
	OldestFirst bool
	// After continues a list after the row with this [Row.Cursor]. "" is the beginning. An invalid cursor selects no row.
	After string
	// Limit is the maximum number of rows; 0 means no maximum.
	Limit int
}

// Count is a number of rows.
type Count struct {
	Rows int64
	// Age is the time since the creation of the oldest row, by the database's clock, or 0 without a row.
	Age time.Duration
}

// Counts are numbers of rows, each up to [CountLimit]. The numbers of a batch have no limit.
type Counts struct {
	// States contains only states with rows.
	States map[State]Count
	// Review counts the rows that need review. Overdue counts the overdue rows, see [Row].Overdue.
	Review, Overdue Count
	// Held counts the payouts that wait for [Store.Release].
	Held Count
	// Unmatched counts the notifications that [Store.Unmatched] selects, without its limit of 50. Its Age is the time
	// since the oldest arrival. Both numbers are 0 for a batch.
	Unmatched Count
	// Unreadable counts the notifications that [Store.Unreadable] selects, without its limit of 50, whatever
	// [Filter].Kind is. Its Age is the time since the oldest arrival. Both numbers are 0 for a batch.
	Unreadable Count
	// Pruned is [Batch].Pruned. It is 0 without a batch.
	Pruned int64
}

// CountLimit is the highest number in [Counts] without a batch. It means "this many or more".
const CountLimit = 10_000

// pageRows is the number of rows that one statement reads.
const pageRows = 500

// Rows yields the rows that f selects. It reads pages of 500 rows, and no statement stays open between them.
func (s *Store) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		selected := s.selected(f)
		var ok bool
		selected.After, ok = place(f.After)
		if !ok {
			return
		}
		for left := f.Limit; ; {
			size := pageRows
			if f.Limit > 0 {
				size = min(size, left)
			}
			page, now, err := s.page(ctx, f, selected, size)
			if err != nil {
				yield(Row{}, fmt.Errorf("durable: rows: %w", err))
				return
			}
			for _, r := range page {
				if !yield(s.listed(r, now), nil) {
					return
				}
			}
			left -= len(page)
			if len(page) < size || f.Limit > 0 && left == 0 {
				return
			}
			last := page[len(page)-1]
			selected.After = ledger.Place{At: last.CreatedAt, Key: last.UserData}
		}
	}
}

func (s *Store) page(ctx context.Context, f Filter, selected ledger.Filter, size int) ([]*row.Row, int64, error) {
	switch {
	case f.UserData == nil && f.Current:
		return s.ledger.Page(ctx, s.ledger.DB, selected, size)
	case f.UserData == nil:
		return s.ledger.Page(ctx, s.ledger.Read, selected, size)
	}
	named, now, err := s.ledger.Named(ctx, selected, f.UserData)
	return named[:min(size, len(named))], now, err
}

// selected returns the ledger's form of f.
func (s *Store) selected(f Filter) ledger.Filter {
	return ledger.Filter{
		Kind: row.Kind(f.Kind), State: row.State(f.State), Batch: f.Batch, ErrorCode: f.ErrorCode, Review: f.Review,
		Held: f.Held, MinAge: f.MinAge, Overdue: s.c.PendingReview, OldestFirst: f.OldestFirst,
	}
}

// listed returns the exported form of a row. now is the database's time, for Overdue and ResendAt.
func (s *Store) listed(r *row.Row, now int64) Row {
	public := publicRow(r)
	public.Overdue = s.c.PendingReview > 0 && r.State == row.Pending && !r.Reviewed &&
		now-r.CreatedAt >= s.c.PendingReview.Milliseconds()
	if left := s.graceLeft(r, now); left > 0 {
		public.ResendAt = ledger.Time(now).Add(left)
	}
	return public
}

// place parses a cursor, and reports whether it is valid.
func place(cursor string) (ledger.Place, bool) {
	if cursor == "" {
		return ledger.Place{}, true
	}
	created, userData, _ := strings.Cut(cursor, ".")
	at, err := strconv.ParseInt(created, 10, 64)
	return ledger.Place{At: at, Key: userData}, err == nil
}

// Find yields the rows whose user_data, order_id or reference is text. The error wraps [ErrPruned] if only a pruned row
// had this text. Find reads from the database of [Open].
func (s *Store) Find(ctx context.Context, text string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		text := ledger.Identifier(text)
		users := []string{text, derived(s.c.Project, KindPayment, text), derived(s.c.Project, KindPayout, text)}
		found, now, err := s.ledger.Find(ctx, s.c.PendingReview, text, users...)
		if err == nil && len(found) == 0 {
			var pruned bool
			pruned, err = s.ledger.FindPruned(ctx, text, users...)
			if pruned {
				err = ErrPruned
			}
		}
		if err != nil {
			yield(Row{}, fmt.Errorf("durable: find: %w", err))
			return
		}
		for _, r := range found {
			if !yield(s.listed(r, now), nil) {
				return
			}
		}
	}
}

// Counts returns the numbers of rows of f.Kind and f.Batch. For a batch it reads all rows, or its newest f.Limit rows.
// It ignores the other fields of f.
func (s *Store) Counts(ctx context.Context, f Filter) (Counts, error) {
	var err error
	counted := make([]ledger.Counts, 1)
	switch {
	case f.Batch == "":
		counted, err = s.ledger.Counts(ctx, s.c.PendingReview, CountLimit, row.Kind(f.Kind))
	case f.Kind != KindPayment: // only payouts have a batch
		counted[0], err = s.ledger.BatchCounts(ctx, f.Batch, s.c.PendingReview.Milliseconds(), max(0, f.Limit))
	}
	if err != nil {
		return Counts{}, fmt.Errorf("durable: counts: %w", err)
	}
	return publicCounts(counted[0]), nil
}

// publicCounts returns the exported form of counts.
func publicCounts(counted ledger.Counts) Counts {
	public := func(c ledger.Count) Count {
		if c.Rows == 0 {
			return Count{}
		}
		return Count{c.Rows, max(0, time.Duration(counted.Now-c.Oldest)*time.Millisecond)}
	}
	c := Counts{
		States: map[State]Count{}, Review: public(counted.Review), Overdue: public(counted.Overdue),
		Held: public(counted.Held), Unmatched: public(counted.Unmatched),
		Unreadable: public(counted.Unreadable), Pruned: counted.Pruned,
	}
	for state, count := range counted.States {
		if count.Rows > 0 {
			c.States[State(state)] = public(*count)
		}
	}
	return c
}

// Compared is the result of [Store.Compare] for one payout.
type Compared struct {
	Row Row
	// Err is nil for an equal payout, ErrNotFound for an unknown reference, ErrPruned for an equal payout that
	// [Store.Prune] has deleted, and ErrConflict for a stored or pruned payout with another amount or destination.
	Err error
}

// Compare looks up payouts by their references, in the order of p, and compares amounts and destinations. It changes no
// row, and reads from the database of [Open]. Its error is the database's.
func (s *Store) Compare(ctx context.Context, p ...NewPayout) ([]Compared, error) {
	userData := make([]string, len(p))
	for i, one := range p {
		userData[i] = derived(s.c.Project, KindPayout, one.Reference)
	}
	var pruned map[string]int64
	known, err := s.ledger.Known(ctx, s.ledger.DB, userData)
	if err == nil {
		pruned, err = s.ledger.Pruned(ctx, s.ledger.DB, missing(userData, nil, known)...)
	}
	if err != nil {
		return nil, fmt.Errorf("durable: compare: %w", err)
	}
	compared := make([]Compared, len(p))
	for i, one := range p {
		stored, same := known[userData[i]], s.newPayout(one)
		hash, deleted := pruned[userData[i]]
		if stored != nil {
			compared[i].Row = publicRow(stored)
		}
		switch {
		case stored == nil && !deleted:
			compared[i].Err = ErrNotFound
		case deleted && hash == same.Hash():
			compared[i].Err = ErrPruned
		case !same.Equal(stored):
			compared[i].Err = ErrConflict
		}
	}
	return compared, nil
}

// Unmatched returns the last 50 final notifications without a row, 5 minutes to 30 days after their arrival, the newest
// first. Another program made the orders, or a restore lost the rows. [Store.Sweep] logs each once per Store.
func (s *Store) Unmatched(ctx context.Context) ([]Notice, error) {
	notices, err := s.ledger.Unmatched(ctx, lastNotices)
	return publicNotices(notices), err
}

// lastNotices is the maximum number of notifications in a list.
const lastNotices = 50

// Notices returns the last 50 notifications with the UserData or the OrderID of r, the newest first. If r.Kind is set,
// it omits notifications about the other kind, but not the events that the document does not specify. It reads from the
// database of [Open].
func (s *Store) Notices(ctx context.Context, r Row) ([]Notice, error) {
	notices, err := s.ledger.Notices(ctx, row.Kind(r.Kind), r.UserData, r.OrderID, lastNotices)
	return publicNotices(notices), err
}

func publicNotices(notices []ledger.Notice) []Notice {
	public := make([]Notice, 0, len(notices))
	for _, n := range notices {
		public = append(public, Notice(n))
	}
	return public
}

// Decisions returns the decisions about a row, the newest first. It reads from the database of [Open].
func (s *Store) Decisions(ctx context.Context, userData string) ([]Decision, error) {
	stored, err := s.ledger.Decisions(ctx, userData)
	decisions := make([]Decision, 0, len(stored))
	for _, d := range stored {
		decisions = append(decisions, Decision{
			Kind: DecisionKind(d.Kind), UserData: d.UserData, OrderID: d.OrderID, By: d.By, State: State(d.State),
			ReviewReason: d.ReviewReason, At: d.At,
		})
	}
	return decisions, err
}
