package jsonobject

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// maxUnescapes limits the levels of JSON within strings that [Mentions] reads.
const maxUnescapes = 16

// Mentions reports whether data has a non-empty member with this name, at any depth, in any letter case, with escapes,
// or in a string that contains JSON or a part of it. name must be in lower case. Null, false, zero, "", "0", {} and []
// are empty. If data is not exactly one JSON value, the name alone is enough. To take linear time, Mentions returns
// true for strings nested too deeply.
func Mentions(data []byte, name string) bool {
	isJSON := json.Valid(TrimMark(data))
	for range maxUnescapes {
		if isJSON && hasMember(data, name) || !isJSON && bytes.Contains(bytes.ToLower(data), []byte(name)) {
			return true
		}
		inner := unescape(data)
		if len(inner) == len(data) {
			return false
		}
		data = inner // JSON in its strings is now plain JSON
	}
	return true
}

// hasMember searches text for a quoted name, a colon and a value. It does not parse, because text may be only partly
// JSON.
func hasMember(text []byte, name string) bool {
	for i := bytes.IndexByte(text, '"'); i >= 0; {
		text = text[i+1:]
		if value, ok := member(text, name); ok && begins(value) {
			return true
		}
		i = bytes.IndexByte(text, '"')
	}
	return false
}

// member returns the text after the colon if text begins with this name. text follows a quote.
func member(text []byte, name string) ([]byte, bool) {
	for i := range len(name) {
		size := sizeOf(text, name[i])
		if size == 0 {
			return nil, false
		}
		text = text[size:]
	}
	if len(text) == 0 || text[0] != '"' {
		return nil, false
	}
	colon := SkipSpace(text, 1)
	if colon == len(text) || text[colon] != ':' {
		return nil, false
	}
	return text[SkipSpace(text, colon+1):], true
}

// sizeOf returns the length of letter at the start of text, in either case and perhaps as an escape. It returns 0 for
// another letter. letter is in lower case.
func sizeOf(text []byte, letter byte) int {
	if len(text) == 0 {
		return 0
	}
	r, size := rune(text[0]), 1
	if r == '\\' {
		r, size = escaped(text)
	}
	if 'A' <= r && r <= 'Z' {
		r += 'a' - 'A'
	}
	if r != rune(letter) {
		return 0
	}
	return size
}

// begins reports whether text begins with a non-empty value. It reads only the first bytes, because text may be cut
// off.
func begins(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	switch rest := text[1:]; text[0] {
	case '"':
		return len(rest) > 0 && !bytes.HasPrefix(rest, []byte(`"`)) && !bytes.HasPrefix(rest, []byte(`0"`))
	case '{', '[':
		i := SkipSpace(rest, 0)
		return i < len(rest) && rest[i] != '}' && rest[i] != ']'
	case 't':
		return bytes.HasPrefix(rest, []byte("rue"))
	}
	number := text[:len(text)-len(bytes.TrimLeft(text, "+-.eE0123456789"))]
	return len(number) > 0 && !empty(number)
}

// unescape decodes each JSON escape in text, inside and outside strings, and copies the rest.
func unescape(text []byte) []byte {
	var plain []byte
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return append(plain, text...)
		}
		plain = append(plain, text[:at]...)
		r, size := escaped(text[at:])
		plain = utf8.AppendRune(plain, r)
		text = text[at+size:]
	}
}

// escaped decodes the escape at the start of text. An unknown escape is a plain backslash.
func escaped(text []byte) (r rune, size int) {
	if len(text) < 2 {
		return '\\', 1
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b', 'f', 'n', 'r', 't':
		return ' ', 2 // any white space may separate tokens, and names contain no white space
	case 'u':
		if len(text) >= 6 {
			if n, err := strconv.ParseUint(string(text[2:6]), 16, 16); err == nil {
				return rune(n), 6
			}
		}
	}
	return '\\', 1
}
