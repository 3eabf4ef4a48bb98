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
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestEveryRequestAndItsAnswerAreTheDocuments makes every call with whatever a partner may give, and looks at what was
// on the wire: the request, and what the fake answered, be it success, its own refusal or a rejection with whatever
// code, message and HTTP status, that of a success included.
func TestEveryRequestAndItsAnswerAreTheDocuments(t *testing.T) {
	var services []*service
	for _, p := range places() {
		services = append(services, serve(t, p, nil))
	}
	for _, o := range readDocument(t).operations {
		for _, route := range o.routes() {
			t.Run(strings.TrimPrefix(route.path, "/"), func(t *testing.T) {
				ended := map[string]int{}
				rapid.Check(t, func(t *rapid.T) {
					ended[oneCall(t, rapid.SampledFrom(services).Draw(t, "service"), o, route)]++
				})
				require.NotZero(t, ended["success"], "calls that succeeded")
				require.NotZero(t, ended["rejection"], "calls that were rejected")
			})
		}
	}
}

// oneCall makes one call of an operation, and says how it ended.
func oneCall(t *rapid.T, s *service, o *operation, route route) string {
	s.renew(t)
	cfg := s.config()
	cfg.BaseURL += rapid.SampledFrom([]string{"", "/"}).Draw(t, "behind the address")
	cfg.PartnerID = drawID(t, "partner_id", partnerID)
	cfg.ProjectID = drawID(t, "project_id", projectID)
	request := newRequest(t, o.id)
	except := ""
	if len(o.request.choices) > 0 {
		except = rapid.SampledFrom(o.request.choices).Draw(t, "not given")
	}
	want := fill(t, request, func(name string) bool { return name != except })
	if want["order_id"] != nil && rapid.IntRange(0, 3).Draw(t, "of an unknown order") > 0 {
		order := s.start(t, o.id)
		request.FieldByName("OrderID").SetString(order)
		want["order_id"] = order
	}
	want["partner_id"] = json.RawMessage(strconv.FormatInt(cfg.PartnerID, 10))
	want["project_id"] = json.RawMessage(strconv.FormatInt(cfg.ProjectID, 10))
	rejection := drawRejection(t)
	if rejection != nil {
		s.fake.Fault(strings.TrimPrefix(route.path, "/"), paymentsvctest.Every(),
			paymentsvctest.Reject(rejection.status, rejection.Code, rejection.Message))
	}

	result, err := invoke(t, newClient(t, cfg), o.id, route.paymentType, request)

	m := s.only(t)
	require.Equal(t, s.base+route.path, m.url)
	require.NoError(t, checkRequest(s.closed, m), "request %s", m.body)
	requireHeaders(t, s, m)
	requireBody(t, want, m.body)
	if err == nil {
		require.Nil(t, rejection)
		require.NoError(t, checkAnswer(s.closed, m), "answer %s", m.answer)
		requireRead(t, o.answer, m.answer, result)
		return "success"
	}
	reported := requireRefusal(t, s, m, err)
	if rejection == nil || cfg.PartnerID != partnerID || cfg.ProjectID != projectID {
		return "refusal"
	}
	require.Equal(t, rejection.status, m.status)
	require.Equal(t, rejection.ServiceError, *reported)
	return "rejection"
}

