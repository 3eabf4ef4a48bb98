package paymentsvc_test

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestEndpointSendsDocumentBody(t *testing.T) {
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			s := newService(t, answering(http.StatusOK, op.answer))
			response, err := op.call(t, newClient(t, s.base()))
			require.NoError(t, err)
			require.NotNil(t, response)

			received := s.received()
			require.Len(t, received, 1)
			assert.Equal(t, testBase+"/"+op.path, received[0].Path)
			assert.Equal(t, op.sent, received[0].Body, "in the document's order")
		})
	}
}

func TestEndpointDecodesEveryResponseField(t *testing.T) {
	s := newService(t, func(w http.ResponseWriter, r *http.Request) {
		for _, op := range operations {
			if r.URL.Path == testBase+"/"+op.path {
				answering(http.StatusOK, op.answer)(w, r)
			}
		}
	})
	c := newClient(t, s.base())
	ctx := t.Context()
	amount := paymentsvc.MustParseAmount

	payment, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentRequest())
	require.NoError(t, err)
	assert.Equal(t, &paymentsvc.InitPaymentResponse{
		OrderID: "6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11", Status: 1, StatusCode: 2,
		RedirectURL: "https://pay.example/3ds", Raw: []byte(paymentAnswer),
	}, payment)
	id, err := payment.OrderUUID()
	require.NoError(t, err)
	assert.Equal(t, payment.OrderID, id.String())

	status, err := c.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: "order-1"})
	require.NoError(t, err)
	assert.Equal(t, &paymentsvc.StatusResponse{
		PartnerID: 11, ProjectID: 22, Amount: amount("10.50"), Description: "d", UserData: "order-1", OrderID: "o-1",
		Raw: []byte(operations[1].answer),
	}, status)

	payout, err := c.InitPayout(ctx, payoutRequest())
	require.NoError(t, err)
	assert.Equal(
		t, &paymentsvc.InitPayoutResponse{OrderID: "po-1", Status: 1, StatusCode: 2, Raw: []byte(payoutAnswer)}, payout,
	)

	payoutStatus, err := c.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: "po-1"})
	require.NoError(t, err)
	assert.Equal(t, &paymentsvc.StatusResponse{Raw: []byte("{}")}, payoutStatus)

	form, err := c.InitForm(ctx, paymentRequest())
	require.NoError(t, err)
	assert.Equal(t, "https://pay.example/form", form.RedirectURL)

	invoice, err := c.InitInvoice(ctx, paymentRequest())
	require.NoError(t, err)
	assert.Equal(t, "https://pay.example/invoice", invoice.InvoiceURL)
	assert.Equal(t, "in-1", invoice.OrderID)

	balance, err := c.GetBalance(ctx)
	require.NoError(t, err)
	assert.Equal(t, &paymentsvc.Balance{
		PayoutBalance: amount("100.10"), ExpectedBalance: amount("100"), Currency: "EUR", Raw: []byte(balanceAnswer),
	}, balance)
}

func TestEndpointPathHasPaymentType(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	c := newClient(t, s.base())
	types := []paymentsvc.PaymentType{
		paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC,
	}
	for i, name := range []string{"card", "sbp", "crypto", "mc"} {
		_, err := c.InitPayment(t.Context(), types[i], paymentRequest())
		require.NoError(t, err)
		assert.Equal(t, testBase+"/init_payment/"+name, s.received()[i].Path)
	}
}

func TestEndpointRejectsUnknownPaymentTypes(t *testing.T) {
	w := newTap(t)
	c := newClient(t, w.base())
	for _, kind := range []paymentsvc.PaymentType{
		"", "../init_payout", "card/../../init_payout", "card%2f..%2f..%2finit_payout", "..", ".", "card/", "/card",
		"//evil.example",
		"card?amount=1", "card#", "card;a", "card ", " card", "CARD", "Card", "car", "cards", "wallet", "cаrd",
		"card\x00", "card HTTP/1.1" + injected, `..\init_payout`,
	} {
		response, err := nilOr(c.InitPayment(t.Context(), kind, paymentRequest()))
		e := failed(t, response, err, paymentsvc.OutcomeNotSent)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		assert.Contains(t, err.Error(), "PaymentType (type)")
		assert.Zero(t, e.Attempts)
		assert.Equal(t, "init_payment", e.Endpoint, "the error does not contain the given type")
	}
	assert.Empty(t, w.received())
}

