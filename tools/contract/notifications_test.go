package contract

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestEveryNotificationIsTheDocuments has the fake notify of whatever can become of orders, with what goes wrong on
// the way, and looks at what arrives.
func TestEveryNotificationIsTheDocuments(t *testing.T) {
	s := serve(t, places()[1], nil)
	inbox := receive(t, s)
	events := inbox.schema.property("event").Enum
	seen := map[paymentsvc.EventType]int{}
	forged := 0
	rapid.Check(t, func(t *rapid.T) {
		s.renew(t)
		inbox.empty()
		s.fake.SetReceiver(paymentsvctest.ToURL(inbox.base + webhookPath))
		drawLife(t, s)
		s.fake.FaultNotifications("", paymentsvctest.Every(), drawNotificationFault(t))
		deliveries := s.fake.DeliverAll(t.Context())
		for _, event := range events {
			deliveries = append(deliveries, s.fake.Send(t.Context(), drawNotification(t, event), paymentsvctest.Forged())...)
		}
		for _, d := range deliveries {
			if d.Err != nil || d.HTTPStatus == 0 {
				require.NotEmpty(t, d.Faults, "not delivered: %v", d.Err)
				continue
			}
			n := inbox.next(t)
			require.NoError(t, checkRequest(inbox.closed, n.message), "%s", n.body)
			require.Equal(t, http.MethodPost, n.method)
			if d.Forged {
				require.ErrorIs(t, n.err, paymentsvc.ErrSignatureMismatch)
				forged++
				continue
			}
			require.NoError(t, n.err)
			requireRead(t, inbox.schema, n.body, n.read)
			requireSent(t, d.Notification, n.read)
			seen[n.read.Event]++
		}
		require.Empty(t, inbox.messages, "notifications that nobody sent")
	})
	for _, event := range events {
		require.NotZero(t, seen[paymentsvc.EventType(event)], event)
	}
	require.NotZero(t, forged, "forged notifications")
}

// notified is a notification on the wire, and what Webhook made of it.
type notified struct {
	*message
	read *paymentsvc.Notification
	err  error
}

// inbox receives notifications.
type inbox struct {
	*contract
	schema   *schema
	base     string
	messages chan notified
}

func receive(t *testing.T, s *service) *inbox {
	t.Helper()
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: s.scheme(), Secrets: []paymentsvc.Secret{secret, "the-secret-before"}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	in := &inbox{schema: readDocument(t).notification(t).request(), messages: make(chan notified, 100)}
	in.base = serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		m := arrived(r)
		n, err := webhook.Parse(r.Header, m.body)
		in.messages <- notified{m, n, err}
		w.WriteHeader(http.StatusOK)
	})
	in.contract = newContract(t, in.base, s.errors)
	return in
}

// empty takes out what a check that failed has left.
func (in *inbox) empty() {
	for len(in.messages) > 0 {
		<-in.messages
	}
}

func (in *inbox) next(t *rapid.T) notified {
	require.NotEmpty(t, in.messages, "a notification that was delivered has not arrived")
	return <-in.messages
}

// drawLife starts an order and lets things happen to it.
func drawLife(t *rapid.T, s *service) {
	client := newClient(t, s.config(false))
	amount := paymentsvc.AmountFromMinor(rapid.Int64Range(1, 1<<60).Draw(t, "units"), rapid.Uint8Range(0, 40).Draw(t, "scale"))
	request := paymentsvc.PaymentRequest{Amount: amount, UserData: drawText(t, "user_data")}
	var err error
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeSBP, request)
	case 1:
		_, err = client.InitForm(t.Context(), request)
	case 2:
		_, err = client.InitInvoice(t.Context(), request)
	default:
		_, err = client.InitPayout(t.Context(),
			paymentsvc.PayoutRequest{Amount: amount, Destination: card, UserData: request.UserData})
	}
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

// drawNotification gives a notification that no order has brought about.
func drawNotification(t *rapid.T, event string) paymentsvctest.Notification {
	n := paymentsvctest.Notification{
		ProjectID:         projectID,
		Event:             paymentsvc.EventType(event),
		OrderID:           drawText(t, "order_id"),
		Status:            rapid.Int64().Draw(t, "status"),
		StatusDescription: paymentsvc.StatusName(drawText(t, "status_description")),
		StatusCode:        rapid.Int64().Draw(t, "status_code"),
		Amount:            paymentsvc.MustParseAmount(drawDecimal(t, "amount")),
	}
	if rapid.Bool().Draw(t, "with user_data") {
		n.UserData = drawText(t, "user_data")
	}
	return n
}

func drawNotificationFault(t *rapid.T) paymentsvctest.NotificationFault {
	return rapid.SampledFrom([]paymentsvctest.NotificationFault{
		{}, paymentsvctest.Lost(), paymentsvctest.RepeatedBy(2), paymentsvctest.Reordered(), paymentsvctest.Delayed(1),
		paymentsvctest.Forged(), paymentsvctest.SignedWithOldSecret(), paymentsvctest.Skewed(-time.Hour),
	}).Draw(t, "fault")
}

// requireSent compares what was read with what the fake says that it sent.
func requireSent(t require.TestingT, sent paymentsvctest.Notification, read *paymentsvc.Notification) {
	require.Equal(t, paymentsvctest.Notification{
		ProjectID:         sent.ProjectID,
		Event:             read.Event,
		OrderID:           read.OrderID,
		Status:            read.Status,
		StatusDescription: read.StatusDescription,
		StatusCode:        read.StatusCode,
		Amount:            read.Amount,
		UserData:          read.UserData,
	}, sent)
}
