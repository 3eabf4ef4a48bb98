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

// InterfaceVersion is the version of the interface document that this package implements (section 9). It is
// not sent: paths carry no version.
const InterfaceVersion = "1.0.0"

// Config configures a [Client].
type Config struct {
	// BaseURL is the address of the service, {base_url} in the interface document. It is required, absolute
	// and https, may carry a path, and holds no user, query or fragment. http is accepted for a loopback
	// address, and for others with AllowPlainHTTP.
	BaseURL string
	// PartnerID and ProjectID are the caller's ids (section 1). Both are required.
	PartnerID int64
	ProjectID int64
	// Signer signs every attempt (section 5). It is required; see [NewHMACSigner].
	Signer Signer

	// HTTPClient sends the requests. nil means one on [NewTransport] and NOT http.DefaultTransport: a mock that replaces
	// that one, such as httpmock.Activate, is not used. HTTPClient is copied and never changed, and follows no redirect.
	//
	// A Transport that is not an *http.Transport proves nothing about what it sent, so its failures are [OutcomeUnknown];
	// see TrustTransport. One that sends a request again through an *http.Transport is stopped before the second delivery,
	// as long as it passes on the values of the request's context and does not change both what is signed and where it
	// goes; the outcome is then unknown too.
	HTTPClient *http.Client
	// Timeout limits one attempt, reading the answer included; the context limits the whole call. 0 means
	// 30 seconds; less than a millisecond is an error.
	Timeout time.Duration
	// Retry says when a call is retried. The zero value retries, see there.
	Retry Retry
	// DecodeError finds the service's errors in its answers, whose format is not shown (section 7). nil means that only
	// the HTTP status tells an error, and then few prove a rejection: see [ErrorFields] and [OutcomeRejected].
	DecodeError ErrorDecoder
	// OnAttempt, when set, is called after every attempt with the caller's context. It must be safe for
	// concurrent use; the call waits for it.
	OnAttempt func(ctx context.Context, a Attempt)
	// UserAgent is sent as the User-Agent header; "" means "paymentsvc-go/1.0.0".
	UserAgent string
	// MaxResponseBytes limits one answer, decompressed; 0 means 1 MiB.
	MaxResponseBytes int64
	// AllowPlainHTTP accepts http for addresses that are not loopback: signatures and card data then travel
	// in the clear.
	AllowPlainHTTP bool
	// TrustTransport is your promise that HTTPClient.Transport passes the context on to an *http.Transport
	// and sends each request at most once, as OpenTelemetry's does. Its failures to connect are then
	// [OutcomeNotSent] and may be retried. Where the promise is broken, money may move twice.
	TrustTransport bool
}

// Retry says when a call is retried, with exponential back-off and jitter. Status calls and [Client.GetBalance] are
// retried when no answer or half of one came, and on HTTP 429 and 5xx; the calls that start something only when the
// attempt is [OutcomeNotSent].
type Retry struct {
	// MaxAttempts counts all attempts. 0 means 3; 1 disables retries.
	MaxAttempts int
	// BaseDelay is the wait before the second attempt, doubled before each further one; up to half of it is random. 0
	// means 200 ms; less than a millisecond is an error.
	BaseDelay time.Duration
	// MaxDelay limits every wait, including one that the service asks for with Retry-After. 0 means 5 seconds;
	// less than a millisecond is an error.
	MaxDelay time.Duration
}

// Attempt is what became of one attempt at a call.
type Attempt struct {
	// Endpoint is the path below Config.BaseURL, such as "init_payment/card".
	Endpoint string
	// Number counts from 1.
	Number int
	// HTTPStatus is the answer's, 0 without one.
	HTTPStatus int
	// Outcome is the call's so far: OutcomeNotSent only if no attempt up to this one was sent. It means nothing when Err
	// is nil; see [Attempt.Result].
	Outcome Outcome
	// Err is nil for a success and an *Error otherwise.
	Err error
	// Duration includes signing and reading the answer.
	Duration time.Duration
	// RetryIn is the wait before the next attempt, 0 when none follows.
	RetryIn time.Duration
}

// Result names what became of the attempt, for logs and metrics: "success", or Outcome's text.
func (a Attempt) Result() string {
	if a.Err == nil {
		return "success"
	}
	return a.Outcome.String()
}

// Client calls the endpoints of section 4. Create one with [NewClient] and keep it: it is safe for concurrent use, and
// its calls share connections.
type Client struct {
	// The transport, whose connections hold what was sent last, and the signer are reachable only through functions,
	// which fmt and reflect cannot look into. So even a copy shows nothing secret.
	transport   func() *transport.Client
	sign        func(req *http.Request, body []byte) error
	id          ids
	baseURL     string
	retry       transport.Retry
	decodeError ErrorDecoder
	onAttempt   func(ctx context.Context, a Attempt)
}

