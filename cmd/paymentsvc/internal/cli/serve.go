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

// Listen listens on a TCP address. The host localhost is both loopbacks, 127.0.0.1 and ::1, with one port, since clients
// differ in which they try; port 0 is a free port. An error exits with [ExitMachine].
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

// BaseURL returns the address of the first listener as clients on this machine reach it.
func BaseURL(listeners []net.Listener) string {
	tcp, ok := listeners[0].Addr().(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(tcp.String())
		return "http://" + net.JoinHostPort("localhost", port)
	}
	return "http://" + listeners[0].Addr().String()
}

// NewServer returns a server that limits how long a request may take to arrive. Its answers may take any time, and it
// logs nothing.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // standard error has notes and errors only
	}
}

// Serve serves until ctx ends, and then until the requests in flight are answered; grace limits that, 0 does not. An
// error exits with [ExitMachine]: a listener has died, or grace has passed and requests were cut off.
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
		died = cmp.Or(died, <-ended) // the server is closed, so that it comes soon
	}
	if died != nil && !errors.Is(died, http.ErrServerClosed) {
		err = died
	}
	if err != nil {
		return &ExitError{ExitMachine, err}
	}
	return nil
}
