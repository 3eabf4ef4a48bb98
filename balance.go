package paymentsvc

import (
	"context"
	"encoding/json"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// GetBalance returns the balances of the project: POST get_balance, section 4.7. It is idempotent, so the client
// retries transient failures. Errors are [*Error].
func (c *Client) GetBalance(ctx context.Context) (*Balance, error) {
	id := c.ids()
	return call[Balance](ctx, c, endpoint{path: "get_balance", idempotent: true}, &id, nil)
}

// Balance is the response of get_balance (sections 2.6 and 4.7).
type Balance struct {
	// PayoutBalance and ExpectedBalance are in the currency of the project (section 1). A response has at least one;
	// see [Amount.IsSet]. The difference between the two is not specified.
	PayoutBalance   Amount
	ExpectedBalance Amount
	// Currency is the service's name of the currency. It may be "".
	Currency string
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *Balance) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "payout_balance", Into: &r.PayoutBalance, Need: jsonobject.Either},
		{Name: "expected_balance", Into: &r.ExpectedBalance, Need: jsonobject.Either},
		{Name: "currency", Into: &r.Currency, Need: jsonobject.Required},
	}, &r.Raw, &r.Malformed
}
