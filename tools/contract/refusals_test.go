package contract

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestEveryRejectionHasTheShapeOfTheAnswer rejects each call with whatever code, message and HTTP status, that of a
// success included: section 7 shows none, and gives success and error one shape.
func TestEveryRejectionHasTheShapeOfTheAnswer(t *testing.T) {
	var services []*service
	for _, p := range places() {
		services = append(services, serve(t, p, nil))
	}
	for _, o := range readDocument(t).operations() {
		for i, path := range o.paths() {
			t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					s := rapid.SampledFrom(services).Draw(t, "service")
					s.renew(t)
					status := rapid.SampledFrom([]int{200, 202, 400, 401, 403, 404, 409, 422, 429, 499, 500, 503, 599}).
						Draw(t, "status")
					code, message := drawErrorText(t, "code"), drawErrorText(t, "message")
					s.fake.Fault(strings.TrimPrefix(path, "/"), paymentsvctest.Every(),
						paymentsvctest.Reject(status, code, message))
					request, _ := drawRequest(t, o.OperationID)

					_, err := invoke(t, newClient(t, s.config(false)), o.OperationID, o.paymentType(i), request)

					m := s.only(t)
					require.NoError(t, checkRequest(s.closed, m))
					require.Equal(t, status, m.status)
					requireRefusal(t, s, m, err)
					reported, _ := errors.AsType[*paymentsvc.ServiceError](err)
					require.Equal(t, paymentsvc.ServiceError{Code: code, Message: message}, *reported)
				})
			})
		}
	}
}

// drawErrorText returns text other than "0", which services write where they have no error.
func drawErrorText(t *rapid.T, label string) string {
	if text := drawText(t, label); text != "0" {
		return text
	}
	return "00"
}

// TestWhatTheFakeRefusesByItselfHasTheShapeOfTheAnswer provokes each Problem.
func TestWhatTheFakeRefusesByItselfHasTheShapeOfTheAnswer(t *testing.T) {
	const (
		ids    = `"partner_id":1001,"project_id":2002`
		payout = `{` + ids + `,"amount":5,"destination":"` + card + `","user_data":"order-1"}`
	)
	asText := func(_ *service, m *message) { m.header.Set("Content-Type", "text/plain") }
	late := func(s *service, m *message) {
		m.header.Set("Timestamp", "1700000000")
		m.header.Set("Signature", s.signature("1700000000", m.body))
	}
	for problem, provoke := range map[paymentsvctest.Problem]struct {
		path, body string
		change     func(*service, *message) // after signing
	}{
		paymentsvctest.ProblemMethod:      {"/init_payout", payout, func(_ *service, m *message) { m.method = http.MethodPut }},
		paymentsvctest.ProblemContentType: {"/init_payout", payout, asText},
		paymentsvctest.ProblemTooLarge:    {"/init_payout", payout + strings.Repeat(" ", 1<<20), nil},
		paymentsvctest.ProblemHeader:      {"/init_payout", payout, func(_ *service, m *message) { m.header.Del("Signature") }},
		paymentsvctest.ProblemSignature:   {"/init_payout", payout, func(_ *service, m *message) { m.body[len(m.body)-2] = ' ' }},
		paymentsvctest.ProblemTimestamp:   {"/init_payout", payout, late},
		paymentsvctest.ProblemBody:        {"/init_payout", "[" + payout + "]", nil},
		paymentsvctest.ProblemField:       {"/status_payout", "{" + ids + "}", nil},
		paymentsvctest.ProblemIDs:         {"/get_balance", `{"partner_id":1,"project_id":2}`, nil},
		paymentsvctest.ProblemNotFound:    {"/status_payment", `{"order_id":"text",` + ids + "}", nil},
		paymentsvctest.ProblemRepeated:    {"/init_payout", strings.ReplaceAll(payout, "order-1", "before"), nil},
		paymentsvctest.ProblemRefused:     {"/init_payout", strings.ReplaceAll(payout, "order-1", "odd"), nil},
		paymentsvctest.ProblemBalance:     {"/init_payout", strings.ReplaceAll(payout, ":5,", ":5000,"), nil},
	} {
		for _, p := range places() {
			s := serve(t, p, func(c *paymentsvctest.Config) {
				c.Projects[0].Balance = paymentsvc.MustParseAmount("100")
				c.RefuseOverdraft = true
				c.Check = func(o paymentsvctest.Order) error {
					if o.UserData == "odd" {
						return errors.New("the check says no")
					}
					return nil
				}
			})
			_ = s.send(t, s.post("/init_payout", strings.ReplaceAll(payout, "order-1", "before")))
			m := s.post(provoke.path, provoke.body)
			if provoke.change != nil {
				provoke.change(s, m)
			}
			m = s.send(t, m)
			rejected := s.fake.Rejected()
			require.Len(t, rejected, 1, problem)
			require.Equal(t, problem, rejected[0].Problem)
			require.GreaterOrEqual(t, m.status, 400)
			m.method = http.MethodPost // the document has the shape of no other
			require.NoError(t, checkAnswer(s.refusal, m), "%s: %s", problem, m.answer)
			require.Equal(t, rejected[0].Message, textAt(t, m.answer, s.errors.message))
		}
	}
}
