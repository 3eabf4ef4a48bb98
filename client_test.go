package paymentsvc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestNewClientNamesInvalidField(t *testing.T) {
	for _, test := range []struct {
		name, field string
		change      func(*paymentsvc.Config)
	}{
		{"no partner", "PartnerID", func(c *paymentsvc.Config) { c.PartnerID = 0 }},
		{"no project", "ProjectID", func(c *paymentsvc.Config) { c.ProjectID = 0 }},
		{"no signer", "Signer", func(c *paymentsvc.Config) { c.Signer = nil }},
		{"a nil *HMACSigner", "Signer", func(c *paymentsvc.Config) { c.Signer = (*paymentsvc.HMACSigner)(nil) }},
		{"a nil SignerFunc", "Signer", func(c *paymentsvc.Config) { c.Signer = paymentsvc.SignerFunc(nil) }},
		{"a nil *http.Transport", "HTTPClient.Transport", func(c *paymentsvc.Config) {
			c.HTTPClient = &http.Client{Transport: (*http.Transport)(nil)}
		}},
		{"a Timeout without a unit", "Timeout", func(c *paymentsvc.Config) { c.Timeout = 5 }},
		{"a Timeout below a millisecond", "Timeout", func(c *paymentsvc.Config) { c.Timeout = time.Millisecond - 1 }},
		{"a BaseDelay without a unit", "Retry.BaseDelay", func(c *paymentsvc.Config) { c.Retry.BaseDelay = 200 }},
		{"a MaxDelay without a unit", "Retry.MaxDelay", func(c *paymentsvc.Config) { c.Retry.MaxDelay = 5 }},
		{"a negative Timeout", "Timeout", func(c *paymentsvc.Config) { c.Timeout = -1 }},
		{"a negative MaxAttempts", "Retry.MaxAttempts", func(c *paymentsvc.Config) { c.Retry.MaxAttempts = -1 }},
		{"a negative BaseDelay", "Retry.BaseDelay", func(c *paymentsvc.Config) { c.Retry.BaseDelay = -1 }},
		{"a negative MaxDelay", "Retry.MaxDelay", func(c *paymentsvc.Config) { c.Retry.MaxDelay = -1 }},
		{"a negative MaxResponseBytes", "MaxResponseBytes", func(c *paymentsvc.Config) { c.MaxResponseBytes = -1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			invalidConfig(t, test.field, test.change)
		})
	}
}

// invalidConfig asserts that NewClient rejects the changed Config. The error names the field.
func invalidConfig(t *testing.T, field string, change func(*paymentsvc.Config)) {
	t.Helper()
	cfg := testConfig(t, "https://pay.example.com/api")
	change(&cfg)
	c, err := paymentsvc.NewClient(cfg)
	assert.Nil(t, c)
	require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, "%q %q", cfg.BaseURL, cfg.UserAgent)
	assert.Contains(t, err.Error(), field+":")
	assert.NotRegexp(t, "example|canary", err.Error(), "the error omits the address, which may have a password")
}

func baseURL(base string, plain bool) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.BaseURL, cfg.AllowPlainHTTP = base, plain }
}

func TestNewClientAcceptsAbsoluteBaseURLs(t *testing.T) {
	for _, base := range []string{
		"https://pay.example.com", "https://pay.example.com/", "https://pay.example.com:8443/a/b//",
		"HTTPS://pay.example.com",
		"http://127.0.0.1:8080", "http://localhost", "http://[::1]:1", "http://127.9.9.9/x",
	} {
		newClient(t, base, func(cfg *paymentsvc.Config) { cfg.PartnerID = -1 })
	}
}

