package durable

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// itself is Status.By of what durable has done by itself.
const itself = "durable"

// Pause stops all claims of all processes until [Store.Resume]: payouts and the retries of payments. What was claimed
// before still goes out, see [Store.Drained]. It is kept in the database. by is required.
func (s *Store) Pause(ctx context.Context, by, reason string) error {
	if by == "" {
		return fmt.Errorf("%w: by is required", ErrInvalid)
	}
	_, err := s.write(ctx, endless, storable(by), storable(reason))
	return err
}

const endless = `UPDATE durable_control SET paused = 1, pause_until = 0, probe = '', paused_by = $1, pause_reason = $2`

// Resume ends a pause, whoever made it, and the run of equal refusals. by is required.
func (s *Store) Resume(ctx context.Context, by string) error {
	if by == "" {
		return fmt.Errorf("%w: by is required", ErrInvalid)
	}
	_, err := s.write(ctx, `UPDATE durable_control SET paused = 0, pause_until = 0, pause_length = 0, probe = '',
		pause_reason = '', paused_by = '', run_code = '', run_length = 0, run_rows = '[]'`)
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: resumed", "by", by)
	}
	return err
}

// Drained waits until no row is StateStarting, so that after Pause nothing is in flight. On PostgreSQL it first waits for
// the transactions that write payments or payouts, yours too: one of them may be a claim that began before the pause. It
// returns the error of ctx if that ends first.
func (s *Store) Drained(ctx context.Context) error {
	var writers string
	if s.dialect == PostgreSQL {
		if err := s.one(ctx, `SELECT COALESCE(string_agg(virtualtransaction, ','), '') `+writing, "").Scan(&writers); err != nil {
			return err
		}
	}
	for {
		left := 0
		if writers != "" {
			if err := s.one(ctx, `SELECT COUNT(*) `+writing, writers).Scan(&left); err != nil {
				return err
			}
		}
		status, err := s.Status(ctx) // after the writers: what they have claimed is seen
		if err != nil || status.Starting == 0 && left == 0 {
			return err
		}
		if err := s.sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// writing selects the transactions that have written rows: those of a list, or all.
const writing = `FROM pg_locks WHERE relation = 'durable_rows'::REGCLASS AND mode = 'RowExclusiveLock'
	AND database = ` + databaseOID + `
	AND ($1 = '' OR virtualtransaction = ANY (string_to_array($1, ',')))`

// Status returns what holds for all processes, from the database of [Open] and not from Config.ReadDB, which may lag.
func (s *Store) Status(ctx context.Context) (Status, error) {
	var st Status
	var paused, until, hold, now int64
	err := s.one(ctx, `SELECT paused, pause_until, pause_reason, paused_by, hold,
		hold_reason, held_by, generation, run_code, run_length, {now},
		(SELECT COUNT(*) FROM durable_rows WHERE state = 'starting') FROM durable_control`).
		Scan(&paused, &until, &st.Reason, &st.By, &hold, &st.HoldReason, &st.HoldBy, &st.Generation, &st.RefusalCode,
			&st.RefusalRun, &now, &st.Starting)
	st.Now, st.Hold = at(now), hold == 1
	st.Paused = paused == 1 || until > now
	if st.Paused && paused == 0 {
		st.Until = at(until)
	}
	return st, err
}

// HoldPayouts keeps back every payout that is created now or until [Store.EndHold], after a backup was restored for
// instance: compare them with the service's list, then [Store.Release] those that it does not have, and decide the
// others. Payments that were to be started become unknown, so that the service is polled first. It returns the new
// generation. by is required.
func (s *Store) HoldPayouts(ctx context.Context, by, reason string) (generation int64, err error) {
	if by == "" {
		return 0, fmt.Errorf("%w: by is required", ErrInvalid)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		generation, err = s.hold(ctx, tx, by, reason)
		return err
	})
	return generation, err
}

func (s *Store) hold(ctx context.Context, tx *sql.Tx, by, reason string) (generation int64, err error) {
	if err := tx.QueryRowContext(ctx, s.sql.Replace(`UPDATE durable_control SET hold = 1, generation = generation + 1,
		held_by = $1, hold_reason = $2 RETURNING generation`), storable(by), storable(reason)).Scan(&generation); err != nil {
		return 0, err
	}
	_, err = s.exec(ctx, tx, `UPDATE durable_rows SET state = 'unknown', doubted = 1, refusal = '', due_at = {now}, updated_at = {now},
		version = version + 1 WHERE kind = 'payment' AND state = 'created'`)
	return generation, err
}

// EndHold lets new payouts be sent again, without comparison with the service's list: first import all files since the
// backup again, and queue again what your program has queued since. Payouts that are held stay so until they are
// released. by is required.
func (s *Store) EndHold(ctx context.Context, by string) error {
	if by == "" {
		return fmt.Errorf("%w: by is required", ErrInvalid)
	}
	_, err := s.write(ctx, `UPDATE durable_control SET hold = 0, hold_reason = '', held_by = ''`)
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: hold ended", "by", by)
	}
	return err
}

