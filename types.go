package paymentsvc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// NewUserData returns a random UUID to use as the unique user_data of a payment or payout (section 2.1). Store it
// before the call, because it identifies a payment with an unknown outcome.
func NewUserData() string { return uuid.NewString() }

// PaymentType is the last element of the path of init_payment (section 4.1).
type PaymentType string

// The payment types of section 4.1.
const (
	PaymentTypeCard   PaymentType = "card"
	PaymentTypeSBP    PaymentType = "sbp"
	PaymentTypeCrypto PaymentType = "crypto"
	PaymentTypeMC     PaymentType = "mc"
)

// Known reports whether t is one of the document's four types. [Client.InitPayment] rejects other types.
func (t PaymentType) Known() bool {
	switch t {
	case PaymentTypeCard, PaymentTypeSBP, PaymentTypeCrypto, PaymentTypeMC:
		return true
	}
	return false
}

// StatusName is the name of a status (section 3). The document's list is incomplete for payouts and refunds, so expect
// other names.
type StatusName string

// The status names of section 3.
const (
	StatusPending StatusName = "PENDING"
	StatusSuccess StatusName = "SUCCESS"
	StatusFailure StatusName = "FAILURE"
)

// Known reports whether the document lists s.
func (s StatusName) Known() bool { return s == StatusPending || s.Final() }

// Final reports whether s is SUCCESS or FAILURE. The document lists no transition from these. An unknown name is never
// final. This applies only to payments; see [Notification.Final].
func (s StatusName) Final() bool { return s == StatusSuccess || s == StatusFailure }

// PaymentRequest is the body of init_payment, init_form and init_invoice (sections 4.1, 4.5, 4.6). The Client adds
// partner_id and project_id.
//
// fmt and log/slog hide the four objects. fmt calls no methods of unexported fields, so it prints the objects of a
// request in an unexported field. encoding/json returns [ErrSensitive]. To store or queue a request, use
// [PaymentRequest.JSON] and [PaymentRequest.UnmarshalJSON]; the stored text contains the card data. Do not embed a
// request in another struct, because Go would promote its methods.
type PaymentRequest struct {
	// Amount is required. Its bounds are not specified.
	Amount Amount `json:"amount"`
	// UserData is the partner's identifier of the payment. It is required and must be unique; see [NewUserData].
	UserData string `json:"user_data"`

	// CardData, Browser, Payer and Payee are optional. Their members are not specified (section 2.7), so each takes any
	// value that encodes as a JSON object. The request omits nil and values that encode as null.
	CardData any `json:"card_data,omitempty"`
	Browser  any `json:"browser,omitempty"`
	Payer    any `json:"payer,omitempty"`
	Payee    any `json:"payee,omitempty"`
}

// paymentFields is a PaymentRequest as JSON, in the document's order.
type paymentFields struct {
	Amount   Amount          `json:"amount"`
	UserData string          `json:"user_data"`
	CardData json.RawMessage `json:"card_data,omitempty"`
	Browser  json.RawMessage `json:"browser,omitempty"`
	Payer    json.RawMessage `json:"payer,omitempty"`
	Payee    json.RawMessage `json:"payee,omitempty"`
}

// paymentBody is a PaymentRequest on the wire.
type paymentBody struct {
	ids
	paymentFields
}

// body validates the request and returns its body.
func (r PaymentRequest) body(id ids) (*paymentBody, error) {
	if err := cmp.Or(
		checkAmount(r.Amount),
		checkRequired("UserData (user_data)", r.UserData),
	); err != nil {
		return nil, err
	}
	fields, err := r.fields()
	return &paymentBody{id, fields}, err
}

// fields encodes the request. It returns an error for invalid UTF-8, and for an open object that does not encode as a
// JSON object.
func (r PaymentRequest) fields() (paymentFields, error) {
	f := paymentFields{Amount: r.Amount, UserData: r.UserData}
	if err := checkUTF8("UserData (user_data)", r.UserData); err != nil {
		return f, err
	}
	for _, object := range []struct {
		name  string
		value any
		into  *json.RawMessage
	}{
		{"CardData (card_data)", r.CardData, &f.CardData},
		{"Browser (browser)", r.Browser, &f.Browser},
		{"Payer (payer)", r.Payer, &f.Payer},
		{"Payee (payee)", r.Payee, &f.Payee},
	} {
		data, err := jsonobject.EncodeOpen(object.value)
		if err != nil {
			return f, invalidObject(object.name, err)
		}
		*object.into = data
	}
	return f, nil
}

// JSON returns the whole request, including card data, with the document's field names, for queues and databases. The
// request may be incomplete. It omits the payment type and the ids of the [Client]. JSON returns an error that wraps
// [ErrInvalidRequest] for invalid UTF-8 and for an object that does not encode as a JSON object.
func (r PaymentRequest) JSON() (json.RawMessage, error) {
	f, err := r.fields()
	if err != nil {
		return nil, err
	}
	return jsonobject.Encode(f)
}

