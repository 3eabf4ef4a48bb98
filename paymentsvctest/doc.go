// Package paymentsvctest is a mock server of the payment service for tests. It answers the seven endpoints of the
// interface document, checks every request strictly, keeps exact books, and injects the faults of networks and
// services.
//
//	func TestCheckout(t *testing.T) {
//		srv := paymentsvctest.Start(t, paymentsvctest.Config{
//			PartnerID: 7,
//			Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
//			Scheme:    scheme, // your own: the document shows none, so there is no default
//			Repeated:  paymentsvctest.NewOrder, // or a second start is rejected as a duplicate
//		})
//		client, err := paymentsvc.NewClient(srv.ClientConfig(42))
//		...
//		lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
//		... // your code, and a look at lost.Hits()
//		srv.AssertStarted(t, userData, 1)
//		srv.AssertOrders(t, 1) // nor a second one under another user_data
//		srv.AssertAllSigned(t)
//	}
//
// [New] makes the server as an http.Handler to mount; [Server.Listen] serves it at an address of its own; [Start] does
// both for a test, and closes the server when the test ends. [StartInMemory] does so without a socket, for tests in the
// fake time of testing/synctest.
//
// # What a test asks
//
//   - What was started? [Server.AssertStarted], [Server.AssertOrders]; [Server.Started], [Server.Orders],
//     [Server.Order], [Server.Balance].
//   - What did the code send? [Server.AssertNoneRejected], [Server.AssertAllSigned]; [Server.Requests],
//     [Server.Rejected], [Server.SignatureFaults], [Server.Watch].
//   - What if something fails? [Server.Fault], [Server.Chaos], [Server.Rules], [Server.ClearFaults], [Rule.Hits].
//   - What if a status changes? [Server.Settle], [Server.Step], [Server.Refund].
//   - What does the handler make of it? [Server.SetReceiver], [Server.Deliver], [Server.DeliverAll], [Server.Send],
//     [Server.Compose], [Server.FaultNotifications].
//   - What did the handler get? [Server.AssertDelivered], [Server.AssertForgeriesRefused]; [Server.Deliveries],
//     [Server.Outbox].
//   - How does the code reach the server? [Server.ClientConfig], [Server.HTTPClient], [Server.Listen],
//     [Server.ListenInMemory], [Server.ServeHTTP].
//   - Is everything over? [Server.Drain], [Server.Close].
//
// # What is checked
//
// Each request must have the right path, method and content type, one timestamp header, one signature header, and a
// correct signature under your Scheme and secret. Its body must be one JSON object without duplicate or unknown fields,
// with the right ids and every required field in the document's type. [Server.Rejected] returns the requests that were
// rejected, and [Server.SignatureFaults] says why a signature is wrong.
//
// # Faults
//
// [Server.Fault] injects faults into the nth request to an endpoint, [Server.FaultNotifications] into notifications,
// and [Server.Chaos] does both at random, from a seed that it prints. Only the faults that are slow wait for a fixed
// time.
//
// # What is made up
//
// The document leaves open the numbers of the statuses, the error fields and codes, the HTTP statuses, what a
// duplicate user_data does, what the two balances mean and how notifications are retried. A server has to do
// something, so each is a field of [Config] whose default is this package's own choice and no promise of the
// service. So are order ids (UUIDs that count from 1), addresses under https://pay.example, the currency
// XTS, which ISO 4217 keeps for tests, and these rules of the books: payout_balance is the opening balance, plus
// payments, forms and invoices in SUCCESS, less payouts not in FAILURE, less refunds in SUCCESS;
// expected_balance adds the payments, forms and invoices that may still succeed; status_payment finds payments,
// forms and invoices, status_payout payouts; user_data is unique among the former and among the latter, in a
// project.
package paymentsvctest
