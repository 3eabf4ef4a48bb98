package canonical

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// BodyCompact appends the JSON of the body without white space between tokens. Texts and numbers keep their bytes. It
// returns an error if the body is not JSON.
func BodyCompact(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if !isJSON(m.Body) {
		return nil, errNotJSON
	}
	return appendCompact(dst, m.Body), nil
}

func appendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch {
		case isSpace(value[i]):
			i++
		case value[i] == '"':
			end := jsonobject.EndOfString(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, value[i])
			i++
		}
	}
	return dst
}

// BodySorted appends [BodyCompact] with the fields of each object sorted by the bytes of their names. It returns an
// error if the body is not JSON, has a duplicate field, or is nested more than 64 deep.
func BodySorted(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return jsonWriter{JSONForm{Sort: true}, true}.body(dst, m)
}

// JSONForm configures [BodyJSON]. The zero value encodes like most programs: no white space, fields in the order of
// the body, and escapes only for quotes, backslashes and control characters.
type JSONForm struct {
	// Sort sorts the fields of each object by the bytes of their names.
	Sort bool
	// Spaces adds a space after each comma and colon, like Python by default. With Indent it has no effect.
	Spaces bool
	// EscapeSlash writes "\/" for a slash, like PHP by default.
	EscapeSlash bool
	// EscapeUnicode writes characters beyond ASCII as escapes such as "\u00e9", like PHP and Python by default.
	EscapeUnicode bool
	// EscapeHTML writes "<", ">", "&", U+2028 and U+2029 as escapes such as "\u003c", like Go by default.
	EscapeHTML bool
	// EscapeGson is EscapeHTML, and also escapes "=" and "'", like Java's Gson by default.
	EscapeGson bool
	// Indent is the indentation of each level, for JSON with one field per line and a space after each colon. PHP's
	// JSON_PRETTY_PRINT uses four spaces. "" writes one line.
	Indent string
	// Numbers is the form of numbers.
	Numbers NumberForm
}

// BodyJSON returns a part that parses the JSON of the body and encodes it again. The part returns an error if the body
// is not JSON, has a duplicate field, or is nested more than 64 deep, and the errors of the [NumberForm].
func BodyJSON(form JSONForm) paymentsvc.CanonicalFunc {
	return jsonWriter{JSONForm: form}.body
}

// jsonWriter writes JSON in a form. With keepText, it copies texts and names with their escapes.
type jsonWriter struct {
	JSONForm
	keepText bool
}

func (w jsonWriter) body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if !isJSON(m.Body) {
		return nil, errNotJSON
	}
	return w.value(dst, bytes.TrimSpace(m.Body), 0, "")
}

// value writes a value at the given depth. field is the name of its field, if any.
func (w jsonWriter) value(dst, value []byte, depth int, field string) ([]byte, error) {
	if depth > maxNesting {
		return nil, errTooDeep
	}
	switch value[0] {
	case '{':
		return w.object(dst, value, depth)
	case '[':
		dst = append(dst, '[')
		list := elements(nil, value)
		for i, element := range list {
			var err error
			dst, err = w.value(w.next(dst, i, depth+1), element, depth+1, "")
			if err != nil {
				return nil, err
			}
		}
		return append(w.last(dst, len(list), depth), ']'), nil
	case '"':
		if w.keepText {
			return append(dst, value...), nil
		}
		return w.text(dst, appendUnescaped(nil, value[1:len(value)-1])), nil
	case 't', 'f', 'n':
		return append(dst, value...), nil
	default:
		if w.Numbers == NumbersQuoted {
			return append(append(append(dst, '"'), value...), '"'), nil
		}
		return w.Numbers.write(dst, value, field == "amount")
	}
}

func (w jsonWriter) object(dst, value []byte, depth int) ([]byte, error) {
	var space [16]member
	list, err := members(space[:0], value)
	if err != nil {
		return nil, err
	}
	if w.Sort {
		sortByName(list)
	}
	dst = append(dst, '{')
	for i, f := range list {
		dst = w.next(dst, i, depth+1)
		if w.keepText {
			dst = append(append(append(dst, '"'), f.written...), '"')
		} else {
			dst = w.text(dst, f.name)
		}
		dst = append(dst, ':')
		if w.Spaces || w.Indent != "" {
			dst = append(dst, ' ')
		}
		dst, err = w.value(dst, f.value, depth+1, string(f.name))
		if err != nil {
			return nil, err
		}
	}
	return append(w.last(dst, len(list), depth), '}'), nil
}

// next writes the separator and the white space before an element.
func (w jsonWriter) next(dst []byte, index, depth int) []byte {
	if index > 0 {
		dst = append(dst, ',')
	}
	if w.Indent != "" {
		return w.line(dst, depth)
	}
	if index > 0 && w.Spaces {
		dst = append(dst, ' ')
	}
	return dst
}

// last writes the white space after the last of n elements.
func (w jsonWriter) last(dst []byte, n, depth int) []byte {
	if n > 0 && w.Indent != "" {
		return w.line(dst, depth)
	}
	return dst
}

func (w jsonWriter) line(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, w.Indent...)
	}
	return dst
}

// text writes the unescaped text s as a JSON string.
func (w jsonWriter) text(dst, s []byte) []byte {
	escapeHTML := w.EscapeHTML || w.EscapeGson
	dst = append(dst, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		switch {
		case r == '"' || r == '\\' || r == '/' && w.EscapeSlash:
			dst = append(dst, '\\', s[0])
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r < ' ', escapeHTML && (r == '<' || r == '>' || r == '&'), w.EscapeGson && (r == '=' || r == '\''):
			dst = appendHex4(dst, r)
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[0])
		case w.EscapeUnicode && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendHex4(appendHex4(dst, high), low)
		case w.EscapeUnicode && r >= utf8.RuneSelf, escapeHTML && (r == '\u2028' || r == '\u2029'):
			dst = appendHex4(dst, r)
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return append(dst, '"')
}

func appendHex4(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
