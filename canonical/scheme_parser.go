package canonical

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/nearest"
)

// parsedPart is a parsed part and its Go code.
type parsedPart struct {
	part    paymentsvc.CanonicalFunc
	code    string
	signs   bool                      // whether the part covers the body or a field
	literal string                    // the text of a literal
	isText  bool                      // whether the part is a literal
	in      func(encoding) parsedPart // returns a digest in an encoding; nil for other parts
}

type encoding struct {
	paymentsvc.Encoding
	code string
}

// parsed is a parsed scheme.
type parsed struct {
	whole            parsedPart
	enc              encoding
	form             keyForm
	formAt, secretAt int  // columns of the key form and of the first part or form that needs the secret, or 0
	base64           bool // whether the Go code imports encoding/base64
}

func (s parsed) scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: s.whole.part, Encoding: s.enc.Encoding}
}

func at(column int, format string, args ...any) error {
	return fmt.Errorf("scheme: column %d: %s", column, fmt.Sprintf(format, args...))
}

func parse(text string, secret paymentsvc.Secret) (parsed, error) {
	p := &parser{
		parsed: parsed{form: keyForms[0]},
		lexer:  lexer{rest: text, column: 1, hidden: string(secret)},
		secret: secret,
		words:  words,
	}
	p.advance()
	p.schemes()
	for p.err == nil && p.token.kind != atEnd {
		p.mark(",", `"," or the end`)
		p.clause()
	}
	switch {
	case p.err == nil && p.emptyAt > 0 && p.allowedAt == 0:
		p.fail(p.emptyAt, "signs neither body nor fields")
	case p.err == nil && p.emptyAt == 0 && p.allowedAt > 0:
		p.fail(p.allowedAt, `"body unsigned" is for a text that signs neither body nor fields`)
	}
	return p.parsed, p.err
}

// parser reads a text token by token. After an error it skips to the end of the text and keeps the first error.
type parser struct {
	parsed
	lexer
	secret    paymentsvc.Secret
	words     []word
	depth     int
	emptyAt   int  // column of a scheme without body and fields, or 0
	allowedAt int  // column of "body unsigned", or 0
	byKind    bool // whether the text has a scheme for each kind of message
	seen      bool // whether a clause "seen in" was read
}

// schemes reads one scheme, or the scheme of requests and the scheme of notifications.
func (p *parser) schemes() {
	if !p.take("request") {
		p.whole, p.enc = p.signed()
		return
	}
	request, enc := p.signed()
	p.mark(",", `", notification"`)
	p.name("notification")
	column := p.token.column
	notification, other := p.signed()
	if enc.code != other.code {
		p.fail(column, "want the encoding of the requests, because both kinds share one encoding")
	}
	p.enc, p.byKind = enc, true
	p.whole = parsedPart{
		part: ByKind(request.part, notification.part),
		code: fmt.Sprintf("canonical.ByKind(%s, %s)", request.code, notification.code),
	}
}

// signed reads an encoding and its parts.
func (p *parser) signed() (parsedPart, encoding) {
	enc := p.encoding()
	p.mark("(", `"(" after the encoding`)
	column := p.token.column
	whole := p.joined()
	if !whole.signs && p.emptyAt == 0 {
		p.emptyAt = column
	}
	return whole, enc
}

// clause reads a clause after a scheme: a form of the key, "body unsigned" or "seen in".
func (p *parser) clause() {
	column := p.token.column
	switch {
	case p.take("key"):
		if p.formAt > 0 {
			p.fail(column, "a second key")
		}
		p.formAt = p.token.column
		var names []string
		for _, f := range keyForms {
			if p.take(f.text) {
				p.form = f
				if f.form != SecretText && p.secretAt == 0 {
					p.secretAt = p.formAt
				}
				return
			}
			names = append(names, f.text)
		}
		p.unknown("key form", "want one of "+strings.Join(names, ", "), names)
	case p.take("body"):
		if p.allowedAt > 0 {
			p.fail(column, `a second "body unsigned"`)
		}
		p.allowedAt = column
		p.name("unsigned")
	case p.take("seen"):
		p.seenIn(column)
	default:
		p.fail(column, `want "key", "body unsigned" or "seen in", not %s`, p.shown())
	}
}

// seenIn reads the kind of the messages that the scheme was found in. The kind changes no signature.
func (p *parser) seenIn(column int) {
	switch {
	case p.seen:
		p.fail(column, `a second "seen in"`)
	case p.byKind:
		p.fail(column, `"seen in" is for a text with one scheme, not for one of each kind`)
	}
	p.seen = true
	p.name("in")
	if !p.take("requests") && !p.take("notifications") {
		p.fail(p.token.column, `want "requests" or "notifications", not %s`, p.shown())
	}
}

// encoding reads the name of an encoding, or a combination of encodings.
func (p *parser) encoding() (e encoding) {
	w := p.find("encoding", "want an encoding such as hex", word.isEncoding)
	switch {
	case w.combine != nil:
		p.mark("(", `"("`)
		p.enter()
		e = w.combine(p)
		p.depth--
		p.mark(")", `")"`)
	case w.encoding != nil:
		e = encoding{w.encoding, w.code}
		p.base64 = p.base64 || strings.HasPrefix(w.code, "base64.")
	}
	return e
}

