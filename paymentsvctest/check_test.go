package paymentsvctest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const (
	paymentBody = `{"partner_id":7,"project_id":42,"amount":10.50,"user_data":"order-1"}`
	payoutBody  = `{"partner_id":7,"project_id":42,"amount":10.50,"destination":"4111111111111111","user_data":"payout-1"}`
	balanceBody = `{"partner_id":7,"project_id":42}`
)

// now returns a fixed time.
func now() time.Time { return time.Unix(1_764_310_000, 0) }

// signer returns a signer with the test scheme, a key and a fixed clock.
func signer(t testing.TB, key paymentsvc.Secret) paymentsvc.Signer {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: key, Now: now})
	require.NoError(t, err)
	return signer
}

// signed returns a correct request to an address.
func signed(t testing.TB, address, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, signer(t, secret).Sign(req, []byte(body)))
	req.Header.Set("Content-Type", "application/json")
	return req
}

// send posts a correctly signed body. Before, change may change the request.
func send(
	t testing.TB, srv *paymentsvctest.Server, path, body string, change func(*http.Request),
) (status int, answer string) {
	t.Helper()
	req := signed(t, srv.URL+path, body)
	if change != nil {
		change(req)
	}
	resp, err := srv.HTTPClient().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(got)
}

func set(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

func TestFakeRejectsRequestsThatTheDocumentForbids(t *testing.T) {
	const initPayment = "/init_payment/card"
	replace := func(old, new string) string {
		require.Contains(t, paymentBody, old)
		return strings.Replace(paymentBody, old, new, 1)
	}
	with := func(fields string) string { return replace(`"order-1"`, `"order-1",`+fields) }
	without := func(header string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(header) } }
	type row struct {
		name, path, body string
		change           func(*http.Request)
		message          string // "" for any
	}
	for _, group := range []struct {
		problem paymentsvctest.Problem
		status  int
		rows    []row
	}{
		{paymentsvctest.ProblemEndpoint, 404, []row{
			{"an unknown path", "/init_refund", paymentBody, nil, "no such endpoint"},
			{"an unknown payment type", "/init_payment/cash", paymentBody, nil, ""},
			{"a payment without a type", "/init_payment", paymentBody, nil, ""},
			{"a slash at the end", initPayment + "/", paymentBody, nil, ""},
		}},
		{paymentsvctest.ProblemMethod, 405, []row{
			{"a method other than POST", initPayment, paymentBody, func(r *http.Request) { r.Method = http.MethodPut }, ""},
		}},
		{paymentsvctest.ProblemContentType, 415, []row{
			{"another content type", initPayment, paymentBody, set("Content-Type", "text/json"), ""},
			{"no content type", initPayment, paymentBody, without("Content-Type"), ""},
		}},
		{paymentsvctest.ProblemTooLarge, 413, []row{
			{"a body over 1 MiB", initPayment, paymentBody + strings.Repeat(" ", 1<<20), nil, ""},
		}},
		{paymentsvctest.ProblemHeader, 401, []row{
			{"no timestamp", initPayment, paymentBody, without("Timestamp"), "the timestamp header is missing"},
			{"no signature", initPayment, paymentBody, without("Signature"), "the signature header is missing"},
			{"an empty signature", initPayment, paymentBody, set("Signature", ""), "the signature header is empty"},
			{"two signatures", initPayment, paymentBody, set("Signature", "a", "b"),
				"the signature header appears more than once"},
			{"two timestamps", initPayment, paymentBody, set("Timestamp", "1764310000", "1764310000"), ""},
			{"a signed number as timestamp", initPayment, paymentBody, set("Timestamp", "+1764310000"),
				"timestamp: not digits, want Unix time in seconds"},
			{"milliseconds as timestamp", initPayment, paymentBody, set("Timestamp", "1764310000000"),
				"timestamp: in milliseconds, want Unix time in seconds"},
			{"zero as timestamp", initPayment, paymentBody, set("Timestamp", "0"), "timestamp: 0, want Unix time in seconds"},
			{"leading zeros in a timestamp", initPayment, paymentBody, set("Timestamp", "007"),
				"timestamp: leading zeros, want Unix time in seconds"},
			{"a fraction as timestamp", initPayment, paymentBody, set("Timestamp", "1764310000.5"), ""},
			{"a date as timestamp", initPayment, paymentBody, set("Timestamp", "2025-11-28"), ""},
		}},
		{paymentsvctest.ProblemSignature, 401, []row{
			{"another timestamp than the signed one", initPayment, paymentBody, set("Timestamp", "1764310001"), ""},
			{"another signature", initPayment, paymentBody, set("Signature", "00"), "the signature is not that of this request"},
		}},
		{paymentsvctest.ProblemIDs, 403, []row{
			{"a request of project 43", initPayment, replace("42", "43"), nil, ""},
			{"a request of partner 8", initPayment, replace("7", "8"), nil, ""},
		}},
		{paymentsvctest.ProblemAmount, 422, []row{
			{"a payment of 0", initPayment, replace("10.50", "0"), nil, "the amount is not more than 0"},
			{"a negative payment", initPayment, replace("10.50", "-0.01"), nil, "the amount is not more than 0"},
			{"a form of -0.0", "/init_form", replace("10.50", "-0.0"), nil, "the amount is not more than 0"},
			{"an invoice of 0e5", "/init_invoice", replace("10.50", "0e5"), nil, "the amount is not more than 0"},
			{"a negative payout", "/init_payout", strings.Replace(payoutBody, "10.50", "-10.50", 1), nil,
				"the amount is not more than 0"},
		}},
		{paymentsvctest.ProblemBody, 400, []row{
			{"no body", initPayment, "", nil, "the body is not a JSON object"},
			{"an array", initPayment, "[]", nil, "the body is not a JSON object"},
			{"half an object", initPayment, paymentBody[:30], nil, "the body is not JSON"},
			{"an object and more", initPayment, paymentBody + "{}", nil, "something follows the JSON object in the body"},
			{"a field twice", initPayment, replace(`"user_data"`, `"amount":10.50,"user_data"`), nil,
				"duplicate field in the body"},
			{"text that is not UTF-8", initPayment, replace("order-1", "order-\xff"), nil, "the body is not UTF-8"},
		}},
		{paymentsvctest.ProblemField, 400, []row{
			{"no amount", initPayment, replace(`"amount":10.50,`, ``), nil, "amount: missing"},
			{"a quoted amount", initPayment, replace("10.50", `"10.50"`), nil, "amount: not a number"},
			{"an amount of 65 digits", initPayment, replace("10.50", strings.Repeat("1", 65)), nil, "amount: not a number"},
			{"a fraction as an id", initPayment, replace("42", "42.0"), nil, "project_id: not an integer"},
			{"a quoted id", initPayment, replace("7", `"7"`), nil, "partner_id: not an integer"},
			{"no partner_id", initPayment, replace(`"partner_id":7,`, ``), nil, "partner_id: missing"},
			{"null for a required field", initPayment, replace(`"order-1"`, "null"), nil,
				"user_data: not a string that is not empty"},
			{"an empty user_data", initPayment, replace("order-1", ""), nil, "user_data: not a string that is not empty"},
			{"card_data as text", initPayment, with(`"card_data":"4111111111111111"`), nil, "card_data: not an object"},
			{"payer as null", initPayment, with(`"payer":null`), nil, "payer: not an object"},
			{"browser as an array", initPayment, with(`"browser":[]`), nil, "browser: not an object"},
			{"payee as a number", initPayment, with(`"payee":1`), nil, "payee: not an object"},
			{"a field in other case", initPayment, replace("amount", "Amount"), nil, "amount: missing"},
			{"a field of no document", initPayment, with(`"secret_field":1`), nil,
				"the body has a field that the document does not show for this endpoint"},
			{"the destination of a payout in a payment", initPayment, with(`"destination":"x"`), nil, ""},
			{"a payout without a destination", "/init_payout", paymentBody, nil, "destination: missing"},
			{"card_data in a payout", "/init_payout", strings.Replace(payoutBody, "{", `{"card_data":{},`, 1), nil, ""},
			{"a status of neither identifier", "/status_payment", balanceBody, nil, "order_id: missing, and so is user_data"},
			{"a payout's status by user_data", "/status_payout", strings.Replace(balanceBody, "{", `{"user_data":"x",`, 1), nil,
				"order_id: missing"},
			{"a balance with an amount", "/get_balance", strings.Replace(balanceBody, "{", `{"amount":1,`, 1), nil, ""},
		}},
		{paymentsvctest.ProblemNotFound, 404, []row{
			{"an unknown order", "/status_payment", strings.Replace(balanceBody, "{", `{"order_id":"x",`, 1), nil, ""},
		}},
	} {
		for _, test := range group.rows {
			t.Run(test.name, func(t *testing.T) {
				srv := paymentsvctest.Start(t, config())
				status, answer := send(t, srv, test.path, test.body, test.change)
				assert.Equal(t, group.status, status)

				rejected := srv.Rejected()
				require.Len(t, rejected, 1)
				assert.Equal(t, group.problem, rejected[0].Problem)
				assert.Equal(t, cmp.Or(test.message, rejected[0].Message), rejected[0].Message)
				want, err := json.Marshal(map[string]string{
					"error_code": string(group.problem), "error_message": rejected[0].Message,
				})
				require.NoError(t, err)
				assert.JSONEq(t, string(want), answer)
				assert.Empty(t, srv.Orders())
				isSignature := group.problem == paymentsvctest.ProblemHeader || group.problem == paymentsvctest.ProblemSignature
				assert.Equal(t, isSignature, len(srv.SignatureFaults()) == 1)
				for _, hidden := range []string{card, "secret_field", string(secret)} {
					assert.NotContains(t, fmt.Sprint(rejected, srv.SignatureFaults(), answer), hidden)
				}
			})
		}
	}
}

