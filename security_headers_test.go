package paymentsvc_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// tap is a server that keeps every byte which reaches it, as it came, and answers a payment.
type tap struct {
	*rawServer
	mu    sync.Mutex
	bytes bytes.Buffer
}

func newTap(t testing.TB) *tap {
	t.Helper()
	w := &tap{rawServer: newListener(t)}
	w.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(io.TeeReader(conn, w))
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			write(conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(paymentAnswer), paymentAnswer))
		}
	})
	return w
}

func (w *tap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.Write(p)
}

// received gives all bytes so far.
func (w *tap) received() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}

// head splits the one request that came into its first line and the names of its headers.
func (w *tap) head(t testing.TB) (requestLine string, names []string) {
	t.Helper()
	head, _, found := strings.Cut(w.received(), "\r\n\r\n")
	require.True(t, found, "a whole head came")
	lines := strings.Split(head, "\r\n")
	for _, line := range lines[1:] {
		name, _, found := strings.Cut(line, ": ")
		require.True(t, found, "%q is a header", line)
		names = append(names, name)
	}
	assert.NotContains(t, head, "\n\n")
	assert.Equal(t, strings.Count(head, "\r"), strings.Count(head, "\n"), "no line ends but those between headers")
	slices.Sort(names)
	return lines[0], names
}

// usualHeaders are those of every request.
func usualHeaders() []string {
	return []string{"Accept-Encoding", "Content-Length", "Content-Type", "Host", "Signature", "Timestamp", "User-Agent"}
}

const injected = "\r\nX-Injected: 1"

func TestASignatureThatWouldInjectAHeaderIsNotSent(t *testing.T) {
	for name, signature := range map[string]string{
		"a header":     "00" + injected,
		"a line feed":  "00\nX-Injected: 1",
		"a return":     "00\rX-Injected: 1",
		"a whole body": "00\r\n\r\n{}",
		"a request":    "00\r\nContent-Length: 0\r\n\r\nPOST /init_payout HTTP/1.1\r\nHost: a",
		"a zero byte":  "00\x00",
		"a tear":       "\x7f",
		"an escape":    "\x1b[2J",
	} {
		t.Run(name, func(t *testing.T) {
			w := newTap(t)
			scheme := testScheme()
			scheme.Encoding = encodingFunc(func(dst, _ []byte) []byte { return append(dst, signature...) })
			c := newClient(t, w.base(), func(cfg *paymentsvc.Config) { cfg.Signer = canarySigner(t, scheme) })
			for _, op := range operations() {
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
		scheme := testScheme()
		// U+560D and U+560A end in the bytes of a line end where each rune is cut to one byte.
		scheme.Encoding = encodingFunc(func(dst, _ []byte) []byte { return append(dst, "0\u560d\u560aX-Injected: 1\x85\u2028"...) })
		_, err := pay(t.Context(), newClient(t, w.base(), func(cfg *paymentsvc.Config) { cfg.Signer = canarySigner(t, scheme) }))
		require.NoError(t, err)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders(), names)
	})
}

func TestAUserAgentThatWouldInjectAHeaderIsRefused(t *testing.T) {
	for _, agent := range []string{"a" + injected, "\n", "\r", "a\r", "a\x00b", "\x7f", "\x1b[2J", "a\n b", "a\v", "a\f"} {
		c, err := paymentsvc.NewClient(paymentsvc.Config{
			BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 1, Signer: testSigner(t), UserAgent: agent,
		})
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, "%q", agent)
		assert.Nil(t, c)
	}
	for _, agent := range []string{"shop/2 (a; b)", "Straße\t1", "\u560a\u560d", "a: b"} {
		w := newTap(t)
		_, err := pay(t.Context(), newClient(t, w.base(), func(cfg *paymentsvc.Config) { cfg.UserAgent = agent }))
		require.NoError(t, err)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders(), names, "%q", agent)
		assert.Contains(t, w.received(), "\r\nUser-Agent: "+agent+"\r\n")
	}
}

func TestAPaymentTypeLeadsToNoOtherPath(t *testing.T) {
	w := newTap(t)
	c := newClient(t, w.base())
	for _, kind := range []paymentsvc.PaymentType{
		"", "../init_payout", "card/../../init_payout", "card%2f..%2f..%2finit_payout", "..", ".", "card/", "/card", "//evil.example",
		"card?amount=1", "card#", "card;a", "card ", " card", "CARD", "cаrd", "card\x00", "card HTTP/1.1" + injected, `..\init_payout`,
	} {
		response, err := nilOr(c.InitPayment(t.Context(), kind, paymentRequest()))
		e := failed(t, response, err, paymentsvc.OutcomeNotSent)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		assert.Zero(t, e.Attempts)
		assert.Equal(t, "init_payment", e.Endpoint, "what was given is not repeated")
	}
	assert.Empty(t, w.received())
}

// Identifiers travel in the body, where JSON escapes what would end a line, and never in the head.
func TestIdentifiersDoNotReachTheHead(t *testing.T) {
	for _, id := range []string{"a" + injected, "\r\n\r\nPOST / HTTP/1.1", "../../x", "\x00", "\u2028", `"},"amount":1,"x":{"`} {
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
			assert.Equal(t, usualHeaders(), names, name)
			_, body, _ := strings.Cut(w.received(), "\r\n\r\n")
			assert.NotContains(t, body, "\n", name)
			assert.Equal(t, 1, strings.Count(body, `"partner_id":`), name)
		}
	}
}

