package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// checked is the result of a scheme for a sample.
type checked struct {
	Sample string   `json:"sample"`
	Lines  []string `json:"canonical_string"` // quoted, because of invisible characters
	Bytes  int      `json:"bytes"`
	Fits   bool     `json:"fits"`
	Error  string   `json:"error"`
	Body   string   `json:"body"` // the signed form of a compressed body
}

// check prints the canonical string of each sample, and whether the signature matches.
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
	// The output has a placeholder for the secret, so hashes of it differ. The comparison uses the real secret.
	text, err := key.Shown.Canonical(nil, m)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	signature, err := key.Scheme.Signature(key.Secret, m)
	c.Bytes = len(text)
	shown, _ := key.Shown.Canonical(nil, shownMessage(d.Call, m)) // with other values only
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

// visible quotes a text line by line, because of control characters and white space at an end.
func visible(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strconv.Quote(line))
	}
	if len(lines) == 0 {
		return []string{`""`}
	}
	return lines
}
