package paymentsvc_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestNewUserDataReturnsRandomUUIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		userData := paymentsvc.NewUserData()
		require.Equal(t, uuid.Version(4), uuid.MustParse(userData).Version())
		require.False(t, seen[userData], "duplicate")
		seen[userData] = true
	}
}

func TestStatusNameKnownAndFinalFollowDocument(t *testing.T) {
	for _, tt := range []struct {
		name         paymentsvc.StatusName
		known, final bool
	}{
		{paymentsvc.StatusPending, true, false},
		{paymentsvc.StatusSuccess, true, true},
		{paymentsvc.StatusFailure, true, true},
		{"", false, false},
		{"success", false, false},
		{"Success", false, false},
		{"SUCCESS ", false, false},
		{"SUCCESSFUL", false, false},
		{"REFUNDED", false, false},
		{"CANCELLED", false, false},
	} {
		assert.Equal(t, tt.known, tt.name.Known(), "%q known", tt.name)
		assert.Equal(t, tt.final, tt.name.Final(), "%q final", tt.name)
	}
}

func TestRequestJSONUsesDocumentNames(t *testing.T) {
	r := paymentRequest()
	want := `{"amount":10.50,"user_data":"order-1"}`
	data, err := r.JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data), "exact bytes, because 10.5 would have another scale")

	r.CardData = cardData{Number: pan, Limit: 1234567890123456789, Fee: "1.10"}
	r.Browser = map[string]any{"width": 1280}
	r.Payer = json.RawMessage(`{"b":1.10,"a":2}`)
	r.Payee = &cardData{}
	want = `{"amount":10.50,"user_data":"order-1",` +
		`"card_data":{"number":"4111111111111111","limit":1234567890123456789,"fee":1.10,"note":""},` +
		`"browser":{"width":1280},"payer":{"b":1.10,"a":2},"payee":{"number":"","limit":0,"note":""}}`
	data, err = r.JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data))

	data, err = payoutRequest().JSON()
	require.NoError(t, err)
	require.Equal(t, `{"amount":10.50,"destination":"4111111111111111","user_data":"payout-1"}`, string(data))
}

// A logger that writes JSON must not print a card number. A redacted copy in a queue would lose the number silently.
func TestRequestMarshalJSONReturnsErrSensitive(t *testing.T) {
	payment, payout := canaryPayment(), canaryPayout()
	type embedded struct {
		paymentsvc.PayoutRequest
		ID int
	}
	for name, v := range map[string]any{
		"PaymentRequest": payment, "*PaymentRequest": &payment, "PayoutRequest": payout, "*PayoutRequest": &payout,
		"the zero PaymentRequest": paymentsvc.PaymentRequest{}, "the zero PayoutRequest": paymentsvc.PayoutRequest{},
		"slice": []paymentsvc.PaymentRequest{payment}, "array": [1]*paymentsvc.PayoutRequest{&payout},
		"map": map[string]any{"request": payout}, "struct": struct{ Request *paymentsvc.PaymentRequest }{&payment},
		"embedded": embedded{payout, 1},
	} {
		data, err := json.Marshal(v)
		require.ErrorIs(t, err, paymentsvc.ErrSensitive, name)
		require.NotErrorIs(t, err, paymentsvc.ErrInvalidRequest, name)
		require.Empty(t, data, name)
		errorShowsNothing(t, name, err)
	}
	data, err := json.Marshal([]any{(*paymentsvc.PaymentRequest)(nil), (*paymentsvc.PayoutRequest)(nil)})
	require.NoError(t, err)
	require.Equal(t, "[null,null]", string(data), "nil pointers have no data")
}

