package discover_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // a part of a scheme
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

const mistakenBody = `{"partner_id":17,"project_id":42,"user_data":"order/1","amount":10.50,"currency":"EUR",` +
	`"destination":"4111111111111111","payer":{"name":"Zoë & Bo","age":30}}`

// explainer returns an Explainer with a scheme in its text form.
func explainer(t testing.TB, text string) *discover.Explainer {
	t.Helper()
	scheme, key, err := canonical.ParseSchemeWith(text, secret)
	require.NoError(t, err)
	return &discover.Explainer{
		Scheme: scheme, Secret: key, Text: text,
		Others: map[string]paymentsvc.Secret{"the secret of project 7": "sk-other", "the old secret": "sk-old"},
	}
}

func mac(h crypto.Hash, key, text string) []byte {
	mac := hmac.New(h.New, []byte(key))
	_, _ = io.WriteString(mac, text)
	return mac.Sum(nil)
}

func hexed(key, text string) string { return hex.EncodeToString(mac(crypto.SHA256, key, text)) }

// signedAs returns the signature of a message in a scheme.
func signedAs(t *testing.T, text string, secret paymentsvc.Secret, m *paymentsvc.Message) string {
	t.Helper()
	scheme, key, err := canonical.ParseSchemeWith(text, secret)
	require.NoError(t, err)
	signature, err := scheme.Signature(key, m)
	require.NoError(t, err)
	return signature
}

