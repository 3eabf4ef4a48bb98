//go:build unix

package kills

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// points are the steps at which the first children kill themselves. The other children are killed at random moments.
var points = []string{
	"claim 1", "claimed 1", "call 1", "called 1", "recorded 1", "record 1", "claim 20",
	"claimed 9", "call 9", "called 9", "recorded 9",
}

// processes are children that are killed and started again.
type processes struct {
	t       *testing.T
	db      database
	service *paymentsvctest.Server
	number  int
	mu      sync.Mutex
	living  []*process
}

func (all *processes) restart(i int, args ...string) *process {
	all.number++
	p := start(all.t, all.db, all.service.URL, append(args, "-child.name", fmt.Sprint("p", all.number))...)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.living[i] = p
	return p
}

// ServeHTTP passes a notification on to a process that is most likely alive.
func (all *processes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all.mu.Lock()
	to := all.living[rand.IntN(len(all.living))].address
	all.mu.Unlock()
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to, r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	out.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
}

// notify sends notifications until stop is closed.
func (all *processes) notify(stop <-chan struct{}) {
	for {
		settle(all.t, all.service)
		all.service.Deliver(all.t.Context())
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestNoKillLosesOrRepeatsAnything(t *testing.T) {
	long(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	t.Run("pgbouncer", func(t *testing.T) { killProcesses(t, pooled(t, postgres(t))) })
	each(t, killProcesses)
}

func killProcesses(t *testing.T, db database) {
	t.Parallel() // the test waits most of the time
	random := rand.New(rand.NewPCG(*seed, 1))
	service := newService(t)
	// Responses take some milliseconds, so that a kill interrupts several calls.
	service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Slow(100*time.Microsecond))
	service.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.RepeatedBy(1))
	all := &processes{t: t, db: db, service: service, living: make([]*process, 1)}
	if !db.SQLite {
		all.living = make([]*process, 3)
	}
	for i := range all.living {
		all.restart(i)
	}
	service.SetReceiver(paymentsvctest.ToHandler(all, "/notifications"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); all.notify(stop) }()
	for n := range *kills {
		victim := random.IntN(len(all.living))
		if n < len(points) && *kills > len(points) {
			all.living[victim].kill()
			p := all.restart(victim, "-child.die", "kill "+points[n])
			select {
			case <-p.ended:
			case <-time.After(20 * time.Second): // "record" may be rare
			}
		} else {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		all.living[victim].kill()
		if n < *kills-1 {
			all.restart(victim)
		}
	}
	for _, p := range all.living {
		p.kill()
	}
	close(stop)
	<-stopped
	require.NoError(t, service.Drain(t.Context()))
	store := open(t, db, service.URL, 5*time.Second)
	before := counts(t, store)
	payments, payouts := finish(t, db, store, service)
	struck := all.number // each child was killed
	t.Logf("%d kills, %d orders: %v after them, %v in the end; struck: %d payments, %d payouts",
		struck, len(service.Orders()), before, counts(t, store), payments, payouts)
	assert.LessOrEqual(t, payouts, struck*slots)
	assert.LessOrEqual(t, payments, struck*(slots+payers))
	assert.Positive(t, payouts, "the kills have struck nothing")
	assert.Zero(t, db.Number(t, `SELECT hold FROM durable_control`))
}

// A process that sleeps between its claim and its call for longer than the lease must not begin the call.
func TestAProcessThatWakesAfterItsLeaseCallsNothing(t *testing.T) {
	long(t)
	for _, step := range []durable.Step{durable.StepClaimed, durable.StepCall} {
		t.Run(string(step), func(t *testing.T) {
			each(t, func(t *testing.T, db database) {
				service := newService(t)
				const timeout = time.Second
				store := open(t, db, service.URL, timeout)
				require.NoError(t, add(t.Context(), db.DB, store, payout("a", 1, false)))
				p := start(t, db, service.URL, "-child.die", fmt.Sprint("stop ", step, " 1"), "-child.timeout", timeout.String())
				eventually(t, func() bool { return counts(t, store)[durable.StateStarting] == 1 })
				for counts(t, store)[durable.StateUnknown] == 0 {
					require.NoError(t, store.Sweep(t.Context()))
					time.Sleep(10 * time.Millisecond)
				}
				require.NoError(t, add(t.Context(), db.DB, store, payout("b", 1, false)))
				require.NoError(t, p.Process.Signal(syscall.SIGCONT))
				eventually(t, func() bool { return counts(t, store)[durable.StatePending] == 1 }) // it works again
				p.kill()
				require.NoError(t, service.Drain(t.Context()))
				assert.Len(t, service.Orders(), 1, "the one that was added last")
				assert.EqualValues(t, 1, counts(t, store)[durable.StateUnknown])
			})
		})
	}
}
