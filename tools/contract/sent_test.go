package contract

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestEveryRequestAndItsAnswerAreTheDocuments makes every call and looks at what was on the wire: the request, and what
// the fake answered, be it success, its own refusal or a rejection with whatever HTTP status, that of a success included.
func TestEveryRequestAndItsAnswerAreTheDocuments(t *testing.T) {
	for i, p := range places() {
		s := serve(t, p, nil)
		for _, o := range readDocument(t).operations {
			for _, route := range o.routes() {
				for _, v := range variants() {
					for _, except := range append(o.request.choices, "") {
						if (except == "") != (o.request.choices == nil) {
							continue // of the choices one is given
						}
						require.Equal(t, "success", oneCall(t, s, o, route, v, except, true, 0), "%s %s without %q", route.path, v.text, except)
						oneCall(t, s, o, route, v, except, false, 0)
					}
				}
				for _, status := range []int{200, 202, 400, 401, 403, 404, 409, 429, 499, 500, 503, 599} {
					except := strings.Join(o.request.choices[:min(1, len(o.request.choices))], "")
					require.Equal(t, "rejection", oneCall(t, s, o, route, variants()[2], except, i == 0, status))
				}
			}
		}
	}
}

// oneCall makes one call of an operation, and says how it ended. With known, it is of the fake's ids and of an order that
// there is. The fake rejects it with status unless that is 0.
func oneCall(t *testing.T, s *service, o *operation, route route, v variant, except string, known bool, status int) string {
	t.Helper()
	s.renew(t)
	cfg := s.config()
	cfg.BaseURL += map[bool]string{true: "/"}[known]
	if !known && status == 0 {
		cfg.PartnerID, cfg.ProjectID = -1, 1<<62
	}
	request := newRequest(t, o.id)
	want := fill(t, request, v, except)
	if known {
		order := s.start(t, o.id, v.text)
		if want["order_id"] != nil {
			request.FieldByName("OrderID").SetString(order)
			want["order_id"] = order
		}
		if want["user_data"] != nil && !strings.HasPrefix(o.id, "Status") {
			request.FieldByName("UserData").SetString(v.text + ", another")
			want["user_data"] = v.text + ", another"
		}
	}
	want["partner_id"] = json.RawMessage(strconv.FormatInt(cfg.PartnerID, 10))
	want["project_id"] = json.RawMessage(strconv.FormatInt(cfg.ProjectID, 10))
	rejection := paymentsvc.ServiceError{Code: "E17 " + v.text, Message: v.text}
	if status != 0 {
		s.fake.Fault(strings.TrimPrefix(route.path, "/"), paymentsvctest.Every(),
			paymentsvctest.Reject(status, rejection.Code, rejection.Message))
	}

	result, err := invoke(t, newClient(t, cfg), o.id, route.paymentType, request)

	m := s.only(t)
	require.Equal(t, s.base+route.path, m.url)
	require.NoError(t, checkRequest(s.closed, m), "request %s", m.body)
	requireHeaders(t, s, m)
	requireBody(t, want, m.body)
	if err == nil {
		require.Zero(t, status)
		require.NoError(t, checkAnswer(s.closed, m), "answer %s", m.answer)
		requireRead(t, o.answer, m.answer, result)
		return "success"
	}
	reported := requireRefusal(t, s, m, err)
	if status == 0 {
		return "refusal"
	}
	require.Equal(t, status, m.status)
	require.Equal(t, rejection, *reported)
	return "rejection"
}

// start starts what a status is asked of, and returns its order_id.
func (s *service) start(t *testing.T, id, userData string) string {
	t.Helper()
	defer s.taken()
	client := newClient(t, s.config())
	amount := paymentsvc.MustParseAmount("10.50")
	if id == "StatusPayout" {
		started, err := client.InitPayout(t.Context(),
			paymentsvc.PayoutRequest{Amount: amount, UserData: userData, Destination: card})
		require.NoError(t, err)
		return started.OrderID
	}
	started, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeMC,
		paymentsvc.PaymentRequest{Amount: amount, UserData: userData})
	require.NoError(t, err)
	return started.OrderID
}

// requireHeaders checks the headers of section 5 without the SDK's help, and that there are no others than those that
// HTTP itself has.
func requireHeaders(t require.TestingT, s *service, m *message) {
	require.ElementsMatch(t,
		[]string{"Accept-Encoding", "Content-Length", "Content-Type", "Signature", "Timestamp", "User-Agent"},
		slices.Collect(maps.Keys(m.header)))
	for name, values := range m.header {
		require.Len(t, values, 1, name)
	}
	require.Equal(t, "application/json", m.header.Get("Content-Type"))
	require.Equal(t, strconv.Itoa(len(m.body)), m.header.Get("Content-Length"))
	require.Equal(t, timestamp, m.header.Get("Timestamp"))
	require.Equal(t, s.signature(timestamp, m.body), m.header.Get("Signature"))
}