func TestFakeAcceptsRequestsOfTheDocument(t *testing.T) {
	objects := `"card_data":{"pan":"4111111111111111"},"browser":{},"payer":{"a":[1]},"payee":{"b":null}`
	withObjects := strings.Replace(paymentBody, `"order-1"`, `"order-1",`+objects, 1)
	srv := paymentsvctest.Start(t, config(everyStartCounts))
	for _, kind := range []string{"card", "sbp", "crypto", "mc"} {
		status, answer := send(t, srv, "/init_payment/"+kind, withObjects, nil)
		assert.Equal(t, 200, status)
		n := len(srv.Orders())
		assert.Equal(t, fmt.Sprintf(`{"order_id":"%s","status":1,"status_code":10,`+
			`"redirect_url":"https://pay.example/payment/%[1]s"}`, nth(n)), answer)
		assert.Equal(t, paymentsvc.PaymentType(kind), srv.Orders()[n-1].Type)
	}
	status := func(kind, userData string, order int) string {
		return fmt.Sprintf(`{"partner_id":7,"project_id":42,"amount":10.50,"description":"%s of paymentsvctest",`+
			`"user_data":"%s","order_id":"%s"}`, kind, userData, nth(order))
	}
	withID := func(name, value string) string {
		return strings.Replace(balanceBody, "{", fmt.Sprintf("{%q:%q,", name, value), 1)
	}
	for _, test := range []struct{ path, body, want string }{
		{"/init_payout", payoutBody, `{"order_id":"` + nth(5) + `","status":1,"status_code":10}`},
		{"/init_form", withObjects, `{"redirect_url":"https://pay.example/form/` + nth(6) + `"}`},
		{
			"/init_invoice", withObjects,
			`{"invoice_url":"https://pay.example/invoice/` + nth(7) + `","order_id":"` + nth(7) + `"}`,
		},
		{"/status_payment", withID("order_id", nth(1)), status("payment", "order-1", 1)},
		{"/status_payment", withID("user_data", "order-1"), status("invoice", "order-1", 7)}, // the latest
		{"/status_payout", withID("order_id", nth(5)), status("payout", "payout-1", 5)},
		{"/get_balance", balanceBody, `{"payout_balance":989.50,"expected_balance":1052.50,"currency":"EUR"}`},
	} {
		status, answer := send(t, srv, test.path, test.body, set("Content-Type", "application/json; charset=utf-8"))
		assert.Equal(t, 200, status)
		assert.Equal(t, test.want, answer)
	}
	first := srv.Orders()[0]
	assert.JSONEq(t, `{"pan":"4111111111111111"}`, string(first.CardData))
	assert.JSONEq(t, `{"a":[1]}`, string(first.Payer))
	assert.Equal(t, card, srv.Orders()[4].Destination)
	srv.AssertNoneRejected(t)
	srv.AssertAllSigned(t)
}

