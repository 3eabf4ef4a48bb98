package canonical_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const schemeSecret paymentsvc.Secret = "a2V5_b2YgdGhlIHRlc3Q="

// schemeMessages returns a request and a notification for every scheme of these tests.
func schemeMessages(t testing.TB) [2]*paymentsvc.Message {
	t.Helper()
	request := message(t, "https://Pay.example:8443/v1/Init%2Fpayment?b=2&a=1", nestedBody)
	notification := *request
	notification.Kind, notification.Timestamp = paymentsvc.KindNotification, "1700000007"
	return [2]*paymentsvc.Message{request, &notification}
}

// schemeCases has every name of the text form, with its part. GoCode must return the part as it is written here.
func schemeCases() map[string]paymentsvc.CanonicalFunc {
	const secret = schemeSecret
	return map[string]paymentsvc.CanonicalFunc{
		`body`:                canonical.Body,
		"\t( body\n)":         canonical.Body,
		`timestamp "." body`:  canonical.Join(".", canonical.Timestamp, canonical.Body),
		`timestamp'.'body'.'`: canonical.Join(".", canonical.Timestamp, canonical.Body, canonical.Literal("")),
		`method path body`:    canonical.Join("", canonical.Method, canonical.Path, canonical.Body),
		`timestamp "." path body`: canonical.Join(
			".", canonical.Timestamp, canonical.Join("", canonical.Path, canonical.Body),
		),
		`timestamp "." path "\n" body`: canonical.Join(
			"", canonical.Timestamp, canonical.Literal("."), canonical.Path, canonical.Literal("\n"), canonical.Body,
		),
		`"t=" timestamp "&" "v1" "&" body`: canonical.Join(
			"&", canonical.Labelled("t=", canonical.Timestamp), canonical.Literal("v1"), canonical.Body,
		),
		`"https://" host uri body`: canonical.Join(
			"", canonical.Literal("https://"), canonical.Host, canonical.RequestURI, canonical.Body,
		),
		`"-" "_" body`: canonical.Join("_", canonical.Literal("-"), canonical.Body),
		`"k=" body`:    canonical.Labelled("k=", canonical.Body),
		`"\x00\xff\n\t\\\"\'\u00e9é" '"\'' body`: canonical.Join(
			"\"'", canonical.Literal("\x00\xff\n\t\\\"'éé"), canonical.Body,
		),
		`body-compact decoded-path url query sorted-query host`: canonical.Join(
			"", canonical.BodyCompact, canonical.DecodedPath, canonical.URL, canonical.Query, canonical.SortedQuery,
			canonical.Host,
		),
		`path-below("/v1") body-sorted`:     canonical.Join("", canonical.PathBelow("/v1"), canonical.BodySorted),
		`header("x-nonce") field("amount")`: canonical.Join("", canonical.Header("x-nonce"), canonical.Field("amount")),
		`field("payer", 'email')`:           canonical.Field("payer", "email"),
		`field-or("-", "payer", "phone")`:   canonical.FieldOr("-", "payer", "phone"),
		`hex(sha256(body))`:                 canonical.BodySHA256,
		`hex(sha256(timestamp body))`: canonical.SHA256(
			paymentsvc.Hex, canonical.Join("", canonical.Timestamp, canonical.Body),
		),
		`sha256(body)`:            canonical.SHA256(canonical.Raw, canonical.Body),
		`base64(hex(sha1(body)))`: canonical.Encode(base64.StdEncoding, canonical.SHA1(paymentsvc.Hex, canonical.Body)),
		`chain(hex, base64)(md5(body))`: canonical.MD5(
			canonical.Chain(paymentsvc.Hex, base64.StdEncoding), canonical.Body,
		),
		`prefixed("x", HEX)(sha512(body) path)`: canonical.Encode(
			canonical.Prefixed("x", paymentsvc.HexUpper),
			canonical.Join("", canonical.SHA512(canonical.Raw, canonical.Body), canonical.Path),
		),
		`lower(method) upper(body)`: canonical.Join(
			"", canonical.Lower(canonical.Method), canonical.Upper(canonical.Body),
		),
		`base64url(body) base64-raw(body) base64url-raw(body)`: canonical.Join(
			"", canonical.Encode(base64.URLEncoding, canonical.Body), canonical.Encode(base64.RawStdEncoding, canonical.Body),
			canonical.Encode(base64.RawURLEncoding, canonical.Body),
		),
		`json`:                   canonical.BodyJSON(canonical.JSONForm{}),
		`body "\n" "" "\n" path`: canonical.Join("\n", canonical.Body, canonical.Literal(""), canonical.Path),
		`json(sorted, spaces, escape-slash, escape-unicode, escape-html)`: canonical.BodyJSON(canonical.JSONForm{
			Sort: true, Spaces: true, EscapeSlash: true, EscapeUnicode: true, EscapeHTML: true,
		}),
		`json(short-numbers)`:      canonical.BodyJSON(canonical.JSONForm{Numbers: canonical.NumbersShort}),
		`fields('|')`:              canonical.Fields(canonical.FieldList{Between: "|"}),
		`fields(unseparated)`:      canonical.Fields(canonical.FieldList{Unseparated: true}),
		`fields("", "")`:           canonical.Fields(canonical.FieldList{Names: true}),
		`fields(sorted, '=', '&')`: canonical.Fields(canonical.FieldList{Names: true, Equals: "=", Between: "&"}),
		`fields(as-sent, ",", omit-empty)`: canonical.Fields(canonical.FieldList{
			Between: ",", AsSent: true, OmitEmpty: true,
		}),
		`fields("=", "&", flat("[]"), escape-form, omit("amount", "ok"))`: canonical.Fields(canonical.FieldList{
			Names: true, Equals: "=", Between: "&", Nested: canonical.NestedFlat, Path: "[]", Omit: []string{"amount", "ok"},
			Escaping: canonical.EscapingForm,
		}),
		`fields(flat, ";")`:        canonical.Fields(canonical.FieldList{Between: ";", Nested: canonical.NestedFlat}),
		`fields(omit-nested, ";")`: canonical.Fields(canonical.FieldList{Between: ";", Nested: canonical.NestedOmitted}),
		`timestamp-ms path-last date("2006-01-02T15:04:05Z") body`: canonical.Join(
			"", canonical.TimestampMillis, canonical.PathLast, canonical.Date("2006-01-02T15:04:05Z"), canonical.Body,
		),
		`with("ts", timestamp, body-sorted)`: canonical.With("ts", canonical.Timestamp, canonical.BodySorted),
		`with-number("ts", timestamp-ms, fields("|"))`: canonical.WithNumber(
			"ts", canonical.TimestampMillis, canonical.Fields(canonical.FieldList{Between: "|"}),
		),
		`within("payer", body)`: canonical.Within("payer", canonical.Body),
		`number(two-place, field("amount")) number(minor, field("amount")) number(quoted, field("amount"))`: canonical.Join(
			"", canonical.Number(canonical.NumbersTwoPlaces, canonical.Field("amount")),
			canonical.Number(canonical.NumbersMinor, canonical.Field("amount")),
			canonical.Number(canonical.NumbersQuoted, canonical.Field("amount")),
		),
		`number(short, field("amount")) number(python, field("amount")) number(java, field("amount"))`: canonical.Join(
			"", canonical.Number(canonical.NumbersShort, canonical.Field("amount")),
			canonical.Number(canonical.NumbersPython, canonical.Field("amount")),
			canonical.Number(canonical.NumbersJava, canonical.Field("amount")),
		),
		`escaped(form, path) escaped(percent, body) escaped(php, body) escaped(js, body) escaped(java, body)`: canonical.Join(
			"", canonical.Escaped(canonical.EscapingForm, canonical.Path),
			canonical.Escaped(canonical.EscapingPercent, canonical.Body),
			canonical.Escaped(canonical.EscapingPHP, canonical.Body), canonical.Escaped(canonical.EscapingJS, canonical.Body),
			canonical.Escaped(canonical.EscapingJava, canonical.Body),
		),
		`json(indent("  "), escape-gson, two-place-numbers)`: canonical.BodyJSON(canonical.JSONForm{
			EscapeGson: true, Indent: "  ", Numbers: canonical.NumbersTwoPlaces,
		}),
		`fields("=", "&", escape-php, minor-numbers, digit-constants, omit-null)`: canonical.Fields(canonical.FieldList{
			Names: true, Equals: "=", Between: "&", OmitNull: true, Escaping: canonical.EscapingPHP,
			Numbers: canonical.NumbersMinor, Constants: canonical.ConstantsDigits,
		}),
		`body '&key=' secret`: canonical.Join("", canonical.Body, canonical.Literal("&key="), canonical.Secret(secret)),
	}
}

