package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// maxMessage bounds the messages of listen and verify. The bound is theirs: the document shows none.
const maxMessage = 1 << 20

// verifier verifies messages with the SDK's own Webhook, one for each accepted secret.
type verifier struct {
	keys      []cli.Key
	webhooks  [][2]*paymentsvc.Webhook // for notifications and for requests
	now       func() time.Time
	timestamp string // the names of the two headers
	signature string
}

func newVerifier(c *cli.Call) (*verifier, error) {
	tolerance, err := c.Tolerance()
	if err != nil {
		return nil, err
	}
	v := &verifier{now: c.Now, timestamp: c.Text("timestamp-header"), signature: c.Text("signature-header")}
	if v.keys, err = c.Keys(); err != nil {
		return nil, err
	}
	for _, key := range v.keys {
		var both [2]*paymentsvc.Webhook
		for i, scheme := range []paymentsvc.Scheme{key.Scheme, asRequests(key.Scheme)} {
			both[i], err = paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
				Scheme: scheme, Secrets: []paymentsvc.Secret{key.Secret}, SecretEndsInLineBreak: true,
				Tolerance: tolerance, MaxBodyBytes: maxMessage, Now: c.Now,
			})
			if err != nil {
				return nil, cli.Usagef("%w", err)
			}
		}
		v.webhooks = append(v.webhooks, both)
	}
	return v, nil
}

// asRequests returns a scheme with which a Webhook verifies requests to the service.
func asRequests(scheme paymentsvc.Scheme) paymentsvc.Scheme {
	inner := scheme.Canonical
	scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		request := *m
		request.Kind = paymentsvc.KindRequest
		return inner(dst, &request)
	}
	return scheme
}

// verdict is what a verifier makes of a message. Its texts hold no secret, no card number and no destination.
type verdict struct {
	Valid          bool   `json:"valid"`
	SignatureValid bool   `json:"signature_valid"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	OldSecret      bool   `json:"old_secret"`
	Age            *int64 `json:"age_seconds"`
	summary
	Difference *difference `json:"difference"`
}

type difference struct {
	Offset   int    `json:"offset"`
	Signed   string `json:"signed"`
	Expected string `json:"expected"`
}

// verify checks a request or a notification; r.URL is its address, and r.Body is not used.
func (v *verifier) verify(kind paymentsvc.MessageKind, r *http.Request, body []byte) verdict {
	named := v.named(r, body)
	result := verdict{summary: summaryOf(body)}
	if seconds, err := strconv.ParseInt(named.Header.Get("Timestamp"), 10, 64); err == nil {
		age := v.now().Unix() - seconds
		result.Age = &age
	}
	var first error
	for i, both := range v.webhooks {
		webhook := both[0]
		if kind == paymentsvc.KindRequest {
			webhook = both[1]
		}
		named.Body = io.NopCloser(bytes.NewReader(body))
		_, err := webhook.ParseRequest(named)
		if kind == paymentsvc.KindRequest && errors.Is(err, paymentsvc.ErrMalformedNotification) {
			err = nil // it is signed correctly, and a request is no notification
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, paymentsvc.ErrSignatureMismatch) {
			result.OldSecret = v.keys[i].Old
			first = err
			break
		}
	}
	result.decide(first)
	if errors.Is(first, paymentsvc.ErrSignatureMismatch) {
		v.explain(&result, kind, named, body)
	}
	return result
}

// named returns r with the two headers under the names of the interface document.
func (v *verifier) named(r *http.Request, body []byte) *http.Request {
	named := r.Clone(r.Context())
	if named.Header == nil {
		named.Header = http.Header{}
	}
	for name, from := range map[string]string{"Timestamp": v.timestamp, "Signature": v.signature} {
		if !strings.EqualFold(name, from) {
			named.Header.Del(name)
			for _, value := range r.Header.Values(from) {
				named.Header.Add(name, value)
			}
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
	d.Reason = "scheme" // it has no canonical string for this message
}

// explain says which of the usual mistakes makes the wrong signature.
func (v *verifier) explain(d *verdict, kind paymentsvc.MessageKind, r *http.Request, body []byte) {
	address := *r.URL
	if asked, err := url.ParseRequestURI(r.RequestURI); err == nil {
		address = *asked
	}
	if address.Host == "" {
		address.Host = r.Host
	}
	key := v.keys[0]
	fault := paymentsvctest.ExplainSignature(key.Scheme, paymentsvctest.Project{Secret: key.Secret}, &paymentsvc.Message{
		Kind: kind, Method: r.Method, URL: &address, Header: r.Header,
		Timestamp: r.Header.Get("Timestamp"), Body: body,
	}, r.Header.Get("Signature"))
	d.Message = key.Mask(fault.Reason)
	if fault.Difference != nil {
		d.Difference = &difference{
			fault.Difference.Offset, key.Mask(fault.Difference.Signed), key.Mask(fault.Difference.Expected),
		}
	}
}

// lines describes the verdict for people.
func (d *verdict) lines() []string {
	if d.Valid {
		line := "valid  " + d.String()
		if d.OldSecret {
			line += ", signed with the old secret"
		}
		if d.Age != nil {
			line += ", signed " + ageText(*d.Age)
		}
		return []string{line}
	}
	lines := []string{"wrong  " + d.Message}
	if d.Difference != nil {
		lines = append(lines,
			fmt.Sprintf("       signed    %q", d.Difference.Signed),
			fmt.Sprintf("       expected  %q  first difference at byte %d", d.Difference.Expected, d.Difference.Offset))
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

// summary is what is printed of a body. It may be a forgery, so nothing in it is taken for granted.
type summary struct {
	Event             string `json:"event"`
	StatusDescription string `json:"status_description"`
	Amount            string `json:"amount"`
	OrderID           string `json:"order_id"`
	Bytes             int    `json:"bytes"`

	request string // method and path of a request
}

func summaryOf(body []byte) summary {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // a body that is no JSON has no fields
	text := func(name string) string {
		var text string
		if json.Unmarshal(fields[name], &text) != nil {
			text = string(fields[name])
		}
		const most = 64
		if short := []rune(text); len(short) > most {
			text = string(short[:most]) + "..."
		}
		return cli.Mask(text)
	}
	return summary{text("event"), text("status_description"), text("amount"), text("order_id"), len(body), ""}
}

// String returns the fields on one line.
func (s summary) String() string {
	switch {
	case s.request != "":
		return fmt.Sprintf("%s, %d bytes", s.request, s.Bytes)
	case s.Event == "":
		return fmt.Sprintf("%d bytes", s.Bytes)
	}
	return strings.Join(strings.Fields(strings.Join([]string{s.Event, s.StatusDescription, s.Amount, s.OrderID}, " ")), " ")
}