// TestExplainerExplains signs texts of Timestamp "1700000000" and a body, and expects causes in front of ", want".
func TestExplainerExplains(t *testing.T) {
	sum256 := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	with := func(text string) string { return hexed(string(secret), text) }
	key, ts, body := string(secret), "1700000000", mistakenBody
	right := ts + "." + body
	in64 := base64.StdEncoding
	replaced := func(pairs ...string) string { return with(ts + "." + strings.NewReplacer(pairs...).Replace(body)) }
	const sorted = `{"amount":10.50,"currency":"EUR","destination":"4111111111111111","partner_id":17,` +
		`"payer":{"age":30,"name":"Zoë & Bo"},"project_id":42,"user_data":"order/1"}`
	stamped := func(rest string) string { return `hex(timestamp "." ` + rest + ")" }
	for _, test := range []struct{ name, signature, want string }{
		{"other separator", with(ts + ":" + body), `hex(timestamp ":" body)`},
		{"rare separator", with(ts + "~" + body), `hex(timestamp "~" body)`},
		{"no separator", with(ts + body), `hex(timestamp body)`},
		{"swapped order", with(body + "." + ts), `hex(body "." timestamp)`},
		{"body only", with(body), `hex(body)`},
		{"timestamp only", with(ts), `hex(timestamp), body unsigned`},
		{"added path", with(ts + "./v1/init_payment/card." + body), stamped(`path "." body`)},
		{"path in the place of the timestamp", with("/v1/init_payment/card." + body), `hex(path "." body)`},
		{
			"method and path", with("POST\n/v1/init_payment/card\n" + ts + "\n" + body),
			`hex(method "\n" path "\n" timestamp "\n" body)`,
		},
		{"path below the base", with(ts + "./init_payment/card." + body), stamped(`path-below("/v1") "." body`)},
		{"whole address", with(cardURL + "." + body), `hex(url "." body)`},
		{"header", with(ts + ".n-1." + body), stamped(`header("X-Nonce") "." body`)},
		{"secret in the text", with(ts + "." + body + "." + key), stamped(`body "." secret`)},
		{"last separator", with(right + "."), `hex(timestamp "." body ".")`},
		{"digest of the body", with(ts + "." + sum256(body)), stamped(`hex(sha256(body))`)},
		{"body in base64", with(ts + "." + in64.EncodeToString([]byte(body))), stamped(`base64(body)`)},

		{"SHA-1", hex.EncodeToString(mac(crypto.SHA1, key, right)), "by HMAC-SHA-1"},
		{"SHA-512", hex.EncodeToString(mac(crypto.SHA512, key, right)), "by HMAC-SHA-512"},
		{
			"SHA-384 in base64", in64.EncodeToString(mac(crypto.SHA384, key, right)),
			`base64(timestamp "." body) by HMAC-SHA-384`,
		},
		{"MD5", hex.EncodeToString(mac(crypto.MD5, key, right)), "by HMAC-MD5"},
		{"SHA-1 of the body", hex.EncodeToString(mac(crypto.SHA1, key, body)), "hex(body) by HMAC-SHA-1"},
		{"swapped arguments", hexed(right, key), "by HMAC-SHA-256 with key and text exchanged"},
		{"SHA-256 after the key", sum256(key + right), "by SHA-256 of the key and the text, without HMAC"},
		{"SHA-256 before the key", sum256(right + key), "by SHA-256 of the text and the key, without HMAC"},
		{"SHA-256 without key", sum256(right), "by SHA-256 of the text, without a key"},

		{"label", "sha256=" + with(right), `prefixed("sha256=", hex)(timestamp "." body)`},
		{
			"label with a version", "1/SHA256/" + in64.EncodeToString(mac(crypto.SHA256, key, right)),
			`prefixed("1/SHA256/", base64)(timestamp "." body)`,
		},
		{"brackets around the signature", "<" + with(right) + ">", "with brackets around the signature"},
		{
			"URL escapes in the signature", url.QueryEscape(in64.EncodeToString(mac(crypto.SHA256, key, right))),
			`base64(timestamp "." body) with URL escapes in the signature`,
		},
		{
			"spaces in the signature", strings.ReplaceAll(in64.EncodeToString(mac(crypto.SHA512, key, right)), "+", " "),
			`base64(timestamp "." body) with spaces in place of plus signs by HMAC-SHA-512`,
		},
		{"quotes around the signature", `"` + with(right) + `"`, "with quotes around the signature"},
		{"line end after the signature", with(right) + "\n", "with white space around the signature"},
		{"upper case", strings.ToUpper(with(right)), `HEX(timestamp "." body)`},
		{"base64", in64.EncodeToString(mac(crypto.SHA256, key, right)), `base64(timestamp "." body)`},
		{
			"base64 of the hexadecimal text", in64.EncodeToString([]byte(with(right))),
			`chain(hex, base64)(timestamp "." body)`,
		},

		{"key with a line end", hexed(key+"\n", right), "with the secret and a line break"},
		{"key with a line end of Windows", hexed(key+"\r\n", right), "with the secret and a line break of Windows"},
		{"key with a byte order mark", hexed("\ufeff"+key, right), "with a byte order mark and the secret"},
		{"key in quotes", hexed(`"`+key+`"`, right), "with the secret in double quotes"},
		{"key in base64", hexed(in64.EncodeToString([]byte(key)), right), "with the secret in base64"},
		{"key in hexadecimal", hexed(hex.EncodeToString([]byte(key)), right), "with the secret in hexadecimal"},
		{"key in upper case", hexed(strings.ToUpper(key), right), "with the secret in upper case"},
		{"hashed key", hexed(sum256(key), right), "with the secret read as the SHA-256 of the text in hexadecimal"},
		{"no key", hexed("", right), "with no key"},
		{"key of another project", hexed("sk-other", right), "with the secret of project 7"},
		{"old key", hexed("sk-old", right), "with the old secret"},
		{"key with a line end, body only", hexed(key+"\n", body), "hex(body) with the secret and a line break"},

		{"time in milliseconds", with(ts + "417." + body), `hex([timestamp with milliseconds] "." body)`},
		{"milliseconds", with(ts + "000." + body), `hex(timestamp-ms "." body)`},
		{"two seconds early", with("1699999998." + body), `hex([timestamp -2 s] "." body)`},
		{"an hour late", with("1700003600." + body), `hex([timestamp +3600 s] "." body)`},
		{"date", with("2023-11-14T22:13:20Z." + body), `hex(date("2006-01-02T15:04:05Z") "." body)`},

		{"line end after the body", with(right + "\n"), `hex(timestamp "." body "\n")`},
		{"empty body", with(ts + "."), stamped(`[empty body]`)},
		{"sorted", with(ts + "." + sorted), stamped(`body-sorted`)},
		{"spaces", replaced(`":`, `": `, `,"`, `, "`), stamped(`json(spaces)`)},
		{
			"Python", replaced(`":`, `": `, `,"`, `, "`, "ë", `\u00eb`, "10.50", "10.5"),
			stamped(`json(spaces, escape-unicode, python-numbers)`),
		},
		{
			"PHP", replaced(`/`, `\/`, "ë", `\u00eb`, "10.50", "10.5"),
			stamped(`json(escape-slash, escape-unicode, short-numbers)`),
		},
		{"JavaScript", replaced("10.50", "10.5"), stamped(`json(short-numbers)`)},
		{"escaped letters", replaced("ë", `\u00eb`), stamped(`json(escape-unicode)`)},
		{"escaped HTML", replaced("&", `\u0026`), stamped(`json(escape-html)`)},
		{"fields", with(ts + "." + "amount=10.50&currency=EUR&destination=4111111111111111&partner_id=17&payer=" +
			`{"name":"Zoë & Bo","age":30}` + "&project_id=42&user_data=order/1"), stamped(`fields('=', '&')`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			const wanted = `hex(timestamp "." body)`
			m := post(cardURL, ts, body, "X-Nonce", "n-1")
			got := explainer(t, wanted).Explain(&m, test.signature)
			require.Equal(t, "signed "+test.want+", want "+wanted, got.Text)
			require.NotContains(t, got.Text, key)
			require.NotNil(t, got.Canonical)
		})
	}
}