// sourceOfCases returns the rows of schemeCases, each in one line and without alignment.
func sourceOfCases(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("scheme_test.go")
	require.NoError(t, err)
	_, rows, _ := strings.Cut(string(source), "\nfunc schemeCases")
	rows, _, _ = strings.Cut(rows, "\n}\n")
	rows = regexp.MustCompile("([`\"]): +").ReplaceAllString(rows, "$1: ")
	return strings.NewReplacer(
		"(\n\t\t\t", "(", "{\n\t\t\t", "{", ",\n\t\t\t", ", ", ",\n\t\t}", "}", ",\n\t\t)", ")",
	).Replace(rows)
}

// TestSchemeParsesOptions checks that every option with a value of an enumeration sets this value.
func TestSchemeParsesOptions(t *testing.T) {
	m := schemeMessages(t)[0]
	m.Body = []byte(`{"amount":12000000.50,"t":true,"f":false,"n":null,"text":"a b~*!/="}`)
	for text, want := range map[string]canonical.FieldList{
		"short-numbers": {Numbers: canonical.NumbersShort}, "python-numbers": {Numbers: canonical.NumbersPython},
		"java-numbers":      {Numbers: canonical.NumbersJava},
		"two-place-numbers": {Numbers: canonical.NumbersTwoPlaces}, "minor-numbers": {Numbers: canonical.NumbersMinor},
		"padded-numbers": {Numbers: canonical.NumbersPadded}, "quoted-numbers": {Numbers: canonical.NumbersQuoted},
		"escape-form": {Escaping: canonical.EscapingForm}, "escape-percent": {Escaping: canonical.EscapingPercent},
		"escape-php": {Escaping: canonical.EscapingPHP},
		"escape-js":  {Escaping: canonical.EscapingJS}, "escape-java": {Escaping: canonical.EscapingJava},
		"php-constants": {Constants: canonical.ConstantsPHP}, "digit-constants": {Constants: canonical.ConstantsDigits},
		"python-constants": {Constants: canonical.ConstantsPython}, "no-null": {Constants: canonical.ConstantsNoNull},
	} {
		want.Between = "|"
		scheme, err := canonical.ParseScheme(`hex(fields("|", ` + text + `))`)
		require.NoError(t, err, text)
		got, err := scheme.Canonical(nil, m)
		require.NoError(t, err, text)
		wanted, err := canonical.Fields(want)(nil, m)
		require.NoError(t, err, text)
		require.Equal(t, string(wanted), string(got), text)
	}
}

