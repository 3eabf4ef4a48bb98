package canonical

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// ParseScheme parses the text form of a scheme, which fits into a settings file or a flag:
//
//	hex(timestamp "." body)
//	base64(method '\n' path '\n' timestamp '\n' hex(sha256(body)))
//	request hex(timestamp body), notification hex(body)
//
// The text begins with the encoding of the signature. The brackets after the encoding contain the parts of the
// canonical string in order. ParseScheme ignores white space between parts, so write each separator as a quoted text.
// The names are:
//
//	"..." '...'                  text, with the escapes \n \r \t \\ \" \' \x00 \u00e9
//	timestamp timestamp-ms       Timestamp, TimestampMillis
//	date("2006-01-02")           Date, with a layout of package time
//	method body header("X-Name") Method, Body, Header
//	body-compact body-sorted     BodyCompact, BodySorted
//	json json(...)               BodyJSON, with options
//	path path-below("/v1")       Path, PathBelow
//	path-last decoded-path uri   PathLast, DecodedPath, RequestURI
//	url host query sorted-query  URL, Host, Query, SortedQuery
//	field("payer", "email")      Field
//	field-or("-", "payer")       FieldOr
//	fields(...)                  Fields, with texts and options
//	with("t", timestamp, ...)    With; with-number is WithNumber
//	within("data", ...)          Within
//	number(short, ...)           Number; or python, java, two-place, minor, padded, quoted
//	escaped(form, ...)           Escaped; or percent, php, js, java
//	lower(...) upper(...)        Lower, Upper
//	md5(...) sha1(...)           bytes of a digest; hex(sha256(body)) is BodySHA256
//	sha256(...) sha512(...)
//	secret                       Secret
//	hex HEX base64 base64url     encodings, of the signature or of parts
//	base64-raw base64url-raw     encodings without padding
//	prefixed("sha256=", hex)     Prefixed
//	chain(hex, base64)           Chain
//
// The part fields has these options: sorted (the default) or as-sent; omit-nested, flat or flat("."); omit-empty,
// omit-null and omit("a", "b"); escape-form, escape-percent, escape-php, escape-js or escape-java; php-constants,
// digit-constants, python-constants or no-null; and one form of numbers. A single text separates values. Of two texts,
// the first separates name from value, and the second separates fields. Without texts, "unseparated" is required.
//
// The part json has these options: sorted; spaces or indent(" "); escape-slash, escape-unicode, escape-html and
// escape-gson; and one form of numbers. The forms of numbers are short-numbers, python-numbers, java-numbers,
// two-place-numbers, minor-numbers, padded-numbers and quoted-numbers.
//
// A scheme for both kinds of messages begins with "request" and continues with ", notification"; see [ByKind]. Both
// kinds must have the same encoding. At the end, ", key base64" selects a [SecretForm]: text (the default), hex,
// base64, base64-tail, tail, hex-tail, sha256, sha256-hex, md5-hex, sha1-hex, trimmed, uuid, uuid-bytes or to-base64.
// The command paymentsvc adds ", seen in requests" or ", seen in notifications" if all its samples were messages of
// that kind. This clause changes no signature.
//
// A text with a scheme that signs neither the body nor a field must have the clause ", body unsigned". Any other text
// must not have this clause. A text with the part "secret" or a key form other than "text" is an error, because it
// needs [ParseSchemeWith]. Errors contain the column of the mistake, counted in characters.
func ParseScheme(text string) (paymentsvc.Scheme, error) {
	s, err := parse(text, "")
	switch {
	case err != nil:
		return paymentsvc.Scheme{}, err
	case s.secretAt > 0:
		return paymentsvc.Scheme{}, at(s.secretAt, "needs the secret: use ParseSchemeWith")
	}
	return s.scheme(), nil
}

// ParseSchemeWith parses every text that [ParseScheme] accepts, and texts that need the secret:
//
//	hex(fields(sorted, '=', '&') '&key=' secret), key base64
//
// It also returns the key for HMACConfig.Secret and WebhookConfig.Secrets. Without a key form, the key is the secret.
// It returns an error if the secret is empty or does not have the form; see [SecretForm.Read]. Errors contain no part
// of the secret, unless the text contains the secret.
func ParseSchemeWith(
	text string, secret paymentsvc.Secret,
) (scheme paymentsvc.Scheme, key paymentsvc.Secret, err error) {
	s, err := parse(text, secret)
	if err != nil {
		return paymentsvc.Scheme{}, "", err
	}
	key, err = s.form.form.Read(secret)
	if err != nil {
		return paymentsvc.Scheme{}, "", at(
			max(1, s.formAt), "key %s: %s", s.form.text, strings.TrimPrefix(err.Error(), "canonical: "),
		)
	}
	return s.scheme(), key, nil
}

