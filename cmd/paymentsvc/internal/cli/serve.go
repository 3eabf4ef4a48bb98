package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Listen listens on a TCP address. localhost is both 127.0.0.1 and ::1 with one port, because clients try different
// ones. Port 0 is a free port. An error exits with [ExitMachine].
func Listen(ctx context.Context, addr string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, Usagef("-addr: want HOST:PORT, such as localhost:9000")
	}
	if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		return nil, Usagef("-addr: want a port from 0 to 65535")
	}
	hosts := []string{host}
	if strings.EqualFold(host, "localhost") {
		hosts = []string{"127.0.0.1", "::1"}
	}
	var listeners []net.Listener
	for i, host := range hosts {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil && i > 0 && !errors.Is(err, syscall.EADDRINUSE) {
			continue // a machine without IPv6
		}
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, &ExitError{ExitMachine, err}
		}
		if port == "0" {
			_, port, _ = net.SplitHostPort(l.Addr().String())
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// BaseURL returns the local address of the first listener.
func BaseURL(listeners []net.Listener) string {
	tcp, ok := listeners[0].Addr().(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(tcp.String())
		return "http://" + net.JoinHostPort("localhost", port)
	}
	return "http://" + listeners[0].Addr().String()
}

// NewServer returns a server with time limits for requests, but not for responses. It does not log.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // standard error is for notes and errors
	}
}

// Serve serves until ctx ends. Then it completes the requests in flight, within grace unless grace is 0. If a
// listener fails or requests remain after grace, the error exits with [ExitMachine].
func Serve(ctx context.Context, server *http.Server, listeners []net.Listener, grace time.Duration) error {
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	var died error
	running := len(listeners)
	select {
	case died = <-ended:
		running--
	case <-ctx.Done():
	}
	stop := context.WithoutCancel(ctx)
	if grace > 0 {
		var cancel context.CancelFunc
		stop, cancel = context.WithTimeout(stop, grace)
		defer cancel()
	}
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.New("requests in flight were cut off")
	}
	_ = server.Close()
	for range running {
		died = cmp.Or(died, <-ended) // soon, because the server is closed
	}
	if died != nil && !errors.Is(died, http.ErrServerClosed) {
		err = died
	}
	if err != nil {
		return &ExitError{ExitMachine, err}
	}
	return nil
}
