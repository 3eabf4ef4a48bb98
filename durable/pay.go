package durable

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/paymentsvc/paymentsvc"
)

// Pay stores a payment and starts it. It returns when the outcome is recorded, or when ctx ends: the row is then still
// StateStarting, and the call goes on, since a buyer who leaves must not cut it off. What became of the payment is the
// row's State and not an error. Errors wrap [ErrInvalid], [ErrConflict] or [ErrClosed], or are the database's.
//
// A pause does not stop Pay, only the retries of payments. Pay has no slot: whoever calls it bounds the calls.
func (s *Store) Pay(ctx context.Context, p NewPayment) (Row, error) {
	if err := p.check(); err != nil {
		return Row{}, err
	}
	if !s.enter() {
		return Row{}, ErrClosed
	}
	j := job{
		userData: paymentsvc.NewUserData(), kind: KindPayment, paymentType: p.Type, amount: p.Amount, claims: 1,
		token: newToken(), begun: s.now(),
	}
	if p.Key != "" {
		j.userData = derived(s.c.Project, KindPayment, p.Key)
	}
	s.step(StepClaim)
	n, err := s.write(ctx, `INSERT INTO durable_rows
		(kind, user_data, reference, type, amount, state, token, claims, claimed_at, due_at, created_at, updated_at)
		VALUES ('payment', $1, NULLIF($2, ''), $3, $4, 'starting', $5, 1, {now}, {now} + $6, {now}, {now})
		ON CONFLICT DO NOTHING`, j.userData, p.Key, string(p.Type), p.Amount, j.token, s.c.Lease.Milliseconds())
	if err != nil { // it may have been committed all the same, and nothing is called
		go func() {
			defer s.calls.Done()
			s.doubt(j.token)
			_ = s.returnDoubts(context.WithoutCancel(ctx))
		}()
		return Row{}, fmt.Errorf("durable: pay: %w", err)
	}
	if n == 0 {
		s.calls.Done()
		return s.again(ctx, j.userData, p)
	}
	s.step(StepClaimed)
	recorded := make(chan struct{})
	go func() {
		defer s.calls.Done()
		defer close(recorded)
		s.pay(context.WithoutCancel(ctx), j, p.Key != "")
	}()
	select {
	case <-recorded:
	case <-ctx.Done():
	}
	// The row exists, so the buyer is told of it even if ctx is done.
	reading, cancel := s.writing(ctx)
	defer cancel()
	r, err := s.row(reading, j.userData)
	if err != nil {
		return Row{Kind: KindPayment, UserData: j.userData, Reference: p.Key, Type: p.Type, Amount: p.Amount, State: StateStarting},
			fmt.Errorf("durable: pay: %w", err)
	}
	return r, nil
}

// pay calls the service, unless a payment with a key turns out to be there already: a restored backup has forgotten it.
func (s *Store) pay(ctx context.Context, j job, keyed bool) {
	if keyed {
		known, err := s.heard(ctx, j.userData)
		if err != nil {
			s.record(ctx, j, verdict{is: factUnbegun, err: err}) // no claim takes it before the notification is applied
			return
		}
		if known {
			return
		}
	}
	v := s.call(ctx, j)
	s.step(StepCalled)
	if !s.recordFast(j, v, 0) {
		s.record(ctx, j, v)
	}
}

// heard applies the notifications that came before the row userData, and reports whether there were any.
func (s *Store) heard(ctx context.Context, userData string) (bool, error) {
	notices, err := s.waiting(ctx, "user_data", userData)
	for _, n := range notices {
		err = errors.Join(err, s.applyNotice(ctx, n, false))
	}
	if err != nil || len(notices) == 0 {
		return false, err
	}
	r, err := s.row(ctx, userData)
	return r.State != StateStarting, err
}

// enter counts a call that Run waits for; false once Run has been told to stop.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.calls.Add(1)
	}
	return !s.closed
}

// again returns the payment with p's Key.
func (s *Store) again(ctx context.Context, userData string, p NewPayment) (Row, error) {
	r, err := s.row(ctx, userData)
	if err != nil {
		return Row{}, fmt.Errorf("durable: pay: %w", err)
	}
	if r.Kind != KindPayment || r.Type != p.Type || !r.Amount.Equal(p.Amount) {
		return Row{}, fmt.Errorf("%w: key %q", ErrConflict, p.Key)
	}
	return r, nil
}

// row reads a row, from the database that is written.
func (s *Store) row(ctx context.Context, userData string) (Row, error) {
	r, err := scan(s.one(ctx, `SELECT `+columns+` FROM durable_rows WHERE user_data = $1`, userData))
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, ErrNotFound
	}
	return r.Row, err
}

