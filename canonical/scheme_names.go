package canonical

import (
	"encoding/base64"
	"slices"

	"github.com/paymentsvc/paymentsvc"
)

// word is a name of the text form. code is its name in Go. Exactly one of part, texts, around, digest, encoding, read
// and combine is set.
type word struct {
	text, code string
	signs      bool // whether it covers the body or a field
	part       paymentsvc.CanonicalFunc
	texts      func(texts []string) paymentsvc.CanonicalFunc // a part with texts, as in header("X-Name")
	least      int                                           // minimum number of texts
	many       bool                                          // whether more texts may follow
	around     func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	encoding   paymentsvc.Encoding
	read       func(*parser) made     // a part with special syntax
	combine    func(*parser) encoding // a combination of encodings
}

func (w word) isEncoding() bool { return w.encoding != nil || w.combine != nil }

// words is the table of names for the parser and for the Go code. The doc of ParseScheme lists them.
var words = []word{
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
	{
		text: "path-below", code: "PathBelow", least: 1,
		texts: func(t []string) paymentsvc.CanonicalFunc { return PathBelow(t[0]) },
	},
	{
		text: "header", code: "Header", least: 1,
		texts: func(t []string) paymentsvc.CanonicalFunc { return Header(t[0]) },
	},
	{
		text: "field", code: "Field", signs: true, least: 1, many: true,
		texts: func(t []string) paymentsvc.CanonicalFunc { return Field(t...) },
	},
	{
		text: "field-or", code: "FieldOr", signs: true, least: 2, many: true,
		texts: func(t []string) paymentsvc.CanonicalFunc { return FieldOr(t[0], t[1:]...) },
	},
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

// option is a name in the brackets of fields or json. Options of one group exclude each other.
type option[T any] struct {
	text, code, group string
	set               func(*T)
}

var fieldOptions = slices.Concat([]option[FieldList]{
	{"sorted", "", "order", func(*FieldList) {}},
	{"as-sent", "AsSent", "order", func(l *FieldList) { l.AsSent = true }},
	{"unseparated", "Unseparated", "unseparated", func(l *FieldList) { l.Unseparated = true }},
	{"omit-nested", "Nested", "nested", func(l *FieldList) { l.Nested = NestedOmitted }},
	{"flat", "Nested", "nested", func(l *FieldList) { l.Nested = NestedFlat }},
	{"omit-empty", "OmitEmpty", "omit-empty", func(l *FieldList) { l.OmitEmpty = true }},
	{"escape", "Escape", "escape", func(l *FieldList) { l.Escape = true }},
	{"omit", "Omit", "omit", func(*FieldList) {}},
	{"omit-null", "OmitNull", "omit-null", func(l *FieldList) { l.OmitNull = true }},
},
	options(constantNames, func(n named[Constants]) option[FieldList] {
		return option[FieldList]{n.text, "Constants", "constants", func(l *FieldList) { l.Constants = n.value }}
	}),
	options(numberNames, func(n named[NumberForm]) option[FieldList] {
		return option[FieldList]{n.text + "-numbers", "Numbers", "numbers", func(l *FieldList) { l.Numbers = n.value }}
	}),
	options(escapingNames, func(n named[Escaping]) option[FieldList] {
		return option[FieldList]{"escape-" + n.text, "Escaping", "escape", func(l *FieldList) { l.Escaping = n.value }}
	}),
)

// options returns an option for each name.
func options[N, T any](names []named[N], of func(named[N]) option[T]) []option[T] {
	list := make([]option[T], len(names))
	for i, n := range names {
		list[i] = of(n)
	}
	return list
}

// named is a value of an enumeration with its name in the text form and in Go.
type named[T any] struct {
	text, code string
	value      T
}

var numberNames = []named[NumberForm]{
	{"short", "NumbersShort", NumbersShort}, {"python", "NumbersPython", NumbersPython},
	{"java", "NumbersJava", NumbersJava},
	{"two-place", "NumbersTwoPlaces", NumbersTwoPlaces}, {"minor", "NumbersMinor", NumbersMinor},
	{"quoted", "NumbersQuoted", NumbersQuoted},
}

var escapingNames = []named[Escaping]{
	{"form", "EscapingForm", EscapingForm}, {"percent", "EscapingPercent", EscapingPercent},
	{"php", "EscapingPHP", EscapingPHP},
	{"js", "EscapingJS", EscapingJS}, {"java", "EscapingJava", EscapingJava},
}

var constantNames = []named[Constants]{
	{"php-constants", "ConstantsPHP", ConstantsPHP}, {"digit-constants", "ConstantsDigits", ConstantsDigits},
	{"python-constants", "ConstantsPython", ConstantsPython}, {"no-null", "ConstantsNoNull", ConstantsNoNull},
}

// codeOf returns the Go code of a value, or "" for the zero value.
func codeOf[T comparable](list []named[T], value T) string {
	for _, n := range list {
		if n.value == value {
			return "canonical." + n.code
		}
	}
	return ""
}

var jsonOptions = append([]option[JSONForm]{
	{"sorted", "Sort", "sorted", func(f *JSONForm) { f.Sort = true }},
	{"spaces", "Spaces", "spaces", func(f *JSONForm) { f.Spaces = true }},
	{"escape-slash", "EscapeSlash", "escape-slash", func(f *JSONForm) { f.EscapeSlash = true }},
	{"escape-unicode", "EscapeUnicode", "escape-unicode", func(f *JSONForm) { f.EscapeUnicode = true }},
	{"escape-html", "EscapeHTML", "escape-html", func(f *JSONForm) { f.EscapeHTML = true }},
	{"escape-gson", "EscapeGson", "escape-gson", func(f *JSONForm) { f.EscapeGson = true }},
	{"indent", "Indent", "spaces", func(*JSONForm) {}},
	{"short-numbers", "ShortNumbers", "numbers", func(f *JSONForm) { f.ShortNumbers = true }},
}, options(numberNames[1:], func(n named[NumberForm]) option[JSONForm] {
	return option[JSONForm]{n.text + "-numbers", "Numbers", "numbers", func(f *JSONForm) { f.Numbers = n.value }}
})...)
