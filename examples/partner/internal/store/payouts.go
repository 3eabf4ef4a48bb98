package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Payout is a row of payouts. fmt and slog hide its Destination, which may be a card number.
type Payout struct {
	UserData    string
	Reference   string // the partner's own name for it
	FileID      string
	Line        int64
	Amount      paymentsvc.Amount
	Destination string `json:"-"`
	State       State
	OrderID     string // "" until it is known
	Attempts    int64
	Doubted     bool // an attempt had an unknown outcome
	Asked       int  // how often the service was asked whether it has the payout
	DueAt       time.Time
	Refusal     string // the service's error code
	Attention   string // why a person must look, "" where none must
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Format shows what names the payout, under every verb.
func (p Payout) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "payout "+p.UserData+" of "+p.Amount.String()+", "+string(p.State))
}

// LogValue shows what Format shows.
func (p Payout) LogValue() slog.Value {
	return slog.GroupValue(slog.String("user_data", p.UserData), slog.String("amount", p.Amount.String()),
		slog.String("state", string(p.State)))
}

// Payout gives one payout, or ErrNotFound.
func (s *Store) Payout(ctx context.Context, userData string) (Payout, error) {
	p := Payout{UserData: userData}
	var orderID sql.NullString
	var due, created, updated int64
	err := s.db.QueryRowContext(ctx, `SELECT reference, file_id, line, amount, destination, state, order_id, attempts,
		doubted = 1, asked, due_at, refusal, attention, created_at, updated_at FROM payouts WHERE user_data = $1`, userData).
		Scan(&p.Reference, &p.FileID, &p.Line, &p.Amount, &p.Destination, &p.State, &orderID, &p.Attempts,
			&p.Doubted, &p.Asked, &due, &p.Refusal, &p.Attention, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return Payout{}, ErrNotFound
	}
	p.OrderID = orderID.String
	p.DueAt, p.CreatedAt, p.UpdatedAt = time.UnixMilli(due), time.UnixMilli(created), time.UnixMilli(updated)
	return p, err
}

// DuePayouts gives the user_data of payouts to be started that have been due since before, the longest due first.
func (s *Store) DuePayouts(ctx context.Context, before time.Time, limit int) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT user_data FROM payouts WHERE state = 'created' AND due_at <= $1
		ORDER BY due_at, user_data LIMIT $2`, millis(before), limit)
	return texts(rows, err)
}

// UnknownPayouts returns the user_data of unknown payouts whose order_id is known and which are due to be asked for, the
// longest due first, at most limit.
func (s *Store) UnknownPayouts(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT user_data FROM payouts
		WHERE state = 'unknown' AND order_id IS NOT NULL AND due_at <= $1 ORDER BY due_at, user_data LIMIT $2`,
		millis(s.now()), limit)
	return texts(rows, err)
}

// Stuck records what Postponed does, of a row that is refused for so long that a person must look, who reads attention.
// Errors are those of NotSent.
func (s *Store) Stuck(ctx context.Context, c Claim, attention string, dueAt time.Time) error {
	return s.end(ctx, s.db, c, `state = 'created', doubted = 1, attention = $4, due_at = $5`, attention, millis(dueAt))
}

// FileCounts counts the payouts of a file, those among them that another file brought first.
func (s *Store) FileCounts(ctx context.Context, fileID string) (Counts, error) {
	c := Counts{States: map[State]int64{}}
	err := s.count(ctx, c.add, countFile, fileID)
	return c, err
}

// countFile is answered by an index, but for payouts that another file brought.
const countFile = `SELECT state, attention <> '', COUNT(*) FROM payouts WHERE file_id = $1 GROUP BY state, attention
	UNION ALL
	SELECT state, attention <> '', COUNT(*) FROM payout_rows_known AS known JOIN payouts USING (user_data)
	WHERE known.file_id = $1 GROUP BY state, attention`

// PayoutFile is a file of payouts.
type PayoutFile struct {
	ID        string // SHA-256 of its content, in hexadecimal
	Name      string
	ReadLines int64 // lines dealt with so far
	ReadRows  int64 // rows among them: Imported + Known + Refused
	Imported  int64
	Known     int64 // rows whose payout another file brought first
	Refused   int64
	Complete  bool
	CreatedAt time.Time
}

// AddPayoutFile gives the file called id, which it stores under name if it is new.
func (s *Store) AddPayoutFile(ctx context.Context, id, name string) (PayoutFile, error) {
	if _, err := s.db.ExecContext(ctx, `INSERT INTO payout_files (id, name, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO NOTHING`, id, name, millis(s.now())); err != nil {
		return PayoutFile{}, err
	}
	return s.PayoutFile(ctx, id)
}

