package paymentsvc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// exampleService starts a service on this machine with the responses of respond. Package paymentsvctest has a complete
// fake for your tests. Your program creates its own paymentsvc.Config, as in ExampleNewClient.
func exampleService(respond http.HandlerFunc) (*httptest.Server, *paymentsvc.Client) {
	service := httptest.NewServer(respond)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: exampleScheme(), Secret: "an-example-key"})
	if err != nil {
		panic(err)
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: service.URL, PartnerID: 1, ProjectID: 2, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"), // an example: ask the service
	})
	if err != nil {
		panic(err)
	}
	return service, client
}

// respondWith returns the handler of a service with one response.
func respondWith(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// loseResponse ends the connection of a request without a response.
func loseResponse(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// exampleScheme is the choice of these examples, because the interface document specifies none. Ask the service for
// yours.
func exampleScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
	}
}

func ExampleNewClient() {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example: ask the service
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
	service, client := exampleService(respondWith(`{}`))
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
	service, client := exampleService(respondWith(
		`{"order_id":"o-1","status":1,"status_code":10,"redirect_url":"https://pay.example/o-1"}`,
	))
	defer service.Close()

	userData := "order-17" // paymentsvc.NewUserData() makes one; store it before the call
	payment, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount:   paymentsvc.MustParseAmount("10.50"),
		UserData: userData,
		CardData: map[string]any{"number": "4111111111111111"}, // ask the service for the members
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("order", payment.OrderID)
	fmt.Println("send the payer to", payment.RedirectURL)
	// Output:
	// order o-1
	// send the payer to https://pay.example/o-1
}

func ExampleClient_StatusPayment() {
	// The service starts this payment, but its response is lost.
	service, client := exampleService(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/init_payment") {
			loseResponse(w, r)
		}
		respondWith(`{"order_id":"o-1","user_data":"order-17","amount":10.50}`)(w, r)
	})
	defer service.Close()
	ctx := context.Background()

	_, err := client.InitPayment(ctx, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	fmt.Println("outcome:", paymentsvc.OutcomeOf(err))

	// Query the service for the payment instead of starting it again.
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
	service, client := exampleService(respondWith(`{"order_id":"po-1","status":1,"status_code":10}`))
	defer service.Close()

	payout, err := client.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount:      paymentsvc.MustParseAmount("25.00"),
		Destination: "4111111111111111",
		UserData:    "payout-3",
	})
	switch {
	case err == nil:
		fmt.Println("store", payout.OrderID, "for StatusPayout")
	case paymentsvc.SafeToRetry(err): // 401, 403: alert, fix the key or the clock, then retry
		fmt.Println("retry with the same user_data, after a back-off:", err)
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		fmt.Println("wait for its notification, or ask the service; do not start it again:", err)
	default:
		fmt.Println("permanently rejected:", err)
	}
	// Output:
	// store po-1 for StatusPayout
}

