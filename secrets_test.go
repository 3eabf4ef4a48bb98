package paymentsvc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

const canary = "CANARY-4000056655665556"

// spellings are the ways in which a formatter can spell the canary out under one format.
func spellings(format string) []string {
	found := []string{canary}
	for _, v := range []any{canary, []byte(canary), []rune(canary)} {
		spelled := fmt.Sprintf(format, v)
		spelled = strings.TrimPrefix(strings.TrimPrefix(spelled, "[]byte"), "[]int32")
		found = append(found, strings.Trim(spelled, `[]{}"`))
	}
	return found
}

// Verbs of fmt: all but %p and %T, which never call a method, and those that make sense of an error.
const (
	allVerbs   = "vtbcdoOqxXUeEfFgGs"
	errorVerbs = "vsqxX"
)

func formats(verbs string) []string {
	var all []string
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "# ", "20.10", ".3"} {
			all = append(all, "%"+flags+string(verb))
		}
	}
	return all
}

// showsNothing searches all that fmt, log/slog and, where told, encoding/json make of v for the canary.
func showsNothing(t *testing.T, name string, v any, verbs string, asJSON bool) {
	t.Helper()
	for _, format := range formats(verbs) {
		text := fmt.Sprintf(format, v)
		for _, spelled := range spellings(format) {
			if strings.Contains(text, spelled) && len(spelled) > 3 {
				t.Errorf("%s shows the canary under %s as %q: %s", name, format, spelled, text)
				return
			}
		}
	}
	var out bytes.Buffer
	handlers := []slog.Handler{slog.NewTextHandler(&out, nil)}
	if asJSON {
		handlers = append(handlers, slog.NewJSONHandler(&out, nil))
	}
	for _, handler := range handlers {
		slog.New(handler).With("with", v).Info("message", "value", v, slog.Group("group", "value", v))
	}
	if asJSON {
		data, err := json.Marshal(v)
		if err != nil {
			data = []byte(err.Error()) // functions have no JSON
		}
		out.Write(data)
	}
	for _, spelled := range append(spellings("%s"), spellings("%x")...) {
		assert.NotContains(t, out.String(), spelled, name)
	}
	assert.NotContains(t, out.String(), base64Of(canary), name)
}

func base64Of(s string) string {
	data, _ := json.Marshal([]byte(s))
	return strings.Trim(string(data), `"=`)[:len(s)] // as far as it does not depend on what follows
}

func TestNothingSecretIsShown(t *testing.T) {
	scheme := testScheme()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: canary})
	require.NoError(t, err)
	webhookConfig := paymentsvc.WebhookConfig{Scheme: scheme, Secrets: []paymentsvc.Secret{canary, canary + "2"}, Tolerance: time.Minute}
	webhook, err := paymentsvc.NewWebhook(webhookConfig)
	require.NoError(t, err)
	config := paymentsvc.Config{BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer}
	client, err := paymentsvc.NewClient(config)
	require.NoError(t, err)
	project, err := client.ForProject(3, signer)
	require.NoError(t, err)
	secret := paymentsvc.Secret(canary)
	hmacConfig := paymentsvc.HMACConfig{Scheme: scheme, Secret: secret}

	for name, v := range map[string]any{
		"Secret": secret, "*Secret": &secret, "[]Secret": []paymentsvc.Secret{secret},
		"Config": config, "*Config": &config, "[]Config": []paymentsvc.Config{config},
		"HMACConfig": hmacConfig, "*HMACConfig": &hmacConfig,
		"WebhookConfig": webhookConfig, "*WebhookConfig": &webhookConfig,
		"*HMACSigner": signer, "HMACSigner": *signer, "*Client": client, "Client": *client, "ForProject": project,
		"*Webhook": webhook, "Webhook": *webhook, "Handler": webhook.Handler(nil),
		"in exported fields": struct {
			Secret  paymentsvc.Secret
			Pointer *paymentsvc.Secret
			Any     any
			Config  paymentsvc.Config
			Client  *paymentsvc.Client
			Signer  paymentsvc.Signer
			Webhook *paymentsvc.Webhook
		}{secret, &secret, secret, config, client, signer, webhook},
		"in unexported fields, where fmt calls no method": struct {
			config    paymentsvc.Config
			pointer   *paymentsvc.Config
			client    paymentsvc.Client
			clients   []*paymentsvc.Client
			signer    paymentsvc.HMACSigner
			signers   []paymentsvc.Signer
			webhook   paymentsvc.Webhook
			byPointer *paymentsvc.Webhook
			any       []any
		}{
			config, &config, *client, []*paymentsvc.Client{client, project}, *signer, []paymentsvc.Signer{signer}, *webhook, webhook,
			[]any{client, *client, signer, *signer, webhook, *webhook, config},
		},
	} {
		showsNothing(t, name, v, allVerbs, true)
	}
}

