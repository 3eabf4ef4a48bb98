// Command mockserver is a mock server of the Payment Service, for tests in any language: it answers the seven
// endpoints of the interface document, checks every signature, sends signed notifications, and injects faults. A web
// page at /ui/ shows its orders, settles them, sends notifications and injects faults.
//
//	go run ./examples/mockserver -addr 127.0.0.1:8080 -notify http://127.0.0.1:9000/notifications
//
// It is package paymentsvctest with an address and a page. What the interface document does not show is this mock's
// choice, or yours by a flag, and the page marks it; -help lists the flags. On SIGINT or SIGTERM it answers the
// requests in flight and ends. It stores nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func main() { os.Exit(runUntilSignal(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// runUntilSignal runs until SIGINT or SIGTERM. A second signal ends the process at once.
func runUntilSignal(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, args, stdout, stderr)
}

// run serves until ctx ends, and returns the exit status: 0, 1 when it could not serve, 2 for invalid flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set, code := readFlags(args, stderr)
	if set == nil {
		return code
	}
	mock, err := paymentsvctest.New(set.config())
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "mockserver:", err)
		return 2
	}
	defer mock.Close()
	if err := serve(ctx, set, mock, stdout, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		_, _ = fmt.Fprintln(stderr, "mockserver:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, set *settings, mock *paymentsvctest.Server, stdout io.Writer, log *slog.Logger) error {
	if set.Notify != "" {
		mock.SetReceiver(paymentsvctest.ToURL(set.Notify))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", set.Addr)
	if err != nil {
		return err
	}
	loopback := isLoopback(listener.Addr())
	page := newPage(set, mock, log)
	seven := &observer{mock: mock, basePath: set.BasePath, log: log}
	server := newServer(route(seven, page.handler(loopback)), log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	introduce(set, listener.Addr(), stdout)
	warn(set, loopback, log)

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	shutDown(context.WithoutCancel(ctx), server, mock, set.Grace, log)
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newServer limits how long a request may take to arrive. The page limits its own answers; those of the interface may
// be slow on purpose.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// shutDown accepts no more connections, and waits for the requests in flight as long as grace.
func shutDown(ctx context.Context, server *http.Server, mock *paymentsvctest.Server, grace time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	log.Info("stopping", "grace", grace)
	err := server.Shutdown(ctx)
	if err == nil {
		err = mock.Drain(ctx) // of the connections that http.Server has given away
	}
	if err != nil {
		log.Warn("cut off what was still under way, such as requests that hang on purpose", "grace", grace)
	}
	mock.Close() // ends what hangs
	_ = server.Close()
	log.Info("stopped")
}

// route separates the page's requests from those of the interface.
func route(mock, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPage(r.URL.Path) || r.Method != http.MethodPost && (r.URL.Path == "/" || r.URL.Path == "/favicon.ico") {
			page.ServeHTTP(w, r)
			return
		}
		mock.ServeHTTP(w, r)
	})
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// introduce prints what a caller must know. It ignores write errors.
func introduce(set *settings, addr net.Addr, stdout io.Writer) {
	line := func(label, text string) { _, _ = fmt.Fprintf(stdout, "  %-18s%s\n", label, text) }
	base := "http://" + reachable(addr)
	_, _ = fmt.Fprintf(stdout, "Payment Service Partner Interface %s, a mock server\n\n", paymentsvc.InterfaceVersion)
	line("interface", base+set.BasePath)
	line("page", base+"/ui/")
	line("caller", fmt.Sprintf("partner %d, project %d", set.PartnerID, set.ProjectID))
	line("scheme", fmt.Sprintf("%s (%s)", set.Scheme, set.SchemeBy))
	if set.Notify != "" {
		line("notifications", "to "+set.receiver())
	} else {
		line("notifications", "to nobody; -notify says to whom")
	}
	line("made up", "this mock's choice is whatever the interface document does not show: the numbers of the")
	line("", "statuses, the errors' fields, codes and HTTP statuses, and more, as the page marks it")
}

// reachable returns an address that a program on this machine can call.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}

func warn(set *settings, loopback bool, log *slog.Logger) {
	if set.demo {
		log.Warn("no -secret-file: requests are checked with the demo secret of this example, which is in its source and protects nothing")
	}
	if !loopback {
		log.Warn("this is not a loopback address: whoever reaches it can use the page, which asks for no password")
	}
}
