package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

// oddTexts are what JSON, HTML, headers and databases each have trouble with.
func oddTexts() []string {
	return []string{
		"\x00", "\x01\x1f", "\x7f", "\t\r\n", " ", `"`, `\`, `\u0041`, "</script>&amp;", "it's", "a=b&c=d", "%2F%00",
		"\u0085", "\u00a0", "\u2028\u2029", "\u200b", "\u202e", "\ufeff", "\ufffd", "\ufffe\uffff", "\ud7ff\ue000",
		"e\u0301", "ſtatuſ", "ПЛАТЁЖ", "支払い", "דמי", "🏳️\u200d🌈", "\U0010ffff", "null", "0", "{}", strings.Repeat("ü", 300),
	}
}

// drawText gives text that is not empty.
func drawText(t *rapid.T, label string) string {
	odd := rapid.SampledFrom(oddTexts())
	return rapid.OneOf(
		odd,
		rapid.StringN(1, 40, -1),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(odd, 2, 5).Draw(t, "parts"), "")
		}),
	).Filter(utf8.ValidString).Draw(t, label)
}

// drawDecimal gives a number in JSON's grammar that has at most 64 digits when its exponent is written out.
func drawDecimal(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"0", "-0", "0.00", "-0.0e5", "0E+00", "1", "-1", "10.50", "0.1", "1e63", "1E-63", "1.50e1", "-12.3e-04",
			strings.Repeat("9", 64), "-" + strings.Repeat("9", 32) + "." + strings.Repeat("9", 32),
			"0." + strings.Repeat("0", 63) + "1", "9007199254740993", "0.30000000000000004",
		}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?([eE][-+]?0?(1?[0-9]|20))?`),
	).Draw(t, label)
}

func drawAmount(t *rapid.T, label string) paymentsvc.Amount {
	if rapid.IntRange(0, 9).Draw(t, label+" from minor units") == 0 {
		return paymentsvc.AmountFromMinor(
			rapid.Int64().Draw(t, label+" units"), rapid.Uint8().Draw(t, label+" scale"))
	}
	return paymentsvc.MustParseAmount(drawDecimal(t, label))
}

// drawID gives known most of the time, and otherwise any id that a Config takes.
func drawID(t *rapid.T, label string, known int64) int64 {
	if rapid.IntRange(0, 4).Draw(t, label+" is another") > 0 {
		return known
	}
	return rapid.Int64().Filter(func(n int64) bool { return n != 0 }).Draw(t, label)
}

// cardData is an open object as a partner may write it down.
type cardData struct {
	Number  string          `json:"number"`
	Expires map[string]int  `json:"expires,omitempty"`
	Amounts []json.Number   `json:"amounts"`
	More    json.RawMessage `json:"more,omitempty"`
	*inner
	ignored string
}

type inner struct {
	Name *string `json:"имя <владельца>"`
}

// marshaled encodes itself.
type marshaled string

func (m marshaled) MarshalJSON() ([]byte, error) { return []byte(m), nil }

// drawOpen gives a value for an open object, and whether it is sent.
func drawOpen(t *rapid.T, label string) (value any, sent bool) {
	kinds := rapid.IntRange(0, 9)
	switch kinds.Draw(t, label+" kind") {
	case 0:
		return nil, false
	case 1:
		return rapid.SampledFrom([]any{map[string]any(nil), (*cardData)(nil), json.RawMessage("null"), json.RawMessage(nil)}).
			Draw(t, label), false
	case 2:
		name := drawText(t, label+" name")
		return cardData{Number: card, Amounts: []json.Number{"1.10", "1e3"}, inner: &inner{&name}, ignored: "x"}, true
	case 3:
		return &cardData{
			Number:  drawText(t, label+" number"),
			Expires: map[string]int{"year": 2030, "": 0},
			More:    json.RawMessage(drawJSON(t, 2)),
		}, true
	case 4:
		return marshaled(drawJSONObject(t, 2)), true
	case 5:
		return map[string]string{drawText(t, label+" key"): drawText(t, label+" value")}, true
	case 6:
		return map[string]any{}, true
	case 7:
		return map[string]any{
			drawText(t, label+" key"): []any{nil, true, rapid.Float64().Draw(t, label+" number"), drawText(t, label+" text")},
			"nested":                  map[string]any{"deeper": json.RawMessage(drawJSON(t, 2)), "card_data": nil},
		}, true
	default:
		return json.RawMessage(drawJSONObject(t, 3)), true
	}
}

// drawJSON gives any JSON value as text, depth levels deep at most.
func drawJSON(t *rapid.T, depth int) string {
	kinds := 6
	if depth <= 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind of value") {
	case 0:
		return "null"
	case 1:
		return strconv.FormatBool(rapid.Bool().Draw(t, "boolean"))
	case 2, 3:
		return drawQuoted(t, rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom(oddTexts())).
			Filter(utf8.ValidString).Draw(t, "text"))
	case 4:
		return drawDecimal(t, "number")
	case 5:
		return drawJSONObject(t, depth-1)
	default:
		var b strings.Builder
		for i := range rapid.IntRange(0, 3).Draw(t, "elements") {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(drawSpace(t) + drawJSON(t, depth-1) + drawSpace(t))
		}
		return "[" + b.String() + "]"
	}
}

func drawJSONObject(t *rapid.T, depth int) string {
	var members []member
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		name := fmt.Sprint(i) + rapid.SampledFrom(append(oddTexts(), "", "order_id", "status")).Draw(t, "name")
		members = append(members, member{name, drawJSON(t, depth-1)})
	}
	return drawObjectOf(t, members)
}

// member is one member of a JSON object, its value as text.
type member struct{ name, value string }

// drawObjectOf writes an object of the members in their order, with white space and escapes as may be.
func drawObjectOf(t *rapid.T, members []member) string {
	var b strings.Builder
	b.WriteString("{" + drawSpace(t))
	for i, m := range members {
		if i > 0 {
			b.WriteString("," + drawSpace(t))
		}
		b.WriteString(drawQuoted(t, m.name) + drawSpace(t) + ":" + drawSpace(t) + m.value + drawSpace(t))
	}
	return b.String() + "}"
}

func drawSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n  "}).Draw(t, "space")
}

// drawQuoted writes text as a JSON string: as short as it goes, or with escapes where none are needed.
func drawQuoted(t *rapid.T, text string) string {
	escaped := rapid.Bool().Draw(t, "escaped")
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case escaped || r < ' ':
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
