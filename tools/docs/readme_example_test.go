// These files hold the Go code of the pages, in the functions that a page leaves out, so that it compiles; what needs
// no service of its own runs too.
package docs_test

import (
	"testing"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// starts and orders are the pages' tables: see database.
var (
	starts startsTable
	orders ordersTable
)

func TestTheReadmesTest(t *testing.T) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,                  // yours: there is no default
		Repeated:  paymentsvctest.NewOrder, // or a second start is rejected as a duplicate
	})
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		t.Fatal(err)
	}
	// The payment is carried out, and its answer is lost.
	lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	checkout(client, "order-1") // your code

	srv.AssertStarted(t, "order-1", 1) // and not twice,
	srv.AssertOrders(t, 1)             // nor again under a new user_data
	if lost.Hits() == 0 {
		t.Error("the answer was never lost, so nothing was tested")
	}
}
