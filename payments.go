package paymentsvc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// InitPayment starts a payment of type t: POST init_payment/{type}, section 4.1.
//
// r.Amount and r.UserData are required, and t must be one of the four types; otherwise the error wraps
// [ErrInvalidRequest] and no request is sent. Errors are [*Error]; see [SafeToRetry] and [OutcomeOf]. Reconcile
// [OutcomeUnknown] with [Client.StatusPayment] by user_data. InitPayment retries only requests that were provably not
// sent.
func (c *Client) InitPayment(ctx context.Context, t PaymentType, r PaymentRequest) (*InitPaymentResponse, error) {
	if !t.Known() {
		return nil, notSent("init_payment", invalid("PaymentType (type)", "not card, sbp, crypto or mc"))
	}
	e := endpoint{path: "init_payment/" + string(t)}
	body, err := r.body(c.ids())
	return call[InitPaymentResponse](ctx, c, e, body, err)
}

// InitPaymentResponse is the response of init_payment (section 4.1).
type InitPaymentResponse struct {
	// OrderID is the service's identifier of the payment. It is never empty; see [InitPaymentResponse.OrderUUID].
	OrderID string
	// Status and StatusCode are numbers. Their values are not specified (section 3).
	Status     int64
	StatusCode int64
	// RedirectURL is the address where the payer continues, or "" if the response has no address.
	RedirectURL string
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *InitPaymentResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "order_id", Into: &r.OrderID, Need: jsonobject.Filled},
		{Name: "status", Into: &r.Status, Need: jsonobject.Required},
		{Name: "status_code", Into: &r.StatusCode, Need: jsonobject.Required},
		{Name: "redirect_url", Into: &r.RedirectURL},
	}, &r.Raw, &r.Malformed
}

// OrderUUID parses OrderID as a UUID, which section 2.2 describes. An order_id in another form does not invalidate the
// payment, so OrderID is a string.
func (r *InitPaymentResponse) OrderUUID() (uuid.UUID, error) {
	id, err := uuid.Parse(r.OrderID)
	if err != nil {
		return uuid.Nil, errors.New("paymentsvc: order_id is not a UUID") // uuid's own error may repeat a part of it
	}
	return id, nil
}

// StatusPayment queries a payment: POST status_payment, section 4.2. It reconciles a payment with [OutcomeUnknown]. A
// response with the payment's identifier proves that the service has the payment, but not that the payer has paid,
// because the document specifies no status in the response. Only a notification reports the final state.
//
// Exactly one of r.OrderID and r.UserData is required; otherwise the error wraps [ErrInvalidRequest] and no request is
// sent. The document's schema requires OrderID, but its text accepts UserData instead. StatusPayment is idempotent, so
// the client retries transient failures. Errors are [*Error].
func (c *Client) StatusPayment(ctx context.Context, r StatusPaymentRequest) (*StatusResponse, error) {
	e := endpoint{path: "status_payment", idempotent: true}
	body, err := r.body(c.ids())
	return call[StatusResponse](ctx, c, e, body, err)
}

// StatusPaymentRequest identifies a payment by one of its two identifiers (section 4.2).
type StatusPaymentRequest struct {
	// OrderID is the service's identifier, as [Client.InitPayment] returned it.
	OrderID string `json:"order_id,omitempty"`
	// UserData is the partner's identifier, which is known even without a response.
	UserData string `json:"user_data,omitempty"`
}

// statusPaymentBody is a StatusPaymentRequest on the wire.
type statusPaymentBody struct {
	StatusPaymentRequest
	ids
}

func (r StatusPaymentRequest) body(id ids) (*statusPaymentBody, error) {
	var err error
	switch {
	case r.OrderID != "" && r.UserData != "":
		err = invalid("OrderID (order_id) and UserData (user_data)", "both set, want exactly one")
	case r.UserData != "":
		err = checkText("UserData (user_data)", r.UserData)
	case r.OrderID != "":
		err = checkText("OrderID (order_id)", r.OrderID)
	default:
		err = invalid("OrderID (order_id) or UserData (user_data)", "neither is set")
	}
	return &statusPaymentBody{r, id}, err
}
