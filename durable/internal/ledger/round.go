package ledger

import (
	"context"
	"database/sql"
	_ "embed"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// A round records the usual successes of many calls and claims rows, in one commit. Change records a success with
// further consequences, such as a duplicate order_id.

// Completion is the success of a claimed row's call.
type Completion struct {
	UserData    string   `json:"u"`
	Token       string   `json:"t"`
	OrderID     string   `json:"o"`
	RedirectURL string   `json:"r"`
	Slot        int      `json:"-"` // 1 if the call has a slot
	Kind        row.Kind `json:"-"`
}

// Claim is a claimed row.
type Claim struct {
	Kind                        row.Kind
	UserData, Type, Destination string
	Amount                      paymentsvc.Amount
	Token                       string
	Claims, ClaimedAt           int64
	dueAt                       int64
}

// Request is the input of a round.
type Request struct {
	Completions []Completion
	// OrderIDs were recorded by earlier rounds. Their notifications may have arrived before the commit.
	OrderIDs []string
	// Token identifies the claims of the round, and Lease is their length in milliseconds.
	Token string
	Lease int64
	// The round claims at most Free rows plus one row for each slot of a recorded completion, at most MaxRows rows, and at
	// most MaxPayments payments.
	Free, MaxRows, MaxPayments int
	// AfterPayments and AfterPayouts are the places after which the round reads the queues. Place.At is a due time. The
	// zero value is the start.
	AfterPayments, AfterPayouts Place
	// Last is the last committed claim of this process, and Identity the recognized server, see Identify. Witnessed is the
	// mark of the witness on SQLite.
	Last      row.Claim
	Identity  string
	Witnessed int64
}

// Status reports whether a round may claim rows, or why not.
type Status string

// The statuses.
const (
	Open    Status = "open"    // claims are allowed
	Paused  Status = "paused"  // a pause is in effect
	Elapsed Status = "elapsed" // a timed pause is over, and Probe may claim one payout
	Lost    Status = "lost"    // the last committed claim of this process is missing
	Moved   Status = "moved"   // the server may have changed, or the database is an older copy
)

// Round is the result of a committed round.
type Round struct {
	Claims   []Claim
	Recorded map[string]bool
	// Early contains the Request.OrderIDs with an unmatched notification.
	Early  []string
	Status Status
	// AfterPayments and AfterPayouts are the places of the last claims, for the next Request.
	AfterPayments, AfterPayouts Place
	// Mark is the mark after the claims on SQLite. It is 0 on PostgreSQL, and if the round may not claim rows.
	Mark      int64
	runLength int64
}

// Round records completions and claims due rows, in one commit. After an error, the commit is unknown.
func (l *Ledger) Round(ctx context.Context, r Request) (Round, error) {
	ctx, cancel := l.writing(ctx)
	defer cancel()
	if r.AfterPayouts == (Place{}) {
		if err := l.measure(ctx, l.DB); err != nil {
			return Round{}, err
		}
	}
	got := Round{Recorded: map[string]bool{}, AfterPayments: r.AfterPayments, AfterPayouts: r.AfterPayouts}
	run := l.roundPostgres
	if l.Dialect == SQLite {
		run = l.roundSQLite
	}
	if err := run(ctx, r, &got); err != nil {
		return got, err
	}
	for _, c := range got.Claims {
		after := &got.AfterPayouts
		if c.Kind == row.Payment {
			after = &got.AfterPayments
		}
		if at := (Place{c.dueAt, c.UserData}); after.compare(at) < 0 {
			*after = at
		}
	}
	return got, nil
}

// limit returns the maximum number of claims.
func (r Request) limit(recorded map[string]bool) int {
	n := r.Free
	for _, c := range r.Completions {
		if recorded[c.UserData] {
			n += c.Slot
		}
	}
	return min(n, r.MaxRows)
}

// payouts reports whether a payout was recorded.
func (r Request) payouts(recorded map[string]bool) bool {
	for _, c := range r.Completions {
		if c.Kind == row.Payout && recorded[c.UserData] {
			return true
		}
	}
	return false
}

//go:embed round_postgres.sql
var roundPostgres string

// measure adds the sizes of the tables to the texts of some statements, as powers of 8. PostgreSQL keeps the plan of a
// text, and a plan for small tables reads all of their rows. With a new text, PostgreSQL plans again.
func (l *Ledger) measure(ctx context.Context, on rowser) error {
	if l.Dialect == SQLite {
		return nil
	}
	var sizes [5]uint64
	err := l.one(ctx, on, []any{&sizes[0], &sizes[1], &sizes[2], &sizes[3], &sizes[4]},
		`SELECT pg_relation_size('durable_rows'), pg_relation_size('durable_queue'), pg_relation_size('durable_claims'),
		pg_relation_size('durable_notifications'), pg_relation_size('durable_pruned')`)
	if err != nil {
		return err
	}
	text := "\n-- sizes:"
	for _, size := range sizes {
		text += " " + strconv.Itoa(bits.Len64(size)/3)
	}
	round := l.statement + text
	l.sizes.Store(&text)
	l.round.Store(&round)
	return nil
}

// sized returns a statement with table sizes that are at most 100 ms old.
func (l *Ledger) sized(ctx context.Context, on rowser, statement string) (string, error) {
	last, now := l.measured.Load(), time.Now()
	if last == nil || now.Sub(*last) > 100*time.Millisecond {
		if err := l.measure(ctx, on); err != nil {
			return "", err
		}
		l.measured.Store(&now)
	}
	return statement + *l.sizes.Load(), nil
}

// Identify sets the SQL expression that Probe, and a round on PostgreSQL, compare with the recognized server.
// expression reads the control row. Set Slots before the call.
func (l *Ledger) Identify(expression string) {
	fill := strings.NewReplacer("{identity}", expression, "{slots}", strconv.Itoa(max(l.Slots, 1)))
	l.identity = expression
	l.statement = l.text.Replace(fill.Replace(roundPostgres))
	l.round.Store(&l.statement)
}

func (l *Ledger) roundPostgres(ctx context.Context, r Request, got *Round) error {
	n := len(r.Completions)
	users, tokens, orders := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	urls, slots := make([]string, 0, n), make([]string, 0, n)
	early := r.OrderIDs
	for _, c := range r.Completions {
		users, tokens, orders = append(users, c.UserData), append(tokens, c.Token), append(orders, c.OrderID)
		urls, slots = append(urls, c.RedirectURL), append(slots, strconv.Itoa(c.Slot))
		early = append(early, c.OrderID)
	}
	before := map[string]bool{}
	for _, id := range r.OrderIDs {
		before[id] = true
	}
	last := identity(r.Last.UserData)
	err := each(ctx, l.DB, func(rows *sql.Rows) error {
		var part string
		var c Claim
		if err := rows.Scan(
			&part, &c.UserData, &c.Kind, &c.Type, &c.Amount, &c.Destination, &c.Claims, &c.ClaimedAt, &c.dueAt,
		); err != nil {
			return err
		}
		switch part {
		case "claimed":
			c.Token = r.Token
			got.Claims = append(got.Claims, c)
		case "recorded":
			got.Recorded[c.UserData] = true
		case "early":
			if before[c.UserData] { // Change applies the notifications of completions
				got.Early = append(got.Early, c.UserData)
			}
		default:
			got.Status, got.runLength = Status(part), c.Claims
		}
		return nil
	}, *l.round.Load(), r.Identity, r.Last.UserData, r.Last.Token, r.Last.Claims, r.Last.ClaimedAt,
		array(users), array(tokens), array(orders), array(urls), array(slots), array(early), r.Token, r.Lease,
		r.Free, r.MaxRows, r.MaxPayments, r.AfterPayments.At, r.AfterPayments.Key,
		r.AfterPayouts.At, r.AfterPayouts.Key, last.High, last.Low)
	if err != nil || got.runLength == 0 || !r.payouts(got.Recorded) {
		return err
	}
	_, _ = l.exec(ctx, l.DB, endRun) // after an error, the next success ends the run
	return nil
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// array encodes texts as an array of PostgreSQL.
func array(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = `"` + arrayEscapes.Replace(text) + `"`
	}
	return `{` + strings.Join(quoted, `,`) + `}`
}

// endRun ends the run of equal rejections.
const endRun = `UPDATE durable_control SET run_code = '', run_length = 0, run_rows = '[]' WHERE run_length > 0`