// requireRefusal checks a refusal on the wire, and that the SDK read it. An error of the service, in its format and
// without an order_id, proves that nothing was started, unless the status is of another request (409), of how long it
// took, or of a failure inside.
func requireRefusal(t require.TestingT, s *service, m *message, err error) *paymentsvc.ServiceError {
	require.NoError(t, checkAnswer(s.refusal, m), "answer %d %s", m.status, m.answer)
	proven := paymentsvc.OutcomeUnknown
	unclear := slices.Contains([]int{202, 408, 409, 425, 499}, m.status)
	if class := m.status / 100; !unclear && (class == 2 || class == 4) {
		proven = paymentsvc.OutcomeRejected
	}
	require.Equal(t, proven, paymentsvc.OutcomeOf(err), "outcome of HTTP %d", m.status)
	reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
	require.True(t, ok)
	shown := s.shownError(t, m)
	require.Equal(t, shown.Code, reported.Code)
	require.Equal(t, shown.Message, reported.Message)
	return reported
}

// shownError reads the error in an answer without the SDK's help.
func (s *service) shownError(t require.TestingT, m *message) (shown paymentsvc.ServiceError) {
	object := membersOf(t, m.answer)
	if s.errors.parent != "" {
		object = membersOf(t, object[s.errors.parent])
	}
	require.NoError(t, json.Unmarshal(object[s.errors.code], &shown.Code))
	require.NoError(t, json.Unmarshal(object[s.errors.message], &shown.Message))
	return shown
}

// TestEveryRefusalOfTheFakeHasTheShapeOfTheAnswer provokes each Problem.
func TestEveryRefusalOfTheFakeHasTheShapeOfTheAnswer(t *testing.T) {
	const (
		ids    = `"partner_id":1001,"project_id":2002`
		payout = `{` + ids + `,"amount":5,"destination":"` + card + `","user_data":"order-1"}`
	)
	for problem, provoke := range map[paymentsvctest.Problem]struct {
		path, body string
		change     func(*place, *message) // after signing
	}{
		paymentsvctest.ProblemMethod:      {"/init_payout", payout, func(_ *place, m *message) { m.method = http.MethodPut }},
		paymentsvctest.ProblemContentType: {"/init_payout", payout, func(_ *place, m *message) { m.header.Set("Content-Type", "text/plain") }},
		paymentsvctest.ProblemTooLarge:    {"/init_payout", payout + strings.Repeat(" ", 1<<20), nil},
		paymentsvctest.ProblemHeader:      {"/init_payout", payout, func(_ *place, m *message) { m.header.Del("Signature") }},
		paymentsvctest.ProblemSignature:   {"/init_payout", payout, func(_ *place, m *message) { m.body[len(m.body)-2] = ' ' }},
		paymentsvctest.ProblemTimestamp: {"/init_payout", payout, func(p *place, m *message) {
			m.header.Set("Timestamp", "1700000000")
			m.header.Set("Signature", p.signature("1700000000", m.body))
		}},
		paymentsvctest.ProblemBody:     {"/init_payout", "[" + payout + "]", nil},
		paymentsvctest.ProblemField:    {"/status_payout", "{" + ids + "}", nil},
		paymentsvctest.ProblemIDs:      {"/get_balance", `{"partner_id":1,"project_id":2}`, nil},
		paymentsvctest.ProblemNotFound: {"/status_payment", `{"order_id":"text",` + ids + "}", nil},
		paymentsvctest.ProblemRepeated: {"/init_payout", strings.ReplaceAll(payout, "order-1", "before"), nil},
		paymentsvctest.ProblemRefused:  {"/init_payout", strings.ReplaceAll(payout, "order-1", "odd"), nil},
		paymentsvctest.ProblemBalance:  {"/init_payout", strings.ReplaceAll(payout, ":5,", ":5000,"), nil},
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
			_ = s.send(t, s.post(s.base+"/init_payout", strings.ReplaceAll(payout, "order-1", "before")))
			m := s.post(s.base+provoke.path, provoke.body)
			if provoke.change != nil {
				provoke.change(&p, m)
			}
			m = s.send(t, m)
			rejected := s.fake.Rejected()
			require.Len(t, rejected, 1, problem)
			require.Equal(t, problem, rejected[0].Problem)
			require.GreaterOrEqual(t, m.status, 400)
			m.method = http.MethodPost // the document has the shape of no other
			require.NoError(t, checkAnswer(s.refusal, m), "%s: %s", problem, m.answer)
			require.Equal(t, rejected[0].Message, s.shownError(t, m).Message)
		}
	}
}