// start starts what a status is asked of, and returns its order_id.
func (s *service) start(t *rapid.T, id string) string {
	defer s.taken()
	client := newClient(t, s.config())
	amount, userData := paymentsvc.MustParseAmount("10.50"), drawText(t, "user_data of the order")
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

type rejection struct {
	status int
	paymentsvc.ServiceError
}

// drawRejection returns nil for none.
func drawRejection(t *rapid.T) *rejection {
	status := rapid.SampledFrom([]int{0, 0, 0, 200, 202, 400, 401, 403, 404, 409, 429, 499, 500, 503, 599}).Draw(t, "status")
	if status == 0 {
		return nil
	}
	text := anyText().Filter(func(text string) bool { return text != "0" }) // which services write for no error
	return &rejection{status, paymentsvc.ServiceError{Code: text.Draw(t, "code"), Message: text.Draw(t, "message")}}
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

// delivery is a notification on the wire, and what Webhook made of it.
type delivery struct {
	*message
	read *paymentsvc.Notification
	err  error
}

// TestEveryNotificationIsTheDocuments has the fake notify of whatever can become of orders, with faults on the way, and
// looks at what arrives.
func TestEveryNotificationIsTheDocuments(t *testing.T) {
	s := serve(t, places()[1], nil)
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: s.scheme(), Secrets: []paymentsvc.Secret{secret, "the-secret-before"}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	var received chan delivery
	front := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m := arrived(r)
		n, err := webhook.Parse(r.Header, m.body)
		received <- delivery{m, n, err}
	})
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	base := server.URL
	c := newContract(t, base, s.errors)
	o := readDocument(t).notification
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		s.renew(t)
		received = make(chan delivery, 100)
		s.fake.SetReceiver(paymentsvctest.ToURL(base + webhookPath))
		drawLife(t, s)
		s.fake.FaultNotifications("", paymentsvctest.Every(), rapid.SampledFrom([]paymentsvctest.NotificationFault{
			{}, paymentsvctest.Lost(), paymentsvctest.RepeatedBy(2), paymentsvctest.Reordered(), paymentsvctest.Delayed(1),
			paymentsvctest.Forged(), paymentsvctest.SignedWithOldSecret(), paymentsvctest.Skewed(-time.Hour),
		}).Draw(t, "fault"))
		deliveries := s.fake.DeliverAll(t.Context())
		for _, event := range o.request.properties[0].enum {
			deliveries = append(deliveries, s.fake.Send(t.Context(), drawNotification(t, event), paymentsvctest.Forged())...)
		}
		for _, d := range deliveries {
			if d.Err != nil || d.HTTPStatus == 0 {
				require.NotEmpty(t, d.Faults, "not delivered: %v", d.Err)
				continue
			}
			require.NotEmpty(t, received, "a notification that was delivered has not arrived")
			n := <-received
			require.NoError(t, checkRequest(c.closed, n.message), "%s", n.body)
			if d.Forged {
				require.ErrorIs(t, n.err, paymentsvc.ErrSignatureMismatch)
				seen["forged"]++
				continue
			}
			require.NoError(t, n.err)
			requireRead(t, o.request, n.body, n.read)
			requireSent(t, d.Notification, n.read)
			seen[string(n.read.Event)]++
		}
		require.Empty(t, received, "notifications that nobody sent")
	})
	for _, what := range append(o.request.properties[0].enum, "forged") {
		require.NotZero(t, seen[what], what)
	}
}

// drawLife starts an order and lets things happen to it.
func drawLife(t *rapid.T, s *service) {
	client := newClient(t, s.config())
	amount := paymentsvc.AmountFromMinor(rapid.Int64Range(1, 1<<60).Draw(t, "units"), rapid.Uint8Range(0, 40).Draw(t, "scale"))
	request := paymentsvc.PaymentRequest{Amount: amount, UserData: drawText(t, "user_data")}
	started := reflect.ValueOf(request)
	id := rapid.SampledFrom([]string{"InitPayment", "InitForm", "InitInvoice", "InitPayout"}).Draw(t, "started by")
	if id == "InitPayout" {
		started = reflect.ValueOf(paymentsvc.PayoutRequest{Amount: amount, Destination: card, UserData: request.UserData})
	}
	_, err := invoke(t, client, id, "sbp", started)
	require.NoError(t, err)
	order := s.fake.Orders()[0]
	statuses := []paymentsvc.StatusName{paymentsvc.StatusPending, paymentsvc.StatusSuccess, paymentsvc.StatusFailure}
	last := rapid.SampledFrom(statuses).Draw(t, "status")
	for _, status := range []paymentsvc.StatusName{paymentsvc.StatusPending, last} {
		_, err = s.fake.Settle(order.OrderID, status)
		require.NoError(t, err)
	}
	if last == paymentsvc.StatusSuccess && order.Kind != paymentsvctest.KindPayout {
		_, err = s.fake.Refund(order.OrderID, amount, rapid.SampledFrom(statuses).Draw(t, "status of the refund"))
		require.NoError(t, err)
	}
}

// drawNotification returns a notification that no order has brought about.
func drawNotification(t *rapid.T, event string) paymentsvctest.Notification {
	return paymentsvctest.Notification{
		ProjectID:         projectID,
		Event:             paymentsvc.EventType(event),
		OrderID:           drawText(t, "order_id"),
		Status:            rapid.Int64().Draw(t, "status"),
		StatusDescription: paymentsvc.StatusName(drawText(t, "status_description")),
		StatusCode:        rapid.Int64().Draw(t, "status_code"),
		Amount:            paymentsvc.MustParseAmount(drawDecimal(t, "amount")),
		UserData:          rapid.OneOf(rapid.Just(""), anyText()).Draw(t, "user_data"),
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
