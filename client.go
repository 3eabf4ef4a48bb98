package paymentsvc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// InterfaceVersion is the version of the interface document that this package implements (section 9). Paths and
// bodies do not contain it. The default User-Agent does.
const InterfaceVersion = "1.0.0"

// Config configures a [Client].
type Config struct {
	// BaseURL is the address of the service, {base_url} in the interface document. It is required, absolute and https.
	// It may have a path, but no user, query or fragment. http is accepted for loopback addresses, and for other
	// addresses with AllowPlainHTTP.
	BaseURL string
	// PartnerID and ProjectID are the caller's ids (section 1). Both are required.
	PartnerID int64
	ProjectID int64
	// Signer signs every attempt (section 5). It is required; see [NewHMACSigner].
	Signer Signer

	// HTTPClient sends the requests. NewClient copies it, and the copy follows no redirects. The default is a client
	// with [NewTransport] and not http.DefaultTransport, so httpmock.Activate and similar mocks do not affect it.
	//
	// If Transport is not an *http.Transport, or has TLSNextProto entries of other packages, the client cannot prove
	// that a request was not sent. Unless TrustTransport is set, a failure after the signature is then
	// [OutcomeUnknown]. If a wrapper sends a request again through an *http.Transport, the client prevents the second
	// delivery, and the outcome is unknown. This works only if the wrapper passes on the values of the request's
	// context, and does not change both signature and destination.
	HTTPClient *http.Client
	// Timeout limits one attempt, including reading the response. A shorter HTTPClient.Timeout takes its place. The
	// context limits the whole call. The default is 30 seconds. A value below one millisecond is an error.
	Timeout time.Duration
	// Retry configures the retries. The zero value retries too; see [Retry].
	Retry Retry
	// DecodeError finds the service's errors in responses; see [ErrorFields]. The format of these errors is not
	// specified (section 7). Without DecodeError the client never reports [OutcomeRejected], so every start that the
	// service rejects has [OutcomeUnknown] and must be reconciled.
	DecodeError ErrorDecoder
	// OnAttempt, if set, is called after every attempt with the caller's context, but not if signing failed. The call
	// waits for OnAttempt. OnAttempt must be safe for concurrent use.
	OnAttempt func(ctx context.Context, a Attempt)
	// UserAgent is the User-Agent header. The default is "paymentsvc-go/1.0.0".
	UserAgent string
	// MaxResponseBytes limits a response after decompression. The default is 1 MiB.
	MaxResponseBytes int64
	// AllowPlainHTTP accepts http for addresses other than loopback. Signatures and card data are then sent
	// unencrypted.
	AllowPlainHTTP bool
	// TrustTransport is your promise that HTTPClient.Transport passes the context on to an *http.Transport and sends
	// each request at most once, as otelhttp does. A failure to connect is then [OutcomeNotSent] and may be retried. If
	// the transport breaks the promise, money can move twice.
	TrustTransport bool
}

// Retry configures retries with exponential back-off and jitter. The client retries status calls and
// [Client.GetBalance] after a transport error, an incomplete response, HTTP 429 and 5xx. It retries a start only if the
// attempt was [OutcomeNotSent]. It retries no call if signing failed, or if the wait reaches the context's deadline.
type Retry struct {
	// MaxAttempts limits the attempts of a call, including the first. The default is 3. 1 disables retries.
	MaxAttempts int
	// BaseDelay is the longest wait before the second attempt. The maximum doubles for each further wait. Each wait is
	// random, at least half of its maximum. A Retry-After header replaces the wait. The default is 200 ms. A value below
	// one millisecond is an error.
	BaseDelay time.Duration
	// MaxDelay limits every wait, including the wait requested by a Retry-After header. The default is 5 seconds. A
	// value below one millisecond is an error.
	MaxDelay time.Duration
}

// Attempt describes one attempt of a call, for [Config].OnAttempt.
type Attempt struct {
	// Endpoint is the path below Config.BaseURL, such as "init_payment/card".
	Endpoint string
	// Number is 1 for the first attempt.
	Number int
	// HTTPStatus is the status of the response, or 0 without a response.
	HTTPStatus int
	// Outcome is the outcome of the call so far. It is OutcomeNotSent only if no attempt of the call was sent. If Err
	// is nil, ignore Outcome; see [Attempt.Result].
	Outcome Outcome
	// Err is nil after a success, and an *Error otherwise.
	Err error
	// Duration includes signing and reading the response.
	Duration time.Duration
	// RetryIn is the wait before the next attempt, or 0 after the last.
	RetryIn time.Duration
}

// Result returns "success" or the text of Outcome, for logs and metrics.
func (a Attempt) Result() string {
	if a.Err == nil {
		return "success"
	}
	return a.Outcome.String()
}

