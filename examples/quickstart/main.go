// Command quickstart shows a first integration: a payment, a lost response and its reconciliation, a payout, the
// balance, a notification and a forgery. It needs no server, because it starts a fake of the service (package
// paymentsvctest) in this process.
//
//	go run ./examples/quickstart
//
// With -base-url it makes the same calls to a test or mock server. -help lists the flags for that server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// settings are the flags. With -base-url all are required except -error-fields. Without it they are demo.
type settings struct {
	baseURL, secretFile, scheme, errorFields string
	partner, project                         int64
}

// demo is the choice of this example for the fake, because the interface document does not specify these values.
var demo = settings{
	scheme:      `hex(timestamp "." body)`,
	errorFields: "error_code,error_message",
	partner:     1001,
	project:     2002,
}

const (
	demoSecret = "secret-of-the-in-process-server"
	tolerance  = 5 * time.Minute // between a timestamp and the clock; the document does not specify it
)

func main() {
	var set settings
	flag.StringVar(&set.baseURL, "base-url", "", "`address` of a test server, where this STARTS TWO PAYMENTS AND A PAYOUT")
	flag.Int64Var(&set.partner, "partner", 0, "partner `id`")
	flag.Int64Var(&set.project, "project", 0, "project `id`")
	flag.StringVar(&set.secretFile, "secret-file", "", "`file` with the project secret key; a line end is not part of it")
	flag.StringVar(
		&set.scheme, "scheme", "", "how messages are signed, as `text` like "+demo.scheme+"; see docs/signing.md",
	)
	flag.StringVar(&set.errorFields, "error-fields", "", "`names` of an error's code and message, like "+demo.errorFields)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, set, os.Stdout)
	stop()
	if err != nil {
		printFailure(os.Stderr, "error", err)
		os.Exit(1)
	}
}

// run starts the fake if there is no -base-url, and makes all calls.
func run(ctx context.Context, set settings, out io.Writer) error {
	secret := paymentsvc.Secret(demoSecret)
	switch {
	case set == settings{}:
		set = demo
	case set.baseURL == "" || set.partner == 0 || set.project == 0 || set.secretFile == "" || set.scheme == "":
		return errors.New("-base-url, -partner, -project, -secret-file and -scheme belong together; -help explains them")
	default:
		text, err := os.ReadFile(set.secretFile)
		if err != nil {
			return err
		}
		secret = paymentsvc.Secret(strings.TrimRight(string(text), "\r\n"))
	}
	scheme, secret, err := canonical.ParseSchemeWith(set.scheme, secret)
	if err != nil {
		return err
	}
	var fake *paymentsvctest.Server // nil with -base-url
	if set.baseURL == "" {
		fake, err = startFake(scheme)
		if err != nil {
			return err
		}
		defer fake.Close()
		set.baseURL = fake.URL
	}

	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err != nil {
		return err
	}
	cfg := paymentsvc.Config{BaseURL: set.baseURL, PartnerID: set.partner, ProjectID: set.project, Signer: signer}
	if code, message, both := strings.Cut(set.errorFields, ","); both {
		cfg.DecodeError = paymentsvc.ErrorFields(code, message) // without it no failure counts as rejected
	} else if code != "" {
		return errors.New("-error-fields wants two names with a comma between them")
	}
	orderID, err := moveMoney(ctx, cfg, out)
	if err != nil || fake == nil {
		return err // a service sends notifications to the address configured there
	}
	return receive(ctx, fake, orderID, paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{secret}, // during a rotation, the new and the old secret
		Tolerance: tolerance,
		OnError:   func(_ *http.Request, err error) { printLine(out, "forgery", "%v", err) },
	}, out)
}

func startFake(scheme paymentsvc.Scheme) (*paymentsvctest.Server, error) {
	fake, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: demo.partner,
		Projects: []paymentsvctest.Project{{
			ID: demo.project, Secret: demoSecret, Balance: paymentsvc.MustParseAmount("1000.00"),
		}},
		Scheme:    scheme,
		Tolerance: tolerance,
	})
	if err != nil {
		return nil, err
	}
	return fake, fake.Listen("127.0.0.1:0")
}

