package docs_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

func whatToDo(ctx context.Context, client *paymentsvc.Client, userData string) (err error) {
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil:
		return nil
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent:
		if errors.Is(err, paymentsvc.ErrInvalidRequest) {
			return err // a fault in this program or its input, and the same again tomorrow
		}
		return retryLater(userData)
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeRejected:
		return showRefusal(userData)
	}
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	switch {
	case err != nil:
		return retryLater(userData) // to ask again, not to start again
	case status.UserData != userData:
		return errors.New("the answer is about another payment, or about none")
	}
	return settleOrder(userData, status)
}

func withoutTheBuyersCancel(ctx context.Context, client *paymentsvc.Client, userData string) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	return err
}

func resume(ctx context.Context, client *paymentsvc.Client, open []string) error {
	for _, userData := range open {
		status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
		if err != nil || status.UserData != userData {
			continue // it stays open, and is asked for again; nothing is started
		}
		if err := settleOrder(userData, status); err != nil {
			return err
		}
	}
	return nil
}

type counting struct {
	next  *http.Transport
	count func()
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count()
	return c.next.RoundTrip(r) // once, and with r's own context
}
