package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/telemetry"
)

// program is what the commands have in common: the database, the service and what measures them.
type program struct {
	set     *settings
	log     *slog.Logger
	store   *store.Store
	fake    *fakeService // nil with a service
	measure *telemetry.Telemetry
	client  *paymentsvc.Client
	calls   *telemetry.Calls
	ends    []func() // in their order, the last first
}

// open makes a program. Close it in the end.
func open(ctx context.Context, set *settings, stderr io.Writer) (*program, error) {
	p := &program{set: set, log: set.logger(stderr)}
	err := p.openStore(ctx)
	if err == nil {
		err = p.openService(ctx)
	}
	if err == nil { // and not before, or the database would belong to a service that has been refused
		err = p.store.BelongTo(ctx, p.service())
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *program) openStore(ctx context.Context) error {
	address := p.set.Database
	if address == "" {
		dir, err := os.MkdirTemp("", "partner-")
		if err != nil {
			return err
		}
		p.ends = append(p.ends, func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "partner.db")
		p.log.Warn("no -database: all is forgotten in the end")
	}
	var err error
	if p.store, err = store.Open(ctx, store.Options{URL: address}); err != nil {
		return err
	}
	p.ends = append(p.ends, p.store.Close)
	return nil
}

// service names whom the calls go to.
func (p *program) service() string {
	if p.set.Service == "" {
		return "the fake " + rand.Text() // it is known to no other process, and its order_ids begin anew
	}
	return fmt.Sprintf("%s, partner %d, project %d", p.set.Service, p.set.Partner, p.set.Project)
}

func (p *program) openService(ctx context.Context) (err error) {
	p.measure, err = telemetry.New(ctx, telemetry.Config{Traces: p.set.Traces, Log: p.log})
	if err != nil {
		return err
	}
	p.ends = append(p.ends, p.flush)
	// OpenTelemetry has one handler of errors in a process, which would write past the log.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { p.log.Warn("the telemetry has failed", "err", err) }))
	address := p.set.Service
	if address == "" {
		if p.fake, err = startFake(p.set, p.log); err != nil {
			return err
		}
		p.ends = append(p.ends, p.fake.Close)
		address = p.fake.URL
	}
	if p.client, err = newClient(p.set, address, p.measure); err != nil {
		return err
	}
	p.ends = append(p.ends, p.client.CloseIdleConnections)
	p.calls = p.measure.Calls(p.client)
	return nil
}

func (p *program) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.measure.Shutdown(ctx); err != nil {
		p.log.Warn("not all of the telemetry has been sent", "err", err)
	}
}

// Close ends what open began, the last first.
func (p *program) Close() {
	for len(p.ends) > 0 {
		last := len(p.ends) - 1
		p.ends[last]()
		p.ends = p.ends[:last]
	}
}
