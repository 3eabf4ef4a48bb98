package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

const (
	discoverRequest      = `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"order-1"}`
	discoverNotification = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":` +
		`"SUCCESS","status_code":0,"amount":10.5}`
)

// signedText returns a request with its signature as HTTP text.
func signedText(t *testing.T, scheme, target, body string) string {
	t.Helper()
	head := "POST " + target + " HTTP/1.1\nHost: pay.example.com\ntimestamp: 1700000000\n"
	m, err := capture.Read([]byte(head+"\n"+body), "a", capture.Options{})
	require.NoError(t, err)
	parsed, key, err := canonical.ParseSchemeWith(scheme, testKey)
	require.NoError(t, err)
	signature, err := parsed.Signature(key, &paymentsvc.Message{
		Method: m.Method, URL: m.URL, Header: m.Header, Timestamp: "1700000000", Body: m.Body,
	})
	require.NoError(t, err)
	return head + "signature: " + signature + "\n\n" + body
}

func (d *desk) discover(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	code = d.run(append([]string{"discover"}, args...)...)
	return code, d.stdout.String(), d.stderr.String()
}

func TestDiscoverPrintsTheScheme(t *testing.T) {
	const scheme = `hex(timestamp "\n" path "\n" body)`
	text := signedText(t, scheme, "/v1/init_payment/card", discoverRequest)
	head, _, _ := strings.Cut(signedText(t, scheme, "/hook", discoverNotification), "\n\n")
	signature := head[strings.LastIndex(head, " ")+1:]
	c := deskWith(t, map[string]string{
		"a.http": text,
		"crlf":   strings.ReplaceAll(text, "\n", "\r\n"),
		"curl.txt": "curl -H 'timestamp: 1700000000' -H 'signature: " + signature +
			"' --json @body.json https://pay.example.com/hook",
		"headers": head, "body.json": discoverNotification,
		"renamed": strings.NewReplacer("signature:", "X-Sign:", "timestamp:", "X-Time:").Replace(text),
	})
	c.stdin = text
	for name, args := range map[string][]string{
		"HTTP text, CRLF, standard input and curl": {"a.http", "crlf", "-", "curl.txt"},
		"headers and a body":                       {"headers", "-body", "body.json"},
		"headers renamed":                          {"renamed"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := c.discover(args...)
			require.Zero(t, code, errs)
			require.Contains(t, out, "found  "+scheme+"\n       for ")
			require.Contains(t, out, "key    the secret as text\n")
			require.Contains(t, out, "\tCanonical: canonical.Join(\"\\n\", canonical.Timestamp, canonical.Path, "+
				"canonical.Body),\n")
			require.Contains(t, out, "       canonical.RequestURI\n         decided by: a sample with a query in the "+
				"address\n")
			seen := map[string]string{"headers": ", seen in notifications", "renamed": ", seen in requests"}[args[0]]
			require.Contains(t, out, `{"scheme": "hex(timestamp \"\\n\" path \"\\n\" body)`+seen+`"}`)
			require.Regexp(t, "then run: paymentsvc verify ("+args[0]+"|FILE) -tolerance any", out)
			require.Equal(t, 1, strings.Count(out, "found  "))
			if args[0] == "renamed" {
				require.Contains(t, errs, "using the header X-Sign as the signature; -signature-header chooses another header")
				require.Contains(t, errs, "using the header X-Time as the timestamp")
				require.Contains(t, out, "-signature-header X-Sign -timestamp-header X-Time")
			}
		})
	}
}

