package canonical

import (
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// ParseScheme parses the text form of a scheme, which fits into a settings file or a flag:
//
//	hex(timestamp "." body)
//	base64(method '\n' path '\n' timestamp '\n' hex(sha256(body)))
//	request hex(timestamp body), notification hex(body)
//
// The text begins with the encoding of the signature. Its brackets contain the parts of the canonical string in order.
// White space between names is ignored. Parts have no separator except quoted texts, so write each separator as a text.
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
// The options of fields are sorted (the default) or as-sent; omit-nested, flat or flat("."); omit-empty, omit-null and
// omit("a", "b"); escape-form, escape-percent, escape-php, escape-js or escape-java; php-constants, digit-constants,
// python-constants or no-null; and one form of numbers. A single text separates values. Two texts
// separate name from value and field from field. Without texts, unseparated is required.
//
// The options of json are sorted; spaces or indent(" "); escape-slash, escape-unicode, escape-html and escape-gson; and
// one form of numbers. The forms are short-numbers, python-numbers, java-numbers, two-place-numbers, minor-numbers,
// padded-numbers and quoted-numbers.
//
// A scheme for both kinds of messages begins with "request" and continues with ", notification"; see [ByKind]. Both
// must have the same encoding. At the end, ", key base64" selects a [SecretForm]: text (the default), hex, base64,
// base64-tail, tail, hex-tail, sha256, sha256-hex, md5-hex, sha1-hex, trimmed, uuid, uuid-bytes or to-base64.
//
// A text that signs neither the body nor a field is an error, unless it ends in ", body unsigned". A text with the part
// secret or a key form other than text is an error too, because it needs [ParseSchemeWith]. Errors contain the column
// of the mistake, counted in characters.
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

// ParseSchemeWith is [ParseScheme] for texts that need the secret:
//
//	hex(fields(sorted, '=', '&') '&key=' secret), key base64
//
// It also returns the key for HMACConfig.Secret and WebhookConfig.Secrets. Without a key form, the key is the secret.
// It returns an error if the secret is empty or does not have the form; see [SecretForm.Read]. Errors never contain the
// secret.
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
	// Key is an expression for the key. It returns a key and an error, unless it is the variable secret.
	Key string
	// Imports are the sorted packages of these expressions and of the Scheme.
	Imports []string
}

// GoCode returns the Go code of a scheme in its text form. It returns an error for a text that [ParseSchemeWith]
// rejects.
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