// releaseRows is how many payouts one statement of Release changes: all at once could take longer than patience.
const releaseRows = 5000

// Release lets the held payouts that f selects be sent, and returns their number, also with an error: those were
// released, and the next Release goes on. What another hold keeps back meanwhile stays held. by is required; f.After and
// f.Limit must not be set.
func (s *Store) Release(ctx context.Context, by string, f Filter) (int, error) {
	if by == "" || f.After != "" || f.Limit != 0 {
		return 0, fmt.Errorf("%w: by is required, and Filter.After and Limit must not be set", ErrInvalid)
	}
	var generation int64
	if err := s.one(ctx, `SELECT generation FROM durable_control`).Scan(&generation); err != nil {
		return 0, err
	}
	f.Kind, f.State, f.Held = KindPayout, StateCreated, true
	where, args := s.where(f, f.Kind, f.State)
	own := "$" + strconv.Itoa(len(args)+1)
	query := `WITH held AS MATERIALIZED (SELECT user_data FROM durable_rows WHERE ` + shift(where, 0) + ` AND generation < ` + own + `
			ORDER BY generation, due_at, user_data LIMIT ` + strconv.Itoa(releaseRows) + `{lock})
		UPDATE durable_rows SET generation = ` + own + `, due_at = {now}, updated_at = {now}, version = version + 1
		WHERE user_data IN (SELECT user_data FROM held)`
	released, err := 0, error(nil)
	for n := int64(1); n > 0 && err == nil; {
		n, err = s.write(ctx, query, append(args, generation)...)
		released += int(n)
	}
	s.late.reset()
	s.c.Log.InfoContext(ctx, "durable: payouts released", "by", by, "payouts", released)
	return released, err
}

// holdItself holds payouts because the database is not the one that it was.
func (s *Store) holdItself(ctx context.Context, reason string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.hold(ctx, tx, itself, reason); err != nil {
			return err
		}
		return s.keepFingerprint(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("cannot hold payouts: %s: %w", reason, err)
	}
	s.mu.Lock()
	s.last = claimed{}
	s.mu.Unlock()
	s.told(ctx, "durable: payouts held", "payouts are held: "+reason)
	return nil
}

// paused tells of a pause that this process has made.
func (s *Store) paused(ctx context.Context, reason string) { s.told(ctx, "durable: paused", reason) }

// told tells of a pause or hold.
func (s *Store) told(ctx context.Context, text, reason string) {
	s.c.Log.WarnContext(ctx, text, "reason", reason)
	if s.c.Hooks.Pause != nil {
		s.c.Hooks.Pause(ctx, reason)
	}
}

// Ready proves that the database can be written and read back, for a readiness probe.
func (s *Store) Ready(ctx context.Context) error {
	var wrote, now int64
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, s.sql.Replace(`UPDATE durable_control
			SET heartbeat = {greatest}(heartbeat + 1, {now}) RETURNING heartbeat`)).Scan(&wrote)
	})
	if err == nil {
		err = s.one(ctx, `SELECT heartbeat FROM durable_control`).Scan(&now)
	}
	if err == nil && now < wrote {
		err = errors.New("what was written is not there")
	}
	if err != nil {
		return fmt.Errorf("durable: not ready: %w", err)
	}
	return nil
}

// Balance returns the service's answer to GetBalance.
func (s *Store) Balance(ctx context.Context) (*paymentsvc.Balance, error) {
	return s.c.Service.GetBalance(ctx)
}

// manyTroubles is how many calls in a row may go unanswered before all wait: a service that is down would otherwise get
// every row, each of which a person would have to look into.
const manyTroubles = 3

func (s *Store) answering() { s.troubles.Store(0) }

