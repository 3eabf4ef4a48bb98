package paymentsvc

import (
	"context"
	"encoding/json"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// InitForm creates a hosted payment form and returns its address: POST init_form, section 4.5.
//
// r.Amount and r.UserData are required; otherwise the error wraps [ErrInvalidRequest] and no request is sent. Errors
// are [*Error]; see [SafeToRetry] and [OutcomeOf]. InitForm retries only requests that were provably not sent.
func (c *Client) InitForm(ctx context.Context, r PaymentRequest) (*InitFormResponse, error) {
	e := endpoint{path: "init_form", proofs: []string{"redirect_url"}}
	body, err := r.body(c.ids())
	return call[InitFormResponse](ctx, c, e, body, err)
}

// InitFormResponse is the response of init_form (section 4.5).
type InitFormResponse struct {
	// RedirectURL is the address of the payment form. It is never empty.
	RedirectURL string
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *InitFormResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "redirect_url", Into: &r.RedirectURL, Need: jsonobject.Filled},
	}, &r.Raw, &r.Malformed
}
