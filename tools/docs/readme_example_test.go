// These files hold the Go code of the pages, in the functions that a page leaves out, so that it compiles; what needs
// no service of its own runs too.
package docs_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var scheme = paymentsvc.Scheme{ // these pages' choice: the document shows none
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

const secret paymentsvc.Secret = "project-secret-key-of-these-pages"

func retryLater(string) error { return nil }

func showRefusal(string) error { return nil }

func settleOrder(string, *paymentsvc.StatusResponse) error { return nil }

var orders applier

type applier struct{}

func (applier) Apply(context.Context, string, string, paymentsvc.StatusName) error { return nil }

func aPayment(ctx context.Context, scheme paymentsvc.Scheme) error {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err != nil {
		return err
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer,
	})
	if err != nil {
		return err
	}
	userData := paymentsvc.NewUserData() // store it before the call: it finds the payment again
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	_ = payment
	return err
}

func aScheme() paymentsvc.Scheme {
	scheme := paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
		Encoding:  paymentsvc.Hex,
	}
	return scheme
}

func threeOutcomes(ctx context.Context, client *paymentsvc.Client, userData string, err error) error {
	switch paymentsvc.OutcomeOf(err) {
	case paymentsvc.OutcomeNotSent:
		if errors.Is(err, paymentsvc.ErrInvalidRequest) {
			return err // the same again tomorrow: correct it
		}
		return retryLater(userData)
	case paymentsvc.OutcomeRejected:
		return showRefusal(userData)
	default:
		status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
		if err != nil || status.UserData != userData { // any JSON object is an answer, an empty one too
			return retryLater(userData) // to ask again, not to start again
		}
		return settleOrder(userData, status)
	}
}

func someNotifications(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{secret}, // two during a rotation
		Tolerance: 5 * time.Minute,             // your choice, the document shows none
	})
	if err != nil {
		return err
	}
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		return orders.Apply(ctx, n.Key(), n.OrderID, n.StatusDescription)
	}))
	return nil
}

func TestTheReadmesTest(t *testing.T) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,                  // yours: there is no default
		Repeated:  paymentsvctest.NewOrder, // or a second start is refused, and stays unseen
	})
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		t.Fatal(err)
	}
	// The payment is made, and its answer is lost.
	lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	checkout(client, "order-1") // your code

	srv.AssertStarted(t, "order-1", 1) // and not twice
	srv.AssertAllSigned(t)             // or it says why a signature is wrong
	if lost.Hits() == 0 {
		t.Error("the answer was never lost, so nothing was tested")
	}

	handler := shop(t)
	srv.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	forged := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(2))
	if _, err := srv.Settle(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context())
	srv.AssertForgeriesRefused(t)
	if forged.Hits() == 0 {
		t.Error("nothing was forged, so nothing was tested")
	}
}
