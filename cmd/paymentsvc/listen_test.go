package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// deliver posts a body with a signature, which is correct if the key is correct.
func deliver(t *testing.T, address, body, key string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = http.Header{
		"Timestamp": {"1700000000"}, "Signature": {signatureOf(t, testScheme, "no key", body, "1700000000")},
		"X-Twice": {"a", "b"}, "Te": {"x"}, "Proxy-Authorization": {"1"}, "X-Forwarded-For": {"192.0.2.1"},
		"Content-Type": {"application/json"}, "User-Agent": {""},
	}
	if key != "" {
		req.Header.Set("Signature", signatureOf(t, testScheme, testKey, body, "1700000000"))
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestListenForwardsEveryByte(t *testing.T) {
	bodies := []string{
		testBody, testBody + "\n", "\xef\xbb\xbf" + testBody,
		`{ "event" : "x\/\u00e9", "amount":1.0, "a":1, "a":2 }`, "\x00\xff", strings.Repeat("x", 1<<20),
	}
	var got []*http.Request
	var gotBodies []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, gotBodies = append(got, r), append(gotBodies, string(body))
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "card 4111111111111111\n\x1b[2J")
	}))
	defer receiver.Close()
	d := newDesk(t)
	address, wait := d.serve(t.Context(), "listen", "-addr", "127.0.0.1:0", "-forward", receiver.URL, "-host",
		"shop.example",
		"-count", "6", "-v", "-save", "failed", "-forward-timeout", "0")
	for i, body := range bodies {
		resp := deliver(t, address+"/hook?a=%2F", body, testKey)
		answer, _ := io.ReadAll(resp.Body)
		assert.Equal(t, http.StatusTeapot, resp.StatusCode)
		assert.Equal(t, "card 4111111111111111\n\x1b[2J", string(answer), "the response is forwarded unchanged")
		assert.Equal(t, "yes", resp.Header.Get("X-Answer"))
		assert.Equal(t, body, gotBodies[i])
		assert.Equal(t, "/hook?a=%2F", got[i].RequestURI)
		assert.Equal(t, "shop.example", got[i].Host)
		header := got[i].Header.Clone()
		for _, name := range []string{"Signature", "Content-Length"} {
			header.Del(name)
		}
		assert.Equal(t, http.Header{
			"Timestamp": {"1700000000"}, "X-Twice": {"a", "b"}, "Content-Type": {"application/json"}, "Connection": {"close"},
			"X-Forwarded-For": {"192.0.2.1"},
		}, header)
	}
	assert.Equal(t, cli.ExitNo, wait(), "418 is not accepted")
	assert.Contains(t, d.stdout.String(),
		"22:13:20 #1 --> payment.status_changed SUCCESS 10.50 o-1  valid\n22:13:20 #1 <-- 418 in ")
	assert.Contains(t, d.stdout.String(), "; saved failed/0001.http\n       card <card number>\n       \\x1b[2J\n")
	assert.Contains(t, d.stdout.String(), "       6 received, 2 valid, 6 forwarded, 6 failed\n")
	for i, body := range bodies {
		m, err := capture.Read([]byte(d.read("failed/000"+string(rune('1'+i))+".http")), "saved", capture.Options{})
		require.NoError(t, err)
		assert.Equal(t, body, string(m.Body))
		assert.Equal(t, []string{"a", "b"}, m.Header["X-Twice"])
	}
}

