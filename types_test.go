package paymentsvc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

func TestUserDataIsARandomUUID(t *testing.T) {
	const callers, each = 4, 250
	made := make(chan string, callers*each)
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range each {
				made <- paymentsvc.NewUserData()
			}
		})
	}
	wait.Wait()
	close(made)

	seen := map[string]bool{}
	for userData := range made {
		id, err := uuid.Parse(userData)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		require.Equal(t, id.String(), userData, "in its usual form")
		require.False(t, seen[userData], "made twice")
		seen[userData] = true
	}
	require.Len(t, seen, callers*each)
}

func TestPaymentTypeKnown(t *testing.T) {
	for _, known := range []paymentsvc.PaymentType{"card", "sbp", "crypto", "mc"} {
		assert.True(t, known.Known())
	}
	for _, other := range []paymentsvc.PaymentType{"", "Card", "card ", "wire"} {
		assert.False(t, other.Known())
	}
}

func TestStatusNameKnownAndFinal(t *testing.T) {
	for _, tt := range []struct {
		name         paymentsvc.StatusName
		known, final bool
	}{
		{paymentsvc.StatusPending, true, false},
		{paymentsvc.StatusSuccess, true, true},
		{paymentsvc.StatusFailure, true, true},
		{"PENDING", true, false},
		{"SUCCESS", true, true},
		{"FAILURE", true, true},
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

func TestRequestJSONHasTheDocumentsNames(t *testing.T) {
	r := paymentRequest()
	want := `{"amount":10.50,"user_data":"order-1"}`
	data, err := r.JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data), "to the byte: 10.5 would be another number")

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
}

// A logger that writes JSON must not show a card number, and a redacted copy in a queue would lose it without an error.
func TestRequestEncodingJSONFails(t *testing.T) {
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
	require.Equal(t, "[null,null]", string(data), "which is nothing")
}

func TestRequestThatIsIncompleteCanBeQueued(t *testing.T) {
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

func TestRequestJSONRejectsTextThatJSONWouldChange(t *testing.T) {
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

func TestRequestIsNotReadFromWhatIsNoPayment(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `"` + pan + `"`, `5`, `true`, `{`, `{"amount":"` + pan + `x"}`, `{"amount":{}}`, `{"user_data":4111111111111111}`,
		`{"user_data":["` + pan + `"]}`, `{"card_data":}`, `{"card_data":{"number":"` + pan + `"`,
	} {
		want := paymentRequest()
		want.CardData = map[string]any{"number": "n"}
		got := want
		require.Error(t, got.UnmarshalJSON([]byte(data)), data)
		err := json.Unmarshal([]byte(data), &got)
		require.Error(t, err, data)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, want, got, "an error leaves the request as it was")
	}
}

func TestRequestIsNotReadFromWhatIsNoPayout(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `"` + pan + `"`, `5`, `true`, `{`, `{"amount":"` + pan + `x"}`, `{"user_data":4111111111111111}`,
		`{"amount":1,"destination":["` + pan + `"]}`, `{"amount":1,"destination":4111111111111111}`,
	} {
		want := payoutRequest()
		got := want
		require.Error(t, got.UnmarshalJSON([]byte(data)), data)
		err := json.Unmarshal([]byte(data), &got)
		require.Error(t, err, data)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, want, got, "an error leaves the request as it was")
	}
}

func TestRequestIgnoresOtherStoredFields(t *testing.T) {
	var r paymentsvc.PaymentRequest
	require.NoError(t, json.Unmarshal([]byte(`{"partner_id":"shop-7","amount":1.50,"user_data":"u"}`), &r))
	require.Equal(t, paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1.50"), UserData: "u"}, r)

	var payout paymentsvc.PayoutRequest
	require.NoError(t, json.Unmarshal([]byte(`{"partner_id":"shop-7","amount":1.50,"user_data":"u"}`), &payout))
	require.Equal(t, paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1.50"), UserData: "u"}, payout)
}

func TestRequestIsReplacedByTheOneThatIsRead(t *testing.T) {
	got := paymentRequest()
	got.CardData = map[string]any{"number": pan}
	require.NoError(t, json.Unmarshal([]byte(`{"amount":"1e1","user_data":"order-2","added":{"later":1}}`), &got))
	require.Equal(t, paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "order-2"}, got)

	payout := payoutRequest()
	require.NoError(t, json.Unmarshal([]byte(`{"amount":"1e1","user_data":"payout-2"}`), &payout))
	require.Equal(t, paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "payout-2"}, payout)
}

// wire is a client and the body that it sent last.
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

func newWire(t testing.TB) *wire {
	t.Helper()
	w := &wire{}
	mock := httpmock.NewMockTransport() // which fails a request to any other address
	mock.RegisterRegexpResponder(http.MethodPost, regexp.MustCompile(`^https://pay\.example/init_(payment/card|payout)$`),
		func(r *http.Request) (*http.Response, error) {
			var err error
			w.body, err = io.ReadAll(r.Body)
			return httpmock.NewStringResponse(http.StatusOK, paymentAnswer), err
		})
	w.client = newClient(t, "https://pay.example", over(mock))
	return w
}