func TestDiscoverJoinsTheSchemesOfBothKinds(t *testing.T) {
	c := deskWith(t, map[string]string{
		"a.http": signedText(t, `hex(path "\n" body)`, "/v1/a", discoverRequest),
		"b.http": signedText(t, `hex(timestamp "." body)`, "/hook", discoverNotification),
		"c.http": signedText(t, `base64(timestamp "." body)`, "/hook", discoverNotification),
	})
	code, _, errs := c.discover("a.http", "c.http", "-out", "new/dir")
	require.Equal(t, cli.ExitNo, code, "two encodings have no common text")
	require.Contains(t, errs, "no file written, because one text cannot contain both schemes")
	require.NoDirExists(t, filepath.Join(c.dir, "new/dir"))

	code, out, errs := c.discover("a.http", "b.http", "-out", "new/dir")
	require.Zero(t, code, errs)
	const both = `request hex(path "\n" body), notification hex(timestamp "." body)`
	require.Contains(t, out, "both   "+both)
	require.Contains(t, out, "wrote  new/dir/scheme.txt, new/dir/scheme.go.txt\nnext   add to paymentsvc.json: "+
		"{\"scheme_file\": \"new/dir/scheme.txt\"}")
	require.Equal(t, both+"\n", c.read("new/dir/scheme.txt"))
	require.Contains(t, c.read("new/dir/scheme.go.txt"), "canonical.ByKind(")

	code, out, _ = c.discover("a.http", "-kind", "notification", "-json")
	require.Zero(t, code)
	require.Contains(t, out, `"about":"notifications"`)
}

func TestDiscoverKeysWordsAndWarnings(t *testing.T) {
	c := deskWith(t, map[string]string{
		"hex":  "00112233445566778899aabbccddeeff",
		"word": signedText(t, `hex("key-7:" timestamp), body unsigned`, "/a", discoverRequest),
		"cut":  signedText(t, `hex(field("partner_id") field("amount") timestamp)`, "/a", discoverRequest),
	})
	code, out, errs := c.discover("word", "-word", "key-8", "-word", "key-7")
	require.Zero(t, code, errs)
	require.Contains(t, out, `canonical.Literal("key-7")`)
	code, out, errs = c.discover("cut")
	require.Zero(t, code, errs)
	require.Contains(t, out, "warn   the canonical string is ambiguous: ")

	signature := signatureOf(t, `hex(body), key hex`, "00112233445566778899aabbccddeeff", "{}", "1")
	c.stdin = "POST /a HTTP/1.1\nTimestamp: 1\nSignature: " + signature + "\n\n{}"
	code, out, errs = c.discover("-secret-file", "hex", "-")
	require.Zero(t, code, errs)
	require.Contains(t, out, "key, err := canonical.SecretHex.Read(secret) // sign with key, not with secret")
}

func TestDiscoverFindsNothing(t *testing.T) {
	good := signedText(t, `hex(body)`, "/v1/a", `{"a":1}`)
	c := deskWith(t, map[string]string{"good": good, "bad": strings.Replace(good, `{"a":1}`, `{"a":2}`, 1)})
	code, out, _ := c.discover("bad", "-effort", "0.0002")
	require.Equal(t, cli.ExitNo, code)
	require.Contains(t, out, "none   for requests: discover: no composition explains the samples")
	require.Contains(t, out, "check  ")
	require.Contains(t, out, "-word")
	require.Regexp(t, `tried  \d+ compositions of \d+ families in `, out)
	require.NotContains(t, out, "scheme := ")

	code, out, _ = c.discover("good", "bad", "-effort", "0.0002")
	require.Equal(t, cli.ExitNo, code)
	require.Contains(t, out, "part   this fits good only: hex(body)")

	code, out, _ = c.discover("bad", "-effort", "0.0002", "-json")
	require.Equal(t, cli.ExitNo, code)
	var o struct {
		Type  string
		V     int
		Error string
		resultJSON
	}
	require.NoError(t, json.Unmarshal([]byte(out), &o))
	require.Equal(t, "not_found", o.Type)
	require.Equal(t, 1, o.V)
	require.NotEmpty(t, o.Covered)
	require.Contains(t, strings.Join(o.Hints, "\n"), "-effort")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cli.Interrupted())
	require.Equal(t, cli.ExitInterrupt, cli.Main(ctx, c.env(io.Discard), program(), []string{"discover", "bad"}))
}

