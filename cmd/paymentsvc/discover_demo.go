package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
)

// compositions returns the schemes of the demo.
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

// drawn returns a random composition.
func drawn() string {
	dice := make([]byte, 1)
	_, _ = rand.Read(dice) // never fails
	return compositions()[int(dice[0])%len(compositions())]
}

// demo signs samples with a hidden composition, and finds it. The compositions are invented, because the interface
// document specifies neither the canonical string nor the encoding.
func (d *discovery) demo(ctx context.Context, hidden string) error {
	d.options.Secret = paymentsvc.Secret("demo-" + rand.Text())
	d.Note("a demo: its secret, its samples and the way they are signed are made up; the service's own way is not shown")
	if err := d.demoSamples(hidden); err != nil {
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

// demoSamples signs two requests and a notification.
func (d *discovery) demoSamples(text string) error {
	scheme, key, err := canonical.ParseSchemeWith(text, d.options.Secret)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		kind                paymentsvc.MessageKind
		name, address, body string
	}{
		{paymentsvc.KindRequest, "init_payment.http", "https://pay.example.com/v1/init_payment/card",
			`{"partner_id":1001,"project_id":2002,"amount":10.50,"user_data":"order/1"}`},
		{paymentsvc.KindRequest, "get_balance.http", "https://pay.example.com/v1/get_balance",
			`{"partner_id":1001,"project_id":2002}`},
		{paymentsvc.KindNotification, "notification.http", "https://shop.example/payments/notify",
			`{"status": 2, "status_code": 0, "status_description": "SUCCESS", "event": "payment.status_changed", "order_id": "o-1", "amount": 10.50}`},
	} {
		u, err := url.Parse(m.address)
		if err != nil {
			return err
		}
		header := http.Header{"Content-Type": {"application/json"}, "Timestamp": {"1700000000"}}
		signature, err := scheme.Signature(key, &paymentsvc.Message{
			Kind: m.kind, Method: http.MethodPost, URL: u, Header: header, Timestamp: header.Get("Timestamp"), Body: []byte(m.body),
		})
		if err != nil {
			return err
		}
		header.Set("Signature", signature)
		s, err := d.sample(capture.Message{Method: http.MethodPost, URL: u, Header: header, Body: []byte(m.body), Source: m.name})
		if err != nil {
			return err
		}
		d.samples = append(d.samples, s)
	}
	return nil
}
