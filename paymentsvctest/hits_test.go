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
	const valid, duplicate = "order-1", "order-0"
	for _, test := range []struct {
		name, userData string
		key            paymentsvc.Secret // of the request's signature
		faults         string            // of one rule; a slash begins the next
		hits           string
	}{
		{"a cut behind the end", valid, secret, "cut 100000", "0"},
		{"a cut behind the end, unframed", valid, secret, "cut-unframed 100000", "0"},
		{"a size that the answer has", valid, secret, "oversized 1", "0"},
		{"a bomb of no size", valid, secret, "gzip-bomb 0", "0"},
		{"no skew", valid, secret, "wrong-date 0s", "0"},
		{"no pause", valid, secret, "slow 0s", "0"},
		{"the shape of an answer that has none", valid, secret, "wrong-shape + bad-gateway after", "0"},
		{"two that take effect", valid, secret, "slow 1us + cut 20", "1"},
		{"a cut of what never leaves", valid, secret, "drop before + cut 1", "0"},
		{"an answer that never leaves", valid, secret, "answer before 200 text/plain x + drop after", "0"},
		{"an answer that another rule replaces", valid, secret, "bad-gateway after / answer after 200 text/plain x", "0 1"},
		{"the same of two rules", valid, secret, "drop after / drop after", "1 1"},
		{"another rule ends the request before", valid, secret, "drop before / hang after", "1 0"},
		{"after a commitment that a signature prevents", valid, oldSecret, "drop after / bad-gateway after / drop before", "0 0 1"},
		{"an answer after a commitment that a signature prevents", valid, oldSecret, "bad-gateway after", "0"},
		{"a lost answer that a signature prevents", valid, oldSecret, "drop after", "0"},
		{"after the rejection of a duplicate", duplicate, secret, "drop after", "0"},
		{"before the rejection of a duplicate", duplicate, secret, "drop before", "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := paymentsvctest.StartInMemory(t, config())
			pay(t, newClient(t, srv), duplicate)
			var rules []*paymentsvctest.Rule
			for list := range strings.SplitSeq(test.faults, " / ") {
				rules = append(rules, srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), parsed(t, list, paymentsvctest.ParseFault)...))
			}
			signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: test.key})
			require.NoError(t, err)
			client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Signer = signer })
			_, _ = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(test.userData))
			var hits []string
			for _, rule := range rules {
				hits = append(hits, fmt.Sprint(rule.Hits()))
			}
			assert.Equal(t, test.hits, strings.Join(hits, " "))
		})
	}
	srv := paymentsvctest.StartInMemory(t, config())
	client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 })
	over := make(chan struct{})
	close(over)
	rule := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), paymentsvctest.Hold(paymentsvctest.BeforeCommit, over))
	pay(t, client, "order-1")
	assert.Zero(t, rule.Hits(), "a hold that is over delays nothing")
	rule = srv.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-2"})
	require.Error(t, err)
	assert.Equal(t, 1, rule.Hits(), "that there is no such order is an answer")
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

// partners take an outcome in different ways. Each returns the number of payments that it believes it started.
func partners() map[string]func(client *paymentsvc.Client) int {
	start := func(client *paymentsvc.Client) error {
		_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, payment("order-1"))
		return err
	}
	return map[string]func(client *paymentsvc.Client) int{
		"right": func(client *paymentsvc.Client) int {
			err := start(client)
			for err != nil && paymentsvc.SafeToRetry(err) {
				err = start(client)
			}
			if err != nil && paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown {
				_, err = client.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: "order-1"})
			}
			return map[bool]int{true: 1}[err == nil]
		},
		"hopes": func(client *paymentsvc.Client) int { _ = start(client); return 1 },
		"starts again": func(client *paymentsvc.Client) int {
			if start(client) != nil {
				_ = start(client)
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
					believed := partner(client)
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
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: scheme(), Secret: secret, Now: func() time.Time { return time.Now().Add(skew) },
	})
	require.NoError(t, err)
	client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Signer = signer })
	_, err = client.GetBalance(t.Context())
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

