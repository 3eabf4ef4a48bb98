// Package paymentsvctest is a fake of the payment service for tests. It handles the seven endpoints of the interface
// document, checks every request strictly, keeps exact balances, and injects the faults of networks and services.
//
//	func TestCheckout(t *testing.T) {
//		srv := paymentsvctest.Start(t, paymentsvctest.Config{
//			PartnerID: 7,
//			Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
//			Scheme:    scheme, // your own, because the document specifies none
//			Repeated:  paymentsvctest.NewOrder, // a duplicate is another order; the default rejects it
//		})
//		client, err := paymentsvc.NewClient(srv.ClientConfig(42))
//		...
//		lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1),
//			paymentsvctest.Drop(paymentsvctest.AfterCommit))
//		... // your code, and a check of lost.Hits()
//		srv.AssertStarted(t, userData, 1)
//		srv.AssertOrders(t, 1) // also detects a start with a new user_data
//		srv.AssertAllSigned(t)
//	}
//
// recipes/recipes_test.go has complete tests of a checkout, a webhook and payouts, to copy. docs/testing.md describes
// them.
//
// [New] returns the fake as an http.Handler, and [Server.Listen] serves it at its own address. [Start] does both for a
// test, and closes the fake at the end of the test. [StartInMemory] needs no socket, for tests in the fake time of
// testing/synctest.
//
// # Methods by purpose
//
//   - Started orders: [Server.AssertStarted], [Server.AssertOrders]; [Server.Started], [Server.Orders], [Server.Order],
//     [Server.Balance].
//   - Received requests: [Server.AssertNoneRejected], [Server.AssertAllSigned]; [Server.Requests], [Server.Rejected],
//     [Server.SignatureFaults], [Server.Watch].
//   - Faults: [Server.Fault], [Server.FaultNotifications], [Server.Chaos], [Server.ClearFaults], [Rule.Hits].
//   - Changes of a status: [Server.Settle], [Server.Refund].
//   - Sent notifications: [Server.SetReceiver], [Server.Deliver], [Server.DeliverAll], [Server.Send], [Server.Compose].
//   - Delivered notifications: [Server.AssertDelivered], [Server.AssertForgeriesRefused]; [Server.Deliveries],
//     [Server.Outbox].
//   - Connections: [Server.ClientConfig], [Server.HTTPClient], [Server.Listen], [Server.ListenInMemory],
//     [Server.ServeHTTP], [Server.Drain], [Server.Close].
//
// # Checks
//
// Each request must have the right path, method and content type, one timestamp header, one signature header, and a
// correct signature under your Scheme and secret. Its body must be one JSON object without duplicate or unknown fields,
// with the right ids and every required field in the document's type. [Server.Rejected] returns the rejected requests,
// and [Server.SignatureFaults] the reasons for wrong signatures.
//
// # Unspecified behaviour
//
// The document does not specify the numbers of the statuses, the error fields and codes, the HTTP statuses, the
// response to a duplicate user_data, the meaning of the two balances, and the retries of notifications. [Config] has a
// field for each of these items except the balances. The defaults are choices of this package, not promises of the
// service. Further choices are order ids (UUIDs that count from 1), addresses under https://pay.example, and the
// currency XTS, which ISO 4217 reserves for tests. The fake rejects amounts of 0 or less.
//
// payout_balance is the opening balance, plus payments, forms and invoices in SUCCESS, less payouts not in FAILURE,
// less refunds in SUCCESS. expected_balance adds the pending payments, forms and invoices. status_payment finds
// payments, forms and invoices, and status_payout finds payouts. In a project, user_data is unique among payments,
// forms and invoices, and among payouts, unless Config.Repeated is NewOrder or [Server.Seed] adds a duplicate.
package paymentsvctest
