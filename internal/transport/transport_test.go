package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTraceEndsTheAttemptBeforeTheProof(t *testing.T) {
	var trace attemptTrace
	trace.body.open([]byte("{}"), false)
	hooks := httptrace.ContextClientTrace(trace.watch(t.Context()))
	hooks.GetConn("service")
	// A connection that comes at the last moment, as the attempt ends, must count.
	trace.end = func() { hooks.GotConn(httptrace.GotConnInfo{}) }
	assert.False(t, trace.notSent())
}

func TestUnquotedHidesQuotedText(t *testing.T) {
	for text, want := range map[string]string{
		`malformed HTTP response "4111 1111"`:  `malformed HTTP response "…"`,
		`got ["41" "11"] here`:                 `got ["…" "…"] here`,
		`an escaped quote "41\"11" inside`:     `an escaped quote "…" inside`,
		`an escaped backslash "41\\" and "11"`: `an escaped backslash "…" and "…"`,
		`a quote that never ends "4111`:        `a quote that never ends "…"`,
		`ends in a backslash "41\`:             `ends in a backslash "…"`,
		"connection refused":                   "connection refused",
	} {
		assert.Equal(t, want, unquoted(text))
	}
}

func TestFailureShowsKnownTextsOnly(t *testing.T) {
	const unknown = "*errors.errorString (text hidden: it may repeat the request)"
	secret := errors.New("4111111111111111")
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, test := range []struct {
		err  error
		want string
	}{
		{refused, "dial tcp: connect: connection refused"},
		{
			&net.OpError{
				Op: "read", Net: "tcp", Source: address("10.0.0.1:53412"), Addr: address("10.0.0.2:443"), Err: io.EOF,
			},
			"read tcp 10.0.0.2:443: EOF",
		},
		{&net.DNSError{
			Err: "read udp 10.0.0.1:41234->10.0.0.2:53: i/o timeout", Name: "pay.example.com", Server: "10.0.0.2:53",
		},
			"lookup pay.example.com on 10.0.0.2:53: read udp 10.0.0.2:53: i/o timeout"},
		{&net.DNSError{Err: "read udp [::1]:41234->[::1]:53: i/o timeout", Name: "pay.example.com"},
			"lookup pay.example.com: read udp [::1]:53: i/o timeout"},
		{
			fmt.Errorf("%w: %w", context.DeadlineExceeded, refused),
			"context deadline exceeded: dial tcp: connect: connection refused",
		},
		{fmt.Errorf("4111111111111111: %w", io.EOF), "EOF"},
		{errors.New(`malformed HTTP response "4111"`), `malformed HTTP response "…"`},
		{textproto.ProtocolError("malformed MIME header line: 4111"), "malformed header in the response"},
		{
			&net.DNSError{Err: "no such host", Name: "pay.example.com", IsNotFound: true},
			"lookup pay.example.com: no such host",
		},
		{&net.DNSError{Err: "no such host", Name: "a\n\x1b[2J"}, "lookup a??[2J: no such host"},
		{secret, unknown},
		{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: secret}, "proxyconnect tcp: " + unknown},
		{errors.Join(io.EOF, secret), "EOF: " + unknown},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: new(x509.Certificate), Host: "a"}},
			"tls: failed to verify certificate: the certificate is not valid for a"},
		{ownError("4111111111111111"), "transport.ownError (text hidden: it may repeat the request)"},
		{&wrapper{"4111"}, "*transport.wrapper (text hidden: it may repeat the request)"},
		{&joiner{ownError: "4111"}, "*transport.joiner (text hidden: it may repeat the request)"},
		{&joiner{ownError: "4111", errs: []error{nil, io.EOF}}, "EOF"},
	} {
		f := &failure{test.err}
		assert.Equal(t, test.want, f.Error())
		assert.ErrorIs(t, f, test.err)
	}
}

func address(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }

// ownError is an error type of a RoundTripper.
type ownError string

func (e ownError) Error() string { return string(e) }

// wrapper and joiner may wrap no error.
type wrapper struct{ ownError }

func (*wrapper) Unwrap() error { return nil }

type joiner struct {
	ownError
	errs []error
}

func (j *joiner) Unwrap() []error { return j.errs }

func TestBackOffNeverOverflows(t *testing.T) {
	for _, p := range []Retry{
		{BaseDelay: math.MaxInt64, MaxDelay: math.MaxInt64},
		{BaseDelay: math.MaxInt64 / 3, MaxDelay: math.MaxInt64},
		{BaseDelay: 1, MaxDelay: math.MaxInt64},
		{BaseDelay: 1, MaxDelay: 1},
		{BaseDelay: time.Hour, MaxDelay: time.Second},
	} {
		for n := range 200 {
			delay := p.backOff(n + 1)
			assert.Positive(t, delay)
			assert.LessOrEqual(t, delay, p.MaxDelay)
		}
	}
}

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"1": time.Second, "3600": time.Hour, "4294967295": math.MaxUint32 * time.Second,
		"4294967296": math.MaxUint32 * time.Second, "18446744073709551616": math.MaxUint32 * time.Second,
		"Fri, 02 Jan 2026 03:04:06 GMT": time.Second, "Fri, 31 Dec 9999 23:59:59 GMT": math.MaxInt64,
	} {
		delay, asked := RetryAfter(http.Header{"Retry-After": {value}}, at)
		assert.True(t, asked, value)
		assert.Equal(t, want, delay, value)
	}
	for _, value := range []string{
		"0", "-1", "soon", "", "1.5", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 02 Jan 2026 03:04:05 GMT",
	} {
		_, asked := RetryAfter(http.Header{"Retry-After": {value}}, at)
		assert.False(t, asked, value)
	}
	h := http.Header{"Retry-After": {at.Add(time.Hour).Format(http.TimeFormat)}}
	_, asked := RetryAfter(h, time.Time{})
	assert.False(t, asked, "a date without a clock")
	h.Set("Date", at.Add(time.Minute).Format(http.TimeFormat))
	delay, asked := RetryAfter(h, at)
	assert.True(t, asked)
	assert.Equal(t, 59*time.Minute, delay, "by the service's clock")
}

func TestReadBodyReportsAnErrorBehindTheLimit(t *testing.T) {
	c := New(Config{MaxResponseBytes: 4})
	for _, test := range []struct {
		body io.Reader
		want string
		err  error
	}{
		{io.MultiReader(strings.NewReader("1234")), "1234", nil},
		{io.MultiReader(strings.NewReader("1234"), strings.NewReader("5")), "1234", ErrTooLarge},
		{io.MultiReader(strings.NewReader("1234"), broken{}), "1234", io.ErrUnexpectedEOF},
		{io.MultiReader(strings.NewReader("12"), broken{}), "12", io.ErrUnexpectedEOF},
	} {
		body, err := c.readBody(&http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(test.body), ContentLength: -1,
		})
		assert.Equal(t, test.want, string(body))
		assert.ErrorIs(t, err, test.err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
