package docs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// recorder is a test that keeps what it is told instead of failing.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

// failedTests are what the assertions of package paymentsvctest say.
func failedTests() map[string]func(t *testing.T) string {
	wronglySigned := func(s paymentsvc.Scheme, key paymentsvc.Secret) func(*testing.T) string {
		return func(t *testing.T) string {
			srv, cfg := fake(t)
			signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
				Scheme: s, Secret: key, Now: func() time.Time { return time.Unix(1_700_000_000, 0) },
			})
			require.NoError(t, err)
			cfg.Signer = signer
			require.Error(t, pay(newClient(t, cfg)))
			r := &recorder{TB: t}
			srv.AssertAllSigned(r)
			return r.text
		}
	}
	sorted := paymentsvc.Scheme{Canonical: canonical.Join("\n", canonical.Timestamp, canonical.BodySorted), Encoding: paymentsvc.Hex}
	return map[string]func(t *testing.T) string{
		"a key with its line break": wronglySigned(scheme(), secret+"\n"),
		"fields sorted":             wronglySigned(sorted, secret),
		"a payment started twice": func(t *testing.T) string {
			srv := paymentsvctest.Start(t, paymentsvctest.Config{
				PartnerID: partner,
				Projects:  []paymentsvctest.Project{{ID: project, Secret: secret}},
				Scheme:    scheme(),
				Repeated:  paymentsvctest.NewOrder,
			})
			client := newClient(t, srv.ClientConfig(project))
			require.NoError(t, pay(client))
			require.NoError(t, pay(client))
			r := &recorder{TB: t}
			srv.AssertStarted(r, "order-1", 1)
			return r.text
		},
	}
}
