// Command paddle makes one call with paddle-go-sdk.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/PaddleHQ/paddle-go-sdk/v4"
)

func main() {
	client, err := paddle.New(os.Args[1])
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.CreateCustomer(context.Background(), &paddle.CreateCustomerRequest{Email: "payer@example.com"})
	fmt.Println("hello", c, err)
}
