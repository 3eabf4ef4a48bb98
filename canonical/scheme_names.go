package canonical

import (
	"encoding/base64"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// word is a name of the text form. Code is its name in Go; one of the other fields says what it means.
type word struct {
	text, code string
	signs      bool // the body or a field of it
	part       paymentsvc.CanonicalFunc
	texts      func(texts []string) paymentsvc.CanonicalFunc // a part with texts, as in header("X-Name")
	least      int                                           // of these texts
	many       bool                                          // there may be more of them
	around     func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	encoding   paymentsvc.Encoding
	read       func(*parser) made     // a part with a syntax of its own
	combine    func(*parser) encoding // an encoding made of others
}

func (w word) isEncoding() bool { return w.encoding != nil || w.combine != nil }

// words is the table of names that the parser, the Go code and the page docs/signing.md share.
func words() []word {
	return []word{
		{text: "timestamp", code: "Timestamp", part: Timestamp},
		{text: "timestamp-ms", code: "TimestampMillis", part: TimestampMillis},
		{text: "date", code: "Date", least: 1, texts: func(t []string) paymentsvc.CanonicalFunc { return Date(t[0]) }},
		{text: "method", code: "Method", part: Method},
		{text: "body", code: "Body", part: Body, signs: true},
		{text: "body-compact", code: "BodyCompact", part: BodyCompact, signs: true},
		{text: "body-sorted", code: "BodySorted", part: BodySorted, signs: true},
		{text: "path", code: "Path", part: Path},
		{text: "path-last", code: "PathLast", part: PathLast},
		{text: "decoded-path", code: "DecodedPath", part: DecodedPath},
		{text: "uri", code: "RequestURI", part: RequestURI},
		{text: "url", code: "URL", part: URL},
		{text: "host", code: "Host", part: Host},
		{text: "query", code: "Query", part: Query},
		{text: "sorted-query", code: "SortedQuery", part: SortedQuery},
		{text: "path-below", code: "PathBelow", least: 1, texts: func(t []string) paymentsvc.CanonicalFunc { return PathBelow(t[0]) }},
		{text: "header", code: "Header", least: 1, texts: func(t []string) paymentsvc.CanonicalFunc { return Header(t[0]) }},
		{text: "field", code: "Field", signs: true, least: 1, many: true, texts: func(t []string) paymentsvc.CanonicalFunc { return Field(t...) }},
		{text: "field-or", code: "FieldOr", signs: true, least: 2, many: true, texts: func(t []string) paymentsvc.CanonicalFunc { return FieldOr(t[0], t[1:]...) }},
		{text: "fields", code: "Fields", read: (*parser).fields},
		{text: "json", code: "BodyJSON", read: (*parser).json},
		{text: "with", code: "With", read: (*parser).with},
		{text: "with-number", code: "WithNumber", read: (*parser).with},
		{text: "within", code: "Within", read: (*parser).within},
		{text: "number", code: "Number", read: (*parser).number},
		{text: "escaped", code: "Escaped", read: (*parser).escaped},
		{text: "secret", code: "Secret", read: (*parser).secretPart},
		{text: "lower", code: "Lower", around: Lower},
		{text: "upper", code: "Upper", around: Upper},
		{text: "md5", code: "MD5", digest: MD5},
		{text: "sha1", code: "SHA1", digest: SHA1},
		{text: "sha256", code: "SHA256", digest: SHA256},
		{text: "sha512", code: "SHA512", digest: SHA512},
		{text: "hex", code: "paymentsvc.Hex", encoding: paymentsvc.Hex},
		{text: "HEX", code: "paymentsvc.HexUpper", encoding: paymentsvc.HexUpper},
		{text: "base64", code: "base64.StdEncoding", encoding: base64.StdEncoding},
		{text: "base64-raw", code: "base64.RawStdEncoding", encoding: base64.RawStdEncoding},
		{text: "base64url", code: "base64.URLEncoding", encoding: base64.URLEncoding},
		{text: "base64url-raw", code: "base64.RawURLEncoding", encoding: base64.RawURLEncoding},
		{text: "prefixed", code: "Prefixed", combine: (*parser).prefixed},
		{text: "chain", code: "Chain", combine: (*parser).chain},
	}
}

// option is a name in the brackets of fields or json. Group tells options that exclude each other.
type option[T any] struct {
	text, code, group string
	set               func(*T)
}

func fieldOptions() []option[FieldList] {
	const most = 32
	list := append(make([]option[FieldList], 0, most), []option[FieldList]{
		{"sorted", "", "order", func(*FieldList) {}},
		{"as-sent", "AsSent", "order", func(l *FieldList) { l.AsSent = true }},
		{"unseparated", "Unseparated", "unseparated", func(l *FieldList) { l.Unseparated = true }},
		{"omit-nested", "Nested", "nested", func(l *FieldList) { l.Nested = NestedOmitted }},
		{"flat", "Nested", "nested", func(l *FieldList) { l.Nested = NestedFlat }},
		{"omit-empty", "OmitEmpty", "omit-empty", func(l *FieldList) { l.OmitEmpty = true }},
		{"escape", "Escape", "escape", func(l *FieldList) { l.Escape = true }},
		{"omit", "Omit", "omit", func(*FieldList) {}},
		{"omit-null", "OmitNull", "omit-null", func(l *FieldList) { l.OmitNull = true }},
	}...)
	for _, n := range constantNames() {
		list = append(list, option[FieldList]{n.text, "Constants", "constants", func(l *FieldList) { l.Constants = n.value }})
	}
	for _, n := range numberNames() {
		list = append(list, option[FieldList]{n.text + "-numbers", "Numbers", "numbers", func(l *FieldList) { l.Numbers = n.value }})
	}
	for _, n := range escapingNames() {
		list = append(list, option[FieldList]{"escape-" + n.text, "Escaping", "escape", func(l *FieldList) { l.Escaping = n.value }})
	}
	return list
}

// named is a value of an enumeration in the text form, and its Go code.
type named[T any] struct {
	text, code string
	value      T
}

func numberNames() []named[NumberForm] {
	return []named[NumberForm]{
		{"short", "NumbersShort", NumbersShort}, {"python", "NumbersPython", NumbersPython}, {"java", "NumbersJava", NumbersJava},
		{"two-place", "NumbersTwoPlaces", NumbersTwoPlaces}, {"minor", "NumbersMinor", NumbersMinor}, {"quoted", "NumbersQuoted", NumbersQuoted},
	}
}

func escapingNames() []named[Escaping] {
	return []named[Escaping]{
		{"form", "EscapingForm", EscapingForm}, {"percent", "EscapingPercent", EscapingPercent}, {"php", "EscapingPHP", EscapingPHP},
		{"js", "EscapingJS", EscapingJS}, {"java", "EscapingJava", EscapingJava},
	}
}

func constantNames() []named[Constants] {
	return []named[Constants]{
		{"php-constants", "ConstantsPHP", ConstantsPHP}, {"digit-constants", "ConstantsDigits", ConstantsDigits},
		{"python-constants", "ConstantsPython", ConstantsPython}, {"no-null", "ConstantsNoNull", ConstantsNoNull},
	}
}

// codeOf returns the Go code of a value, "" for the zero value.
func codeOf[T comparable](list []named[T], value T) string {
	for _, n := range list {
		if n.value == value {
			return "canonical." + n.code
		}
	}
	return ""
}

func jsonOptions() []option[JSONForm] {
	const most = 16
	list := append(make([]option[JSONForm], 0, most), []option[JSONForm]{
		{"sorted", "Sort", "sorted", func(f *JSONForm) { f.Sort = true }},
		{"spaces", "Spaces", "spaces", func(f *JSONForm) { f.Spaces = true }},
		{"escape-slash", "EscapeSlash", "escape-slash", func(f *JSONForm) { f.EscapeSlash = true }},
		{"escape-unicode", "EscapeUnicode", "escape-unicode", func(f *JSONForm) { f.EscapeUnicode = true }},
		{"escape-html", "EscapeHTML", "escape-html", func(f *JSONForm) { f.EscapeHTML = true }},
		{"escape-gson", "EscapeGson", "escape-gson", func(f *JSONForm) { f.EscapeGson = true }},
		{"indent", "Indent", "spaces", func(*JSONForm) {}},
		{"short-numbers", "ShortNumbers", "numbers", func(f *JSONForm) { f.ShortNumbers = true }},
	}...)
	for _, n := range numberNames()[1:] {
		list = append(list, option[JSONForm]{n.text + "-numbers", "Numbers", "numbers", func(f *JSONForm) { f.Numbers = n.value }})
	}
	return list
}

// nearest returns the name that was probably meant, or "" if none is close.
func nearest(name string, names []string) (best string) {
	if len(name) > longestShown {
		return ""
	}
	least := 1 + min(2, len(name)/2)
	for _, other := range names {
		if d := distance(name, other); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with the next, to make b of a, without regard to case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
