package docs_test

import (
	"context"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

func withoutTheBuyersCancel(ctx context.Context, client *paymentsvc.Client, userData string) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	return err
}

type counting struct {
	next  *http.Transport
	count func()
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count()
	return c.next.RoundTrip(r) // once, and with r's own context
}
