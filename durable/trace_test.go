package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

type spanKey struct{}

// tracer records the events of spans by the user_data of their rows.
type tracer struct {
	*service
	mu     sync.Mutex
	events map[string][]string
}

func (r *tracer) add(ctx context.Context, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(string)
	r.events[span] = append(r.events[span], fmt.Sprintf(format, args...))
}

func (r *tracer) InitPayout(ctx context.Context, p paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	r.add(ctx, "attempt")
	return r.service.InitPayout(ctx, p)
}

func (r *tracer) InitPayment(
	ctx context.Context, k paymentsvc.PaymentType, p paymentsvc.PaymentRequest,
) (*paymentsvc.InitPaymentResponse, error) {
	r.add(ctx, "attempt")
	return r.service.InitPayment(ctx, k, p)
}

func (r *tracer) StatusPayment(
	ctx context.Context, p paymentsvc.StatusPaymentRequest,
) (*paymentsvc.StatusResponse, error) {
	r.add(ctx, "attempt")
	return r.service.StatusPayment(ctx, p)
}

func outcome(err error) string {
	if err == nil {
		return "success"
	}
	if _, ok := errors.AsType[*paymentsvc.Error](err); ok {
		return paymentsvc.OutcomeOf(err).String()
	}
	return err.Error()
}

func (r *tracer) hooks() Hooks {
	return Hooks{
		Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
			r.add(context.WithValue(ctx, spanKey{}, userData), "%s from %v", endpoint, ctx.Value(spanKey{}))
			ctx = context.WithValue(ctx, spanKey{}, userData)
			return ctx, func(err error) { r.add(ctx, "end: %s", outcome(err)) }
		},
		Call:   func(ctx context.Context, c Call) { r.add(ctx, "call: %s", outcome(c.Err)) },
		Change: func(ctx context.Context, _ Kind, from, to State) { r.add(ctx, "%s to %s", from, to) },
	}
}

func (r *tracer) onChange(ctx context.Context, _ *sql.Tx, e Event) error {
	r.add(ctx, "OnChange %s", e.To)
	return nil
}

func TestTraceConnectsACallWithItsConsequences(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		r := &tracer{service: &service{}, events: map[string][]string{}}
		clock := &clocks{process: time.Now()}
		s := openShimmed(t, db, Config{
			Service: r, Hooks: r.hooks(), OnChange: r.onChange, FinalState: finalState,
		}, clock)
		pay := context.WithValue(t.Context(), spanKey{}, "the request of the payer")
		var users []string
		for n, test := range []struct {
			err  error
			want []string
		}{
			{nil, []string{"call: success", "starting to pending", "end: success"}},
			{refused(400, "E17"), []string{
				"call: rejected", "OnChange rejected", "starting to rejected", "end: rejected",
			}},
			{unanswered(""), []string{"call: unknown", "starting to unknown", "end: unknown"}},
			{fmt.Errorf("a body with 4111111111111111: %w", errors.ErrUnsupported), []string{
				"call: durable: an error of type *fmt.wrapError", "starting to unknown",
				"end: durable: an error of type *fmt.wrapError",
			}},
		} {
			r.before = func(int, string) error { return test.err }
			row, err := s.Pay(pay, NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten})
			require.NoError(t, err)
			payout := queue(t, s, payouts(fmt.Sprint("p", n), 1)...)[0].UserData
			_, err = s.RunBatch(context.WithValue(t.Context(), spanKey{}, "the job"), BatchLimit{})
			require.NoError(t, err)
			want := append([]string{"init_payment from the request of the payer", "attempt"}, test.want...)
			assert.Equal(t, want, r.events[row.UserData])
			want[0] = "init_payout from the job"
			assert.Equal(t, want, r.events[payout])
			users = append(users, row.UserData)
		}
		unknown := users[2]
		_, err := r.start(unknown)
		require.Error(t, err)
		r.before = nil
		_, err = r.start(unknown)
		require.NoError(t, err)
		r.status = says(StateSucceeded)
		before := len(r.events[unknown])
		pass(t, db, clock, 2*time.Second)
		require.NoError(t, s.Sweep(context.WithValue(t.Context(), spanKey{}, "the sweep")))
		assert.Equal(t, []string{
			"status_payment from the sweep", "attempt", "call: success", "OnChange succeeded", "unknown to succeeded",
			"end: success",
		}, r.events[unknown][before:])
	})
}

// The record of the outcome fails first, and the span ends once with its error.
func TestTraceEndsOnceIfTheRecordFails(t *testing.T) {
	db := sqlite(t)
	r := &tracer{service: &service{}, events: map[string][]string{}}
	s := openStore(t, db, Config{Service: r, Hooks: r.hooks(), ChangeStates: States(), OnChange: r.onChange})
	db.Exec(t, `CREATE TRIGGER broken BEFORE UPDATE ON durable_rows WHEN NEW.state = 'pending'
		BEGIN SELECT RAISE(ABORT, 'no disk'); END`)
	j := queueAndClaim(t, s)
	result := s.call(t.Context(), j)
	require.ErrorContains(t, rounder{s}.Record(t.Context(), s.completion(result, 0)), "no disk")
	db.Exec(t, `DROP TRIGGER broken`)
	require.NoError(t, rounder{s}.Record(t.Context(), s.completion(result, 0)))
	events := r.events[j.UserData]
	require.Len(t, events, 6)
	assert.Contains(t, events[3], "end: ")
	assert.Contains(t, events[3], "no disk")
	assert.Equal(t, []string{"OnChange pending", "starting to pending"}, events[4:])
}

// A call that never began has no span.
func TestTraceBeginsWithTheCall(t *testing.T) {
	r := &tracer{service: &service{}, events: map[string][]string{}}
	s := openStore(t, sqlite(t), Config{Service: r, Hooks: r.hooks()})
	j := queueAndClaim(t, s)
	j.begun = j.begun.Add(-time.Hour)
	require.NoError(t, rounder{s}.Record(t.Context(), s.completion(s.call(t.Context(), j), 0)))
	assert.Equal(t, map[string][]string{"": {"starting to created"}}, r.events)
}

func queueAndClaim(t *testing.T, s *Store) job {
	queue(t, s, payouts("a", 1)...)
	return claim(t, s, 1, 0, "T")[0]
}
