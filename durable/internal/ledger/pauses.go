package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// EndRun ends the run of equal rejections, because a payout has succeeded.
func (tx *Tx) EndRun(ctx context.Context) error {
	_, err := tx.l.exec(ctx, tx, endRun)
	return err
}

// EndPause ends a timed pause if its probe made the call.
func (tx *Tx) EndPause(ctx context.Context, probe string) error {
	_, err := tx.l.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, pause_length = 0, pause_reason = '',
		paused_by = '', probe = '' WHERE paused = 0 AND probe = $1`, probe)
	return err
}

// ProbeAgain lets another row be the probe, because the call of this one proves nothing.
func (tx *Tx) ProbeAgain(ctx context.Context, probe string) error {
	_, err := tx.l.exec(ctx, tx, `UPDATE durable_control SET pause_until = {now}, probe = ''
		WHERE paused = 0 AND probe = $1`, probe)
	return err
}

// PauseEndless pauses until Resume. It reports false if an endless pause lasts already.
func (tx *Tx) PauseEndless(ctx context.Context, reason string) (bool, error) {
	n, err := tx.l.exec(ctx, tx, endlessPause+` WHERE paused = 0`, Itself, Storable(reason))
	return n > 0, err
}

// PauseTimed pauses for twice as long as the last timed pause: 1 to 60 seconds, and at least atLeast milliseconds. It
// returns the end, or 0 if a pause lasts already: a call that began before the pause neither ends nor lengthens it.
func (tx *Tx) PauseTimed(ctx context.Context, reason string, atLeast int64, probe string) (until int64, err error) {
	err = tx.l.query(ctx, tx, func(rows *sql.Rows) error { return rows.Scan(&until) }, `UPDATE durable_control
		SET pause_length = {least}({greatest}(2 * pause_length, 1000), 60000), probe = '', paused_by = $1, pause_reason = $2,
			pause_until = {now} + {greatest}({least}({greatest}(2 * pause_length, 1000), 60000), $3)
		WHERE paused = 0 AND (pause_until = 0 OR probe = $4) RETURNING pause_until`, Itself, Storable(reason), atLeast, probe)
	return until, err
}

// CountRejection counts rejections of payouts in a row with one code. After limit of them it flags the rejected rows
// for review, pauses, and returns the reason.
func (tx *Tx) CountRejection(ctx context.Context, r *row.Row, code string, limit int) (string, error) {
	var run, users string
	var length int
	if err := tx.l.row(ctx, tx.Tx, []any{&run, &length, &users},
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
		WHERE state = 'rejected' AND review_reason = '' AND user_data`+tx.l.in("$2"),
		row.InARun, list(rejected)); err != nil {
		return "", err
	}
	reason := fmt.Sprintf("%d payouts in a row were rejected: %s", length, code)
	if paused, err := tx.PauseEndless(ctx, reason); !paused {
		return "", err
	}
	return reason, nil
}