// Code is the Go code of a scheme. The code uses a variable secret of type paymentsvc.Secret.
type Code struct {
	// Canonical and Encoding are expressions for the fields of the Scheme.
	Canonical, Encoding string
	// Key is an expression for the key: the variable secret, or a call that returns a key and an error.
	Key string
	// Imports are the sorted packages of these expressions and of the Scheme.
	Imports []string
}

// GoCode returns the Go code for the text form of a scheme. It returns an error for a text that [ParseSchemeWith]
// rejects with every secret.
func GoCode(text string) (Code, error) {
	s, err := parse(text, "")
	if err != nil {
		return Code{}, err
	}
	c := Code{
		Canonical: s.whole.code, Encoding: s.enc.code, Key: "secret",
		Imports: []string{"github.com/paymentsvc/paymentsvc", "github.com/paymentsvc/paymentsvc/canonical"},
	}
	if s.form.form != SecretText {
		c.Key = "canonical." + s.form.code + ".Read(secret)"
	}
	if s.base64 {
		c.Imports = append([]string{"encoding/base64"}, c.Imports...)
	}
	return c, nil
}

// word is a name of the text form. code is its name in Go. Exactly one of the fields part, texts, around, digest,
// encoding, read and combine is set.
type word struct {
	text, code string
	signs      bool // whether the part covers the body or a field
	part       paymentsvc.CanonicalFunc
	texts      func(texts []string) paymentsvc.CanonicalFunc // a part with texts, as in header("X-Name")
	least      int                                           // minimum number of texts
	many       bool                                          // whether more texts than least are allowed
	around     func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	encoding   paymentsvc.Encoding
	read       func(*parser) parsedPart // a part with special syntax
	combine    func(*parser) encoding   // a combination of encodings
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

// option is a name in the brackets of the part "fields" or "json". Options of one group exclude each other. code is the
// Go code that sets the option, or "" for the default. on reports whether the option is set. The parser and the forms
// methods handle the arguments of options such as omit.
type option[T any] struct {
	text, code, group string
	set               func(*T)
	on                func(*T) bool
}

// choice returns the option that sets a field to value.
func choice[T any, V comparable](group, text, code string, field func(*T) *V, value V) option[T] {
	return option[T]{
		text, code, group, func(t *T) { *field(t) = value }, func(t *T) bool { return *field(t) == value },
	}
}

// flag returns the option that sets a field to true.
func flag[T any](text, code string, field func(*T) *bool) option[T] {
	return choice(text, text, code+": true", field, true)
}

// choices returns an option for each name of an enumeration. format has %s for the name.
func choices[T any, V comparable](group, format, code string, names []named[V], field func(*T) *V) []option[T] {
	list := make([]option[T], len(names))
	for i, n := range names {
		list[i] = choice(group, fmt.Sprintf(format, n.text), code+": canonical."+n.code, field, n.value)
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
	{"java", "NumbersJava", NumbersJava}, {"two-place", "NumbersTwoPlaces", NumbersTwoPlaces},
	{"minor", "NumbersMinor", NumbersMinor}, {"padded", "NumbersPadded", NumbersPadded},
	{"quoted", "NumbersQuoted", NumbersQuoted},
}

var escapingNames = []named[Escaping]{
	{"form", "EscapingForm", EscapingForm}, {"percent", "EscapingPercent", EscapingPercent},
	{"php", "EscapingPHP", EscapingPHP}, {"js", "EscapingJS", EscapingJS}, {"java", "EscapingJava", EscapingJava},
}

var constantNames = []named[Constants]{
	{"php-constants", "ConstantsPHP", ConstantsPHP}, {"digit-constants", "ConstantsDigits", ConstantsDigits},
	{"python-constants", "ConstantsPython", ConstantsPython}, {"no-null", "ConstantsNoNull", ConstantsNoNull},
}

// String returns the name in the text form of a scheme, such as "short", or "" for [NumbersAsSent].
func (f NumberForm) String() string { return nameOf(numberNames, f) }

// String returns the name in the text form of a scheme, such as "form", or "" for [EscapingNone].
func (e Escaping) String() string { return nameOf(escapingNames, e) }

// String returns the name in the text form of a scheme, such as "php-constants", or "" for [ConstantsAsSent].
func (c Constants) String() string { return nameOf(constantNames, c) }

func nameOf[T comparable](list []named[T], value T) string {
	at := slices.IndexFunc(list, func(n named[T]) bool { return n.value == value })
	if at < 0 {
		return ""
	}
	return list[at].text
}

var fieldOptions = slices.Concat([]option[FieldList]{
	choice("order", "sorted", "", func(l *FieldList) *bool { return &l.AsSent }, false),
	choice("order", "as-sent", "AsSent: true", func(l *FieldList) *bool { return &l.AsSent }, true),
	flag("unseparated", "Unseparated", func(l *FieldList) *bool { return &l.Unseparated }),
},
	choices("nested", "%s", "Nested", []named[Nested]{
		{"omit-nested", "NestedOmitted", NestedOmitted}, {"flat", "NestedFlat", NestedFlat},
	}, func(l *FieldList) *Nested { return &l.Nested }),
	[]option[FieldList]{
		flag("omit-empty", "OmitEmpty", func(l *FieldList) *bool { return &l.OmitEmpty }),
		{"omit", "Omit", "omit", func(*FieldList) {}, func(l *FieldList) bool { return len(l.Omit) > 0 }},
		flag("omit-null", "OmitNull", func(l *FieldList) *bool { return &l.OmitNull }),
	},
	choices("escape", "escape-%s", "Escaping", escapingNames, func(l *FieldList) *Escaping { return &l.Escaping }),
	choices("numbers", "%s-numbers", "Numbers", numberNames, func(l *FieldList) *NumberForm { return &l.Numbers }),
	choices("constants", "%s", "Constants", constantNames, func(l *FieldList) *Constants { return &l.Constants }),
)

var jsonOptions = append([]option[JSONForm]{
	flag("sorted", "Sort", func(f *JSONForm) *bool { return &f.Sort }),
	choice("spaces", "spaces", "Spaces: true", func(f *JSONForm) *bool { return &f.Spaces }, true),
	flag("escape-slash", "EscapeSlash", func(f *JSONForm) *bool { return &f.EscapeSlash }),
	flag("escape-unicode", "EscapeUnicode", func(f *JSONForm) *bool { return &f.EscapeUnicode }),
	flag("escape-html", "EscapeHTML", func(f *JSONForm) *bool { return &f.EscapeHTML }),
	flag("escape-gson", "EscapeGson", func(f *JSONForm) *bool { return &f.EscapeGson }),
	{"indent", "Indent", "spaces", func(*JSONForm) {}, func(f *JSONForm) bool { return f.Indent != "" }},
}, choices("numbers", "%s-numbers", "Numbers", numberNames, func(f *JSONForm) *NumberForm { return &f.Numbers })...)

// String returns the text form, such as fields(sorted, "=", "&").
func (l FieldList) String() string {
	text, _ := l.forms()
	return "fields(" + strings.Join(text, ", ") + ")"
}

// forms returns the options in the text form and the fields in Go.
func (l FieldList) forms() (text, code []string) {
	const most = 12 // options of a list
	text, code = make([]string, 0, most), make([]string, 0, most)
	if l.Names {
		text, code = append(text, strconv.Quote(l.Equals)), append(code, "Names: true")
	}
	if !l.Unseparated {
		text = append(text, strconv.Quote(l.Between))
	}
	if l.Equals != "" {
		code = append(code, fmt.Sprintf("Equals: %q", l.Equals))
	}
	if l.Between != "" {
		code = append(code, fmt.Sprintf("Between: %q", l.Between))
	}
	for i, o := range fieldOptions {
		switch {
		case !o.on(&l):
		case o.text == "omit":
			text, code = append(text, "omit("+quotedList(l.Omit)+")"), append(code, fmt.Sprintf("Omit: %#v", l.Omit))
		case o.text == "flat" && l.Path != "":
			text = append(text, fmt.Sprintf("flat(%q)", l.Path))
			code = append(code, o.code, fmt.Sprintf("Path: %q", l.Path))
		case i < 2: // sorted or as-sent comes first
			text, code = slices.Insert(text, 0, o.text), append(code, o.code)
		default:
			text, code = append(text, o.text), append(code, o.code)
		}
	}
	return text, slices.DeleteFunc(code, func(c string) bool { return c == "" })
}

// String returns the text form, such as json(sorted, escape-slash).
func (f JSONForm) String() string {
	text, _ := f.forms()
	if len(text) == 0 {
		return "json"
	}
	return "json(" + strings.Join(text, ", ") + ")"
}

// forms returns the options in the text form and the fields in Go.
func (f JSONForm) forms() (text, code []string) {
	for _, o := range jsonOptions {
		switch {
		case !o.on(&f):
		case o.text == "indent":
			text = append(text, fmt.Sprintf("indent(%q)", f.Indent))
			code = append(code, fmt.Sprintf("Indent: %q", f.Indent))
		default:
			text, code = append(text, o.text), append(code, o.code)
		}
	}
	return text, code
}