const maxReference = 1000

func (p NewPayment) check() error {
	switch {
	case !p.Type.Known():
		return fmt.Errorf("%w: NewPayment.Type %q", ErrInvalid, p.Type)
	case p.Amount.Sign() <= 0:
		return fmt.Errorf("%w: NewPayment.Amount must be positive", ErrInvalid)
	case !plain(p.Key) || ambiguous(p.Key):
		return fmt.Errorf("%w: NewPayment.Key must be UTF-8 in NFC without invisible characters, and %d bytes or less", ErrInvalid, maxReference)
	}
	return nil
}

func (p NewPayout) check() error {
	switch {
	case p.Reference == "" || !plain(p.Reference) || ambiguous(p.Reference):
		return fmt.Errorf("%w: NewPayout.Reference must be UTF-8 in NFC without invisible characters, and 1 to %d bytes", ErrInvalid, maxReference)
	case p.Amount.Sign() <= 0:
		return fmt.Errorf("%w: NewPayout.Amount must be positive", ErrInvalid)
	case p.Destination == "" || !plain(p.Destination) || ambiguous(p.Destination):
		return fmt.Errorf("%w: NewPayout.Destination must be UTF-8 in NFC without invisible characters, and 1 to %d bytes", ErrInvalid, maxReference)
	case !plain(p.Batch):
		return fmt.Errorf("%w: NewPayout.Batch must be UTF-8 without NUL, and %d bytes or less", ErrInvalid, maxReference)
	}
	return nil
}

// plain reports whether both databases store a text as it is.
func plain(text string) bool {
	return len(text) <= maxReference && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// ambiguous reports whether a text has another spelling that looks the same, since both would be paid: it is not in
// Unicode's form NFC, such as Hangul in parts, or contains what people would not see, such as a mark or a filler.
func ambiguous(text string) bool {
	const brailleBlank = '\u2800'
	return !norm.NFC.IsNormalString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r == brailleBlank || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Me, unicode.Zl, unicode.Zp,
			unicode.Other_Default_Ignorable_Code_Point)
	})
}

// newRow is a row to be queued.
type newRow struct {
	Kind        Kind   `json:"-"`
	Index       int    `json:"-"` // in the caller's list
	Reference   string `json:"r"`
	UserData    string `json:"u"`
	Type        string `json:"t"`
	Amount      string `json:"a"`
	Destination string `json:"d"`
	Batch       string `json:"b"`
	Line        int64  `json:"l"`
}

// QueuePayments stores payments in your transaction; [Store.Run] starts them. Results are in the order of p. Errors are
// those of QueuePayouts.
func (s *Store) QueuePayments(ctx context.Context, tx *sql.Tx, p ...NewPayment) ([]Queued, error) {
	rows := make([]newRow, 0, len(p))
	for i, one := range p {
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("payment %d: %w", i, err)
		}
		r := newRow{Kind: KindPayment, Index: i, Reference: one.Key, Type: string(one.Type), Amount: one.Amount.String()}
		r.UserData = paymentsvc.NewUserData()
		if one.Key != "" {
			r.UserData = derived(s.c.Project, KindPayment, one.Key)
		}
		rows = append(rows, r)
	}
	return s.queueRows(ctx, tx, rows)
}

// QueuePayouts stores payouts in your transaction; [Store.Run] sends them after its commit. Results are in the order of
// p. A reference that is known is no error: see [Queued]. The error wraps [ErrInvalid] if one of p cannot be used, and
// nothing is stored then; otherwise it is the database's.
//
// Until tx ends, it blocks others that queue the same references, and on SQLite every other write: commit every thousand
// payouts or so. On SQLite, begin tx with a write, or let your driver begin transactions immediately.
func (s *Store) QueuePayouts(ctx context.Context, tx *sql.Tx, p ...NewPayout) ([]Queued, error) {
	rows := make([]newRow, 0, len(p))
	for i, one := range p {
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("payout %d: %w", i, err)
		}
		rows = append(rows, newRow{
			Kind: KindPayout, Index: i, Reference: one.Reference, UserData: derived(s.c.Project, KindPayout, one.Reference),
			Amount: one.Amount.String(), Destination: one.Destination, Batch: one.Batch, Line: one.Line,
		})
	}
	return s.queueRows(ctx, tx, rows)
}

// Compared is a payout as it is stored, see [Store.Compare].
type Compared struct {
	Row Row
	// Err is ErrNotFound if no payout has the reference, and ErrConflict if the one that has it has other values.
	Err error
}

