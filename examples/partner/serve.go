package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/ops"
)

// serve serves both sites and does the background work until ctx ends or a part fails.
func (p *program) serve(ctx context.Context, stdout io.Writer) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: p.set.Scheme, Secrets: p.set.Keys, // during a rotation, both keys
		Tolerance:    paymentsvc.AnyAge, // a replay has no effect, because durable detects duplicates
		OnError:      func(_ *http.Request, err error) { p.log.Warn("a notification was rejected", "err", err) },
		OnUnreadable: p.store.KeepUnreadable,
	})
	if err != nil {
		return err
	}
	shopSite := site{"public", nil, newServer((&shop{program: p}).handler(webhook.Handler(p.store.Notified)), p.log)}
	operators := site{"admin", nil, newServer(p.operators(), p.log)}
	for _, s := range []struct {
		*site
		address string
	}{{&shopSite, p.set.Addr}, {&operators, p.set.Admin}} {
		s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.address)
		if err != nil {
			return err
		}
		defer func() { _ = s.listener.Close() }()
	}
	if tcp, ok := operators.listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		p.log.Warn("-admin is not a loopback address, and the operators' page has no password: " +
			"allow connections only from your login, or anybody can decide under any name")
	}
	return p.until(ctx, shopSite, operators, stdout)
}

// operators returns the handler of the operators' page and the metrics.
func (p *program) operators() http.Handler {
	config := ops.Config{Hosts: p.set.AdminHosts, Log: p.log}
	if p.fake != nil {
		config.Notice = "demo: the service is a fake"
	}
	if name := p.set.AdminUser; name != "" {
		config.Login = func(*http.Request) (string, bool) { return name, true }
	}
	if header := p.set.UserHeader; header != "" { // the login proxy must remove this header from incoming requests
		config.Login = func(r *http.Request) (string, bool) {
			names := r.Header.Values(header)
			if len(names) != 1 { // no name, or the proxy kept the client's name too
				return "", true
			}
			return names[0], true
		}
	}
	if config.Login == nil {
		p.log.Warn("nobody can decide on the operators' page: set -admin-user-header, or -admin-user for one operator")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", ops.OnlyHosts(p.set.AdminHosts, p.measure.Handler()))
	mux.Handle("/", ops.New(p.store, config))
	return mux
}

// site is a server with its listener.
type site struct {
	name     string
	listener net.Listener
	server   *http.Server
}

// newServer returns a server with a time limit for each step of a request. The context of a request has a deadline,
// because WriteTimeout does not end a query waiting for the database.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), waitForService+5*time.Second)
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// until runs both sites and the background work until ctx ends or a part fails. It then shuts down the shop,
// waits until durable has recorded the calls in flight, and shuts down the operators' site.
func (p *program) until(ctx context.Context, shopSite, operators site, stdout io.Writer) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var workers sync.WaitGroup
	failed := make(chan error, 4)
	start := func(name string, run func(context.Context) error) {
		workers.Go(func() {
			if err := run(work); work.Err() == nil {
				failed <- errors.Join(errors.New(name+" has ended"), err)
			}
		})
	}
	start("durable", p.store.Run)
	if p.fake != nil {
		start("the fake", func(ctx context.Context) error {
			return p.fake.live(ctx, "http://"+shopSite.listener.Addr().String()+"/notifications")
		})
		if err := p.importDemo(ctx); err != nil {
			failed <- err
		}
	}
	for _, s := range []site{shopSite, operators} {
		go func() {
			if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s: %w", s.name, err)
			}
		}()
		// A write error must not stop the service, because the reader may have left.
		_, _ = fmt.Fprintf(stdout, "%s http://%s\n", s.name, s.listener.Addr())
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	p.log.Info("stopping")
	shutDown(ctx, shopSite.server, waitForService+5*time.Second)
	stopWork()
	workers.Wait()
	shutDown(ctx, operators.server, 2*time.Second)
	return err
}

// shutDown shuts down a server. After the time most, it aborts the requests still running.
func shutDown(ctx context.Context, server *http.Server, most time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}
