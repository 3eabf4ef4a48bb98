package paymentsvc

import (
	"context"
	"encoding/json"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// GetBalance returns the project's balances: POST get_balance, section 4.7. The call is idempotent, so transient failures
// are retried. Errors are [*Error].
func (c *Client) GetBalance(ctx context.Context) (*Balance, error) {
	id := c.ids()
	return call[Balance](ctx, c, endpoint{path: "get_balance", read: true}, &id)
}

// Balance is the answer of get_balance (sections 2.6 and 4.7).
type Balance struct {
	// PayoutBalance and ExpectedBalance are in the currency associated with the project (section 1). At least one of them
	// is set; see [Amount.IsSet]. How the two differ is not shown.
	PayoutBalance   Amount
	ExpectedBalance Amount
	// Currency names the currency as the service does.
	Currency string
	// Malformed names the optional fields that the service sent but that could not be read. They have their zero values.
	Malformed []string
	// Raw is the whole answer.
	Raw json.RawMessage
}

func (r *Balance) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "payout_balance", Into: &r.PayoutBalance, Need: jsonobject.Either},
		{Name: "expected_balance", Into: &r.ExpectedBalance, Need: jsonobject.Either},
		{Name: "currency", Into: &r.Currency, Need: jsonobject.Required},
	}, &r.Raw, &r.Malformed
}