func TestEndpointRejectsInvalidRequests(t *testing.T) {
	type call = func(testing.TB, *paymentsvc.Client) (any, error)
	type payment = paymentsvc.PaymentRequest
	type payout = paymentsvc.PayoutRequest
	pay := func(change func(*payment)) call {
		return func(t testing.TB, c *paymentsvc.Client) (any, error) {
			r := paymentRequest()
			change(&r)
			return nilOr(c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, r))
		}
	}
	payOut := func(change func(*payout)) call {
		return func(t testing.TB, c *paymentsvc.Client) (any, error) {
			r := payoutRequest()
			change(&r)
			return nilOr(c.InitPayout(t.Context(), r))
		}
	}
	status := func(orderID, userData string) call {
		return func(t testing.TB, c *paymentsvc.Client) (any, error) {
			r := paymentsvc.StatusPaymentRequest{OrderID: orderID, UserData: userData}
			return nilOr(c.StatusPayment(t.Context(), r))
		}
	}
	for _, test := range []struct {
		name, field string
		call        call
	}{
		{"a payment without amount", "Amount (amount)", pay(func(r *payment) { r.Amount = paymentsvc.Amount{} })},
		{"a payment without user_data", "UserData (user_data)", pay(func(r *payment) { r.UserData = "" })},
		{"user_data with invalid UTF-8", "UserData (user_data)", pay(func(r *payment) { r.UserData = "a\xff" })},
		{"card_data that is text", "CardData (card_data)", pay(func(r *payment) { r.CardData = "4111" })},
		{"browser that is a list", "Browser (browser)", pay(func(r *payment) { r.Browser = []int{1} })},
		{"payer that is a number", "Payer (payer)", pay(func(r *payment) { r.Payer = 1 })},
		{
			"payee with a function", "Payee (payee)",
			pay(func(r *payment) { r.Payee = map[string]any{"f": func() {}} }),
		},
		{"card_data with invalid UTF-8", "CardData (card_data): holds text that is not valid UTF-8",
			pay(func(r *payment) { r.CardData = map[string]any{"holder": "J\xf6rg"} })},
		{"a form without amount", "Amount (amount)", func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitForm(t.Context(), payment{UserData: "u"}))
		}},
		{"an invoice without user_data", "UserData (user_data)", func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitInvoice(t.Context(), payment{Amount: paymentsvc.MustParseAmount("1")}))
		}},
		{"a payout without amount", "Amount (amount)", payOut(func(r *payout) { r.Amount = paymentsvc.Amount{} })},
		{"a payout without destination", "Destination (destination)", payOut(func(r *payout) { r.Destination = "" })},
		{"a payout without user_data", "UserData (user_data)", payOut(func(r *payout) { r.UserData = "" })},
		{
			"a destination with invalid UTF-8", "Destination (destination)",
			payOut(func(r *payout) { r.Destination = "\xc3(" }),
		},
		{"a payment's status without id", "OrderID (order_id) or UserData (user_data)", status("", "")},
		{"a payment's status with both ids", "OrderID (order_id) and UserData (user_data)", status("o", "u")},
		{"a payment's status with invalid UTF-8", "OrderID (order_id)", status("\xff", "")},
		{"a payment's status by user_data with invalid UTF-8", "UserData (user_data)", status("", "\xff")},
		{"a payout's status without id", "OrderID (order_id)", func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{}))
		}},
		{"a nil context", "ctx", func(_ testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.GetBalance(nil)) //nolint:staticcheck // the test needs a nil context
		}},
		{"the zero Client", "Client", func(t testing.TB, _ *paymentsvc.Client) (any, error) {
			return nilOr(new(paymentsvc.Client).InitPayout(t.Context(), payoutRequest()))
		}},
		{"a nil Client", "Client", func(t testing.TB, _ *paymentsvc.Client) (any, error) {
			return nilOr((*paymentsvc.Client)(nil).GetBalance(t.Context()))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, answering(http.StatusOK, paymentAnswer))
			attempts := 0
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) {
				cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { attempts++ })
			})
			response, err := test.call(t, c)
			e := failed(t, response, err, paymentsvc.OutcomeNotSent)
			assert.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.Contains(t, err.Error(), test.field)
			assert.Zero(t, e.Attempts)
			assert.Zero(t, attempts)
			assert.Empty(t, s.received())
		})
	}
}

