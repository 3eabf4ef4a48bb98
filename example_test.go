package paymentsvc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// exampleService is the fake of package paymentsvctest, listening on this machine. A program of yours makes its
// paymentsvc.Config by hand, as ExampleNewClient does.
func exampleService() (*paymentsvctest.Server, *paymentsvc.Client) {
	const secret = "an-example-key"
	service, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 1,
		Projects:  []paymentsvctest.Project{{ID: 2, Secret: secret, Balance: paymentsvc.MustParseAmount("100.00")}},
		Scheme: paymentsvc.Scheme{ // these examples' choice: the document shows none
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
			Encoding:  paymentsvc.Hex,
		},
	})
	if err != nil {
		panic(err)
	}
	if err := service.Listen("127.0.0.1:0"); err != nil {
		panic(err)
	}
	client, err := paymentsvc.NewClient(service.ClientConfig(2))
	if err != nil {
		panic(err)
	}
	return service, client
}

func ExampleNewClient() {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example: ask the service for yours
			Encoding:  paymentsvc.Hex,
		},
		Secret: "from your secret store",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example.com/api", PartnerID: 1, ProjectID: 2, Signer: signer,
	})
	fmt.Println(client, err)
	// Output:
	// Client{PartnerID: 1, ProjectID: 2} <nil>
}

func ExampleClient_ForProject() {
	service, client := exampleService()
	defer service.Close()
	signer := paymentsvc.SignerFunc(func(*http.Request, []byte) error { return errors.New("no key yet") })
	other, err := client.ForProject(3, signer)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = other.GetBalance(context.Background())
	fmt.Println(other)
	fmt.Println(err)
	// Output:
	// Client{PartnerID: 1, ProjectID: 3}
	// paymentsvc: get_balance: not sent: signing: no key yet
}

func ExampleClient_InitPayment() {
	service, client := exampleService()
	defer service.Close()

	userData := "order-17" // paymentsvc.NewUserData() makes one; store it before the call
	payment, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount:   paymentsvc.MustParseAmount("10.50"),
		UserData: userData,
		CardData: map[string]any{"number": "4111111111111111"}, // its members are not shown: ask the service
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("order", payment.OrderID)
	fmt.Println("send the payer to", payment.RedirectURL)
	// Output:
	// order 00000000-0000-4000-8000-000000000001
	// send the payer to https://pay.example/payment/00000000-0000-4000-8000-000000000001
}

func ExampleClient_StatusPayment() {
	service, client := exampleService()
	defer service.Close()
	ctx := context.Background()

	// The answer to this start is lost, after the service took it.
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	_, err := client.InitPayment(ctx, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	fmt.Println("outcome:", paymentsvc.OutcomeOf(err))

	// So the service is asked whether it has the payment, and nothing is started again.
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: "order-17"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("it was started:", status.UserData, status.Amount)
	// Output:
	// outcome: unknown
	// it was started: order-17 10.50
}

func ExampleClient_InitPayout() {
	service, client := exampleService()
	defer service.Close()

	payout, err := client.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount:      paymentsvc.MustParseAmount("25.00"),
		Destination: "4111111111111111",
		UserData:    "payout-3",
	})
	switch {
	case err == nil:
		fmt.Println("keep", payout.OrderID, "to ask for it with StatusPayout")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		fmt.Println("wait for its notification, or ask the service; do not start it again:", err)
	default:
		fmt.Println(err)
	}
	// Output:
	// keep 00000000-0000-4000-8000-000000000001 to ask for it with StatusPayout
}

func ExampleClient_StatusPayout() {
	service, client := exampleService()
	defer service.Close()
	ctx := context.Background()

	payout, err := client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("25.00"), Destination: "4111111111111111", UserData: "payout-3",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := client.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: payout.OrderID})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.UserData, status.Amount)
	// Output:
	// payout-3 25.00
}

