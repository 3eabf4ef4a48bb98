package paymentsvc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// InitPayout starts a payout: POST init_payout, section 4.3.
//
// Every field of r is required; otherwise the error wraps [ErrInvalidRequest] and nothing is sent. Errors are [*Error]:
// see [SafeToRetry] and [OutcomeOf]. A payout with [OutcomeUnknown] must not be started again. Reconcile it with
// [Client.StatusPayout] if [Error].OrderID is set. The document shows no look-up of a payout by user_data, so otherwise
// wait for its notification, which may carry the user_data, or ask the service. InitPayout itself retries only what was
// provably not sent.
func (c *Client) InitPayout(ctx context.Context, r PayoutRequest) (*InitPayoutResponse, error) {
	e := endpoint{path: "init_payout"}
	body, err := r.body(c.ids())
	if err != nil {
		return nil, notSent(e.path, err)
	}
	return call[InitPayoutResponse](ctx, c, e, body)
}

// PayoutRequest is the body of init_payout (section 4.3), but for partner_id and project_id, which the Client
// adds.
//
// Loggers do not show Destination: fmt and slog hide it, except for a request in an unexported field, where fmt calls
// no method, and encoding/json returns [ErrSensitive]. To store a request or to queue it, use JSON, and UnmarshalJSON
// to read it back: what is stored then holds the destination. Do not embed a request in a struct of yours: its methods
// would be promoted.
type PayoutRequest struct {
	// Amount is required. Its bounds are not shown.
	Amount Amount `json:"amount"`
	// Destination is the recipient's account: a card number, a phone number or other. It is required; the
	// formats are not shown.
	Destination string `json:"destination"`
	// UserData identifies the payout on the partner's side. It is required and must be unique, see
	// NewUserData.
	UserData string `json:"user_data"`
}

// payoutFields is a PayoutRequest without its methods.
type payoutFields PayoutRequest

// payoutBody is a PayoutRequest on the wire, in the document's order.
type payoutBody struct {
	ids
	payoutFields
}

func (r PayoutRequest) body(id ids) (*payoutBody, error) {
	err := cmp.Or(
		checkAmount(r.Amount),
		checkText("Destination (destination)", r.Destination),
		checkText("UserData (user_data)", r.UserData),
	)
	return &payoutBody{id, payoutFields(r)}, err
}

// JSON returns the whole request, Destination included, with the document's field names, for queues and databases. The
// request need not be complete. It returns an error that wraps [ErrInvalidRequest] for text that is not valid UTF-8,
// which could not be read back as it was.
func (r PayoutRequest) JSON() (json.RawMessage, error) {
	if err := cmp.Or(
		checkUTF8("Destination (destination)", r.Destination),
		checkUTF8("UserData (user_data)", r.UserData),
	); err != nil {
		return nil, err
	}
	return jsonobject.Encode(payoutFields(r))
}

// MarshalJSON always returns [ErrSensitive]: loggers use encoding/json. See JSON.
func (r PayoutRequest) MarshalJSON() ([]byte, error) { return nil, ErrSensitive }

// UnmarshalJSON reads what JSON returned. Errors are those of encoding/json and of Amount; whether the request is
// complete is not checked.
func (r *PayoutRequest) UnmarshalJSON(b []byte) error {
	var f payoutFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = PayoutRequest(f)
	return nil
}

// Format shows Amount and UserData, and of Destination only whether it is given.
func (r PayoutRequest) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "PayoutRequest{Amount: %s, Destination: %s, UserData: %q}",
		r.Amount, hidden(r.Destination), r.UserData)
}

// String returns what Format shows, for loggers that do not use package fmt.
func (r PayoutRequest) String() string { return fmt.Sprint(r) }

// LogValue shows what Format shows.
func (r PayoutRequest) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("amount", r.Amount.String()),
		slog.String("destination", hidden(r.Destination)),
		slog.String("user_data", r.UserData),
	)
}

// InitPayoutResponse is the answer of init_payout (section 4.3).
type InitPayoutResponse struct {
	// OrderID identifies the payout on the service's side. It is never empty. Store it: [Client.StatusPayout] needs it.
	OrderID string
	// Status and StatusCode are numbers whose values are not shown (section 3).
	Status     int64
	StatusCode int64
	// Malformed names the optional fields that the service sent but that could not be read. They have their zero values.
	Malformed []string
	// Raw is the whole answer.
	Raw json.RawMessage
}

func (r *InitPayoutResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "order_id", Into: &r.OrderID, Need: jsonobject.Filled},
		{Name: "status", Into: &r.Status, Need: jsonobject.Required},
		{Name: "status_code", Into: &r.StatusCode, Need: jsonobject.Required},
	}, &r.Raw, &r.Malformed
}

// StatusPayout queries a payout: POST status_payout, section 4.4.
//
// r.OrderID is required; otherwise the error wraps [ErrInvalidRequest] and nothing is sent. The call is idempotent, so
// transient failures are retried. Errors are [*Error].
func (c *Client) StatusPayout(ctx context.Context, r StatusPayoutRequest) (*StatusResponse, error) {
	e := endpoint{path: "status_payout", read: true}
	body, err := r.body(c.ids())
	if err != nil {
		return nil, notSent(e.path, err)
	}
	return call[StatusResponse](ctx, c, e, body)
}

// StatusPayoutRequest names a payout by the order_id that [Client.InitPayout] returned (section 4.4).
type StatusPayoutRequest struct {
	// OrderID is required.
	OrderID string `json:"order_id"`
}

// statusPayoutBody is a StatusPayoutRequest on the wire.
type statusPayoutBody struct {
	StatusPayoutRequest
	ids
}

func (r StatusPayoutRequest) body(id ids) (*statusPayoutBody, error) {
	return &statusPayoutBody{r, id}, checkText("OrderID (order_id)", r.OrderID)
}
