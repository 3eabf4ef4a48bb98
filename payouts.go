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
// Every field of r is required; otherwise the error wraps [ErrInvalidRequest] and no request is sent. Errors are
// [*Error]; see [SafeToRetry] and [OutcomeOf]. InitPayout retries only requests that were provably not sent.
//
// Never start a payout with [OutcomeUnknown] again. If [Error].OrderID is set, reconcile the payout with
// [Client.StatusPayout]. Otherwise wait for its notification, which may contain the user_data, or contact the service,
// because the document does not specify a query of payouts by user_data.
func (c *Client) InitPayout(ctx context.Context, r PayoutRequest) (*InitPayoutResponse, error) {
	e := endpoint{path: "init_payout"}
	body, err := r.body(c.ids())
	return call[InitPayoutResponse](ctx, c, e, body, err)
}

// PayoutRequest is the body of init_payout (section 4.3). The Client adds partner_id and project_id.
//
// fmt and log/slog hide Destination. fmt calls no methods of unexported fields, so it prints the destination of a
// request in an unexported field. encoding/json returns [ErrSensitive]. To store or queue a request, use
// [PayoutRequest.JSON] and [PayoutRequest.UnmarshalJSON]; the stored text contains the destination. Do not embed a
// request in another struct, because Go would promote its methods.
type PayoutRequest struct {
	// Amount is required. Its bounds are not specified.
	Amount Amount `json:"amount"`
	// Destination is the recipient's account, for example a card number or a phone number. It is required. Its formats
	// are not specified.
	Destination string `json:"destination"`
	// UserData is the partner's identifier of the payout. It is required and must be unique; see [NewUserData].
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

// JSON returns the whole request, including Destination, with the document's field names, for queues and databases. The
// request may be incomplete. Invalid UTF-8, which JSON would change, returns an error that wraps [ErrInvalidRequest].
func (r PayoutRequest) JSON() (json.RawMessage, error) {
	if err := cmp.Or(
		checkUTF8("Destination (destination)", r.Destination),
		checkUTF8("UserData (user_data)", r.UserData),
	); err != nil {
		return nil, err
	}
	return jsonobject.Encode(payoutFields(r))
}

// MarshalJSON always returns [ErrSensitive], because loggers use encoding/json. See [PayoutRequest.JSON].
func (r PayoutRequest) MarshalJSON() ([]byte, error) { return nil, ErrSensitive }

// UnmarshalJSON reads the text of [PayoutRequest.JSON]. It returns the errors of encoding/json and of
// [Amount.UnmarshalJSON]. It accepts incomplete requests.
func (r *PayoutRequest) UnmarshalJSON(b []byte) error {
	var f payoutFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = PayoutRequest(f)
	return nil
}

// Format writes Amount, UserData, and whether Destination is set, under every verb.
func (r PayoutRequest) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "PayoutRequest{Amount: %s, Destination: %s, UserData: %q}",
		r.Amount, hidden(r.Destination), r.UserData)
}

// String returns the text of Format, for loggers that do not use package fmt.
func (r PayoutRequest) String() string { return fmt.Sprint(r) }

// LogValue returns the fields of Format, for log/slog.
func (r PayoutRequest) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("amount", r.Amount.String()),
		slog.String("destination", hidden(r.Destination)),
		slog.String("user_data", r.UserData),
	)
}

// InitPayoutResponse is the response of init_payout (section 4.3).
type InitPayoutResponse struct {
	// OrderID is the service's identifier of the payout. It is never empty. Store it for [Client.StatusPayout].
	OrderID string
	// Status and StatusCode are numbers. Their values are not specified (section 3).
	Status     int64
	StatusCode int64
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *InitPayoutResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "order_id", Into: &r.OrderID, Need: jsonobject.Filled},
		{Name: "status", Into: &r.Status, Need: jsonobject.Required},
		{Name: "status_code", Into: &r.StatusCode, Need: jsonobject.Required},
	}, &r.Raw, &r.Malformed
}

// StatusPayout queries a payout: POST status_payout, section 4.4. A response with its order_id proves that the service
// has the payout, but not that it was paid, because the document specifies no status in the response.
//
// r.OrderID is required; otherwise the error wraps [ErrInvalidRequest] and no request is sent. StatusPayout is
// idempotent, so the client retries transient failures. Errors are [*Error].
func (c *Client) StatusPayout(ctx context.Context, r StatusPayoutRequest) (*StatusResponse, error) {
	e := endpoint{path: "status_payout", idempotent: true}
	body, err := r.body(c.ids())
	return call[StatusResponse](ctx, c, e, body, err)
}

// StatusPayoutRequest identifies a payout by the order_id of [InitPayoutResponse] (section 4.4).
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
