package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// shownMessage returns m with placeholders for card data, personal data and destinations in its body, because their
// values may appear in a canonical string without a name. Hashes of the body become hashes of the placeholders. A
// note reports the placeholders.
func shownMessage(c *cli.Call, m *paymentsvc.Message) *paymentsvc.Message {
	if !json.Valid(m.Body) { // valid JSON has limited nesting
		if m.Header.Get("Content-Encoding") == "" {
			return m
		}
		c.Note("a placeholder replaces the compressed body, because its bytes contain card data and destinations")
		copied := *m
		copied.Body = []byte("<compressed body>")
		return &copied
	}
	h := &hiding{dec: json.NewDecoder(bytes.NewReader(m.Body)), body: m.Body}
	h.value("")
	if h.kept == 0 {
		return m
	}
	c.Note("placeholders replace card data and destinations, so a hash of the body is not the one that is signed")
	copied := *m
	copied.Body = slices.Concat(h.out, m.Body[h.kept:])
	return &copied
}

// hiding copies valid JSON with placeholders.
type hiding struct {
	dec  *json.Decoder
	body []byte
	out  []byte
	kept int // the copied length of body
}

// value copies one value. A placeholder replaces each text and number in it, unless the placeholder is "".
func (h *hiding) value(placeholder string) {
	start := int(h.dec.InputOffset())
	token, _ := h.dec.Token()
	switch token {
	case json.Delim('{'):
		for h.dec.More() {
			name, _ := h.dec.Token()
			text, _ := name.(string)
			inner := placeholder
			if inner == "" && slices.Contains(mask.Fields(), strings.ToLower(text)) {
				inner = `"<` + strings.ReplaceAll(strings.ToLower(text), "_", " ") + `>"`
			}
			h.value(inner)
		}
		_, _ = h.dec.Token()
	case json.Delim('['):
		for h.dec.More() {
			h.value(placeholder)
		}
		_, _ = h.dec.Token()
	default:
		if placeholder == "" {
			return
		}
		start += len(h.body[start:]) - len(bytes.TrimLeft(h.body[start:], " \t\r\n:,"))
		h.out = append(append(h.out, h.body[h.kept:start]...), placeholder...)
		h.kept = int(h.dec.InputOffset())
	}
}