func TestFieldListStringReadsBack(t *testing.T) {
	list := canonical.FieldList{Between: "|", Omit: []string{" ", `" "`, "a"}}
	scheme, err := canonical.ParseScheme("hex(" + list.String() + ")")
	require.NoError(t, err)
	got, err := scheme.Canonical(nil, &paymentsvc.Message{Body: []byte(`{" ":1,"\" \"":2,"a":3,"b":4}`)})
	require.NoError(t, err)
	require.Equal(t, "4", string(got))
}

func TestSchemeParsesParts(t *testing.T) {
	source := sourceOfCases(t)
	for text, part := range schemeCases() {
		t.Run(text, func(t *testing.T) {
			whole, row := "hex("+text+")", "`"+text+"`: "
			if strings.HasPrefix(text, "\t(") {
				whole, row = "hex"+text, strconv.Quote(text)+": "
			}
			scheme, key, err := canonical.ParseSchemeWith(whole, schemeSecret)
			require.NoError(t, err)
			require.Equal(t, schemeSecret, key)
			require.Equal(t, paymentsvc.Hex, scheme.Encoding)
			for _, m := range schemeMessages(t) {
				wanted, err := part(nil, m)
				require.NoError(t, err)
				got, err := scheme.Canonical([]byte("before "), m)
				require.NoError(t, err)
				require.Equal(t, "before "+string(wanted), string(got))
			}
			code, err := canonical.GoCode(whole)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(source, "\n\t\t"+row+code.Canonical+",\n"), code.Canonical)
		})
	}
}

