package discover

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// candidate is a text that a client may have signed. If the field text is set, the candidate is the canonical string of
// another scheme. If piece is set, it is the canonical string of a message in which piece replaces a part. Otherwise it
// is the expected canonical string.
type candidate struct {
	text    string // the text form of another scheme
	piece   *piece
	of      string // the part that piece replaces
	signed  []byte
	message *paymentsvc.Message
}

// fill makes the catalogue. It omits a long address, because the address has many forms.
func (e *explanation) fill() {
	m := *e.message
	const longest = 4 << 10
	if m.URL != nil && len(m.URL.Path)+len(m.URL.RawQuery) > longest {
		m.URL = nil
	}
	c := emptyCatalogue(context.Background(), []*sample{{message: m}}, e.Secret, e.hidden())
	c.limit = maxBytes / 4
	e.catalogue = c
	c.fill(c.addMessage, c.addAddress, c.addBody, c.addHeaders, c.addSecret, e.addForms, e.addAltered)
}

// costOfForm exceeds the costs of plain parts, because the search prefers plain parts with the same text.
const costOfForm = 10

// addForms adds the forms of parts that clients sign by mistake. It skips bodies after half of the budget.
func (e *explanation) addForms() {
	for _, kind := range slices.Sorted(maps.Keys(otherForms)) {
		for _, text := range otherForms[kind] {
			if kind != ofBody || e.spend(costOfJSON*len(e.message.Body)) && e.left > maxBytes/2 {
				e.catalogue.add(piece{kind: kind, rarity: rare, cost: costOfForm, text: text})
			}
		}
	}
}

// otherForms are forms of parts in the text form of a scheme, the simplest first.
var otherForms = newOtherForms()

func newOtherForms() map[kind][]string {
	const most = 64
	bodies := append(make([]string, 0, most),
		`body "\n"`, `body "\r\n"`, `"\ufeff" body`, "body-compact", "body-sorted")
	for _, form := range []string{
		"", "spaces", "escape-slash", "escape-unicode", "escape-html", "escape-gson", "short-numbers", "java-numbers",
		"two-place-numbers", "quoted-numbers", "spaces, escape-unicode", "spaces, escape-unicode, python-numbers",
		"escape-slash, escape-unicode", "escape-slash, short-numbers", "escape-slash, escape-unicode, short-numbers",
		`indent("  ")`, `indent("    ")`, `indent("\t")`,
	} {
		bodies = append(bodies, "json("+form+")", "json("+strings.TrimSuffix("sorted, "+form, ", ")+")")
	}
	bodies = append(bodies, `json(indent("  "), escape-unicode)`, `json(indent("  "), short-numbers)`,
		`json(indent("    "), escape-slash, escape-unicode)`, `json(indent("  ")) "\n"`, `json(indent("    ")) "\n"`,
		`json(escape-html) "\n"`, "fields('|')", "fields(unseparated)")
	for _, form := range []string{
		"", ", omit-nested", ", escape-form", ", flat('[]'), escape-form",
		", flat('[]'), escape-php, digit-constants, short-numbers",
	} {
		bodies = append(bodies, "fields(as-sent, '=', '&'"+form+")", "fields('=', '&'"+form+")")
	}
	return map[kind][]string{
		ofTimestamp: {
			`timestamp ".0"`, `timestamp "000000"`, `timestamp "000000000"`, `date("2006-01-02T15:04:05.000000Z")`,
			`date("2006-01-02T15:04:05.000+00:00")`, `date("2006-01-02T15:04:05+0000")`,
			`date("Mon Jan _2 15:04:05 2006")`, `date("02.01.2006 15:04:05")`,
		},
		ofMethod:  {`"GET"`},
		ofAddress: {`path "/"`, `"/" path`, `"/"`},
		ofBody:    bodies,
	}
}

// addAltered adds parts without a text form, and the other kind of message.
func (e *explanation) addAltered() {
	add := func(kind kind, words, text string) {
		e.catalogue.add(piece{
			kind: kind, rarity: rare, cost: costOfForm, text: "[" + words + "]", part: canonical.Literal(text),
		})
	}
	if sent, err := strconv.ParseInt(e.message.Timestamp, 10, 64); err == nil {
		for n := int64(-14); n <= 14; n++ { // hours for time zones
			for _, seconds := range []int64{n, n * 60 * 60} {
				add(ofTimestamp, fmt.Sprintf("timestamp %+d s", seconds), strconv.FormatInt(sent+seconds, 10))
			}
		}
	}
	if e.message.Kind == paymentsvc.KindNotification {
		add(ofMark, "request", "")
	} else {
		add(ofMark, "notification", "")
	}
	add(ofTimestamp, "no timestamp", "")
	add(ofMethod, "no method", "")
	add(ofBody, "empty body", "")
	add(ofBody, "body without its line end", strings.TrimRight(string(e.message.Body), "\r\n"))
	e.addCompressed(add)
}