// variations are bodies in which one thing was changed, with whether a schema that allows nothing beyond its properties
// still allows them.
func variations(t require.TestingT, s *schema) map[string]bool {
	full := fullBody(t, s)
	backward := slices.Clone(full)
	slices.Reverse(backward)
	all := map[string]bool{
		objectOf(full):     true,
		objectOf(backward): true,
		objectOf(with(full, "foreign", `"text"`)): false,
		strings.TrimSuffix(objectOf(full), "}"):   false,
		objectOf(full) + "1":                      false,
		"[" + objectOf(full) + "]":                false,
		"null":                                    false,
		"":                                        false,
	}
	for _, p := range s.properties {
		all[objectOf(without(full, p.name))] = !s.requires(p.name)
		all[objectOf(with(full, strings.ToUpper(p.name), example(t, p)))] = false
		for _, value := range ofOtherTypes(p) {
			all[objectOf(with(full, p.name, value))] = false
		}
	}
	if s.choices != nil {
		all[objectOf(without(full, s.choices...))] = false
	}
	return all
}

// TestEveryVariationIsJudgedByTheValidatorAndTheFakeAlike shows that the other tests can fail. It sends the fake, each
// correctly signed, what the document allows and what it does not.
func TestEveryVariationIsJudgedByTheValidatorAndTheFakeAlike(t *testing.T) {
	d := readDocument(t)
	s := serve(t, places()[1], nil)
	for _, o := range d.operations {
		for _, route := range o.routes() {
			for body, valid := range variations(t, o.request) {
				s.renew(t)
				require.Equal(t, valid, checkRequest(s.closed, s.post(s.base+route.path, body)) == nil, "%s: %s", route.path, body)
				m := s.send(t, s.post(s.base+route.path, body))
				rejected := s.fake.Rejected()
				accepted := len(rejected) == 0 || rejected[0].Problem == paymentsvctest.ProblemNotFound // nothing was started here
				require.Equal(t, valid, accepted, "%s: %s: %s", route.path, body, m.answer)
			}
		}
		for body, valid := range variations(t, o.answer) {
			m := s.post(s.base+o.routes()[0].path, "{}").answered(body)
			require.Equal(t, valid, checkAnswer(s.closed, m) == nil, "answer of %s: %s", o.id, body)
		}
	}
	for body, valid := range variations(t, d.notification.request) {
		require.Equal(t, valid, checkRequest(s.closed, s.post(s.base+webhookPath, body)) == nil, "notification: %s", body)
	}
}

// TestEveryNotificationIsTheDocuments has the fake send notifications of every event, and looks at what arrives.
func TestEveryNotificationIsTheDocuments(t *testing.T) {
	s := serve(t, places()[1], nil)
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: s.scheme(), Secrets: []paymentsvc.Secret{secret, "the-secret-before"}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	var received []*message
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = append(received, arrived(r)) }))
	t.Cleanup(server.Close)
	c := newContract(t, server.URL, s.errors)
	s.fake.SetReceiver(paymentsvctest.ToURL(server.URL + webhookPath))
	o := readDocument(t).notification
	for _, event := range o.request.properties[0].enum {
		for i, v := range variants() {
			n := paymentsvctest.Notification{
				ProjectID: projectID, Event: paymentsvc.EventType(event), OrderID: v.text, Status: int64(i) - 1, StatusCode: 1 << 62,
				StatusDescription: paymentsvc.StatusName(v.text), Amount: paymentsvc.MustParseAmount(v.amount), UserData: v.text,
			}
			if i == 0 {
				n.UserData = ""
			}
			for _, fault := range []paymentsvctest.NotificationFault{{}, paymentsvctest.SignedWithOldSecret(), paymentsvctest.Forged()} {
				received = nil
				for j, d := range s.fake.Send(t.Context(), n, fault) {
					require.NoError(t, d.Err)
					require.NoError(t, checkRequest(c.closed, received[j]), "%s", received[j].body)
					read, err := webhook.Parse(received[j].header, received[j].body)
					if d.Forged {
						require.ErrorIs(t, err, paymentsvc.ErrSignatureMismatch)
						continue
					}
					require.NoError(t, err)
					requireRead(t, o.request, received[j].body, read)
					requireSent(t, n, read)
				}
			}
		}
	}
}

// requireSent compares what was read with what the fake says that it sent.
func requireSent(t require.TestingT, sent paymentsvctest.Notification, read *paymentsvc.Notification) {
	for f, value := range reflect.ValueOf(sent).Fields() {
		if f.Name != "ProjectID" {
			require.Equal(t, value.Interface(), reflect.ValueOf(*read).FieldByName(f.Name).Interface(), f.Name)
		}
	}
}