func TestStatusFindsOnlyOrdersOfItsKindAndProject(t *testing.T) {
	other := paymentsvctest.Project{ID: 43, Secret: "the secret of project 43"}
	srv, client := startFake(t, func(c *paymentsvctest.Config) { c.Projects = append(c.Projects, other) })
	elsewhere, err := client.ForProject(43, signer(t, other.Secret))
	require.NoError(t, err)
	paymentID, payoutID := pay(t, client, "order-1"), payOut(t, client, "payout-1")

	_, err = client.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: paymentID})
	require.Error(t, err, "a payment is no payout")
	_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: payoutID})
	require.Error(t, err, "a payout is no payment")
	_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "payout-1"})
	require.Error(t, err, "a payout cannot be found by user_data")
	_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: paymentID, UserData: "order-2"})
	require.Error(t, err, "both identifiers must match")
	pay(t, client, `escaped "\ü`)
	assert.Equal(t, 1, srv.Started(`escaped "\ü`))
	_, err = elsewhere.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: paymentID})
	require.Error(t, err, "a payment belongs to one project")
	_, err = elsewhere.InitPayment(t.Context(), paymentsvc.PaymentTypeSBP, payment("order-1"))
	require.NoError(t, err, "user_data is unique in a project")
	balance, err := elsewhere.GetBalance(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "XTS", balance.Currency)
	assert.Equal(t, "0.00", balance.PayoutBalance.String())
	assert.Equal(t, "10.50", balance.ExpectedBalance.String())
	_, err = srv.Balance(44)
	require.Error(t, err)
	assert.Nil(t, srv.ClientConfig(44).Signer)
}

