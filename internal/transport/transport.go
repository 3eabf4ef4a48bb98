// Package transport makes the attempts of a signed POST. It reports the result of each attempt, reports whether the
// request was provably not sent, and computes the wait before a retry. The caller loops and interprets the responses.
package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	// ErrTooLarge is a response above Config.MaxResponseBytes.
	ErrTooLarge = errors.New("response too large")
	// ErrRepeated is an attempt that was stopped before a second delivery.
	ErrRepeated = errors.New("the transport tried to send the request again")

	errMalformedStatus = errors.New("malformed HTTP status")
)

// Config configures a Client. HTTP and Trust are optional.
type Config struct {
	HTTP             *http.Client  // nil means a new client on Default
	Timeout          time.Duration // of one attempt, including the response; a shorter HTTP.Timeout replaces it
	MaxResponseBytes int64         // of one response, decompressed
	UserAgent        string
	Trust            bool // promises that a foreign RoundTripper passes the context on and sends a request at most once
}

// Client makes attempts at requests. It is safe for concurrent use.
type Client struct {
	http      http.Client
	config    Config
	userAgent []string
	plain     atomic.Pointer[http.Transport] // the last transport for which deliversOnce returned true
}

// New returns a Client on a copy of c.HTTP. The copy does not follow redirects, because net/http would send the
// signature to another host.
func New(c Config) *Client {
	client := http.Client{Transport: Default()}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	if client.Timeout > 0 { // one timer suffices
		c.Timeout = min(c.Timeout, client.Timeout)
		client.Timeout = 0
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: client, config: c, userAgent: []string{c.UserAgent}}
}

// Request is the common part of all attempts at a call.
type Request struct {
	URL  string
	Body []byte
	// Sign signs an attempt. Its changes to the body of r have no effect.
	Sign func(r *http.Request, body []byte) error
	// Repeatable allows a retry of a request that may have arrived.
	Repeatable bool
}

// Result is the result of one attempt.
type Result struct {
	// Tried reports whether the attempt reached the http.Client. If not, Err is the reason.
	Tried bool
	// NotSent reports that provably no byte of the request left.
	NotSent bool
	// Repeated reports that the transport began a second delivery and was stopped.
	Repeated bool
	// SignedAt is the time before the signature.
	SignedAt time.Time
	// ClockShift is the timestamp header minus the local time, or 0 for at most two seconds or an unreadable header.
	ClockShift time.Duration
	// Status, Header and At (the time of the header) describe the response. Status is 0 without a valid status.
	Status int
	Header http.Header
	At     time.Time
	// Body has the received bytes of the body, at most MaxResponseBytes. It is complete if Err is nil.
	Body []byte
	// Err is the reason for a missing or incomplete response, or nil.
	Err      error
	Duration time.Duration
}

// CloseIdleConnections closes the idle connections.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Send signs and makes one attempt. The body on the wire is r.Body.
func (c *Client) Send(ctx context.Context, r *Request) Result {
	if ctx.Err() != nil {
		return Result{NotSent: true, Err: contextError(ctx, nil)}
	}
	start, caller := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	trace := attemptTrace{end: cancel}
	once := c.deliversOnce()
	req, err := c.request(ctx, r, &trace.body, !once)
	if err != nil {
		return Result{NotSent: true, Err: err}
	}
	if ctx.Err() != nil { // the signer may have taken time
		return Result{NotSent: true, Err: contextError(ctx, nil)}
	}
	if !once {
		trace.guard = newGuard(req)
	}
	result := Result{Tried: true, SignedAt: start, ClockShift: clockShift(req.Header, start, time.Now())}
	defer func() { trace.finish(result.Status >= 200 && result.Err == nil) }()

	// The trace begins after signing, because a signer may send requests of its own.
	resp, err := c.http.Do(req.WithContext(trace.watch(ctx))) //nolint:bodyclose // readBody closes it
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // without the method and the address
		}
	} else {
		result.At = time.Now()
		err = c.readResponse(resp, &result)
	}
	result.Repeated = trace.repeated.Load()
	switch {
	case err == nil:
	case result.Repeated:
		result.Err = ForLogs(repeatedError(caller, err))
	default:
		result.Err = ForLogs(contextError(ctx, err))
		result.NotSent = result.At.IsZero() && trace.notSent() && (c.config.Trust || isPlain(c.http.Transport))
	}
	result.Duration = time.Since(start)
	return result
}