// enter limits the nesting of brackets.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.token.column, "brackets nested more than %d deep", maxNesting)
	}
}

func (p *parser) prefixed() encoding {
	prefix := p.literal("the text before the signature")
	p.mark(",", `","`)
	inner := p.encoding()
	return encoding{Prefixed(prefix, inner.Encoding), fmt.Sprintf("canonical.Prefixed(%q, %s)", prefix, inner.code)}
}

func (p *parser) chain() encoding {
	var list []paymentsvc.Encoding
	var codes []string
	for more := true; more; more = p.takeMark(",") {
		e := p.encoding()
		list, codes = append(list, e.Encoding), append(codes, e.code)
	}
	return encoding{Chain(list...), fmt.Sprintf("canonical.Chain(%s)", strings.Join(codes, ", "))}
}

// joined reads parts until the closing bracket.
func (p *parser) joined() parsedPart {
	p.enter()
	var list []parsedPart
	for p.err == nil && !p.takeMark(")") {
		list = append(list, p.part())
	}
	p.depth--
	if len(list) == 0 && p.err == nil {
		p.fail(p.ended, `want a part before ")", such as body`)
	}
	return join(list)
}

// part reads one part.
func (p *parser) part() parsedPart {
	if p.token.kind == aText {
		text := p.literal("a text")
		return parsedPart{part: Literal(text), code: fmt.Sprintf("canonical.Literal(%q)", text), literal: text, isText: true}
	}
	if w, known := p.lookup(); known && w.isEncoding() {
		enc := p.encoding()
		p.mark("(", `"(" after the encoding`)
		return encoded(enc, p.joined())
	}
	w := p.find("part", `want a part such as body, or ")"`, func(word) bool { return true })
	switch {
	case w.read != nil:
		return w.read(p)
	case w.texts != nil:
		texts, codes := p.texts(w.least, w.many)
		return parsedPart{part: w.texts(texts), code: fmt.Sprintf("canonical.%s(%s)", w.code, codes), signs: w.signs}
	case w.around != nil, w.digest != nil:
		p.mark("(", `"(" after `+w.text)
		return around(w, p.joined())
	}
	return parsedPart{part: w.part, code: "canonical." + w.code, signs: w.signs}
}

func (p *parser) secretPart() parsedPart {
	if p.secretAt == 0 {
		p.secretAt = p.ended
	}
	return parsedPart{part: Secret(p.secret), code: "canonical.Secret(secret)"}
}

// around returns a digest of a part, or the part in another letter case.
func around(w word, of parsedPart) parsedPart {
	if w.around != nil {
		return parsedPart{
			part:  w.around(of.part),
			code:  fmt.Sprintf("canonical.%s(%s)", w.code, of.code),
			signs: of.signs,
		}
	}
	in := func(e encoding) parsedPart {
		code := fmt.Sprintf("canonical.%s(%s, %s)", w.code, e.code, of.code)
		if code == "canonical.SHA256(paymentsvc.Hex, canonical.Body)" {
			return parsedPart{part: BodySHA256, code: "canonical.BodySHA256", signs: true}
		}
		return parsedPart{part: w.digest(e.Encoding, of.part), code: code, signs: of.signs}
	}
	raw := in(encoding{Raw, "canonical.Raw"})
	raw.in = in
	return raw
}

func encoded(e encoding, of parsedPart) parsedPart {
	if of.in != nil {
		return of.in(e)
	}
	return parsedPart{
		part:  Encode(e.Encoding, of.part),
		code:  fmt.Sprintf("canonical.Encode(%s, %s)", e.code, of.code),
		signs: of.signs,
	}
}

// texts reads texts in brackets, and returns the list and its Go code.
func (p *parser) texts(least int, many bool) (list []string, code string) {
	p.mark("(", `"(" with a text`)
	for more := true; more; more = p.takeMark(",") {
		if len(list) == least && !many {
			p.fail(p.token.column, `want ")" after the text`)
		}
		list = append(list, p.literal("a text"))
	}
	if len(list) < least {
		p.fail(p.token.column, `want "," and a text`)
		return list, ""
	}
	p.mark(")", `")"`)
	return list, quotedList(list)
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return strings.Join(quoted, ", ")
}

// lookup returns the word of the current token.
func (p *parser) lookup() (word, bool) {
	for _, w := range p.words {
		if p.token.kind == aName && w.text == p.token.text {
			return w, true
		}
	}
	return word{}, false
}

// find reads a word for which fits returns true. It fails for any other token.
func (p *parser) find(what, wanted string, fits func(word) bool) word {
	if w, known := p.lookup(); known && fits(w) {
		p.advance()
		return w
	}
	var names []string
	for _, w := range p.words {
		if fits(w) {
			names = append(names, w.text)
		}
	}
	p.unknown(what, wanted, names)
	return word{}
}

// unknown fails at the current token, which matches no name, and suggests the nearest name, if any.
func (p *parser) unknown(what, wanted string, names []string) {
	if p.token.kind != aName {
		p.fail(p.token.column, "%s, not %s", wanted, p.shown())
		return
	}
	if meant := nearest.Of(p.token.text, names); meant != "" {
		wanted = "did you mean " + meant + "?"
	}
	p.fail(p.token.column, "unknown %s %s, %s", what, p.shown(), wanted)
}
