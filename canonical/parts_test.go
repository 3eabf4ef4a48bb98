package canonical_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func message(t testing.TB, address, body string) *paymentsvc.Message {
	t.Helper()
	m := &paymentsvc.Message{
		Method:    http.MethodPost,
		Header:    http.Header{"Content-Type": {"application/json"}, "X-Nonce": {"n-1"}, "X-Twice": {"a", "b"}},
		Timestamp: "1700000000",
		Body:      []byte(body),
	}
	if address != "" {
		u, err := url.Parse(address)
		require.NoError(t, err)
		m.URL = u
	}
	return m
}

func TestPartsAppendTheirText(t *testing.T) {
	const address = "https://pay.example.com:8443/base/init_payment/card?b=2&a=1%20x"
	const body = `{"amount":10.50}`
	for name, tt := range map[string]struct {
		part    paymentsvc.CanonicalFunc
		want    string
		address string // "" means the one above
	}{
		"the timestamp":                    {canonical.Timestamp, "1700000000", ""},
		"the method":                       {canonical.Method, "POST", ""},
		"the method in lower case":         {canonical.Lower(canonical.Method), "post", ""},
		"the path with the base":           {canonical.Path, "/base/init_payment/card", ""},
		"the path below the base":          {canonical.PathBelow("/base"), "/init_payment/card", ""},
		"the path without its first slash": {canonical.PathBelow("/"), "base/init_payment/card", ""},
		"the path decoded":                 {canonical.DecodedPath, "/base/init_payment/card", ""},
		"the path and query":               {canonical.RequestURI, "/base/init_payment/card?b=2&a=1%20x", ""},
		"the whole address":                {canonical.URL, address, ""},
		"the host with its port":           {canonical.Host, "pay.example.com:8443", ""},
		"the query as sent":                {canonical.Query, "b=2&a=1%20x", ""},
		"the query sorted":                 {canonical.SortedQuery, "a=1%20x&b=2", ""},
		"the body":                         {canonical.Body, body, ""},
		"a literal":                        {canonical.Literal("v1\x00"), "v1\x00", ""},
		"a header, its name in any case":   {canonical.Header("x-nonce"), "n-1", ""},
		"the secret's text":                {canonical.Secret("s3cret"), "s3cret", ""},
		"a label":                          {canonical.Labelled("t=", canonical.Timestamp), "t=1700000000", ""},
		"parts joined": {
			canonical.Join("|", canonical.Method, canonical.Timestamp), "POST|1700000000", "",
		},
		"a quoted number outside JSON": {canonical.Number(canonical.NumbersQuoted, canonical.Field("amount")), "10.50", ""},
		"nothing joined":               {canonical.Join("|"), "", ""},
		"a separator behind the last": {
			canonical.Join("|", canonical.Method, canonical.Literal("")), "POST|", "",
		},
		"upper case leaves what is no ASCII": {canonical.Upper(canonical.Literal("straße é")), "STRAßE é", ""},
		"base64 of the body": {
			canonical.Encode(base64.StdEncoding, canonical.Literal("a>b?")), "YT5iPw==", "",
		},
		"SHA-256 in upper-case hexadecimal": {
			canonical.SHA256(paymentsvc.HexUpper, canonical.Literal("abc")),
			"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", "",
		},
		"SHA-512 in base64": {
			canonical.SHA512(base64.StdEncoding, canonical.Literal("abc")),
			"3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==", "",
		},
		"SHA-1": {canonical.SHA1(paymentsvc.Hex, canonical.Literal("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d", ""},
		"MD5":   {canonical.MD5(paymentsvc.Hex, canonical.Literal("abc")), "900150983cd24fb0d6963f7d28e17f72", ""},
		"a digest's bytes": {
			canonical.MD5(canonical.Raw, canonical.Literal("abc")),
			"\x90\x01\x50\x98\x3c\xd2\x4f\xb0\xd6\x96\x3f\x7d\x28\xe1\x7f\x72", "",
		},
		"a transformed part in a whole": {
			canonical.Join(
				".", canonical.Method, canonical.Lower(canonical.Literal("ABC")),
				canonical.SHA1(paymentsvc.Hex, canonical.Literal("abc")),
			),
			"POST.abc.a9993e364706816aba3e25717850c26c9cd0d89d", "",
		},
		"the request's part for a request": {canonical.ByKind(canonical.Method, canonical.Timestamp), "POST", ""},
		"the body's SHA-256": {
			canonical.BodySHA256, "0046bb36282b891dc2400d5a0eeb81f35d944894239110ac1868107ef3d78dd2", "",
		},
		"no path":                  {canonical.Path, "/", "https://pay.example.com"},
		"no path, decoded":         {canonical.DecodedPath, "/", "https://pay.example.com"},
		"no path nor query":        {canonical.RequestURI, "/", "https://pay.example.com"},
		"an escaped path":          {canonical.Path, "/a%2Fb%20c", "https://pay.example.com/a%2Fb%20c"},
		"an escaped path, decoded": {canonical.DecodedPath, "/a/b c", "https://pay.example.com/a%2Fb%20c"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.part([]byte("before "), message(t, cmp.Or(tt.address, address), body))
			require.NoError(t, err)
			require.Equal(t, "before "+tt.want, string(got), "the part must append")
		})
	}
}

func TestPartsReturnErrors(t *testing.T) {
	notification := message(t, "", `{"a":1}`)
	notification.Kind = paymentsvc.KindNotification
	served := message(t, "/hooks?x=1", `{"a":1}`) // a request read by a server has no scheme and host
	for name, tt := range map[string]struct {
		part paymentsvc.CanonicalFunc
		m    *paymentsvc.Message
		want string
	}{
		"a path without an address":           {canonical.Path, notification, "Path needs the address"},
		"the path below without an address":   {canonical.PathBelow("/"), notification, "PathBelow needs the address"},
		"the decoded path without an address": {canonical.DecodedPath, notification, "DecodedPath needs the address"},
		"the request URI without an address":  {canonical.RequestURI, notification, "RequestURI needs the address"},
		"the URL without an address":          {canonical.URL, notification, "URL needs the address"},
		"the host without an address":         {canonical.Host, notification, "Host needs the address"},
		"the query without an address":        {canonical.Query, notification, "Query needs the address"},
		"the sorted query without an address": {canonical.SortedQuery, notification, "SortedQuery needs the address"},
		"the URL of an address without host":  {canonical.URL, served, "URL needs scheme and host"},
		"the host of an address without one":  {canonical.Host, served, "Host needs the host"},
		"a path under another base": {
			canonical.PathBelow("/api"), served, `does not start with PathBelow's "/api"`,
		},
		"a header that is missing":    {canonical.Header("X-None"), served, "header X-None: 0 values, want exactly 1"},
		"a header that appears twice": {canonical.Header("X-Twice"), served, "header X-Twice: 2 values, want exactly 1"},
		"an empty secret":             {canonical.Secret(""), served, "Secret is empty"},
		"a nil part of Join":          {canonical.Join("", canonical.Method, nil), served, "part 2 of Join is nil"},
		"a failing part of Join":      {canonical.Join("", canonical.Method, canonical.Host), served, "Host needs the host"},
		"a nil part of Lower":         {canonical.Lower(nil), served, "the part of Lower is nil"},
		"a failing part of Lower":     {canonical.Lower(canonical.Host), served, "Host needs the host"},
		"a nil part of SHA256": {
			canonical.SHA256(paymentsvc.Hex, nil), served, "SHA256 needs an encoding and a part",
		},
		"a nil encoding of Encode": {canonical.Encode(nil, canonical.Body), served, "Encode needs an encoding and a part"},
		"a failing part of MD5":    {canonical.MD5(paymentsvc.Hex, canonical.Host), served, "Host needs the host"},
		"no part for the kind":     {canonical.ByKind(canonical.Method, nil), notification, "ByKind has no part"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.part([]byte("x"), tt.m)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, got)
		})
	}
}