func TestSchemeParsesEncodings(t *testing.T) {
	for text, want := range map[string]struct {
		encoding paymentsvc.Encoding
		code     string
	}{
		"hex":           {paymentsvc.Hex, "paymentsvc.Hex"},
		"HEX":           {paymentsvc.HexUpper, "paymentsvc.HexUpper"},
		"base64":        {base64.StdEncoding, "base64.StdEncoding"},
		"base64-raw":    {base64.RawStdEncoding, "base64.RawStdEncoding"},
		"base64url":     {base64.URLEncoding, "base64.URLEncoding"},
		"base64url-raw": {base64.RawURLEncoding, "base64.RawURLEncoding"},
		`prefixed("sha256=", hex)`: {
			canonical.Prefixed("sha256=", paymentsvc.Hex), `canonical.Prefixed("sha256=", paymentsvc.Hex)`,
		},
		`chain(HEX, base64, base64url)`: {
			canonical.Chain(paymentsvc.HexUpper, base64.StdEncoding, base64.URLEncoding),
			"canonical.Chain(paymentsvc.HexUpper, base64.StdEncoding, base64.URLEncoding)",
		},
		`prefixed('v1,', chain(hex, base64))`: {
			canonical.Prefixed("v1,", canonical.Chain(paymentsvc.Hex, base64.StdEncoding)),
			`canonical.Prefixed("v1,", canonical.Chain(paymentsvc.Hex, base64.StdEncoding))`,
		},
	} {
		scheme, err := canonical.ParseScheme(text + "(body)")
		require.NoError(t, err, text)
		require.Equal(
			t, want.encoding.AppendEncode(nil, []byte{0xfb, 0xff}),
			scheme.Encoding.AppendEncode(nil, []byte{0xfb, 0xff}), text,
		)
		code, err := canonical.GoCode(text + "(body)")
		require.NoError(t, err)
		require.Equal(t, want.code, code.Encoding)
		require.Equal(t, strings.Contains(want.code, "base64."), code.Imports[0] == "encoding/base64", text)
	}
}

func TestSchemeParsesKeys(t *testing.T) {
	for form := canonical.SecretText; form.Name() != ""; form++ {
		secret := schemeSecret
		switch form {
		case canonical.SecretHex:
			secret = "00ff"
		case canonical.SecretHexTail:
			secret = "sk_00ff"
		case canonical.SecretUUID, canonical.SecretUUIDBytes:
			secret = "0b1d7c5e-9d3f-4a55-8c1e-5f0c7a1e1f6b"
		}
		want, err := form.Read(secret)
		require.NoError(t, err)
		text := "hex(body), key " + form.Name()
		_, key, err := canonical.ParseSchemeWith(text, secret)
		require.NoError(t, err, text)
		require.Equal(t, string(want), string(key), text)

		_, err = canonical.ParseScheme(text)
		if form == canonical.SecretText {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "scheme: column 16: needs the secret: use ParseSchemeWith")
		}
	}
	require.Empty(t, canonical.SecretForm(99).Name())
	code, err := canonical.GoCode("hex(body), key base64-tail")
	require.NoError(t, err)
	require.Equal(t, "canonical.SecretBase64Tail.Read(secret)", code.Key)

	_, err = canonical.ParseScheme("hex(body '&key=' secret)")
	require.EqualError(t, err, "scheme: column 18: needs the secret: use ParseSchemeWith")
	_, _, err = canonical.ParseSchemeWith("hex(body)", "")
	require.ErrorContains(t, err, "the secret is empty")
}