func TestAnAddressThatLeadsElsewhereIsRefused(t *testing.T) {
	for _, base := range []string{
		"https://pay.example.com@evil.example", "https://pay.example.com:443@evil.example/", "https://:@evil.example", "https://@evil.example",
		`https://pay.example.com\@evil.example`, `https://evil.example\.pay.example.com`, `https:\\evil.example`, "https:/pay.example.com",
		"//pay.example.com", "https://", "https:///pay.example.com", "https://pay.example.com:-1", "https://pay.example.com:a",
		"https://pay.example.com" + injected, "https://pay.example.com/\r\n", "https://pay.example.com/\x00", "https://pay.example.com/\x7f",
		"https://a%0d%0ab.example", "https://a%00.example", "https://a b.example", "https://\tpay.example.com", " https://pay.example.com",
		"https://pay.example.com ", "https://[::1", "https://::1]/", "https://[::1]a", "https://[fe80::1%25%0d%0aa]", "https://[fe80::1%25 a]",
		"https://pay.example.com#@evil.example", "https://pay.example.com?@evil.example", "javascript://pay.example.com/%0aalert(1)",
		"file:///etc/passwd", "unix:///run/pay.sock", "HTTPS:pay.example.com",
	} {
		refusedBase(t, base, false)
		refusedBase(t, base, true)
	}
}

func TestPlainHTTPToWhatOnlyLooksLikeLoopbackIsRefused(t *testing.T) {
	for _, base := range []string{
		"http://localhost.", "http://localhost.example.com", "http://localhost.localdomain", "http://127.1", "http://2130706433", "http://0x7f000001",
		"http://0177.0.0.1", "http://127.0.0.1.example.com", "http://127.0.0.1。example.com", "http://ⓛocalhost", "http://loc\u0430lhost",
		"http://0.0.0.0", "http://[::]", "http://[::ffff:10.0.0.1]", "http://[fe80::1%25lo]", "http://10.0.0.1", "http://[::2]", "http://128.0.0.1",
	} {
		refusedBase(t, base, false)
		_, err := paymentsvc.NewClient(paymentsvc.Config{
			BaseURL: base, PartnerID: 1, ProjectID: 1, Signer: testSigner(t), AllowPlainHTTP: true,
		})
		require.NoError(t, err, "%q is refused for being plain http alone", base)
	}
}

func refusedBase(t *testing.T, base string, plain bool) {
	t.Helper()
	c, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: base, PartnerID: 1, ProjectID: 1, Signer: testSigner(t), AllowPlainHTTP: plain,
	})
	require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, "%q", base)
	assert.Nil(t, c)
	assert.Contains(t, err.Error(), "BaseURL:")
	assert.NotContains(t, err.Error(), "example", "the address is not repeated")
}

// What a path may hold goes out escaped, as one target in one line.
func TestAnOddPathStaysOneTarget(t *testing.T) {
	for path, want := range map[string]string{
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
		base, err := url.Parse(w.base())
		require.NoError(t, err)
		_, err = pay(t.Context(), newClient(t, "http://"+base.Host+path))
		require.NoError(t, err, path)
		line, names := w.head(t)
		assert.Equal(t, "POST "+want+"/init_payment/card HTTP/1.1", line)
		assert.Equal(t, usualHeaders(), names)
		assert.Contains(t, w.received(), "\r\nHost: "+base.Host+"\r\n")
	}
}

// What says where a request ends is net/http's to say, whatever spelling of it a signer sets.
func TestASignersHeadersDoNotFrameTheRequest(t *testing.T) {
	for _, name := range []string{"transfer-encoding", "TRANSFER-ENCODING", "content-length", "Content-length", "trailer", "host", "Transfer-Encoding"} {
		w := newTap(t)
		signer := testSigner(t)
		c := newClient(t, w.base(), func(cfg *paymentsvc.Config) {
			cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
				r.Header[name] = []string{"chunked"}
				return signer.Sign(r, body)
			})
		})
		_, err := pay(t.Context(), c)
		require.NoError(t, err, name)
		_, names := w.head(t)
		assert.Equal(t, usualHeaders(), names, name)
	}
}

func TestSignerCannotChangeWhatFramesTheRequest(t *testing.T) {
	changing := func(change func(r *http.Request)) func(*paymentsvc.Config) {
		return func(cfg *paymentsvc.Config) {
			signer := cfg.Signer
			cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
				change(r)
				return signer.Sign(r, body)
			})
		}
	}
	w := newTap(t)
	_, err := pay(t.Context(), newClient(t, w.base(), changing(func(r *http.Request) {
		r.TransferEncoding = []string{"chunked"}
		r.Trailer = http.Header{"X-Trailer": {"1"}}
	})))
	require.NoError(t, err)
	_, names := w.head(t)
	assert.Equal(t, usualHeaders(), names)

	response, err := pay(t.Context(), newClient(t, newTap(t).base(), changing(func(r *http.Request) { r.Method = http.MethodGet })))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	require.ErrorContains(t, err, "signing: the Signer changed the method")
}
