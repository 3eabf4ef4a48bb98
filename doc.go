// Package paymentsvc is a client for the Payment Service Partner Interface 1.0.0: payments, payouts, forms,
// invoices, balances, and the notifications that the service sends.
//
// The interface document does not show which text a request's signature runs over, nor how the signature is
// encoded (section 5). So there is no default: a Scheme says both, for requests and for notifications.
//
//	scheme := paymentsvc.Scheme{
//		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example: ask the service for yours
//		Encoding:  paymentsvc.Hex,
//	}
//	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
//	client, err := paymentsvc.NewClient(paymentsvc.Config{
//		BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer,
//	})
//
//	userData := paymentsvc.NewUserData() // store it before the call: it finds the payment again
//	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
//		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
//	})
//	switch {
//	case err == nil: // payment.RedirectURL is where the payer goes on
//	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent:
//		// nothing left this process: start again, but correct an ErrInvalidRequest first
//	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeRejected: // the service said no
//	default: // unknown, money may have moved: ask client.StatusPayment by userData
//	}
//
//	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
//		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
//	})
//	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
//		return orders.Apply(ctx, n.Key(), n.OrderID, n.StatusDescription) // may come again, or late
//	}))
//
// Every failed call is an *Error, and its Outcome says whether money may have moved. Calls that start something
// are sent at most once; status calls and GetBalance are tried again.
//
// # Compatibility
//
// Within a major version no exported name is removed and none changes its type or meaning. Struct types may
// gain fields, so name the fields in literals. Error texts may change; match errors with errors.Is, errors.As
// and OutcomeOf. What the interface document leaves open stays yours to give.
package paymentsvc