// TestExplainerExplainsOtherSchemes has texts of mistaken clients for several schemes.
func TestExplainerExplainsOtherSchemes(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		require.NoError(t, w.Close())
		return b.String()
	}
	sum := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	for _, test := range []struct{ scheme, body, signed, want string }{
		{
			`HEX(method " " uri "\n" timestamp "\n" hex(sha256(body)))`, `{"a": 1}`,
			"POST /v1/init_payment/card\n1700000000\n" + sum(`{"a":1}`),
			`HEX(method " " uri "\n" timestamp "\n" hex(sha256(body-compact)))`,
		},
		{
			`HEX(method ":" path "|" timestamp "|" body)`, `{}`, "POST:/init_payment/card|1700000000|{}",
			`HEX(method ":" path-below("/v1") "|" timestamp "|" body)`,
		},
		{`HEX(fields(as-sent, "&") timestamp)`, `{"b":1,"a":2}`, "2&11700000000", `body-sorted in place of body`},
		{
			`request HEX(timestamp body), notification HEX(body)`, `{"a":1}`, `{"a":1}`,
			"[notification] in place of request",
		},
		{`HEX(timestamp method body)`, `{}`, `1700000000{}`, `HEX(timestamp [no method] body)`},
		{`HEX(timestamp "." body)`, "a=1\n", `1700000000.a=1`, `HEX(timestamp "." [body without its line end])`},
		{`HEX(timestamp "." body)`, packed(`{"a":1}`), `1700000000.{"a":1}`, `HEX(timestamp "." [decompressed body])`},
		{
			`HEX(timestamp "." body)`, `{"a":1}`, `1700000000.` + packed(`{"a":1}`),
			`HEX(timestamp "." [body compressed with Go's gzip])`,
		},
	} {
		m := post(cardURL, "1700000000", test.body)
		r := explainer(t, test.scheme)
		got := r.Explain(&m, strings.ToUpper(hexed(string(secret), test.signed)))
		assert.Equal(t, "signed "+test.want+", want "+test.scheme, got.Text)
		require.NotNil(t, got.Message, got.Text)
		text, err := r.Scheme.Canonical(nil, got.Message)
		require.NoError(t, err)
		assert.Equal(t, test.signed, string(text))
		assert.Equal(t, test.signed, string(got.Canonical))
	}
}

