package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Itself is the name of durable as the author of a pause or a hold.
const Itself = "durable"

// pauseUntilResume begins a pause until Resume. pause_until is then the beginning of the pause.
const pauseUntilResume = `UPDATE durable_control
	SET paused = 1, pause_until = {now}, probe = '', paused_by = $1, pause_reason = $2`

// Pause stops all claims of all processes until Resume.
func (l *Ledger) Pause(ctx context.Context, by, reason string) error {
	_, err := l.write(ctx, pauseUntilResume, Storable(by), Storable(reason))
	return err
}

// Resume ends a pause and the run of equal rejections.
func (l *Ledger) Resume(ctx context.Context) error {
	_, err := l.write(ctx, `UPDATE durable_control SET paused = 0, pause_until = 0, pause_length = 0, probe = '',
		pause_reason = '', paused_by = '', run_code = '', run_length = 0, run_rows = '[]'`)
	return err
}

// ControlStatus contains the control row and the number of claims.
type ControlStatus struct {
	Paused, Hold                         bool
	Until                                int64 // end of a timed pause, or 0
	PausedAt                             int64 // beginning of a pause until Resume, or 0
	HeldAt                               int64 // beginning of the last hold, or 0
	Reason, By, HoldReason, HoldBy, Code string
	Generation, Run, Starting, Now       int64 // Run is the number of rejections with Code, Starting the number of claims
}

// Status returns the control row and the number of claims.
func (l *Ledger) Status(ctx context.Context) (ControlStatus, error) {
	var s ControlStatus
	var endless bool
	err := l.one(ctx, l.DB, []any{
		&endless, &s.PausedAt, &s.Until, &s.Reason, &s.By, &s.Hold, &s.HoldReason, &s.HoldBy, &s.HeldAt, &s.Generation,
		&s.Code, &s.Run, &s.Now, &s.Starting,
	}, `SELECT paused, pause_until * paused,
		CASE WHEN pause_until BETWEEN {now} + 1 AND {now} + {impossible} THEN pause_until ELSE 0 END,
		pause_reason, paused_by, hold, hold_reason, held_by, held_at, generation, run_code, run_length, {now},
		(SELECT COUNT(*) FROM durable_claims) FROM durable_control`)
	s.Paused = endless || s.Until > 0
	if endless {
		s.Until = 0
	}
	return s, err
}

// writing selects the open transactions with written claims. A list $1 limits the selection.
const writing = `FROM pg_locks WHERE relation = 'durable_claims'::REGCLASS AND mode = 'RowExclusiveLock'
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND ($1 = '' OR virtualtransaction = ANY (string_to_array($1, ',')))`

// Writers returns the transactions that have written claims, as a list for Writing. It is empty on SQLite.
func (l *Ledger) Writers(ctx context.Context) (writers string, err error) {
	if l.Dialect == SQLite {
		return "", nil
	}
	err = l.one(ctx, l.DB, []any{&writers}, `SELECT COALESCE(string_agg(virtualtransaction, ','), '') `+writing, "")
	return writers, err
}

// Writing reports whether a transaction of writers is still open.
func (l *Ledger) Writing(ctx context.Context, writers string) (bool, error) {
	if writers == "" {
		return false, nil
	}
	var n int
	err := l.one(ctx, l.DB, []any{&n}, `SELECT COUNT(*) `+writing, writers)
	return n > 0, err
}