func TestEndpointReportsUnknownForMalformedResponse(t *testing.T) {
	// Required fields by endpoint. Each must be present, not null, and of its type.
	required := map[string][]string{
		"init_payment":  {"order_id", "status", "status_code"},
		"init_payout":   {"order_id", "status", "status_code"},
		"init_form":     {"redirect_url"},
		"init_invoice":  {"invoice_url", "order_id"},
		"get_balance":   {"currency"}, // a balance too, see TestEndpointListsMalformedOptionalFields
		"status_payout": nil, "status_payment": nil,
	}
	for _, op := range operations {
		answers := map[string]string{
			"an HTML page":         "<html>maintenance</html>",
			"a list":               "[" + op.answer + "]",
			"null":                 "null",
			"a text":               `"ok"`,
			"two byte order marks": "\ufeff\ufeff" + op.answer,
			"two objects":          op.answer + op.answer,
			"something behind it":  op.answer + "x",
			"a known field twice":  `{"order_id":"a","order_id":"b",` + strings.TrimPrefix(op.answer, "{"),
			"nothing":              "",
			"half of it":           op.answer[:len(op.answer)-1],
			"a comma too many":     strings.TrimSuffix(op.answer, "}") + ",}",
			"invalid UTF-8 inside": "{\"\xff\": ,}",
		}
		if !slices.Contains(required[op.name], "order_id") {
			delete(answers, "a known field twice") // the endpoint ignores it
		}
		if op.name == "get_balance" {
			answers["neither balance"] = `{"payout_balance":null,"expected_balance":"x","currency":"EUR"}`
			answers["no balance"] = `{"currency":"EUR"}`
			answers["a duplicate balance"] = `{"payout_balance":1,"payout_balance":1,"currency":"EUR"}`
		}
		for _, field := range required[op.name] {
			renamed := func(name string) string { return strings.Replace(op.answer, `"`+field+`"`, `"`+name+`"`, 1) }
			answers[field+" renamed"] = renamed("x_" + field)
			answers[field+" in other case"] = renamed(strings.ToUpper(field))
			for _, wrong := range []string{"null", "true", "[]", "{}", `"\ud83d"`, "1.5", `""`} {
				if wrong == `""` && field == "currency" || wrong == "1.5" && strings.HasSuffix(field, "balance") ||
					wrong == `"\ud83d"` && !strings.HasPrefix(field, "status") {
					continue // right for this field
				}
				answers[field+" is "+wrong] = withValue(op.answer, field, wrong)
			}
		}
		for name, answer := range answers {
			t.Run(op.name+"/"+name, func(t *testing.T) {
				s := newService(t, answering(http.StatusOK, answer))
				response, err := op.call(t, newClient(t, s.base()))
				e := failed(t, response, err, paymentsvc.OutcomeUnknown)
				assert.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
				assert.Equal(t, http.StatusOK, e.HTTPStatus)
				assert.Equal(t, answer, string(e.Body))
				if strings.HasSuffix(name, " balance") {
					assert.ErrorContains(t, err, "payout_balance and expected_balance: missing")
				}
				if op.starts {
					assert.Len(t, s.received(), 1, "a start is not sent again")
				}
			})
		}
	}
}