func TestNewClientRejectsInvalidBaseURLs(t *testing.T) {
	for _, base := range []string{
		"", "/api", "pay.example.com/api", "//pay.example.com", "https://", "https:///pay.example.com", "https:///api",
		"https://:443",
		"https:/pay.example.com", "https:pay.example.com", "HTTPS:pay.example.com", "ftp://pay.example.com",
		"file:///etc/passwd",
		"unix:///run/pay.sock", "javascript://pay.example.com/%0aalert(1)",
		"https://u:canary@pay.example.com", "https://u:canary/x@pay.example.com",
		"https://pay.example.com@evil.example",
		"https://pay.example.com:443@evil.example/", "https://:@evil.example", "https://@evil.example",
		`https://pay.example.com\@evil.example`, `https://evil.example\.pay.example.com`, `https:\\evil.example`,
		"https://pay.example.com/api?a=1", "https://pay.example.com/api?", "https://pay.example.com?@evil.example",
		"https://pay.example.com/#a", "https://pay.example.com/#", "https://pay.example.com#@evil.example",
		"https://pay.example.com/\n", "https://pay.example.com/\r\n", "https://pay.example.com" + injected,
		"https://pay.example.com/\x00",
		"https://pay.example.com/\x7f", "https://a%0d%0ab.example", "https://a%00.example", "https://a b.example",
		"https://\tpay.example.com", " https://pay.example.com", "https://pay.example.com ",
		"https://pay.example.com:-1", "https://pay.example.com:a",
		"https://[::1", "https://::1]/", "https://[::1]a", "https://[fe80::1%25%0d%0aa]", "https://[fe80::1%25 a]",
	} {
		invalidConfig(t, "BaseURL", baseURL(base, false))
		invalidConfig(t, "BaseURL", baseURL(base, true))
	}
}

func TestNewClientRejectsPlainHTTPBeyondLoopback(t *testing.T) {
	for _, base := range []string{
		"http://pay.example.com", "http://localhost.", "http://localhost.example.com", "http://localhost.localdomain",
		"http://127.1",
		"http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.0.0.1.example.com",
		"http://127.0.0.1。example.com",
		"http://ⓛocalhost", "http://loc\u0430lhost", "http://0.0.0.0", "http://[::]", "http://[::ffff:10.0.0.1]",
		"http://[fe80::1%25lo]",
		"http://10.0.0.1", "http://[::2]", "http://128.0.0.1",
	} {
		invalidConfig(t, "BaseURL", baseURL(base, false))
		newClient(t, base, baseURL(base, true))
	}
}

// Every path is sent escaped, as one target in one line.
func TestClientSendsBelowBasePath(t *testing.T) {
	for path, want := range map[string]string{
		"":                       "",
		"/":                      "",
		"/api":                   "/api",
		"/api/v1//":              "/api/v1",
		"/a%2Fb":                 "/a%2Fb",
		"/with%20space":          "/with%20space",
		"/%0d%0aX-Injected:%201": "/%0d%0aX-Injected:%201",
		"/a b":                   "/a%20b",
		`/\evil.example`:         "/%5Cevil.example",
		"//evil.example":         "//evil.example",
		"/@evil.example":         "/@evil.example",
		"/ü\u2028":               "/%C3%BC%E2%80%A8",
		"/%2e%2e/":               "/%2e%2e",
		"/HTTP/1.1":              "/HTTP/1.1",
	} {
		w := newTap(t)
		_, err := pay(t.Context(), newClient(t, "http://"+w.Addr().String()+path))
		require.NoError(t, err, path)
		line, names := w.head(t)
		assert.Equal(t, "POST "+want+"/init_payment/card HTTP/1.1", line)
		assert.Equal(t, usualHeaders, names)
		assert.Contains(t, w.received(), "\r\nHost: "+w.Addr().String()+"\r\n")
	}
}

