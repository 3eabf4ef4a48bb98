package docs_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// notice is a notification that the service could send.
const notice = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS","status_code":20,"amount":10.50}`

// received is a signed notification on its way to a webhook, and what a test may change about the two.
type received struct {
	scheme paymentsvc.Scheme // the webhook's
	header http.Header
	body   string
	now    time.Time // by the webhook's clock; at first the time of the signature
}

// refusedNotification gives what Webhook.Parse says of a notification with body, once change has changed it.
func refusedNotification(body string, change func(*received)) func(*testing.T) error {
	return func(t *testing.T) error {
		sent := time.Unix(1_700_000_000, 0)
		signature, err := scheme().Signature(secret, &paymentsvc.Message{
			Kind: paymentsvc.KindNotification, Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(body),
		})
		require.NoError(t, err)
		r := &received{
			scheme: scheme(), header: http.Header{"Timestamp": {"1700000000"}, "Signature": {signature}}, body: body, now: sent,
		}
		change(r)
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: r.scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute, Now: func() time.Time { return r.now },
		})
		require.NoError(t, err)
		_, err = webhook.Parse(r.header, []byte(r.body))
		return err
	}
}

// handled gives the error that Handler reports of a request.
func handled(r *http.Request) func(*testing.T) error {
	return func(t *testing.T) (reported error) {
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
			OnError: func(_ *http.Request, err error) { reported = err },
		})
		require.NoError(t, err)
		handler := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { return nil })
		handler.ServeHTTP(httptest.NewRecorder(), r)
		return reported
	}
}

// refusedNotifications are errors of a Webhook.
func refusedNotifications() map[string]func(t *testing.T) error {
	was := func(change func(*received)) func(*testing.T) error { return refusedNotification(notice, change) }
	request := func(method, body string) *http.Request {
		r := httptest.NewRequest(method, "/notifications", strings.NewReader(body))
		r.Header.Set("Timestamp", "1700000000")
		r.Header.Set("Signature", "00")
		return r
	}
	consumed := request(http.MethodPost, notice)
	_, _ = io.Copy(io.Discard, consumed.Body)
	broken := request(http.MethodPost, notice)
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader(notice[:40]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	return map[string]func(t *testing.T) error{
		"unsigned":                    was(func(r *received) { r.header.Del("Signature") }),
		"signed twice":                was(func(r *received) { r.header["signature"] = []string{"x"} }),
		"a timestamp that is text":    was(func(r *received) { r.header.Set("Timestamp", "2023-11-14T22:13:20Z") }),
		"a timestamp in milliseconds": was(func(r *received) { r.header.Set("Timestamp", "1700000000000") }),
		"written anew":                was(func(r *received) { r.body = strings.ReplaceAll(r.body, ",", ", ") }),
		"old":                         was(func(r *received) { r.now = r.now.Add(10 * time.Minute) }),
		"from the future":             was(func(r *received) { r.now = r.now.Add(-10 * time.Minute) }),
		"without its address":         was(func(r *received) { r.scheme.Canonical = canonical.Path }),
		"without a signed header":     was(func(r *received) { r.scheme.Canonical = canonical.Header("X-Request-Id") }),
		"without an amount":           refusedNotification(strings.Replace(notice, "amount", "sum", 1), func(*received) {}),
		"by GET":                      handled(request(http.MethodGet, "")),
		"read before":                 handled(consumed),
		"broken off":                  handled(broken),
		"large":                       handled(request(http.MethodPost, strings.Repeat(" ", 64<<10+1))),
	}
}
