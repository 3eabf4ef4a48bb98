package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/discover"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func verifyCommand() cli.Command {
	return cli.Command{
		Name:    "verify",
		Summary: "Verify a captured message, and explain a wrong signature",
		Usage:   "FILE|-",
		MaxArgs: 1,
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "tolerance",
			"timestamp-header", "signature-header"),
			kindFlag("request or notification (default: a body with an event is a notification)"),
			cli.NewFlag("entry", cli.Int, "N", "number of the message in a HAR file or a list").Checked(cli.AtLeast(1)).OnLine(),
		),
		Notes: "FILE is a captured message in a form that \"discover\" reads, except headers with -body.\n" +
			"Exit code 1: the message is invalid.",
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
	kind := kindOf(c, plain)
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
			c.Note("paymentsvc discover finds the scheme from a correctly signed message")
		case "timestamp_too_old", "timestamp_too_new":
			c.Note("the signature is correct; -tolerance any accepts every age")
		}
		return cli.No()
	}
	return nil
}

// verifier verifies messages of one kind with a Webhook of the SDK for each accepted secret.
type verifier struct {
	kind      paymentsvc.MessageKind
	keys      []cli.Key
	webhooks  []*paymentsvc.Webhook
	explainer *discover.Explainer
	now       func() time.Time
	timestamp string // a header name
	signature string // a header name
}

func newVerifier(c *cli.Call, kind paymentsvc.MessageKind) (*verifier, error) {
	tolerance, err := c.Tolerance()
	if err != nil {
		return nil, err
	}
	v := &verifier{kind: kind, now: c.Now, timestamp: c.Text("timestamp-header"), signature: c.Text("signature-header")}
	v.keys, err = c.Keys()
	if err != nil {
		return nil, err
	}
	for _, key := range v.keys {
		scheme := key.Scheme
		scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
			message := *m
			message.Kind = kind // a Webhook sets KindNotification
			return key.Scheme.Canonical(dst, &message)
		}
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: scheme, Secrets: []paymentsvc.Secret{key.Secret}, SecretEndsInLineBreak: true,
			Tolerance: tolerance, MaxBodyBytes: maxMessage, Now: c.Now,
		})
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		v.webhooks = append(v.webhooks, webhook)
	}
	text, seenIn := cutSeen(v.keys[0].Text)
	if seenIn == requests && kind == paymentsvc.KindNotification {
		c.Note("the scheme was seen in requests only, and notifications may have another scheme: run discover -listen")
	}
	v.explainer = &discover.Explainer{Scheme: v.keys[0].Scheme, Secret: v.keys[0].Secret, Text: text}
	return v, nil
}

// verdict is the result of a verification. Its texts contain no secret, card number or destination.
type verdict struct {
	Valid          bool   `json:"valid"`
	SignatureValid bool   `json:"signature_valid"`
	Reason         string `json:"reason"` // "" for a valid message
	Message        string `json:"message"`
	OldSecret      bool   `json:"old_secret"`
	Decompressed   bool   `json:"decompressed"` // the signature covers the decompressed body
	Age            *int64 `json:"age_seconds"`  // negative for the future; nil without a readable timestamp
	summary
	Difference *difference `json:"difference"`
}

type difference struct {
	Offset   int    `json:"offset"`
	Signed   string `json:"signed"`
	Expected string `json:"expected"`
}

// verify checks r with the given body and ignores r.Body. r.URL may lack the host if r.Host has it. If the signature
// does not match a compressed body, verify also checks the decompressed body.
func (v *verifier) verify(r *http.Request, body []byte) verdict {
	result := v.verifyBody(r, body)
	plain, compressed := capture.Decompressed(r.Header, body, maxMessage)
	if !compressed || result.Reason == "body_too_large" {
		return result
	}
	if result.SignatureValid {
		result.Message += compressedNote
		return result
	}
	if other := v.verifyBody(r, plain); other.SignatureValid {
		other.Decompressed = true
		return other
	}
	return result
}

const compressedNote = ": the signature covers the received, compressed body"

func (v *verifier) verifyBody(r *http.Request, body []byte) verdict {
	named := v.named(r, body)
	result := verdict{summary: summaryOf(body)}
	if seconds, err := strconv.ParseInt(named.Header.Get("Timestamp"), 10, 64); err == nil {
		age := v.now().Unix() - seconds
		result.Age = &age
	}
	var err error
	for i, webhook := range v.webhooks {
		named.Body = io.NopCloser(bytes.NewReader(body))
		_, err = webhook.ParseRequest(named)
		if !errors.Is(err, paymentsvc.ErrSignatureMismatch) {
			result.OldSecret = v.keys[i].Old
			break
		}
	}
	if v.kind == paymentsvc.KindRequest && errors.Is(err, paymentsvc.ErrMalformedNotification) {
		err = nil // a correctly signed request need not be a notification
	}
	result.decide(err)
	if errors.Is(err, paymentsvc.ErrSignatureMismatch) {
		v.explain(&result, named, body)
	}
	return result
}

