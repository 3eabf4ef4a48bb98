package durable

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// outcome is a success that waits for a round, which records it the fast way if nothing else is to be done.
type outcome struct {
	UserData string `json:"u"`
	Token    string `json:"t"`
	OrderID  string `json:"o"`
	URL      string `json:"r"`
	Slot     int    `json:"s"` // 1 if the call has a slot, which is free once this is committed
	kind     Kind
	again    bool      // a round has left it out
	recorded chan bool // false: it has to be recorded on its own
}

func (o *outcome) key() string { return string(o.kind) + o.OrderID }

// job is a row that this process has claimed.
type job struct {
	userData, destination string
	kind                  Kind
	paymentType           paymentsvc.PaymentType
	amount                paymentsvc.Amount
	claims                int64
	token                 string
	probe                 bool
	begun                 time.Time // before the claim was sent
}

// asking is what a round asks for: its claims are at most free, and one more for each slot that its outcomes free.
type asking struct {
	number         int64 // counts the rounds of this process
	outcomes       []*outcome
	free           int
	payments, most int // at most so many payments, and rows in all
	token          string
	orders         []string // order_ids recorded before, for which notifications may wait
}

// answer is what a round did.
type answer struct {
	recorded map[string]bool
	jobs     []job
	waiting  []string // order_ids that notifications wait for
	paused   bool
	elapsed  bool   // a timed pause is over: one row may be tried
	lost     bool   // a commit of this process is gone
	moved    bool   // the server may be another one
	server   string // that it was compared with
	run      bool   // a run of equal refusals lasts
}

// claimed is the last claim that this process has committed. If it is gone, the database has lost commits.
type claimed struct {
	userData, token string
	claims          int64
}

//go:embed round.sql
var roundPostgres string

// round records outcomes and claims rows, in one commit. On an error, what it did is not known.
func (s *Store) round(ctx context.Context, a asking) (answer, error) {
	ctx, cancel := s.writing(ctx)
	defer cancel()
	s.step(StepClaim)
	begun := s.now()
	var got answer
	var err error
	if s.dialect == SQLite {
		got, err = s.roundSQLite(ctx, a)
	} else {
		got, err = s.roundPostgres(ctx, a)
	}
	most := a.free
	for _, o := range a.outcomes {
		if got.recorded[o.UserData] {
			most += o.Slot
		}
	}
	if err == nil && len(got.jobs) > most {
		err = fmt.Errorf("durable: %d rows claimed, want at most %d", len(got.jobs), most)
	}
	for i := range got.jobs {
		got.jobs[i].token, got.jobs[i].begun = a.token, begun
	}
	if len(got.jobs) > 0 {
		s.step(StepClaimed)
	}
	if hook := s.c.Hooks.Round; hook != nil {
		hook(ctx, Round{len(got.recorded), a.most, len(got.jobs), s.now().Sub(begun), err})
	}
	return got, err
}

// postgres returns the statement of a round and its arguments.
func (a asking) postgres(text string, last claimed, lease time.Duration, server string) (string, []any) {
	before, rest, _ := strings.Cut(text, "{payments}")
	payments, after, _ := strings.Cut(rest, "{payouts}")
	if a.payments > 0 {
		before += strings.Replace(payments, "{most}", strconv.Itoa(a.payments), 1)
	}
	outcomes := max(8, 1<<bits.Len(uint(len(a.outcomes)))) // few different statements
	before = strings.Replace(before, "{outcomes}", strconv.Itoa(outcomes), 1)
	orders := a.orders
	for _, o := range a.outcomes {
		orders = append(orders, o.OrderID)
	}
	return before + strings.ReplaceAll(after, "{most}", strconv.Itoa(a.most)), []any{
		list(a.outcomes), a.token, last.userData, last.token, last.claims, lease.Milliseconds(), array(orders), a.free, server,
	}
}

// array encodes a list of texts for PostgreSQL.
func array(all []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	quoted := make([]string, len(all))
	for i, text := range all {
		quoted[i] = `"` + escape.Replace(text) + `"`
	}
	return `{` + strings.Join(quoted, `,`) + `}`
}

func (s *Store) roundPostgres(ctx context.Context, a asking) (answer, error) {
	got := answer{recorded: map[string]bool{}}
	s.mu.Lock()
	last, server := s.last, s.server
	got.server = server
	s.mu.Unlock()
	query, args := a.postgres(s.roundText, last, s.c.Lease, server)
	err := s.query(ctx, s.db, func(rows *sql.Rows) error {
		var tag string
		var j job
		if err := rows.Scan(&tag, &j.userData, &j.kind, &j.paymentType, scanText{&j.amount}, &j.destination, &j.claims); err != nil {
			return err
		}
		switch tag {
		case "claimed":
			got.jobs = append(got.jobs, j)
		case "recorded":
			got.recorded[j.userData] = true
		case "waiting":
			if slices.Contains(a.orders, j.userData) { // those of the outcomes go alone, and then they are applied
				got.waiting = append(got.waiting, j.userData)
			}
		default:
			got.control(j.claims)
		}
		return nil
	}, query, args...)
	if err != nil || !got.run || !slices.ContainsFunc(a.outcomes, func(o *outcome) bool {
		return o.kind == KindPayout && got.recorded[o.UserData]
	}) {
		return got, err
	}
	if _, err := s.exec(ctx, s.db, endRun); err != nil { // the round is committed, and the next success ends the run too
		s.c.Log.WarnContext(ctx, "durable: a run of equal refusals has not ended yet", "error", err.Error())
	}
	return got, nil
}

