package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// failures makes one failing call for each outcome, and returns an error if an outcome does not occur.
func failures(ctx context.Context, cfg paymentsvc.Config, out report) error {
	out.section("Calls made to fail, one for each outcome")
	if err := notSent(ctx, cfg, out); err != nil {
		return err
	}
	if err := rejected(ctx, cfg, out); err != nil {
		return err
	}
	return unknown(ctx, cfg, out)
}

// notSent calls an address without a server.
func notSent(ctx context.Context, cfg paymentsvc.Config, out report) error {
	cfg.BaseURL = "http://127.0.0.1:1"
	cfg.Retry = paymentsvc.Retry{BaseDelay: 10 * time.Millisecond} // the default is longer, for real failures
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, tenFifty())
	out.failure("InitPayment, server down", err)
	return expect(err, paymentsvc.OutcomeNotSent)
}

// rejected calls without a signature, which every server should reject.
func rejected(ctx context.Context, cfg paymentsvc.Config, out report) error {
	signer := cfg.Signer
	cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
		err := signer.Sign(r, body)
		r.Header.Del("Signature")
		return err
	})
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, tenFifty())
	out.failure("InitPayment, not signed", err)
	if answered := new(paymentsvc.Error); errors.As(err, &answered) && answered.Outcome == paymentsvc.OutcomeUnknown &&
		answered.HTTPStatus != 0 && answered.HTTPStatus/100 != 5 {
		return fmt.Errorf("name the fields of the server's errors with -error-fields: %w", err)
	}
	return expect(err, paymentsvc.OutcomeRejected)
}

// unknown loses the response to a successful call, and reconciles the payment by user_data.
func unknown(ctx context.Context, cfg paymentsvc.Config, out report) error {
	lossy := cfg
	lossy.HTTPClient = &http.Client{Transport: lostAnswers{&http.Transport{}}}
	client, err := paymentsvc.NewClient(lossy)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	request := tenFifty()
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, request)
	out.failure("InitPayment, answer lost", err)
	if err := expect(err, paymentsvc.OutcomeUnknown); err != nil {
		return err
	}

	client, err = paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: request.UserData})
	if err != nil {
		return err
	}
	if status.UserData != request.UserData {
		out.line("StatusPayment by user_data", "resolves nothing: the answer is for user_data %q, as from a mock that", status.UserData)
		out.line("", "keeps no payments")
		return nil
	}
	out.line("StatusPayment by user_data", "resolved: it was started, as order %s;", status.OrderID)
	out.line("", "starting it again would have charged the payer twice")
	return nil
}

func tenFifty() paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{
		Amount:   paymentsvc.MustParseAmount("10.50"),
		UserData: paymentsvc.NewUserData(),
	}
}

// lostAnswers sends requests and drops their responses, like a connection broken after the request.
type lostAnswers struct{ *http.Transport }

func (t lostAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

func expect(err error, want paymentsvc.Outcome) error {
	switch {
	case err == nil:
		return fmt.Errorf("the call above was made to fail as %q and succeeded", want)
	case paymentsvc.OutcomeOf(err) != want:
		return fmt.Errorf("the call above was made to fail as %q and did not: %w", want, err)
	}
	return nil
}

// failure prints the error of a call, the effect of its outcome and the next step.
func (r report) failure(label string, err error) {
	if err == nil {
		r.line(label, "no error")
		return
	}
	r.line(label, "%v", err)
	callError, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		return
	}
	// The service's code and message may repeat values of the request. Consider that before you log them.
	if reported, ok := errors.AsType[*paymentsvc.ServiceError](err); ok {
		r.line("", "service: %q, %q", reported.Code, reported.Message)
	}
	meaning, todo := explain(callError)
	r.line("", "outcome: %v; %s", callError.Outcome, meaning)
	r.line("", "to do:   %s", todo)
}

// explain returns the effect of an error on the money, and the next step.
func explain(err *paymentsvc.Error) (meaning, todo string) {
	switch {
	case errors.Is(err, paymentsvc.ErrInvalidRequest):
		return "nothing left this process", "correct the field that is named"
	case paymentsvc.SafeToRetry(err) && err.Outcome == paymentsvc.OutcomeNotSent:
		return "nothing left this process", "retry with the same user_data, after a back-off"
	case paymentsvc.SafeToRetry(err):
		if skew, ok := err.ClockSkew(); ok && skew.Abs() > 5*time.Second {
			return "the service rejected the caller", fmt.Sprintf("set the clock: it is %v off the service's", skew.Round(time.Second))
		}
		return "the service rejected the caller", "correct the key, the scheme or the rate, then retry with the same user_data"
	case err.Outcome == paymentsvc.OutcomeRejected:
		return "the service rejected it", "correct what is wrong with it; a retry would not help"
	case err.OrderID != "":
		return "it may have been carried out", "do not start it again; query its status by the error's OrderID"
	case strings.HasPrefix(err.Endpoint, "init_payment"):
		return "it may have been carried out", "do not start it again; query StatusPayment by user_data"
	case strings.HasPrefix(err.Endpoint, "init_"):
		return "it may have been carried out", "do not start it again; wait for its notification, or ask the service"
	default:
		return "the answer is not known", "retry: the call is idempotent"
	}
}