func ExampleClient_StatusPayout() {
	service, client := exampleService(respondWith(`{"order_id":"po-1","user_data":"payout-3","amount":25.00}`))
	defer service.Close()
	status, err := client.StatusPayout(context.Background(), paymentsvc.StatusPayoutRequest{OrderID: "po-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.UserData, status.Amount)
	// Output:
	// payout-3 25.00
}

func ExampleClient_InitForm() {
	service, client := exampleService(respondWith(`{"redirect_url":"https://pay.example/form/1"}`))
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
	// send the payer to https://pay.example/form/1
}

func ExampleClient_InitInvoice() {
	service, client := exampleService(respondWith(
		`{"order_id":"o-1","invoice_url":"https://pay.example/invoice/1"}`,
	))
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
	// send the payer to https://pay.example/invoice/1
}

func ExampleClient_GetBalance() {
	service, client := exampleService(respondWith(
		`{"payout_balance":100.00,"expected_balance":100.00,"currency":"XTS"}`,
	))
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

// The four cases of a start, each from a response that causes it.
func ExampleSafeToRetry() {
	responses := map[string]http.HandlerFunc{
		"order-17": respondWith(`{"order_id":"o-1","status":1,"status_code":10}`),
		"too-soon": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error_code":"E3","error_message":"too many requests"}`)
		},
		"over-the-limit": respondWith(`{"error_code":"E17","error_message":"limit"}`),
		"lost":           loseResponse,
	}
	service, client := exampleService(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			UserData string `json:"user_data"`
		}
		_ = json.NewDecoder(r.Body).Decode(&request)
		responses[request.UserData](w, r)
	})
	start := func(userData string) {
		_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
			Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
		})
		switch {
		case err == nil:
			fmt.Println(userData, "is started")
		case paymentsvc.SafeToRetry(err):
			fmt.Println(userData, "can be retried:", paymentsvc.OutcomeOf(err))
		case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
			fmt.Println(userData, "may have been started: query StatusPayment")
		default:
			fmt.Println(userData, "is permanently rejected")
		}
	}
	start("order-17")
	start("too-soon")
	start("over-the-limit")
	start("lost")
	service.Close()
	start("not-connected") // after three attempts
	// Output:
	// order-17 is started
	// too-soon can be retried: rejected
	// over-the-limit is permanently rejected
	// lost may have been started: query StatusPayment
	// not-connected can be retried: not sent
}

// The service may have paid a payout although its response was lost. The error contains the outcome and the number of
// attempts.
func ExampleError() {
	service, client := exampleService(loseResponse)
	defer service.Close()
	_, err := client.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("25.00"), Destination: "4111111111111111", UserData: "payout-3",
	})
	var failed *paymentsvc.Error
	if errors.As(err, &failed) && failed.Outcome == paymentsvc.OutcomeUnknown {
		fmt.Printf(
			"%s: %s after %d attempt, HTTP status %d\n", failed.Endpoint, failed.Outcome, failed.Attempts,
			failed.HTTPStatus,
		)
		fmt.Println("wait for the notification, or ask the service; do not start it again")
	}
	// Output:
	// init_payout: unknown after 1 attempt, HTTP status 0
	// wait for the notification, or ask the service; do not start it again
}

func ExampleErrorFields() {
	decode := paymentsvc.ErrorFields("error.code", "error.message") // ask the service for the names
	reported := decode(http.StatusOK, []byte(`{"error":{"code":17,"message":"limit exceeded"}}`))
	fmt.Println(reported.Code, reported.Message)
	fmt.Println(decode(http.StatusOK, []byte(`{"order_id":"o-1","status":1,"status_code":0}`)) == nil)
	// Output:
	// 17 limit exceeded
	// true
}

func ExampleServiceError() {
	service, client := exampleService(respondWith(`{"error_code":"E17","error_message":"limit exceeded"}`))
	defer service.Close()
	_, err := client.InitForm(context.Background(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-17",
	})
	// The text of the error omits the service's message, which may repeat the request.
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

// exampleWebhook returns the Webhook of ExampleWebhook_Handler, without the old secret. The interface document does not
// specify the canonical string, the encoding and the tolerance, so these are the choice of the examples. Ask the
// service for yours.
func exampleWebhook(tolerance time.Duration) *paymentsvc.Webhook {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    exampleScheme(),
		Secrets:   []paymentsvc.Secret{"new-project-secret-key"},
		Tolerance: tolerance,
		OnError:   func(_ *http.Request, err error) { fmt.Println(err) }, // otherwise rejections are not reported
	})
	if err != nil {
		log.Fatal(err)
	}
	return webhook
}

// signedNow returns the headers that the service would send with a notification.
func signedNow(secret paymentsvc.Secret, body string) http.Header {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	signature, err := exampleScheme().Signature(secret, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: http.MethodPost, Timestamp: timestamp, Body: []byte(body),
	})
	if err != nil {
		log.Fatal(err)
	}
	return http.Header{"Timestamp": {timestamp}, "Signature": {signature}}
}