// Client calls the endpoints of section 4. Create one with [NewClient] and keep it, because its calls share
// connections. A Client is safe for concurrent use.
type Client struct {
	// transport and sign are functions, because fmt and reflect cannot read the variables of a function. So a copy of a
	// Client prints neither the key nor the last request, which the transport's connections buffer.
	transport   func() *transport.Client
	sign        func(req *http.Request, body []byte) error
	id          ids
	baseURL     string
	retry       transport.Retry
	decodeError ErrorDecoder
	onAttempt   func(ctx context.Context, a Attempt)
}

// NewTransport returns a new transport with the defaults of a [Client]. You can change or wrap it, and pass it in
// [Config].HTTPClient.
//
// It uses only HTTP/1.1. A server may close an HTTP/2 connection with calls in flight, as nginx does every thousand
// requests, and calls that never arrived then have an unknown outcome. The transport keeps up to 100 idle connections,
// for less time than most servers, requires TLS 1.2 or newer, and takes a proxy from the environment.
//
// Its connections discard unsent bytes: if an attempt ends without a complete response, or if the process dies, the
// kernel resets the connection. Otherwise the kernel would continue to send, and the request could arrive after the
// call has failed. A reset does not recall bytes that already left the machine. For example, a proxy that has the whole
// request can still forward it. The reset is part of DialContext, so a replacement must call the original function.
func NewTransport() *http.Transport { return transport.Default() }

// NewClient returns a [Client] for cfg. Errors wrap [ErrInvalidRequest] and contain the field's name.
func NewClient(cfg Config) (*Client, error) {
	base, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("paymentsvc: Config: %w", err)
	}
	retry := transport.Retry{
		MaxAttempts: cmp.Or(cfg.Retry.MaxAttempts, 3),
		BaseDelay:   cmp.Or(cfg.Retry.BaseDelay, 200*time.Millisecond),
		MaxDelay:    cmp.Or(cfg.Retry.MaxDelay, 5*time.Second),
	}
	made := transport.New(transport.Config{
		HTTP:             cfg.HTTPClient,
		Timeout:          cmp.Or(cfg.Timeout, 30*time.Second),
		MaxResponseBytes: cmp.Or(cfg.MaxResponseBytes, 1<<20),
		UserAgent:        cmp.Or(cfg.UserAgent, "paymentsvc-go/"+InterfaceVersion),
		Trust:            cfg.TrustTransport,
	})
	return &Client{
		transport:   func() *transport.Client { return made },
		sign:        cfg.Signer.Sign,
		id:          ids{PartnerID: cfg.PartnerID, ProjectID: cfg.ProjectID},
		baseURL:     base,
		retry:       retry,
		decodeError: cfg.DecodeError,
		onAttempt:   cfg.OnAttempt,
	}, nil
}

// check validates the configuration and returns the base address without trailing slashes.
func (cfg *Config) check() (base string, err error) {
	base, err = checkBaseURL(cfg.BaseURL, cfg.AllowPlainHTTP)
	if err != nil {
		return "", err
	}
	for _, field := range []struct {
		name         string
		value, least int64
	}{
		{"Timeout", int64(cfg.Timeout), int64(time.Millisecond)},
		{"Retry.MaxAttempts", int64(cfg.Retry.MaxAttempts), 0},
		{"Retry.BaseDelay", int64(cfg.Retry.BaseDelay), int64(time.Millisecond)},
		{"Retry.MaxDelay", int64(cfg.Retry.MaxDelay), int64(time.Millisecond)},
		{"MaxResponseBytes", cfg.MaxResponseBytes, 0},
	} {
		switch {
		case field.value < 0:
			return "", invalid(field.name, "negative")
		case field.value > 0 && field.value < field.least: // for example Timeout: 5, which is five nanoseconds
			return "", invalid(field.name, "below one millisecond; write a unit, such as 5 * time.Second")
		}
	}
	switch {
	case cfg.PartnerID == 0:
		return "", invalid("PartnerID", "not set")
	case cfg.ProjectID == 0:
		return "", invalid("ProjectID", "not set")
	case jsonobject.IsNil(cfg.Signer):
		return "", invalid("Signer", "not set")
	case !transport.ValidHeaderValue(cfg.UserAgent):
		return "", invalid("UserAgent", "contains a control character")
	case cfg.HTTPClient != nil && cfg.HTTPClient.Transport != nil && jsonobject.IsNil(cfg.HTTPClient.Transport):
		return "", invalid("HTTPClient.Transport", "a nil pointer")
	}
	return base, nil
}

// checkBaseURL validates and normalizes the base address. Its errors never contain the address, which may have a
// password.
func checkBaseURL(raw string, allowPlain bool) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "", invalid("BaseURL", "not set")
	case err != nil:
		return "", invalid("BaseURL", "not a URL")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return "", invalid("BaseURL", "not an absolute https URL")
	case u.User != nil:
		return "", invalid("BaseURL", "contains a user name")
	case strings.ContainsAny(raw, "?#"):
		return "", invalid("BaseURL", "contains a query or a fragment")
	case u.Scheme == "http" && !allowPlain && !loopback(u.Hostname()):
		return "", invalid("BaseURL", "http for an address that is not loopback; use https, or set AllowPlainHTTP")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// ForProject returns a [Client] for another project of the same partner. It shares everything else with c, including
