package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
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