// moveMoney starts two payments and a payout, reads the balance, and returns the order of the first payment.
func moveMoney(ctx context.Context, cfg paymentsvc.Config, out io.Writer) (string, error) {
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()

	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, newPayment())
	if err != nil {
		return "", err
	}
	printLine(out, "payment", "order %s; send the payer to %s", payment.OrderID, payment.RedirectURL)
	if err := reconcile(ctx, client, cfg, out); err != nil {
		return "", err
	}

	payout, err := client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount:      paymentsvc.MustParseAmount("10.50"),
		Destination: "4111111111111111", // a public test number
		UserData:    paymentsvc.NewUserData(),
	})
	if err != nil {
		return "", err
	}
	printLine(out, "payout", "order %s", payout.OrderID)

	balance, err := client.GetBalance(ctx)
	if err != nil {
		return "", err
	}
	printLine(out, "balance", "%s %s for payouts", balance.PayoutBalance, balance.Currency)
	return payment.OrderID, nil
}

// newPayment returns a request. Store its UserData before the call, because it identifies the payment if the response
// is lost.
func newPayment() paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: paymentsvc.NewUserData()}
}

// reconcile loses the response to a payment, and finds the payment by its user_data.
func reconcile(ctx context.Context, client *paymentsvc.Client, cfg paymentsvc.Config, out io.Writer) error {
	cfg.HTTPClient = &http.Client{Transport: losesResponses{&http.Transport{DisableKeepAlives: true}}}
	lossy, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	request := newPayment()
	_, err = lossy.InitPayment(ctx, paymentsvc.PaymentTypeCard, request)
	if paymentsvc.OutcomeOf(err) != paymentsvc.OutcomeUnknown {
		return err
	}
	printFailure(out, "lost response", err)

	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: request.UserData})
	if err != nil {
		return err
	}
	if status.UserData != request.UserData {
		printLine(out, "unresolved", "the response has user_data %q, not that of the payment", status.UserData)
		return nil
	}
	printLine(out, "reconciled", "the service started it as order %s; a second start would charge twice", status.OrderID)
	return nil
}

// losesResponses sends requests and drops their responses, like a connection broken after the request.
type losesResponses struct{ *http.Transport }

func (t losesResponses) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// receive lets the fake send a forgery, a notification and its duplicate to a webhook.
func receive(
	ctx context.Context, fake *paymentsvctest.Server, orderID string, cfg paymentsvc.WebhookConfig, out io.Writer,
) error {
	webhook, err := paymentsvc.NewWebhook(cfg)
	if err != nil {
		return err
	}
	var seen sync.Map // a table with a unique index on the Key in your program, changed together with the order
	handler := webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		if _, duplicate := seen.LoadOrStore(n.Key(), true); duplicate {
			printLine(out, "duplicate", "already applied")
			return nil
		}
		printLine(out, "notification", "%s %s %s, order %s", n.Event, n.StatusDescription, n.Amount, n.OrderID)
		return nil
	})
	// Your program passes the handler to http.Handle, with the path configured at the service.
	fake.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	notification, err := fake.Settle(orderID, paymentsvc.StatusSuccess)
	if err != nil {
		return err
	}
	for _, delivery := range fake.Send(ctx, notification, paymentsvctest.Forged(), paymentsvctest.RepeatedBy(1)) {
		err = errors.Join(err, delivery.Err)
	}
	return err
}

// printFailure prints an error and the next step of a program.
func printFailure(out io.Writer, label string, err error) {
	printLine(out, label, "%v", err)
	// A service's code and message may repeat values of the request. Consider that before you log them.
	if reported, ok := errors.AsType[*paymentsvc.ServiceError](err); ok {
		printLine(out, "", "service: %q, %q", reported.Code, reported.Message)
	}
	if _, ok := errors.AsType[*paymentsvc.Error](err); !ok {
		return
	}
	switch {
	case paymentsvc.SafeToRetry(err):
		printLine(out, "", "retry later with the same user_data; for 401 and 403 correct the key, scheme or clock first")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		printLine(out, "", "money may have moved: do not start it again, but query its status")
	default:
		printLine(out, "", "rejected: a retry would not help")
	}
}

func printLine(out io.Writer, label, format string, args ...any) {
	_, _ = fmt.Fprintf(out, "%-15s%s\n", label, fmt.Sprintf(format, args...))
}
