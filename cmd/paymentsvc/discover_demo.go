package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
)

// compositions returns the schemes that the demo chooses from.
func compositions() []string {
	return []string{
		`hex(timestamp "." body)`,
		`base64(method "\n" path "\n" timestamp "\n" hex(sha256(body)))`,
		`HEX(fields(sorted, "=", "&") "&key=" secret)`,
		`base64url-raw(timestamp "|" lower(method) "|" body-sorted)`,
		`prefixed("sha256=", hex)(hex(sha256(timestamp path body)))`,
		`hex(timestamp "." method path "\n" body)`,
	}
}

// drawn returns one of the compositions by chance.
func drawn() string {
	dice := make([]byte, 1)
	_, _ = rand.Read(dice) // never fails
	return compositions()[int(dice[0])%len(compositions())]
}

// demo signs samples with a hidden composition, and finds it. All of it is made up: the interface document shows
// neither the canonical string nor the encoding.
func (d *discovery) demo(ctx context.Context, hidden string) error {
	d.options.Secret = paymentsvc.Secret("demo-" + rand.Text())
	d.Note("a demo: its secret, its samples and the way they are signed are made up; the service's own way is not shown")
	if err := d.demoSamples(ctx, hidden); err != nil {
		return err
	}
	for _, s := range d.samples {
		var b bytes.Buffer
		if err := capture.Write(&b, s.captured); err != nil {
			return err
		}
		lines := []string{"sample " + s.Name}
		for line := range strings.Lines(b.String()) {
			lines = append(lines, strings.TrimRight("       "+line, "\r\n "))
		}
		d.Print("sample", struct {
			Name string `json:"name"`
			HTTP string `json:"http"`
		}{s.Name, b.String()}, lines...)
	}
	results, err := d.search(ctx, d.samples)
	if err != nil {
		return err
	}
	err = d.report(ctx, results)
	d.Print("hidden", textJSON{hidden}, "hidden "+hidden)
	return err
}

// demoSamples signs two requests with the client, and a notification, with a scheme whose key is the secret.
func (d *discovery) demoSamples(ctx context.Context, text string) error {
	scheme, _, err := canonical.ParseSchemeWith(text, d.options.Secret)
	if err != nil {
		return err
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: d.options.Secret})
	if err != nil {
		return err
	}
	names := []string{"init_payment.http", "get_balance.http", "notification.http"}
	add := func(r *http.Request) error {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		u := *r.URL
		m := capture.Message{Method: r.Method, URL: &u, Header: r.Header.Clone(), Body: data, Source: names[len(d.samples)]}
		s, err := d.sample(m)
		d.samples = append(d.samples, s)
		return err
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example.com/v1", PartnerID: 1001, ProjectID: 2002, Signer: signer,
		HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			answer := `{"order_id":"00000000-0000-0000-0000-000000000000","status":1,"status_code":0,` +
				`"payout_balance":0,"expected_balance":0,"currency":"EUR"}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, add(r)
		})},
	})
	if err != nil {
		return err
	}
	payment := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order/1"}
	if _, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, payment); err != nil {
		return err
	}
	if _, err := client.GetBalance(ctx); err != nil {
		return err
	}
	body := `{"status": 2, "status_code": 0, "status_description": "SUCCESS", "event": "payment.status_changed", "order_id": "o-1", "amount": 10.50}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/payments/notify", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Timestamp", "1700000000")
	signature, err := scheme.Signature(d.options.Secret, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: "1700000000", Body: []byte(body),
	})
	if err != nil {
		return fmt.Errorf("signing the notification: %w", err)
	}
	r.Header.Set("Signature", signature)
	return add(r)
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
