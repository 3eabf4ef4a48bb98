package main

import (
	"errors"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// scheme says how requests and notifications are signed. The interface document does not show it (section 5): this is
// made up, and is what the fake of the demo and paymentsvc mock check. Put your service's own here; where nobody can
// tell you, the command paymentsvc discover finds it.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

// notFound says which of the service's errors mean that it has no such payment, by their codes: only then may an order
// with an unknown outcome be started again. The interface document shows no codes (section 7), so without any, none does.
func notFound(codes string) func(*paymentsvc.Error) bool {
	known := codeSet(codes)
	if len(known) == 0 {
		return nil
	}
	return func(err *paymentsvc.Error) bool {
		no, ok := errors.AsType[*paymentsvc.ServiceError](err)
		return ok && err.Outcome == paymentsvc.OutcomeRejected && known[no.Code]
	}
}

// codeSet reads codes with commas between them.
func codeSet(codes string) map[string]bool {
	set := map[string]bool{}
	for code := range strings.SplitSeq(codes, ",") {
		if code = strings.TrimSpace(code); code != "" {
			set[code] = true
		}
	}
	return set
}

// errorFields makes the decoder of the service's errors from "code,message", the names of their fields, which the
// interface document does not show (section 7). Without names only the HTTP status tells an error. The duplicates are
// codes which say that user_data was used before: the service may have the order by an earlier call.
func errorFields(names, duplicates string) (paymentsvc.ErrorDecoder, error) {
	if names == "" {
		return nil, nil //nolint:nilnil // no decoder is a choice that paymentsvc.Config knows
	}
	code, message, both := strings.Cut(names, ",")
	if !both || code == "" || message == "" {
		return nil, errors.New("-error-fields wants two names with a comma between them")
	}
	decode, known := paymentsvc.ErrorFields(code, message), codeSet(duplicates)
	return func(status int, body []byte) *paymentsvc.ServiceError {
		reported := decode(status, body)
		if reported != nil && known[reported.Code] {
			reported.Effect = paymentsvc.EffectPossible
		}
		return reported
	}, nil
}