// PayoutFile gives one file, or ErrNotFound.
func (s *Store) PayoutFile(ctx context.Context, id string) (PayoutFile, error) {
	f := PayoutFile{ID: id}
	var created int64
	err := s.db.QueryRowContext(ctx, `SELECT name, read_lines, read_rows, complete = 1, created_at,
		(SELECT COUNT(*) FROM payouts WHERE file_id = payout_files.id),
		(SELECT COUNT(*) FROM payout_rows_known WHERE file_id = payout_files.id),
		(SELECT COUNT(*) FROM payout_rows_refused WHERE file_id = payout_files.id)
		FROM payout_files WHERE id = $1`, id).
		Scan(&f.Name, &f.ReadLines, &f.ReadRows, &f.Complete, &created, &f.Imported, &f.Known, &f.Refused)
	if errors.Is(err, sql.ErrNoRows) {
		return PayoutFile{}, ErrNotFound
	}
	f.CreatedAt = time.UnixMilli(created)
	return f, err
}

// PayoutRow is one row of a file.
type PayoutRow struct {
	Line        int64
	Reference   string
	Amount      paymentsvc.Amount
	Destination string
}

// Format shows the line, and nothing of what stands there.
func (r PayoutRow) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "line "+strconv.FormatInt(r.Line, 10))
}

// RefusedRow is a row of a file that is no payout.
type RefusedRow struct {
	Line   int64
	Reason string // holds nothing of the row
}