// The parts of these schemes are not in the catalogue of common compositions.
func TestExplainerEditsTheTextOfTheScheme(t *testing.T) {
	const fields = `HEX(field("a") "|" field("b") "|" timestamp)`
	const ofTwoKinds = `request HEX(body), notification HEX(field("a") "|" field("b"))`
	for _, test := range []struct{ scheme, want string }{
		{fields, `HEX(field("a") ":" field("b") ":" timestamp)`},
		{fields, `HEX(field("a") field("b") timestamp)`},
		{fields, `HEX(field("b") "|" field("a") "|" timestamp)`},
		{fields, `HEX(field("b") "|" timestamp)`},
		{fields, `HEX(field("a") field("b") "|" timestamp)`},
		{fields, `HEX(field("a") "|" field("b") "|" timestamp "|")`},
		{fields, `HEX("|" field("a") "|" field("b") "|" timestamp)`},
		{fields, `HEX(field("a") "|" field("b") "|" timestamp "|" method)`},
		{fields, `HEX(field("a") "|" method "|" field("b") "|" timestamp)`},
		{ofTwoKinds, `HEX(field("b") "|" field("a"))`},
		{`HEX(field("a") "|" date("2006") "-" host)`, `HEX(date("2006") "-" host), body unsigned`},
		{`HEX(field("a") "|" hex(sha256(body)))`, `HEX(field("a") "|" hex(md5(body)))`},
		{`HEX(fields(as-sent, ':', ';') "|" timestamp)`, `HEX(timestamp "|" fields(as-sent, ':', ';'))`},
		{`HEX(method "|" field("a"))`, `HEX(lower(method) "|" field("a"))`},
	} {
		m := post(cardURL, "1700000000", `{"a":"1","b":"2"}`)
		if test.scheme == ofTwoKinds {
			m.Kind = paymentsvc.KindNotification
		}
		got := explainer(t, test.scheme).Explain(&m, signedAs(t, test.want, secret, &m))
		assert.Equal(t, "signed "+test.want+", want "+test.scheme, got.Text)
	}
}

// One option of a list of fields or of JSON is different.
func TestExplainerEditsTheOptionsOfTheScheme(t *testing.T) {
	const end, key = ` "&key=" secret)`, "&key=" + string(secret)
	md5Sum := md5.Sum([]byte("1.50|null|")) //nolint:gosec // a part of a scheme
	for _, test := range []struct{ scheme, signed, want string }{
		{`hex(fields(sorted,"=","&")` + end, "b=1.50&a=null&c=" + key, `hex(fields(as-sent, "=", "&")` + end},
		{`hex(fields('=', '&')` + end, "b=1.50&a=null&c=" + key, `hex(fields(as-sent, '=', '&')` + end},
		{`hex(fields('=', '&')` + end, "b=1.50" + key, `hex(fields(omit-empty, '=', '&')` + end},
		{`hex(fields('=', '&')` + end, "a=None&b=1.50&c=" + key, `hex(fields(python-constants, '=', '&')` + end},
		{`hex(fields(omit-null, '=', '&')` + end, "b=1.50" + key, `hex(fields(omit-empty, '=', '&')` + end},
		{`hex(fields(omit-null, '=', '&')` + end, "b:1.50&c:" + key, `hex(fields(omit-null, ":", '&')` + end},
		{`hex(fields('=', '&')` + end, "null&1.50&" + key, `hex(fields('&')` + end},
		{
			`prefixed("v1=", hex)(timestamp hex(md5(fields('|'))))`, "1700000000" + hex.EncodeToString(md5Sum[:]),
			`prefixed("v1=", hex)(timestamp hex(md5(fields(as-sent, '|'))))`,
		},
		{`hex(json` + end, `{"b": 1.50, "a": null, "c": ""}` + key, `hex(json(spaces)` + end},
		{`hex(json(spaces)` + end, `{"b":1.50,"a":null,"c":""}` + key, `hex(json` + end},
	} {
		m := post(cardURL, "1700000000", `{"b":1.50,"a":null,"c":""}`)
		x := explainer(t, test.scheme)
		signature, err := paymentsvc.Scheme{
			Canonical: canonical.Literal(test.signed), Encoding: x.Scheme.Encoding,
		}.Signature(secret, &m)
		require.NoError(t, err)
		assert.Equal(t, "signed "+test.want+", want "+test.scheme, x.Explain(&m, signature).Text)
	}
}

