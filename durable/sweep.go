package durable

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

const (
	// sweepRows is how many rows of a kind one sweep works on.
	sweepRows = 300
	// concurrency is how many rows a sweep polls the service for at once: more than a hundred a second
	// at 200 ms each. After sweepTime it polls for no more: a service that hangs must not hold up the rest.
	concurrency = 50
	sweepTime   = 10 * time.Second
	// recorders is how many answers a sweep records at once, each with a connection.
	recorders = 4
	// lateEvery is how often the last day's notifications are looked through that a dead process may have left, and
	// allEvery the same for older ones. Both are by the stopwatch.
	lateEvery = 30 * time.Second
	allEvery  = 10 * time.Minute
)

// watch is how long this process has seen a row with a claim, by its own stopwatch.
type watch struct {
	mu   sync.Mutex
	seen map[string]*sight
}

type sight struct{ first, last time.Time }

// since returns for how long the row has been seen with the claim.
func (w *watch) since(userData, token string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]*sight{}
	}
	key := userData + "/" + token
	one, ok := w.seen[key]
	if !ok {
		one = &sight{first: now}
		w.seen[key] = one
	}
	one.last = now
	return now.Sub(one.first)
}

// forget removes what was not seen for long.
func (w *watch) forget(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, one := range w.seen {
		if one.last.Before(before) {
			delete(w.seen, key)
		}
	}
}

// Sweep does once what Run does between its rounds: it ends leases, gives up old payments, polls the service for what is
// unknown and due, applies notifications that wait, and repeats OnChange where it failed. A lease ends only after this
// Store has watched the row for a whole lease, so a process has to live that long.
func (s *Store) Sweep(ctx context.Context) error {
	s.watched.forget(s.now().Add(-2 * max(s.c.Lease, s.c.Grace, slowest)))
	s.seePayments(ctx)
	err := errors.Join(s.returnDoubts(ctx), s.endLeases(ctx))
	// Notifications of what is not in this database wait forever, so this looks through many now and then.
	if due, all := s.late.due(s.now()); due {
		err = errors.Join(err, s.applyLate(ctx, all), s.warnUnmatched(ctx))
	}
	return errors.Join(err, s.giveUp(ctx), s.repeatEvents(ctx), s.ask(ctx))
}

// schedule is when notifications were looked through, the zero value never.
type schedule struct {
	mu       sync.Mutex
	last     time.Time
	complete time.Time // also those of more than a day
}

// due reports whether it is time to look again, and at all of them.
func (d *schedule) due(now time.Time) (due, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all = d.complete.IsZero() || now.Sub(d.complete) > allEvery
	if due = all || now.Sub(d.last) > lateEvery; due {
		d.last = now
	}
	if all {
		d.complete = now
	}
	return due, all
}

// reset makes all due.
func (d *schedule) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.complete = time.Time{}
}

// returnDoubts returns claims whose commits came late.
func (s *Store) returnDoubts(ctx context.Context) error {
	s.mu.Lock()
	s.doubts = slices.Clone(s.doubts[max(0, len(s.doubts)-maxDoubts):])
	tokens := slices.Clone(s.doubts)
	s.mu.Unlock()
	if len(tokens) == 0 {
		return nil
	}
	_, err := s.write(ctx, giveBack+s.each("$1"), list(tokens))
	return err
}

// candidate is a row that a sweep may change if it is still what it was.
type candidate struct {
	userData, token string
	due             bool
}

func (s *Store) candidates(ctx context.Context, query string, args ...any) (list []candidate, err error) {
	err = s.query(ctx, s.db, func(rows *sql.Rows) error {
		var c candidate
		err := rows.Scan(&c.userData, &c.token, &c.due)
		list = append(list, c)
		return err
	}, query, args...)
	return list, err
}

// endLeases makes unknown what was claimed and not recorded within its lease: the process died, or the database was
// away. The database's clock may have jumped, so this process must have watched the claim for a lease too.
func (s *Store) endLeases(ctx context.Context) error {
	list, err := s.candidates(ctx, `SELECT user_data, token, due_at <= {now} FROM durable_rows WHERE state = 'starting'
		ORDER BY token LIMIT 10000`)
	if err != nil {
		return err
	}
	for _, c := range list {
		if s.watched.since(c.userData, c.token, s.now()) < s.c.Lease || !c.due {
			continue
		}
		err = errors.Join(err, s.sweep(ctx, c, "durable: claim ran out", func(r *row) error { return r.abandoned(c.token) }))
	}
	return err
}

