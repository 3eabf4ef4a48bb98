package main

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// decoders returns the decoder of the service's errors, and a function to recognize the error "no such payment". The
// interface document does not specify the fields and codes of errors (section 7). Without names of fields, only the
// HTTP status identifies an error. Without codes, no response is taken as "no such payment".
func decoders(fields, notFound, duplicates string) (paymentsvc.ErrorDecoder, func(*paymentsvc.Error) bool, error) {
	names, missing, repeated := split(fields), split(notFound), split(duplicates)
	switch {
	case len(names) == 0 && len(missing)+len(repeated) == 0:
		return nil, nil, nil
	case len(names) != 2:
		return nil, nil, errors.New("-error-fields, which -not-found-codes and -duplicate-codes need, is code,message")
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
		reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
		return ok && err.Outcome == paymentsvc.OutcomeRejected && slices.Contains(missing, reported.Code)
	}, nil
}

// newClient returns the client of the service at address.
func newClient(set *settings, address string, measure *telemetry) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: set.Scheme, Secret: set.Keys[0]})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: set.Partner, ProjectID: set.Project, Signer: signer,
		Timeout:     20 * time.Second, // per attempt, so that a status call has time for a second attempt
		DecodeError: set.DecodeError,
		OnAttempt:   measure.OnAttempt,
	})
}

// newWebhook returns the verifier of notifications. During a rotation it accepts both keys.
func newWebhook(set *settings, onError func(*http.Request, error)) (*paymentsvc.Webhook, error) {
	return paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: set.Scheme, Secrets: set.Keys, OnError: onError,
		Tolerance: paymentsvc.AnyAge, // a duplicate has no effect here
	})
}
