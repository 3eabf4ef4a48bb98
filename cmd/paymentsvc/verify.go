package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

func verifyCommand() cli.Command {
	return cli.Command{
		Name:    "verify",
		Summary: "Verify a captured message, and say why its signature is wrong",
		Usage:   "FILE|-",
		MaxArgs: 1,
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "tolerance",
			"timestamp-header", "signature-header"),
			cli.Flag{Name: "kind", Value: "KIND", Usage: "request or notification (default: a body with an event is a notification)"},
			cli.Flag{Name: "entry", Kind: cli.Int, Value: "N", Usage: "which message of a HAR file or a list", LineOnly: true},
		),
		Notes: "FILE is a captured message in one of the forms of discover.\n" +
			"Exit code 1 means that the message is not valid.",
		Examples: []string{
			"paymentsvc verify notification.http -tolerance any",
			"paymentsvc verify failed/0003.http -tolerance 5m -json",
		},
		Run: runVerify,
	}
}

func runVerify(_ context.Context, c *cli.Call) error {
	if len(c.Args) == 0 {
		return cli.Usagef("want FILE, or - for standard input")
	}
	m, err := readCapture(c, c.Args[0], capture.Options{Entry: int(c.Int("entry"))})
	if err != nil {
		return err
	}
	const usual = 64 << 10 // the default of WebhookConfig.MaxBodyBytes
	if len(m.Body) > usual {
		c.Note("the body has more than 64 KiB, which a Webhook rejects unless its MaxBodyBytes is higher")
	}
	plain, compressed := capture.Decompressed(m.Header, m.Body, maxMessage)
	if !compressed {
		plain = m.Body
	}
	kind, err := kindOf(c, plain)
	if err != nil {
		return err
	}
	v, err := newVerifier(c, kind)
	if err != nil {
		return err
	}
	result := v.verify(&http.Request{Method: m.Method, URL: m.URL, Host: m.URL.Host, Header: m.Header}, m.Body)
	if kind == paymentsvc.KindRequest {
		result.request = m.Method + " " + mask.Text(m.URL.Path)
	}
	c.Print("verified", struct {
		verdict
		File string `json:"file"`
	}{result, m.Source}, result.lines()...)
	if !result.Valid {
		switch result.Reason {
		case "signature_mismatch":
			c.Note("paymentsvc discover finds the scheme of a message that is known to be signed correctly")
		case "timestamp_too_old", "timestamp_too_new":
			c.Note("the signature is right; -tolerance any accepts every age")
		}
		return cli.No()
	}
	return nil
}

// readCapture reads the signed message of a file, and adds notes about possible losses.
func readCapture(c *cli.Call, file string, o capture.Options) (capture.Message, error) {
	data, err := c.ReadInput(file, file)
	if err != nil {
		return capture.Message{}, err
	}
	o.Open = func(name string) ([]byte, error) { return c.ReadInput(name, name) }
	name := file
	if file == "-" {
		name = "standard input"
	}
	m, err := capture.Read(data, name, o)
	if err != nil {
		return capture.Message{}, cli.Usagef("%w", err)
	}
	for _, note := range m.Notes {
		c.Note("%s: %s", m.Source, note)
	}
	if m.URL == nil {
		m.URL = &url.URL{}
	}
	return m, nil
}
