package migrating_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	"github.com/paymentsvc/paymentsvc/tools/docs/migrating"
	"github.com/paymentsvc/paymentsvc/tools/docs/migrating/after"
)

type client interface {
	Balance(ctx context.Context) (string, error)
	Pay(ctx context.Context, userData string, cents int64) (string, error)
	Notifications(paid func(ctx context.Context, userData string) error) http.Handler
}

const key = "the-key-of-the-migration"

var scheme = paymentsvc.Scheme{
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
}

func TestOldClientPaysTwiceAfterALostResponse(t *testing.T) {
	testClient(t, func(url string) (client, error) { return migrating.New(url, key) }, 2)
}

func TestNewClientPaysOnceAfterALostResponse(t *testing.T) {
	testClient(t, func(url string) (client, error) { return after.New(url, key) }, 1)
}

// testClient runs all methods of a client, and requires this number of starts after a lost response.
func testClient(t *testing.T, create func(url string) (client, error), starts int) {
	t.Helper()
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: key}}, Repeated: paymentsvctest.NewOrder,
		Scheme: scheme,
	})
	client, err := create(srv.URL)
	require.NoError(t, err)
	balance, err := client.Balance(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, balance)

	address, err := client.Pay(t.Context(), "order-1", 1050)
	require.NoError(t, err)
	assert.NotEmpty(t, address)
	assert.True(t, srv.Orders()[0].Amount.Equal(paymentsvc.MustParseAmount("10.50")))
	lost := srv.Fault(
		paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit),
	)
	_, err = client.Pay(t.Context(), "order-2", 1050)
	assert.Equal(t, starts == 1, err != nil)
	srv.AssertStarted(t, "order-2", starts)
	assert.Equal(t, 1, lost.Hits())

	var paid []string
	srv.SetReceiver(paymentsvctest.ToHandler(client.Notifications(func(_ context.Context, userData string) error {
		paid = append(paid, userData)
		return nil
	}), "/notifications"))
	success, err := srv.Compose(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	require.NoError(t, err)
	deliveries := srv.Send(t.Context(), success, paymentsvctest.Forged())
	require.Len(t, deliveries, 2)
	assert.True(t, deliveries[1].Accepted())
	srv.AssertForgeriesRefused(t)
	assert.Equal(t, []string{"order-1"}, paid)
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
	delete(was, "partner_id") // Client adds both ids
	delete(was, "project_id")
	return maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), nil
}

func TestSameFieldsComparesValues(t *testing.T) {
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

func TestSchemeSignsLikeTheOldCode(t *testing.T) {
	for _, body := range []string{`{"partner_id":7,"amount":10.50}`, `{"user_data":"<é>"}`, `{}`} {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("1700000000\n" + body)) // as in the old code
		want := hex.EncodeToString(mac.Sum(nil))
		got, err := scheme.Signature(key, &paymentsvc.Message{
			Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(body),
		})
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func shadow(webhook *paymentsvc.Webhook, old func(h http.Header, body []byte) bool) func(*http.Request, []byte) bool {
	return func(r *http.Request, body []byte) bool {
		accepted := old(r.Header, body)
		if err := webhook.Verify(r.Header, body); (err == nil) != accepted {
			slog.WarnContext(r.Context(), "the two verifications disagree", "old", accepted, "new", err)
		}
		return accepted
	}
}

func TestShadowDecidesLikeTheOldCode(t *testing.T) {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{key}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	unsigned := httptest.NewRequest(http.MethodPost, "/notifications", nil)
	for _, accepted := range []bool{true, false} {
		old := func(http.Header, []byte) bool { return accepted }
		assert.Equal(t, accepted, shadow(webhook, old)(unsigned, []byte("{}")))
	}
}
