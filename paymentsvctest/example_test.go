package paymentsvctest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Without a socket, the SDK's own transport still proves that a refused request was not sent. In a test, StartInMemory
// replaces New, ListenInMemory and Close.
func ExampleServer_ListenInMemory() {
	srv := exampleServer((*paymentsvctest.Server).ListenInMemory)
	defer srv.Close()
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

// The fake explains a wrong signature. The key of this program has the line break of its file.
func ExampleServer_SignatureFaults() {
	srv := exampleServer(func(s *paymentsvctest.Server) error { return s.Listen("127.0.0.1:0") })
	defer srv.Close()
	cfg := srv.ClientConfig(42)
	var err error
	cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: exampleScheme(), Secret: "secret-of-this-example\n", SecretEndsInLineBreak: true,
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
	fmt.Println("unauthorized:", errors.Is(err, paymentsvc.ErrUnauthorized))
	for _, fault := range srv.SignatureFaults() {
		fmt.Println(fault)
	}
	// Output:
	// unauthorized: true
	// get_balance, request 1: signed with the secret and a line break
}

// exampleServer returns a fake with one project.
func exampleServer(listen func(*paymentsvctest.Server) error) *paymentsvctest.Server {
	srv, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: "secret-of-this-example"}},
		Scheme:    exampleScheme(),
	})
	if err == nil {
		err = listen(srv)
	}
	if err != nil {
		panic(err)
	}
	return srv
}

// exampleScheme returns an arbitrary scheme, because the document specifies no scheme.
func exampleScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}