func TestSchemeParsesBothKinds(t *testing.T) {
	scheme, key, err := canonical.ParseSchemeWith(
		`request base64(timestamp body), notification base64(body secret), key sha256-hex`, schemeSecret,
	)
	require.NoError(t, err)
	want, err := canonical.SecretSHA256Hex.Read(schemeSecret)
	require.NoError(t, err)
	require.Equal(t, string(want), string(key))
	require.Equal(t, base64.StdEncoding, scheme.Encoding)
	messages := schemeMessages(t)
	for i, prefix := range []string{"1700000000", ""} {
		got, err := scheme.Canonical(nil, messages[i])
		require.NoError(t, err)
		require.Equal(t, prefix+nestedBody+strings.Repeat(string(schemeSecret), i), string(got))
	}
	code, err := canonical.GoCode(`request hex(timestamp body), notification hex(body)`)
	require.NoError(t, err)
	require.Equal(
		t, `canonical.ByKind(canonical.Join("", canonical.Timestamp, canonical.Body), canonical.Body)`, code.Canonical,
	)
}

func TestSchemeAcceptsAnUnsignedBodyOnRequest(t *testing.T) {
	for _, text := range []string{
		"hex(timestamp '|' path), body unsigned", "request hex(path), notification hex(body), body unsigned, key text",
	} {
		_, err := canonical.ParseScheme(text)
		require.NoError(t, err, text)
	}
}

func TestSchemeSeenInOneKindSignsBoth(t *testing.T) {
	plain, err := canonical.GoCode(`base64(timestamp body), key hex`)
	require.NoError(t, err)
	for _, text := range []string{
		`base64(timestamp body), key hex, seen in requests`, `base64(timestamp body), seen in notifications, key hex`,
	} {
		code, err := canonical.GoCode(text)
		require.NoError(t, err)
		require.Equal(t, plain, code)
		scheme, _, err := canonical.ParseSchemeWith(text, "00ff")
		require.NoError(t, err)
		for _, m := range schemeMessages(t) {
			got, err := scheme.Canonical(nil, m)
			require.NoError(t, err)
			require.Equal(t, m.Timestamp+nestedBody, string(got))
		}
	}
}

