package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/web"
)

// serving is the program while it serves.
type serving struct {
	*program
	workers  []worker
	queue    payouts.Queue
	stopping atomic.Bool
}

// worker is a part that runs until its context is done, and returns when what it has begun is recorded.
type worker struct {
	name string
	run  func(context.Context) error
}

// serve serves until ctx ends, or a part of it does that should not.
func serve(ctx context.Context, set *settings, stdout, stderr io.Writer) error {
	p, err := open(ctx, set, stderr)
	if err != nil {
		return err
	}
	defer p.Close()
	s := &serving{program: p}
	public, admin, err := s.handlers(ctx)
	if err != nil {
		return err
	}
	publicListener, err := new(net.ListenConfig).Listen(ctx, "tcp", set.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = publicListener.Close() }()
	adminListener, err := new(net.ListenConfig).Listen(ctx, "tcp", set.Admin)
	if err != nil {
		return err
	}
	defer func() { _ = adminListener.Close() }()
	if tcp, ok := adminListener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		p.log.Warn("-admin is no loopback address, and its pages ask for no password: let nobody but your login reach them")
	}
	return s.until(ctx, []site{
		{"public", publicListener, web.Server(public, web.AnswerTime, p.log)},
		{"admin", adminListener, web.Server(admin, web.AnswerTime, p.log)},
	}, stdout)
}

// site is an http.Server at its listener.
type site struct {
	name     string
	listener net.Listener
	server   *http.Server
}

func (s site) url() string { return "http://" + reachable(s.listener.Addr()) }

// reachable gives an address that a program on this machine can call.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}

// until runs everything until ctx ends or one part fails, and ends it in an order in which nothing is cut off: no new
// requests first, then what the calls under way have to record.
func (s *serving) until(ctx context.Context, sites []site, stdout io.Writer) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx)) // it ends after the requests
	defer stopWork()
	failed := make(chan error, len(sites)+len(s.workers))
	workersEnded := make(chan struct{})
	if s.fake != nil {
		s.workers = append(s.workers, worker{"the fake", func(ctx context.Context) error {
			return s.fake.live(ctx, sites[0].url()+"/notifications")
		}})
	}
	s.start(work, failed, workersEnded)
	for _, site := range sites {
		go func() {
			if err := site.server.Serve(site.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s: %w", site.name, err)
			}
		}()
		_, _ = fmt.Fprintln(stdout, site.name, site.url()) // a reader that has gone away is no reason to stop
	}
	err := s.importDemo(ctx)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	s.stop(ctx, sites, stopWork, workersEnded)
	return err
}

// start starts the workers, and closes ended when all have ended.
func (s *serving) start(ctx context.Context, failed chan<- error, ended chan<- struct{}) {
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() {
			err := w.run(ctx)
			switch {
			case ctx.Err() == nil:
				failed <- errors.Join(errors.New(w.name+" has ended"), err)
			case err != nil && !errors.Is(err, context.Canceled):
				s.log.Error("a part ended with an error", "part", w.name, "err", err)
			}
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
}

// stop ends everything, and waits no longer than a call may take. What is not recorded by then counts as unknown after
// the lease.
func (s *serving) stop(ctx context.Context, sites []site, stopWork func(), workersEnded <-chan struct{}) {
	s.stopping.Store(true)
	s.log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), web.AnswerTime+s.set.CallTimeout+10*time.Second)
	defer cancel()
	shutDown(ctx, sites[0].server, web.AnswerTime)
	stopWork()
	select {
	case <-workersEnded:
	case <-ctx.Done():
		s.log.Error("calls are still under way: their outcomes count as unknown after the lease", "lease", s.set.Lease)
	}
	shutDown(ctx, sites[1].server, 2*time.Second)
	s.log.Info("stopped")
}

// shutDown takes no more connections, and cuts off those whose requests have not ended in time.
func shutDown(ctx context.Context, server *http.Server, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}