func TestToleranceIsExactToTheSecond(t *testing.T) {
	for _, test := range []struct {
		tolerance time.Duration
		clock     time.Time
		distance  string // in the error, or "" for an accepted timestamp
	}{
		{0, now().AddDate(1000, 0, 0), ""},
		{5 * time.Minute, now().Add(5 * time.Minute), ""},
		{5 * time.Minute, now().Add(-5 * time.Minute), ""},
		{5 * time.Minute, now().Add(301 * time.Second), "5m1s behind"},
		{5 * time.Minute, now().Add(-301 * time.Second), "5m1s ahead of"},
		{5 * time.Minute, now().AddDate(1000, 0, 0), "more than 292 years behind"},
	} {
		t.Run(fmt.Sprint(test.tolerance, test.clock), func(t *testing.T) {
			srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
				c.Tolerance = test.tolerance
				c.Now = func() time.Time { return test.clock }
			}))
			status, _ := send(t, srv, "/get_balance", balanceBody, nil)
			if test.distance == "" {
				assert.Equal(t, 200, status)
				return
			}
			assert.Equal(t, 401, status)
			require.Len(t, srv.SignatureFaults(), 1)
			assert.Equal(t,
				"get_balance, request 1: the timestamp is "+test.distance+" the server's clock, which is at "+
					test.clock.UTC().Format(time.RFC3339)+"; tolerance 5m0s",
				srv.SignatureFaults()[0].String())
		})
	}
}

func TestRepeatedSelectsTheResponseToADuplicate(t *testing.T) {
	start := func(c *paymentsvc.Client, kind paymentsvc.PaymentType, text string) error {
		_, err := c.InitPayment(t.Context(), kind, paymentsvc.PaymentRequest{Amount: amount(text), UserData: "order-1"})
		return err
	}
	t.Run("is rejected by default", func(t *testing.T) {
		srv, client := startFake(t)
		pay(t, client, "order-1")
		err := start(client, paymentsvc.PaymentTypeCard, "10.50")
		require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "409: the first may have started it, and did")
		_, err = client.InitForm(t.Context(), payment("order-1"))
		require.Error(t, err, "forms share the payments' user_data")
		payOut(t, client, "order-1") // payouts do not
		assert.Equal(t, paymentsvctest.ProblemRepeated, srv.Rejected()[0].Problem)
		assert.Equal(t, "order-1", srv.Rejected()[0].UserData)
		assert.Equal(t, 2, srv.Started("order-1"))
	})
	t.Run("returns the same order for an equal request", func(t *testing.T) {
		started := 0
		srv, client := startFake(t, func(c *paymentsvctest.Config) {
			c.Repeated, c.OnStart = paymentsvctest.SameOrder, func(paymentsvctest.Order) { started++ }
		})
		first := pay(t, client, "order-1")
		settled(t, srv, first, paymentsvc.StatusSuccess)
		again, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard,
			paymentsvc.PaymentRequest{Amount: amount("10.5"), UserData: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, first, again.OrderID)
		assert.Equal(t, int64(2), again.Status, "with the status that it has")
		err = start(client, paymentsvc.PaymentTypeCard, "10.51")
		require.Error(t, err, "another amount")
		err = start(client, paymentsvc.PaymentTypeMC, "10.50")
		require.Error(t, err, "another type")
		_, err = client.InitInvoice(t.Context(), payment("order-1"))
		require.Error(t, err, "another kind")
		assert.Equal(t, []int{1, 1}, []int{srv.Started("order-1"), started})
	})

}