func TestSchemeReportsErrors(t *testing.T) {
	for text, want := range map[string]string{
		`hex(timestamp "." bdy)`:    `column 19: unknown part "bdy", did you mean body?`,
		`hex("é" bdoy)`:             `column 9: unknown part "bdoy", did you mean body?`,
		`hex(Body)`:                 `column 5: unknown part "Body", did you mean body?`,
		`hex(nonce body)`:           `column 5: unknown part "nonce", want a part such as body, or ")"`,
		`hex(canonical.Join(body))`: `column 5: unknown part "canonical", want a part such as body, or ")"`,
		`hexx(body)`:                `column 1: unknown encoding "hexx", did you mean hex?`,
		`sha256(body)`:              `column 1: unknown encoding "sha256", want an encoding such as hex`,
		``:                          `column 1: want an encoding such as hex, not the end`,
		`{timestamp}.{body}`:        `column 1: want an encoding such as hex, not "{"`,
		`hex`:                       `column 4: want "(" after the encoding, not the end`,
		`hex()`:                     `column 5: want a part before ")", such as body`,
		`hex(sha256())`:             `column 12: want a part before ")", such as body`,
		`hex(body`:                  `column 9: want a part such as body, or ")", not the end`,
		`hex(timestamp, body)`:      `column 14: want a part such as body, or ")", not ","`,
		`hex(timestamp + body)`:     `column 15: want a part such as body, or ")", not "+"`,
		`hex(body) base64(body)`:    `column 11: want "," or the end, not "base64"`,
		`hex(body),`:                `column 11: want "key", "body unsigned" or "seen in", not the end`,
		`hex(body), keys base64`:    `column 12: want "key", "body unsigned" or "seen in", not "keys"`,
		`hex(body), key`: `column 15: want one of text, hex, base64, base64-tail, sha256, sha256-hex, ` +
			`tail, hex-tail, md5-hex, sha1-hex, trimmed, uuid, uuid-bytes, to-base64, not the end`,
		`hex(body), key base65`:                          `column 16: unknown key form "base65", did you mean base64?`,
		`hex(body), key hex, key hex`:                    `column 21: a second key`,
		`hex(timestamp)`:                                 `column 5: signs neither body nor fields`,
		`hex( "a constant" )`:                            `column 6: signs neither body nor fields`,
		`hex(hex(sha256("x" path)))`:                     `column 5: signs neither body nor fields`,
		`request hex(body), notification hex(timestamp)`: `column 37: signs neither body nor fields`,
		`hex(body), body unsigned`: `column 12: "body unsigned" is for a text that signs ` +
			`neither body nor fields`,
		`hex(path), body unsigned, body unsigned`:       `column 27: a second "body unsigned"`,
		`hex(body), seen`:                               `column 16: want "in", not the end`,
		`hex(body), seen in request`:                    `column 20: want "requests" or "notifications", not "request"`,
		`hex(body), seen in requests, seen in requests`: `column 30: a second "seen in"`,
		`request hex(body), notification hex(path body), seen in requests`: `column 49: "seen in" is for a ` +
			`text with one scheme, not for one of each kind`,
		`hex(path), body`:              `column 16: want "unsigned", not the end`,
		`request hex(body)`:            `column 18: want ", notification", not the end`,
		`request hex(body), hex(body)`: `column 20: want "notification", not "hex"`,
		`request hex(body), notification base64(body)`: `column 33: want the encoding of the requests, because ` +
			`both kinds share one encoding`,
		`hex(header(X))`:                    `column 12: want a text in quotes, not "X"`,
		`hex(header "X")`:                   `column 12: want "(" with a text, not a text`,
		`hex(header("X", "Y"))`:             `column 17: want ")" after the text`,
		`hex(header("X" "Y"))`:              `column 16: want ")", not a text`,
		`hex(field())`:                      `column 11: want a text in quotes, not ")"`,
		`hex(field-or(""))`:                 `column 16: want "," and a text`,
		`hex(lower body)`:                   `column 11: want "(" after lower, not "body"`,
		`hex(base64 body)`:                  `column 12: want "(" after the encoding, not "body"`,
		`hex("x)`:                           `column 5: the text does not end, want "`,
		"hex('x\n')":                        `column 5: the text does not end, want '`,
		`hex("a\q" body)`:                   `column 7: want an escape such as \n, \t, \\, \", \', \x00 or \u00e9`,
		`hex("a\ud800" body)`:               `column 7: want an escape such as \n, \t, \\, \", \', \x00 or \u00e9`,
		"hex(\"a\xff\" body)":               `column 7: not UTF-8`,
		`prefixed(hex)(body)`:               `column 10: want the text before the signature in quotes, not "hex"`,
		`prefixed("a" hex)(body)`:           `column 14: want ",", not "hex"`,
		`prefixed("a", hex(body))`:          `column 18: want ")", not "("`,
		`chain()(body)`:                     `column 7: want an encoding such as hex, not ")"`,
		`chain(hex body)`:                   `column 11: want ")", not "body"`,
		`hex(json(sortd))`:                  `column 10: unknown option of json "sortd", did you mean sorted?`,
		`hex(json(sorted, spaces, sorted))`: `column 26: "sorted" appears twice`,
		`hex(json(sorted spaces))`:          `column 17: want "," or ")", not "spaces"`,
		`hex(json())`: `column 10: want one of sorted, spaces, escape-slash, ` +
			`escape-unicode, escape-html, escape-gson, indent, short-numbers, python-numbers, java-numbers, ` +
			`two-place-numbers, minor-numbers, padded-numbers, quoted-numbers, not ")"`,
		`hex(fields)`: `column 11: want "(" after fields, not ")"`,
		`hex(fields())`: `column 12: want one of sorted, as-sent, unseparated, ` +
			`omit-nested, flat, omit-empty, omit, omit-null, escape-form, escape-percent, escape-php, escape-js, ` +
			`escape-java, short-numbers, python-numbers, java-numbers, two-place-numbers, minor-numbers, ` +
			`padded-numbers, quoted-numbers, php-constants, digit-constants, python-constants, no-null, not ")"`,
		`hex(fields(sorted))`:           `column 5: want a text between the fields, or "unseparated"`,
		`hex(fields(''))`:               `column 5: want a text between the fields, or "unseparated"`,
		`hex(fields(unseparated, '|'))`: `column 5: "unseparated" is for values without a text between them`,
		`hex(fields('', '', ''))`: `column 20: a third text: want at most two, after names ` +
			`and between fields`,
		`hex(fields(sorted, as-sent, '|'))`:             `column 20: "as-sent" excludes "sorted"`,
		`hex(fields(omit-nested, flat("."), "=", "&"))`: `column 25: "flat" excludes "omit-nested"`,
		`hex(fields(escape-js, '|', escape-js))`:        `column 28: "escape-js" appears twice`,
		`hex(fields(flat("."), '|'))`:                   `column 5: flat(".") is for fields with names`,
		`hex(fields(omit, '|'))`:                        `column 16: want "(" with a text, not ","`,
		`hex(` + strings.Repeat("hex(", 70) + `body`:    `column 261: brackets nested more than 64 deep`,
		strings.Repeat("chain(", 70) + `hex`:            `column 391: brackets nested more than 64 deep`,
		`hex(` + strings.Repeat("a", 1<<20) + `)`: `column 5: unknown part ` +
			`"` + strings.Repeat("a", 40) + `…", want a part such as body, or ")"`,
	} {
		name := text[:min(len(text), 60)]
		_, err := canonical.ParseScheme(text)
		require.EqualError(t, err, "scheme: "+want, name)
		_, _, err = canonical.ParseSchemeWith(text, "a secret")
		require.Error(t, err, name)
		_, err = canonical.GoCode(text)
		require.Error(t, err, name)
	}
}

