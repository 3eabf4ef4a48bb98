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

// NewUserData returns a new random UUID, for the unique user_data of a payment or payout (section 2.1).
// Store it before the call that uses it: it identifies a payment whose outcome is unknown.
func NewUserData() string { return uuid.NewString() }

// PaymentType is the type in the path of init_payment (section 4.1).
type PaymentType string

// The payment types of section 4.1.
const (
	PaymentTypeCard   PaymentType = "card"
	PaymentTypeSBP    PaymentType = "sbp"
	PaymentTypeCrypto PaymentType = "crypto"
	PaymentTypeMC     PaymentType = "mc"
)

// Known reports whether t is a type that the document shows. [Client.InitPayment] rejects others.
func (t PaymentType) Known() bool {
	switch t {
	case PaymentTypeCard, PaymentTypeSBP, PaymentTypeCrypto, PaymentTypeMC:
		return true
	}
	return false
}

// StatusName is the text name of a status (section 3). The document's list is not complete for payouts and
// refunds, so expect other names.
type StatusName string

// The status names that appear in section 3.
const (
	StatusPending StatusName = "PENDING"
	StatusSuccess StatusName = "SUCCESS"
	StatusFailure StatusName = "FAILURE"
)

// Known reports whether s is a name that the document shows.
func (s StatusName) Known() bool { return s == StatusPending || s.Final() }

// Final reports whether the document shows no transition from s: SUCCESS and FAILURE are final, an unknown name never is.
// This holds for payments only, see [Notification.Final].
func (s StatusName) Final() bool { return s == StatusSuccess || s == StatusFailure }

// PaymentRequest is the body of init_payment, init_form and init_invoice (sections 4.1, 4.5, 4.6), but for
// partner_id and project_id, which the Client adds.
//
// Loggers do not show the four objects: fmt and slog hide them, except for a request in an unexported field, where fmt
// calls no method, and encoding/json returns [ErrSensitive]. To store a request or to queue it, use JSON, and
// UnmarshalJSON to read it back: what is stored then holds the card data. Do not embed a request in a struct of yours:
// its methods would be promoted.
type PaymentRequest struct {
	// Amount is required. Its bounds are not shown.
	Amount Amount `json:"amount"`
	// UserData identifies the payment on the partner's side. It is required and must be unique, see
	// NewUserData.
	UserData string `json:"user_data"`

	// CardData, Browser, Payer and Payee are optional, and their members are not shown (section 2.7). Each
	// takes any value that encodes as a JSON object; nil and what encodes as null is not sent.
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

// body validates the request and returns what is sent.
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

// fields returns the request as JSON will have it, or an error for what JSON would change or cannot represent.
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

// JSON returns the whole request, card data included, with the document's field names, for queues and databases. The
// request need not be complete. It returns an error that wraps [ErrInvalidRequest] for what could not be read back as
// it was: text that is not valid UTF-8, and one of the four objects that does not encode as a JSON object.
func (r PaymentRequest) JSON() (json.RawMessage, error) {
	f, err := r.fields()
	if err != nil {
		return nil, err
	}
	return jsonobject.Encode(f)
}

// MarshalJSON always returns [ErrSensitive]: loggers use encoding/json. See JSON.
func (r PaymentRequest) MarshalJSON() ([]byte, error) { return nil, ErrSensitive }

// UnmarshalJSON reads what JSON returned. The four objects come back as map[string]any where that
// encodes to the same bytes, and as json.RawMessage otherwise, so that no long number loses a digit. Errors are those
// of encoding/json and of Amount; whether the request is complete is not looked at.
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

// Format shows Amount and UserData, and of the four objects only whether they are given.
func (r PaymentRequest) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "PaymentRequest{Amount: %s, UserData: %q, CardData: %s, Browser: %s, Payer: %s, Payee: %s}",
		r.Amount, r.UserData, hidden(r.CardData), hidden(r.Browser), hidden(r.Payer), hidden(r.Payee))
}

// String returns what Format shows, for loggers that do not use package fmt.
func (r PaymentRequest) String() string { return fmt.Sprint(r) }

// LogValue shows what Format shows.
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

// StatusResponse is the answer of status_payment and status_payout (sections 4.2, 4.4). The document makes
// every field optional and shows no status among them: what else the service sends is in Raw. So any JSON object is an
// answer: compare OrderID and UserData with what was asked for before you settle something by it.
type StatusResponse struct {
	// PartnerID and ProjectID are 0 when the service leaves them out.
	PartnerID int64
	ProjectID int64
	// Amount is in the currency associated with the project; not set when the service leaves it out.
	Amount Amount
	// Description is of the transaction, "" when the service leaves it out.
	Description string
	// UserData and OrderID are the partner's and the service's identifiers, "" when the service leaves them out.
	UserData string
	OrderID  string
	// Malformed names the optional fields that the service sent but that could not be read. They have their zero values.
	Malformed []string
	// Raw is the whole answer.
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

// checkUTF8 rejects text that JSON would silently change.
func checkUTF8(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field, "not valid UTF-8")
	}
	return nil
}

// checkText rejects text that is not set or that JSON would change.
func checkText(field, text string) error {
	return cmp.Or(checkRequired(field, text), checkUTF8(field, text))
}

// invalidObject keeps the text of an encoder's error out of sight: it may quote card data.
func invalidObject(field string, err error) error {
	if errors.Is(err, jsonobject.ErrNotObject) || errors.Is(err, jsonobject.ErrInvalidText) {
		return invalid(field, err.Error())
	}
	return &hiddenError{invalid(field, "does not encode as JSON"), err}
}

// hiddenError has the text of one error and unwraps to both.
type hiddenError struct{ shown, hidden error }

func (e *hiddenError) Error() string { return e.shown.Error() }

func (e *hiddenError) Unwrap() []error { return []error{e.shown, e.hidden} }

const redacted = "[redacted]"

// hidden shows only whether a value is set.
func hidden(v any) string {
	if jsonobject.IsNil(v) || v == "" {
		return "none"
	}
	return redacted
}

// redact writes the placeholder of a secret.
func redact(f fmt.State) { _, _ = io.WriteString(f, redacted) }