// receiver is a partner that ships what is paid.
type receiver struct {
	seen     map[string]bool
	refunded bool
	shipped  int
}

// right returns a handler that knows the secrets.
func (p *receiver) right(t *testing.T, secrets ...paymentsvc.Secret) http.Handler {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{Scheme: scheme(), Secrets: secrets, Tolerance: time.Minute})
	require.NoError(t, err)
	return webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		p.refunded = p.refunded || n.Event == paymentsvc.EventRefundStatusChanged
		if !p.seen[n.Key()] && !p.refunded && n.StatusDescription == paymentsvc.StatusSuccess {
			p.shipped++
		}
		p.seen[n.Key()] = true
		return nil
	})
}

// wrong is a handler that believes everything and answers 200 whatever comes.
func (p *receiver) wrong(_ http.ResponseWriter, r *http.Request) {
	var n paymentsvctest.Notification
	err := json.NewDecoder(r.Body).Decode(&n)
	if err == nil && n.Event == paymentsvc.EventPaymentStatusChanged && n.StatusDescription == paymentsvc.StatusSuccess {
		p.shipped++
	}
}

func TestEachNotificationFaultFailsAWrongPartner(t *testing.T) {
	const forgery, undelivered = "a forged notification was accepted", "1 of 1 notifications were not accepted"
	for _, test := range []struct {
		fault        string
		status       paymentsvc.StatusName
		right, wrong string // shipped, and what the assertions say
	}{
		{"repeated 2", paymentsvc.StatusSuccess, "1", "3"},
		{"reordered", paymentsvc.StatusSuccess, "0", "1"}, // behind a refund
		{"delayed 1", paymentsvc.StatusSuccess, "0", "1"},
		{"forged", paymentsvc.StatusFailure, "0", "1 " + forgery},
		{"old-secret", paymentsvc.StatusSuccess, "1", "0 " + undelivered}, // to one that does not know it
		{"skewed -1h0m0s", paymentsvc.StatusSuccess, "0 " + undelivered, "1"},
		{"skewed 1h0m0s", paymentsvc.StatusSuccess, "0 " + undelivered, "1"},
		{"cut 20", paymentsvc.StatusSuccess, "0 " + undelivered, "0 " + undelivered},
		{"lost", paymentsvc.StatusSuccess, "0 " + undelivered, "0 " + undelivered},
	} {
		for name, want := range map[string]string{"right": test.right, "wrong": test.wrong} {
			t.Run(test.fault+"/"+name, func(t *testing.T) {
				srv := paymentsvctest.StartInMemory(t, config())
				p := &receiver{seen: map[string]bool{}}
				handler := p.right(t, secret, oldSecret)
				switch {
				case name == "wrong" && test.fault == "old-secret":
					handler = p.right(t, secret)
				case name == "wrong":
					handler = http.HandlerFunc(p.wrong)
				}
				srv.SetReceiver(paymentsvctest.ToHandler(handler, "/"))
				rule := srv.FaultNotifications(paymentsvc.EventPaymentStatusChanged, paymentsvctest.Every(),
					parsed(t, test.fault, paymentsvctest.ParseNotificationFault)...)
				id := pay(t, newClient(t, srv), "order-1")
				_, err := srv.Settle(id, test.status)
				require.NoError(t, err)
				if test.fault == "reordered" || test.fault == "delayed 1" {
					_, err = srv.Refund(id, amount("10.50"), paymentsvc.StatusSuccess)
					require.NoError(t, err)
				}
				srv.DeliverAll(t.Context())
				assert.Positive(t, rule.Hits())
				spied := &spy{TB: t}
				if test.fault == "forged" {
					srv.AssertForgeriesRefused(spied)
				}
				srv.AssertDelivered(spied)
				got := fmt.Sprint(p.shipped)
				for _, text := range spied.errors {
					text, _, _ = strings.Cut(strings.TrimPrefix(text, "paymentsvctest: "), "\n")
					text, _, _ = strings.Cut(text, ":")
					got += " " + text
				}
				assert.Equal(t, want, got)
			})
		}
	}
}