// Hold holds all created payouts and all new payouts. It makes created payments unknown, so that the service is polled
// before a retry. keep, if set, runs in the same transaction.
func (l *Ledger) Hold(
	ctx context.Context, by, reason string, keep func(context.Context, *sql.Tx) error,
) (generation int64, err error) {
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// A counter could repeat the generation of a hold that a restore has lost.
		if err := l.one(ctx, tx, []any{&generation}, `UPDATE durable_control SET hold = 1, held_by = $1, held_at = {now},
			generation = {greatest}(generation + 1, {now}), hold_reason = $2 RETURNING generation`,
			Storable(by), Storable(reason)); err != nil {
			return err
		}
		payments, err := l.dequeue(ctx, tx, `user_data IN (SELECT user_data FROM durable_queue WHERE kind = 'payment'){lock}`)
		if err != nil {
			return err
		}
		if _, err := l.exec(ctx, tx, `UPDATE durable_rows SET state = 'unknown', may_have_started = 1, error_code = '',
			due_at = {now}, updated_at = {now}, version = version + 1
			WHERE state = 'created' AND user_data{in $1}`, list(payments)); err != nil {
			return err
		}
		// A restored database may lack later claims, so Grace begins again.
		if _, err := l.exec(ctx, tx, `UPDATE durable_rows SET version = version + 1,
			claimed_at = (SELECT held_at FROM durable_control)
			WHERE rare = 'unknown' AND order_id = ''`); err != nil || keep == nil {
			return err
		}
		return keep(ctx, tx)
	})
	return generation, err
}

// EndHold ends the hold of new payouts. The error is row.ErrChanged if generation is not the current generation.
func (l *Ledger) EndHold(ctx context.Context, generation int64) error {
	n, err := l.write(ctx, `UPDATE durable_control SET hold = 0, hold_reason = '', held_by = ''
		WHERE generation = $1`, generation)
	if err == nil && n == 0 {
		err = row.ErrChanged
	}
	return err
}

// ReleaseHeld moves held payouts to the current generation, so that they are sent, and returns their number. A payout
// may have been started before the hold, so a rejection of it is not final. If generation is not the current
// generation, ReleaseHeld moves no payout and returns row.ErrChanged.
func (l *Ledger) ReleaseHeld(ctx context.Context, userData []string, generation int64) (int, error) {
	released := 0
	err := l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		users, err := l.dequeue(ctx, tx, `generation < $2 AND user_data{in $1} ORDER BY user_data{lock}`,
			list(userData), generation)
		if err != nil {
			return err
		}
		released = len(users)
		if err := l.requeue(ctx, tx, users, `generation = $2, may_have_started = 1,`, generation); err != nil {
			return err
		}
		// The lock makes another hold wait for the commit. It comes last, because a record also locks its row before the
		// control row.
		var current int64
		err = l.one(ctx, tx, []any{&current}, `SELECT generation FROM durable_control{lock}`)
		if err == nil && current != generation {
			err = row.ErrChanged
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return released, nil
}

// Remaining reports whether held payouts exist, and whether a round without a pause may claim a due row. Rounds skip
// rows that another transaction has locked, but this query reads them.
func (l *Ledger) Remaining(ctx context.Context) (held, due bool, err error) {
	const queued = `EXISTS (SELECT 1 FROM durable_queue AS q WHERE q.kind = `
	err = l.one(ctx, l.DB, []any{&held, &due}, `SELECT `+queued+`'payout' AND q.generation < control.generation),
			`+queued+`'payment' AND q.generation = 0 AND q.due_at <= now AND {unnotified})
			OR `+queued+`'payout' AND q.generation = control.generation AND q.due_at <= now AND {unnotified})
		FROM durable_control AS control CROSS JOIN (SELECT {now} AS now) AS clock`)
	return held, due, err
}

// Join stores project if the database has no project yet, and returns the database's project.
func (l *Ledger) Join(ctx context.Context, project string) (stored string, err error) {
	if _, err := l.write(ctx, `UPDATE durable_control SET project = $1 WHERE project = ''`, project); err != nil {
		return "", err
	}
	err = l.one(ctx, l.DB, []any{&stored}, `SELECT project FROM durable_control`)
	return stored, err
}

// Ready writes the control row and reads it back.
func (l *Ledger) Ready(ctx context.Context) error {
	var wrote, read int64
	err := l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return l.one(ctx, tx, []any{&wrote}, `UPDATE durable_control SET heartbeat = heartbeat + 1 RETURNING heartbeat`)
	})
	if err == nil {
		err = l.one(ctx, l.DB, []any{&read}, `SELECT heartbeat FROM durable_control`)
	}
	if err == nil && read < wrote {
		err = errors.New("the database lost a committed write")
	}
	if err != nil {
		return fmt.Errorf("durable: not ready: %w", err)
	}
	return nil
}

