package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// demo is samples that are signed with a random composition. All of it is made up: the interface document shows
// neither the canonical string nor the encoding.
type demo struct {
	secret  paymentsvc.Secret
	hidden  string
	samples []sample
	raw     map[string]string // by the name of the sample
}

// newDemo signs two requests with the client, and a notification.
func newDemo(ctx context.Context) (*demo, error) {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	d := &demo{secret: paymentsvc.Secret("demo-" + hex.EncodeToString(key)), raw: map[string]string{}}

	hidden := compositions()
	drawn, err := rand.Int(rand.Reader, big.NewInt(int64(len(hidden))))
	if err != nil {
		return nil, err
	}
	return d, d.capture(ctx, hidden[drawn.Int64()])
}

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

// capture signs the samples with a scheme, whose key is the secret.
func (d *demo) capture(ctx context.Context, text string) error {
	d.hidden = text
	scheme, _, err := canonical.ParseSchemeWith(text, d.secret)
	if err != nil {
		return err
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: d.secret})
	if err != nil {
		return err
	}
	var captured []*http.Request
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example.com/v1", PartnerID: 1001, ProjectID: 2002, Signer: signer,
		HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			captured = append(captured, r)
			answer := `{"order_id":"00000000-0000-0000-0000-000000000000","status":1,"status_code":0,"payout_balance":0,"expected_balance":0,"currency":"EUR"}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
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
	notification, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/payments/notify", strings.NewReader(
		`{"status": 2, "status_code": 0, "status_description": "SUCCESS", "event": "payment.status_changed", "order_id": "o-1", "amount": 10.50}`))
	if err != nil {
		return err
	}
	if err := sign(notification, scheme, d.secret); err != nil {
		return err
	}
	for i, r := range append(captured, notification) {
		if err := d.add([]string{"init_payment.http", "get_balance.http", "notification.http"}[i], r); err != nil {
			return err
		}
	}
	return nil
}

// sign signs a notification, as the service does.
func sign(r *http.Request, scheme paymentsvc.Scheme, secret paymentsvc.Secret) error {
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m := &paymentsvc.Message{Kind: paymentsvc.KindNotification, Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: "1700000000", Body: text}
	signature, err := scheme.Signature(secret, m)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Timestamp", m.Timestamp)
	r.Header.Set("Signature", signature)
	return nil
}

// add writes a request as a capture, and parses it like any sample.
func (d *demo) add(name string, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\nHost: %s\n", r.Method, r.URL.RequestURI(), r.URL.Host)
	for _, header := range []string{"Content-Type", "Timestamp", "Signature"} {
		fmt.Fprintf(&b, "%s: %s\n", header, r.Header.Get(header))
	}
	fmt.Fprintf(&b, "Content-Length: %d\n\n%s\n", len(body), body)
	s, err := parseSample(name, b.Bytes())
	if err != nil {
		return err
	}
	d.samples = append(d.samples, s)
	d.raw[name] = b.String()
	return nil
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
