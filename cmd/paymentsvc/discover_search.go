package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

// found is the result of one search.
type found struct {
	about   string // requests, notifications or bothKinds
	body    string // the matching form of a compressed body, or ""
	samples []sample
	result  discover.Result
	err     error // nil if there is a match
}

const decompressed = "decompressed" // in [found.body] and [checked.Body]: the scheme covers the decompressed body

func (f found) fits() bool { return f.err == nil }

// search searches each kind of message separately. If both kinds have a scheme, search prefers a common scheme.
func (d *discovery) search(ctx context.Context, samples []sample) (all []found, err error) {
	for _, kind := range []paymentsvc.MessageKind{paymentsvc.KindRequest, paymentsvc.KindNotification} {
		own := slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.Message.Kind != kind })
		if len(own) == 0 {
			continue
		}
		about := requests
		if kind == paymentsvc.KindNotification {
			about = notifications
		}
		f, err := d.find(ctx, about, own)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(all) < 2 || !allFit(all) {
		return all, nil
	}
	both, err := d.find(ctx, bothKinds, samples)
	if err != nil || !both.fits() {
		return all, nil //nolint:nilerr // the separate results suffice, so a common scheme is optional
	}
	return []found{both}, nil
}

// find searches with the received bodies, and with the decompressed bodies if a body is compressed. It first searches
// with each form at a small effort, because a search with the wrong form would use the whole effort.
func (d *discovery) find(ctx context.Context, about string, samples []sample) (f found, err error) {
	received := cli.Mapped(samples, func(s sample) discover.Sample { return s.Sample })
	compressed, plain := false, slices.Clone(received)
	for i, s := range samples {
		if body, ok := s.decompressed(); ok {
			compressed, plain[i].Message.Body = true, body
		}
	}
	if !compressed {
		return d.findIn(ctx, about, samples, received, 1)
	}
	forms := []struct {
		name    string
		samples []discover.Sample
	}{{decompressed, plain}, {"received, compressed", received}}
	for _, share := range []float64{0.05, 1} {
		for _, form := range forms {
			f, err = d.findIn(ctx, about, samples, form.samples, share)
			if err != nil || ctx.Err() != nil {
				return f, err
			}
			if f.fits() {
				f.body = form.name
				return f, nil
			}
		}
	}
	return f, nil
}

func (d *discovery) findIn(ctx context.Context, about string, samples []sample, in []discover.Sample,
	share float64,
) (found, error) {
	o := d.options
	o.Effort *= share
	o.Progress = d.progress()
	result, err := discover.Find(ctx, in, o)
	if wrong, ok := errors.AsType[*discover.SampleError](err); ok {
		s := samples[wrong.Index]
		header := s.signature
		if wrong.Header == "Timestamp" {
			header = s.timestamp
		}
		return found{}, cli.Usagef("%s:%d: %w", s.Name, s.captured.Line(header), wrong.Err)
	}
	if err != nil && !errors.Is(err, discover.ErrNoMatch) && ctx.Err() == nil {
		return found{}, cli.Usagef("%w", err)
	}
	return found{about: about, samples: samples, result: result, err: err}, nil
}

// explains reports whether a scheme produces the signature of s, for the given form of the body.
func (d *discovery) explains(text, form string, s sample) bool {
	scheme, key, err := canonical.ParseSchemeWith(text, d.options.Secret)
	if err != nil {
		return false
	}
	m := s.Message
	if plain, ok := s.decompressed(); ok && form == decompressed {
		m.Body = plain
	}
	signature, err := scheme.Signature(key, &m)
	return err == nil && signature == s.Signature
}

func allFit(results []found) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(f found) bool { return f.err != nil })
}

// progress returns a function that prints the progress of a search every few seconds, as a note.
func (d *discovery) progress() func(discover.Progress) {
	const seldom = 5 * time.Second
	var last time.Duration
	return func(now discover.Progress) {
		if now.Elapsed < last+seldom {
			return
		}
		last = now.Elapsed
		speed := perSecond(now.Tried, now.Elapsed)
		left := ""
		if speed > 0 {
			left = fmt.Sprintf(", at most %.0fs left", float64(now.Total-now.Tried)/1e6/speed)
		}
		d.Note("searching: %.1f of %.1f million, %.1f million a second%s: %s",
			float64(now.Tried)/1e6, float64(now.Total)/1e6, speed, left, now.What)
	}
}

func perSecond(tried int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(tried) / 1e6 / elapsed.Seconds()
}