// connections. signer signs with the other project's secret key. Both arguments are required; otherwise the error wraps
// [ErrInvalidRequest].
func (c *Client) ForProject(projectID int64, signer Signer) (*Client, error) {
	var err error
	switch {
	case c == nil || c.transport == nil:
		err = fmt.Errorf("%w: Client: %w: use NewClient", ErrInvalidRequest, errNotMade)
	case projectID == 0:
		err = invalid("projectID", "not set")
	case jsonobject.IsNil(signer):
		err = invalid("signer", "not set")
	}
	if err != nil {
		return nil, fmt.Errorf("paymentsvc: ForProject: %w", err)
	}
	other := *c
	other.id.ProjectID = projectID
	other.sign = signer.Sign
	return &other, nil
}

// DecodesErrors reports whether [Config].DecodeError is set. Without it, the client never reports a rejection. Programs
// that pay automatically, such as package durable, therefore require it.
func (c *Client) DecodesErrors() bool { return c != nil && c.decodeError != nil }

// CloseIdleConnections closes idle connections, including those of other Clients on the same transport. Calls in flight
// continue.
func (c *Client) CloseIdleConnections() {
	if c != nil && c.transport != nil {
		c.transport().CloseIdleConnections()
	}
}

// Format writes the ids and no secret, under every verb.
func (c *Client) Format(f fmt.State, _ rune) {
	if c == nil {
		_, _ = io.WriteString(f, "<nil>")
		return
	}
	_, _ = fmt.Fprintf(f, "Client{PartnerID: %d, ProjectID: %d}", c.id.PartnerID, c.id.ProjectID)
}

// ids returns the fields of every request (section 1), also for a nil Client.
func (c *Client) ids() ids {
	if c == nil {
		return ids{}
	}
	return c.id
}

// endpoint describes a call of section 4.
type endpoint struct {
	path       string // below BaseURL
	idempotent bool
	proofs     []string // names of response fields, each of which proves a start; nil means order_id
}

// response is a type with the fields of an endpoint's response. Its method returns the fields to decode, and pointers
// to Raw and Malformed.
type response interface {
	fields() (fields []jsonobject.Field, raw *json.RawMessage, malformed *[]string)
}

// call sends the body in to the endpoint e, retries while that is safe and c.retry allows it, and decodes the response
// into a new T. It sends no request if err, the error of the body, is not nil.
func call[T any, A interface {
	*T
	response
}](ctx context.Context, c *Client, e endpoint, in any, err error) (*T, error) {
	if err != nil {
		return nil, notSent(e.path, err)
	}
	if c == nil || c.transport == nil {
		return nil, notSent(e.path, fmt.Errorf("%w: Client: %w: use NewClient", ErrInvalidRequest, errNotMade))
	}
	if ctx == nil {
		return nil, notSent(e.path, invalid("ctx", "nil"))
	}
	body, err := jsonobject.Encode(in)
	if err != nil {
		return nil, notSent(e.path, err)
	}
	req := &transport.Request{URL: c.baseURL + "/" + e.path, Body: body, Sign: c.sign, Repeatable: e.idempotent}

	arrived := false // whether the request of any attempt may have arrived
	for attempts := 0; ; {
		result := c.transport().Send(ctx, req)
		arrived = arrived || !result.NotSent
		result.NotSent = !arrived
		if result.Tried {
			attempts++
		}
		out := new(T) // fresh, because a failed attempt may have set some fields
		failure := c.judge(e, attempts, result, A(out))
		if !result.Tried {
			return nil, failure
		}
		if failure == nil {
			c.observe(ctx, e, attempts, result, nil, 0)
			return out, nil
		}
		wait, again := c.retry.Next(ctx, req, attempts, result, failure)
		c.observe(ctx, e, attempts, result, failure, wait)
		if !again {
			return nil, failure
		}
		if err := transport.Wait(ctx, wait); err != nil {
			interrupted := *failure // a copy, because OnAttempt may have kept failure
			interrupted.Err = fmt.Errorf("%w while waiting to retry after: %w", ownError(err), failure.Err)
			return nil, &interrupted
		}
	}
}

// observe reports an attempt to Config.OnAttempt.
func (c *Client) observe(
	ctx context.Context, e endpoint, n int, result transport.Result, failure *Error, wait time.Duration,
) {
	if c.onAttempt == nil {
		return
	}
	a := Attempt{
		Endpoint:   e.path,
		Number:     n,
		HTTPStatus: result.Status,
		Duration:   result.Duration,
		RetryIn:    wait,
	}
	if failure != nil {
		a.Outcome, a.Err = failure.Outcome, failure
	}
	c.onAttempt(ctx, a)
}