// addCompressed adds the decompressed and the compressed body.
func (e *explanation) addCompressed(add func(kind kind, words, text string)) {
	const costOfGzip = 20
	if !e.spend(costOfGzip * len(e.message.Body)) {
		return
	}
	const most = 1 << 20
	if r, err := gzip.NewReader(bytes.NewReader(e.message.Body)); err == nil {
		plain, _ := io.ReadAll(io.LimitReader(r, most)) // a cut body matches no signature
		add(ofBody, "decompressed body", string(plain))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(e.message.Body) // writing to memory cannot fail
	_ = w.Close()
	add(ofBody, "body compressed with Go's gzip", packed.String())
}

// milliseconds returns every time in milliseconds within the second of the timestamp.
func (e *explanation) milliseconds() (list []*piece) {
	for n := range 1000 {
		text := fmt.Sprintf("%s%03d", e.message.Timestamp, n)
		list = append(list, &piece{kind: ofTimestamp, text: "[timestamp with milliseconds]", texts: []string{text}})
	}
	return list
}

// altered returns the canonical strings of messages in which one piece replaces a part.
func (e *explanation) altered(pieces ...*piece) (list []candidate) {
	for _, p := range pieces {
		m, of := e.with(p)
		if m == nil {
			continue
		}
		if signed, ok := e.sign(e.Scheme.Canonical, m); ok {
			list = append(list, candidate{piece: p, of: of, message: m, signed: signed})
		}
	}
	return list
}

// with returns the message with the piece in place of a part, and the name of the part. It returns nil if the piece
// cannot replace a part.
func (e *explanation) with(p *piece) (altered *paymentsvc.Message, of string) {
	m, text := *e.message, p.texts[0]
	switch p.kind {
	case ofTimestamp:
		of, m.Timestamp = "timestamp", text
	case ofMethod:
		of, m.Method = "method", text
	case ofBody:
		of, m.Body = "body", []byte(text)
	case ofAddress:
		path, err := url.PathUnescape(text)
		if m.URL == nil || err != nil {
			return nil, ""
		}
		address := *m.URL
		address.RawPath, address.Path = text, path
		of, m.URL = "path", &address
	case ofMark:
		of, m.Kind = "request", paymentsvc.KindNotification
		if e.message.Kind == m.Kind {
			of, m.Kind = "notification", paymentsvc.KindRequest
		}
	default:
		return nil, ""
	}
	return &m, of
}

// in returns the text form of a scheme with the piece in place of the part.
func (c *candidate) in(scheme string) string {
	tokens := schemeTokens.FindAllString(scheme, -1)
	for i, token := range tokens {
		if token == c.of {
			tokens[i] = c.piece.text
		}
	}
	return strings.Join(tokens, "")
}

// edited returns the texts of schemes with other separators, with a part replaced, added or removed, or with two parts
// exchanged.
func (e *explanation) edited() (list []candidate) {
	encoding, parts := e.parts()
	if encoding == "" {
		return nil
	}
	edit := func(parts ...string) { list = append(list, e.parsed(encoding+strings.Join(parts, " ")+")")...) }
	unseparated := slices.DeleteFunc(slices.Clone(parts), isQuoted)
	edit(unseparated...)
	for _, other := range allSeparators {
		edit(strings.Join(unseparated, " "+strconv.Quote(other)+" "))
	}
	separator := `"\n"`
	if i := slices.IndexFunc(parts, isQuoted); i >= 0 {
		separator = parts[i]
	}
	edit(append(slices.Clone(parts), separator)...)
	edit(append([]string{separator}, parts...)...)
	for i, part := range parts {
		edit(slices.Concat(parts[:i], parts[i+1:])...)
		edit(slices.Concat(parts[:i], parts[min(i+2, len(parts)):])...)
		for j := range i {
			swapped := slices.Clone(parts)
			swapped[i], swapped[j] = parts[j], part
			edit(swapped...)
		}
		for _, p := range e.catalogue.plainPieces(uncommon, ofBody) {
			if strings.Contains(part, "body") {
				edit(slices.Concat(parts[:i], []string{p.text}, parts[i+1:])...)
			}
		}
	}
	for _, p := range e.catalogue.plainPieces(common) {
		edit(append(slices.Clone(parts), separator, p.text)...)
		for i, part := range parts {
			if !isQuoted(part) {
				edit(slices.Concat(parts[:i], []string{p.text, separator}, parts[i:])...)
			}
		}
	}
	return list
}

// parsed returns the canonical string of a text form, even if "body unsigned" is missing. It returns an empty list for
// an invalid text form, if the scheme rejects the message, and at the end of the budget.
func (e *explanation) parsed(text string) []candidate {
	if !e.spend(costOfParse) {
		return nil
	}
	scheme, _, err := canonical.ParseSchemeWith(text, e.Secret)
	if err != nil {
		text += ", body unsigned"
		if scheme, _, err = canonical.ParseSchemeWith(text, e.Secret); err != nil {
			return nil
		}
	}
	signed, ok := e.sign(scheme.Canonical, e.message)
	if !ok {
		return nil
	}
	return []candidate{{text: text, signed: signed}}
}

// withOptions matches a list of fields or JSON. anOption matches one of its options or separators.
var (
	withOptions = regexp.MustCompile(`\b(fields|json)\b(\((?:` + quotedText + `|\([^()]*\)|[^()"'])*\))?`)
	anOption    = regexp.MustCompile(quotedText + `|[^\s(),"']+(?:\([^()]*\))?`)
)

// optionsOf are the options of a list of fields and of JSON. The separators have the name "".
var optionsOf = sync.OnceValue(func() map[string][]string {
	options := map[string][]string{"fields": {`flat(".")`, `flat("[]")`}, "json": {"spaces"}}
	add := func(name, text string) {
		for _, o := range anOption.FindAllString(strings.TrimPrefix(text, name), -1) {
			if !isQuoted(o) && !slices.Contains(options[name], o) {
				options[name] = append(options[name], o)
			}
		}
	}
	for _, l := range listsBeside(canonical.FieldList{Names: true}) {
		add("fields", l.String())
	}
	for _, form := range formsBeside(canonical.JSONForm{}) {
		add("json", form.String())
	}
	for _, separator := range allSeparators {
		options[""] = append(options[""], strconv.Quote(separator))
	}
	return options
})

// relisted returns the texts of schemes with one different option of a list of fields or of JSON.
func (e *explanation) relisted() (list []candidate) {
	for _, at := range withOptions.FindAllStringSubmatchIndex(e.scheme, -1) {
		name, own := e.scheme[at[2]:at[3]], anOption.FindAllString(e.scheme[at[3]:at[1]], -1)
		edit := func(options ...string) {
			text := name
			if len(options) > 0 {
				text += "(" + strings.Join(options, ", ") + ")"
			}
			list = append(list, e.parsed(e.scheme[:at[0]]+text+e.scheme[at[1]:])...)
		}
		for i, o := range own {
			edit(slices.Concat(own[:i], own[i+1:])...)
			others := optionsOf()[name]
			if isQuoted(o) {
				others = optionsOf()[""]
			}
			for _, other := range others {
				edit(slices.Concat(own[:i], []string{other}, own[i+1:])...)
			}
		}
		for _, other := range optionsOf()[name] {
			edit(append([]string{other}, own...)...)
		}
	}
	return list
}

func isQuoted(part string) bool { return strings.ContainsAny(part[:1], `"'`) }

// schemeTokens are quoted texts, brackets, commas, white space and other words.
var schemeTokens = regexp.MustCompile(quotedText + `|[(),]|\s+|[^\s(),"']+`)

const quotedText = `"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'`

// parts splits the text form of the scheme. It returns "" for an encoding with options, and if Text is empty.
func (e *explanation) parts() (encoding string, parts []string) {
	encoding = simpleEncoding.FindString(e.scheme)
	end := strings.LastIndexByte(e.scheme, ')')
	if encoding == "" || end < 0 {
		return "", nil
	}
	depth, part := 0, ""
	for _, token := range schemeTokens.FindAllString(e.scheme[len(encoding):end]+" ", -1) {
		switch {
		case token == "(":
			depth++
		case token == ")":
			depth--
		case depth == 0 && strings.TrimSpace(token) == "":
			parts, part = append(parts, part), ""
			continue
		}
		part += token
	}
	return encoding, slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}