// storable is either type of request.
type storable interface {
	paymentsvc.PaymentRequest | paymentsvc.PayoutRequest
	JSON() (json.RawMessage, error)
}

// queues are ways in which partners store a request and read it back.
func queues[T storable]() map[string]func(T) (T, error) {
	return map[string]func(T) (T, error){
		"JSON": queued[T],
		"JSON, indented": func(in T) (T, error) {
			data, err := in.JSON()
			if err != nil {
				return in, err
			}
			var buf bytes.Buffer
			err = json.Indent(&buf, data, "", "\t")
			return unqueued[T](buf.Bytes(), err)
		},
		"a job around it": func(in T) (out T, err error) {
			type job struct {
				ID      int
				Request json.RawMessage
			}
			var made, got job
			if made.Request, err = in.JSON(); err != nil {
				return out, err
			}
			data, err := json.Marshal(made) // which escapes what HTML needs escaped
			if err != nil {
				return out, err
			}
			if err = json.Unmarshal(data, &got); err != nil {
				return out, err
			}
			return unqueued[T](got.Request, nil)
		},
		"a job that is read whole": func(in T) (out T, err error) {
			data, err := in.JSON()
			if err != nil {
				return out, err
			}
			var got struct{ Request *T }
			err = json.Unmarshal(slices.Concat([]byte(`{"Request":`), data, []byte("}")), &got)
			if err != nil {
				return out, err
			}
			return *got.Request, nil
		},
	}
}

func queued[T storable](in T) (T, error) {
	data, err := in.JSON()
	return unqueued[T](data, err)
}

func unqueued[T any](data []byte, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(data, &out)
	clear(data) // a queue may use its buffer again
	return out, err
}

type cardData struct {
	Number string      `json:"number"`
	Limit  int64       `json:"limit"`
	Fee    json.Number `json:"fee,omitempty"`
	Note   string      `json:"note"`
	More   any         `json:"more,omitempty"`
}

func TestRequestComesBackFromAQueueAsItWas(t *testing.T) {
	for name, queue := range queues[paymentsvc.PaymentRequest]() {
		t.Run(name, func(t *testing.T) {
			r := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "<a&b>\u2028"}
			got, err := queue(r)
			require.NoError(t, err)
			require.Equal(t, r, got, "without objects")

			if name == "JSON, indented" {
				return // its objects come back as json.RawMessage, with the space that it writes
			}
			r.CardData = map[string]any{"number": pan, "note": "<a&b>\uFFFD", "list": []any{1.5, true, nil, "x", map[string]any{}}}
			r.Browser = map[string]any{}
			r.Payer = json.RawMessage(`{"n":1234567890123456789,"d":1.10}`)
			got, err = queue(r)
			require.NoError(t, err)
			require.Equal(t, r, got, "with objects")
		})
	}
}

func TestRequestOfAPaymentIsSentAfterAQueueAsBefore(t *testing.T) {
	w := newWire(t)
	for name, queue := range queues[paymentsvc.PaymentRequest]() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := paymentsvc.PaymentRequest{
					Amount:   paymentsvc.MustParseAmount(amountText().Draw(t, "amount")),
					UserData: validText(1).Draw(t, "user data"),
					CardData: openObject().Draw(t, "card data"),
					Browser:  openObject().Draw(t, "browser"),
					Payer:    openObject().Draw(t, "payer"),
					Payee:    openObject().Draw(t, "payee"),
				}
				before := w.payment(t, r)
				got, err := queue(r)
				require.NoError(t, err)
				require.Equal(t, r.Amount, got.Amount)
				require.Equal(t, r.UserData, got.UserData)
				require.Equal(t, tokens(t, before), tokens(t, w.payment(t, got)))

				again, err := queue(got)
				require.NoError(t, err)
				require.Equal(t, tokens(t, before), tokens(t, w.payment(t, again)), "after a second queue")
			})
		})
	}
}

func TestRequestOfAPayoutIsSentAfterAQueueAsBefore(t *testing.T) {
	want := `{"amount":10.50,"destination":"4111111111111111","user_data":"payout-1"}`
	data, err := payoutRequest().JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data))

	w := newWire(t)
	for name, queue := range queues[paymentsvc.PayoutRequest]() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := paymentsvc.PayoutRequest{
					Amount:      paymentsvc.MustParseAmount(amountText().Draw(t, "amount")),
					Destination: validText(1).Draw(t, "destination"),
					UserData:    validText(1).Draw(t, "user data"),
				}
				before := w.payout(t, r)
				got, err := queue(r)
				require.NoError(t, err)
				require.Equal(t, r, got)
				require.Equal(t, before, w.payout(t, got))
			})
		})
	}
}

