// Package check finds out details that the interface document does not specify, with read-only requests. A [Session]
// sends the requests. [Connection] and [Derive] derive facts from the responses, and do not use the network.
package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"path"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

const maxRequests, maxResponse = 20, 1 << 20

// The kinds of probes.
const (
	Correct      = "correct request"
	Repeated     = "same signature again"
	KnownOrder   = "your payment"
	UnknownOrder = "unknown order_id"
	UnknownData  = "unknown user_data"
	UnknownOut   = "unknown payout"
	OtherProject = "unknown project"
	Past         = "old timestamp"
	Future       = "future timestamp"
	WrongKey     = "wrong signature"
)

// Probe is one read-only request. Seconds is the timestamp minus the service's time, so it is negative for the past.
type Probe struct {
	Kind     string `json:"kind"`
	Endpoint string `json:"endpoint"`
	Seconds  int    `json:"timestamp_offset_seconds"`
}

// String returns a description of the probe in one line.
func (p Probe) String() string {
	if p.Seconds == 0 {
		return p.Endpoint + ", " + p.Kind
	}
	return fmt.Sprintf("%s, %s, %+d s", p.Endpoint, p.Kind, p.Seconds)
}

// Plan returns the fixed list of probes, with [KnownOrder] if withOrder is true. Correct requests between the probes
// detect a lockout. Only a correct request follows the wrong signature, the most likely reason for a lockout.
func Plan(withOrder bool) []Probe {
	const balance, payment = "get_balance", "status_payment"
	plan := []Probe{
		{Correct, balance, 0}, {Repeated, balance, 0}, {KnownOrder, payment, 0}, {UnknownOrder, payment, 0},
		{UnknownOrder, payment, 0}, {UnknownData, payment, 0}, {UnknownData, payment, 0}, {UnknownOut, "status_payout", 0},
		{OtherProject, balance, 0}, {Past, balance, -50}, {Past, balance, -290}, {Past, balance, -890},
		{Past, balance, -3500}, {Correct, balance, 0}, {Future, balance, 50}, {Future, balance, 290},
		{Future, balance, 890}, {Correct, balance, 0}, {WrongKey, balance, 0}, {Correct, balance, 0},
	}
	return slices.DeleteFunc(plan, func(p Probe) bool { return p.Kind == KnownOrder && !withOrder })
}

// Exchange is a probe with its response, or with the transport's error.
type Exchange struct {
	Probe
	*http.Response
	Request       *http.Request // Sent has its body
	Sent, Body    []byte
	Remote, Proxy string // addresses; Proxy is "" without a proxy
	Start, End    time.Time
	Err           error
	Balance       *paymentsvc.Balance // nil if get_balance was not called, failed, or was not accepted
	Accepted      bool                // true if the response is a success
	order         string              // order_id or user_data
}

// Session sends probes sequentially. All fields except OrderID are required. It is not safe for concurrent use.
type Session struct {
	BaseURL          string
	Partner, Project int64
	Scheme           paymentsvc.Scheme
	Secret           paymentsvc.Secret
	OrderID          string // for [KnownOrder]
	Transport        *http.Transport
	Now              func() time.Time
	Wait             func(context.Context) error    // between two requests
	Done             func(n int, x *Exchange) error // after request n

	seen []*Exchange
	sent int
	skew time.Duration
}

// client returns a client that signs as the probe requires, and records the exchange.
func (s *Session) client(x *Exchange) (*paymentsvc.Client, error) {
	project, secret := s.Project, s.Secret
	switch x.Kind {
	case OtherProject:
		project = 1<<52 + s.Now().UnixNano()%(1<<52) // below 2^53, exact in every JSON parser
	case WrongKey:
		secret = paymentsvc.Secret(rand.Text())
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: s.Scheme, Secret: secret, SecretEndsInLineBreak: true,
		Now: func() time.Time { return s.Now().Add(s.skew + time.Duration(x.Seconds)*time.Second) },
	})
	if err != nil {
		return nil, err
	}
	sign := func(req *http.Request, body []byte) error {
		if x.Kind == Repeated {
			maps.Copy(req.Header, s.seen[0].Request.Header)
			return nil
		}
		return signer.Sign(req, body)
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: s.BaseURL, PartnerID: s.Partner, ProjectID: project, Signer: paymentsvc.SignerFunc(sign),
		HTTPClient: &http.Client{Transport: recorder{s, x}}, MaxResponseBytes: maxResponse,
		Retry: paymentsvc.Retry{MaxAttempts: 1},
	})
}