// scanText scans an amount, and "" as not set.
type scanText struct{ into *paymentsvc.Amount }

// Scan implements sql.Scanner.
func (t scanText) Scan(from any) error {
	if text, ok := from.(string); ok && text == "" {
		return nil
	}
	return t.into.Scan(from)
}

const (
	flagPaused  = 1
	flagElapsed = 2
	flagLost    = 4
	flagMoved   = 8
	flagRun     = 16 // beside one of them
)

func (got *answer) control(flags int64) {
	got.run = flags&flagRun != 0
	flags &^= flagRun
	got.paused, got.elapsed, got.lost, got.moved = flags == flagPaused, flags == flagElapsed, flags == flagLost, flags == flagMoved
}

const outcomesSQLite = `UPDATE durable_rows SET state = 'pending', order_id = o.o, redirect_url = o.r, refusal = '',
	attention = '', updated_at = {now}, version = version + 1
	FROM (SELECT value->>'u' AS u, value->>'t' AS t, value->>'o' AS o, value->>'r' AS r FROM json_each($1)) AS o
	WHERE durable_rows.user_data = o.u AND token = o.t AND state = 'starting' AND order_id IS NULL AND order_id_taken = 0
		AND NOT EXISTS (SELECT 1 FROM durable_rows AS x WHERE x.kind = durable_rows.kind AND x.order_id = o.o)
		AND NOT EXISTS (SELECT 1 FROM durable_notifications AS n WHERE n.order_id = o.o AND n.matched = 0)
	RETURNING user_data`

const claimSQLite = `UPDATE durable_rows SET state = 'starting', token = $1, claims = claims + 1, claimed_at = {now},
	due_at = {now} + $2, refusal = '', updated_at = {now}, version = version + 1
	WHERE state = 'created' AND user_data IN (
		SELECT user_data FROM durable_rows INDEXED BY durable_{kind}s_due
		WHERE kind = '{kind}' AND state = 'created' AND due_at <= {now} AND generation = $3 AND {unheard}
		ORDER BY due_at, user_data LIMIT $4)
	RETURNING user_data, kind, type, amount, destination, claims`

// roundSQLite is a round in one transaction.
func (s *Store) roundSQLite(ctx context.Context, a asking) (answer, error) {
	got := answer{recorded: map[string]bool{}}
	on, release, err := s.connection(ctx, s.db)
	if err != nil {
		return got, err
	}
	defer release()
	tx, err := on.BeginTx(ctx, nil)
	if err != nil {
		return got, err
	}
	defer func() { _ = tx.Rollback() }()
	var flags, generation, rounds, run int64
	last := s.lastClaim()
	if err := tx.QueryRowContext(ctx, s.sql.Replace(`UPDATE durable_control SET rounds = rounds + 1
		RETURNING CASE WHEN $1 <> '' AND NOT EXISTS (SELECT 1 FROM durable_rows WHERE user_data = $1
				AND (token = $2 OR claims > $3)) THEN 4
			WHEN paused = 1 OR pause_until > {now} THEN 1 WHEN pause_until > 0 THEN 2 ELSE 0 END,
			generation, rounds, run_length`), last.userData, last.token, last.claims).
		Scan(&flags, &generation, &rounds, &run); err != nil {
		return got, err
	}
	got.control(flags)
	slots, payouts, err := s.outcomesSQLite(ctx, tx, a, &got)
	if err != nil {
		return got, err
	}
	if run > 0 && payouts > 0 {
		if _, err := s.exec(ctx, tx, endRun); err != nil {
			return got, err
		}
	}
	if flags == 0 {
		if err := s.claimSQLite(ctx, tx, a, generation, min(a.most, a.free+slots), &got); err != nil {
			return got, err
		}
	}
	if err := tx.Commit(); err != nil {
		return got, err
	}
	_ = s.witness(rounds) // the round is committed
	return got, nil
}

// endRun ends the run of equal refusals.
const endRun = `UPDATE durable_control SET run_code = '', run_length = 0, run_rows = '[]' WHERE run_length > 0`

func (s *Store) outcomesSQLite(ctx context.Context, tx *sql.Tx, a asking, got *answer) (slots, payouts int, err error) {
	if len(a.outcomes) == 0 {
		return 0, 0, nil
	}
	err = s.query(ctx, tx, func(rows *sql.Rows) error {
		var userData string
		err := rows.Scan(&userData)
		got.recorded[userData] = true
		return err
	}, outcomesSQLite, list(a.outcomes))
	for _, o := range a.outcomes {
		if !got.recorded[o.UserData] {
			continue
		}
		slots += o.Slot
		if o.kind == KindPayout {
			payouts++
		}
	}
	return slots, payouts, err
}

func (s *Store) claimSQLite(ctx context.Context, tx *sql.Tx, a asking, generation int64, most int, got *answer) error {
	claim := func(k Kind, generation int64, limit int) error {
		if limit <= 0 {
			return nil
		}
		return s.query(ctx, tx, func(rows *sql.Rows) error {
			var j job
			err := rows.Scan(&j.userData, &j.kind, &j.paymentType, &j.amount, &j.destination, &j.claims)
			got.jobs = append(got.jobs, j)
			return err
		}, strings.ReplaceAll(claimSQLite, "{kind}", string(k)), a.token, s.c.Lease.Milliseconds(), generation, limit)
	}
	if err := claim(KindPayment, 0, min(most, a.payments)); err != nil {
		return err
	}
	return claim(KindPayout, generation, min(most-len(got.jobs), a.most))
}