func TestClientSendsUserAgent(t *testing.T) {
	for given, want := range map[string]string{
		"": "paymentsvc-go/" + paymentsvc.InterfaceVersion, "shop/2": "shop/2", "shop/2 (a; b)": "shop/2 (a; b)",
		"Straße\t1":    "Straße\t1",
		"\u560a\u560d": "\u560a\u560d", "a: b": "a: b",
	} {
		w := newTap(t)
		_, err := pay(t.Context(), newClient(t, w.base(), func(cfg *paymentsvc.Config) { cfg.UserAgent = given }))
		require.NoError(t, err)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders, names, "%q", given)
		assert.Contains(t, w.received(), "\r\nUser-Agent: "+want+"\r\n")
	}
	for _, agent := range []string{
		"a" + injected, "\n", "\r", "a\r", "a\x00b", "\x7f", "\x1b[2J", "a\n b", "a\v", "a\f",
	} {
		invalidConfig(t, "UserAgent", func(cfg *paymentsvc.Config) { cfg.UserAgent = agent })
	}
}

func TestClientDoesNotChangeHTTPClient(t *testing.T) {
	transport := &http.Transport{}
	given := http.Client{Transport: transport, Timeout: time.Minute}
	copied := given
	c := newClient(t, "https://pay.example.com", func(cfg *paymentsvc.Config) { cfg.HTTPClient = &given })
	assert.Equal(t, copied, given)
	assert.Nil(t, transport.TLSNextProto, "NewClient does not initialize the transport")
	assert.NotNil(t, c)
}

func TestClientRunsCallersTrace(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	got := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got = true },
	})
	_, err := pay(ctx, newClient(t, s.base()))
	require.NoError(t, err)
	assert.True(t, got)
}

func TestForProjectSharesConnections(t *testing.T) {
	conns := map[string]bool{}
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		bodies = append(bodies, string(body)+r.Header.Get("Signature"))
		_, _ = io.WriteString(w, balanceAnswer)
	}))
	defer server.Close()
	signed := func(as string) paymentsvc.Signer {
		return paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
			r.Header.Set("Signature", as)
			return nil
		})
	}
	first := newClient(t, server.URL, signedBy(signed("first")))
	second, err := first.ForProject(33, signed("second"))
	require.NoError(t, err)
	for _, c := range []*paymentsvc.Client{first, second, first} {
		_, err := c.GetBalance(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, []string{
		`{"partner_id":11,"project_id":22}first`,
		`{"partner_id":11,"project_id":33}second`,
		`{"partner_id":11,"project_id":22}first`,
	}, bodies)
	assert.Len(t, conns, 1)
}

func TestForProjectNamesInvalidArgument(t *testing.T) {
	c := newClient(t, "https://pay.example.com")
	for name, make := range map[string]func() (*paymentsvc.Client, error){
		"projectID": func() (*paymentsvc.Client, error) { return c.ForProject(0, testSigner(t)) },
		"signer":    func() (*paymentsvc.Client, error) { return c.ForProject(1, nil) },
		"Client":    func() (*paymentsvc.Client, error) { return new(paymentsvc.Client).ForProject(1, testSigner(t)) },
	} {
		other, err := make()
		assert.Nil(t, other)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		assert.Contains(t, err.Error(), name)
	}
}

// usualHeaders are the header names of every request.
var usualHeaders = []string{
	"Accept-Encoding", "Content-Length", "Content-Type", "Host", "Signature", "Timestamp", "User-Agent",
}

const injected = "\r\nX-Injected: 1"

// Identifiers are sent only in the body, where JSON escapes line breaks.
func TestClientSendsIdentifiersOnlyInBody(t *testing.T) {
	for _, id := range []string{
		"a" + injected, "\r\n\r\nPOST / HTTP/1.1", "../../x", "\x00", "\u2028", `"},"amount":1,"x":{"`,
	} {
		for name, call := range map[string]func(*paymentsvc.Client) error{
			"user_data of a payment": func(c *paymentsvc.Client) error {
				_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard,
					paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: id})
				return err
			},
			"destination of a payout": func(c *paymentsvc.Client) error {
				_, err := c.InitPayout(t.Context(),
					paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: id, Destination: id})
				return err
			},
			"order_id of a status call": func(c *paymentsvc.Client) error {
				_, err := c.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: id})
				return err
			},
		} {
			w := newTap(t)
			require.NoError(t, call(newClient(t, w.base())), name)
			_, names := w.head(t)
			assert.Equal(t, usualHeaders, names, name)
			_, body, _ := strings.Cut(w.received(), "\r\n\r\n")
			assert.NotContains(t, body, "\n", name)
			assert.Equal(t, 1, strings.Count(body, `"partner_id":`), name)
		}
	}
}

