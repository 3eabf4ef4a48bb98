package main

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// What the fake is set up with. All that it does is made up, and none of it is a promise of the service.
const (
	demoPartner   = 1001
	demoProject   = 2002
	demoSecret    = "the secret of the partner example, which protects nothing"
	demoBalance   = "250000.00"
	demoNotFound  = string(paymentsvctest.ProblemNotFound)
	demoFields    = "error_code,error_message"
	demoDuplicate = string(paymentsvctest.ProblemRepeated)
	// demoSettling is how long the fake takes for an order.
	demoSettling = 3 * time.Second
)

// demo sets what the fake needs, whatever the flags say.
func (set *settings) demo() {
	set.Partner, set.Project, set.Secret, set.OldSecret = demoPartner, demoProject, demoSecret, ""
	set.NotFound = notFound(demoNotFound)
	set.DecodeError, _ = errorFields(demoFields, demoDuplicate) // which are two names
}

// fakeService is the service, inside this process.
type fakeService struct {
	*paymentsvctest.Server
	log  *slog.Logger
	seen map[string]time.Time // when the orders that are under way were first seen, by order_id
	paid int
}

func startFake(set *settings, log *slog.Logger) (*fakeService, error) {
	server, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: set.Partner,
		Projects: []paymentsvctest.Project{{
			ID: set.Project, Secret: set.Secret, Balance: paymentsvc.MustParseAmount(demoBalance),
		}},
		Scheme: scheme(),
	})
	if err != nil {
		return nil, err
	}
	if err := server.Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	if set.DemoFaults > 0 {
		server.Chaos(paymentsvctest.Chaos{
			OneIn: set.DemoFaults,
			Faults: []paymentsvctest.Fault{
				paymentsvctest.Drop(paymentsvctest.BeforeCommit),
				paymentsvctest.Drop(paymentsvctest.AfterCommit),
				paymentsvctest.BadGateway(paymentsvctest.AfterCommit),
			},
			NotificationFaults: []paymentsvctest.NotificationFault{paymentsvctest.RepeatedBy(1), paymentsvctest.Forged()},
		})
	}
	log.Warn("no -service: a fake inside this process takes the calls; all that it does is made up, and no money moves")
	return &fakeService{Server: server, log: log, seen: map[string]time.Time{}}, nil
}

// importDemo has some payouts to show with the fake: a file as make-payouts writes it, and a row in it that is none.
func (s *serving) importDemo(ctx context.Context) error {
	if s.fake == nil {
		return nil
	}
	var file bytes.Buffer
	if err := payouts.Make(&file, 40); err != nil {
		return err
	}
	file.WriteString("salary-000041,a lot,4111111111111111\n")
	ctx = context.WithoutCancel(ctx) // it is over in a moment, and to be stopped in it is no error
	_, err := payouts.Import(ctx, payouts.ImportConfig{Store: s.store, Queue: s.queue, Name: "demo.csv"}, bytes.NewReader(file.Bytes()))
	return err
}

// live settles orders a moment after they were started and sends the notifications, until ctx is done.
func (f *fakeService) live(ctx context.Context, notifications string) error {
	f.SetReceiver(paymentsvctest.ToURL(notifications))
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			f.settle(now)
			f.Deliver(ctx)
		}
	}
}

func (f *fakeService) settle(now time.Time) {
	for _, order := range f.Orders() {
		if order.Status.Final() {
			continue
		}
		since, seen := f.seen[order.OrderID]
		if !seen {
			f.seen[order.OrderID] = now
		}
		if !seen || now.Sub(since) < demoSettling {
			continue
		}
		delete(f.seen, order.OrderID)
		if err := f.end(order); err != nil {
			f.log.Error("the fake cannot settle an order", "order_id", order.OrderID, "err", err)
		}
	}
}

// end settles one order: one in twelve fails, and one payment in eight that was paid is given back.
func (f *fakeService) end(order paymentsvctest.Order) error {
	status := paymentsvc.StatusSuccess
	if order.Number%12 == 0 {
		status = paymentsvc.StatusFailure
	}
	if _, err := f.Settle(order.OrderID, status); err != nil {
		return err
	}
	if order.Kind != paymentsvctest.KindPayment || status != paymentsvc.StatusSuccess {
		return nil
	}
	if f.paid++; f.paid%8 != 0 {
		return nil
	}
	_, err := f.Refund(order.OrderID, order.Amount, paymentsvc.StatusSuccess)
	return err
}
