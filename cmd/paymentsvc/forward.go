package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

const (
	maxShown  = 4 << 10  // bytes of a printed response
	maxMasked = 64 << 10 // bytes of a response masked for output
	maxAnswer = 10 << 20 // buffered bytes of a response; more bytes follow unbuffered
)

// forwarder forwards messages with an unchanged body to another address.
type forwarder struct {
	transport http.RoundTripper
	to        *url.URL
	host      string        // the Host header, or "" for to.Host
	timeout   time.Duration // 0 is no limit
}

// answer is the response to a message.
type answer struct {
	Status    int    `json:"status"`
	Forwarded bool   `json:"forwarded"` // true if the receiver responded
	Millis    int64  `json:"ms"`
	Error     string `json:"error"`
	Saved     string `json:"saved"`
	Response  string `json:"response"`

	head    []byte // for output, see shownResponse
	aborted any    // the panic of an incomplete response, which ends the connection
}

// forward forwards a message and writes the response, or 502 or 504. It continues after the client disconnects, because
// the receiver may have a part of the message. The caller records the response, and then panics with answer.aborted,
// unless it is nil.
func (f *forwarder) forward(w http.ResponseWriter, req *http.Request, body []byte) (a answer) {
	// For a context that cannot end, ReverseProxy stops when the client disconnects.
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	defer cancel()
	if f.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	began := time.Now()
	proxy := &httputil.ReverseProxy{
		Transport: f.transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite:   f.rewrite,
		ModifyResponse: func(resp *http.Response) error {
			a.Status, a.Forwarded, a.Millis = resp.StatusCode, true, cli.Millis(time.Since(began))
			data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
			a.head = data[:min(len(data), maxMasked)]
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(data), resp.Body), resp.Body}
			return err
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			a.Status, a.Error = http.StatusBadGateway, reason(err)
			if errors.Is(err, context.DeadlineExceeded) {
				a.Status = http.StatusGatewayTimeout
			}
			http.Error(w, http.StatusText(a.Status), a.Status)
		},
	}
	out := req.WithContext(ctx)
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	defer func() { a.aborted = recover() }()
	proxy.ServeHTTP(w, out)
	return a
}

// rewrite replaces the address with f.to and sets the Host. A path or query missing in f.to comes from the message.
func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	to := *f.to
	if strings.Trim(to.Path, "/") == "" {
		to.Path, to.RawPath = p.In.URL.Path, p.In.URL.RawPath
	}
	to.RawQuery = cmp.Or(to.RawQuery, p.In.URL.RawQuery)
	p.Out.URL, p.Out.Host = &to, cmp.Or(f.host, to.Host)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header[name]; values != nil { // ReverseProxy removes these headers
			p.Out.Header[name] = values
		}
	}
}

// newTransport returns a transport without proxy, redirects and retries. trust is the configuration of
// [cli.Call.ClientTLS].
func newTransport(trust *tls.Config) *http.Transport {
	t := paymentsvc.NewTransport()
	t.TLSClientConfig = trust
	t.Protocols.SetHTTP2(true)
	t.Proxy = nil
	t.DisableCompression = true
	t.DisableKeepAlives = true // a POST on a closing connection would be lost
	return t
}

// clientTransport returns the transport for -cacert and -http2.
func clientTransport(c *cli.Call) (*http.Transport, error) {
	trust, err := c.ClientTLS()
	t := newTransport(trust)
	if c.Bool("http2") {
		t.Protocols.SetHTTP1(false)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t, err
}

// reason returns the reason for a missing response. It quotes neither the URL nor the message, because a receiver can
// repeat the message in an invalid response.
func reason(err error) string {
	failed, ok := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no response in time"
	case ok && failed.Addr != nil && errors.Is(err, syscall.ECONNREFUSED):
		return failed.Addr.String() + " refused the connection"
	}
	return transport.ForLogs(err).Error()
}

// shownResponse returns the beginning of a response for output. It also hides the signature, because debug pages repeat
// the request. It masks before the cut, because a part of a secret or card number is not recognizable.
func shownResponse(keys []cli.Key, head []byte, signature string) string {
	text := cli.MaskAll(keys, mask.Pattern(signature).ReplaceAllLiteralString(string(head), "<signature>"))
	return text[:min(len(text), maxShown)]
}

// indented returns the lines of a response for output.
func indented(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, "       "+strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// accepted reports whether a status means acceptance. Accepting any 2xx is this program's choice, because the document
// does not specify the response (section 6).
func accepted(status int) bool { return status/100 == 2 }