func TestEncodingsAppendTheirText(t *testing.T) {
	sum := []byte{0xfb, 0xef, 0xff}
	for name, tt := range map[string]struct {
		encoding paymentsvc.Encoding
		want     string
	}{
		"raw bytes":                    {canonical.Raw, "\xfb\xef\xff"},
		"behind a prefix":              {canonical.Prefixed("sha256=", paymentsvc.Hex), "sha256=fbefff"},
		"base64 of hexadecimal":        {canonical.Chain(paymentsvc.Hex, base64.StdEncoding), "ZmJlZmZm"},
		"a chain of one":               {canonical.Chain(base64.URLEncoding), "--__"},
		"a chain of none changes none": {canonical.Chain(), "\xfb\xef\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "before "+tt.want, string(tt.encoding.AppendEncode([]byte("before "), sum)))
		})
	}
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestPartsAllocateNothing(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector empties sync.Pool, which encoding/json uses")
	}
	m := message(
		t, "https://pay.example.com/base/init_payment/card?a=1", `{"amount":10.50,"payer":{"email":"a@example.com"}}`,
	)
	dst := make([]byte, 0, 4096)
	for name, part := range map[string]paymentsvc.CanonicalFunc{
		"Timestamp":   canonical.Timestamp,
		"Method":      canonical.Method,
		"Path":        canonical.Path,
		"PathBelow":   canonical.PathBelow("/base"),
		"RequestURI":  canonical.RequestURI,
		"URL":         canonical.URL,
		"Host":        canonical.Host,
		"Query":       canonical.Query,
		"Header":      canonical.Header("X-Nonce"),
		"Body":        canonical.Body,
		"BodySHA256":  canonical.BodySHA256,
		"BodyCompact": canonical.BodyCompact,
		"Field":       canonical.Field("payer", "email"),
		"Literal":     canonical.Literal("."),
		"Secret":      canonical.Secret("s3cret"),
		"Join":        canonical.Join("\n", canonical.Timestamp, canonical.Method, canonical.Path, canonical.Body),
		"Lower":       canonical.Lower(canonical.Method),
	} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if _, err := part(dst, m); err != nil {
					t.Fatal(err)
				}
			}))
		})
	}
}