// Compare looks up payouts by their references, in the order of p, and compares amounts and destinations. It changes
// nothing. Its error is the database's.
func (s *Store) Compare(ctx context.Context, p ...NewPayout) ([]Compared, error) {
	rows := make([]newRow, 0, len(p))
	for _, one := range p {
		rows = append(rows, newRow{
			Kind: KindPayout, UserData: derived(s.c.Project, KindPayout, one.Reference), Amount: one.Amount.String(),
			Destination: one.Destination,
		})
	}
	known, err := s.known(ctx, s.read, rows, nil)
	if err != nil {
		return nil, fmt.Errorf("durable: compare: %w", err)
	}
	compared := make([]Compared, len(p))
	for i, r := range rows {
		switch was := known[r.UserData]; {
		case was == nil:
			compared[i].Err = ErrNotFound
		case !r.equal(was):
			compared[i] = Compared{was.Row, ErrConflict}
		default:
			compared[i].Row = was.Row
		}
	}
	return compared, nil
}

// queueRows inserts in the order of references, or two transactions with the same ones could each wait for the other.
func (s *Store) queueRows(ctx context.Context, tx *sql.Tx, rows []newRow) ([]Queued, error) {
	queued := make([]Queued, len(rows))
	slices.SortStableFunc(rows, func(a, b newRow) int { return strings.Compare(a.Reference, b.Reference) })
	for part := range slices.Chunk(rows, 500) {
		if err := s.insert(ctx, tx, part, queued); err != nil {
			return nil, fmt.Errorf("durable: queue: %w", err)
		}
	}
	return queued, nil
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, rows []newRow, queued []Queued) error {
	from := `SELECT value->>'r' AS r, value->>'u' AS u, value->>'t' AS t, value->>'a' AS a, value->>'d' AS d,
		value->>'b' AS b, value->>'l' AS l FROM json_each($1)`
	if s.dialect == PostgreSQL {
		from = `SELECT * FROM json_to_recordset(CAST($1 AS TEXT)::JSON)
			AS v(r TEXT, u TEXT, t TEXT, a TEXT, d TEXT, b TEXT, l BIGINT)`
	}
	generation := `0`
	if rows[0].Kind == KindPayout { // what a restored backup forgot comes back as new
		generation = `(SELECT generation - hold FROM durable_control)`
	}
	values, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	added := map[string]bool{}
	err = s.query(ctx, tx, func(result *sql.Rows) error {
		var userData string
		err := result.Scan(&userData)
		added[userData] = true
		return err
	}, `INSERT INTO durable_rows (kind, user_data, reference, type, amount, destination, batch, line, generation, state,
			due_at, created_at, updated_at)
		SELECT $2, u, NULLIF(r, ''), t, a, d, b, l, `+generation+`, 'created', now, now AS created_at, now AS updated_at
		FROM (`+from+`) AS v, (SELECT {now} AS now) AS t WHERE TRUE ON CONFLICT DO NOTHING RETURNING user_data`,
		string(values), string(rows[0].Kind))
	if err != nil {
		return err
	}
	known, err := s.known(ctx, tx, rows, added)
	if err != nil {
		return err
	}
	for _, r := range rows { // of one reference, in the caller's order: the first was added
		q := Queued{UserData: r.UserData, Reference: r.Reference, New: added[r.UserData]}
		delete(added, r.UserData)
		if !q.New && !r.equal(known[r.UserData]) {
			q.Err = fmt.Errorf("%w: %q", ErrConflict, r.Reference)
		}
		queued[r.Index] = q
	}
	return nil
}

// equal reports whether r is a row that exists.
func (r newRow) equal(was *row) bool {
	return was != nil && was.Kind == r.Kind && string(was.Type) == r.Type && was.destination == r.Destination &&
		was.Amount.Equal(paymentsvc.MustParseAmount(r.Amount))
}

// known reads the rows of which some were not added: those that exist, and those that appear twice.
func (s *Store) known(ctx context.Context, tx rowser, rows []newRow, added map[string]bool) (map[string]*row, error) {
	known := map[string]*row{}
	if len(added) == len(rows) {
		return known, nil
	}
	names := make([]string, 0, len(rows))
	for _, r := range rows {
		names = append(names, r.UserData)
	}
	err := s.query(ctx, tx, func(result *sql.Rows) error {
		r, err := scan(result)
		known[r.UserData] = r
		return err
	}, `SELECT `+columns+` FROM durable_rows WHERE user_data IN `+s.each("$1"), list(names))
	return known, err
}
