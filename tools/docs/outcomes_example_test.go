package docs_test

import (
	"context"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

func withEffects() paymentsvc.ErrorDecoder {
	fields := paymentsvc.ErrorFields("error_code", "error_message") // examples, like the codes below
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := fields(status, body)
		if reported == nil {
			return nil
		}
		switch reported.Code {
		case "00": // sent with each success
			return nil
		case "DUPLICATE": // user_data was used before, so an earlier call may have started it
			reported.Effect = paymentsvc.EffectPossible
		case "TOO_MANY": // a rate limit that the service applies before anything else
			reported.Effect = paymentsvc.EffectNone
		}
		return reported
	}
	return decode
}

func withoutThePayersCancel(
	ctx context.Context, client *paymentsvc.Client, userData string,
	start func(context.Context, *paymentsvc.Client, string) error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return start(ctx, client, userData)
}
