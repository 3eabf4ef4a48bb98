// Package paymentsvctest is the payment service in a test: a server that answers the seven endpoints of the
// interface document, is strict about what it is sent, keeps its books exactly, and breaks on demand in all the
// ways that a network and a service can.
//
//	func TestCheckout(t *testing.T) {
//		srv := paymentsvctest.Start(t, paymentsvctest.Config{
//			PartnerID: 7,
//			Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
//			Scheme:    scheme, // your own: the document shows none, so there is no default
//			Repeated:  paymentsvctest.NewOrder, // or a second start is rejected, and stays unseen
//		})
//		client, err := paymentsvc.NewClient(srv.ClientConfig(42))
//		...
//		lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
//		... // your code, and a look at lost.Hits()
//		srv.AssertStarted(t, userData, 1)
//		srv.AssertAllSigned(t)
//	}
//
// New makes the server as an http.Handler, to be mounted where you like; Listen gives it an address of its own;
// Start does both for a test and ends it with the test.
//
// # What is checked
//
// Each request: the path, the method, the content type, one timestamp and one signature header, the signature
// under your Scheme and secret, one JSON object without repeated or foreign fields, the ids, and that every
// required field is there and has the document's type. What is rejected is kept: see Server.Rejected and
// Server.SignatureFaults, which says why a signature is wrong.
//
// # What can go wrong
//
// Server.Fault breaks the nth request to an endpoint with one Fault or several, Server.FaultNotifications does
// the same to notifications, and Server.Chaos does both at random from a seed that it prints. Nothing in this
// package waits for a fixed time, apart from the faults that are slow.
//
// # What is made up
//
// The document leaves open the numbers of the statuses, the error fields and codes, the HTTP statuses, what a
// repeated user_data does, what the two balances mean and how notifications are delivered again. A server has
// to do something, so each is a field of Config whose default is this package's own choice and no promise of
// the service. So are order ids (UUIDs that count from 1), addresses under https://pay.example, the currency
// XTS, which ISO 4217 keeps for tests, and these rules of the books: payout_balance is the opening balance, plus
// payments, forms and invoices in SUCCESS, less payouts not in FAILURE, less refunds in SUCCESS;
// expected_balance adds the payments, forms and invoices that may still succeed; status_payment finds payments,
// forms and invoices, status_payout payouts; user_data is unique among the former and among the latter, in a
// project.
package paymentsvctest
