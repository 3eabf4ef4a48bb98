package jsonobject

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth limits the nesting of objects and arrays, as in encoding/json.
const maxDepth = 10_000

// The endOf functions below implement the grammar of JSON (RFC 8259) in one pass and accept the same texts as
// json.Valid. They take the index of the start and return the index after the end, or -1 for invalid JSON.

// endOfObject reads the object at data[i], which is nested at depth. For each member it calls the function member with
// the quoted name and the value. The function may be nil.
func endOfObject(data []byte, i, depth int, member func(name, value []byte)) int {
	if depth == maxDepth {
		return -1
	}
	i = SkipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	for i < len(data) && data[i] == '"' {
		nameEnd := EndOfString(data, i)
		if nameEnd < 0 {
			return -1
		}
		colon := SkipSpace(data, nameEnd)
		if colon == len(data) || data[colon] != ':' {
			return -1
		}
		start := SkipSpace(data, colon+1)
		end := endOfValue(data, start, depth+1)
		if end < 0 {
			return -1
		}
		if member != nil {
			member(data[i:nameEnd], data[start:end])
		}

		i = SkipSpace(data, end)
		switch {
		case i == len(data):
			return -1
		case data[i] == '}':
			return i + 1
		case data[i] != ',':
			return -1
		}
		i = SkipSpace(data, i+1)
	}
	return -1
}

func endOfArray(data []byte, i, depth int) int {
	if depth == maxDepth {
		return -1
	}
	i = SkipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1
	}
	for {
		end := endOfValue(data, i, depth+1)
		if end < 0 {
			return -1
		}
		i = SkipSpace(data, end)
		switch {
		case i == len(data):
			return -1
		case data[i] == ']':
			return i + 1
		case data[i] != ',':
			return -1
		}
		i = SkipSpace(data, i+1)
	}
}

// EndOfValue returns the index after the value at data[i], or -1 for invalid JSON.
func EndOfValue(data []byte, i int) int { return endOfValue(data, i, 0) }

func endOfValue(data []byte, i, depth int) int {
	if i == len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return EndOfString(data, i)
	case '{':
		return endOfObject(data, i, depth, nil)
	case '[':
		return endOfArray(data, i, depth)
	case 't':
		return endOfWord(data, i, "true")
	case 'f':
		return endOfWord(data, i, "false")
	case 'n':
		return endOfWord(data, i, "null")
	default:
		return endOfNumber(data, i)
	}
}

func endOfWord(data []byte, i int, word string) int {
	if !bytes.HasPrefix(data[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

// EndOfString returns the index after the string at data[i], or -1 for invalid JSON.
func EndOfString(data []byte, i int) int {
	for i = skipPlain(data, i+1); i < len(data); i = skipPlain(data, i+1) {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i = lastOfEscape(data, i)
			if i < 0 {
				return -1
			}
		}
	}
	return -1
}

// skipPlain skips the plain bytes of a string, eight at a time. It stops when fewer than eight bytes remain. The
// subtractions set the highest bit of each quote, backslash and control character. A borrow may set further bits, but
// only after such a byte, so the first bit is correct.
func skipPlain(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		word := binary.LittleEndian.Uint64(data[i:])
		quote, backslash := word^ones*'"', word^ones*'\\'
		special := ((quote-ones)&^quote | (backslash-ones)&^backslash | (word-ones*' ')&^word) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	return i
}

// lastOfEscape returns the index of the last character of the escape at data[i], or -1.
func lastOfEscape(data []byte, i int) int {
	i++
	if i == len(data) {
		return -1
	}
	switch data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range 4 {
			i++
			if i == len(data) || !isHex(data[i]) {
				return -1
			}
		}
		return i
	}
	return -1
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func endOfNumber(data []byte, i int) int {
	if i < len(data) && data[i] == '-' {
		i++
	}
	integer := i
	i = skipDigits(data, i)
	if i == integer || data[integer] == '0' && i > integer+1 {
		return -1
	}
	if i < len(data) && data[i] == '.' {
		decimals := i + 1
		i = skipDigits(data, decimals)
		if i == decimals {
			return -1
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		exponent := i
		i = skipDigits(data, exponent)
		if i == exponent {
			return -1
		}
	}
	return i
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

// SkipSpace returns the index of the first byte at or after i other than white space, or len(data).
func SkipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// Texts returns sorted lines. Each line has the path (names and indexes) and the text of a number, a boolean or a
// string other than "" in data. Objects with equal members have equal lines, in any order and with any white space. A
// string and another value with the same text have equal lines. ok is false if data is invalid JSON or UTF-8, has
// half a surrogate pair, or has a duplicate name in an object, because the lines then lose information.
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