// withValue returns a response with another value for one field.
func withValue(answer, field, value string) string {
	before, after, _ := strings.Cut(answer, `"`+field+`":`)
	end := strings.IndexAny(after, ",}")
	return fmt.Sprintf(`%s"%s":%s%s`, before, field, value, after[end:])
}

// Only required fields decide about success. Malformed optional fields are listed, so a bad description cannot hide a
// started payment.
func TestEndpointListsMalformedOptionalFields(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		malformed        []string
	}{
		{
			"redirect_url: false", "init_payment/card",
			`{"order_id":"o","status":1,"status_code":2,"redirect_url":false}`, []string{"redirect_url"},
		},
		{
			"redirect_url twice", "init_payment/card",
			`{"order_id":"o","redirect_url":"a","status":1,"status_code":2,"redirect_url":"b"}`,
			[]string{"redirect_url"},
		},
		{"no redirect_url", "init_payment/card", `{"order_id":"o","status":1,"status_code":2}`, nil},
		{
			"added fields", "init_payment/card",
			`{"new":{"order_id":5},"order_id":"o","status":1,"redirect_url":null,"status_code":2,"new":[{}]}`, nil,
		},
		{"Status beside status", "init_payment/card", `{"order_id":"o","Status":"x","status":1,"status_code":2}`, nil},
		{"integers with decimals and exponents", "init_payout", `{"order_id":"o","status":1.0,"status_code":1e0}`, nil},
		{"a byte order mark", "init_payout", "\ufeff" + payoutAnswer, nil},
		{"order_id is no field of a form", "init_form", `{"redirect_url":"u","order_id":1}`, nil},
		{"integers as text", "status_payment", `{"partner_id":"7","project_id":"2.0"}`, []string{"project_id"}},
		{"required integers as text", "init_payout", `{"order_id":"o","status":"1","status_code":"20"}`, nil},
		{"an empty amount", "status_payout", `{"amount":"","order_id":"o"}`, []string{"amount"}},
		{"half a surrogate pair", "status_payment", `{"order_id":"o","description":"\ud83d"}`, []string{"description"}},
		{
			"all of them", "status_payment",
			`{"order_id":1,"user_data":{},"description":[],"amount":true,"project_id":1.5,"partner_id":"x"}`,
			[]string{"partner_id", "project_id", "amount", "description", "user_data", "order_id"},
		},
		{
			"one balance", "get_balance", `{"payout_balance":1,"expected_balance":"x","currency":"EUR"}`,
			[]string{"expected_balance"},
		},
		{
			"a duplicate balance", "get_balance",
			`{"payout_balance":1,"payout_balance":1,"expected_balance":2,"currency":"EUR"}`, []string{"payout_balance"},
		},
		{"the other balance", "get_balance", `{"payout_balance":null,"expected_balance":1,"currency":"EUR"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, answering(http.StatusOK, test.body))
			for _, op := range operations {
				if op.path != test.path {
					continue
				}
				response, err := op.call(t, newClient(t, s.base()))
				require.NoError(t, err)
				got := reflect.ValueOf(response).Elem()
				assert.Equal(t, test.malformed, got.FieldByName("Malformed").Interface())
				assert.Equal(t, test.body, string(got.FieldByName("Raw").Bytes()))
			}
			assert.Len(t, s.received(), 1, cmp.Or(test.path, "no such endpoint"))
		})
	}
}

func TestOrderUUIDErrorHidesOrderID(t *testing.T) {
	for _, orderID := range []string{"4111-1111" + "7e1ad2a1-56e3-48a8-a434-1e091b94936d", "4111111111111111", ""} {
		r := paymentsvc.InitPaymentResponse{OrderID: orderID}
		id, err := r.OrderUUID()
		assert.EqualError(t, err, "paymentsvc: order_id is not a UUID")
		assert.Zero(t, id)
	}
}
