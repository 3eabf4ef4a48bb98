package docs_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

type rotating struct {
	current atomic.Pointer[paymentsvc.HMACSigner]
}

func (r *rotating) Sign(req *http.Request, body []byte) error {
	return r.current.Load().Sign(req, body)
}

func canonicalString(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.Kind == paymentsvc.KindRequest {
		dst = append(dst, m.URL.EscapedPath()...)
	}
	dst = append(dst, m.Timestamp...)
	dst = append(dst, '.')
	return append(dst, m.Body...), nil
}

func signatureOfAMessage(t *testing.T) error {
	signature, err := scheme.Signature(secret, &paymentsvc.Message{
		Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(`{"partner_id":7,"project_id":42}`),
	})
	if err != nil {
		return err
	}
	if want := "the signature header of that message"; signature != want {
		t.Errorf("signature %s, want %s", signature, want)
	}
	return nil
}

func aKeyInHex(client *paymentsvc.Client) error {
	key, err := canonical.SecretHex.Read(secret) // or SecretBase64, SecretBase64Tail for whsec_…, SecretSHA256
	if err != nil {
		return err
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: scheme, Secret: key,
	})
	if err != nil {
		return err
	}
	client, err = client.ForProject(42, signer)
	_ = client
	return err
}

func rotation(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{"the new key", "the old key"},
		Tolerance: 5 * time.Minute,
		OnError: func(r *http.Request, err error) {
			slog.WarnContext(r.Context(), "notification rejected or not handled", "error", err)
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		if n.SecretIndex == 1 {
			slog.InfoContext(ctx, "the service still signs with the old key", "order_id", n.OrderID)
		}
		return orders.Apply(ctx, n)
	}))
	return nil
}