func TestDiscoverRejectsInvalidFilesAndFlags(t *testing.T) {
	const rest = "Host: pay.example.com\nTimestamp: 1700000000\nSignature: " +
		"abababababababababababababababababababababababababababababababab\n\n{}"
	c := deskWith(t, map[string]string{
		"ok": "POST / HTTP/1.1\n" + rest, "empty": "", "ignored.har": `{"log":{"entries":[]}}`,
		"unsigned":  "POST / HTTP/1.1\nTimestamp: 1\n\n{}",
		"unstamped": "POST / HTTP/1.1\nA: b\nSignature: a\n\n{}",
		"twice":     "POST / HTTP/1.1\nTimestamp: 1\n" + rest,
		"dated":     strings.Replace("POST / HTTP/1.1\n"+rest, "1700000000", "2026-01-01", 1),
		"two":       "POST / HTTP/1.1\nTimestamp: 1\nX-Sign: a\nX-Hmac: b\n\n{}",
		"short":     strings.Replace("POST / HTTP/1.1\n"+rest, "abababab", "", 1),
	})
	for want, args := range map[string][]string{
		"want one of FILE, -":                          {},
		"want one of FILE":                             {"ok", "-demo"},
		"-scheme checks files":                         {"-demo", "-scheme", "hex(body)"},
		"-to: not set":                                 {"-proxy"},
		"no-such-file: no such file":                   {"no-such-file"},
		"empty:1:1: empty":                             {"empty"},
		"ignored.har:1:1: there is no request":         {"ignored.har"},
		"unsigned:1: no signature header; name it":     {"unsigned"},
		"unstamped:1: no timestamp header; name it":    {"unstamped"},
		"twice:4: 2 timestamp headers, want exactly 1": {"twice"},
		"dated:3: the header timestamp is not Unix":    {"dated"},
		"choose with -signature-header: X-Hmac, X-Sig": {"two"},
		"ok:1: no header X-Sign":                       {"ok", "-signature-header", "X-Sign"},
		"short:4: the signature is not the 32 bytes":   {"short"},
		"-scheme: column 5: unknown part \"bdy\"":      {"ok", "-scheme", "hex(bdy)"},
	} {
		t.Run(want, func(t *testing.T) {
			code, out, errs := c.discover(args...)
			require.Equal(t, cli.ExitUsage, code, errs)
			require.Empty(t, out)
			require.Contains(t, errs, want)
		})
	}
}

func TestDiscoverChecksAScheme(t *testing.T) {
	const scheme = `hex(timestamp '\n' body)`
	c := deskWith(t, map[string]string{
		"a.http": signedText(t, scheme, "/a", `{"card":"4111 1111 1111 1111","n":"`+testKey+`"}`),
		"scheme": scheme,
	})
	for _, args := range [][]string{{"-scheme", scheme}, {"-scheme-file", "scheme"}} {
		code, out, errs := c.discover(append(args, "a.http")...)
		require.Zero(t, code, errs)
		require.Contains(t, out, "right  a.http: fits the signature; the canonical string, of ")
		require.Contains(t, out, `     1 "1700000000\n"`+"\n"+`     2 "{\"card\":\"<card number>\",\"n\":\"<secret>\"}"`+"\n")
	}
	code, out, _ := c.discover("a.http", "-json", "-scheme", `hex(path), body unsigned`)
	require.Equal(t, cli.ExitNo, code)
	require.Equal(t, `{"type":"checked","v":1,"sample":"a.http","canonical_string":["\"/a\""],"bytes":2,"fits":false,`+
		`"error":"","body":""}`+"\n", out)
	code, out, _ = c.discover("a.http", "-json", "-scheme", `hex(secret path), body unsigned`)
	require.Equal(t, cli.ExitNo, code)
	require.Contains(t, out, fmt.Sprintf(`secret\u003e/a\""],"bytes":%d`, len(testKey+"/a")))
	code, out, _ = c.discover("a.http", "-scheme", `hex(header("X-None") body)`)
	require.Equal(t, cli.ExitNo, code)
	require.Contains(t, out, "wrong  a.http: canonical: header X-None: 0 values, want exactly 1\n")
	c.stdin = "Timestamp: 1\nSignature: a\n\n{}"
	code, out, _ = c.discover("-", "-scheme", "hex(path body)")
	require.Equal(t, cli.ExitNo, code)
	require.Contains(t, out, "Path needs the address", "an unknown address is not empty text")

	c.write(cli.SettingsFile, `{"scheme": "hex(path)", "secret_file": "key.txt"}`)
	code, out, _ = c.discover("a.http")
	require.Zero(t, code, "a scheme in the settings is not checked, but found again")
	require.Contains(t, out, "found  ")
}

var discoverLong = flag.Bool("discover.long", false, "find every scheme of the demo, which takes a search each")

