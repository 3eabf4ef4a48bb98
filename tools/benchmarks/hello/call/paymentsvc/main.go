// Command paymentsvc makes one signed call with the SDK.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func main() {
	p, err := initPayment(context.Background(), os.Args[1], paymentsvc.Secret(os.Args[2]))
	fmt.Println("hello", p, err)
}

func initPayment(ctx context.Context, base string, secret paymentsvc.Secret) (*paymentsvc.InitPaymentResponse, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		// The canonical string and the encoding are this program's choice: the service shows neither.
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
			Encoding:  paymentsvc.Hex,
		},
		Secret: secret,
	})
	if err != nil {
		return nil, err
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{BaseURL: base, PartnerID: 1, ProjectID: 2, Signer: signer})
	if err != nil {
		return nil, err
	}
	return client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount:   paymentsvc.MustParseAmount("10.50"),
		UserData: "order-1",
	})
}
