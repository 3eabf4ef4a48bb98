package docs_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"testing"

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
