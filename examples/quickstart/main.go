// Command quickstart shows a first integration: a payment, a lost response and its reconciliation, a payout, the
// balance, a rejection, a notification and a forgery. It starts a fake of the service in this process, so it needs no
// server.
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
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const fakeSecret = "secret-of-the-in-process-server"

// fakeScheme is the choice of this example for the fake, because the interface document does not specify a scheme.
var fakeScheme = paymentsvc.Scheme{
	Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
}

func main() {
	var set settings
	flag.StringVar(&set.client.BaseURL, "base-url", "", "`address` of a server; STARTS TWO PAYMENTS AND A PAYOUT there")
	flag.Int64Var(&set.client.PartnerID, "partner", 0, "partner `id`")
	flag.Int64Var(&set.client.ProjectID, "project", 0, "project `id`")
	flag.StringVar(&set.secretFile, "secret-file", "", "`file` with the project secret key; a final line break is ignored")
	flag.StringVar(&set.scheme, "scheme", "", "`text` like hex(timestamp '.' body); see docs/signing.md")
	flag.StringVar(&set.errorFields, "error-fields", "", "`names` of the code and message fields of an error, like a,b")
	flag.Parse()
	if err := run(context.Background(), set, os.Stdout); err != nil {
		printFailure(os.Stderr, "error", err)
		os.Exit(1)
	}
}

// run makes the calls to the server of the flags. Without -base-url, it starts a fake and receives its notifications.
func run(ctx context.Context, set settings, out io.Writer) error {
	if set.client.BaseURL != "" {
		config, err := set.config()
		if err != nil {
			return err
		}
		return moveMoney(ctx, config, out) // the service sends notifications to its configured address
	}
	fake, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 1001, Projects: []paymentsvctest.Project{{ID: 2002, Secret: fakeSecret}}, Scheme: fakeScheme,
	})
	if err != nil {
		return err
	}
	if err := fake.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	defer fake.Close()
	if err := moveMoney(ctx, fake.ClientConfig(2002), out); err != nil {
		return err
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: fakeScheme, Secrets: []paymentsvc.Secret{fakeSecret}, // during a rotation, the new and the old secret
		Tolerance: 5 * time.Minute, // for timestamps; the document does not specify it
		OnError:   func(_ *http.Request, err error) { printLine(out, "forgery", "%v", err) },
	})
	if err != nil {
		return err
	}
	var seen sync.Map // in your program a table with a unique index on Key, in the order's transaction
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
	notification, err := fake.Settle(fake.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	if err != nil {
		return err
	}
	fake.Send(ctx, notification, paymentsvctest.Forged(), paymentsvctest.RepeatedBy(1))
	return nil
}

// moveMoney starts two payments and a payout, and reads the balance.
func moveMoney(ctx context.Context, config paymentsvc.Config, out io.Writer) error {
	client, err := paymentsvc.NewClient(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	// Store user_data before the call, because it identifies the payment if the response is lost.
	request := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: paymentsvc.NewUserData()}
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, request)
	if err != nil {
		return err
	}
	printLine(out, "payment", "order %s; send the payer to %s", payment.OrderID, payment.RedirectURL)

	config.HTTPClient = &http.Client{Transport: losesResponses{paymentsvc.NewTransport()}}
	lossy, err := paymentsvc.NewClient(config)
	if err != nil {
		return err
	}
	request.UserData = paymentsvc.NewUserData()
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
		return fmt.Errorf("unresolved: the status has user_data %q, not that of the payment", status.UserData)
	}
	printLine(out, "reconciled", "the service started it as order %s; do not start it again", status.OrderID)

	payout, err := client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount: request.Amount, UserData: paymentsvc.NewUserData(), Destination: "4111111111111111", // a public test number
	})
	if err != nil {
		return err
	}
	printLine(out, "payout", "order %s", payout.OrderID)
	balance, err := client.GetBalance(ctx)
	if err != nil {
		return err
	}
	printLine(out, "balance", "%s %s for payouts", balance.PayoutBalance, balance.Currency)
	return showRejection(ctx, config, out)
}

// showRejection starts a payment for a project that the service cannot have, to compare the rejection with
// Config.DecodeError.
func showRejection(ctx context.Context, config paymentsvc.Config, out io.Writer) error {
	config.ProjectID, config.HTTPClient = 1<<53-1, nil
	client, err := paymentsvc.NewClient(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	_, err = client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: paymentsvc.NewUserData(),
	})
	reported, decoded := errors.AsType[*paymentsvc.ServiceError](err)
	switch {
	case err == nil:
		return errors.New("the service started a payment for an unknown project")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeRejected && decoded:
		printLine(out, "rejection", "an unknown project has the code %q", reported.Code)
	case decoded || !client.DecodesErrors():
		printFailure(out, "rejection", err)
	default:
		return fmt.Errorf("-error-fields: the rejection of an unknown project has no such fields: %w", err)
	}
	return nil
}

// losesResponses sends requests and drops their responses, like a connection broken after the request.
type losesResponses struct{ *http.Transport }

func (t losesResponses) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(response.Body.Close(), io.ErrUnexpectedEOF)
}

// printFailure prints an error and the next step of a program.
func printFailure(out io.Writer, label string, err error) {
	printLine(out, label, "%v", err)
	switch failure, called := errors.AsType[*paymentsvc.Error](err); {
	case !called, failure.Endpoint == "get_balance": // a wrong setting, or a call without a payment
	case paymentsvc.SafeToRetry(err):
		printLine(out, "", "retry later with the same user_data; for 401 and 403 correct the key or the clock first")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		printLine(out, "", "money may have moved: query the status, and do not start it again")
	default:
		printLine(out, "", "rejected: a retry would not help")
	}
}

func printLine(out io.Writer, label, format string, args ...any) {
	_, _ = fmt.Fprintf(out, "%-15s%s\n", label, fmt.Sprintf(format, args...))
}

// settings are the flags for a server. All are required except -error-fields.
type settings struct {
	client                          paymentsvc.Config
	secretFile, scheme, errorFields string
}

// config returns the configuration of a client for the server.
func (set settings) config() (paymentsvc.Config, error) {
	if set.secretFile == "" || set.scheme == "" {
		return set.client, errors.New("-base-url needs -partner, -project, -secret-file and -scheme; -help explains them")
	}
	text, err := os.ReadFile(set.secretFile)
	if err != nil {
		return set.client, err
	}
	secret := paymentsvc.Secret(strings.TrimRight(string(text), "\r\n"))
	scheme, secret, err := canonical.ParseSchemeWith(set.scheme, secret)
	if err != nil {
		return set.client, err
	}
	if code, message, _ := strings.Cut(set.errorFields, ","); code != "" { // without a code field, DecodeError stays unset
		set.client.DecodeError = paymentsvc.ErrorFields(code, message)
	}
	set.client.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	return set.client, err
}
