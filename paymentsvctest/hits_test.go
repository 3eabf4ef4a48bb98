package paymentsvctest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestHitsCountOnlyWhatTookEffect(t *testing.T) {
	start := func(t *testing.T, srv *paymentsvctest.Server, userData string, key paymentsvc.Secret) error {
		_, err := newClient(t, srv, func(cfg *paymentsvc.Config) {
			var err error
			cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: key})
			require.NoError(t, err)
		}).InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(userData))
		return err
	}
	valid := func(t *testing.T, srv *paymentsvctest.Server) { _ = start(t, srv, "order-1", secret) }
	wronglySigned := func(t *testing.T, srv *paymentsvctest.Server) { _ = start(t, srv, "order-1", oldSecret) }
	duplicate := func(t *testing.T, srv *paymentsvctest.Server) { _ = start(t, srv, "order-0", secret) }
	unknownOrder := func(t *testing.T, srv *paymentsvctest.Server) {
		client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 })
		_, _ = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-1"})
	}
	for _, test := range []struct {
		name   string
		call   func(*testing.T, *paymentsvctest.Server)
		faults string // of one rule; a slash begins the next
		hits   string
	}{
		{"a cut behind the end", valid, "cut 100000", "0"},
		{"a cut behind the end, unframed", valid, "cut-unframed 100000", "0"},
		{"a size that the answer has", valid, "oversized 1", "0"},
		{"a bomb of no size", valid, "gzip-bomb 0", "0"},
		{"no skew", valid, "wrong-date 0s", "0"},
		{"no pause", valid, "slow 0s", "0"},
		{"the shape of an answer that has none", valid, "wrong-shape + bad-gateway after", "0"},
		{"two that take effect", valid, "slow 1us + cut 20", "1"},
		{"a cut of what never leaves", valid, "drop before + cut 1", "0"},
		{"an answer that never leaves", valid, "answer before 200 text/plain x + drop after", "0"},
		{"an answer that another rule replaces", valid, "bad-gateway after / answer after 200 text/plain x", "0 1"},
		{"the same of two rules", valid, "drop after / drop after", "1 1"},
		{"another rule ends the request before", valid, "drop before / hang after", "1 0"},
		{"after a commitment that a signature prevents", wronglySigned, "drop after / bad-gateway after / drop before", "0 0 1"},
		{"an answer after a commitment that a signature prevents", wronglySigned, "bad-gateway after", "0"},
		{"after the rejection of a duplicate", duplicate, "drop after", "0"},
		{"before the rejection of a duplicate", duplicate, "drop before", "1"},
		{"the answer that there is no order", unknownOrder, "drop after", "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := paymentsvctest.StartInMemory(t, config())
			pay(t, newClient(t, srv), "order-0")
			var rules []*paymentsvctest.Rule
			for list := range strings.SplitSeq(test.faults, " / ") {
				rules = append(rules, srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), parsed(t, list, paymentsvctest.ParseFault)...))
			}
			test.call(t, srv)
			var hits []string
			for _, rule := range rules {
				hits = append(hits, fmt.Sprint(rule.Hits()))
			}
			assert.Equal(t, test.hits, strings.Join(hits, " "))
		})
	}
	srv := paymentsvctest.StartInMemory(t, config())
	open := make(chan struct{})
	close(open)
	rule := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), paymentsvctest.Hold(paymentsvctest.BeforeCommit, open))
	require.NoError(t, start(t, srv, "order-1", secret))
	assert.Zero(t, rule.Hits(), "a hold that is over delays nothing")
}

// parsed reads faults that plus signs join.
func parsed[F any](t *testing.T, list string, parse func(string) (F, error)) (faults []F) {
	t.Helper()
	for text := range strings.SplitSeq(list, " + ") {
		fault, err := parse(text)
		require.NoError(t, err)
		faults = append(faults, fault)
	}
	return faults
}

