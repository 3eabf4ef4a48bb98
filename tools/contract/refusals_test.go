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
					code, message := drawText(t, "code"), drawText(t, "message")
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

// TestARefusalOfAnotherShapeIsNoticed shows that the shape of a refusal is looked at.
func TestARefusalOfAnotherShapeIsNoticed(t *testing.T) {
	s := serve(t, places()[1], nil)
	for answer, valid := range map[string]bool{
		`{"error":{"code":"a","message":"b"}}`:                        true,
		`{"error":{"code":"a","message":"b"},"order_id":17}`:          false,
		`{"error":{"code":"a","message":"b"},"order_id":"text"}`:      true,
		`{"error":{"code":"a","message":"b"},"foreign":"text"}`:       false,
		`{"error":{"code":"a","message":"b","foreign":"text"}}`:       false,
		`{"error":{"code":"a"}}`:                                      false,
		`{"error":{"code":17,"message":"b"}}`:                         false,
		`{"error":"a"}`:                                               false,
		`{"error_code":"a","error_message":"b"}`:                      false,
		`{"order_id":"text","status":1,"status_code":2}`:              false,
		`[{"error":{"code":"a","message":"b"}}]`:                      false,
		`<html><body><h1>502 Bad Gateway</h1></body></html>`:          false,
		`{"error":{"code":"a","message":"b"},"status":1.5}`:           false,
		`{"error":{"code":"a","message":"b"},"status_code":0}`:        true,
		`{"error":{"code":"a","message":"b"},"status_code":null}`:     false,
		`{"error":{"code":"a","message":"b"}} {"error":{"code":"a"}}`: false,
	} {
		m := s.post("/init_payout", "{}")
		m.status, m.answerHeader, m.answer = 400, http.Header{"Content-Type": {"application/json"}}, []byte(answer)
		require.Equal(t, valid, checkAnswer(s.refusal, m) == nil, answer)
	}
}