// EndRun ends the run of equal rejections, because a payout has succeeded.
func (tx *Tx) EndRun(ctx context.Context) error {
	_, err := tx.l.exec(ctx, tx, endRun)
	return err
}

// EndPause ends a timed pause if probe is the token of its probe.
func (tx *Tx) EndPause(ctx context.Context, probe string) error {
	_, err := tx.l.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, pause_length = 0, pause_reason = '',
		paused_by = '', probe = '' WHERE paused = 0 AND probe = $1`, probe)
	return err
}

// ProbeAgain allows a new probe of a timed pause, because the call of the current probe is not evidence about the
// service.
func (tx *Tx) ProbeAgain(ctx context.Context, probe string) error {
	_, err := tx.l.exec(ctx, tx, `UPDATE durable_control SET pause_until = {now}, probe = ''
		WHERE paused = 0 AND probe = $1`, probe)
	return err
}

// PauseUntilResume begins a pause until Resume. It returns false if the claims are already paused until Resume.
func (tx *Tx) PauseUntilResume(ctx context.Context, reason string) (bool, error) {
	n, err := tx.l.exec(ctx, tx, pauseUntilResume+` WHERE paused = 0`, Itself, Storable(reason))
	return n > 0, err
}

// PauseTimed begins a pause twice as long as the last timed pause, from 1 to 60 seconds, and at least atLeast
// milliseconds. It returns the end of the pause. An earlier pause lasts until Resume or until the result of its
// probe. During an earlier pause, PauseTimed returns 0 without a change, because the call may be older than the
// pause. Only the pause's own probe begins a new pause. probe is the token of the call.
func (tx *Tx) PauseTimed(ctx context.Context, reason string, atLeast int64, probe string) (until int64, err error) {
	err = tx.l.query(ctx, tx, func(rows *sql.Rows) error { return rows.Scan(&until) }, `UPDATE durable_control
		SET pause_length = {least}({greatest}(2 * pause_length, 1000), 60000), probe = '', paused_by = $1, pause_reason = $2,
			pause_until = {now} + {greatest}({least}({greatest}(2 * pause_length, 1000), 60000), $3)
		WHERE paused = 0 AND (pause_until = 0 OR probe = $4) RETURNING pause_until`, Itself, Storable(reason), atLeast, probe)
	return until, err
}

// CountRejection counts successive rejections of payouts with the same code. When their number reaches limit, it flags
// the rejected rows for review, begins a pause until Resume, and returns the reason. It returns "" if it has not begun
// a pause.
func (tx *Tx) CountRejection(ctx context.Context, r *row.Row, code string, limit int) (string, error) {
	var run, users string
	var length int
	if err := tx.l.one(ctx, tx, []any{&run, &length, &users},
		`SELECT run_code, run_length, run_rows FROM durable_control{lock}`); err != nil {
		return "", err
	}
	var rejected []string
	if run != code || json.Unmarshal([]byte(users), &rejected) != nil {
		length, rejected = 0, nil
	}
	length++
	if len(rejected) < limit {
		rejected = append(rejected, r.UserData)
	}
	if _, err := tx.l.exec(ctx, tx, `UPDATE durable_control SET run_code = $1, run_length = $2, run_rows = $3`,
		code, length, list(rejected)); err != nil || length < limit {
		return "", err
	}
	r.FlagForReview(row.InARun)
	rejected = slices.DeleteFunc(rejected, func(userData string) bool { return userData == r.UserData })
	if _, err := tx.l.exec(ctx, tx, `UPDATE durable_rows SET review_reason = $1, version = version + 1
		WHERE state = 'rejected' AND review_reason = '' AND user_data{in $2}`,
		row.InARun, list(rejected)); err != nil {
		return "", err
	}
	reason := fmt.Sprintf("%d payouts in a row were rejected: %s", length, code)
	if paused, err := tx.PauseUntilResume(ctx, reason); !paused {
		return "", err
	}
	return reason, nil
}
