package recognize

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

// machine is a database with a witness, and processes that claim payouts and send them. At each call of the witness,
// and between the steps of a claim, other processes may work, the database may be restored, or the process may die.
type machine struct {
	*testing.T
	script   []int // all choices; 0 after the end of the script
	failure  string
	db       *sql.DB
	w        *memory
	guards   [2]*Guard
	busy     [2]bool
	sent     map[int64]int
	copies   []contents // of every moment
	depth    int
	restored bool // commits may be lost, so a hold is right
	dead     bool // the process at work has died
	starts   int  // of the server
	sends    *int
}

// contents are the contents of the database, without the start time of its server.
type contents struct {
	mark, hold, generation int64
	claims                 []int64
}

var errDead = errors.New("dead")

func (m *machine) exec(query string, args ...any) {
	_, err := m.db.ExecContext(context.Background(), query, args...)
	require.NoError(m, err)
}

func (m *machine) number(query string, args ...any) (n int64) {
	require.NoError(m, m.db.QueryRowContext(context.Background(), query, args...).Scan(&n))
	return n
}

// open starts process i. After an error of Recognize, or if the process dies, it stays stopped.
func (m *machine) open(i int) {
	g := &Guard{identity: `''`, timeline: `''`, here: `(started || '/' || generation)`, next: next, Options: Options{
		DB: m.db, Witness: m.w, Log: slog.New(slog.DiscardHandler), Hold: m.hold,
	}}
	m.guards[i] = nil
	if err := g.Recognize(context.Background()); err == nil && !m.dead {
		m.guards[i] = g
	}
}

func (m *machine) hold(ctx context.Context, reason string, keep func(context.Context, *sql.Tx) error) error {
	if m.dead {
		return errDead
	}
	if !m.restored {
		m.failure = "held without a restore: " + reason
	}
	tx, err := m.db.BeginTx(ctx, nil)
	require.NoError(m, err)
	_, err = tx.ExecContext(ctx, `UPDATE durable_control SET hold = 1, generation = generation + 1`)
	require.NoError(m, err)
	require.NoError(m, keep(ctx, tx))
	return tx.Commit()
}

// next uses the test's clock.
const next = `MAX(mark + 1, $1 + 1, (SELECT ticks FROM clock))`

// choose returns the next choice, less than n, or 0 after the end of the script.
func (m *machine) choose(n int) int {
	m.exec(`UPDATE clock SET ticks = ticks + 1000`)
	if len(m.script) == 0 {
		return 0
	}
	choice := m.script[0]
	m.script = m.script[1:]
	return choice % n
}

// interrupt may kill the process, restore the database, or let another process work.
func (m *machine) interrupt(string) error {
	if m.dead {
		return errDead
	}
	if m.depth < 2 {
		m.depth++
		switch choice := m.choose(30); {
		case choice == 1:
			m.dead = true
		case choice == 2:
			m.restore(true)
		case choice > 22:
			m.work()
		}
		m.depth--
	}
	if m.dead {
		return errDead
	}
	return nil
}

// save stores a copy of the current contents, for restore.
func (m *machine) save() {
	c := contents{mark: m.number(`SELECT mark FROM durable_mark`), hold: m.number(`SELECT hold FROM durable_control`),
		generation: m.number(`SELECT generation FROM durable_control`)}
	rows, err := m.db.QueryContext(context.Background(), `SELECT payout FROM claims`)
	require.NoError(m, err)
	defer rows.Close()
	for rows.Next() {
		var p int64
		require.NoError(m, rows.Scan(&p))
		c.claims = append(c.claims, p)
	}
	require.NoError(m, rows.Err())
	m.copies = append(m.copies, c)
}

