package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/paymentsvc/paymentsvc"
)

// newClient returns a client that uses no proxy, follows no redirects and sends a message once. The context of a request
// limits its time.
func newClient() *http.Client {
	transport := paymentsvc.NewTransport()
	transport.Proxy = nil
	transport.DisableCompression = true
	transport.DisableKeepAlives = true // a POST on a connection that the receiver is closing would be lost
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dials records the addresses that a request dials.
type dials struct {
	mu        sync.Mutex
	addresses []string
}

func (d *dials) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectStart: func(_, address string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.addresses = append(d.addresses, address)
	}})
}

// explain says why there was no answer. It names the addresses that were dialled, since localhost is two of them, and
// holds nothing of the URL's path and query.
func (d *dials) explain(err error) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	dialled := strings.Join(d.addresses, " and ")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time from " + dialled
	case errors.Is(err, syscall.ECONNREFUSED):
		return dialled + " refused the connection"
	}
	return err.Error()
}

// loopback reports whether this machine itself was dialled.
func (d *dials) loopback() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.addresses, func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err == nil && net.ParseIP(host).IsLoopback()
	})
}

// shownAddress returns an address without its query, which may hold a token.
func shownAddress(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	if u.RawQuery != "" {
		return shown.String() + "?..."
	}
	return shown.String()
}

// endToEnd returns the headers that a proxy passes on.
func endToEnd(h http.Header) http.Header {
	passed := h.Clone()
	for _, names := range h.Values("Connection") {
		for name := range strings.SplitSeq(names, ",") {
			passed.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade",
	} {
		passed.Del(name)
	}
	return passed
}

// accepted reports whether a status means that the receiver took the message. That it is any 2xx is this command's
// choice: the document does not show it (section 6).
func accepted(status int) bool { return status/100 == 2 }