// giveUp ends the starting of payments whose buyers have left.
func (s *Store) giveUp(ctx context.Context) error {
	list, err := s.candidates(ctx, `SELECT user_data, token, TRUE FROM durable_rows
		WHERE kind = 'payment' AND state = 'created' AND created_at < {now} - $1 ORDER BY created_at LIMIT $2`,
		s.c.GiveUp.Milliseconds(), sweepRows)
	for _, c := range list {
		err = errors.Join(err, s.sweep(ctx, c, "durable: payment given up", func(r *row) error { return r.giveUp(c.token) }))
	}
	return err
}

func (s *Store) sweep(ctx context.Context, c candidate, text string, f func(*row) error) error {
	err := s.change(ctx, c.userData, "", func(_ context.Context, _ *transaction, r *row) error { return f(r) })
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) {
		return nil // it was settled meanwhile
	}
	if err == nil {
		s.c.Log.WarnContext(ctx, text, "user_data", c.userData)
	}
	return err
}

// applyLate applies notifications of the last day, or all, whose rows are known: the process that was to do so has died,
// or the rows came later.
func (s *Store) applyLate(ctx context.Context, all bool) error {
	since := int64(24 * 60 * 60 * 1000)
	if all {
		since = 1 << 60
	}
	// Two conditions with an index each: PostgreSQL joins an OR of both without one.
	const kind = `CASE WHEN n.event = 'payout.status_changed' THEN 'payout' ELSE 'payment' END`
	var orders []string
	err := s.query(ctx, s.db, func(rows *sql.Rows) error {
		var order string
		err := rows.Scan(&order)
		orders = append(orders, order)
		return err
	}, `SELECT DISTINCT n.order_id FROM durable_notifications AS n
		WHERE n.matched = 0 AND n.received_at BETWEEN {now} - $2 AND {now} - 2000
			AND (EXISTS (SELECT 1 FROM durable_rows AS r WHERE r.order_id = n.order_id AND r.kind = `+kind+`)
				OR EXISTS (SELECT 1 FROM durable_rows AS r WHERE r.user_data = n.user_data AND r.kind = `+kind+`))
		LIMIT $1`, sweepRows, since)
	if len(orders) > 0 {
		s.applyTo(ctx, orders)
	}
	return err
}

// repeatEvents calls OnChange again where it failed, each in a transaction of its own.
func (s *Store) repeatEvents(ctx context.Context) error {
	if s.c.OnChange == nil {
		return nil
	}
	type event struct{ id, userData, from, to, refund string }
	var events []event
	err := s.query(ctx, s.db, func(rows *sql.Rows) error {
		var e event
		err := rows.Scan(&e.id, &e.userData, &e.from, &e.to, &e.refund)
		events = append(events, e)
		return err
	}, `SELECT id, user_data, from_state, to_state, refund_key FROM durable_events_due WHERE due_at <= {now}
		ORDER BY due_at LIMIT $1`, sweepRows)
	for _, e := range events {
		err = errors.Join(err, s.repeat(ctx, e.id, e.userData, e.from, e.to, e.refund))
	}
	return err
}

func (s *Store) repeat(ctx context.Context, id, userData, from, to, refund string) error {
	var told error
	err := s.inTx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		// The removal keeps other processes from telling the same.
		n, err := s.exec(ctx, inner, `DELETE FROM durable_events_due WHERE id = $1`, id)
		if err != nil || n == 0 {
			return err
		}
		tx := &transaction{Tx: inner, s: s}
		r, err := tx.load(ctx, "user_data", userData, "")
		if err != nil {
			return err
		}
		e := Event{Row: r.Row, From: State(from), To: State(to)}
		if refund != "" {
			e.From, e.To = "", "" // tables of version 1 have states here
			if err := s.query(ctx, inner, func(rows *sql.Rows) error {
				n, err := scanNotice(rows)
				e.Refund = &n
				return err
			}, `SELECT `+noticeColumns+` FROM durable_notifications WHERE key = $1`, refund); err != nil {
				return err
			}
		}
		if told = tx.onChange(ctx, e); told != nil || !strings.Contains(r.Attention, onChangeFails) {
			return told
		}
		_, err = s.exec(ctx, inner, `UPDATE durable_rows SET attention = TRIM(REPLACE(attention, $1, '')), version = version + 1
			WHERE user_data = $2`, onChangeFails, userData)
		return err
	})
	if told == nil {
		return err
	}
	s.c.Log.WarnContext(ctx, "durable: OnChange failed again", "user_data", userData, "state", to, "error", told.Error())
	_, kept := s.write(ctx, `UPDATE durable_rows SET attention = `+attending+`, version = version + 1
		WHERE user_data = $3 AND attention NOT LIKE $2 AND EXISTS (SELECT 1 FROM durable_events_due WHERE id = $4 AND tries >= 5)`,
		onChangeFails, "%"+onChangeFails+"%", userData, id)
	_, late := s.write(ctx, `UPDATE durable_events_due SET tries = tries + 1,
		due_at = {now} + 1000 * (1 << CAST({least}(tries, 9) AS INTEGER)) WHERE id = $1`, id)
	return errors.Join(err, kept, late)
}

