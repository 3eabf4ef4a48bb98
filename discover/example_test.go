package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
)

// A notification is what a partner has first: its header, its body, and the secret that it is signed with. The
// signature of this one was made for the example; the service's own way to sign is not shown.
func ExampleFind() {
	sample := discover.Sample{
		Name: "notification.http",
		Message: paymentsvc.Message{
			Kind:   paymentsvc.KindNotification,
			Method: http.MethodPost,
			URL:    &url.URL{Scheme: "https", Host: "shop.example", Path: "/hooks/payments"},
			Header: http.Header{
				"Timestamp": {"1700000000"},
				"Signature": {"2fdb7ba6f96ac2f3913f1814725530fc61084d7407ffbd5bbf4855db374938e6"},
			},
			Body: []byte(`{"event":"payment.status_changed","order_id":"o-1","status":2,` +
				`"status_description":"SUCCESS","status_code":0,"amount":10.5}`),
		},
	}
	secret := paymentsvc.Secret("project secret key of the example")

	result, err := discover.Find(context.Background(), []discover.Sample{sample}, discover.Options{Secret: secret})
	if errors.Is(err, discover.ErrNoMatch) {
		for _, hint := range result.Hints {
			fmt.Println("look at", hint)
		}
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	best := result.Matches[0]
	fmt.Println(best.Text) // for a settings file: canonical.ParseScheme reads it
	fmt.Println(best.Description)
	fmt.Println(best.Expr)
	for _, open := range result.Undecided {
		fmt.Println(open.Chosen, "may as well be", open.Others[0].Expr)
		fmt.Println("to decide it takes", open.Others[0].Needs)
	}

	// Best is ready to use at once, for HMACConfig and WebhookConfig alike.
	_, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: best.Scheme, Secret: best.Secret})
	fmt.Println("signer:", err)
	// Output:
	// hex(timestamp "." method "." path "." hex(sha256(body)))
	// HMAC-SHA256, keyed with the secret as text, of timestamp + method + path + SHA-256 of the body in hexadecimal, with "." between; written in hexadecimal in lower case
	// paymentsvc.Scheme{
	// 	Canonical: canonical.Join(".", canonical.Timestamp, canonical.Method, canonical.Path, canonical.BodySHA256),
	// 	Encoding:  paymentsvc.Hex,
	// }
	// canonical.Method may as well be canonical.Literal("POST")
	// to decide it takes a sample with another method (every operation of the interface document is a POST)
	// canonical.Path may as well be canonical.RequestURI
	// to decide it takes a sample with a query in the address
	// canonical.BodySHA256 may as well be canonical.SHA256(paymentsvc.Hex, canonical.BodyCompact)
	// to decide it takes a sample with white space between the JSON tokens of the body
	// signer: <nil>
}