// MarshalJSON always returns [ErrSensitive], because loggers use encoding/json. See [PaymentRequest.JSON].
func (r PaymentRequest) MarshalJSON() ([]byte, error) { return nil, ErrSensitive }

// UnmarshalJSON reads the text of [PaymentRequest.JSON]. Each of the four objects becomes nil if it is absent or null,
// and a map[string]any if the map encodes to the same bytes. Any other object becomes a json.RawMessage, so long
// numbers keep their digits. UnmarshalJSON returns the errors of encoding/json and [Amount.UnmarshalJSON]. It accepts
// incomplete requests.
func (r *PaymentRequest) UnmarshalJSON(b []byte) error {
	var f paymentFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = PaymentRequest{
		Amount:   f.Amount,
		UserData: f.UserData,
		CardData: jsonobject.DecodeOpen(f.CardData),
		Browser:  jsonobject.DecodeOpen(f.Browser),
		Payer:    jsonobject.DecodeOpen(f.Payer),
		Payee:    jsonobject.DecodeOpen(f.Payee),
	}
	return nil
}

// Format writes Amount, UserData, and whether each of the four objects is set, under every verb.
func (r PaymentRequest) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "PaymentRequest{Amount: %s, UserData: %q, CardData: %s, Browser: %s, Payer: %s, Payee: %s}",
		r.Amount, r.UserData, hidden(r.CardData), hidden(r.Browser), hidden(r.Payer), hidden(r.Payee))
}

// String returns the text of Format, for loggers that do not use package fmt.
func (r PaymentRequest) String() string { return fmt.Sprint(r) }

// LogValue returns the fields of Format, for log/slog.
func (r PaymentRequest) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("amount", r.Amount.String()),
		slog.String("user_data", r.UserData),
		slog.String("card_data", hidden(r.CardData)),
		slog.String("browser", hidden(r.Browser)),
		slog.String("payer", hidden(r.Payer)),
		slog.String("payee", hidden(r.Payee)),
	)
}

// StatusResponse is the response of status_payment and status_payout (sections 4.2, 4.4). All its fields are optional,
// so any JSON object is a valid response. Before you act on it, compare OrderID and UserData with your request. The
// document does not list a status among the fields; Raw has any other fields of the response.
type StatusResponse struct {
	// PartnerID and ProjectID are the caller's ids, or 0 if absent.
	PartnerID int64
	ProjectID int64
	// Amount is in the currency of the project. It is not set if absent.
	Amount Amount
	// Description describes the transaction. It is "" if absent.
	Description string
	// UserData is the partner's identifier and OrderID the service's. They are "" if absent.
	UserData string
	OrderID  string
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *StatusResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "partner_id", Into: &r.PartnerID},
		{Name: "project_id", Into: &r.ProjectID},
		{Name: "amount", Into: &r.Amount},
		{Name: "description", Into: &r.Description},
		{Name: "user_data", Into: &r.UserData},
		{Name: "order_id", Into: &r.OrderID},
	}, &r.Raw, &r.Malformed
}

// ids are the two fields that every request has (section 1).
type ids struct {
	PartnerID int64 `json:"partner_id"`
	ProjectID int64 `json:"project_id"`
}

func checkAmount(a Amount) error {
	if !a.IsSet() {
		return invalid("Amount (amount)", "not set")
	}
	return nil
}

func checkRequired(field, text string) error {
	if text == "" {
		return invalid(field, "not set")
	}
	return nil
}

// checkUTF8 rejects invalid UTF-8, because JSON would change it silently.
func checkUTF8(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field, "not valid UTF-8")
	}
	return nil
}

// checkText rejects an unset text and invalid UTF-8.
func checkText(field, text string) error {
	return cmp.Or(checkRequired(field, text), checkUTF8(field, text))
}

// invalidObject returns an error without the text of the encoder's error, which may contain card data.
func invalidObject(field string, err error) error {
	if errors.Is(err, jsonobject.ErrNotObject) || errors.Is(err, jsonobject.ErrInvalidText) {
		return invalid(field, err.Error())
	}
	return &hiddenError{invalid(field, "does not encode as JSON"), err}
}

// hiddenError has the text of shown and unwraps to both errors.
type hiddenError struct{ shown, hidden error }

func (e *hiddenError) Error() string { return e.shown.Error() }

func (e *hiddenError) Unwrap() []error { return []error{e.shown, e.hidden} }

const redacted = "[redacted]"

// hidden returns "none" if v is nil or "", and otherwise the placeholder.
func hidden(v any) string {
	if jsonobject.IsNil(v) || v == "" {
		return "none"
	}
	return redacted
}

// redact writes the placeholder of a secret.
func redact(f fmt.State) { _, _ = io.WriteString(f, redacted) }