// deliver sends a notification to h, like the service, and returns the status of the response.
func deliver(h http.Handler, secret paymentsvc.Secret, body string) int {
	r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(body))
	r.Header = signedNow(secret, body)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// notice is the body of a notification.
func notice(event paymentsvc.EventType, orderID string, status paymentsvc.StatusName, amount string) string {
	return fmt.Sprintf(`{"event":%q,"order_id":%q,"status":1,"status_description":%q,"status_code":2,`+
		`"amount":%s,"user_data":"mine-1"}`, event, orderID, status, amount)
}

// NewWebhook returns an error for each missing value that the interface document does not specify.
func ExampleNewWebhook() {
	show := func(err error) { fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n")) } // for short lines
	cfg := paymentsvc.WebhookConfig{Secrets: []paymentsvc.Secret{"the-project-secret-key"}}
	_, err := paymentsvc.NewWebhook(cfg)
	show(err)

	cfg.Scheme = paymentsvc.Scheme{ // an example: ask the service for yours
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
	_, err = paymentsvc.NewWebhook(cfg)
	show(err)

	cfg.Tolerance = 5 * time.Minute // your choice
	webhook, err := paymentsvc.NewWebhook(cfg)
	fmt.Println(webhook != nil, err)
	// Output:
	// paymentsvc: WebhookConfig: invalid request: Scheme.Canonical: not set;
	// the interface document does not specify it, so it has no default
	// paymentsvc: WebhookConfig: invalid request: Tolerance: not set;
	// the interface document does not specify it, so choose one, or AnyAge
	// true <nil>
}

// A handler for net/http. The function is called only for notifications that the service signed.
func ExampleWebhook_Handler() {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
		Secrets:   []paymentsvc.Secret{"new-project-secret-key", "old-project-secret-key"}, // both during a rotation
		Tolerance: 5 * time.Minute,
		OnError:   func(_ *http.Request, err error) { fmt.Println(err) }, // otherwise rejections are not reported
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		fmt.Println(n.Event, n.OrderID, n.StatusDescription, n.Amount)
		return nil // store it first; the response to an error is 500
	}))

	fmt.Println("the canonical string, the encoding and the responses are this example's choice")
	payment := notice(paymentsvc.EventPaymentStatusChanged, "o-1", paymentsvc.StatusSuccess, "10.50")
	refund := notice(paymentsvc.EventRefundStatusChanged, "o-1", "IN_REVIEW", "3")
	fmt.Println(deliver(mux, "new-project-secret-key", payment))
	fmt.Println(deliver(mux, "old-project-secret-key", refund))
	fmt.Println(deliver(mux, "a-key-of-somebody-else", payment))
	fmt.Println(deliver(mux, "new-project-secret-key", `{"event":"payment.status_changed"}`))
	// Output:
	// the canonical string, the encoding and the responses are this example's choice
	// payment.status_changed o-1 SUCCESS 10.50
	// 200
	// refund.status_changed o-1 IN_REVIEW 3
	// 200
	// paymentsvc: notification: signature mismatch
	// 401
	// paymentsvc: malformed notification: order_id: missing
	// 400
}

// queuedNotification is a message of a queue. Its body is base64 in JSON, so that every byte survives; encoding/json
// compacts Notification.Raw.
type queuedNotification struct {
	Header http.Header
	Body   []byte
}

// A receiver verifies the raw body and queues it with its header. The worker uses AnyAge, because messages wait in the
// queue and their age was checked before.
func ExampleWebhook_Verify() {
	webhook := exampleWebhook(5 * time.Minute) // see the example of Webhook.Handler
	receive := func(header http.Header, body []byte) ([]byte, error) {
		if err := webhook.Verify(header, body); err != nil {
			return nil, err
		}
		return json.Marshal(queuedNotification{header, body})
	}
	work := func(message []byte) (*paymentsvc.Notification, error) {
		var q queuedNotification
		if err := json.Unmarshal(message, &q); err != nil {
			return nil, err
		}
		return exampleWebhook(paymentsvc.AnyAge).Parse(q.Header, q.Body)
	}

	fmt.Println("the canonical string and the encoding are this example's choice")
	body := notice(paymentsvc.EventPayoutStatusChanged, "po-1", paymentsvc.StatusFailure, "99.90")
	header := signedNow("new-project-secret-key", body)
	message, err := receive(header, []byte(body))
	if err != nil {
		log.Fatal(err)
	}
	n, err := work(message)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("from the queue:", n.Event, n.OrderID, n.StatusDescription)
	_, err = receive(header, []byte(strings.Replace(body, "99.90", "99.9", 1)))
	fmt.Println(errors.Is(err, paymentsvc.ErrSignatureMismatch), err)
	// Output:
	// the canonical string and the encoding are this example's choice
	// from the queue: payout.status_changed po-1 FAILURE
	// true paymentsvc: notification: signature mismatch
}