// RefusedRows gives the first rows of a file that are no payouts.
func (s *Store) RefusedRows(ctx context.Context, fileID string, limit int) ([]RefusedRow, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT line, reason FROM payout_rows_refused WHERE file_id = $1
		ORDER BY line LIMIT $2`, fileID, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []RefusedRow
	for rows.Next() {
		var r RefusedRow
		if err := rows.Scan(&r.Line, &r.Reason); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// PayoutBatch is some consecutive rows of a file.
type PayoutBatch struct {
	FileID string
	// From is PayoutFile.ReadLines before the batch, and To behind it.
	From, To int64
	Rows     []PayoutRow
	Refused  []RefusedRow
	Complete bool // no row follows
}

// ImportPayouts stores a batch in one transaction, with what enqueue does for the payouts that are new; nil does
// nothing. A row whose reference is known is the same payout, and refused if it says another amount or destination.
// ErrNotFound says that the file no longer stands at b.From: another process imports it too, and has gone on.
func (s *Store) ImportPayouts(ctx context.Context, b PayoutBatch,
	enqueue func(ctx context.Context, tx *sql.Tx, userData ...string) error,
) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		complete := 0
		if b.Complete {
			complete = 1
		}
		// This comes first, for it keeps other processes from importing the same rows.
		if err := changed(tx.ExecContext(ctx, `UPDATE payout_files SET read_lines = $1, read_rows = read_rows + $2, complete = $3
			WHERE id = $4 AND read_lines = $5 AND complete = 0`,
			b.To, len(b.Rows)+len(b.Refused), complete, b.FileID, b.From)); err != nil {
			return err
		}
		added, known, err := s.insertPayouts(ctx, tx, b)
		if err != nil {
			return err
		}
		refused, err := insertKnown(ctx, tx, b.FileID, known)
		if err != nil {
			return err
		}
		if err := insertRefused(ctx, tx, b.FileID, append(refused, b.Refused...)); err != nil {
			return err
		}
		if enqueue == nil || len(added) == 0 {
			return nil
		}
		return enqueue(ctx, tx, added...)
	})
}

// insertPayouts gives the user_data of the payouts that are new, and the rows whose references are not.
func (s *Store) insertPayouts(ctx context.Context, tx *sql.Tx, b PayoutBatch) (added []string, known []PayoutRow, err error) {
	if len(b.Rows) == 0 {
		return nil, nil, nil
	}
	// In one order, or two transactions that import the same references could each wait for the other. The first of two
	// rows with one reference comes first.
	rows := slices.Clone(b.Rows)
	slices.SortStableFunc(rows, func(a, b PayoutRow) int { return strings.Compare(a.Reference, b.Reference) })

	now := millis(s.now())
	args := make([]any, 0, 10*len(rows))
	for _, r := range rows {
		args = append(args, paymentsvc.NewUserData(), r.Reference, b.FileID, r.Line, r.Amount, r.Destination,
			StateCreated, now, now, now)
	}
	const (
		into   = `INSERT INTO payouts (user_data, reference, file_id, line, amount, destination, state, due_at, created_at, updated_at) VALUES `
		unless = ` ON CONFLICT (reference) DO NOTHING RETURNING user_data, line`
	)
	result, err := tx.QueryContext(ctx, into+places(len(rows), 10)+unless, args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = result.Close() }()
	lines := map[int64]bool{}
	for result.Next() {
		var userData string
		var line int64
		if err := result.Scan(&userData, &line); err != nil {
			return nil, nil, err
		}
		added = append(added, userData)
		lines[line] = true
	}
	for _, r := range rows {
		if !lines[r.Line] {
			known = append(known, r)
		}
	}
	return added, known, result.Err()
}

// insertKnown stores which payouts the rows with known references are, and gives those of the rows that are none: the
// payout is another one, or stands in the file already.
func insertKnown(ctx context.Context, tx *sql.Tx, fileID string, known []PayoutRow) (refused []RefusedRow, err error) {
	if len(known) == 0 {
		return nil, nil
	}
	stored, err := payoutsOf(ctx, tx, fileID, known)
	if err != nil {
		return nil, err
	}
	var args []any
	for _, r := range known { // of one reference, by their lines
		of := stored[r.Reference]
		switch {
		case of.line != 0:
			refused = append(refused, RefusedRow{r.Line, fmt.Sprintf("its reference stands in line %d already", of.line)})
		case !of.amount.Equal(r.Amount) || of.destination != r.Destination:
			refused = append(refused, RefusedRow{r.Line, "its reference is that of another payout, of another amount or destination"})
		default:
			of.line = r.Line
			stored[r.Reference] = of
			args = append(args, fileID, r.Line, of.userData)
		}
	}
	if len(args) == 0 {
		return refused, nil
	}
	const into = `INSERT INTO payout_rows_known (file_id, line, user_data) VALUES `
	_, err = tx.ExecContext(ctx, into+places(len(args)/3, 3), args...)
	return refused, err
}

// storedPayout is a payout as a row of a file is compared with it.
type storedPayout struct {
	userData, destination string
	amount                paymentsvc.Amount
	line                  int64 // where it stands in the file that is being imported, 0 if it does not
}

// payoutsOf gives the payouts with the references of rows.
func payoutsOf(ctx context.Context, tx *sql.Tx, fileID string, rows []PayoutRow) (map[string]storedPayout, error) {
	args := make([]any, 0, len(rows)+1)
	for _, r := range rows {
		args = append(args, r.Reference)
	}
	args = append(args, fileID)
	file := "$" + strconv.Itoa(len(args))
	//nolint:gosec // parameters are all that is put together
	result, err := tx.QueryContext(ctx, `SELECT reference, payouts.user_data, amount, destination,
			CASE WHEN payouts.file_id = `+file+` THEN payouts.line ELSE COALESCE(known.line, 0) END
		FROM payouts LEFT JOIN payout_rows_known AS known
			ON known.user_data = payouts.user_data AND known.file_id = `+file+`
		WHERE reference IN `+places(1, len(rows)), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	stored := map[string]storedPayout{}
	for result.Next() {
		var reference string
		var p storedPayout
		if err := result.Scan(&reference, &p.userData, &p.amount, &p.destination, &p.line); err != nil {
			return nil, err
		}
		stored[reference] = p
	}
	return stored, result.Err()
}

func insertRefused(ctx context.Context, tx *sql.Tx, fileID string, refused []RefusedRow) error {
	if len(refused) == 0 {
		return nil
	}
	args := make([]any, 0, 3*len(refused))
	for _, r := range refused {
		args = append(args, fileID, r.Line, r.Reason)
	}
	const into = `INSERT INTO payout_rows_refused (file_id, line, reason) VALUES `
	_, err := tx.ExecContext(ctx, into+places(len(refused), 3), args...)
	return err
}

// places gives the parameters of so many rows: ($1, $2), ($3, $4).
func places(rows, columns int) string {
	var b strings.Builder
	b.WriteString("(")
	n := 0
	for row := range rows {
		if row > 0 {
			b.WriteString("), (")
		}
		for column := range columns {
			if column > 0 {
				b.WriteString(", ")
			}
			n++
			b.WriteString("$" + strconv.Itoa(n))
		}
	}
	return b.String() + ")"
}

// texts reads a column of text.
func texts(rows *sql.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