// consequences applies what follows from the call of a payout for all others. It returns why they are paused, "" if they
// are not.
func (tx *transaction) consequences(ctx context.Context, j job, v verdict, r *row) (paused string, err error) {
	if v.is == factStarted {
		if _, err := tx.s.exec(ctx, tx, endRun); err != nil {
			return "", err
		}
	}
	if v.is == factRefused {
		if paused, err = tx.refusals(ctx, v, r); paused != "" || err != nil {
			return paused, err
		}
	}
	switch v.pause {
	case pauseEnd:
		tx.s.answering()
		if j.probe {
			_, err = tx.s.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, pause_length = 0, pause_reason = '',
				paused_by = '', probe = '' WHERE paused = 0 AND probe = $1`, j.token)
		}
		return "", err
	case pauseTrouble:
		if tx.s.troubles.Add(1) < manyTroubles && !j.probe {
			return "", nil
		}
	case pauseTimed:
	case pauseEndless:
		n, err := tx.s.exec(ctx, tx, endless+` WHERE paused = 0`, itself, v.reason)
		if n == 0 {
			return "", err
		}
		return v.reason, err
	case pauseNone:
		if j.probe { // it says nothing of the service, so the next row is tried
			_, err = tx.s.exec(ctx, tx, `UPDATE durable_control SET pause_until = {now}, probe = ''
				WHERE paused = 0 AND probe = $1`, j.token)
		}
		return "", err
	}
	tx.s.answering()
	// What began before a pause neither ends nor lengthens it.
	var until int64
	err = tx.s.query(ctx, tx, func(rows *sql.Rows) error { return rows.Scan(&until) }, `UPDATE durable_control
		SET pause_length = {least}({greatest}(2 * pause_length, 1000), 60000), probe = '', paused_by = $1, pause_reason = $2,
			pause_until = {now} + {greatest}({least}({greatest}(2 * pause_length, 1000), 60000), $3)
		WHERE paused = 0 AND (pause_until = 0 OR probe = $4) RETURNING pause_until`,
		itself, v.reason, v.atLeast.Milliseconds(), j.token)
	if until == 0 {
		return "", err
	}
	return v.reason + "; this ends by itself at " + at(until).UTC().Format(time.DateTime) + " UTC", err
}

// refusals counts refusals in a row with one code. It returns why everything is paused, "" if it is not.
func (tx *transaction) refusals(ctx context.Context, v verdict, r *row) (string, error) {
	if tx.s.c.EqualRefusals < 0 {
		return "", nil
	}
	var run, rows string
	var length int
	if err := tx.QueryRowContext(ctx, tx.s.sql.Replace(`SELECT run_code, run_length, run_rows FROM durable_control{lock}`)).
		Scan(&run, &length, &rows); err != nil {
		return "", err
	}
	var refused []string
	if run != v.code || json.Unmarshal([]byte(rows), &refused) != nil {
		length, refused = 0, nil
	}
	length++
	if len(refused) < tx.s.c.EqualRefusals {
		refused = append(refused, r.UserData)
	}
	if _, err := tx.s.exec(ctx, tx, `UPDATE durable_control SET run_code = $1, run_length = $2, run_rows = $3`,
		v.code, length, list(refused)); err != nil {
		return "", err
	}
	if length < tx.s.c.EqualRefusals {
		return "", nil
	}
	r.attend(inARun)
	refused = slices.DeleteFunc(refused, func(userData string) bool { return userData == r.UserData })
	if _, err := tx.s.exec(ctx, tx, `UPDATE durable_rows SET attention = $1, version = version + 1
		WHERE state = 'rejected' AND attention = '' AND user_data IN `+tx.s.each("$2"), inARun, list(refused)); err != nil {
		return "", err
	}
	reason := fmt.Sprintf("%d payouts in a row were rejected: %s", length, v.code)
	n, err := tx.s.exec(ctx, tx, endless+` WHERE paused = 0`, itself, reason)
	if n == 0 {
		return "", err
	}
	return reason, err
}

// probe tries one row after a timed pause, alone among all processes: the pause goes on meanwhile, for a lease at most.
// Its slot is taken already.
func (s *Store) probe(ctx context.Context, w *worker) {
	token, begun := newToken(), s.now()
	var jobs []job
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		jobs = nil
		n, err := s.exec(ctx, tx, `UPDATE durable_control SET pause_until = {now} + $1, probe = $2
			WHERE paused = 0 AND pause_until BETWEEN 1 AND {now}`, s.c.Lease.Milliseconds(), token)
		if err != nil || n == 0 {
			return err
		}
		err = s.query(ctx, tx, func(rows *sql.Rows) error {
			j := job{token: token, probe: true, begun: begun}
			err := rows.Scan(&j.userData, &j.kind, &j.paymentType, &j.amount, &j.destination, &j.claims)
			jobs = append(jobs, j)
			return err
		}, `WITH due AS MATERIALIZED (SELECT user_data FROM durable_rows
			WHERE kind = 'payout' AND state = 'created' AND due_at <= {now}
				AND generation = (SELECT generation FROM durable_control) AND {unheard}
			ORDER BY due_at, user_data LIMIT 1{skip})
			UPDATE durable_rows SET state = 'starting', token = $1, claims = claims + 1, claimed_at = {now},
				due_at = {now} + $2, refusal = '', updated_at = {now}, version = version + 1
			WHERE state = 'created' AND user_data IN (SELECT user_data FROM due)
			RETURNING user_data, kind, type, amount, destination, claims`, token, s.c.Lease.Milliseconds())
		if err == nil && len(jobs) == 0 { // nothing to try it with, and nothing to be kept back
			_, err = s.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, probe = ''`)
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w.flying--
	if err != nil { // it may have been committed
		s.doubts = append(s.doubts, token)
		s.calls.Go(func() { s.giveBack(ctx, token, 1) })
		w.tell()
		return
	}
	s.used--
	s.reserve(w, len(jobs))
	w.result = workerResult{} // what holds now, the next round says
	s.begin(w, jobs)
	w.tell()
}