func TestRequestJSONAcceptsIncompleteRequests(t *testing.T) {
	for want, request := range map[string]interface {
		JSON() (json.RawMessage, error)
	}{
		`{"amount":null,"user_data":""}`:                  paymentsvc.PaymentRequest{},
		`{"amount":null,"destination":"","user_data":""}`: paymentsvc.PayoutRequest{},
	} {
		got, err := request.JSON()
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for want, request := range map[string]any{
		`{"user_data":"u"}`: paymentsvc.StatusPaymentRequest{UserData: "u"},
		`{"order_id":"o"}`:  paymentsvc.StatusPayoutRequest{OrderID: "o"},
	} {
		got, err := json.Marshal(request)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestRequestJSONRejectsInvalidUTF8(t *testing.T) {
	const invalid = "a\xff"
	card := paymentRequest()
	card.CardData = map[string]string{"holder": invalid}
	user := paymentRequest()
	user.UserData = invalid
	destination, payoutUser := payoutRequest(), payoutRequest()
	destination.Destination = invalid
	payoutUser.UserData = invalid
	for _, request := range []interface {
		JSON() (json.RawMessage, error)
	}{card, user, destination, payoutUser, &destination} {
		_, err := request.JSON()
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
	}
}

// notRead asserts that invalid data leaves a request unchanged, and that the error contains no card number.
func notRead[T paymentsvc.PaymentRequest | paymentsvc.PayoutRequest](t *testing.T, want T, fields ...string) {
	t.Helper()
	for _, data := range append(fields,
		``, `[]`, `"`+pan+`"`, `5`, `true`, `{`, `{"amount":"`+pan+`x"}`, `{"amount":{}}`,
		`{"user_data":4111111111111111}`, `{"user_data":["`+pan+`"]}`,
	) {
		got := want
		require.Error(t, any(&got).(json.Unmarshaler).UnmarshalJSON([]byte(data)), data)
		err := json.Unmarshal([]byte(data), &got)
		require.Error(t, err, data)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, want, got)
	}
}

func TestRequestUnmarshalJSONRejectsOtherJSON(t *testing.T) {
	withCard := paymentRequest()
	withCard.CardData = map[string]any{"number": "n"}
	notRead(t, withCard, `{"card_data":}`, `{"card_data":{"number":"`+pan+`"`)
	notRead(t, payoutRequest(), `{"amount":1,"destination":["`+pan+`"]}`, `{"amount":1,"destination":4111111111111111}`)
}

func TestRequestUnmarshalJSONReplacesAllFields(t *testing.T) {
	got := paymentRequest()
	got.CardData = map[string]any{"number": pan}
	stored := []byte(`{"partner_id":"shop-7","amount":"1e1","user_data":"order-2","added":{"later":1}}`)
	require.NoError(t, json.Unmarshal(stored, &got))
	require.Equal(t, paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "order-2"}, got)

	payout := payoutRequest()
	require.NoError(t, json.Unmarshal(stored, &payout))
	require.Equal(t, paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "order-2"}, payout)
}

// wire is a client with the last body that it sent.
type wire struct {
	client *paymentsvc.Client
	body   []byte
}

func (w *wire) payment(t require.TestingT, r paymentsvc.PaymentRequest) string {
	w.body = nil
	_, err := w.client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, r)
	require.NoError(t, err)
	return string(w.body)
}

func (w *wire) payout(t require.TestingT, r paymentsvc.PayoutRequest) string {
	w.body = nil
	_, err := w.client.InitPayout(context.Background(), r)
	require.NoError(t, err)
	return string(w.body)
}

var starts = regexp.MustCompile(`^https://pay\.example/init_(payment/card|payout)$`)

func newWire(t testing.TB) *wire {
	t.Helper()
	w := &wire{}
	mock := httpmock.NewMockTransport() // fails a request to any other address
	mock.RegisterRegexpResponder(http.MethodPost, starts,
		func(r *http.Request) (*http.Response, error) {
			var err error
			w.body, err = io.ReadAll(r.Body)
			return httpmock.NewStringResponse(http.StatusOK, paymentAnswer), err
		})
	w.client = newClient(t, "https://pay.example", over(mock))
	return w
}

// storable is a request of either type.
type storable interface {
	paymentsvc.PaymentRequest | paymentsvc.PayoutRequest
	JSON() (json.RawMessage, error)
}