// Your own handler can parse the notification and leave the body for the next handler, such as a proxy to another
// service.
func ExampleWebhook_ParseRequest() {
	webhook := exampleWebhook(5 * time.Minute) // see the example of Webhook.Handler
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Println("passed on:", len(body), "bytes", err)
		w.WriteHeader(http.StatusAccepted)
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.ParseRequest(r)
		if err != nil {
			fmt.Println(err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Println(n.Event, n.OrderID, n.StatusDescription, n.UserData)
		next.ServeHTTP(w, r)
	})

	fmt.Println("the canonical string, the encoding and the responses are this example's choice")
	body := notice(paymentsvc.EventPaymentStatusChanged, "o-1", paymentsvc.StatusSuccess, "10.50")
	fmt.Println(deliver(handler, "new-project-secret-key", body))
	fmt.Println(deliver(handler, "a-key-of-somebody-else", body))
	// Output:
	// the canonical string, the encoding and the responses are this example's choice
	// payment.status_changed o-1 SUCCESS mine-1
	// passed on: 145 bytes <nil>
	// 202
	// paymentsvc: notification: signature mismatch
	// 400
}

// gatewayEvent is the request that an API gateway passes to a function, with a map and a text.
type gatewayEvent struct {
	Headers map[string]string
	Body    string
}

// A function behind an API gateway gets a map of headers and the body as text. Header names may have any letter case.
// If your gateway encodes the body as base64, decode it first.
func ExampleWebhook_Parse() {
	webhook := exampleWebhook(5 * time.Minute) // see the example of Webhook.Handler
	function := func(event gatewayEvent) (status int) {
		header := http.Header{}
		for name, value := range event.Headers {
			header.Add(name, value)
		}
		n, err := webhook.Parse(header, []byte(event.Body))
		var malformed *paymentsvc.NotificationError
		switch {
		case errors.As(err, &malformed): // signed, but not a notification; review malformed.Raw
			fmt.Println(err)
			return http.StatusBadRequest
		case err != nil:
			fmt.Println(err)
			return http.StatusUnauthorized
		}
		fmt.Println(n.Event, n.OrderID, n.StatusDescription, n.Final())
		return http.StatusOK
	}

	fmt.Println("the canonical string, the encoding and the responses are this example's choice")
	whole := notice(paymentsvc.EventPaymentStatusChanged, "o-1", paymentsvc.StatusPending, "10.50")
	for _, body := range []string{whole, `{"event":"payment.status_changed","order_id":null}`} {
		header := signedNow("new-project-secret-key", body)
		fmt.Println(function(gatewayEvent{
			Headers: map[string]string{"timestamp": header.Get("timestamp"), "signature": header.Get("signature")},
			Body:    body,
		}))
	}
	fmt.Println(function(gatewayEvent{Body: whole}))
	// Output:
	// the canonical string, the encoding and the responses are this example's choice
	// payment.status_changed o-1 PENDING false
	// 200
	// paymentsvc: malformed notification: order_id: null
	// 400
	// paymentsvc: notification: missing header: timestamp
	// 401
}

// table represents a table with a unique index. With a database, use one transaction per notification.
type table map[string]paymentsvc.StatusName