func TestClientRejectsInjectedHeaders(t *testing.T) {
	set := func(name, value string) paymentsvc.Signer {
		return paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
			r.Header[name] = []string{value}
			return nil
		})
	}
	encodedAs := func(signature string) paymentsvc.Signer {
		scheme := testScheme()
		scheme.Encoding = encodingFunc(func(dst, _ []byte) []byte { return append(dst, signature...) })
		return newSigner(t, scheme, testSecret)
	}
	for name, signer := range map[string]paymentsvc.Signer{
		"a header":                  encodedAs("00" + injected),
		"a line feed":               encodedAs("00\nX-Injected: 1"),
		"a return":                  encodedAs("00\rX-Injected: 1"),
		"a whole body":              encodedAs("00\r\n\r\n{}"),
		"a request":                 encodedAs("00\r\nContent-Length: 0\r\n\r\nPOST /init_payout HTTP/1.1\r\nHost: a"),
		"a zero byte":               encodedAs("00\x00"),
		"a delete":                  encodedAs("\x7f"),
		"an escape":                 encodedAs("\x1b[2J"),
		"a header in the Signature": set("Signature", "a"+injected),
		"a line end":                set("Timestamp", "a\n"),
		"a zero byte in a header":   set("X-Nul", "a\x00"),
		"a delete in a header":      set("X-Delete", "\x7f"),
		"a name of two words":       set("two words", "a"),
		"a header in a name":        set("X-Injected: 1\r\nX", "a"),
		"no name":                   set("", "a"),
		"a name beyond ASCII":       set("Straße", "a"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTap(t)
			c := newClient(t, w.base(), signedBy(signer))
			for _, op := range operations {
				response, err := op.call(t, c)
				e := failed(t, response, err, paymentsvc.OutcomeNotSent)
				assert.Zero(t, e.Attempts)
				assert.NotContains(t, err.Error(), "X-Injected")
			}
			assert.Empty(t, w.received())
		})
	}
	t.Run("bytes beyond ASCII stay within their line", func(t *testing.T) {
		w := newTap(t)
		// Cut to one byte, U+560D and U+560A are CR and LF.
		_, err := pay(t.Context(), newClient(t, w.base(), signedBy(encodedAs("0\u560d\u560aX-Injected: 1\x85\u2028"))))
		require.NoError(t, err)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders, names)
	})
}

// Only net/http decides where a request ends. The client ignores the signer's framing headers.
func TestClientIgnoresFramingHeadersOfSigner(t *testing.T) {
	changes := map[string]func(*http.Request){
		"fields of the request": func(r *http.Request) {
			r.TransferEncoding = []string{"chunked"}
			r.Trailer = http.Header{"X-Trailer": {"1"}}
		},
	}
	for _, name := range []string{
		"transfer-encoding", "TRANSFER-ENCODING", "content-length", "Content-length", "trailer", "host",
		"Transfer-Encoding",
	} {
		changes[name] = func(r *http.Request) { r.Header[name] = []string{"chunked"} }
	}
	for name, change := range changes {
		w := newTap(t)
		_, err := pay(t.Context(), newClient(t, w.base(), meddling(change)))
		require.NoError(t, err, name)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders, names, name)
	}

	response, err := pay(t.Context(), newClient(t, newTap(t).base(), meddling(func(r *http.Request) {
		r.Method = http.MethodGet
	})))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	require.ErrorContains(t, err, "signing: the Signer changed the method")
}

func TestClientDoesNotFollowRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the signature went to another host")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{elsewhere.URL, "/status_payment", "", "::bad::"} {
			s := newService(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{location}
				w.WriteHeader(status)
			})
			follows := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.HTTPClient = follows })
			response, err := pay(t.Context(), c)
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			if location != "::bad::" { // net/http reports it as an error
				assert.Equal(t, status, e.HTTPStatus, "the redirect is the answer")
			}
			assert.Len(t, s.received(), 1)
			assert.NoError(t, follows.CheckRedirect(nil, nil), "the caller's client is not changed")
			assert.Nil(t, follows.Transport)
		}
	}
}

func TestClientLimitsResponseSize(t *testing.T) {
	const limit = 1 << 10
	long := `{"order_id":"` + strings.Repeat("x", limit) + `"`
	limited := func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = limit }
	for name, answer := range map[string]http.HandlerFunc{
		"with a length": answering(http.StatusOK, long),
		"without a length": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, long)
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, answer)
			for _, op := range operations {
				response, err := op.call(t, newClient(t, s.base(), limited))
				e := failed(t, response, err, paymentsvc.OutcomeUnknown)
				assert.ErrorIs(t, err, paymentsvc.ErrResponseTooLarge)
				assert.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
				assert.Len(t, e.Body, limit)
				assert.Equal(t, 1, e.Attempts, "a retry would not shorten the response")
			}
		})
	}
	t.Run("a response of exactly the limit passes", func(t *testing.T) {
		s := newService(t, answering(http.StatusOK, payoutAnswer))
		for _, limit := range []int64{int64(len(payoutAnswer)), 1<<63 - 1} {
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = limit })
			_, err := c.InitPayout(t.Context(), payoutRequest())
			require.NoError(t, err)
		}
	})
	t.Run("an oversized rejection is incomplete and proves nothing", func(t *testing.T) {
		s := newService(t, answering(http.StatusBadRequest, long))
		response, err := pay(t.Context(), newClient(t, s.base(), limited))
		failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.ErrorIs(t, err, paymentsvc.ErrResponseTooLarge)
	})
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(data)
	require.NoError(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

// The test data has 16 MiB compressed to 16 KiB, and compressed again to less than 1 KiB. The client decompresses once,
// and only up to its limit.
func TestClientDecompressesOnceAndUpToLimit(t *testing.T) {
	inner := gzipped(t, make([]byte, 16<<20))
	outer := gzipped(t, inner)
	for name, test := range map[string]struct {
		encoding string
		body     []byte
		want     error
	}{
		"one":                              {"gzip", inner, paymentsvc.ErrResponseTooLarge},
		"one in another":                   {"gzip", outer, paymentsvc.ErrUnexpectedResponse},
		"a list of encodings":              {"gzip, gzip", outer, paymentsvc.ErrUnexpectedResponse},
		"an encoding that was not offered": {"br", inner, paymentsvc.ErrUnexpectedResponse},
		"no gzip data":                     {"gzip", []byte(paymentAnswer), nil},
		"half of one":                      {"gzip", inner[:len(inner)/2], paymentsvc.ErrResponseTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			base := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", test.encoding)
				_, _ = w.Write(test.body)
			}))
			response, err := pay(t.Context(), newClient(t, base))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			assert.LessOrEqual(t, len(e.Body), 1<<20)
		})
	}
}