// named returns a copy of r with the header names of the interface document, and with the length of body.
func (v *verifier) named(r *http.Request, body []byte) *http.Request {
	named := r.Clone(r.Context())
	for name, from := range map[string]string{"Timestamp": v.timestamp, "Signature": v.signature} {
		if !strings.EqualFold(name, from) {
			named.Header[name] = r.Header.Values(from)
		}
	}
	named.ContentLength = int64(len(body))
	return named
}

func (d *verdict) decide(err error) {
	if err == nil {
		d.Valid, d.SignatureValid = true, true
		return
	}
	d.Message = strings.TrimPrefix(strings.TrimPrefix(err.Error(), "paymentsvc: "), "notification: ")
	for _, known := range []struct {
		err       error
		reason    string
		signature bool
	}{
		{paymentsvc.ErrMissingHeader, "missing_header", false},
		{paymentsvc.ErrMalformedHeader, "malformed_header", false},
		{paymentsvc.ErrEmptyBody, "empty_body", false},
		{paymentsvc.ErrBodyTooLarge, "body_too_large", false},
		{paymentsvc.ErrSignatureMismatch, "signature_mismatch", false},
		{paymentsvc.ErrTimestampTooOld, "timestamp_too_old", true},
		{paymentsvc.ErrTimestampTooNew, "timestamp_too_new", true},
		{paymentsvc.ErrMalformedNotification, "malformed_notification", true},
	} {
		if errors.Is(err, known.err) {
			d.Reason, d.SignatureValid = known.reason, known.signature
			return
		}
	}
	d.Reason = "scheme" // the scheme has no canonical string for this message
}

// explain sets Message and, if possible, Difference for a wrong signature. It uses only the first key.
func (v *verifier) explain(d *verdict, r *http.Request, body []byte) {
	address := *r.URL
	address.Host = cmp.Or(address.Host, r.Host)
	key := v.keys[0]
	message := &paymentsvc.Message{
		Kind: v.kind, Method: r.Method, URL: &address, Header: r.Header,
		Timestamp: r.Header.Get("Timestamp"), Body: body,
	}
	mistake := v.explainer.Explain(message, r.Header.Get("Signature"))
	d.Message = cli.MaskAll(v.keys, mistake.Text)
	if mistake.Message == nil {
		return
	}
	if !bytes.Equal(mistake.Message.Body, body) {
		d.Message += ": the body changed after signing, or the sender signed another form of it"
	}
	expected, _ := key.Scheme.Canonical(nil, message) // Explain has already computed this string
	at := paymentsvctest.NewDifference(mistake.Canonical, expected, message.Timestamp)
	if at == nil {
		return
	}
	// The canonical string may contain the secret in any form, and a destination without its name. So the texts come from
	// a scheme and bodies with placeholders. MaskAll runs before NewDifference cuts the texts, because MaskAll does not
	// recognize a part of a secret.
	shown := func(m paymentsvc.Message) []byte {
		m.Body, _ = mask.Body(m.Body)
		text, _ := key.Shown.Canonical(nil, &m)
		return []byte(cli.MaskAll(v.keys, string(text)))
	}
	around := paymentsvctest.NewDifference(shown(*mistake.Message), shown(*message), message.Timestamp, "<secret>")
	if around != nil {
		d.Difference = &difference{at.Offset, around.Signed, around.Expected}
	}
}

// lines returns the verdict as text.
func (d *verdict) lines() []string {
	if d.Valid {
		line := "valid  " + d.String()
		if d.OldSecret {
			line += ", with the old secret"
		}
		if d.Age != nil {
			line += ", signed " + ageText(*d.Age)
		}
		if d.Decompressed {
			line += ", over the decompressed body"
		}
		return []string{line}
	}
	lines := []string{"wrong  " + d.Message}
	if d.Difference != nil {
		lines = append(lines,
			"       signed    '"+d.Difference.Signed+"'",
			fmt.Sprintf("       expected  '%s'  first difference at byte %d", d.Difference.Expected, d.Difference.Offset))
	}
	return lines
}

func ageText(seconds int64) string {
	age, direction := seconds, " ago"
	if seconds < 0 {
		age, direction = -seconds, " ahead of the clock"
	}
	if days := age / (24 * 60 * 60); days > 1 {
		return strconv.FormatInt(days, 10) + " days" + direction
	}
	return (time.Duration(age) * time.Second).String() + direction
}
