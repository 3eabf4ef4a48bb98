package main

import (
	"net/http"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/telemetry"
)

// newClient makes the client of the service at address.
func newClient(set *settings, address string, measure *telemetry.Telemetry) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: set.Secret})
	if err != nil {
		return nil, err
	}
	base := paymentsvc.NewTransport()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, max(base.MaxIdleConnsPerHost, set.PayoutWorkers+16)
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: set.Partner, ProjectID: set.Project, Signer: signer,
		HTTPClient: &http.Client{Transport: measure.Transport(base)},
		// otelhttp passes the context on to base and calls it once for each request. Without this promise a refused
		// connection would count as unknown, and a payout that was never sent would be parked for a person.
		TrustTransport: true,
		Timeout:        set.CallTimeout / 2, // of one attempt: a status call has time for another one
		DecodeError:    set.DecodeError,
		OnAttempt:      measure.OnAttempt,
	})
}

// newWebhook makes what verifies notifications. During a rotation they may be signed with either secret.
func newWebhook(set *settings, onError func(*http.Request, error)) (*paymentsvc.Webhook, error) {
	secrets := []paymentsvc.Secret{set.Secret}
	if set.OldSecret != "" {
		secrets = append(secrets, set.OldSecret)
	}
	return paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: secrets, Tolerance: set.Tolerance, OnError: onError,
	})
}
