// Package after is the final client of docs/migrating.md.
package after

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Client calls the service.
type Client struct {
	sdk     *paymentsvc.Client
	webhook *paymentsvc.Webhook
}

// New returns a client for an address and a project secret key.
func New(address, key string) (*Client, error) {
	scheme := paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // like the old code
		Encoding:  paymentsvc.Hex,
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{paymentsvc.Secret(key)}, Tolerance: 5 * time.Minute,
		OnError: func(r *http.Request, err error) {
			slog.WarnContext(r.Context(), "notification rejected or not handled", "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: paymentsvc.Secret(key)})
	if err != nil {
		return nil, err
	}
	sdk, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: 7, ProjectID: 42, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"), // examples: ask the service
	})
	if err != nil {
		return nil, err
	}
	return &Client{sdk: sdk, webhook: webhook}, nil
}

// Balance returns the payout balance.
func (c *Client) Balance(ctx context.Context) (string, error) {
	balance, err := c.sdk.GetBalance(ctx)
	if err != nil {
		return "", err
	}
	return balance.PayoutBalance.String(), nil
}

// Pay starts a payment and returns the address for the payer. It does not retry a payment that may have been made. The
// caller checks paymentsvc.SafeToRetry and paymentsvc.OutcomeOf.
func (c *Client) Pay(ctx context.Context, userData string, cents int64) (string, error) {
	payment, err := c.sdk.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.AmountFromMinor(cents, 2), UserData: userData,
	})
	if err != nil {
		return "", err
	}
	return payment.RedirectURL, nil
}

// Notifications calls paid with the user_data of payments that succeed.
func (c *Client) Notifications(paid func(ctx context.Context, userData string) error) http.Handler {
	return c.webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		if n.Event != paymentsvc.EventPaymentStatusChanged || n.StatusDescription != paymentsvc.StatusSuccess {
			return nil
		}
		return paid(ctx, n.UserData)
	})
}
