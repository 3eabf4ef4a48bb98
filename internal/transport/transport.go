// Package transport sends a signed POST in one or more attempts. It knows nothing of payments: it reports the result of
// each attempt, whether the request can have left this process, and when a retry may follow.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// Idle connections kept for one host, so that as many callers at once do not dial anew for every call.
	idleConnections = 100
	// Apache and Node end an idle connection after 5 seconds, most others later. A start that is written to a connection
	// as its server ends it has an unknown outcome, so this side ends it first.
	idleTimeout = 4 * time.Second
)

var (
	// ErrTooLarge is returned when an answer has more bytes than it may have.
	ErrTooLarge = errors.New("response too large")
	// ErrRepeated is returned when the transport was stopped as it was about to send a request again.
	ErrRepeated = errors.New("the transport tried to send the request again")

	errMalformedStatus = errors.New("malformed HTTP status")
)

// Config is what a Client works with; every field must be set, but for HTTP and Trust.
type Config struct {
	HTTP             *http.Client  // nil: a client of its own
	Timeout          time.Duration // of one attempt, its answer included
	MaxResponseBytes int64         // of one answer, decompressed
	UserAgent        string
	Trust            bool // a foreign RoundTripper passes the context on and sends a request at most once
}

// Client makes attempts. It is safe for concurrent use.
type Client struct {
	http      http.Client
	config    Config
	userAgent []string
}

// New returns a Client on a copy of c.HTTP that follows no redirect: net/http would pass the signature to another host.
func New(c Config) *Client {
	client := http.Client{Transport: Default()}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: client, config: c, userAgent: []string{c.UserAgent}}
}

// Request is one call: what every attempt at it has in common.
type Request struct {
	URL  string
	Body []byte
	// Sign signs an attempt; the client owns the request's body whatever Sign does with it.
	Sign func(r *http.Request, body []byte) error
	// Repeatable says that the request may be sent again even though it may have arrived before.
	Repeatable bool
}

// Result is what became of one attempt.
type Result struct {
	// Tried says that the attempt reached the http.Client; otherwise Err says why not.
	Tried bool
	// NotSent says that provably no byte of the request left.
	NotSent bool
	// Repeated says that the transport tried to send the request again, and was stopped.
	Repeated bool
	// SignedAt is when the attempt was about to be signed.
	SignedAt time.Time
	// Status, Header and At (when the header was there) are the answer's; Status 0 is no answer.
	Status int
	Header http.Header
	At     time.Time
	// Body is what arrived of the answer's body, all of it when Err is nil.
	Body []byte
	// Err is why there is no whole answer.
	Err      error
	Duration time.Duration
}

// CloseIdleConnections closes the connections that wait for a next call.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Send makes one attempt, signed afresh. What is sent is r.Body.
func (c *Client) Send(ctx context.Context, r *Request) Result {
	if ctx.Err() != nil {
		return Result{NotSent: true, Err: contextError(ctx, nil)}
	}
	start, caller := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	seen := evidence{end: cancel}
	req, err := c.request(ctx, r, &seen)
	if err != nil {
		return Result{NotSent: true, Err: err}
	}
	if ctx.Err() != nil { // signing may have taken its time
		return Result{NotSent: true, Err: contextError(ctx, nil)}
	}

	// The trace comes after signing, so that a signer's own requests cannot be taken for this one.
	resp, err := c.http.Do(req.WithContext(seen.watch(ctx))) //nolint:bodyclose // readBody closes it
	result := Result{Tried: true, SignedAt: start}
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // the rest repeats the method and the address
		}
	} else {
		result.At = time.Now()
		result.Body, err = c.readBody(resp)
		if resp.StatusCode < 100 || resp.StatusCode > 999 { // which only HTTP/2 lets through: it may be any number
			result.Body, err = nil, errMalformedStatus
		} else {
			result.Status, result.Header = resp.StatusCode, resp.Header
		}
	}
	result.Repeated = seen.repeated.Load()
	switch {
	case err == nil:
	case result.Repeated:
		result.Err = &failure{repeatedError(caller, err)}
	default:
		result.Err = &failure{contextError(ctx, err)}
		result.NotSent = result.At.IsZero() && seen.notSent() && (c.config.Trust || plain(c.http.Transport))
	}
	result.Duration = time.Since(start)
	return result
}

