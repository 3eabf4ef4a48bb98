package main

import (
	"errors"
	"net/http"
	"slices"

	"github.com/paymentsvc/paymentsvc"
)

// decoders returns what reads the service's errors. The interface document shows neither their fields nor their codes
// (section 7): without names, only the HTTP status tells an error, and without codes, no answer means "no such payment".
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
			reported.Effect = paymentsvc.EffectPossible // the service may have it by an earlier call
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
		Timeout:     set.CallTimeout / 2, // of one attempt: a status call has time for a second one
		DecodeError: set.DecodeError,
		OnAttempt:   measure.OnAttempt,
	})
}

// newWebhook returns what verifies notifications, with either key during a rotation.
func newWebhook(set *settings, onError func(*http.Request, error)) (*paymentsvc.Webhook, error) {
	return paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: set.Scheme, Secrets: set.Keys, Tolerance: set.Tolerance, OnError: onError,
	})
}
