package paymentsvc

import (
	"context"
	"encoding/json"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// InitInvoice creates an invoice: POST init_invoice, section 4.6.
//
// r.Amount and r.UserData are required; otherwise the error wraps [ErrInvalidRequest] and nothing is sent. Errors are
// [*Error]: see [SafeToRetry] and [OutcomeOf]. InitInvoice itself retries only what was provably not sent.
func (c *Client) InitInvoice(ctx context.Context, r PaymentRequest) (*InitInvoiceResponse, error) {
	e := endpoint{path: "init_invoice"}
	body, err := r.body(c.ids())
	if err != nil {
		return nil, notSent(e.path, err)
	}
	return call[InitInvoiceResponse](ctx, c, e, body)
}

// InitInvoiceResponse is the answer of init_invoice (section 4.6).
type InitInvoiceResponse struct {
	// InvoiceURL is the invoice's address. It is never empty.
	InvoiceURL string
	// OrderID identifies the invoice's order on the service's side. It is never empty.
	OrderID string
	// Malformed names the optional fields that the service sent but that could not be read. They have their zero values.
	Malformed []string
	// Raw is the whole answer.
	Raw json.RawMessage
}

func (r *InitInvoiceResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "invoice_url", Into: &r.InvoiceURL, Need: jsonobject.Filled},
		{Name: "order_id", Into: &r.OrderID, Need: jsonobject.Filled},
	}, &r.Raw, &r.Malformed
}