func TestErrorFieldsCanBeInAList(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.ErrorCode, c.ErrorMessage = "errors.0.about.code", "errors.0.text"
	}))
	_, answer := send(t, srv, "/status_payment", strings.Replace(balanceBody, "{", `{"order_id":"x",`, 1), nil)
	assert.Regexp(t, `^\{"errors":\[\{"about":\{"code":"order_not_found"\},"text":".*"\}\]\}$`, answer)
	_, err := newClient(t, srv).StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "x"})
	reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
	require.True(t, ok, err)
	assert.Equal(t, "order_not_found", reported.Code)
}

func TestConfigSetsUnspecifiedBehaviour(t *testing.T) {
	srv, client := startFake(t, func(c *paymentsvctest.Config) {
		c.ErrorCode, c.ErrorMessage = "error.code", "error.0"
		c.Errors = map[paymentsvctest.Problem]paymentsvctest.ErrorAnswer{
			paymentsvctest.ProblemNotFound: {HTTPStatus: 200, Code: json.RawMessage("17")},
		}
		c.Numbers = map[paymentsvc.StatusName]paymentsvctest.Numbers{
			paymentsvc.StatusPending: {Status: -3, StatusCode: 1000}, "HELD": {Status: 9, StatusCode: 90},
		}
		c.Check = func(o paymentsvctest.Order) error {
			assert.Empty(t, o.OrderID)
			if o.Amount.Cmp(amount("100")) > 0 {
				return errors.New("100 is the most")
			}
			return nil
		}
	})

	_, answer := send(t, srv, "/status_payment", strings.Replace(balanceBody, "{", `{"order_id":"x",`, 1), nil)
	assert.JSONEq(t, `{"error":{"code":17,"0":"no such order"}}`, answer)
	_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "x"})
	require.Equal(t, paymentsvc.OutcomeRejected, outcomeOf(t, err), "ClientConfig reads the fields as configured")
	var reported *paymentsvc.ServiceError
	require.ErrorAs(t, err, &reported)
	assert.Equal(t, "17", reported.Code)

	p, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeSBP, payment("order-1"))
	require.NoError(t, err)
	assert.Equal(t, int64(-3), p.Status)
	assert.Equal(t, int64(1000), p.StatusCode)
	_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeSBP,
		paymentsvc.PaymentRequest{Amount: amount("100.01"), UserData: "order-2"})
	require.ErrorAs(t, err, &reported)
	assert.Equal(t, "100 is the most", reported.Message)
	n := settled(t, srv, payOut(t, client, "payout-1"), "HELD")
	assert.Equal(t, int64(9), n.Status)
}