// checked is the result of checking a scheme against a sample.
type checked struct {
	Sample string   `json:"sample"`
	Lines  []string `json:"canonical_string"` // quoted, because of invisible characters
	Bytes  int      `json:"bytes"`
	Fits   bool     `json:"fits"`
	Error  string   `json:"error"`
	Body   string   `json:"body"` // the signed form of a compressed body
}

// check prints the canonical string of each sample, with placeholders, and whether the signature matches.
func (d *discovery) check() error {
	key, err := d.Key()
	if err != nil {
		return err
	}
	all := true
	for _, s := range d.samples {
		c := d.checkSample(key, s.Name, s.Signature, &s.Message)
		if body, ok := s.decompressed(); ok && !c.Fits {
			plain := s.Message
			plain.Body = body
			if other := d.checkSample(key, s.Name, s.Signature, &plain); other.Fits {
				c = other
				c.Body = decompressed
			}
		}
		all = all && c.Fits
		d.Print("checked", c, c.lines()...)
	}
	if !all {
		return cli.No()
	}
	return nil
}

func (d *discovery) checkSample(key cli.Key, name, signed string, m *paymentsvc.Message) checked {
	c := checked{Sample: name, Lines: []string{}}
	text, err := key.Scheme.Canonical(nil, m)
	if err != nil {
		c.Error = key.Mask(err.Error())
		return c
	}
	signature, err := key.Scheme.Signature(key.Secret, m)
	c.Bytes = len(text)
	// key.Shown has a placeholder for the secret, so the length and the hashes of its canonical string differ.
	// shownMessage replaces only values, or a whole body other than JSON, so Canonical cannot fail.
	shown, _ := key.Shown.Canonical(nil, shownMessage(d.Call, m))
	c.Lines = visible(key.Mask(string(shown)))
	c.Fits = err == nil && signature == signed
	return c
}

func (c checked) lines() []string {
	if c.Error != "" {
		return []string{fmt.Sprintf("wrong  %s: %s", c.Sample, c.Error)}
	}
	verdict := "wrong  %s: does not fit the signature; the canonical string, of %d bytes:"
	if c.Fits {
		verdict = "right  %s: fits the signature; the canonical string, of %d bytes:"
	}
	lines := []string{fmt.Sprintf(verdict, c.Sample, c.Bytes)}
	if c.Body != "" {
		lines = append(lines, "       with the "+c.Body+" body")
	}
	for i, line := range c.Lines {
		lines = append(lines, fmt.Sprintf("  %4d %s", i+1, line))
	}
	return lines
}

// visible quotes each line of text, to show control characters, and white space at the ends of the line.
func visible(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strconv.Quote(line))
	}
	if len(lines) == 0 {
		return []string{`""`}
	}
	return lines
}

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

// demo signs samples with a hidden composition, and finds this composition. The compositions are invented, because the
// interface document specifies neither the canonical string nor the encoding.
func (d *discovery) demo(ctx context.Context, hidden string) error {
	d.options.Secret = paymentsvc.Secret("demo-" + rand.Text())
	d.Note("this demo has an invented secret, samples and scheme: the interface document does not specify a scheme")
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
		d.Print("sample", cli.Fields{"name": s.Name, "http": b.String()}, lines...)
	}
	results, err := d.search(ctx, d.samples)
	if err != nil {
		return err
	}
	err = d.report(ctx, results)
	d.Print("hidden", cli.Fields{"text": hidden}, "hidden "+hidden)
	return err
}

// demoSamples signs two requests and a notification.
func (d *discovery) demoSamples(text string) (err error) {
	var key cli.Key
	key.Scheme, key.Secret, err = canonical.ParseSchemeWith(text, d.options.Secret)
	if err != nil {
		return err
	}
	for _, sent := range [][3]string{
		{"pay.example.com", "/v1/init_payment/card",
			`{"partner_id":1001,"project_id":2002,"amount":10.50,"user_data":"order/1"}`},
		{"pay.example.com", "/v1/get_balance", `{"partner_id":1001,"project_id":2002}`},
		{"shop.example", "/payments/notification", `{"status": 2, "status_code": 0, "status_description": "SUCCESS", ` +
			`"event": "payment.status_changed", "order_id": "o-1", "amount": 10.50}`},
	} {
		address, body := &url.URL{Scheme: "https", Host: sent[0], Path: sent[1]}, []byte(sent[2])
		m := newMessage(kindOf(d.Call, body), http.MethodPost, address, 1700000000, body)
		if err := signMessage(key, m); err != nil {
			return err
		}
		c := captured(m)
		c.Source = path.Base(address.Path)
		s, err := d.sample(c)
		if err != nil {
			return err
		}
		d.samples = append(d.samples, s)
	}
	return nil
}
