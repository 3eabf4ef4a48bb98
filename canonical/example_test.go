package canonical_test

import (
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Requests and notifications may be signed in different ways.
func ExampleByKind() {
	scheme := paymentsvc.Scheme{
		Canonical: canonical.ByKind(
			canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.BodySHA256), // for requests
			canonical.Join(".", canonical.Timestamp, canonical.Body),                        // for notifications
		),
		Encoding: paymentsvc.Hex,
	}
	text, err := scheme.Canonical(nil, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Timestamp: "1700000000", Body: []byte("{}"),
	})
	fmt.Printf("%s %v\n", text, err)
	// Output: 1700000000.{} <nil>
}

func ExampleFields() {
	m := &paymentsvc.Message{Body: []byte(`{"partner_id": 17, "amount": 10.50, "payer": {"email": "a@example.com"}}`)}
	for _, list := range []canonical.FieldList{
		{Between: "|", Nested: canonical.NestedOmitted},
		{Names: true, Equals: "=", Between: "&", Nested: canonical.NestedFlat, Path: "."},
		{Names: true, Equals: ":", Between: ";", AsSent: true},
	} {
		text, err := canonical.Fields(list)(nil, m)
		fmt.Printf("%s %v\n", text, err)
	}
	// Output:
	// 10.50|17 <nil>
	// amount=10.50&partner_id=17&payer.email=a@example.com <nil>
	// partner_id:17;amount:10.50;payer:{"email":"a@example.com"} <nil>
}
