package paymentsvctest_test

import (
	"fmt"
	"strings"
	"testing"

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
		{"after a commitment that a signature prevents", valid, oldSecret, "drop after / bad-gateway after / drop before",
			"0 0 1"},
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
				rules = append(rules,
					srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), parsed(t, list, paymentsvctest.ParseFault)...))
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
	rule := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, over))
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
