// These files contain the Go code of the pages, inside functions that make it compile. Tests run the code that needs no
// service.
package docs_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	userData := paymentsvc.NewUserData() // store it before the call, because it identifies the payment
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil:
		return redirectPayer(payment.RedirectURL, payment.OrderID)
	case paymentsvc.SafeToRetry(err): // for 401 and 403 alert an operator, who fixes the key or the clock
		return retryLater(userData) // with the same user_data, after a back-off
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown: // money may have moved
		return reconcileLater(userData)
	default: // permanently rejected, or invalid
		return showRejection(userData)
	}
}

func unknownPayment(ctx context.Context, client *paymentsvc.Client, userData string) error {
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	switch {
	case err != nil:
		return reconcileLater(userData) // still unknown
	case status.UserData != userData:
		return alertOperator(userData) // not the response for this payment
	}
	return recordStarted(userData, status.OrderID)
}

func firstNotifications(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{secret}, // two during a key rotation
		Tolerance: 5 * time.Minute,             // your choice, because the document specifies none
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

func withEffects() paymentsvc.ErrorDecoder {
	fields := paymentsvc.ErrorFields("error_code", "error_message") // examples, like the codes below
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := fields(status, body)
		if reported == nil {
			return nil
		}
		switch reported.Code {
		case "00": // sent with each success
			return nil
		case "DUPLICATE": // user_data was used before, so an earlier call may have started it
			reported.Effect = paymentsvc.EffectPossible
		case "TOO_MANY": // a rate limit that the service applies before anything else
			reported.Effect = paymentsvc.EffectNone
		}
		return reported
	}
	return decode
}

func withoutThePayersCancel(
	ctx context.Context, client *paymentsvc.Client, userData string,
	start func(context.Context, *paymentsvc.Client, string) error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return start(ctx, client, userData)
}

// TestNewTransportSpeaksHTTP2AndTrustsRoots applies two fixes of docs/troubleshooting.md.
func TestNewTransportSpeaksHTTP2AndTrustsRoots(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	transport := paymentsvc.NewTransport()
	transport.Protocols.SetHTTP2(true)
	transport.TLSClientConfig.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	resp, err := (&http.Client{Transport: transport}).Get(srv.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
}

func redirectPayer(string, string) error { return nil }

func reconcileLater(string) error { return nil }

func alertOperator(string) error { return nil }

func recordStarted(string, string) error { return nil }

func retryLater(string) error { return nil }

func showRejection(string) error { return nil }

// orders stands for the reader's own tables.
var orders ordersTable

type ordersTable struct{}

func (ordersTable) Apply(context.Context, *paymentsvc.Notification) error { return nil }

// scheme and secret are examples. The interface document does not specify how the service signs.
var scheme = paymentsvc.Scheme{
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

const secret paymentsvc.Secret = "project-secret-key-of-these-pages"
