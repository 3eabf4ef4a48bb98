// Package paymentsvc is a client for the Payment Service Partner Interface 1.0.0: payments, payouts, payment forms,
// invoices, balances, and the webhook for the service's notifications.
//
// The interface document does not show which canonical string a request's signature covers, nor how the signature is
// encoded (section 5). So there is no default: a [Scheme] says both, for requests and for notifications. Package
// discover finds it from one signed message.
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
//	userData := paymentsvc.NewUserData() // store it before the call: it identifies the payment afterwards
//	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
//		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
//	})
//	switch {
//	case err == nil: // send the payer to payment.RedirectURL
//	case paymentsvc.SafeToRetry(err): // nothing was started: retry with the same userData, after a back-off;
//		// 401, 403: alert, fix the key or the clock, then retry
//	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown: // money may have moved: reconcile with StatusPayment
//	default: // rejected for good, or never valid
//	}
//
//	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
//		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
//		OnError: func(_ *http.Request, err error) { slog.Error("notification", "error", err) },
//	})
//	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
//		return orders.Apply(ctx, n) // yours: expect duplicates and late ones, and look at n.Event first
//	}))
//
// Every failed call returns an [*Error], whose [Outcome] says whether money may have moved: it was provably not sent,
// the service itself rejected it, or the outcome is unknown. Calls that start something are sent at most once; status
// calls and [Client.GetBalance] are idempotent and are retried with exponential back-off and jitter.
//
// # Compatibility
//
// Within a major version no exported name is removed and none changes its type or meaning. Struct types may gain
// fields, so name the fields in literals. Error texts may change: match errors with errors.Is, errors.As, [SafeToRetry]
// and [OutcomeOf]. What the interface document leaves open stays for you to provide.
package paymentsvc