func TestRequestKeepsLongNumbersInAQueue(t *testing.T) {
	w := newWire(t)
	for _, object := range []any{
		json.RawMessage(`{"n":1234567890123456789,"d":1.10,"e":1E+2,"z":-0.0,"t":0.1e-7}`),
		map[string]any{"n": int64(1234567890123456789), "d": json.Number("1.10"), "f": 1e21},
		cardData{Number: pan, Limit: math.MaxInt64, Fee: "1.10"},
		&cardData{Limit: math.MinInt64, Fee: "100000000000000000000.000000000000000000001"},
	} {
		r := paymentRequest()
		r.CardData = object
		before := w.payment(t, r)
		got, err := queued(r)
		require.NoError(t, err)
		require.Equal(t, before, w.payment(t, got), "to the byte, for nothing here is escaped")
	}
}

func TestRequestObjectThatIsNotGivenStaysSo(t *testing.T) {
	w := newWire(t)
	var nothing *cardData
	for _, object := range []any{nil, nothing, &nothing, map[string]any(nil), json.RawMessage(nil), json.RawMessage("null")} {
		r := paymentRequest()
		r.CardData = object
		require.Equal(t, `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`, w.payment(t, r))
		got, err := queued(r)
		require.NoError(t, err)
		require.Equal(t, paymentRequest(), got)
	}
}

// What a client rejects must not become acceptable in a queue.
func TestRequestObjectsAreObjectsInAQueueToo(t *testing.T) {
	c := newWire(t).client
	for _, object := range []any{pan, 5, false, []string{pan}, []any{}, json.RawMessage(`"` + pan + `"`)} {
		r := paymentRequest()
		r.CardData = object
		_, err := r.JSON()
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		require.NotContains(t, err.Error(), pan)

		stored, err := json.Marshal(map[string]any{"amount": 1, "user_data": "u", "card_data": object})
		require.NoError(t, err)
		var got paymentsvc.PaymentRequest
		require.NoError(t, json.Unmarshal(stored, &got))
		_, err = c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, got)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		require.NotContains(t, err.Error(), pan)
	}
}

// validText returns text with all that JSON escapes or might change.
func validText(least int) *rapid.Generator[string] {
	special := rapid.SampledFrom([]rune("<>&\"\\/\u2028\u2029\uFFFD\x00\x1f\x7f\n\té😀"))
	return rapid.StringOfN(rapid.OneOf(rapid.Rune(), special, rapid.RuneFrom([]rune("abc019"))), least, 12, -1)
}

// openObject returns everything that may stand for an object whose members are not shown.
func openObject() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.SampledFrom([]any{nil, map[string]any(nil), (*cardData)(nil), json.RawMessage(nil), map[string]any{}, json.RawMessage(" {\n} ")}),
		rapid.Map(jsonObject(3), func(s string) any { return json.RawMessage(s) }),
		rapid.Map(rapid.MapOf(validText(0), openValue()), func(m map[string]any) any { return m }),
		rapid.Map(rapid.Custom(func(t *rapid.T) cardData {
			return cardData{
				Number: validText(0).Draw(t, "number"),
				Limit:  rapid.Int64().Draw(t, "limit"),
				Fee:    json.Number(jsonNumber().Draw(t, "fee")),
				Note:   validText(0).Draw(t, "note"),
				More:   openValue().Draw(t, "more"),
			}
		}), func(c cardData) any {
			if c.Limit%2 == 0 {
				return &c
			}
			return c
		}),
	)
}

func openValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Map(validText(0), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(jsonNumber(), func(s string) any { return json.Number(s) }),
		rapid.Map(jsonObject(2), func(s string) any { return json.RawMessage(s) }),
		rapid.Map(amountText(), func(s string) any { return paymentsvc.MustParseAmount(s) }),
		rapid.SampledFrom([]any{nil, true, 0.1, 1e21, float32(0.1), []int{}, []byte("bytes"), map[int]string{2: "b", 1: "a"}}),
	)
}

func jsonNumber() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"1234567890123456789", "1.10", "-0", "0.00", "1E+2", "1e400", "9007199254740993"}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?`),
	)
}

// jsonObject returns the text of an object nested as deep as depth, whose members may stand in any order and twice.
func jsonObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(jsonText(t) + ":" + jsonValue(t, depth))
		}
		b.WriteByte('}')
		return b.String()
	})
}

func jsonValue(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0:
		return rapid.SampledFrom([]string{"null", "true", " false ", "[]", `"\ud83d\ude00\u003c\/\ufffd"`}).Draw(t, "literal")
	case kind == 1:
		return jsonText(t)
	case kind == 2 && depth > 0:
		return jsonObject(depth-1).Draw(t, "object")
	case kind == 3 && depth > 0:
		return "[" + jsonValue(t, depth-1) + ", " + jsonValue(t, depth-1) + "]"
	default:
		return jsonNumber().Draw(t, "number")
	}
}

// jsonText is a quoted text, with HTML escapes or without.
func jsonText(t *rapid.T) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(rapid.Bool().Draw(t, "HTML escapes"))
	require.NoError(t, enc.Encode(validText(0).Draw(t, "text")))
	return strings.TrimSuffix(buf.String(), "\n")
}

// tokens are everything that stands in a JSON text, in its order, numbers as their text.
func tokens(t require.TestingT, data string) (all []json.Token) {
	dec := json.NewDecoder(strings.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, token)
	}
}
