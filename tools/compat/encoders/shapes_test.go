package encoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// canary represents a card number, a destination, a secret or the text of a response.
const canary = "CANARY-4000056655665556"

// subject is a type with the canary, in every shape for a log.
type subject struct {
	name   string
	shapes []shape
}

type shape struct {
	name  string
	value any
}

// shapesOf returns v in every shape. The caller passes embedded shapes, because no type parameter can be embedded.
func shapesOf[T any](v T, embedded ...any) []shape {
	p := &v
	all := []shape{
		{"value", v},
		{"pointer", p},
		{"pointer to pointer", &p},
		{"slice", []T{v}},
		{"slice of pointers", []*T{p}},
		{"slice of any", []any{v, p}},
		{"array", [1]T{v}},
		{"array of pointers", [1]*T{p}},
		{"map", map[string]T{"a": v}},
		{"map of pointers", map[string]*T{"a": p}},
		{"map of any", map[string]any{"a": v, "b": p}},
		{"struct", struct{ Field T }{v}},
		{"pointer to struct", &struct{ Field T }{v}},
		{"struct with pointer", struct{ Field *T }{p}},
		{"struct with any", struct{ Field, Pointer any }{v, p}},
		{"struct with slice", struct{ Field []T }{[]T{v}}},
		{"nested", struct{ A map[string][]struct{ B *T } }{map[string][]struct{ B *T }{"a": {{p}}}}},
		{"unexported value", struct{ field T }{v}},
		{"unexported pointer", struct{ field *T }{p}},
		{"unexported any", struct{ field any }{v}},
		{"unexported slice", struct{ field []T }{[]T{v}}},
		{"pointer to unexported value", &struct{ field T }{v}},
	}
	if reflect.ValueOf(v).Comparable() {
		keyed := reflect.MakeMap(reflect.MapOf(reflect.TypeFor[T](), reflect.TypeFor[int]()))
		keyed.SetMapIndex(reflect.ValueOf(v), reflect.ValueOf(1))
		all = append(all, shape{"map key", keyed.Interface()})
	}
	for _, e := range embedded {
		name := "embedded value"
		if reflect.TypeOf(e).Field(0).Type.Kind() == reflect.Pointer {
			name = "embedded pointer"
		}
		all = append(all, shape{name, e})
	}
	return all
}

// errorShapes returns the usual shapes of errors.
func errorShapes(err error) []shape {
	return []shape{
		{"error", err},
		{"wrapped", fmt.Errorf("wrapped: %w", err)},
		{"joined", errors.Join(errors.New("other"), err)},
		{"joined and wrapped", fmt.Errorf("%w, %w", errors.Join(err, err), err)},
		{"slice of errors", []error{err}},
		{"struct with error", struct{ Err error }{err}},
		{"unexported error", struct{ err error }{err}},
		{"joined in a struct", struct{ Err error }{errors.Join(err, err)}},
	}
}

func subjects(t *testing.T) []subject {
	t.Helper()
	scheme := paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex}
	secret := paymentsvc.Secret(canary)
	hmacConfig := paymentsvc.HMACConfig{Scheme: scheme, Secret: secret}
	webhookConfig := paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	}
	signer, err := paymentsvc.NewHMACSigner(hmacConfig)
	require.NoError(t, err)
	// The call fills the signer's buffers.
	require.NoError(t, signer.Sign(&http.Request{Method: http.MethodPost}, []byte(canary)))
	webhook, err := paymentsvc.NewWebhook(webhookConfig)
	require.NoError(t, err)
	config := paymentsvc.Config{BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer}
	client, err := paymentsvc.NewClient(config)
	require.NoError(t, err)
	payment, payout := canaryPayment(), canaryPayout()
	failure, service, malformed := canaryErrors()

	return []subject{
		{"PaymentRequest", shapesOf(payment,
			struct{ paymentsvc.PaymentRequest }{payment}, struct{ *paymentsvc.PaymentRequest }{&payment})},
		{"PayoutRequest", shapesOf(payout,
			struct{ paymentsvc.PayoutRequest }{payout}, struct{ *paymentsvc.PayoutRequest }{&payout})},
		{"Secret", shapesOf(secret, struct{ paymentsvc.Secret }{secret}, struct{ *paymentsvc.Secret }{&secret})},
		{"HMACConfig", shapesOf(hmacConfig,
			struct{ paymentsvc.HMACConfig }{hmacConfig}, struct{ *paymentsvc.HMACConfig }{&hmacConfig})},
		{"WebhookConfig", shapesOf(webhookConfig,
			struct{ paymentsvc.WebhookConfig }{webhookConfig}, struct{ *paymentsvc.WebhookConfig }{&webhookConfig})},
		{"Config", shapesOf(config, struct{ paymentsvc.Config }{config}, struct{ *paymentsvc.Config }{&config})},
		{"Client", shapesOf(*client, struct{ paymentsvc.Client }{*client}, struct{ *paymentsvc.Client }{client})},
		{"HMACSigner", shapesOf(*signer,
			struct{ paymentsvc.HMACSigner }{*signer}, struct{ *paymentsvc.HMACSigner }{signer})},
		{"Webhook", shapesOf(*webhook, struct{ paymentsvc.Webhook }{*webhook}, struct{ *paymentsvc.Webhook }{webhook})},
		{"Error", append(errorShapes(&failure), shapesOf(failure,
			struct{ paymentsvc.Error }{failure}, struct{ *paymentsvc.Error }{&failure})...)},
		{"ServiceError", append(errorShapes(&service), shapesOf(service,
			struct{ paymentsvc.ServiceError }{service}, struct{ *paymentsvc.ServiceError }{&service})...)},
		{"NotificationError", append(errorShapes(&malformed), shapesOf(malformed,
			struct{ paymentsvc.NotificationError }{malformed}, struct{ *paymentsvc.NotificationError }{&malformed})...)},
		{"errors", errorShapes(errors.Join(&failure, &service, &malformed))},
	}
}

func canaryPayment() paymentsvc.PaymentRequest {
	type card struct{ Number string }
	return paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
		CardData: map[string]any{"number": canary}, Browser: json.RawMessage(`{"n":"` + canary + `"}`),
		Payer: card{canary}, Payee: &card{canary},
	}
}

func canaryPayout() paymentsvc.PayoutRequest {
	return paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), Destination: canary, UserData: "payout-1",
	}
}

// canaryErrors returns errors of a call and of a notification with the canary in their bytes.
func canaryErrors() (paymentsvc.Error, paymentsvc.ServiceError, paymentsvc.NotificationError) {
	service := paymentsvc.ServiceError{Code: canary, Message: canary}
	failure := paymentsvc.Error{
		Endpoint: "init_payment/card", Attempts: 1, HTTPStatus: 400, Header: http.Header{"Echo": {canary}},
		Body: []byte(canary), Err: &service,
	}
	return failure, service, paymentsvc.NotificationError{Raw: []byte(canary), Err: errors.New("event: missing")}
}
