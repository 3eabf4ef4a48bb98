// Package paymentsvc is a client for the Payment Service Partner Interface 1.0.0: payments, payouts, payment forms,
// invoices, balances, and a webhook for notifications.
//
// The interface document does not specify the canonical string of a signature or the encoding (section 5). You provide
// both in a [Scheme], for requests and notifications. Package discover finds the Scheme of one signed message.
//
//	scheme := paymentsvc.Scheme{
//		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example: ask the service for yours
//		Encoding:  paymentsvc.Hex,
//	}
//	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
//	client, err := paymentsvc.NewClient(paymentsvc.Config{
//		BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer,
//		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"), // an example too
//	})
//
//	userData := paymentsvc.NewUserData() // store it before the call, because it identifies the payment
//	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
//		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
//	})
//	switch {
//	case err == nil: // redirect the payer to payment.RedirectURL
//	case paymentsvc.SafeToRetry(err): // no payment was started; back off, then retry with the same userData;
//		// for 401 and 403 alert an operator, who fixes the key or the clock
//	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown: // money may have moved: reconcile with StatusPayment
//	default: // permanently rejected, or invalid
//	}
//
//	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
//		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
//		OnError: func(_ *http.Request, err error) { slog.Error("notification", "error", err) },
//	})
//	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
//		return orders.Apply(ctx, n) // your code; expect duplicates and old states, and check n.Event first
//	}))
//
// Every failed call returns an [*Error] with an [Outcome]. For a start (a call of InitPayment, InitPayout, InitForm or
// InitInvoice), the Outcome reports whether money may have moved: the request was provably not sent, the service itself
// rejected it, or the outcome is unknown. A start is delivered at most once. Status calls and [Client.GetBalance] are
// idempotent, so the client retries them with exponential back-off and jitter.
//
// # Compatibility
//
// Within a major version, exported names keep their type and meaning. Struct types may gain fields, so use field names
// in literals. Error texts may change, so match errors with errors.Is, errors.As, [SafeToRetry] and [OutcomeOf]. Items
// that the interface document does not specify remain yours to provide.
package paymentsvc