// request builds and signs the request of one attempt. foreign is set for a foreign transport.
func (c *Client) request(ctx context.Context, r *Request, b *body, foreign bool) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header["Content-Type"] = contentType
	req.Header["User-Agent"] = c.userAgent
	if err := r.Sign(req, r.Body); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	// The signer may have read or replaced the body. With GetBody, net/http repeats a request after some failures.
	req.Body = b.open(r.Body, foreign)
	req.GetBody, req.ContentLength = nil, int64(len(r.Body))
	// A signer must not choose the framing. With a trailer or another encoding the service could read another body.
	req.Trailer, req.TransferEncoding = nil, nil
	if req.Method != http.MethodPost {
		return nil, errors.New("signing: the Signer changed the method")
	}
	return req, cleanHeader(req.Header)
}

// clockShift returns Result.ClockShift for a request signed between began and ended.
func clockShift(h http.Header, began, ended time.Time) time.Duration {
	const tolerated = 2 * time.Second // the header has whole seconds
	seconds, err := strconv.ParseInt(h.Get("Timestamp"), 10, 64)
	signed := time.Unix(seconds, 0)
	switch {
	case err != nil:
	case signed.Before(began.Add(-tolerated)):
		return signed.Sub(began).Round(time.Second)
	case signed.After(ended.Add(tolerated)):
		return signed.Sub(ended).Round(time.Second)
	}
	return 0
}

// contentType is the Content-Type header of all requests.
var contentType = []string{"application/json"}

// cleanHeader removes unwanted headers and rejects invalid headers. net/http would reject these too, but without a
// proof that no byte left.
func cleanHeader(h http.Header) error {
	for name, values := range h {
		if slices.ContainsFunc(unwantedHeaders, func(other string) bool { return strings.EqualFold(name, other) }) {
			delete(h, name)
			continue
		}
		if !validHeaderName(name) {
			return errors.New("signing: a header has an invalid name")
		}
		for _, value := range values {
			if !ValidHeaderValue(value) {
				return fmt.Errorf("signing: the %s header has a control character", name)
			}
		}
	}
	return nil
}

// unwantedHeaders must not be sent. With the first two, net/http repeats a POST after some failures. The other headers
// frame or address the request. net/http writes these headers itself, and drops the signer's values only under
// canonical names.
var unwantedHeaders = []string{
	"Idempotency-Key", "X-Idempotency-Key", "Content-Length", "Transfer-Encoding", "Trailer", "Host",
}

// validHeaderName reports whether name is a token of RFC 9110, section 5.6.2.
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

// readResponse reads a response into result.
func (c *Client) readResponse(resp *http.Response, result *Result) (err error) {
	result.Body, err = c.readBody(resp)
	if resp.StatusCode < 100 || resp.StatusCode > 999 { // HTTP/2 accepts any number
		result.Body = nil
		return errMalformedStatus
	}
	result.Status, result.Header = resp.StatusCode, resp.Header
	return err
}

// readBody reads a body to its end, or up to MaxResponseBytes with ErrTooLarge. A status below 200 has no body.
func (c *Client) readBody(resp *http.Response) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }() // its error does not change the bytes
	if resp.StatusCode < 200 {
		return nil, nil // the body of 101 is the connection, and may never end
	}
	limit := c.config.MaxResponseBytes
	// A declared length is only a hint. A wrong length costs a reallocation or a little memory.
	body := make([]byte, 0, 1+max(511, min(resp.ContentLength, limit, 64<<10)))
	for {
		n, err := resp.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body[:limit], ErrTooLarge
		case err == io.EOF: // a wrapped io.EOF is a failure
			return body, nil
		case err != nil:
			return body, err
		}
		body = slices.Grow(body, 1)
	}
}

// contextError returns err, with ctx.Err() added if ctx is done, because net/http reports only the cause of a
// cancellation.
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

// repeatedError returns ErrRepeated with the transport's error. errors.Is must not find the cancellation that stopped
// the transport, because the caller did not cancel.
func repeatedError(caller context.Context, err error) error {
	if caller.Err() == nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %v", ErrRepeated, err) //nolint:errorlint // see above
	}
	return contextError(caller, fmt.Errorf("%w: %w", ErrRepeated, err))
}
