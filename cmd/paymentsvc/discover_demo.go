package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
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
func (d *discovery) demoSamples(text string) (err error) {
	var key cli.Key
	if key.Scheme, key.Secret, err = canonical.ParseSchemeWith(text, d.options.Secret); err != nil {
		return err
	}
	for _, sent := range [][2]string{
		{"https://pay.example.com/v1/init_payment/card", `{"partner_id":1001,"project_id":2002,"amount":10.50,"user_data":"order/1"}`},
		{"https://pay.example.com/v1/get_balance", `{"partner_id":1001,"project_id":2002}`},
		{"https://shop.example/payments/notification", `{"status": 2, "status_code": 0, "status_description": "SUCCESS", ` +
			`"event": "payment.status_changed", "order_id": "o-1", "amount": 10.50}`},
	} {
		u, err := url.Parse(sent[0])
		if err != nil {
			return err
		}
		kind, err := kindOf(d.Call, []byte(sent[1]))
		if err != nil {
			return err
		}
		m := newMessage(kind, http.MethodPost, u, 1700000000, []byte(sent[1]))
		if _, err := signMessage(key, m); err != nil {
			return err
		}
		s, err := d.sample(capture.Message{Method: m.Method, URL: u, Header: m.Header, Body: m.Body, Source: path.Base(u.Path)})
		if err != nil {
			return err
		}
		d.samples = append(d.samples, s)
	}
	return nil
}
