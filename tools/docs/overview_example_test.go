package docs_test

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func firstPayment(ctx context.Context) error {
	scheme := paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
		Encoding:  paymentsvc.Hex,
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err != nil {
		return err
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"), // examples, not the service's names
	})
	if err != nil {
		return err
	}
	userData := paymentsvc.NewUserData() // store it before the call: it identifies the payment afterwards
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil:
		return sendPayerTo(payment.RedirectURL, payment.OrderID)
	case paymentsvc.SafeToRetry(err): // 401, 403: alert, fix the key or the clock, then retry
		return retryLater(userData) // with the same user_data, after a back-off
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		return reconcile(ctx, client, userData) // money may have moved: StatusPayment by user_data
	default:
		return showRejection(userData) // rejected for good, or never valid
	}
}

func firstNotifications(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{secret}, // two during a key rotation
		Tolerance: 5 * time.Minute,             // your choice, the document shows none
		OnError: func(_ *http.Request, err error) {
			slog.Error("notification rejected or not handled", "error", err)
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/notifications", webhook.Handler(orders.Apply)) // your Apply(ctx, n)
	return nil
}

func sendPayerTo(string, string) error { return nil }

func retryLater(string) error { return nil }

func showRejection(string) error { return nil }