func TestSHA256IsSafeForConcurrentUse(t *testing.T) {
	part := canonical.SHA256(paymentsvc.Hex, canonical.Body)
	done := make(chan error)
	for i := range 8 {
		go func() {
			body := strings.Repeat(fmt.Sprint(i), 100)
			m := &paymentsvc.Message{Body: []byte(body)}
			want, _ := canonical.BodySHA256(nil, m)
			for range 200 {
				if got, err := part(nil, m); err != nil || string(got) != string(want) {
					done <- fmt.Errorf("%q, %w", got, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}

func TestSecretFormReadsKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		form   canonical.SecretForm
		secret paymentsvc.Secret
		want   string
	}{
		"as text":                        {canonical.SecretText, "ab=", "ab="},
		"as hexadecimal of either case":  {canonical.SecretHex, "aBff", "\xab\xff"},
		"as base64":                      {canonical.SecretBase64, "+/8=", "\xfb\xff"},
		"as base64 of the URL alphabet":  {canonical.SecretBase64, "-_8=", "\xfb\xff"},
		"as base64 without padding":      {canonical.SecretBase64, "+/8", "\xfb\xff"},
		"as base64 behind an underscore": {canonical.SecretBase64Tail, "wh_sec_+/8=", "\xfb\xff"},
		"as its SHA-256": {
			canonical.SecretSHA256, "abc",
			"\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10" +
				"\xff\x61\xf2\x00\x15\xad",
		},
		"as its SHA-256 in hexadecimal": {
			canonical.SecretSHA256Hex, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		},
		"as text behind an underscore": {canonical.SecretTail, "sk_live_abc", "abc"},
		"as hexadecimal behind one":    {canonical.SecretHexTail, "sk_00ff", "\x00\xff"},
		"as its MD5":                   {canonical.SecretMD5Hex, "abc", "900150983cd24fb0d6963f7d28e17f72"},
		"as its SHA-1":                 {canonical.SecretSHA1Hex, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
		"without white space":          {canonical.SecretTrimmed, " abc\n", "abc"},
		"as a UUID without dashes": {
			canonical.SecretUUID, "0b1d7c5e-9d3f-4a55-8c1e-5f0c7a1e1f6b", "0b1d7c5e9d3f4a558c1e5f0c7a1e1f6b",
		},
		"as the bytes of a UUID": {
			canonical.SecretUUIDBytes, "00ff7c5e-9d3f-4a55-8c1e-5f0c7a1e1f6b",
			"\x00\xff\x7c\x5e\x9d\x3f\x4a\x55\x8c\x1e\x5f\x0c\x7a\x1e\x1f\x6b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.form.Read(tt.secret)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestSecretFormRejectsOtherText(t *testing.T) {
	const secret = "not-hex!_%%%"
	// Compare whole texts, because errors of encoding/hex and encoding/base64 contain parts of the secret.
	for want, form := range map[string]canonical.SecretForm{
		"canonical: the secret is not hexadecimal": canonical.SecretHex,
		"canonical: the secret is not base64":      canonical.SecretBase64,
		"canonical: the secret is not a UUID":      canonical.SecretUUID,
		"canonical: unknown form of the secret":    canonical.SecretForm(99),
	} {
		_, err := form.Read(secret)
		require.EqualError(t, err, want)
	}
	_, err := canonical.SecretBase64Tail.Read(secret)
	require.EqualError(t, err, "canonical: the secret is not base64")
	_, err = canonical.SecretBase64Tail.Read("abcd")
	require.EqualError(t, err, "canonical: the secret has no underscore")
	for form := canonical.SecretText; form.Name() != ""; form++ {
		_, err := form.Read("")
		require.ErrorContains(t, err, "empty", "%s", form)
	}
	_, err = canonical.SecretBase64Tail.Read("whsec_")
	require.ErrorContains(t, err, "no key")
	require.Equal(t, "unknown form", canonical.SecretForm(99).String())
}

func TestPartsDoNotOverwriteReturnedBody(t *testing.T) {
	lazy := func(_ []byte, m *paymentsvc.Message) ([]byte, error) { return m.Body, nil }
	for name, part := range map[string]paymentsvc.CanonicalFunc{
		"Lower":  canonical.Lower(lazy),
		"Upper":  canonical.Upper(lazy),
		"Encode": canonical.Encode(paymentsvc.Hex, lazy),
		"SHA256": canonical.SHA256(paymentsvc.Hex, lazy),
		"Join":   canonical.Join("", lazy, canonical.Literal("behind")),
	} {
		t.Run(name, func(t *testing.T) {
			shared := []byte("Body and what stands behind it in the same memory")
			for range 20 { // until a buffer of an earlier message comes back
				_, err := part(nil, &paymentsvc.Message{Body: shared[:4]})
				require.NoError(t, err)
				_, err = part(make([]byte, 0, 1), &paymentsvc.Message{Body: []byte("ANOTHER")})
				require.NoError(t, err)
			}
			require.Equal(t, "Body and what stands behind it in the same memory", string(shared))
		})
	}
}

// Requests and notifications may be signed in different ways.
func ExampleByKind() {
	scheme := paymentsvc.Scheme{
		Canonical: canonical.ByKind(
			canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.BodySHA256), // for requests
			canonical.Join(".", canonical.Timestamp, canonical.Body),                        // for notifications
		),
		Encoding: paymentsvc.Hex,
	}
	text, err := scheme.Canonical(nil, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Timestamp: "1700000000", Body: []byte("{}"),
	})
	fmt.Printf("%s %v\n", text, err)
	// Output: 1700000000.{} <nil>
}

func ExampleFields() {
	m := &paymentsvc.Message{Body: []byte(`{"partner_id": 17, "amount": 10.50, "payer": {"email": "a@example.com"}}`)}
	for _, list := range []canonical.FieldList{
		{Between: "|", Nested: canonical.NestedOmitted},
		{Names: true, Equals: "=", Between: "&", Nested: canonical.NestedFlat, Path: "."},
		{Names: true, Equals: ":", Between: ";", AsSent: true},
	} {
		text, err := canonical.Fields(list)(nil, m)
		fmt.Printf("%s %v\n", text, err)
	}
	// Output:
	// 10.50|17 <nil>
	// amount=10.50&partner_id=17&payer.email=a@example.com <nil>
	// partner_id:17;amount:10.50;payer:{"email":"a@example.com"} <nil>
}
