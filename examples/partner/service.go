package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// openService opens the telemetry and the client of the service. If Service is empty, it starts the fake.
func (p *program) openService(ctx context.Context) (err error) {
	p.measure, err = newTelemetry(ctx, p.set.Traces, p.log)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, p.measure.Close)
	address := p.set.Service
	if address == "" {
		p.fake, err = startFake(p.set, p.log)
		if err != nil {
			return err
		}
		p.ends = append(p.ends, p.fake.Close)
		address = p.fake.URL
	}
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: p.set.Scheme, Secret: p.set.Keys[0]})
	if err != nil {
		return err
	}
	p.client, err = paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: p.set.Partner, ProjectID: p.set.Project, Signer: signer,
		Timeout:     20 * time.Second, // per attempt, so that a status call has time for a second attempt
		DecodeError: p.set.DecodeError,
		OnAttempt:   p.measure.OnAttempt,
	})
	if err != nil {
		return err
	}
	p.ends = append(p.ends, p.client.CloseIdleConnections)
	return nil
}

// decoders returns the decoder of the service's errors, and a function to recognize the error "no such payment". The
// interface document does not specify the fields and codes of errors (section 7). Without codes, the function accepts
// no error.
func decoders(fields, notFound, duplicates string) (paymentsvc.ErrorDecoder, func(*paymentsvc.Error) bool, error) {
	names, missing, repeated := split(fields), split(notFound), split(duplicates)
	if len(names) != 2 {
		return nil, nil, errors.New("-error-fields needs the names of two fields: code,message")
	}
	read := paymentsvc.ErrorFields(names[0], names[1])
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := read(status, body)
		if reported != nil && slices.Contains(repeated, reported.Code) {
			reported.Effect = paymentsvc.EffectPossible // an earlier call may have reached the service
		}
		return reported
	}
	return decode, func(err *paymentsvc.Error) bool {
		reported, _ := errors.AsType[*paymentsvc.ServiceError](err)
		return reported != nil && err.Outcome == paymentsvc.OutcomeRejected && slices.Contains(missing, reported.Code)
	}, nil
}

// Settings of the fake. They are made up, and do not describe the service.
const (
	demoPartner  = 1001
	demoProject  = 2002
	demoSecret   = "the secret of the partner example, which protects nothing"
	demoScheme   = `hex(timestamp "." body)`
	demoFields   = "error_code,error_message"
	demoBalance  = "250000.00"
	demoSettling = 2 * time.Second // the time from a start to its final status is up to twice as long
)

// demo replaces partner, project, keys, scheme and errors by those of the fake. It names an operator if no flag does.
func (set *settings) demo() (err error) {
	if set.UserHeader == "" {
		set.AdminUser = cmp.Or(set.AdminUser, "demo")
	}
	set.Partner, set.Project, set.Keys = demoPartner, demoProject, []paymentsvc.Secret{demoSecret}
	set.DecodeError, set.NotFound, err = decoders(demoFields,
		string(paymentsvctest.ProblemNotFound), string(paymentsvctest.ProblemRepeated))
	if err == nil {
		set.Scheme, err = canonical.ParseScheme(demoScheme)
	}
	return err
}

// fakeService is a fake of the service inside this process.
type fakeService struct {
	*paymentsvctest.Server
	log *slog.Logger
}

func startFake(set *settings, log *slog.Logger) (*fakeService, error) {
	server, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: set.Partner, Scheme: set.Scheme,
		Projects: []paymentsvctest.Project{{
			ID: set.Project, Secret: set.Keys[0], Balance: paymentsvc.MustParseAmount(demoBalance),
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := server.Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	log.Warn("without -service, calls go to a fake in this process: its responses are made up, and no money moves")
	return &fakeService{server, log}, nil
}

// importDemo queues 40 payouts, so that the operators' page is not empty.
func (p *program) importDemo(ctx context.Context) error {
	var file bytes.Buffer
	if err := writePayouts(&file, 40); err != nil {
		return err
	}
	config := payoutcsv.ImportConfig{DB: p.db, Store: p.store, Name: "demo.csv"}
	_, err := payoutcsv.Import(ctx, config, bytes.NewReader(file.Bytes()))
	return err
}

// live settles orders shortly after their start, and sends the notifications, until ctx is done. One order in twelve
// fails.
func (f *fakeService) live(ctx context.Context, notifications string) error {
	f.SetReceiver(paymentsvctest.ToURL(notifications))
	for before := 0; ctx.Err() == nil; pause(ctx, demoSettling) {
		orders := f.Orders()
		for _, order := range orders[:before] {
			if order.Status.Final() {
				continue
			}
			status := paymentsvc.StatusSuccess
			if order.Number%12 == 0 {
				status = paymentsvc.StatusFailure
			}
			if _, err := f.Settle(order.OrderID, status); err != nil {
				f.log.Error("the fake cannot settle an order", "order_id", order.OrderID, "err", err)
			}
		}
		before = len(orders)
		f.Deliver(ctx)
	}
	return nil
}