func TestListenForwardsNoForgery(t *testing.T) {
	for _, test := range []struct {
		name, flags string
		forwarded   int
		statuses    []int
		code        int
	}{
		{"verified first", "", 1, []int{401, 201}, cli.ExitNo},
		{"all", "-forward-all", 2, []int{201, 201}, cli.ExitNo},
		{"only the genuine one counts", "-count 1", 0, []int{401, 503}, cli.ExitNo},
	} {
		forwarded := 0
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			forwarded++
			assert.Equal(t, "/to", r.URL.Path, "the path of -forward wins")
			w.WriteHeader(http.StatusCreated)
		}))
		d := newDesk(t)
		args := append([]string{"listen", "-addr", "localhost:0", "-forward", receiver.URL + "/to?token=hidden", "-json"},
			strings.Fields(test.flags)...)
		if !strings.Contains(test.flags, "-count") {
			args = append(args, "-count", "2")
		}
		address, wait := d.serve(t.Context(), args...)
		resp, err := http.Get(address) //nolint:gosec // the address of this test
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, "a GET is not counted")
		assert.Equal(t, test.statuses[0], deliver(t, address, testBody, "").StatusCode, test.name)
		if test.statuses[1] != 503 { // this request may also find the port closed
			assert.Equal(t, test.statuses[1], deliver(t, address, testBody, testKey).StatusCode, test.name)
		}
		assert.Equal(t, test.code, wait(), test.name)
		receiver.Close()
		assert.Equal(t, test.forwarded, forwarded, test.name)
		assert.Equal(t, "signature_mismatch", d.object("received")["reason"])
		assert.EqualValues(t, test.statuses[0], d.object("answered")["status"])
		assert.NotContains(t, d.stdout.String(), "hidden")
	}
}

func TestListenAnswersItselfWithoutForward(t *testing.T) {
	d := newDesk(t)
	d.write("taken", "")
	for _, test := range []struct {
		body, key, flag string
		status, code    int
	}{
		{testBody, testKey, "-forward=", 503, 0},
		{testBody, testKey, "-answer=204", 204, 0},
		{testBody, "", "-answer=204", 401, cli.ExitNo},
		{`{}`, testKey, "-v", 400, cli.ExitNo},
		{"", testKey, "-v", 400, cli.ExitNo},
		{strings.Repeat("x", 1<<20+1), testKey, "-v", 413, cli.ExitNo},
	} {
		address, wait := d.serve(t.Context(), "listen", "-addr=127.0.0.1:0", "-count=1", "-timeout", "1h", test.flag)
		assert.Equal(t, test.status, deliver(t, address, test.body, test.key).StatusCode)
		assert.Equal(t, test.code, wait(), d.stdout.String())
	}
	d.run("listen", "-addr=127.0.0.1:0", "-timeout=1ms")
	assert.Contains(t, d.stdout.String(), ", responds with 503, does not forward\n")
	assert.Equal(t, cli.ExitMachine, d.run("listen", "-save", "taken"))
	address, wait := d.serve(t.Context(), "listen", "-addr=127.0.0.1:0", "-count=1", "-save", "s")
	d.isPrivate("s", 0o700)
	require.NoError(t, os.Remove(filepath.Join(d.dir, "s")))
	d.write("s", "a file now")
	assert.Equal(t, 401, deliver(t, address, testBody, "").StatusCode)
	assert.Equal(t, cli.ExitMachine, wait(), "the message is lost")
	for args, want := range map[string]string{
		"-answer 200 -forward http://127.0.0.1:1": "-answer: not allowed with -forward",
		"-forward-timeuot 1s":                     `no flag -forward-timeuot; did you mean "-forward-timeout"?`,
	} {
		d.rejects(want, append([]string{"listen"}, strings.Fields(args)...)...)
	}
}

func TestListenAnswersForAReceiverThatDoesNot(t *testing.T) {
	gone, hangs := silent(t)
	for address, want := range map[string]struct {
		status int
		said   string
	}{
		hangs.URL: {http.StatusGatewayTimeout, "504: no response in time"},
		gone.URL:  {http.StatusBadGateway, strings.TrimPrefix(gone.URL, "http://") + " refused the connection"},
	} {
		d := newDesk(t)
		listening, wait := d.serve(t.Context(), "listen", "-addr", "127.0.0.1:0", "-count", "1", "-forward", address,
			"-forward-timeout", "100ms", "-save", "s")
		assert.Equal(t, want.status, deliver(t, listening, testBody, testKey).StatusCode)
		assert.Equal(t, cli.ExitNo, wait())
		assert.Contains(t, d.stdout.String(), want.said)
		assert.FileExists(t, filepath.Join(d.dir, "s", "0001.http"))
	}
}