// request builds and signs the request of one attempt.
func (c *Client) request(ctx context.Context, r *Request, seen *evidence) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["User-Agent"] = c.userAgent
	if err := r.Sign(req, r.Body); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	// The signer may have read or replaced the body. With GetBody set, net/http would send a request again on its
	// own after some failures of a connection. A reader of a type that net/http does not know would cost a write
	// of its own for the header.
	_, own := c.http.Transport.(*http.Transport)
	req.Body, seen.seal = sealable(r.Body, !own && c.http.Transport != nil)
	req.ContentLength = int64(len(r.Body))
	req.GetBody = nil
	// What frames the request is not a signer's to choose: a trailer or another encoding would let the service read
	// another body than the one that was signed.
	req.Trailer, req.TransferEncoding = nil, nil
	if req.Method != http.MethodPost {
		return nil, errors.New("signing: the Signer changed the method")
	}
	if err := cleanHeader(req.Header); err != nil {
		return nil, err
	}
	seen.remember(req)
	return req, nil
}

// cleanHeader removes the headers that are unwanted, and rejects what no header can carry: net/http would too, but then
// it would not be known that nothing left.
func cleanHeader(h http.Header) error {
	for name, values := range h {
		if unwanted(name) {
			delete(h, name)
			continue
		}
		if !validHeaderName(name) {
			return errors.New("signing: a header has a name that none can have")
		}
		for _, value := range values {
			if !ValidHeaderValue(value) {
				return fmt.Errorf("signing: the %s header has a control character", name)
			}
		}
	}
	return nil
}

// unwanted reports whether a header must not be sent. The first two make net/http send a POST again on its own. The others
// say where a request ends and for whom it is, which net/http says itself: it leaves them out of a header, but only
// under their usual spelling.
func unwanted(name string) bool {
	switch strings.ToLower(name) {
	case "idempotency-key", "x-idempotency-key", "content-length", "transfer-encoding", "trailer", "host":
		return true
	}
	return false
}

// validHeaderName reports whether name is a token (RFC 9110, section 5.6.2).
func validHeaderName(name string) bool {
	const others = "!#$%&'*+-.^_`|~"
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if digit := '0' <= c && c <= '9'; !letter && !digit && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return name != ""
}

// ValidHeaderValue reports whether net/http would send s as a header's value.
func ValidHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// readBody reads a body to its end, at most MaxResponseBytes of it.
func (c *Client) readBody(resp *http.Response) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }() // what was read stays true whatever closing says
	if resp.StatusCode < 200 {
		return nil, nil // the body of 101 is the connection itself and may never end
	}
	limit := c.config.MaxResponseBytes
	var buf bytes.Buffer
	if resp.ContentLength > 0 {
		// A declared length is only a hint: a lie may cost one reallocation or a little memory.
		buf.Grow(int(min(resp.ContentLength, limit, 64<<10)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, min(limit, math.MaxInt64-1)+1))
	if body := buf.Bytes(); int64(len(body)) > limit {
		return body[:limit], ErrTooLarge
	}
	return buf.Bytes(), err
}

// contextError makes errors.Is hold for ctx.Err() when ctx is done: net/http reports only the cause of a
// cancellation, which may hide it.
func contextError(ctx context.Context, err error) error {
	done := ctx.Err()
	if done == nil {
		return err
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, done) {
		return err
	}
	return fmt.Errorf("%w: %w", done, err)
}

// repeatedError is ErrRepeated with what the transport made of it. The cancellation that stopped the transport is not
// the caller's, so errors.Is must not find it.
func repeatedError(caller context.Context, err error) error {
	if caller.Err() == nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %v", ErrRepeated, err) //nolint:errorlint // see above
	}
	return contextError(caller, fmt.Errorf("%w: %w", ErrRepeated, err))
}

// Default returns a transport over HTTP/1.1 alone, where a connection that its server ends costs the one request on it
// and not those beside it.
func Default() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: refusedByProxy,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
		ExpectContinueTimeout:  time.Second,
	}
}

// refusedByProxy returns the status of a proxy that makes no tunnel: net/http would return the proxy's own words, which
// may repeat what it was sent.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return proxyError(answer.StatusCode)
}

// proxyError is the status of a proxy that makes no tunnel.
type proxyError int

func (e proxyError) Error() string {
	return fmt.Sprintf("the proxy answered CONNECT with HTTP %d", int(e))
}