func TestDiscoverDemoFindsWhatItHides(t *testing.T) {
	hidden := compositions()
	if !*discoverLong {
		hidden = hidden[:1]
	}
	for _, text := range hidden {
		t.Run(text, func(t *testing.T) {
			var out, errs bytes.Buffer
			d := &discovery{Call: callOf(t, "-demo")}
			d.Stdout, d.Stderr = &out, &errs
			require.NoError(t, d.checkFlags())
			require.NoError(t, d.demo(t.Context(), text))
			require.Contains(t, errs.String(), "the interface document does not specify a scheme")
			require.Contains(t, out.String(), "POST /v1/init_payment/card HTTP/1.1")
			require.Contains(t, out.String(), "\nfound  ")
			require.Contains(t, out.String(), "\nhidden "+text)
			require.NotContains(t, out.String(), "next")
			require.NotContains(t, out.String(), string(d.options.Secret))
		})
	}
}

// callOf returns the call of a discover command that does nothing.
func callOf(t *testing.T, args ...string) (call *cli.Call) {
	t.Helper()
	p := program()
	for i := range p.Commands {
		p.Commands[i].Run = func(_ context.Context, c *cli.Call) error { call = c; return nil }
	}
	require.Zero(t, cli.Main(t.Context(), newDesk(t).env(io.Discard), p, append([]string{"discover"}, args...)))
	return call
}

func TestDiscoverProgressIsSeldom(t *testing.T) {
	var errs bytes.Buffer
	call := callOf(t)
	call.Stderr = &errs
	show := (&discovery{Call: call}).progress()
	for i := range 12 {
		show(discover.Progress{Tried: int64(i) * 1e6, Total: 2e7, Elapsed: time.Duration(i) * time.Second, What: "body"})
	}
	require.Equal(t, "note   searching: 5.0 of 20.0 million, 1.0 million a second, at most 15s left: body\n"+
		"note   searching: 10.0 of 20.0 million, 1.0 million a second, at most 10s left: body\n", errs.String())
}

// listens starts discover with -listen or -proxy.
func (d *desk) listens(ctx context.Context, args ...string) *process {
	d.t.Helper()
	return d.start(ctx, append([]string{"discover", "-json"}, args...)...)
}

// post sends HTTP text to a server.
func post(t *testing.T, base, text string) int {
	t.Helper()
	m, err := capture.Read([]byte(text), "a", capture.Options{})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), m.Method, base+m.URL.RequestURI(), bytes.NewReader(m.Body))
	require.NoError(t, err)
	req.Header, req.Host = m.Header, m.URL.Host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

func TestDiscoverListenSavesAndFinds(t *testing.T) {
	const scheme = `hex(timestamp "." body)`
	first := signedText(t, scheme, "/hook?a=1", " "+discoverNotification+"\r\n\n") // with removable white space
	c := newDesk(t)
	require.NoError(t, os.Mkdir(filepath.Join(c.dir, "captured"), 0o700))
	c.write("captured/0002.http", "of an earlier run")
	s := c.listens(t.Context(), "-listen", "127.0.0.1:0", "-save", "captured", "-count", "2", "-timeout", "10m")
	require.Equal(t, http.StatusServiceUnavailable, post(t, s.address, "GET /health HTTP/1.1\n\n"))
	require.Equal(t, http.StatusServiceUnavailable, post(t, s.address, first))
	require.Contains(t, s.wait("found"), scheme[:4])
	require.Equal(t, http.StatusServiceUnavailable, post(t, s.address, first), "delivered again")
	require.Equal(t, http.StatusServiceUnavailable,
		post(t, s.address, "POST / HTTP/1.1\nTimestamp: 1\nSignature: scan\n\n{}"))
	require.Equal(t, http.StatusServiceUnavailable,
		post(t, s.address, signedText(t, scheme, "/hook", discoverNotification)))
	s.wait("confirmed")
	require.Zero(t, s.end())
	require.Contains(t, s.stdout.String(), `"type":"next"`)
	require.Contains(t, s.stderr.String(), "captured/0001.http:1: no signature header")
	require.Contains(t, s.stderr.String(), "captured/0003.http has the signature of an earlier message")
	require.Contains(t, s.stderr.String(), "captured/0004.http:1: the signature is not the 32 bytes")
	require.Equal(t, "of an earlier run", c.read("captured/0002.http"))

	c.isPrivate("captured/0002-2.http", 0o600)
	saved := c.read("captured/0002-2.http")
	require.True(t, strings.HasSuffix(saved, "\r\n\r\n "+discoverNotification+"\r\n"), "%q", saved)
	code, out, _ := c.discover("captured/0002-2.http")
	require.Zero(t, code)
	require.Contains(t, out, "found  "+scheme)
}

