package docs_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The tests that the pages show, and what they leave out.

var scheme = paymentsvc.Scheme{ // these pages' choice: the document shows none
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

const secret paymentsvc.Secret = "project-secret-key-of-these-pages"

// checkout is the code under test: it reconciles an unknown outcome and starts nothing again.
func checkout(client *paymentsvc.Client, userData string) {
	_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil, paymentsvc.SafeToRetry(err):
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		_, _ = client.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: userData})
	}
}

// shop receives the notifications of a test.
func shop(t *testing.T) http.Handler {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Handler(func(context.Context, *paymentsvc.Notification) error { return nil })
}

// service returns a fake that accepts a second start, and a client of it that waits timeout for an answer.
func service(t *testing.T, timeout time.Duration) (*paymentsvctest.Server, *paymentsvc.Client) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: secret}}, Scheme: scheme,
		Repeated: paymentsvctest.NewOrder,
	})
	cfg := srv.ClientConfig(42)
	cfg.Timeout = timeout
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return srv, client
}

func TestALostAnswerIsNotPaidTwice(t *testing.T) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,                  // yours: there is no default
		Repeated:  paymentsvctest.NewOrder, // or a second start is rejected, and stays unseen
	})
	cfg := srv.ClientConfig(42)
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))

	checkout(client, "order-1") // your code

	srv.AssertStarted(t, "order-1", 1)
	srv.AssertAllSigned(t)
	srv.AssertNoneRejected(t)
	if rule.Hits() == 0 {
		t.Error("the answer was never lost, so nothing was tested")
	}
}

func TestEachFaultStartsOnePaymentAtMost(t *testing.T) {
	srv, client := service(t, 2*time.Second)
	for _, fault := range paymentsvctest.AllFaults() {
		t.Run(fault.String(), func(t *testing.T) {
			rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), fault)
			defer rule.Remove()
			userData := "order for " + fault.String()
			checkout(client, userData)
			if n := srv.Started(userData); n > 1 {
				t.Errorf("%d payments were started", n)
			}
			if rule.Hits() == 0 {
				t.Error("the fault never happened")
			}
		})
	}
}

func TestNotificationsThatAreForgedAndRepeated(t *testing.T) {
	srv, client := service(t, time.Minute)
	handler := shop(t)
	checkout(client, "order-1")
	srv.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	order := srv.Orders()[0]
	rule := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(2))
	if _, err := srv.Settle(order.OrderID, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context())

	late, err := srv.Compose(order.OrderID, paymentsvc.StatusPending) // an old state, after the new one
	if err != nil {
		t.Fatal(err)
	}
	srv.Send(t.Context(), late)
	srv.AssertForgeriesRefused(t)
	if rule.Hits() == 0 {
		t.Error("nothing was forged, so nothing was tested")
	}
}

func TestUnderChaos(t *testing.T) {
	srv, client := service(t, 100*time.Millisecond)
	seed := srv.Chaos(paymentsvctest.Chaos{OneIn: 3}) // one request in three, and one notification
	for i := range 200 {
		checkout(client, fmt.Sprintf("order-%d", i))
	}
	srv.ClearFaults()
	if err := srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if n := srv.Started(fmt.Sprintf("order-%d", i)); n > 1 {
			t.Errorf("order-%d was started %d times, seed %d", i, n, seed)
		}
	}
	if len(srv.Orders()) == 0 {
		t.Error("no order was started, so nothing was tested")
	}
}

func TestTheReadmesTest(t *testing.T) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,                  // yours: there is no default
		Repeated:  paymentsvctest.NewOrder, // or a second start is rejected, and stays unseen
	})
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		t.Fatal(err)
	}
	// The payment is carried out, and its answer is lost.
	lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	checkout(client, "order-1") // your code

	srv.AssertStarted(t, "order-1", 1) // and not twice
	srv.AssertAllSigned(t)             // or it says why a signature is wrong
	if lost.Hits() == 0 {
		t.Error("the answer was never lost, so nothing was tested")
	}
}

func TestTheSchemeSignsAsTheOldCodeDid(t *testing.T) {
	for _, body := range []string{`{"partner_id":7,"amount":10.50}`, `{"user_data":"<é>"}`, `{}`} {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("1700000000\n" + body)) // as in the old code
		want := hex.EncodeToString(mac.Sum(nil))
		got, err := scheme.Signature(secret, &paymentsvc.Message{
			Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(body),
		})
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func sameFields(request paymentsvc.PaymentRequest, oldBody []byte) (bool, error) {
	newBody, err := request.JSON()
	if err != nil {
		return false, err
	}
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(oldBody, &was), json.Unmarshal(newBody, &is)); err != nil {
		return false, err
	}
	delete(was, "partner_id") // the Client adds the two
	delete(was, "project_id")
	return maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), nil
}

func TestTheOldBodyIsComparedWithTheNewOne(t *testing.T) {
	request := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1"}
	for old, want := range map[string]bool{
		`{"user_data":"order-1","amount":10.50,"project_id":42,"partner_id":7}`: true,
		`{"user_data":"order-1","amount":10.5,"project_id":42,"partner_id":7}`:  false,
	} {
		if same, err := sameFields(request, []byte(old)); err != nil || same != want {
			t.Errorf("%s: %t, %v", old, same, err)
		}
	}
}
