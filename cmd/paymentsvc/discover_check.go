package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// checked is what a scheme makes of a sample.
type checked struct {
	Sample string   `json:"sample"`
	Lines  []string `json:"canonical_string"` // quoted, so that invisible characters show
	Bytes  int      `json:"bytes"`
	Fits   bool     `json:"fits"`
	Error  string   `json:"error"`
}

// check prints what the scheme makes of each sample, and whether that fits its signature.
func (d *discovery) check() error {
	key, err := d.Key()
	if err != nil {
		return err
	}
	all := true
	for _, s := range d.samples {
		c := checked{Sample: s.Name, Lines: []string{}}
		// The secret is not shown, so hashes of it differ in what is. Whether it fits is decided with the secret itself.
		text, err := key.Shown.Canonical(nil, &s.Message)
		if err != nil {
			c.Error = err.Error()
		} else {
			signature, err := key.Scheme.Signature(key.Secret, &s.Message)
			c.Bytes = len(text)
			shown, _ := key.Shown.Canonical(nil, shownMessage(d.Call, &s.Message)) // which differs in values only
			c.Lines = visible(key.Mask(string(shown)))
			c.Fits = err == nil && signature == s.Signature
		}
		all = all && c.Fits
		d.Print("checked", c, c.lines()...)
	}
	if !all {
		return cli.No()
	}
	return nil
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
	for i, line := range c.Lines {
		lines = append(lines, fmt.Sprintf("  %4d %s", i+1, line))
	}
	return lines
}

// visible quotes a text line by line, so that white space at an end and control characters show.
func visible(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strconv.Quote(line))
	}
	if len(lines) == 0 {
		return []string{`""`}
	}
	return lines
}
