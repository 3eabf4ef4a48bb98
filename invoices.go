package paymentsvc

import (
	"context"
	"encoding/json"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// InitInvoice creates an invoice: POST init_invoice, section 4.6.
//
// r.Amount and r.UserData are required; otherwise the error wraps [ErrInvalidRequest] and no request is sent. Errors
// are [*Error]; see [SafeToRetry] and [OutcomeOf]. InitInvoice retries only requests that were provably not sent.
func (c *Client) InitInvoice(ctx context.Context, r PaymentRequest) (*InitInvoiceResponse, error) {
	e := endpoint{path: "init_invoice", proofs: []string{"order_id", "invoice_url"}}
	body, err := r.body(c.ids())
	return call[InitInvoiceResponse](ctx, c, e, body, err)
}

// InitInvoiceResponse is the response of init_invoice (section 4.6).
type InitInvoiceResponse struct {
	// InvoiceURL is the address of the invoice. It is never empty.
	InvoiceURL string
	// OrderID is the service's identifier of the invoice's order. It is never empty.
	OrderID string
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete response.
	Raw json.RawMessage
}

func (r *InitInvoiceResponse) fields() ([]jsonobject.Field, *json.RawMessage, *[]string) {
	return []jsonobject.Field{
		{Name: "invoice_url", Into: &r.InvoiceURL, Need: jsonobject.Filled},
		{Name: "order_id", Into: &r.OrderID, Need: jsonobject.Filled},
	}, &r.Raw, &r.Malformed
}
