package jsonobject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Texts returns a sorted line for each non-empty value in data, with the names and indexes of its path and its text.
// Objects with equal members have equal lines, in any order and with any white space. A number equals a string with its
// text. ok is false if the lines lose information, because data is invalid JSON or UTF-8, has half a surrogate pair, or
// has a duplicate name in an object.
func Texts(data []byte) (lines []string, ok bool) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return nil, false
	}
	t := texts{decoder: json.NewDecoder(bytes.NewReader(data))}
	t.decoder.UseNumber() // every digit counts
	t.value("")
	slices.Sort(t.lines)
	return t.lines, !t.duplicate && t.replacements <= writtenFFFD(data)
}

// texts collects the lines of one valid document, so its decoder never fails.
type texts struct {
	decoder      *json.Decoder
	lines        []string
	replacements int // U+FFFD in the decoded texts
	duplicate    bool
}

func (t *texts) token() json.Token {
	token, _ := t.decoder.Token()
	if text, ok := token.(string); ok {
		t.replacements += strings.Count(text, "\uFFFD")
	}
	return token
}

func (t *texts) value(path string) {
	switch token := t.token(); token {
	case nil:
	case json.Delim('{'):
		names := map[string]bool{}
		for t.decoder.More() {
			name, _ := t.token().(string)
			t.duplicate = t.duplicate || names[name]
			names[name] = true
			t.value(fmt.Sprintf("%s %+q", path, name))
		}
		t.token()
	case json.Delim('['):
		for i := 0; t.decoder.More(); i++ {
			t.value(fmt.Sprintf("%s %d", path, i))
		}
		t.token()
	default:
		if text := fmt.Sprint(token); text != "" {
			t.lines = append(t.lines, fmt.Sprintf("%s=%+q\n", path, text))
		}
	}
}