// NewTransport returns the transport of a [Client] without [Config].HTTPClient, for wrapping and changing.
//
// It uses HTTP/1.1 only, because over HTTP/2 a server that closes a connection, as nginx does every thousand requests,
// leaves calls unknown that never arrived. It keeps up to 100 idle connections per host, for less time than most servers,
// requires TLS 1.2, and takes a proxy from the environment.
//
// Its connections discard unsent bytes: if an attempt ends without a complete response, or if the process dies, the
// kernel resets the connection. Otherwise the kernel would continue to send, and the request could arrive after the call
// has failed. A reset does not recall bytes that already left the machine. For example, a proxy that has the whole
// request can still forward it. The reset is part of DialContext, so a function of your own must call this one.
func NewTransport() *http.Transport { return transport.Default() }

// NewClient returns a [Client] for cfg. Errors wrap [ErrInvalidRequest] and name the field.
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

// check returns the base address without a trailing slash, or what is wrong with the configuration.
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
		case field.value > 0 && field.value < field.least: // a bare 5 is five nanoseconds
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
		return "", invalid("UserAgent", "holds a control character")
	case cfg.HTTPClient != nil && cfg.HTTPClient.Transport != nil && jsonobject.IsNil(cfg.HTTPClient.Transport):
		return "", invalid("HTTPClient.Transport", "a nil pointer")
	}
	return base, nil
}

// checkBaseURL never repeats the address, which may hold a password by mistake.
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
		return "", invalid("BaseURL", "holds a user")
	case strings.ContainsAny(raw, "?#"):
		return "", invalid("BaseURL", "holds a query or a fragment")
	case u.Scheme == "http" && !allowPlain && !loopback(u.Hostname()):
		return "", invalid("BaseURL", "http for an address that is not loopback; use https, or set AllowPlainHTTP")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// ForProject returns a [Client] for another project of the same partner. It shares everything else with c, including its
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

// DecodesErrors reports whether [Config].DecodeError is set. Without it no response proves a rejection, so a program that
// pays automatically, such as package durable, requires it.
func (c *Client) DecodesErrors() bool { return c != nil && c.decodeError != nil }

// CloseIdleConnections closes the connections that are kept for later calls, also those of other Clients that share
// them. Calls in flight continue.
func (c *Client) CloseIdleConnections() {
	if c != nil && c.transport != nil {
		c.transport().CloseIdleConnections()
	}
}

// Format shows the ids and nothing secret.
func (c *Client) Format(f fmt.State, _ rune) {
	if c == nil {
		_, _ = io.WriteString(f, "<nil>")
		return
	}
	_, _ = fmt.Fprintf(f, "Client{PartnerID: %d, ProjectID: %d}", c.id.PartnerID, c.id.ProjectID)
}

// ids returns the two fields that every request has.
func (c *Client) ids() ids {
	if c == nil {
		return ids{}
	}
	return c.id
}

// endpoint is one of the calls in section 4.
type endpoint struct {
	path  string // below BaseURL
	read  bool   // calling it twice changes nothing
	proof string // the field that a success cannot lack, "" for order_id
}

// answer is a response that knows its fields in the document, and where the whole of it and the names of what could
// not be read go.
type answer interface {
	fields() (fields []jsonobject.Field, raw *json.RawMessage, malformed *[]string)
}

// call sends in to e in as many attempts as are safe, and reads the answer into a new T.
func call[T any, A interface {
	*T
	answer
}](ctx context.Context, c *Client, e endpoint, in any) (*T, error) {
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
	req := &transport.Request{URL: c.baseURL + "/" + e.path, Body: body, Sign: c.sign, Repeatable: e.read}

	arrived := false // the request of an earlier attempt may have
	for attempts := 0; ; {
		result := c.transport().Send(ctx, req)
		arrived = arrived || !result.NotSent
		result.NotSent = !arrived
		if result.Tried {
			attempts++
		}
		out := new(T) // anew, so that a half-read answer leaves nothing behind
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
			interrupted := *failure // which OnAttempt may have kept
			interrupted.Err = fmt.Errorf("%w, waiting to retry after: %w", err, failure.Err)
			return nil, &interrupted
		}
	}
}

// observe reports an attempt to Config.OnAttempt.
func (c *Client) observe(ctx context.Context, e endpoint, n int, result transport.Result, failure *Error, wait time.Duration) {
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