// TestClientLimitsResponseSize covers bodies. These cases cover the other endless responses.
func TestClientLimitsResponseHeader(t *testing.T) {
	repeated := func(first, piece string) func(*net.TCPConn, *atomic.Int64) {
		return func(c *net.TCPConn, sent *atomic.Int64) {
			write(c, first)
			for chunk := strings.Repeat(piece, 1+(32<<10)/len(piece)); ; {
				n, err := io.WriteString(c, chunk)
				sent.Add(int64(n))
				if err != nil || sent.Load() > 256<<20 { // limits memory if the client never stops
					return
				}
			}
		}
	}
	long := strings.Repeat("a", 1000) // long values cost the client less than short ones
	for name, answer := range map[string]func(*net.TCPConn, *atomic.Int64){
		"a status line":      repeated("HTTP/1.1 200 O", "K"),
		"one header":         repeated("HTTP/1.1 200 OK\r\nX-Long: ", "a"),
		"many headers":       repeated("HTTP/1.1 200 OK\r\n", "X-Many: "+long+"\r\n"),
		"a continued header": repeated("HTTP/1.1 200 OK\r\nX-Folded: a\r\n", " "+long+"\r\n"),
		"100 Continue":       repeated("", "HTTP/1.1 100 Continue\r\nX-Long: "+long+"\r\n\r\n"),
		"103 Early Hints":    repeated("", "HTTP/1.1 103 Early Hints\r\nLink: </"+long+">; rel=preload\r\n\r\n"),
		"empty lines":        repeated("", "\r\n"),
		"zeros":              repeated("", "\x00"),
		"trailers of an answer": repeated(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-Many: a\r\n",
		),
		"a chunk's extension": repeated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a"),
		"chunks of one byte":  repeated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{}, 3) // room for three attempts; one is expected
			s := newRawServer(t, func(c *net.TCPConn, _ int) bool {
				answer(c, &sent)
				ended <- struct{}{}
				return false
			})
			response, err := pay(t.Context(), newClient(t, s.base()))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, 1, e.Attempts)
			assert.EqualValues(t, 1, s.taken.Load())
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			<-ended
			assert.Less(t, sent.Load(), int64(64<<20), "bytes read by the client and buffered by the network")
		})
	}
}

func TestClientClosesConnectionAfterStatus101(t *testing.T) {
	left := make(chan struct{})
	s := newRawServer(t, func(c *net.TCPConn, _ int) bool {
		write(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the client closes the connection
		close(left)
		return false
	})
	response, err := pay(t.Context(), newClient(t, s.base()))
	e := failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
	assert.Equal(t, http.StatusSwitchingProtocols, e.HTTPStatus)
	<-left
}

func TestClientTimeoutLimitsOneAttempt(t *testing.T) {
	for _, op := range operations {
		synctest.Test(t, func(t *testing.T) {
			silent, taken := stalling(t, "")
			withDefault := func(cfg *paymentsvc.Config) { cfg.Timeout = 0 } // 30 s
			c := newClient(t, "http://127.0.0.1", over(silent), withDefault)
			start := time.Now()
			response, err := op.call(t, c)
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, map[bool]int{true: 1, false: 3}[op.starts], e.Attempts)
			assert.EqualValues(t, e.Attempts, taken.Load())
			assert.GreaterOrEqual(t, time.Since(start), time.Duration(e.Attempts)*30*time.Second)
		})
	}
}

// A very slow response ends with the attempt.
func TestClientTimeoutEndsStalledResponse(t *testing.T) {
	for name, first := range map[string]string{
		"at once":             "",
		"in the status line":  "HTTP/1.1 2",
		"after a 100":         "HTTP/1.1 100 Continue\r\n\r\n",
		"in a header":         "HTTP/1.1 200 OK\r\nContent-Le",
		"between the headers": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
		"before the body":     fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(paymentAnswer)),
		"in the body": fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(paymentAnswer), paymentAnswer[:50],
		),
		"before a last chunk": fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(paymentAnswer), paymentAnswer,
		),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, taken := stalling(t, first)
				response, err := pay(t.Context(), newClient(t, "http://127.0.0.1", over(transport)))
				failed(t, response, err, paymentsvc.OutcomeUnknown)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, paymentsvc.ErrUnexpectedResponse, "a slow response has no wrong form")
				assert.EqualValues(t, 1, taken.Load())
			})
		})
	}
}

