package paymentsvctest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Without a socket, the SDK's own transport still proves that a refused request was not sent. In a test, StartInMemory
// replaces New, ListenInMemory and Close.
func ExampleServer_ListenInMemory() {
	srv, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: "secret-of-this-example"}},
		Scheme:    exampleScheme(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	if err := srv.ListenInMemory(); err != nil {
		fmt.Println(err)
		return
	}
	cfg := srv.ClientConfig(42)
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv.Fault(paymentsvctest.InitPayout, paymentsvctest.First(3), paymentsvctest.Refuse())
	request := paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("99.90"), Destination: "4111111111111111", UserData: "payout-1",
	}
	_, err = client.InitPayout(context.Background(), request)
	fmt.Println(paymentsvc.OutcomeOf(err), srv.Started("payout-1"))
	_, err = client.InitPayout(context.Background(), request)
	fmt.Println(err, srv.Started("payout-1"))
	// Output:
	// not sent 0
	// <nil> 1
}

// A signature that is rejected comes with what is wrong about it: here the key was read from a file, with the line
// break at its end.
func ExampleServer_SignatureFaults() {
	srv, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: "secret-of-this-example"}},
		Scheme:    exampleScheme(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	if err := srv.Listen("127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	cfg := srv.ClientConfig(42)
	cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: exampleScheme(), Secret: "secret-of-this-example\n", SecretEndsInLineBreak: true, // as a file ends
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.GetBalance(context.Background())
	fmt.Println(paymentsvc.OutcomeOf(err))
	for _, fault := range srv.SignatureFaults() {
		fmt.Println(fault)
	}
	// Output:
	// rejected
	// get_balance, request 1: signed with the secret and a line break
}

// exampleScheme is these examples' choice: the document shows none.
func exampleScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}