func TestSchemeErrorsOmitSecret(t *testing.T) {
	const secret = "sk-live-77f0"
	for _, text := range []string{
		"hex(body " + secret + ")", secret, "hex(body), key " + secret, "hex('" + secret + "' timestamp)",
		"hex(fields(" + secret + "))", "hex(body), key hex",
		"hex(body), " + secret, "hex(field('" + secret + "' '" + secret + "'))",
	} {
		_, _, err := canonical.ParseSchemeWith(text, secret)
		require.ErrorContains(t, err, "scheme: column ", text)
		require.NotContains(t, err.Error(), secret)
	}
}

func ExampleParseScheme() {
	scheme, err := canonical.ParseScheme(`hex(timestamp "." body)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := scheme.Canonical(nil, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte("{}")})
	fmt.Printf("%s %v\n", text, err)

	_, err = canonical.ParseScheme(`hex(timestamp "." bdy)`)
	fmt.Println(err)
	// Output:
	// 1700000000.{} <nil>
	// scheme: column 19: unknown part "bdy", did you mean body?
}

// FuzzParseScheme checks that ParseScheme does not panic, that errors have one line and a column of the text, and that
// the parts handle a message.
func FuzzParseScheme(f *testing.F) {
	for text := range schemeCases() {
		f.Add("hex(" + text + ")")
	}
	f.Add(`hex(body), seen in requests, key base64`)
	f.Add(`request prefixed("a", hex)(body), notification chain(hex, base64)(body), key base64, body unsigned`)
	messages := schemeMessages(f)
	f.Fuzz(func(t *testing.T, text string) {
		scheme, _, err := canonical.ParseSchemeWith(text, schemeSecret)
		if err != nil {
			column := 0
			_, scanErr := fmt.Sscanf(err.Error(), "scheme: column %d: ", &column)
			require.NoError(t, scanErr, err.Error())
			require.Positive(t, column)
			require.LessOrEqual(t, column, utf8.RuneCountInString(text)+1)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		_, err = canonical.GoCode(text)
		require.NoError(t, err)
		for _, m := range messages {
			_, _ = scheme.Canonical(nil, m)
		}
	})
}
