package canonical

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// member is a field of a JSON object: the decoded name, the bytes between the name's quotes, and the value's bytes.
type member struct{ name, written, value []byte }

var (
	errNotJSON   = errors.New("canonical: the body is not JSON")
	errNotObject = errors.New("canonical: the body is not a JSON object")
)

// isJSON reports whether text is one JSON value.
func isJSON(text []byte) bool {
	end := jsonobject.EndOfValue(text, jsonobject.SkipSpace(text, 0))
	return end >= 0 && jsonobject.SkipSpace(text, end) == len(text)
}

// membersOfBody appends the fields of a body. It rejects duplicate fields, because programs disagree about which value
// counts. Its errors contain no bytes of the body.
func membersOfBody(dst []member, body []byte) ([]member, error) {
	start := jsonobject.SkipSpace(body, 0)
	switch {
	case start < len(body) && body[start] == '{':
		return members(dst, body[start:])
	case isJSON(body):
		return nil, errNotObject
	}
	return nil, errNotJSON
}

// members appends the fields of text, which must be exactly one object without white space before it. It rejects
// duplicate fields.
func members(dst []member, text []byte) ([]member, error) {
	first := len(dst)
	end := jsonobject.Members(text, 0, func(quoted, value []byte) {
		written := quoted[1 : len(quoted)-1]
		name := written
		if bytes.IndexByte(name, '\\') >= 0 {
			name = appendUnescaped(nil, name)
		}
		dst = append(dst, member{name, written, value})
	})
	switch {
	case end < 0 || jsonobject.SkipSpace(text, end) < len(text):
		return nil, errNotJSON
	case repeated(dst[first:]):
		return nil, errors.New("canonical: duplicate field in the body")
	}
	return dst, nil
}

// repeated reports whether a name is duplicated.
func repeated(list []member) bool {
	const few = 64 // for short lists, comparing all pairs is faster than sorting a copy
	if len(list) > few {
		list = slices.Clone(list)
		sortByName(list)
		for i := 1; i < len(list); i++ {
			if bytes.Equal(list[i-1].name, list[i].name) {
				return true
			}
		}
		return false
	}
	for i := range list {
		for j := range i {
			if bytes.Equal(list[i].name, list[j].name) {
				return true
			}
		}
	}
	return false
}

func sortByName(list []member) {
	slices.SortFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) })
}

// elements appends the elements of array, which must be valid JSON and begin with a bracket.
func elements(dst [][]byte, array []byte) [][]byte {
	for i := jsonobject.SkipSpace(array, 1); array[i] != ']'; {
		end := jsonobject.EndOfValue(array, i)
		dst = append(dst, array[i:end])
		i = jsonobject.SkipSpace(array, end)
		if array[i] == ',' {
			i = jsonobject.SkipSpace(array, i+1)
		}
	}
	return dst
}

// find returns the value at a path of names. It returns nil if a name is absent, or if the value of a name before the
// last is not an object.
func find(body []byte, path []string) ([]byte, error) {
	var space [16]member
	list, err := membersOfBody(space[:0], body)
	for depth, name := range path {
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(list, func(m member) bool { return string(m.name) == name })
		switch {
		case at < 0:
			return nil, nil
		case depth == len(path)-1:
			return list[at].value, nil
		case list[at].value[0] != '{':
			return nil, nil
		}
		list, err = members(list[:0], list[at].value)
	}
	return nil, errors.New("canonical: a Field or FieldOr needs a name")
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// nextRune decodes the first character inside a string and returns the rest. For an invalid UTF-8 byte, raw is true and
// r is the byte. For half a surrogate pair, r is U+FFFD.
func nextRune(s []byte) (r rune, raw bool, rest []byte) {
	if s[0] != '\\' {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			return rune(s[0]), true, s[1:]
		}
		return r, false, s[size:]
	}
	switch s[1] {
	case 'b':
		return '\b', false, s[2:]
	case 'f':
		return '\f', false, s[2:]
	case 'n':
		return '\n', false, s[2:]
	case 'r':
		return '\r', false, s[2:]
	case 't':
		return '\t', false, s[2:]
	case 'u':
		r, rest := hex4(s), s[6:]
		if utf16.IsSurrogate(r) {
			if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(rest)); pair != utf8.RuneError {
					return pair, false, rest[6:]
				}
			}
			return utf8.RuneError, false, rest
		}
		return r, false, rest
	default: // quote, backslash and slash
		return rune(s[1]), false, s[2:]
	}
}

// hex4 decodes the four digits of \uXXXX.
func hex4(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[2:6]), 16, 32) // the digits are valid
	return rune(n)                                    //nolint:gosec // four digits fit
}

// appendUnescaped decodes the escapes in s, the inside of a JSON string, and appends the text.
func appendUnescaped(dst, s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, raw, rest := nextRune(s)
		if raw {
			dst = append(dst, byte(r)) //nolint:gosec // raw is one byte
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		s = rest
	}
	return dst
}