func TestFormatRewritesOwnResponsesBeforeFaults(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Format = func(failed bool, status int, header http.Header, _ []byte) (int, []byte) {
			header.Set("Content-Type", "text/plain")
			return http.StatusOK, fmt.Appendf(nil, "%d, failed: %t", status, failed)
		}
	}))
	for _, test := range []struct{ body, fault, want string }{
		{balanceBody, "oversized 0", "200, failed: false"},
		{"{}", "oversized 0", "400, failed: true"},
		{balanceBody, "reject 402 E17 no money", "402, failed: true"},
		{balanceBody, "cut-unframed 3", "200"},
		{balanceBody, "answer before 200 text/plain own", "own"},
	} {
		rule := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(),
			parsed(t, test.fault, paymentsvctest.ParseFault)...)
		status, answer := send(t, srv, "/get_balance", test.body, nil)
		rule.Remove()
		assert.Equal(t, []any{200, test.want}, []any{status, answer}, test.fault)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	errorAnswer := func(problem paymentsvctest.Problem, status int, code string) func(*paymentsvctest.Config) {
		answer := paymentsvctest.ErrorAnswer{HTTPStatus: status, Code: json.RawMessage(code)}
		return func(c *paymentsvctest.Config) {
			c.Errors = map[paymentsvctest.Problem]paymentsvctest.ErrorAnswer{problem: answer}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*paymentsvctest.Config)
		want   string
	}{
		{"no partner", func(c *paymentsvctest.Config) { c.PartnerID = 0 }, "PartnerID: not set"},
		{"no project", func(c *paymentsvctest.Config) { c.Projects = nil }, "Projects: empty"},
		{"a project without an id", func(c *paymentsvctest.Config) { c.Projects[0].ID = 0 },
			"project 1 of Projects: invalid request: ID: not set"},
		{"a project twice", func(c *paymentsvctest.Config) { c.Projects = append(c.Projects, c.Projects[0]) },
			"project 2 of Projects: invalid request: ID: duplicate"},
		{"no secret", func(c *paymentsvctest.Config) { c.Projects[0].Secret = "" }, "Secret: empty"},
		{"one secret twice", func(c *paymentsvctest.Config) { c.Projects[0].OldSecret = secret },
			"OldSecret: the same as Secret"},
		{"no canonical string", func(c *paymentsvctest.Config) { c.Scheme.Canonical = nil }, "Scheme.Canonical: not set"},
		{"no encoding", func(c *paymentsvctest.Config) { c.Scheme.Encoding = nil }, "Scheme.Encoding: not set"},
		{"a base path without a slash", func(c *paymentsvctest.Config) { c.BasePath = "v1" }, "BasePath"},
		{"a base path with a query", func(c *paymentsvctest.Config) { c.BasePath = "/v1?x" }, "BasePath"},
		{"a long id space", func(c *paymentsvctest.Config) { c.IDSpace = 1_000_000_000_000 }, "IDSpace: not a number"},
		{"a negative id space", func(c *paymentsvctest.Config) { c.IDSpace = -1 }, "IDSpace: not a number"},
		{"a negative tolerance", func(c *paymentsvctest.Config) { c.Tolerance = -1 }, "Tolerance: negative"},
		{"negative attempts", func(c *paymentsvctest.Config) { c.NotifyAttempts = -1 }, "NotifyAttempts: negative"},
		{"negative records", func(c *paymentsvctest.Config) { c.MaxRecords = -1 }, "MaxRecords: negative"},
		{"an unknown behaviour", func(c *paymentsvctest.Config) { c.Repeated = 3 }, "Repeated"},
		{"one error field for two", func(c *paymentsvctest.Config) { c.ErrorCode, c.ErrorMessage = "e", "e" },
			"ErrorCode and ErrorMessage"},
		{"an error field inside the other", func(c *paymentsvctest.Config) { c.ErrorCode, c.ErrorMessage = "e", "e.text" },
			"ErrorCode and ErrorMessage"},
		{"an error field around the other", func(c *paymentsvctest.Config) {
			c.ErrorCode, c.ErrorMessage = "e.code", "e"
		}, "ErrorCode and ErrorMessage"},
		{"an unknown problem", errorAnswer("x", 400, "1"), "Errors: no such Problem"},
		{"an HTTP status that is none", errorAnswer(paymentsvctest.ProblemIDs, 100, "1"), "Errors: HTTPStatus"},
		{"a code that is no JSON", errorAnswer(paymentsvctest.ProblemIDs, 400, "E17"), "Errors: Code: not JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := paymentsvctest.New(config(test.change))
			require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), string(secret))
		})
	}
}

func TestFakePrintsNoSecretAndNoCard(t *testing.T) {
	srv, client := startFake(t)
	payOut(t, client, "payout-1")
	request := payment("order-1")
	request.CardData = map[string]string{"pan": card}
	_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, request)
	require.NoError(t, err)
	cfg := config()
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		text := fmt.Sprintf(verb, struct{ s any }{srv}) // fmt cannot call a method of an unexported field
		assert.NotContains(t, text, string(secret))
		assert.NotContains(t, text, card)
	}
	for _, value := range []any{srv, struct{ S *paymentsvctest.Server }{srv}, cfg, &cfg, srv.Orders(), &srv.Orders()[0],
		srv.ClientConfig(project)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, value)
			for _, hidden := range []string{string(secret), string(oldSecret), card, fmt.Sprintf("%x", card),
				fmt.Sprintf("%x", string(secret))} {
				assert.NotContains(t, text, hidden, "%s of %T", verb, value)
			}
		}
	}
	data, err := json.Marshal(srv.Orders())
	require.NoError(t, err)
	assert.NotContains(t, string(data), card)
	assert.True(t, bytes.Contains(data, []byte("order-1")))
}