const (
	// askedInVain is how many polls without an answer call for a person. Polling goes on, in the end every slowest.
	askedInVain = 8
	slowest     = 10 * time.Minute
)

// question is an unknown row that the service is polled for.
type question struct {
	*row
	now int64
}

// ask polls the service for unknown rows that are due: payments by user_data, payouts by order_id. It commits the next
// due time first, so that only one of several processes polls.
func (s *Store) ask(ctx context.Context) error {
	var questions []question
	begun := s.now()
	on, release, err := s.connection(ctx, s.db)
	if err != nil {
		return err
	}
	writing, cancel := s.writing(ctx)
	defer cancel()
	err = s.query(writing, on, func(rows *sql.Rows) error {
		q := question{}
		r, err := scan(rows, &q.now)
		q.row = r
		questions = append(questions, q)
		return err
	}, `WITH due AS MATERIALIZED (SELECT user_data FROM durable_rows
			WHERE state = 'unknown' AND due_at <= {now} AND (kind = 'payment' OR order_id IS NOT NULL)
			ORDER BY due_at LIMIT $1{skip})
		UPDATE durable_rows SET asked = asked + 1, updated_at = {now},
			due_at = {now} + CASE WHEN asked >= 9 THEN 600000 ELSE 1000 * (1 << CAST(asked AS INTEGER)) END,
			version = CASE WHEN attention = '' AND asked >= $2 THEN version + 1 ELSE version END,
			attention = CASE WHEN attention = '' AND asked >= $2 THEN $3 ELSE attention END
		WHERE state = 'unknown' AND due_at <= {now} AND user_data IN (SELECT user_data FROM due)
		RETURNING `+columns+`, {now}`, sweepRows, askedInVain, notSaid)
	release()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots, records := make(chan struct{}, concurrency), make(chan struct{}, recorders)
	for _, q := range questions {
		slots <- struct{}{}
		if ctx.Err() != nil || s.now().Sub(begun) > sweepTime { // the others are due again later
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if failed := s.askFor(ctx, q, records); failed != nil {
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return err
}

// askFor polls for one row. The answer has no status, so a row that is found is pending: its notification ends it.
func (s *Store) askFor(ctx context.Context, q question, records chan struct{}) error {
	// Before the question, so that what it finds is true of a time after the grace.
	seen := s.watched.since(q.UserData, q.token, s.now())
	asking, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	begun := s.now()
	var status *paymentsvc.StatusResponse
	var err error
	endpoint := "status_payment"
	if q.Kind == KindPayment {
		status, err = s.c.Service.StatusPayment(asking, paymentsvc.StatusPaymentRequest{UserData: q.UserData})
	} else {
		endpoint = "status_payout"
		status, err = s.c.Service.StatusPayout(asking, paymentsvc.StatusPayoutRequest{OrderID: q.OrderID})
	}
	s.called(ctx, endpoint, begun, err)
	records <- struct{}{}
	defer func() { <-records }()
	log := s.c.Log.With("user_data", q.UserData, "asked", q.Asked)
	if err == nil {
		if status == nil || status.UserData != q.UserData || status.OrderID == "" || q.OrderID != "" && q.Kind == KindPayout &&
			identifier(status.OrderID) != q.OrderID {
			// All fields are optional, so any object is an answer, and one that does not name the row says nothing.
			log.WarnContext(ctx, "durable: the status is not of this row")
			return nil
		}
		return s.answered(ctx, q, identifier(status.OrderID), status.Amount)
	}
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	absent := ok && q.Kind == KindPayment && failure.Outcome == paymentsvc.OutcomeRejected && s.c.NotFound(failure)
	log.InfoContext(ctx, "durable: status", slog.Any("error", shown(err)), slog.Bool("absent", absent))
	passed := time.Duration(q.now-q.ClaimedAt.UnixMilli()) * time.Millisecond
	if !absent || passed < s.c.Grace || seen < s.c.Grace {
		return nil
	}
	late := q.CreatedAt.UnixMilli() < q.now-s.c.GiveUp.Milliseconds()
	return s.sweep(ctx, candidate{userData: q.UserData}, "durable: the service does not have it",
		func(r *row) error { return r.absent(q.token, late) })
}

// answered records that the service has a row that was unknown.
func (s *Store) answered(ctx context.Context, q question, orderID string, amount paymentsvc.Amount) error {
	err := s.change(ctx, q.UserData, orderID, func(ctx context.Context, tx *transaction, r *row) error {
		taken, err := tx.taken(ctx, r, orderID)
		if err != nil {
			return err
		}
		r.foundWith(orderID, amount, taken)
		return nil
	})
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: the service has it", "user_data", q.UserData, "order_id", orderID)
	}
	return err
}