func TestDiscoverListenEnds(t *testing.T) {
	good := signedText(t, `hex(timestamp "." body)`, "/hook", discoverNotification)
	t.Run("when a later message refutes the scheme", func(t *testing.T) {
		other := signedText(t, `hex(path body)`, "/hook", strings.Replace(discoverNotification, "o-1", "o-3", 1))
		s := newDesk(t).listens(t.Context(), "-listen", "127.0.0.1:0", "-count", "2", "-effort", "0.0002", "-answer", "200")
		require.Equal(t, http.StatusOK, post(t, s.address, good))
		s.wait("found")
		require.Equal(t, http.StatusOK, post(t, s.address, other))
		s.wait("refuted")
		require.Equal(t, cli.ExitNo, s.end())
	})
	t.Run("at once when one is enough", func(t *testing.T) {
		c := newDesk(t)
		s := c.listens(t.Context(), "-listen", "127.0.0.1:0")
		post(t, s.address, good)
		require.Zero(t, s.end())
		files, err := os.ReadDir(c.dir)
		require.NoError(t, err)
		require.Len(t, files, 2, "without -save and -out, discover writes no file")
	})
	t.Run("when a message cannot be saved", func(t *testing.T) {
		s := deskWith(t, map[string]string{"file": ""}).listens(t.Context(), "-listen", "127.0.0.1:0", "-save", "file",
			"-answer", "200")
		require.Equal(t, http.StatusInternalServerError, post(t, s.address, good), "not 2xx: the message would be lost")
		require.Equal(t, cli.ExitMachine, s.end())
	})
	t.Run("when the address is in use", func(t *testing.T) {
		taken := httptest.NewServer(http.NotFoundHandler())
		defer taken.Close()
		code, _, _ := newDesk(t).discover("-listen", taken.Listener.Addr().String())
		require.Equal(t, cli.ExitMachine, code)
	})
}

func TestDiscoverKeepsFewMessagesOfAnybody(t *testing.T) {
	r := &catcher{discovery: &discovery{Call: callOf(t)}, arrived: make(chan struct{}, 1)}
	for range maxKept + 1 {
		require.NoError(t, r.keep(capture.Message{Method: "POST", URL: &url.URL{}}))
	}
	require.Len(t, r.waiting, maxKept)
	all, none := make([]sample, maxKept+2), []found{{err: discover.ErrNoMatch}}
	require.Len(t, kept(all, none, 0), maxKept)
	require.Len(t, kept(all, none, maxKept+1), maxKept+1)
	require.Len(t, kept(all, []found{{}}, 0), maxKept+2, "all are genuine")
}

func TestDiscoverPrintsNoCommandOfASample(t *testing.T) {
	text := strings.Replace(signedText(t, "hex(body)", "/a", discoverRequest), "signature", "x-sign`id`", 1)
	c := deskWith(t, map[string]string{"$(id)": text})
	_, out, errs := c.discover("$(id)", "-out", "new\x01")
	require.Contains(t, out, "paymentsvc verify '$(id)' -tolerance any -signature-header 'X-Sign`id`'", errs)
	require.Contains(t, out, `{"scheme_file": "new\u0001/scheme.txt"}`)
}

func TestDiscoverListenFindsTheSchemeAfterAForgery(t *testing.T) {
	genuine := signedText(t, `hex(timestamp "." body)`, "/hook", discoverNotification)
	s := newDesk(t).listens(t.Context(), "-listen", "127.0.0.1:0", "-effort", "0.0002")
	signature := strings.Repeat("00", 32)
	post(t, s.address, "POST /hook HTTP/1.1\nTimestamp: 1700000000\nSignature: "+signature+"\n\n"+discoverNotification)
	s.wait("not_found")
	post(t, s.address, genuine)
	s.wait("found")
	require.Zero(t, s.end())
}