// queued returns a request read back from a job of a queue, in which encoding/json escapes HTML and removes white
// space.
func queued[T storable](t *testing.T, in T) T {
	t.Helper()
	data, err := in.JSON()
	require.NoError(t, err)
	job, err := json.Marshal(map[string]any{"Request": data})
	require.NoError(t, err)
	var out struct{ Request T }
	require.NoError(t, json.Unmarshal(job, &out))
	clear(job) // a queue may use its buffer again
	return out.Request
}

type cardData struct {
	Number string      `json:"number"`
	Limit  int64       `json:"limit"`
	Fee    json.Number `json:"fee,omitempty"`
	Note   string      `json:"note"`
	More   any         `json:"more,omitempty"`
}

// hardText has every character that JSON escapes or changes.
const hardText = "<a&b>\"\\/\u2028\u2029\uFFFD\x00\x1f\x7f\n\té😀"

func TestRequestSendsSameBodyAfterQueue(t *testing.T) {
	w := newWire(t)
	for _, amount := range []string{"10.50", "1e2", "-0.0", "1234567890123456789.0000000001"} {
		r := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount(amount), UserData: hardText}
		require.Equal(t, r, queued(t, r), "without objects")

		r.CardData = map[string]any{
			"number": pan, hardText: hardText, "list": []any{1.5, true, nil, "x", map[string]any{}},
		}
		r.Browser = cardData{Number: pan, Limit: math.MaxInt64, Fee: "1.10"}
		r.Payer = json.RawMessage(`{"n":1234567890123456789,"d":1.10}`)
		r.Payee = map[string]any{}
		before := w.payment(t, r)
		data, err := r.JSON()
		require.NoError(t, err)
		require.Equal(t, `{"partner_id":11,"project_id":22,`+string(data[1:]), before)
		got := queued(t, r)
		after := w.payment(t, got)
		require.JSONEq(t, before, after)
		require.Equal(t, after, w.payment(t, queued(t, got)), "after a second queue")
		require.Contains(t, after, `"limit":9223372036854775807,"fee":1.10`)
		require.Contains(t, after, `{"n":1234567890123456789,"d":1.10}`)
	}
	payout := paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("1e2"), Destination: hardText, UserData: hardText,
	}
	require.Equal(t, payout, queued(t, payout))
	require.JSONEq(t, w.payout(t, payout), w.payout(t, queued(t, payout)))
}

// ownMap encodes as an object even when it is nil.
type ownMap map[string]any

func (ownMap) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

func TestRequestUnsetObjectStaysUnset(t *testing.T) {
	w := newWire(t)
	var nothing *cardData
	for _, object := range []any{
		nil, nothing, &nothing, map[string]any(nil), (*map[string]any)(nil), new(map[string]any), new(any), ownMap(nil),
		(*big.Float)(nil), (*big.Int)(nil), (*time.Time)(nil), // types with MarshalText or MarshalJSON
		json.RawMessage(nil), json.RawMessage("null"), json.RawMessage(" null\n"),
	} {
		r := paymentRequest()
		r.CardData = object
		require.Equal(t, `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`, w.payment(t, r))
		require.Equal(t, paymentRequest(), queued(t, r))
	}
}

// A queue must not turn a rejected object into an accepted one.
func TestRequestRejectsNonObjectsFromQueue(t *testing.T) {
	c := newWire(t).client
	for _, object := range []any{
		pan, "", 5, int64(4111111111111111), false, []string{pan}, []any{}, [1]cardData{{Number: pan}}, new(string),
		[]byte(`{"number":"` + pan + `"}`), `{"number":"` + pan + `"}`, json.RawMessage(`["` + pan + `"]`),
		json.RawMessage(`"` + pan + `"`), json.RawMessage(pan), json.Number(pan), uuid.Nil,
	} {
		r := paymentRequest()
		r.CardData = object
		_, err := r.JSON()
		require.EqualError(t, err, "invalid request: CardData (card_data): does not encode as a JSON object")
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)

		stored, err := json.Marshal(map[string]any{"amount": 1, "user_data": "u", "card_data": object})
		require.NoError(t, err)
		var got paymentsvc.PaymentRequest
		require.NoError(t, json.Unmarshal(stored, &got))
		_, err = c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, got)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		require.NotContains(t, err.Error(), pan)
	}
}
