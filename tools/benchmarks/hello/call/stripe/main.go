// Command stripe makes one call with stripe-go.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stripe/stripe-go/v82"
)

func main() {
	client := stripe.NewClient(os.Args[1])
	p, err := client.V1PaymentIntents.Create(context.Background(), &stripe.PaymentIntentCreateParams{
		Amount:   new(int64(1050)),
		Currency: new("eur"),
	})
	fmt.Println("hello", p, err)
}
