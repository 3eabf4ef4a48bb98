package contract

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

// TestEveryRequestAndItsAnswerAreTheDocuments makes every call with whatever a partner may give, and looks at what was
// on the wire: the request, and what the fake answered, be it success or refusal.
func TestEveryRequestAndItsAnswerAreTheDocuments(t *testing.T) {
	var services []*service
	for _, p := range places() {
		services = append(services, serve(t, p, nil))
	}
	refused := 0
	for _, o := range readDocument(t).operations() {
		for i, path := range o.paths() {
			t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
				succeeded := 0
				rapid.Check(t, func(t *rapid.T) {
					if oneCall(t, rapid.SampledFrom(services).Draw(t, "service"), o, i) {
						succeeded++
					} else {
						refused++
					}
				})
				require.NotZero(t, succeeded, "calls that succeeded")
			})
		}
	}
	require.NotZero(t, refused, "calls that the fake refused")
}

// oneCall makes one call of an operation, on its ith path, and says whether it succeeded.
func oneCall(t *rapid.T, s *service, o *operation, i int) bool {
	s.renew(t)
	cfg := s.config(rapid.Bool().Draw(t, "slash behind the address"))
	cfg.PartnerID = drawID(t, "partner_id", partnerID)
	cfg.ProjectID = drawID(t, "project_id", projectID)
	request, want := drawRequest(t, o.OperationID)
	if rapid.IntRange(0, 3).Draw(t, "of an unknown order") > 0 {
		request = s.ofKnownOrder(t, request, want)
	}
	want["partner_id"] = json.Number(strconv.FormatInt(cfg.PartnerID, 10))
	want["project_id"] = json.Number(strconv.FormatInt(cfg.ProjectID, 10))

	result, err := invoke(t, newClient(t, cfg), o.OperationID, o.paymentType(i), request)

	m := s.only(t)
	require.Equal(t, s.base+o.paths()[i], m.url)
	require.NoError(t, checkRequest(s.closed, m), "request %s", m.body)
	requireHeaders(t, s, m)
	requireBody(t, want, m.body)
	if err != nil {
		requireRefusal(t, s, m, err)
		return false
	}
	require.NoError(t, checkAnswer(s.closed, m), "answer %s", m.answer)
	requireRead(t, o.answer(), m.answer, result)
	return true
}

// ofKnownOrder starts an order, where a request asks for one, and lets it ask for that.
func (s *service) ofKnownOrder(t *rapid.T, request any, want map[string]any) any {
	client := newClient(t, s.config(false))
	amount := paymentsvc.AmountFromMinor(rapid.Int64().Draw(t, "units of the order"), 2)
	switch r := request.(type) {
	case paymentsvc.StatusPaymentRequest:
		userData := r.UserData
		if userData == "" {
			userData = drawText(t, "user_data of the order")
		}
		started, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeMC,
			paymentsvc.PaymentRequest{Amount: amount, UserData: userData})
		require.NoError(t, err)
		if r.OrderID != "" {
			r.OrderID, want["order_id"] = started.OrderID, started.OrderID
		}
		request = r
	case paymentsvc.StatusPayoutRequest:
		started, err := client.InitPayout(t.Context(),
			paymentsvc.PayoutRequest{Amount: amount, UserData: drawText(t, "user_data of the order"), Destination: card})
		require.NoError(t, err)
		r.OrderID, want["order_id"] = started.OrderID, started.OrderID
		request = r
	default:
		return request
	}
	s.taken()
	return request
}

// requireHeaders checks the headers of section 5 without the SDK's help, and that there are no others than those that
// HTTP itself has.
func requireHeaders(t require.TestingT, s *service, m *message) {
	require.ElementsMatch(t,
		[]string{"Accept-Encoding", "Content-Length", "Content-Type", "Signature", "Timestamp", "User-Agent"},
		sortedNames(m.header))
	for name, values := range m.header {
		require.Len(t, values, 1, name)
	}
	require.Equal(t, "application/json", m.header.Get("Content-Type"))
	require.Equal(t, strconv.Itoa(len(m.body)), m.header.Get("Content-Length"))
	require.Equal(t, timestamp, m.header.Get("Timestamp"))
	require.Equal(t, s.signature(timestamp, m.body), m.header.Get("Signature"))
}

// requireRefusal checks a refusal on the wire, and that the SDK read it.
func requireRefusal(t require.TestingT, s *service, m *message, err error) {
	require.NoError(t, checkAnswer(s.refusal, m), "answer %d %s", m.status, m.answer)
	require.ErrorContains(t, err, "the service reported an error")
	require.Equal(t, proven(m.status), paymentsvc.OutcomeOf(err), "outcome of HTTP %d", m.status)
	reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
	require.True(t, ok)
	require.Equal(t, textAt(t, m.answer, s.errors.code), reported.Code)
	require.Equal(t, textAt(t, m.answer, s.errors.message), reported.Message)
}

// proven is what an error of the service, in its format and without an order_id, proves with an HTTP status: that
// nothing was started, unless the status is of another request (409), of how long it took, or of a failure inside.
func proven(status int) paymentsvc.Outcome {
	switch status {
	case 202, 408, 409, 425, 499:
		return paymentsvc.OutcomeUnknown
	}
	if status/100 == 2 || status/100 == 4 {
		return paymentsvc.OutcomeRejected
	}
	return paymentsvc.OutcomeUnknown
}

// textAt gives the text under a dotted name.
func textAt(t require.TestingT, object []byte, name string) string {
	value := decoded(t, object)
	for part := range strings.SplitSeq(name, ".") {
		members, ok := value.(map[string]any)
		require.True(t, ok, name)
		value = members[part]
	}
	text, ok := value.(string)
	require.True(t, ok, name)
	return text
}