// gone is the response to a client that has disconnected.
type gone struct{ *httptest.ResponseRecorder }

func (gone) CloseNotify() <-chan bool {
	c := make(chan bool, 1)
	c <- true
	return c
}

type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, r.Context().Err()
}

func TestForwardContinuesWithoutTheClient(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := &forwarder{transport: slow{}, to: &url.URL{Scheme: "http", Host: "a"}, timeout: timeout}
			ctx, leave := context.WithCancel(t.Context())
			leave()
			left := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
			a := f.forward(gone{httptest.NewRecorder()}, left, nil)
			assert.True(t, a.Forwarded, a.Error)
		})
	}
}

func TestListenSavesWhatWasAnnounced(t *testing.T) {
	d := newDesk(t)
	address, wait := d.serve(t.Context(), "listen", "-addr=127.0.0.1:0", "-count=1", "-save=s")
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn,
		"POST / HTTP/1.1\r\nHost: a\r\nTimestamp: 1\r\nSignature: 1\r\nContent-Length: 9\r\n\r\n{}")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.Equal(t, cli.ExitNo, wait())
	d.rejects("Content-Length is 9, but the body in the file has 2 bytes", "verify", "s/0001.http")
}

func TestForwardRecordsWhatAClientDidNotTake(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 32<<20)) // more than a socket can buffer
	}))
	defer receiver.Close()
	leave := func(address, text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1)) // the response has begun
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	d := newDesk(t)
	address, wait := d.serve(t.Context(), "listen", "-addr", "127.0.0.1:0", "-count", "1", "-forward", receiver.URL,
		"-timeout", "1m")
	text := strings.Replace(signed(t, testBody, "1700000000"), "\r\n\r\n", "\r\nContent-Length: 125\r\n\r\n", 1)
	leave(address, text)
	assert.Zero(t, wait(), d.stderr.String())
	assert.Contains(t, d.stdout.String(), "#1 <-- 200 in ")

	s := newDesk(t).listens(t.Context(), "-proxy", "-addr", "127.0.0.1:0", "-to", receiver.URL, "-count", "1", "-timeout",
		"1m")
	text = strings.Replace(signedText(t, "hex(body)", "/", discoverRequest), "\n\n", "\nContent-Length: 70\n\n", 1)
	leave(s.address, text)
	assert.Zero(t, s.end(), &s.stdout)
}

func TestListenEnds(t *testing.T) {
	d := newDesk(t)
	_, wait := d.serve(t.Context(), "listen", "-addr", "127.0.0.1:0", "-timeout", "1ms", "-json")
	assert.Equal(t, cli.ExitTimeout, wait(), "none came")
	assert.Contains(t, d.stderr.String(), `"code":"timeout"`)

	ctx, stop := context.WithCancelCause(t.Context())
	var address string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() == nil { // the first message
			assert.Equal(t, http.StatusServiceUnavailable, deliver(t, address, testBody, testKey).StatusCode, "-count reached")
			stop(cli.Interrupted()) // while the message is in flight
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	address, wait = d.serve(ctx, "listen", "-addr", "127.0.0.1:0", "-forward", receiver.URL, "-json", "-count", "1")
	assert.Equal(t, http.StatusNoContent, deliver(t, address, testBody, testKey).StatusCode, "nothing is cut off")
	assert.Zero(t, wait(), "stopped on request")
	summary, err := json.Marshal(d.object("summary"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"summary","v":1,"received":1,"valid":1,"forwarded":1,"failed":0}`, string(summary))

	_, wait = d.serve(ctx, "listen", "-addr", "127.0.0.1:0", "-count", "1")
	assert.Equal(t, cli.ExitInterrupt, wait(), "before a response")
}
