package docs_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

func firstPayment(ctx context.Context, scheme paymentsvc.Scheme) error {
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
	case paymentsvc.SafeToRetry(err):
		return retryLater(userData) // with the same user_data, after a back-off
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		return reconcile(ctx, client, userData) // money may have moved: StatusPayment by user_data
	default:
		return showRejection(userData) // rejected for good, or never valid
	}
}

func fourCases(ctx context.Context, client *paymentsvc.Client, userData string) (err error) {
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil:
		return nil
	case paymentsvc.SafeToRetry(err):
		return retryLater(userData) // with the same user_data, after a back-off
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		return reconcile(ctx, client, userData)
	default:
		return showRejection(userData) // rejected for good, or never valid
	}
}

func reconcile(ctx context.Context, client *paymentsvc.Client, userData string) error {
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	switch {
	case err != nil:
		return reconcileLater(userData)
	case status.UserData != userData:
		return errors.New("the answer is about another payment, or about none")
	}
	return settleOrder(userData, status)
}

func reconcileOpen(ctx context.Context, client *paymentsvc.Client, open []string) error {
	for _, userData := range open {
		if err := reconcile(ctx, client, userData); err != nil {
			return err
		}
	}
	return nil
}

func withEffects() paymentsvc.ErrorDecoder {
	fields := paymentsvc.ErrorFields("error_code", "error_message")
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := fields(status, body)
		if reported == nil {
			return nil
		}
		switch reported.Code {
		case "DUPLICATE": // an example: user_data was used before, so an earlier call may have started it
			reported.Effect = paymentsvc.EffectPossible
		case "TOO_MANY": // an example: a rate limit that the service applies before anything else
			reported.Effect = paymentsvc.EffectNone
		}
		return reported
	}
	return decode
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
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		return orders.Apply(ctx, n.Key(), n.Event, n.OrderID, n.StatusDescription)
	}))
	return nil
}

func sendPayerTo(string, string) error { return nil }

func reconcileLater(string) error { return nil }

func showRejection(string) error { return nil }