// insert is
//
//	INSERT INTO notifications (key) VALUES ($1) ON CONFLICT DO NOTHING
//
// and reports whether a row was inserted.
func (t table) insert(key string) bool {
	_, conflict := t[key]
	if !conflict {
		t[key] = ""
	}
	return !conflict
}

// advance is
//
//	INSERT INTO states (event, order_id, status) VALUES ($1, $2, $3)
//	ON CONFLICT (event, order_id) DO UPDATE SET status = excluded.status
//	WHERE states.event <> 'payment.status_changed' OR states.status NOT IN ('SUCCESS', 'FAILURE')
//
// and reports whether a row was written. Notification.Final is that condition. The event belongs to the index, since a
// refund carries the order_id of its payment, and may arrive first.
func (t table) advance(n *paymentsvc.Notification) bool {
	order := string(n.Event) + " " + n.OrderID
	before := paymentsvc.Notification{Event: n.Event, StatusDescription: t[order]}
	if before.Final() {
		return false
	}
	t[order] = n.StatusDescription
	return true
}

// Expect duplicates and late notifications. A unique index on Key rejects a duplicate, and the condition in advance
// protects a final state. Check the event first, because a refund has the order_id of its payment.
func ExampleNotification_Key() {
	notifications, states := table{}, table{}
	webhook := exampleWebhook(5 * time.Minute) // see the example of Webhook.Handler
	handler := webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		switch {
		case !notifications.insert(n.Key()):
			fmt.Println(n.StatusDescription, "is a duplicate: nothing to do")
		case n.Event == paymentsvc.EventRefundStatusChanged:
			states.advance(n) // in its own row; do not ship after a refund
			fmt.Println(n.StatusDescription, "is a refund's: the payment stays as it is")
		case !states.advance(n):
			fmt.Println(n.StatusDescription, "is late: the state stays as it is")
		default:
			fmt.Println(n.StatusDescription, "is the new state")
		}
		return nil
	})

	fmt.Println("the canonical string and the encoding are this example's choice")
	pending := notice(paymentsvc.EventPaymentStatusChanged, "o-1", paymentsvc.StatusPending, "10.50")
	held := notice(paymentsvc.EventPaymentStatusChanged, "o-1", "HELD", "10.50")
	success := notice(paymentsvc.EventPaymentStatusChanged, "o-1", paymentsvc.StatusSuccess, "10.50")
	refund := notice(paymentsvc.EventRefundStatusChanged, "o-1", paymentsvc.StatusFailure, "3")
	for _, body := range []string{
		held, success, success, pending, refund, strings.Replace(success, "10.50", "10.5", 1),
	} {
		deliver(handler, "new-project-secret-key", body)
	}
	fmt.Println("payment o-1:", states["payment.status_changed o-1"])
	fmt.Println("refund o-1:", states["refund.status_changed o-1"])
	// Output:
	// the canonical string and the encoding are this example's choice
	// HELD is the new state
	// SUCCESS is the new state
	// SUCCESS is a duplicate: nothing to do
	// PENDING is late: the state stays as it is
	// FAILURE is a refund's: the payment stays as it is
	// SUCCESS is a duplicate: nothing to do
	// payment o-1: SUCCESS
	// refund o-1: FAILURE
}

// Final is true only for the SUCCESS and FAILURE of a payment. A refund has the order_id of its payment, but its
// FAILURE does not concern the payment.
func ExampleNotification_Final() {
	for _, n := range []paymentsvc.Notification{
		{Event: paymentsvc.EventPaymentStatusChanged, StatusDescription: paymentsvc.StatusSuccess},
		{Event: paymentsvc.EventRefundStatusChanged, StatusDescription: paymentsvc.StatusFailure},
		{Event: paymentsvc.EventPayoutStatusChanged, StatusDescription: paymentsvc.StatusSuccess},
	} {
		fmt.Println(n.Event, n.StatusDescription, n.Final())
	}
	// Output:
	// payment.status_changed SUCCESS true
	// refund.status_changed FAILURE false
	// payout.status_changed SUCCESS false
}