func TestHitsOfNotificationsCountOnlyWhatTookEffect(t *testing.T) {
	taking := paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "/")
	for _, test := range []struct {
		name   string
		to     paymentsvctest.Receiver
		faults string
		hits   int
	}{
		{"a forgery although its notification is lost", taking, "forged + lost", 1},
		{"a forgery that reaches nobody", paymentsvctest.ToURL("http://127.0.0.1:1/"), "forged", 0},
		{"duplicates of what is lost", taking, "lost + repeated 2", 0},
		{"no duplicate", taking, "repeated 0", 0},
		{"a skew that no timestamp shows", taking, "skewed 1ms", 0},
		{"a skew", taking, "skewed 1s", 1},
		{"a cut behind the end", taking, "cut 9999", 0},
		{"a cut", taking, "cut 20", 1},
		{"the old secret", taking, "old-secret", 1},
		{"a skew that reaches nobody", paymentsvctest.ToURL("http://127.0.0.1:1/"), "skewed 1h", 0},
		{"a delay by nothing", taking, "delayed 0", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := paymentsvctest.StartInMemory(t, config())
			srv.SetReceiver(test.to)
			rule := srv.FaultNotifications("", paymentsvctest.Nth(1), parsed(t, test.faults, paymentsvctest.ParseNotificationFault)...)
			_, err := srv.Settle(pay(t, newClient(t, srv), "order-1"), paymentsvc.StatusSuccess)
			require.NoError(t, err)
			srv.Deliver(t.Context())
			assert.Equal(t, test.hits, rule.Hits())
		})
	}
}

// partners take an outcome in different ways. Each returns the number of payments that it believes it started.
func partners() map[string]func(ctx context.Context, c *paymentsvc.Client) int {
	start := func(ctx context.Context, c *paymentsvc.Client) error {
		_, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, payment("order-1"))
		return err
	}
	return map[string]func(ctx context.Context, c *paymentsvc.Client) int{
		"right": func(ctx context.Context, c *paymentsvc.Client) int {
			err := start(ctx, c)
			for err != nil && paymentsvc.SafeToRetry(err) {
				err = start(ctx, c)
			}
			if err != nil && paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown {
				_, err = c.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: "order-1"})
			}
			if err != nil {
				return 0
			}
			return 1
		},
		"hopes": func(ctx context.Context, c *paymentsvc.Client) int { _ = start(ctx, c); return 1 },
		"starts again": func(ctx context.Context, c *paymentsvc.Client) int {
			if start(ctx, c) != nil {
				_ = start(ctx, c)
			}
			return 1
		},
	}
}

// A fault that no wrong partner notices would test nothing.
func TestEachFaultFailsAWrongPartner(t *testing.T) {
	faults := append(paymentsvctest.AllFaults(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, nil), paymentsvctest.Hold(paymentsvctest.AfterCommit, nil),
		paymentsvctest.TooManyRequests(paymentsvctest.AfterCommit, time.Second), paymentsvctest.Reject(402, "E17", "no money"),
		paymentsvctest.Answer(paymentsvctest.AfterCommit, 200, "text/html", "please log in"))
	for _, fault := range faults {
		if strings.HasPrefix(fault.String(), "wrong-date") {
			continue // see below
		}
		t.Run(fault.String(), func(t *testing.T) {
			noticed := map[string]bool{}
			for name, partner := range partners() {
				synctest.Test(t, func(t *testing.T) {
					srv := paymentsvctest.StartInMemory(t, config(everyStartCounts))
					client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Timeout = 100 * time.Millisecond })
					rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.First(3), fault)
					believed := partner(t.Context(), client)
					client.CloseIdleConnections()
					require.NoError(t, srv.Drain(t.Context()))
					spied := &spy{TB: t}
					srv.AssertStarted(spied, "order-1", believed)
					srv.AssertNoneRejected(t)
					assert.Positive(t, rule.Hits())
					noticed[name] = len(spied.errors) > 0
				})
			}
			assert.False(t, noticed["right"])
			assert.True(t, noticed["hopes"] || noticed["starts again"])
		})
	}
}

// A partner that sets its clock by the Date of an answer signs with a wrong one.
func TestWrongDateFailsAPartnerThatBelievesIt(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config(func(c *paymentsvctest.Config) { c.Tolerance = time.Minute }))
	rule := srv.Fault(paymentsvctest.GetBalance, paymentsvctest.Nth(1), paymentsvctest.WrongDate(-time.Hour), paymentsvctest.Reject(401, "E1", "clock"))
	var skew time.Duration
	client := newClient(t, srv, func(cfg *paymentsvc.Config) {
		var err error
		cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
			Scheme: scheme(), Secret: secret, Now: func() time.Time { return time.Now().Add(skew) },
		})
		require.NoError(t, err)
	})
	_, err := client.GetBalance(t.Context())
	var e *paymentsvc.Error
	require.ErrorAs(t, err, &e)
	skew, _ = e.ClockSkew()
	_, err = client.GetBalance(t.Context())
	require.Error(t, err)
	test := &spy{TB: t}
	srv.AssertAllSigned(test)
	assert.Len(t, test.errors, 1)
	assert.Equal(t, 1, rule.Hits())
}

