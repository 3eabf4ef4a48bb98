package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// shownMessage returns m with placeholders in its body for what holds card data, persons or a destination: in a canonical
// string these values need not have a name. Hashes of the body become those of the placeholders, which a note says.
func shownMessage(c *cli.Call, m *paymentsvc.Message) *paymentsvc.Message {
	if !json.Valid(m.Body) { // which also bounds the nesting
		return m
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

// hiding is valid JSON that is copied with placeholders.
type hiding struct {
	dec  *json.Decoder
	body []byte
	out  []byte
	kept int // how much of body is in out
}

// value copies one value, with a placeholder, if it is not "", for each text and number in it.
func (h *hiding) value(placeholder string) {
	start := int(h.dec.InputOffset())
	token, _ := h.dec.Token()
	switch token {
	case json.Delim('{'):
		for h.dec.More() {
			name, _ := h.dec.Token()
			text, _ := name.(string)
			inner := placeholder
			if inner == "" && slices.Contains(cli.HiddenFields(), strings.ToLower(text)) {
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
