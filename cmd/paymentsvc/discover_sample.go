package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

const maxDecompressed = 16 << 20 // bytes; a few kilobytes can decompress to gigabytes

// headerNames are the names of the two headers of section 5. An unset name is only a first guess.
type headerNames struct {
	timestamp, signature       string
	timestampSet, signatureSet bool
}

// sample is a message with its signature and the names of its headers.
type sample struct {
	discover.Sample
	captured capture.Message
	file     string      // for verify; "" without a file
	names    headerNames // in this message
}

// decompressed returns the decompressed body. It returns false without a compressed body. The samples do not store it,
// because it can be long.
func (s sample) decompressed() ([]byte, bool) {
	return capture.Decompressed(s.Message.Header, s.Message.Body, maxDecompressed)
}

func (s sample) line(header string) int {
	if header == "Timestamp" {
		return s.captured.Line(s.names.timestamp)
	}
	return s.captured.Line(s.names.signature)
}

// sample finds the timestamp and the signature of a message. Errors contain the file and the line, but no value.
func (d *discovery) sample(m capture.Message) (sample, error) {
	s := sample{captured: m, names: d.names}
	fail := func(header string, err error) (sample, error) {
		return sample{}, fmt.Errorf("%s:%d: %w", m.Source, m.Line(header), err)
	}
	var err error
	looksSigned := func(name, _ string) bool { return strings.Contains(name, "sign") || strings.Contains(name, "hmac") }
	if s.names.signature, err = d.headerOf(m, "signature", d.names.signature, d.names.signatureSet, looksSigned); err != nil {
		return fail(d.names.signature, err)
	}
	looksStamped := func(name, value string) bool {
		return (strings.Contains(name, "time") || strings.Contains(name, "date")) && capture.IsDigits(value)
	}
	if s.names.timestamp, err = d.headerOf(m, "timestamp", d.names.timestamp, d.names.timestampSet, looksStamped); err != nil {
		return fail(d.names.timestamp, err)
	}
	timestamp := m.Header.Get(s.names.timestamp)
	if !capture.IsDigits(timestamp) {
		return fail(s.names.timestamp, fmt.Errorf("the header %s is not Unix seconds in digits", cli.Printable(s.names.timestamp)))
	}
	s.Sample = discover.Sample{
		Name: m.Source, Signature: m.Header.Get(s.names.signature),
		Message: paymentsvc.Message{
			Method: m.Method, URL: m.URL, Header: m.Header, Timestamp: timestamp, Body: m.Body,
		},
	}
	body, ok := s.decompressed()
	if !ok {
		body = m.Body
	}
	if s.Message.Kind, err = kindOf(d.Call, body); err != nil {
		return sample{}, err
	}
	if m.URL != nil && m.URL.Host+m.URL.Path == "" {
		s.Message.URL = nil // unknown, not empty
	}
	return s, nil
}

// headerOf returns the name of the header with a part of the signature: the configured name, the usual one, or the
// only similar one. A note reports the last case.
func (d *discovery) headerOf(m capture.Message, what, name string, set bool, looks func(lowerName, value string) bool) (string, error) {
	values := m.Header.Values(name)
	if len(values) > 1 {
		return "", fmt.Errorf("%d %s headers, want exactly 1", len(values), cli.Printable(name))
	}
	if len(values) == 1 || set {
		if len(values) == 0 {
			return "", fmt.Errorf("no header %s", cli.Printable(name))
		}
		return name, nil
	}
	var guesses []string
	for _, other := range slices.Sorted(maps.Keys(m.Header)) {
		if len(m.Header[other]) == 1 && looks(strings.ToLower(other), m.Header.Get(other)) {
			guesses = append(guesses, other)
		}
	}
	switch len(guesses) {
	case 0:
		return "", fmt.Errorf("no %s header; name it with -%s-header", what, what)
	case 1:
		d.Note("the header %s is taken for the %s; -%s-header chooses another one", guesses[0], what, what)
		return guesses[0], nil
	}
	return "", fmt.Errorf("no %s header; choose with -%s-header: %s", what, what, strings.Join(guesses, ", "))
}