// receiver is a partner that ships what is paid, rightly or in one of the usual wrong ways.
type receiver struct {
	wrong, rotates bool
	seen           map[string]bool
	refunded       bool
	shipped        int
}

func (p *receiver) handler(t *testing.T) http.Handler {
	secrets := []paymentsvc.Secret{secret, oldSecret}
	if p.wrong && p.rotates {
		secrets = secrets[:1]
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{Scheme: scheme(), Secrets: secrets, Tolerance: time.Minute})
	require.NoError(t, err)
	right := webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		p.refunded = p.refunded || n.Event == paymentsvc.EventRefundStatusChanged
		if !p.seen[n.Key()] && !p.refunded && n.StatusDescription == paymentsvc.StatusSuccess {
			p.shipped++
		}
		p.seen[n.Key()] = true
		return nil
	})
	if !p.wrong || p.rotates {
		return right
	}
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { // 200, whatever comes
		var n paymentsvctest.Notification
		if json.NewDecoder(r.Body).Decode(&n) == nil && n.Event != paymentsvc.EventRefundStatusChanged && n.StatusDescription == paymentsvc.StatusSuccess {
			p.shipped++
		}
	})
}

func TestEachNotificationFaultFailsAWrongPartner(t *testing.T) {
	for _, test := range []struct {
		fault         string
		status        paymentsvc.StatusName
		rotates       bool
		shipped       int // rightly
		wrong         int // by the wrong partner
		undeliverable bool
	}{
		{"repeated 2", paymentsvc.StatusSuccess, false, 1, 3, false},
		{"reordered", paymentsvc.StatusSuccess, false, 0, 1, false},
		{"delayed 1", paymentsvc.StatusSuccess, false, 0, 1, false},
		{"forged", paymentsvc.StatusFailure, false, 0, 1, false},
		{"old-secret", paymentsvc.StatusSuccess, true, 1, 0, false},
		{"skewed -1h0m0s", paymentsvc.StatusSuccess, false, 0, 1, true},
		{"skewed 1h0m0s", paymentsvc.StatusSuccess, false, 0, 1, true},
		{"cut 20", paymentsvc.StatusSuccess, false, 0, 0, true}, // accepted, and never shipped
		{"lost", paymentsvc.StatusSuccess, false, 0, 0, true},
	} {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", test.fault, wrong), func(t *testing.T) {
				srv := paymentsvctest.StartInMemory(t, config())
				spied := &spy{TB: t}
				srv.AssertDelivered(spied)
				assert.Equal(t, []string{"paymentsvctest: there was no notification to deliver"}, spied.errors)
				p := &receiver{wrong: wrong, rotates: test.rotates, seen: map[string]bool{}}
				srv.SetReceiver(paymentsvctest.ToHandler(p.handler(t), "/"))
				rule := srv.FaultNotifications(paymentsvc.EventPaymentStatusChanged, paymentsvctest.Every(),
					parsed(t, test.fault, paymentsvctest.ParseNotificationFault)...)
				id := pay(t, newClient(t, srv), "order-1")
				_, err := srv.Settle(id, test.status)
				require.NoError(t, err)
				if strings.HasPrefix(test.fault, "reordered") || strings.HasPrefix(test.fault, "delayed") {
					_, err = srv.Refund(id, amount("10.50"), paymentsvc.StatusSuccess)
					require.NoError(t, err)
				}
				srv.DeliverAll(t.Context())
				assert.Positive(t, rule.Hits())
				spied.errors = nil
				srv.AssertForgeriesRefused(spied)
				assert.Equal(t, wrong && test.fault == "forged", len(spied.errors) == 1, "AssertForgeriesRefused")
				spied.errors = nil
				srv.AssertDelivered(spied)
				fails := test.undeliverable && (!wrong || test.fault == "lost") || wrong && test.rotates
				assert.Equal(t, fails, len(spied.errors) == 1, "AssertDelivered: %s", spied.errors)
				if wrong {
					assert.Equal(t, test.wrong, p.shipped)
				} else {
					assert.Equal(t, test.shipped, p.shipped)
				}
			})
		}
	}
}