// sequence returns one response after the other, and repeats the last one.
func sequence(responses ...func() *http.Response) roundTripFunc {
	calls := 0
	return func(*http.Request) (*http.Response, error) {
		respond := responses[min(calls, len(responses)-1)]
		calls++
		return respond(), nil
	}
}

func busy(header ...string) func() *http.Response {
	return func() *http.Response {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return canned(http.StatusServiceUnavailable, h, "")
	}
}

func balanced() *http.Response { return canned(http.StatusOK, nil, balanceAnswer) }

// internal/transport tests the forms of the header.
func TestClientLimitsRetryAfterToMaxDelay(t *testing.T) {
	for value, want := range map[string]time.Duration{"3": 3 * time.Second, "3600": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var seen []paymentsvc.Attempt
			busyOnce := over(sequence(busy("Retry-After", value), balanced))
			c := newClient(t, "http://127.0.0.1", busyOnce, func(cfg *paymentsvc.Config) {
				cfg.Retry = paymentsvc.Retry{}
				cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) { seen = append(seen, a) })
			})
			_, err := c.GetBalance(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, time.Since(start))
			require.Len(t, seen, 2)
			assert.Equal(t, want, seen[0].RetryIn)
			assert.Zero(t, seen[1].RetryIn)
		})
	}
}

func TestClientBackOffDoublesWithJitterUpToMaxDelay(t *testing.T) {
	first := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var waits []time.Duration
			c := newClient(t, "http://127.0.0.1", over(sequence(busy())), func(cfg *paymentsvc.Config) {
				cfg.Retry = paymentsvc.Retry{MaxAttempts: 6, BaseDelay: time.Second, MaxDelay: 5 * time.Second}
				cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) { waits = append(waits, a.RetryIn) })
			})
			start := time.Now()
			response, err := nilOr(c.GetBalance(t.Context()))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, 6, e.Attempts)
			require.Len(t, waits, 6)
			total := time.Duration(0)
			for i, most := range []time.Duration{1, 2, 4, 5, 5} {
				assert.LessOrEqual(t, waits[i], most*time.Second)
				assert.GreaterOrEqual(t, waits[i], most*time.Second/2)
				total += waits[i]
			}
			assert.Zero(t, waits[5])
			assert.Equal(t, total, time.Since(start), "RetryIn is the wait")
			first[waits[0]] = true
		})
	}
	assert.Greater(t, len(first), 10, "jitter spreads the retries of simultaneous failures")
}

func TestClientBackOffEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "60"))), func(cfg *paymentsvc.Config) {
			cfg.Retry = paymentsvc.Retry{MaxDelay: time.Hour}
		})
		start := time.Now()
		time.AfterFunc(7*time.Second, cancel)
		response, err := nilOr(c.GetBalance(ctx))
		e := failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.Equal(t, 7*time.Second, time.Since(start))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, http.StatusServiceUnavailable, e.HTTPStatus, "the error keeps the last response")
		assert.Equal(t, 1, e.Attempts)
	})
}

func TestClientDoesNotWaitPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "3"))), func(cfg *paymentsvc.Config) {
			cfg.Retry = paymentsvc.Retry{}
		})
		start := time.Now()
		response, err := nilOr(c.GetBalance(ctx))
		e := failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, e.Attempts)
		assert.Equal(t, http.StatusServiceUnavailable, e.HTTPStatus)
	})
}

func TestClientSignsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timestamps, signatures []string
		recording := over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			timestamps = append(timestamps, r.Header.Get("Timestamp"))
			signatures = append(signatures, r.Header.Get("Signature"))
			assert.Equal(t, strconv.FormatInt(time.Now().Unix(), 10), r.Header.Get("Timestamp"))
			return busy()(), nil
		}))
		c := newClient(t, "http://127.0.0.1", recording, func(cfg *paymentsvc.Config) {
			cfg.Retry = paymentsvc.Retry{BaseDelay: 4 * time.Second}
		})
		_, err := c.GetBalance(t.Context())
		require.Error(t, err)
		require.Len(t, timestamps, 3)
		assert.NotEqual(t, timestamps[0], timestamps[1])
		assert.NotEqual(t, signatures[0], signatures[1])
		assert.NotEqual(t, signatures[1], signatures[2])
	})
}

