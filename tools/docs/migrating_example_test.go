package docs_test

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
	"strconv"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

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

func payBefore(ctx context.Context, key []byte, orderID string, amount float64) error {
	body, err := json.Marshal(map[string]any{ // 0.1+0.2 is sent as 0.30000000000000004
		"partner_id": 7, "project_id": 42, "amount": amount, "user_data": orderID,
	})
	if err != nil {
		return err
	}
	for range 3 { // a lost answer is paid up to three times
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(timestamp + "\n" + string(body)))
		address := "https://pay.example.com/init_payment/card"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Timestamp", timestamp)
		req.Header.Set("Signature", hex.EncodeToString(mac.Sum(nil)))
		req.Header.Set("Idempotency-Key", orderID) // lets net/http send the request again by itself
		resp, err := http.DefaultClient.Do(req)    // no timeout, and a redirect takes the signature along
		if err != nil {
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode < 300 {
			return nil // the document shows an error in the same shape: this may be one
		}
	}
	return errors.New("payment failed") // or not
}

func pay(ctx context.Context, client *paymentsvc.Client, userData string, amount paymentsvc.Amount) error {
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: amount, UserData: userData,
	})
	switch {
	case err == nil:
		return sendPayerTo(payment.RedirectURL, payment.OrderID)
	case paymentsvc.SafeToRetry(err): // 401, 403: alert, fix the key or the clock, then retry
		return retryLater(userData) // with the same user_data, after a back-off
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		return reconcile(ctx, client, userData) // StatusPayment by user_data, never a second start
	default:
		return showRejection(userData) // rejected for good, or never valid
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

func shadow(webhook *paymentsvc.Webhook, old func(h http.Header, body []byte) bool) func(*http.Request, []byte) bool {
	return func(r *http.Request, body []byte) bool {
		accepted := old(r.Header, body)
		if err := webhook.Verify(r.Header, body); (err == nil) != accepted {
			slog.WarnContext(r.Context(), "the two verifications disagree", "old", accepted, "new", err)
		}
		return accepted
	}
}