func TestExplainerWithoutTheTextOfItsScheme(t *testing.T) {
	const length = ", want a canonical string of 24 bytes"
	const path = "/v1/init_payment/card"
	for signed, want := range map[string]string{
		`{"b":1,"a":2}`:                                      `hex(body)` + length,
		`1700000000.{"a":2,"b":1}`:                           `body-sorted in place of body` + length,
		`1700000000~{"b":1,"a":2}`:                           `hex(timestamp "~" body)` + length,
		"POST\n" + path + "\n1700000000\n" + `{"b":1,"a":2}`: `hex(method "\n" path "\n" timestamp "\n" body)` + length,
		path + "\n1700000000\n" + `{"b":1,"a":2}` + "\n":     `hex(path "\n" timestamp "\n" body "\n")` + length,
		`{"b":1,"a":2}:1700000000000`:                        `hex(body ":" timestamp-ms)` + length,
		`1700000000:n-1:{"b":1,"a":2}`:                       `hex(timestamp ":" header("X-Nonce") ":" body)` + length,
	} {
		m := post(cardURL, "1700000000", `{"b":1,"a":2}`, "X-Nonce", "n-1")
		x := explainer(t, `hex(timestamp "." body)`)
		x.Text = ""
		got := x.Explain(&m, hexed(string(secret), signed))
		assert.Equal(t, "signed "+want, got.Text)
	}
	m := post(cardURL, "1700000000", `{"b":1,"a":2}`)
	x := explainer(t, `hex(timestamp "." body)`)
	x.Text = ""
	right := mac(crypto.SHA256, string(secret), "1700000000."+string(m.Body))
	assert.Equal(t, "signed in base64", x.Explain(&m, base64.StdEncoding.EncodeToString(right)).Text)
}

// A stranger chooses the length of a body.
func TestExplainerReadsALargeBodyLessOften(t *testing.T) {
	read := func(scheme string, size int) (times int, text string) {
		x := explainer(t, scheme)
		inner := x.Scheme.Canonical
		x.Scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
			times++
			return inner(dst, m)
		}
		m := post(cardURL, "1700000000", `{"a":"`+strings.Repeat("x", size)+`"}`)
		got := x.Explain(&m, strings.Repeat("ab", 32))
		require.Nil(t, got.Canonical)
		return times, got.Text
	}
	for scheme, most := range map[string]int{
		`hex(timestamp "." body)`: 30, `hex(timestamp "." hex(sha256(body)))`: 30,
		`hex(timestamp "." hex(sha256(fields('|'))))`: 10, // each reads JSON
	} {
		times, text := read(scheme, 10)
		assert.Greater(t, times, 1000, scheme)
		assert.Contains(t, text, "no common mistake")
		times, text = read(scheme, 1<<20)
		assert.Less(t, times, most, scheme)
		assert.Contains(t, text, "the message is too large for a complete search")
	}
}