// recorder is the transport for one exchange.
type recorder struct {
	*Session
	x *Exchange
}

// RoundTrip sends a request and records the exchange. It rejects endpoints that are not read-only, and requests after
// maxRequests.
func (s recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	readOnly := []string{"get_balance", "status_payment", "status_payout"}
	if _, endpoint := path.Split(req.URL.Path); !slices.Contains(readOnly, endpoint) {
		return nil, errors.New("check: not a read-only endpoint")
	}
	s.sent++
	if s.sent > maxRequests {
		return nil, errors.New("check: too many requests")
	}
	x := s.x
	x.Sent, _ = io.ReadAll(req.Body) // reading from memory never fails
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { x.Remote = c.Conn.RemoteAddr().String() }}
	x.Request = req.Clone(httptrace.WithClientTrace(req.Context(), trace))
	x.Request.Body = io.NopCloser(bytes.NewReader(x.Sent))
	if s.Transport.Proxy != nil {
		if proxy, err := s.Transport.Proxy(req); err == nil && proxy != nil {
			x.Proxy = proxy.Host
		}
	}
	x.Start = s.Now()
	resp, err := s.Transport.RoundTrip(x.Request)
	if err == nil {
		x.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse))
		_ = resp.Body.Close() // the body is read
	}
	x.End = s.Now()
	if err != nil {
		x.Err = transport.ForLogs(err)
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.Body))
	x.Response = resp
	return resp, nil
}

// call calls the endpoint of a probe.
func (s *Session) call(ctx context.Context, x *Exchange) error {
	client, err := s.client(x)
	switch {
	case err != nil:
	case x.Endpoint == "get_balance":
		x.Balance, err = client.GetBalance(ctx)
	case x.Endpoint == "status_payout":
		_, err = client.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: x.order})
	case x.Kind == UnknownData:
		_, err = client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: x.order})
	default:
		_, err = client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{OrderID: x.order})
	}
	return err
}

// Run sends the probes of a plan until a sign of a lockout, returned as stopped. After a rejected old or future
// timestamp, it skips the other timestamps of this kind. After an error of ctx, Wait, Done or the configuration, it
// returns no exchanges.
func (s *Session) Run(ctx context.Context, plan []Probe) (seen []*Exchange, stopped string, err error) {
	rejected := map[string]bool{}
	for _, p := range plan {
		if p.Seconds != 0 && rejected[p.Kind] {
			continue
		}
		if len(s.seen) > 0 {
			if err := s.Wait(ctx); err != nil {
				return nil, "", err
			}
		}
		x := &Exchange{Probe: p, order: paymentsvc.NewUserData()}
		if p.Kind == KnownOrder {
			x.order = s.OrderID
		}
		err := s.call(ctx, x)
		if x.Request == nil || ctx.Err() != nil { // not signed or not sent, or interrupted
			return nil, "", cmp.Or(err, ctx.Err())
		}
		x.Accepted = err == nil && (x.Balance == nil || s.isSuccess(x))
		if !x.Accepted {
			x.Balance, rejected[p.Kind] = nil, true
		}
		s.seen = append(s.seen, x)
		if err := s.Done(len(s.seen), x); err != nil {
			return nil, "", err
		}
		if len(s.seen) == 1 {
			s.skew, _ = x.skew()
		}
		if stopped := x.lockout(); stopped != "" {
			return s.seen, stopped, nil
		}
	}
	return s.seen, "", nil
}

// isSuccess reports whether a balance has a currency and the codes of the first success. The amount is no evidence,
// because an error may have the fields of a balance too.
func (s *Session) isSuccess(x *Exchange) bool {
	return x.Balance.Currency != "" && !slices.ContainsFunc(fieldsOf(x), func(name string) bool {
		return len(s.seen) > 0 && codeName.MatchString(name) && valueAt(x.Body, name) != valueAt(s.seen[0].Body, name)
	})
}

// lockout returns the sign of a lockout in a response or in the transport's error, or "" without a sign.
func (x *Exchange) lockout() string {
	switch {
	case x.Err != nil:
		return "no response: " + x.Err.Error()
	case x.StatusCode == http.StatusTooManyRequests:
		return "HTTP 429"
	case x.Header.Get("Retry-After") != "":
		return fmt.Sprintf("HTTP %d with Retry-After", x.StatusCode)
	case x.Kind == Correct && !x.Accepted:
		return fmt.Sprintf("a correct request was rejected with HTTP %d", x.StatusCode)
	}
	return ""
}