func TestClientOnAttemptReportsEveryAttempt(t *testing.T) {
	type key struct{}
	var seen []paymentsvc.Attempt
	c := newClient(t, "http://127.0.0.1", over(sequence(busy(), func() *http.Response {
		return canned(http.StatusOK, nil, balanceAnswer[:20])
	}, balanced)), func(cfg *paymentsvc.Config) {
		cfg.OnAttempt = func(ctx context.Context, a paymentsvc.Attempt) {
			assert.Equal(t, "caller", ctx.Value(key{}))
			assert.NoError(t, ctx.Err())
			seen = append(seen, a)
		}
	})
	_, err := c.GetBalance(context.WithValue(t.Context(), key{}, "caller"))
	require.NoError(t, err)
	require.Len(t, seen, 3)
	for i, a := range seen {
		assert.Equal(t, "get_balance", a.Endpoint)
		assert.Equal(t, i+1, a.Number)
		assert.Equal(t, i < 2, a.RetryIn > 0)
		assert.Equal(t, i < 2, a.Err != nil)
		assert.Positive(t, a.Duration)
	}
	assert.Equal(t, http.StatusServiceUnavailable, seen[0].HTTPStatus)
	assert.Equal(t, http.StatusOK, seen[1].HTTPStatus)
	assert.ErrorIs(t, seen[1].Err, paymentsvc.ErrUnexpectedResponse, "half an object is not a response")
}

func TestAttemptResultReturnsOutcome(t *testing.T) {
	for want, a := range map[string]paymentsvc.Attempt{
		"success":  {},
		"not sent": {Err: io.EOF, Outcome: paymentsvc.OutcomeNotSent},
		"rejected": {Err: io.EOF, Outcome: paymentsvc.OutcomeRejected},
		"unknown":  {Err: io.EOF},
	} {
		assert.Equal(t, want, a.Result())
	}
}

// Run with -race. Each caller checks the order of its response, so a mixed-up response fails the test.
func TestClientIsSafeForConcurrentUse(t *testing.T) {
	base := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			UserData string `json:"user_data"`
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&sent))
		fmt.Fprintf(w, `{"order_id":"order of %s","status":1,"status_code":2}`, sent.UserData)
	}))
	client := newClient(t, base)
	webhook := newHook(t, withSecrets(hookOther, testSecret))
	var wg sync.WaitGroup
	for caller := range 50 {
		wg.Go(func() {
			for call := range 20 {
				userData := fmt.Sprintf("user %d, call %d", caller, call)
				started, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeSBP,
					paymentsvc.PaymentRequest{Amount: paymentsvc.AmountFromMinor(1, 2), UserData: userData})
				if assert.NoError(t, err) {
					assert.Equal(t, "order of "+userData, started.OrderID)
				}
				body := strings.Replace(hookBody, "o-1", userData, 1)
				n, err := webhook.Parse(hookHeader(hookClockShown, body), []byte(body))
				if assert.NoError(t, err) {
					assert.Equal(t, userData, n.OrderID)
				}
			}
		})
	}
	wg.Wait()
}

func TestClientDecodesErrorsReportsDecoder(t *testing.T) {
	const base = "https://pay.example.com"
	assert.False(t, newClient(t, base).DecodesErrors())
	assert.True(t, newClient(t, base, decoding(paymentsvc.ErrorFields("error_code", ""))).DecodesErrors())
	assert.False(t, (*paymentsvc.Client)(nil).DecodesErrors())
}

func TestClientCloseIdleConnectionsAcceptsNil(*testing.T) {
	(*paymentsvc.Client)(nil).CloseIdleConnections()
	new(paymentsvc.Client).CloseIdleConnections()
}