func canaryPayment() paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("1"), UserData: "u",
		CardData: map[string]any{"number": canary}, Browser: json.RawMessage(`{"agent":"` + canary + `"}`),
		Payer: struct{ Name string }{canary}, Payee: &struct{ Name string }{canary},
	}
}

func canaryPayout() paymentsvc.PayoutRequest {
	return paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: "u", Destination: canary}
}

func TestRequestsShowNoCardData(t *testing.T) {
	payment, payout := canaryPayment(), canaryPayout()
	for name, v := range map[string]any{
		"PaymentRequest": payment, "*PaymentRequest": &payment, "[]PaymentRequest": []paymentsvc.PaymentRequest{payment},
		"PayoutRequest": payout, "*PayoutRequest": &payout, "[]*PayoutRequest": map[string]paymentsvc.PayoutRequest{"a": payout},
		"in exported fields": struct {
			Payment paymentsvc.PaymentRequest
			Payout  paymentsvc.PayoutRequest
			Any     any
		}{payment, payout, payout},
	} {
		showsNothing(t, name, v, allVerbs, true)
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("message", "payment", payment, "payout", &payout)
	assert.Contains(t, out.String(), `"card_data":"[redacted]"`)
	assert.Contains(t, out.String(), `"destination":"[redacted]"`, "an own value of slog is still useful")
	assert.Equal(t, fmt.Sprint(payment), payment.String())
	assert.Equal(t, fmt.Sprint(payout), payout.String())

	assert.Equal(t, `PaymentRequest{Amount: 10.50, UserData: "order-1", CardData: none, Browser: none, Payer: none, Payee: none}`,
		fmt.Sprint(paymentRequest()))
	assert.Equal(t, `PayoutRequest{Amount: 10.50, Destination: [redacted], UserData: "payout-1"}`, fmt.Sprint(payoutRequest()))
}

func TestErrorsShowNothingOfRequestsAndAnswers(t *testing.T) {
	echo := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"code":"`+canary+`","message":"`+canary+`","order_id":"`+canary+`"}`)
		}
	}
	raw := func(answer string) string {
		return newRawServer(t, func(c *net.TCPConn, _ int) bool { write(c, answer); return false }).base()
	}
	served := func(h http.HandlerFunc) string {
		mux := http.NewServeMux()
		mux.Handle("/", h)
		return newServer(t, mux)
	}
	decodes := func(cfg *paymentsvc.Config) { cfg.DecodeError = paymentsvc.ErrorFields("code", "message") }
	short := func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = 40 }

	type fault struct {
		base   string
		option func(*paymentsvc.Config)
	}
	none := func(*paymentsvc.Config) {}
	for name, f := range map[string]fault{
		"200 of another shape":         {served(echo(200)), none},
		"400":                          {served(echo(400)), none},
		"401":                          {served(echo(401)), none},
		"500":                          {served(echo(500)), none},
		"a reported error":             {served(echo(200)), decodes},
		"an oversized answer":          {served(echo(200)), short},
		"a redirect":                   {served(echo(307, "Location", "https://"+canary+".example.com/"+canary)), none},
		"a redirect to nowhere":        {served(echo(307, "Location", "::"+canary)), none},
		"a refused connection":         {refusingPort(t), none},
		"an answer that is not HTTP":   {raw(canary + " " + canary + "\r\n\r\n"), none},
		"a status that is none":        {raw("HTTP/1.1 " + canary + "\r\n\r\n"), none},
		"a header that is none":        {raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), none},
		"a length that is none":        {raw("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n"), none},
		"an encoding that is none":     {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n"), none},
		"an echo cut off":              {raw("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + canary), none},
		"a signer's refusal to encode": {"http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.Signer = failingSigner{} }},
	} {
		c := newClient(t, f.base, f.option)
		_, payment := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
		_, payout := c.InitPayout(t.Context(), canaryPayout())
		_, form := c.InitForm(t.Context(), canaryPayment())
		_, invoice := c.InitInvoice(t.Context(), canaryPayment())
		_, status := c.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "o"})
		for _, err := range []error{payment, payout, form, invoice, status} {
			if err == nil {
				assert.Equal(t, "200 of another shape", name, "any object answers a status call")
				continue
			}
			errorShowsNothing(t, name, err)
		}
	}
}

func TestValidationErrorsShowNothingOfTheRequest(t *testing.T) {
	c := newClient(t, "http://127.0.0.1")
	for name, card := range map[string]any{
		"text":                         canary,
		"a list":                       []string{canary},
		"text that is not UTF-8":       map[string]any{"holder": canary + "\xff"},
		"a number that is none":        map[string]any{"number": json.Number(canary)},
		"JSON that is none":            json.RawMessage(`{"number":` + canary + `}`),
		"a marshaler that complains":   complainer{},
		"something that has no JSON":   map[string]any{canary: func() {}},
		"a field that has no JSON":     struct{ CANARY func() }{},
		"text of a marshaler, invalid": map[string]any{"a": json.RawMessage("\"" + canary + "\xff\"")},
	} {
		r := canaryPayment()
		r.CardData = card
		_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, r)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, name)
		errorShowsNothing(t, name, err)
	}
	payout := canaryPayout()
	payout.UserData = canary + "\xff"
	_, err := c.InitPayout(t.Context(), payout)
	errorShowsNothing(t, "user_data", err)
	_, err = c.InitPayment(t.Context(), canary, canaryPayment())
	errorShowsNothing(t, "a payment type", err)
	_, err = paymentsvc.ParseAmount(canary)
	errorShowsNothing(t, "an amount", err)
	var amount paymentsvc.Amount
	errorShowsNothing(t, "an amount in JSON", amount.UnmarshalJSON([]byte(`"`+canary+`"`)))
	errorShowsNothing(t, "an amount in a column", amount.Scan(canary))
	var request paymentsvc.PaymentRequest
	errorShowsNothing(t, "a request in JSON", json.Unmarshal([]byte(`{"amount":"`+canary+`"}`), &request))
}

func TestNotificationErrorsShowNothingOfTheBody(t *testing.T) {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: paymentsvc.Scheme{Canonical: bodyOnly, Encoding: paymentsvc.Hex}, Secrets: []paymentsvc.Secret{testSecret},
		Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	for name, body := range map[string]string{
		"not JSON":     canary,
		"another type": `{"event":["` + canary + `"]}`,
		"another name": `{"` + canary + `":1}`,
		"an amount":    `{"amount":"` + canary + `"}`,
	} {
		signature, err := paymentsvc.Scheme{Canonical: bodyOnly, Encoding: paymentsvc.Hex}.
			Signature(testSecret, &paymentsvc.Message{Body: []byte(body)})
		require.NoError(t, err)
		_, err = webhook.Parse(http.Header{"Timestamp": {"1"}, "Signature": {signature}}, []byte(body))
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification, name)
		errorShowsNothing(t, name, err)
		var malformed *paymentsvc.NotificationError
		require.ErrorAs(t, err, &malformed)
		errorShowsNothing(t, name+", copied", *malformed)

		_, err = webhook.Parse(http.Header{"Timestamp": {canary}, "Signature": {canary}}, []byte(body))
		errorShowsNothing(t, name+", forged", err)
	}
}

func bodyOnly(dst []byte, m *paymentsvc.Message) ([]byte, error) { return append(dst, m.Body...), nil }

// errorShowsNothing looks at an error, at a copy of it, and at the text of all that it wraps within this module.
func errorShowsNothing(t *testing.T, name string, v any) {
	t.Helper()
	err, _ := v.(error)
	showsNothing(t, name, v, allVerbs, true)
	// Of what stands inside another error or an unexported field, a verb that makes no sense prints the fields
	// without asking, so no method can help there.
	showsNothing(t, name+", wrapped", fmt.Errorf("wrapped: %w", asError(v)), errorVerbs, true)
	showsNothing(t, name+", in a struct", struct{ Err error }{err}, errorVerbs, true)
	showsNothing(t, name+", in an unexported field", struct {
		err  error
		errs []error
	}{err, []error{err}}, "v", true)
	var e *paymentsvc.Error
	if errors.As(err, &e) {
		showsNothing(t, name+", copied", *e, allVerbs, true)
		showsNothing(t, name+", its reason", e.Err.Error(), errorVerbs, true)
	}
	var service *paymentsvc.ServiceError
	if errors.As(err, &service) {
		showsNothing(t, name+", reported", service, allVerbs, true)
		showsNothing(t, name+", reported and copied", *service, allVerbs, true)
	}
}

func asError(v any) error {
	if err, ok := v.(error); ok {
		return err
	}
	return errors.New("no error")
}

type failingSigner struct{}

func (failingSigner) Sign(*http.Request, []byte) error { return errors.New("no key") }

// complainer is a json.Marshaler whose error quotes what it holds.
type complainer struct{}

func (complainer) MarshalJSON() ([]byte, error) { return nil, errors.New("bad card " + canary) }

func TestAPanicBehindASecretShowsNothing(t *testing.T) {
	scheme := paymentsvc.Scheme{
		Canonical: func([]byte, *paymentsvc.Message) ([]byte, error) { panic("canonical") }, Encoding: paymentsvc.Hex,
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: canary})
	require.NoError(t, err)
	defer func() { assert.Equal(t, "canonical", recover(), "the caller's own panic reaches the caller as it is") }()
	c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.Signer = signer })
	_, _ = c.GetBalance(context.Background())
}
