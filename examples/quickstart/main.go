// Command quickstart calls all seven endpoints of the Payment Service, shows the outcomes of failed calls, and receives
// notifications. It needs no server, because it starts a fake of the service (package paymentsvctest) in this process.
//
//	go run ./examples/quickstart
//
// With -base-url it makes the same calls to a test or mock server. -help lists the flags required for that server.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit status, which is 0 for success, 1 for an unexpected result and 2 for invalid flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set, code := readFlags(args, stderr)
	if set == nil {
		return code
	}
	if err := quickstart(ctx, set, report{stdout}); err != nil {
		report{stderr}.failure("Unexpected", err)
		return 1
	}
	return 0
}

func quickstart(ctx context.Context, set *settings, out report) error {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: set.Scheme, Secret: set.Secret})
	if err != nil {
		return err
	}
	var server *paymentsvctest.Server // nil with -base-url
	if set.InProcess {
		if server, err = start(set); err != nil {
			return err
		}
		defer server.Close()
		set.BaseURL = server.URL
	}
	cfg := paymentsvc.Config{
		BaseURL:     set.BaseURL,
		PartnerID:   set.PartnerID,
		ProjectID:   set.ProjectID,
		Signer:      signer,
		DecodeError: set.DecodeError,
	}
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()

	introduce(set, out)
	if err := calls(ctx, client, out); err != nil {
		return err
	}
	if err := failures(ctx, cfg, out); err != nil {
		return err
	}
	return notifications(ctx, set, server, out)
}

// start starts the in-process server, on a free port of the loopback interface.
func start(set *settings) (*paymentsvctest.Server, error) {
	server, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: set.PartnerID,
		Projects:  []paymentsvctest.Project{{ID: set.ProjectID, Secret: set.Secret, Balance: paymentsvc.MustParseAmount("1000.00")}},
		Scheme:    set.Scheme,
		Tolerance: tolerance,
	})
	if err != nil {
		return nil, err
	}
	return server, server.Listen("127.0.0.1:0")
}

func introduce(set *settings, out report) {
	_, _ = fmt.Fprintln(out.w, "Payment Service Partner Interface", paymentsvc.InterfaceVersion)
	out.section("Service")
	out.line("address", "%s", set.BaseURL)
	out.line("caller", "partner %d, project %d", set.PartnerID, set.ProjectID)
	out.line("scheme", "%s", set.SchemeText)
	if !set.InProcess {
		out.line("chosen by", "you, with -scheme: the interface document does not show it")
		return
	}
	out.line("chosen by", "this example, for the in-process server (package paymentsvctest), whose status numbers, HTTP statuses "+
		"and error fields are made up too: the interface document shows none of these, so ask the service")
}

// calls makes one call to every endpoint, two to status_payment.
func calls(ctx context.Context, client *paymentsvc.Client, out report) error {
	out.section("Calls")
	amount := paymentsvc.MustParseAmount("10.50")
	if err := incoming(ctx, client, amount, out); err != nil {
		return err
	}
	return outgoing(ctx, client, amount, out)
}

// incoming starts a payment, a form and an invoice.
func incoming(ctx context.Context, client *paymentsvc.Client, amount paymentsvc.Amount, out report) error {

	// Store the user_data before the call. If the response is lost, StatusPayment finds the payment by user_data.
	userData := paymentsvc.NewUserData()
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount:   amount,
		UserData: userData,
	})
	if err != nil {
		return err
	}
	out.line("InitPayment card "+amount.String(), "order %s, status %d, status_code %d", payment.OrderID, payment.Status, payment.StatusCode)
	out.line("", "send the payer to %s", given(payment.RedirectURL))

	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{OrderID: payment.OrderID})
	if err != nil {
		return err
	}
	out.line("StatusPayment by order_id", "amount %s, user_data %s", given(status.Amount.String()), given(status.UserData))

	status, err = client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	if err != nil {
		return err
	}
	out.line("StatusPayment by user_data", "amount %s, order %s", given(status.Amount.String()), given(status.OrderID))

	form, err := client.InitForm(ctx, paymentsvc.PaymentRequest{Amount: amount, UserData: paymentsvc.NewUserData()})
	if err != nil {
		return err
	}
	out.line("InitForm "+amount.String(), "send the payer to %s", form.RedirectURL)

	invoice, err := client.InitInvoice(ctx, paymentsvc.PaymentRequest{Amount: amount, UserData: paymentsvc.NewUserData()})
	if err != nil {
		return err
	}
	out.line("InitInvoice "+amount.String(), "order %s", invoice.OrderID)
	out.line("", "send the payer to %s", invoice.InvoiceURL)
	return nil
}

// outgoing starts a payout, and queries its status and the balance.
func outgoing(ctx context.Context, client *paymentsvc.Client, amount paymentsvc.Amount, out report) error {
	payout, err := client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount:      amount,
		Destination: "4111111111111111", // a public test number
		UserData:    paymentsvc.NewUserData(),
	})
	if err != nil {
		return err
	}
	out.line("InitPayout "+amount.String(), "order %s, status %d, status_code %d", payout.OrderID, payout.Status, payout.StatusCode)

	status, err := client.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: payout.OrderID})
	if err != nil {
		return err
	}
	out.line("StatusPayout by order_id", "amount %s, user_data %s", given(status.Amount.String()), given(status.UserData))

	balance, err := client.GetBalance(ctx)
	if err != nil {
		return err
	}
	out.line("GetBalance", "%s for payouts, %s expected, in %s",
		balance.PayoutBalance, balance.ExpectedBalance, balance.Currency)
	return nil
}

// given marks a field that the service left out.
func given(text string) string { return cmp.Or(text, "(not given)") }

// report prints aligned lines. It ignores write errors, so the calls continue without a reader.
type report struct{ w io.Writer }

func (r report) section(title string) { _, _ = fmt.Fprintf(r.w, "\n%s\n", title) }

func (r report) line(label, format string, args ...any) {
	for _, text := range wrap(fmt.Sprintf(format, args...), 110) {
		_, _ = fmt.Fprintf(r.w, "  %-29s%s\n", label, text)
		label = ""
	}
}

// wrap breaks text between words into lines of at most width bytes, where words allow it.
func wrap(text string, width int) []string {
	var lines []string
	for len(text) > width {
		end := strings.LastIndexByte(text[:width+1], ' ')
		if end <= 0 {
			break
		}
		lines = append(lines, text[:end])
		text = text[end+1:]
	}
	return append(lines, text)
}