// restore restores the database to any earlier moment. A physical copy needs another start of the server. A restore of
// the rows alone needs no other start, but takes too long to happen during a claim.
func (m *machine) restore(physical bool) {
	m.save()
	c := m.copies[m.choose(len(m.copies))]
	if physical {
		m.starts++
	}
	m.exec(`UPDATE durable_mark SET mark = $1`, c.mark)
	m.exec(`UPDATE durable_control SET hold = $1, generation = $2, started = $3`,
		c.hold, c.generation, fmt.Sprint(m.starts))
	m.exec(`DELETE FROM claims`)
	for _, p := range c.claims {
		m.exec(`INSERT INTO claims VALUES ($1)`, p)
	}
	m.restored = true
}

// work claims a payout in one process and sends it.
func (m *machine) work() {
	i := m.choose(len(m.guards))
	if m.busy[i] || m.dead {
		return
	}
	m.busy[i] = true
	if m.guards[i] == nil {
		m.open(i)
	} else {
		m.claim(i)
	}
	m.busy[i] = false
	if m.dead { // only the process at work has died
		m.guards[i], m.dead = nil, false
	}
}

func (m *machine) claim(i int) {
	g := m.guards[i]
	m.save()
	// The commit requires that the server is recognized, no hold is in effect, and the payout is not claimed.
	var p int64
	server := g.Server()
	err := m.db.QueryRowContext(context.Background(), `INSERT INTO claims SELECT MIN(n) FROM payouts
		WHERE n NOT IN (SELECT payout FROM claims) AND EXISTS (SELECT 1 FROM durable_control
			WHERE hold = 0 AND started || '/' || generation = $1)
		HAVING MIN(n) IS NOT NULL RETURNING payout`, server).Scan(&p)
	if errors.Is(err, sql.ErrNoRows) {
		_ = g.Recognize(context.Background())
		return
	}
	require.NoError(m, err)
	m.save()
	if m.interrupt("claimed") != nil || g.BeforeCalls(context.Background(), server, 0) != nil || m.dead {
		return // the claim stays, because no process releases it
	}
	m.sent[p]++
	*m.sends++
	if m.sent[p] > 1 {
		m.failure = fmt.Sprintf("payout %d was sent twice", p)
	}
}

// release records the sent payouts and ends the hold, as an operator does.
func (m *machine) release() {
	if m.number(`SELECT hold FROM durable_control`) == 0 {
		return
	}
	for p := range m.sent {
		m.exec(`INSERT INTO claims SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM claims WHERE payout = $1)`, p)
	}
	m.exec(`UPDATE durable_control SET hold = 0`)
}

// A restore to any earlier moment does not send a payout twice, at whatever step the processes are. Without a restore,
// payouts are not held.
func TestNoRestoreSendsAPayoutTwice(t *testing.T) {
	db := prepared(t, dbtest.Open(t, ":memory:"))
	db.Exec(t, `ALTER TABLE durable_control ADD COLUMN started TEXT NOT NULL DEFAULT ''`,
		`CREATE TABLE clock (ticks BIGINT)`, `INSERT INTO clock VALUES (0)`,
		`CREATE TABLE claims (payout INTEGER PRIMARY KEY)`, `CREATE TABLE payouts (n INTEGER PRIMARY KEY)`,
		`WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40) INSERT INTO payouts SELECT n FROM c`)
	sends, holds := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{T: t, db: db.DB, sent: map[int64]int{}, sends: &sends}
		m.script = rapid.SliceOfN(rapid.IntRange(0, 999), 50, 500).Draw(r, "script")
		m.w = &memory{before: m.interrupt, after: m.interrupt}
		m.exec(`DELETE FROM claims`)
		m.exec(`UPDATE durable_control SET hold = 0, generation = 1, started = ''`)
		m.exec(`UPDATE durable_mark SET mark = 0`)
		for m.save(); len(m.script) > 0 && m.failure == ""; {
			switch choice := m.choose(20); choice {
			case 1, 2:
				m.restore(choice == 1)
			case 3, 4:
				m.release()
			default:
				m.work()
			}
		}
		if m.failure != "" {
			r.Fatal(m.failure)
		}
		holds += int(m.number(`SELECT hold FROM durable_control`))
	})
	t.Logf("%d sent, %d cases ended held", sends, holds)
	require.Positive(t, sends)
	require.Positive(t, holds)
}