func ExampleClient_InitForm() {
	service, client := exampleService()
	defer service.Close()
	form, err := client.InitForm(context.Background(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("send the payer to", form.RedirectURL)
	// Output:
	// send the payer to https://pay.example/form/00000000-0000-4000-8000-000000000001
}

func ExampleClient_InitInvoice() {
	service, client := exampleService()
	defer service.Close()
	invoice, err := client.InitInvoice(context.Background(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("send the payer to", invoice.InvoiceURL)
	// Output:
	// send the payer to https://pay.example/invoice/00000000-0000-4000-8000-000000000001
}

func ExampleClient_GetBalance() {
	service, client := exampleService()
	defer service.Close()
	balance, err := client.GetBalance(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(balance.PayoutBalance, balance.Currency)
	// Output:
	// 100.00 XTS
}

// The three outcomes, each from a fault that makes it.
func ExampleOutcomeOf() {
	service, client := exampleService()
	defer service.Close()
	start := func(userData string) {
		_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
			Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
		})
		switch paymentsvc.OutcomeOf(err) {
		case paymentsvc.OutcomeNotSent:
			fmt.Println(userData, "may be started again")
		case paymentsvc.OutcomeRejected:
			fmt.Println(userData, "was refused")
		default:
			fmt.Println(userData, "may have been started: ask StatusPayment")
		}
	}
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(3), paymentsvctest.Refuse())
	start("not-connected") // tried three times
	service.ClearFaults()

	service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Reject(http.StatusOK, "E17", "limit"))
	start("over-the-limit")

	service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Cut(10))
	start("cut-off")
	// Output:
	// not-connected may be started again
	// over-the-limit was refused
	// cut-off may have been started: ask StatusPayment
}

// A payout whose answer was lost may have been paid. What the error holds says so, and how far the call came.
func ExampleError() {
	service, client := exampleService()
	defer service.Close()
	service.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	_, err := client.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("25.00"), Destination: "4111111111111111", UserData: "payout-3",
	})
	var failed *paymentsvc.Error
	if errors.As(err, &failed) && failed.Outcome == paymentsvc.OutcomeUnknown {
		fmt.Printf("%s: %s after %d attempt, HTTP status %d\n", failed.Endpoint, failed.Outcome, failed.Attempts, failed.HTTPStatus)
		fmt.Println("wait for the notification, or ask the service; do not start it again")
	}
	// Output:
	// init_payout: unknown after 1 attempt, HTTP status 0
	// wait for the notification, or ask the service; do not start it again
}

func ExampleErrorFields() {
	decode := paymentsvc.ErrorFields("error.code", "error.message") // the names are not shown: ask the service
	reported := decode(http.StatusOK, []byte(`{"error":{"code":17,"message":"limit exceeded"}}`))
	fmt.Println(reported.Code, reported.Message)
	fmt.Println(decode(http.StatusOK, []byte(`{"order_id":"o-1","status":1,"status_code":0}`)) == nil)
	// Output:
	// 17 limit exceeded
	// true
}

func ExampleServiceError() {
	service, client := exampleService()
	defer service.Close()
	service.Fault(paymentsvctest.InitForm, paymentsvctest.Every(), paymentsvctest.Reject(http.StatusOK, "E17", "limit exceeded"))
	_, err := client.InitForm(context.Background(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	// The error's own text leaves the service's words out, for they may repeat what the request held.
	fmt.Println(err)
	var reported *paymentsvc.ServiceError
	if errors.As(err, &reported) {
		fmt.Println(reported.Code, reported.Message)
	}
	// Output:
	// paymentsvc: init_form: rejected: HTTP 200: the service reported an error, see ServiceError.Code and Message
	// E17 limit exceeded
}

func ExampleAmount() {
	price := paymentsvc.MustParseAmount("10.50")
	cents, err := price.Minor(2)
	fmt.Println(price, cents, err)

	_, err = paymentsvc.MustParseAmount("10.505").Minor(2)
	fmt.Println(err)

	fmt.Println(paymentsvc.AmountFromMinor(1050, 2).Equal(paymentsvc.MustParseAmount("10.5")))
	fmt.Println(paymentsvc.Amount{}.IsSet(), paymentsvc.MustParseAmount("0").IsSet())
	// Output:
	// 10.50 1050 <nil>
	// paymentsvc: amount 10.505 at scale 2: more decimals than the scale holds
	// true
	// false true
}

func ExampleScheme_Signature() {
	scheme := paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex} // an example
	signature, err := scheme.Signature("key", &paymentsvc.Message{
		Body: []byte("The quick brown fox jumps over the lazy dog"),
	})
	fmt.Println(signature, err)
	// Output:
	// f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8 <nil>
}