func TestDiscoverLeavesForgeriesOut(t *testing.T) {
	d := &discovery{Call: callOf(t)}
	d.options.Secret = testKey
	r := &catcher{discovery: d}
	message := func(id, forged string) sample {
		text := signedText(t, `hex(timestamp "." body)`, "/hook", strings.Replace(discoverNotification, "o-1", id, 1))
		m, err := capture.Read([]byte(strings.Replace(text, id, id+forged, 1)), id, capture.Options{})
		require.NoError(t, err)
		s, err := r.sample(m)
		require.NoError(t, err)
		return s
	}
	none := []found{{err: discover.ErrNoMatch}}
	good := message("o-1", "")
	var all []sample
	for i := range 9 {
		all = append(all, message(fmt.Sprint("o-", i), "!"))
	}
	all = append(all, good)
	now, kept, err := r.dropForged(t.Context(), found{samples: all}, none, none, all[9:])
	require.NoError(t, err)
	require.True(t, allFit(now), "nine forgeries do not hide a genuine message")
	require.Len(t, kept, 1)
	require.Contains(t, newest(all)[maxSamples-1].Name, "o-1", "the newest are searched")

	d.options.Effort = 0.0001
	now, kept, err = r.dropForged(t.Context(), found{samples: []sample{good, all[0]}}, none, now, all[:1])
	require.NoError(t, err)
	require.True(t, allFit(now), "a forgery does not refute it")
	require.Len(t, kept, 1)

	foreign := all[0]
	foreign.Message.Kind, foreign.Signature = paymentsvc.KindRequest, strings.Repeat("00", 32)
	mixed := []sample{foreign, good}
	for _, known := range [][]found{nil, now} {
		more, kept, err := r.dropForged(t.Context(), found{samples: mixed}, none, known, mixed)
		require.NoError(t, err)
		require.True(t, allFit(more), "nor does a forgery of the other kind hide it")
		require.Len(t, kept, 1)
	}

	d.options.Effort = 0
	second := message("o-2", "")
	now, kept, err = r.dropForged(t.Context(), found{samples: []sample{good, all[0], second}}, none, now,
		[]sample{all[0], second})
	require.NoError(t, err)
	require.True(t, allFit(now), "a forgery does not hide the message that confirms it")
	require.Len(t, kept, 2)
	scan := second.captured
	scan.Header = http.Header{"Timestamp": {"1"}, "Signature": {"scan"}}
	require.Len(t, r.samplesOf([]capture.Message{scan, second.captured}, nil), 1, "nor does an invalid message")
}

func TestDiscoverListenExitCodes(t *testing.T) {
	fits, none := []found{{samples: []sample{{}}}}, []found{{err: discover.ErrNoMatch}}
	fits[0].result.Matches = []discover.Match{{Text: "hex(body)"}}
	timeout, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), &cli.ExitError{Code: cli.ExitTimeout})
	defer cancel()
	signal, interrupt := context.WithCancelCause(t.Context())
	interrupt(cli.Interrupted())
	for name, tt := range map[string]struct {
		ctx     context.Context
		results []found
		code    int
	}{
		"-timeout, and none came":            {timeout, nil, cli.ExitTimeout},
		"-timeout, and nothing fits":         {timeout, none, cli.ExitNo},
		"-timeout before -count, and a find": {timeout, fits, cli.ExitTimeout},
		"a signal, and none came":            {signal, nil, cli.ExitInterrupt},
		"a signal, and nothing fits so far":  {signal, none, cli.ExitInterrupt},
		"a signal, and a find":               {signal, fits, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&catcher{discovery: &discovery{Call: callOf(t)}}).end(tt.ctx, tt.results)
			exit, _ := errors.AsType[*cli.ExitError](err)
			if tt.code == 0 {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tt.code, exit.Code)
		})
	}
}