// Allocated bytes stand for work, because each text takes memory. The race detector allocates too, so the limit is a
// multiple of the bytes for a small message.
func TestExplainerBoundsItsWorkOnLargeMessages(t *testing.T) {
	wrong := strings.Repeat("ab", 32)
	small := post(cardURL, "1700000000", "{}")
	large := post(cardURL, "1700000000", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	address := post(cardURL+strings.Repeat("/a", 1<<19), "1700000000", "{}")
	headers := post(cardURL, "1700000000", "{}")
	for i := range 20_000 {
		headers.Header[fmt.Sprintf("X-H%d", i)] = []string{"1"}
	}
	allocated := func(m paymentsvc.Message, signature string) uint64 {
		x := explainer(t, `hex(timestamp "." path "." body)`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Nil(t, x.Explain(&m, signature).Canonical)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	unit := allocated(small, wrong)
	for name, test := range map[string]struct {
		message   paymentsvc.Message
		signature string
		most      uint64
	}{
		"body": {large, wrong, 8 * unit}, "address": {address, wrong, 8 * unit},
		"headers": {headers, wrong, 4 * unit}, "signature": {small, strings.Repeat("ab:", 1<<18), unit},
		"signature of an unknown length": {small, strings.Repeat("ab", 1<<18), unit},
	} {
		assert.Less(t, allocated(test.message, test.signature), test.most, name)
	}
}

// Each of these signatures has another plausible cause, and the text must have the real one.
func TestExplainerNamesTheRealDifference(t *testing.T) {
	const long paymentsvc.Secret = "a secret of more than 64 bytes, because HMAC reads it as the SHA-256 of its bytes"
	hex64 := paymentsvc.Secret(base64.StdEncoding.EncodeToString([]byte("decoded key")))
	for _, test := range []struct {
		secret             paymentsvc.Secret
		scheme, body, want string
	}{
		{long, `hex(timestamp body)`, "{}", `base64(timestamp body)`},
		{secret, `base64url(timestamp "." body)`, "{13}", `base64url(body)`},
		{secret, `hex("the body is" body)`, `{"b":1,"a":2}`, `hex("the body is" body-sorted)`},
		{secret, `hex("the body " body)`, `{"b":1,"a":2}`, `hex("the body " body-sorted)`},
		{secret, `hex(body "|" body)`, `{"b":1,"a":2}`, `hex(body-sorted "|" body-sorted)`},
		{
			secret, `request hex(timestamp "." body), notification hex(body)`, `{"b":1,"a":2}`,
			`hex(timestamp "." body-sorted)`,
		},
		{hex64, `hex(timestamp "." body), key base64`, "{}", `hex(body), key base64`},
		{
			hex64, `request hex(timestamp "." body), notification hex(body), key base64`, "{}",
			`hex(timestamp ":" body), key base64`,
		},
	} {
		scheme, key, err := canonical.ParseSchemeWith(test.scheme, test.secret)
		require.NoError(t, err)
		m := post(cardURL, "1700000000", test.body)
		signature := signedAs(t, test.want, test.secret, &m)
		require.NotContains(t, signature, "-", "the alphabets of base64 differ")
		require.NotContains(t, signature, "_", "the alphabets of base64 differ")
		got := (&discover.Explainer{Scheme: scheme, Secret: key, Text: test.scheme}).Explain(&m, signature)
		assert.Equal(t, "signed "+test.want+", want "+test.scheme, got.Text)
	}
}

// A notification was signed like a request, and the decoded path of an address is not a valid escaped path.
func TestExplainerOfUnusualMessages(t *testing.T) {
	m := received(cardURL, "1700000000", "{}")
	x := explainer(t, `request hex(timestamp body), notification hex(body)`)
	got := x.Explain(&m, hexed(string(secret), "1700000000{}"))
	assert.Contains(t, got.Text, "signed [request] in place of notification, want ")
	m = post("https://pay.example.com/100%25", "1700000000", "{}")
	got = explainer(t, `hex(timestamp path body)`).Explain(&m, hexed(string(secret), "1700000000{}"))
	assert.Contains(t, got.Text, "signed hex(timestamp body), want ")
}

func TestExplainerOfIncompleteMessages(t *testing.T) {
	m := paymentsvc.Message{Body: []byte("{}")} // Webhook.Parse has no address, in contrast to Webhook.Handler
	got := explainer(t, `hex(body)`).Explain(&m, strings.Repeat("ab", 32))
	assert.Contains(t, got.Text, "no common mistake")
	x := explainer(t, `hex(body)`)
	x.Text = "hex("
	assert.Contains(t, x.Explain(&m, strings.Repeat("ab", 32)).Text, "no common mistake")
}

func TestExplainerOfADecodedKey(t *testing.T) {
	const raw = "QUJDREVGR0hJSktMTU5PUA=="
	const text = `hex(timestamp "." body), key base64`
	scheme, key, err := canonical.ParseSchemeWith(text, raw)
	require.NoError(t, err)
	m := post(cardURL, "1700000000", `{}`)
	for signed, want := range map[string]string{
		"1700000000.{}": "signed with the secret in base64", "{}": "signed hex(body) with the secret in base64",
	} {
		got := (&discover.Explainer{Scheme: scheme, Secret: key, Text: text}).Explain(&m, hexed(raw, signed))
		assert.Equal(t, want+", want "+text, got.Text)
	}
}

func TestExplainerOfAlteredKeys(t *testing.T) {
	const text = `hex(timestamp "." body)`
	for _, test := range []struct{ secret, key, want string }{
		{`"a secret in quotes"`, "a secret in quotes", "the secret without quotes"},
		{"a/secret?of=signs", "a%2Fsecret%3Fof%3Dsigns", "the secret with URL escapes"},
		{"wide", "w\x00i\x00d\x00e\x00", "the secret in UTF-16"},
		{strings.Repeat("0123456789abcdef", 3), strings.Repeat("0123456789abcdef", 2), "the first 32 bytes of the secret"},
	} {
		x := explainer(t, text)
		x.Secret = paymentsvc.Secret(test.secret)
		m := post(cardURL, "1700000000", `{}`)
		got := x.Explain(&m, hexed(test.key, "1700000000.{}"))
		assert.Equal(t, "signed with "+test.want+", want "+text, got.Text)
	}
}

func TestExplainerDoesNotKnowEveryMistake(t *testing.T) {
	const wanted = `hex(timestamp "." body)`
	m := post(cardURL, "1700000000", cardBody)
	for signature, want := range map[string]string{
		strings.Repeat("ab", 32): "no common mistake explains this signature (the canonical string has 81 bytes): " +
			"the key is wrong, the message was altered, or the scheme is different",
		strings.Repeat("a", 70): "the signature is not the 32 bytes of an HMAC-SHA256",
		"":                      "the signature is empty",
	} {
		got := explainer(t, wanted).Explain(&m, signature)
		assert.Contains(t, got.Text, want)
		assert.Contains(t, got.Text, ", want "+wanted)
		assert.Nil(t, got.Canonical)
	}
	m.URL = nil
	got := explainer(t, `hex(path body)`).Explain(&m, strings.Repeat("ab", 32))
	assert.Contains(t, got.Text, "the scheme rejects this message: canonical: Path needs")
}

func TestExplainerHidesSecretsAndNumbers(t *testing.T) {
	const own, other paymentsvc.Secret = "cHJvamVjdC1zZWNyZXQ=", `sk>>>???"key`
	const labelled = `signed prefixed("***:", hex)(timestamp body), want hex(timestamp body)`
	inHex := hex.EncodeToString([]byte(other))
	for _, test := range []struct{ scheme, path, signed, label, want string }{
		{
			`hex(timestamp "project-secret" path body)`, "/4111111111111111/card", "1700000000project-secret/card{}", "",
			`signed hex(timestamp "***" path-below("/################") body), want hex(timestamp "***" path body)`,
		},
		{
			`hex(timestamp path body)`, "/4111-1111-1111-1111/card", "1700000000/card{}", "",
			`signed hex(timestamp path-below("/###################") body), want hex(timestamp path body)`,
		},
		{
			`hex(timestamp path body)`, "/sk%3e%3E%3e%3f%3F%3F%22key/card", "1700000000/card{}", "",
			"no common mistake explains this signature (the canonical string has 44 bytes): the key is wrong, the " +
				"message was altered, or the scheme is different, want hex(timestamp path body)",
		},
		{`hex(timestamp body)`, "/", "1700000000{}", "sk%3e%3E%3e%3f%3F%3F%22key:", labelled},
		{
			`hex(timestamp "." body)`, "/", "20231114221320.{}", "",
			`signed hex(date("20060102150405") "." body), want hex(timestamp "." body)`,
		},
		{
			`hex(timestamp "." body)`, "/", "20231114.{}", "",
			`signed hex(date("20060102") "." body), want hex(timestamp "." body)`,
		},
		{`hex(timestamp body)`, "/", "1700000000{}", string(own) + ":", labelled},
		{`hex(timestamp body)`, "/", "1700000000{}", string(other) + ":", labelled},
		{`hex(timestamp body)`, "/", "1700000000{}", inHex + ":", labelled},
		{`hex(timestamp body)`, "/", "1700000000{}", strings.ToUpper(inHex) + ":", labelled},
		{
			`hex(timestamp body)`, "/", "1700000000{}", base64.RawStdEncoding.EncodeToString([]byte(other)) + ":", labelled,
		},
		{
			`hex(timestamp body)`, "/", "1700000000{}", base64.RawURLEncoding.EncodeToString([]byte(other)) + ":", labelled,
		},
	} {
		scheme, _, err := canonical.ParseSchemeWith(test.scheme, own)
		require.NoError(t, err)
		x := &discover.Explainer{
			Scheme: scheme, Text: test.scheme, Secret: "project-secret", // own in base64
			Others: map[string]paymentsvc.Secret{"the secret of project 7": other},
		}
		m := post("https://pay.example.com"+test.path, "1700000000", `{}`)
		got := x.Explain(&m, test.label+hexed("project-secret", test.signed))
		assert.Equal(t, test.want, got.Text)
	}
}

// Tests often have secrets whose descriptions contain them.
func TestExplainerKeepsTheDescriptionOfAKey(t *testing.T) {
	x := explainer(t, `hex(body)`)
	x.Others = map[string]paymentsvc.Secret{"the secret of project 8": "secret of project 8"}
	m := post(cardURL, "1700000000", `{}`)
	got := x.Explain(&m, hexed("secret of project 8", "{}"))
	assert.Equal(t, "signed with the secret of project 8, want hex(body)", got.Text)
}

// The error of a canonical string can contain the names of fields.
func TestExplainerHidesNumbersOfErrors(t *testing.T) {
	m := post(cardURL, "1700000000", `{}`)
	got := explainer(t, `hex(field("4111111111111111"))`).Explain(&m, "")
	assert.Contains(t, got.Text, "################")
}

func TestExplainerBoundsItsSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := explainer(t, `hex(timestamp "." body)`)
		m := post(cardURL, "1700000000", `{}`)
		signature := hexed(string(secret), "{}")
		searched := func() (n int) {
			for range 30 {
				if got := x.Explain(&m, signature); !strings.HasPrefix(got.Text, "too many wrong signatures") {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 20, searched())
		time.Sleep(3 * time.Second)
		assert.Equal(t, 3, searched())
	})
}

func BenchmarkExplainerWithoutAnExplanation(b *testing.B) {
	large := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x/é", 64<<10/4))
	for name, body := range map[string]string{"seven fields": mistakenBody, "64 KiB": large} {
		b.Run(name, func(b *testing.B) {
			m := post(cardURL, "1700000000", body)
			for b.Loop() {
				explainer(b, `hex(timestamp "." body)`).Explain(&m, strings.Repeat("ab", 32))
			}
		})
	}
}
