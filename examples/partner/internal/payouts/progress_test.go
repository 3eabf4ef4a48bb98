package payouts

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// paused is a queue that sends nothing.
type paused struct {
	Queue
	pause Pause
}

func (q paused) Pause() Pause { return q.pause }

func counts(created, pending, unknown, rejected int64) store.Counts {
	return store.Counts{Attention: unknown, Parked: unknown, States: map[store.State]int64{
		store.StateCreated: created, store.StatePending: pending, store.StateUnknown: unknown, store.StateRejected: rejected,
	}}
}

func TestWithoutATerminalALineIsPrintedEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		queue := paused{pause: Pause{true, time.Now().Add(15 * time.Second), "HTTP 401"}}
		p := newProgress(WorkConfig{Out: &out, Queue: queue}, store.PayoutFile{Name: "a.csv", Imported: 100})
		p.show(counts(90, 10, 0, 0)) // by an earlier run
		time.Sleep(3 * time.Second)
		p.show(counts(80, 20, 0, 0)) // too soon
		time.Sleep(2 * time.Second)
		p.show(counts(60, 37, 2, 1))
		time.Sleep(time.Second)
		p.show(counts(0, 97, 2, 1)) // the end
		p.finish()
		assert.Equal(t, "a.csv: 10 of 100 payouts; paused, HTTP 401, next try in 15 s\n"+
			"a.csv: 40 of 100 payouts, 6 a second, 2 for a person, 1 refused; paused, HTTP 401, next try in 10 s\n"+
			"a.csv: 100 of 100 payouts, 15 a second, 2 for a person, 1 refused\n", out.String())
	})
}

func TestOnATerminalABarMoves(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(WorkConfig{Out: &out}, store.PayoutFile{Name: "a.csv", Imported: 100})
	p.bar = newBar(&out, 100)
	p.show(counts(50, 49, 1, 0))
	p.show(counts(0, 99, 1, 0))
	p.finish()
	assert.Contains(t, out.String(), "a.csv, 1 for a person")
	assert.Contains(t, out.String(), "100%")
	assert.Contains(t, out.String(), "(100/100")
}

func TestAFileIsNoTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	assert.False(t, isTerminal(file))
	assert.False(t, isTerminal(&bytes.Buffer{}))
}