func TestDiscoverProxyPassesOnAndFinds(t *testing.T) {
	const scheme = `hex(timestamp "\n" path "\n" body)`
	body := "{\"partner_id\" : 17, \"amount\":1.0, \"user_data\":\"a\\/b\"}\n"
	refuse := true
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		assert.Equal(t, body, string(data))
		assert.Equal(t, "/v1/a%2Fb?q=%zz;1", r.RequestURI)
		assert.NotEqual(t, "pay.example.com", r.Host)
		assert.Equal(t, []string{"1", "2"}, r.Header["X-Twice"])
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(map[bool]int{true: http.StatusForbidden, false: http.StatusCreated}[refuse])
	}))
	defer service.Close()
	c := newDesk(t)
	s := c.listens(t.Context(), "-proxy", "-addr", "127.0.0.1:0", "-to", service.URL, "-save", "captured", "-timeout",
		"1m")
	text := signedText(t, scheme, "/v1/a%2Fb?q=%zz;1", body+"\n")
	text = strings.Replace(text, "timestamp", "X-Twice: 1\nX-Twice: 2\ntimestamp", 1)
	require.Equal(t, http.StatusForbidden, post(t, s.address, text))
	refuse = false
	require.Equal(t, http.StatusCreated, post(t, s.address, text))
	require.Zero(t, s.end())
	require.Contains(t, s.stdout.String(), `"type":"found"`)
	require.Contains(t, s.stderr.String(), "HTTP 403, so the request is not a sample")
	files, err := os.ReadDir(filepath.Join(c.dir, "captured"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	m, err := capture.Read([]byte(c.read("captured/0001.http")), "a", capture.Options{})
	require.NoError(t, err)
	require.Equal(t, body, string(m.Body))
	require.Equal(t, service.URL, m.URL.Scheme+"://"+m.URL.Host)
}

func TestDiscoverProxyAnswersThoughItCannotSave(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	text := signedText(t, `hex(body)`, "/v1/a", discoverRequest)
	s := deskWith(t, map[string]string{"file": ""}).listens(t.Context(), "-proxy", "-addr", "127.0.0.1:0", "-to",
		service.URL, "-save", "file")
	require.Equal(t, http.StatusOK, post(t, s.address, text), "its payment was started")
	require.Equal(t, cli.ExitMachine, s.end())

	service.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	s = newDesk(t).listens(ctx, "-proxy", "-addr", "127.0.0.1:0", "-to", service.URL)
	require.Equal(t, http.StatusBadGateway, post(t, s.address, text))
	cancel(cli.Interrupted())
	require.Equal(t, cli.ExitInterrupt, s.end())
}

func TestDiscoverAndVerifyReadCompressedBodies(t *testing.T) {
	const plain = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50,"destination":"79990000000"}`
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(plain))
	require.NoError(t, w.Close())
	for signed, form := range map[string]string{plain: "decompressed", zipped.String(): "received, compressed"} {
		d := newDesk(t)
		head := fmt.Sprintf("POST /hook HTTP/1.1\r\nContent-Encoding: gzip\r\nTimestamp: 1700000000\r\nSignature: "+
			"%s\r\nContent-Length: %d\r\n\r\n",
			signatureOf(t, testScheme, testKey, signed, "1700000000"), zipped.Len())
		d.write("m.http", head+zipped.String())
		require.Zero(t, d.run("discover", "m.http", "-effort", "0.02"), "%s", &d.stderr)
		require.Contains(t, d.stdout.String(), "found  "+testScheme)
		require.Contains(t, d.stdout.String(), "body   the scheme fits the "+form+" body")
		c := &catcher{discovery: &discovery{Call: callOf(t)}}
		c.options.Secret = testKey
		m, err := capture.Read([]byte(head+zipped.String()), "m", capture.Options{})
		require.NoError(t, err)
		s, err := c.sample(m)
		require.NoError(t, err)
		fits := found{body: form, result: discover.Result{Matches: []discover.Match{{Text: testScheme}}}}
		require.True(t, c.explainedBy(fits, s), "it is no forgery")
		require.Zero(t, d.run("discover", "-scheme", testScheme, "m.http"), "%s", &d.stdout)
		require.NotContains(t, d.stdout.String(), "79990000000")
		require.NotContains(t, d.stdout.String(), `\x1f`)
		code := d.run("verify", "m.http")
		if signed == plain {
			require.Zero(t, code, "%s", &d.stdout)
			require.Contains(t, d.stdout.String(), ", over the decompressed body")
			continue
		}
		require.Contains(t, d.stdout.String(), "the signature covers the received, compressed body")
	}
}
