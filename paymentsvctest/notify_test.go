package paymentsvctest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// inbox is a partner behind a paymentsvc.Webhook. It records the accepted notifications and the errors.
type inbox struct {
	mu    sync.Mutex
	taken []*paymentsvc.Notification
	errs  []error
	busy  int // the number of responses with 500 before the first success
}

func (b *inbox) handler(t testing.TB) http.Handler {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute, Now: now,
		Respond: func(w http.ResponseWriter, _ *http.Request, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if err != nil {
				b.errs = append(b.errs, err)
				w.WriteHeader(http.StatusBadRequest)
			}
		},
	})
	require.NoError(t, err)
	return webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy > 0 {
			b.busy--
			return io.ErrNoProgress
		}
		b.taken = append(b.taken, n)
		return nil
	})
}

// names returns user_data and status of the accepted notifications.
func (b *inbox) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{}
	for _, n := range b.taken {
		names = append(names, n.UserData+" "+string(n.StatusDescription))
	}
	return names
}

// receivers runs a test with each kind of receiver.
func receivers(t *testing.T, test func(*testing.T, *paymentsvctest.Server, *paymentsvc.Client, *inbox)) {
	for _, way := range []string{"to a handler", "to a URL"} {
		t.Run(way, func(t *testing.T) {
			srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.Now = now }))
			box := &inbox{}
			if way == "to a handler" {
				srv.SetReceiver(paymentsvctest.ToHandler(box.handler(t), "/notifications"))
			} else {
				partner := httptest.NewServer(box.handler(t))
				t.Cleanup(partner.Close)
				srv.SetReceiver(paymentsvctest.ToURL(partner.URL))
			}
			test(t, srv, newClient(t, srv), box)
		})
	}
}

func TestNotificationsFollowTheDocument(t *testing.T) {
	receivers(t, func(t *testing.T, srv *paymentsvctest.Server, client *paymentsvc.Client, box *inbox) {
		paymentID, payoutID := pay(t, client, "order-1"), payOut(t, client, "payout-1")
		_, err := client.InitForm(t.Context(), payment("form-1"))
		require.NoError(t, err)
		_, err = client.InitInvoice(t.Context(), payment("invoice-1"))
		require.NoError(t, err)
		settled(t, srv, paymentID, paymentsvc.StatusSuccess)
		settled(t, srv, payoutID, paymentsvc.StatusFailure)
		_, err = srv.Refund(paymentID, amount("0.50"), paymentsvc.StatusSuccess)
		require.NoError(t, err)
		for _, o := range srv.Orders()[2:] {
			settled(t, srv, o.OrderID, paymentsvc.StatusFailure)
		}
		assert.Len(t, srv.Outbox(), 5)
		deliveries := srv.Deliver(t.Context())
		assert.Empty(t, srv.Outbox())
		assert.Equal(t, deliveries, srv.Deliveries())
		var bodies []string
		for _, n := range box.taken {
			bodies = append(bodies, string(n.Raw))
			assert.Equal(t, now(), n.Timestamp.UTC().Local())
		}
		want := func(event string, order int, statusAndAmount, userData string) string {
			return fmt.Sprintf(`{"event":"%s.status_changed", "order_id":"%s",%s,"user_data":"%s"}`,
				event, nth(order), statusAndAmount, userData)
		}
		const failure = `"status":3,"status_description":"FAILURE","status_code":30,"amount":10.50`
		assert.Equal(t, []string{
			want("payment", 1, `"status":2,"status_description":"SUCCESS","status_code":20,"amount":10.50`, "order-1"),
			want("payout", 2, failure, "payout-1"),
			want("refund", 1, `"status":2,"status_description":"SUCCESS","status_code":20,"amount":0.50`, "order-1"),
			want("payment", 3, failure, "form-1"),
			want("payment", 4, failure, "invoice-1"),
		}, bodies)
		assert.Equal(t,
			`payment.status_changed `+nth(1)+` 10.50 for user_data "order-1", SUCCESS: HTTP 200`, deliveries[0].String())
	})
}

func TestNotificationFaultsTakeEffect(t *testing.T) {
	const one = "order-1 SUCCESS"
	for _, test := range []struct {
		faults string
		taken  []string
		sent   int
		hits   int
		err    error // returned by the webhook
	}{
		{"", []string{one}, 1, 1, nil},
		{"lost", []string{}, 1, 1, nil},
		{"repeated 2", []string{one, one, one}, 3, 1, nil},
		{"repeated 0", []string{one}, 1, 0, nil},
		{"lost + repeated 2", []string{}, 3, 0, nil},
		{"forged", []string{one}, 2, 1, paymentsvc.ErrSignatureMismatch},
		{"forged + lost", []string{}, 2, 1, paymentsvc.ErrSignatureMismatch},
		{"forged + cut 20", []string{}, 2, 1, paymentsvc.ErrSignatureMismatch}, // the forgery is not cut
		{"old-secret", []string{}, 1, 1, paymentsvc.ErrSignatureMismatch},
		{"lost + late 1m1s", []string{}, 1, 0, nil},
		{"late 1m0s", []string{one}, 1, 1, nil},
		{"late 1m1s", []string{}, 1, 1, paymentsvc.ErrTimestampTooOld},
		{"early 1m1s", []string{}, 1, 1, paymentsvc.ErrTimestampTooNew},
		{"unsigned", []string{}, 1, 1, paymentsvc.ErrMissingHeader},
		{"altered", []string{}, 1, 1, paymentsvc.ErrSignatureMismatch},
		{"cut", []string{}, 1, 1, nil},
		{"cut 20", []string{}, 1, 1, nil},
		{"cut 0", []string{}, 1, 1, nil},
		{"cut 9999", []string{one}, 1, 0, nil},
		{"repeated 1 + old-secret", []string{}, 2, 1, paymentsvc.ErrSignatureMismatch},
		{"delayed 0", []string{one}, 1, 0, nil},
	} {
		t.Run(test.faults, func(t *testing.T) {
			receivers(t, func(t *testing.T, srv *paymentsvctest.Server, client *paymentsvc.Client, box *inbox) {
				var faults []paymentsvctest.NotificationFault
				if test.faults != "" {
					faults = parsed(t, test.faults, paymentsvctest.ParseNotificationFault)
				}
				n := settled(t, srv, pay(t, client, "order-1"), paymentsvc.StatusSuccess)
				deliveries := srv.Send(t.Context(), n, faults...)
				assert.Equal(t, test.taken, box.names())
				require.Len(t, deliveries, test.sent)
				for _, d := range deliveries {
					want := strings.TrimPrefix(strings.TrimPrefix(test.faults, "forged"), " + ")
					if d.Forged && strings.HasPrefix(test.faults, "forged") {
						want = "forged"
					}
					assert.Equal(t, want, strings.Join(d.Faults, " + "), "the notification after a forgery is genuine")
				}
				if test.err != nil {
					box.mu.Lock()
					require.NotEmpty(t, box.errs)
					assert.ErrorIs(t, box.errs[0], test.err)
					box.mu.Unlock()
				}
				if slices.ContainsFunc(srv.Deliveries(), func(d paymentsvctest.Delivery) bool { return d.Forged }) {
					srv.AssertForgeriesRefused(t)
				}
				assert.Len(t, srv.Outbox(), 1, "Send goes past the outbox")
				rule := srv.FaultNotifications("", paymentsvctest.Nth(1), faults...)
				srv.Deliver(t.Context())
				assert.Equal(t, test.hits, rule.Hits())
			})
		})
	}
}

// deliverNames calls Deliver and returns the notifications that the partner has accepted since.
func deliverNames(t *testing.T, srv *paymentsvctest.Server, box *inbox) []string {
	t.Helper()
	before := len(box.names())
	srv.Deliver(t.Context())
	return box.names()[before:]
}

func TestDeliverReordersAndDelays(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.Now = now }))
	client, box := newClient(t, srv), &inbox{}
	srv.SetReceiver(paymentsvctest.ToHandler(box.handler(t), "/notifications"))
	settle := func(names ...string) {
		for _, name := range names {
			settled(t, srv, pay(t, client, name), paymentsvc.StatusSuccess)
		}
	}
	srv.FaultNotifications(paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(1), paymentsvctest.Reordered())
	delayed := srv.FaultNotifications(paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(3),
		paymentsvctest.Delayed(2))
	srv.FaultNotifications(paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(3), paymentsvctest.RepeatedBy(1))
	payouts := srv.FaultNotifications(paymentsvc.EventPayoutStatusChanged, paymentsvctest.Every(), paymentsvctest.Lost())
	last := srv.FaultNotifications("", paymentsvctest.Nth(5), paymentsvctest.Reordered())

	settle("1", "2", "3", "4", "5")
	assert.Equal(t, []string{"2 SUCCESS", "1 SUCCESS", "4 SUCCESS"}, deliverNames(t, srv, box))
	require.Len(t, srv.Outbox(), 2)
	assert.Equal(t, []string{"5 SUCCESS"}, deliverNames(t, srv, box), "a swap needs a following notification")
	settle("6")
	assert.Equal(t, []string{"3 SUCCESS", "3 SUCCESS", "6 SUCCESS"}, deliverNames(t, srv, box),
		"two calls later, with its other fault")
	assert.Empty(t, srv.Outbox())
	assert.Equal(t, []int{1, 0, 0}, []int{delayed.Hits(), payouts.Hits(), last.Hits()}, "no successor to swap")

	last = srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Reordered())
	settle("7")
	assert.Empty(t, deliverNames(t, srv, box))
	settle("8")
	assert.Equal(t, []string{"8 SUCCESS", "7 SUCCESS"}, deliverNames(t, srv, box), "a notification followed in time")
	assert.Equal(t, 1, last.Hits())

	srv.ClearFaults()
	swapped := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Reordered())
	srv.FaultNotifications("", paymentsvctest.Nth(2), paymentsvctest.Delayed(1))
	settle("9", "10")
	ended, end := context.WithCancel(t.Context())
	end()
	assert.Empty(t, srv.Deliver(ended), "a cancelled call ends no delay")
	assert.Empty(t, deliverNames(t, srv, box), "the next notification is not due")
	assert.Equal(t, []string{"10 SUCCESS", "9 SUCCESS"}, deliverNames(t, srv, box))
	assert.Equal(t, 1, swapped.Hits())

	srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Delayed(1))
	unmoved := srv.FaultNotifications("", paymentsvctest.Nth(2), paymentsvctest.Reordered())
	brief := srv.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.Late(time.Millisecond))
	settle("17", "18")
	assert.Empty(t, deliverNames(t, srv, box))
	assert.Equal(t, []string{"17 SUCCESS", "18 SUCCESS"}, deliverNames(t, srv, box))
	assert.Zero(t, unmoved.Hits()+brief.Hits(), "a timestamp has whole seconds")

	both := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Delayed(1), paymentsvctest.Reordered())
	settle("11")
	assert.Empty(t, deliverNames(t, srv, box), "delayed")
	assert.Empty(t, deliverNames(t, srv, box), "no notification follows")
	settle("12")
	assert.Equal(t, []string{"12 SUCCESS", "11 SUCCESS"}, deliverNames(t, srv, box))
	assert.Equal(t, 1, both.Hits())

	srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Reordered())
	srv.FaultNotifications("", paymentsvctest.Nth(3), paymentsvctest.Delayed(1))
	settle("13", "14", "15")
	interrupted, interrupt := context.WithCancel(t.Context())
	handler := box.handler(t)
	srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		interrupt()
		handler.ServeHTTP(w, r)
	}), "/notifications"))
	srv.Deliver(interrupted)
	srv.DeliverAll(t.Context())
	assert.Equal(t, []string{"14 SUCCESS", "13 SUCCESS", "15 SUCCESS"}, box.names()[len(box.names())-3:])
}

func TestDeliverRetriesUntilAccepted(t *testing.T) {
	srv, client := startFake(t, func(c *paymentsvctest.Config) { c.Now = now })
	box := &inbox{busy: 1}
	settled(t, srv, pay(t, client, "1"), paymentsvc.StatusSuccess)
	assert.Empty(t, srv.Deliver(t.Context()), "there is no receiver")
	assert.Empty(t, srv.DeliverAll(t.Context()), "there is no receiver")
	assert.Len(t, srv.Outbox(), 1)

	srv.SetReceiver(paymentsvctest.ToHandler(box.handler(t), "/notifications"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Empty(t, srv.Deliver(ctx))
	assert.Len(t, srv.Outbox(), 1, "an unsent notification stays")

	assert.Empty(t, deliverNames(t, srv, box), "the partner is busy")
	assert.Len(t, srv.Outbox(), 1)
	assert.Equal(t, []string{"1 SUCCESS"}, deliverNames(t, srv, box))
	assert.Empty(t, srv.Outbox())

	lost := srv.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.Lost())
	settled(t, srv, pay(t, client, "2"), paymentsvc.StatusSuccess)
	deliveries := srv.DeliverAll(t.Context())
	require.Len(t, deliveries, 3, "NotifyAttempts")
	assert.Contains(t, deliveries[2].String(), "(lost): lost on purpose")
	assert.Equal(t, 3, lost.Hits())
	assert.Empty(t, srv.Outbox(), "given up")

	lost.Remove()
	calls := 0
	srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		if calls == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), "/"))
	forged := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged())
	settled(t, srv, pay(t, client, "4"), paymentsvc.StatusSuccess)
	srv.Deliver(t.Context())
	assert.Equal(t, 1, forged.Hits())
	assert.Len(t, srv.Outbox(), 1, "an accepted forgery does not count")
	srv.Deliver(t.Context())
	assert.Empty(t, srv.Outbox())

	srv.ClearFaults()
	srv.SetReceiver(paymentsvctest.ToURL("http://127.0.0.1:1/"))
	settled(t, srv, pay(t, client, "3"), paymentsvc.StatusSuccess)
	unreached := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged())
	deliveries = srv.Deliver(t.Context())
	assert.Zero(t, unreached.Hits(), "the forgery did not arrive")
	require.Error(t, deliveries[0].Err)
	assert.Zero(t, deliveries[0].HTTPStatus)
	srv.Close()
	assert.Empty(t, srv.DeliverAll(t.Context()), "a closed server sends nothing")
	assert.Len(t, srv.Outbox(), 1)
}

func TestSendReportsErrors(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Now = now
		c.Projects = append(c.Projects, paymentsvctest.Project{ID: 43, Secret: "another"})
	}))
	n := paymentsvctest.Notification{ProjectID: project, Event: "payout.reviewed", OrderID: "o", StatusDescription: "HELD",
		Amount: amount("1e3")}
	assert.ErrorContains(t, srv.Send(t.Context(), n)[0].Err, "no receiver")

	var got []string
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got,
			r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+strconv.FormatInt(r.ContentLength, 10)+" "+string(body))
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer partner.Close()
	srv.SetReceiver(paymentsvctest.ToURL(partner.URL + "/n"))
	d := srv.Send(t.Context(), n)[0]
	require.NoError(t, d.Err)
	assert.Equal(t, http.StatusFound, d.HTTPStatus, "not followed")
	assert.False(t, d.Accepted())
	assert.Equal(t,
		[]string{`POST /n application/json 112 {"event":"payout.reviewed", "order_id":"o",` +
			`"status":0,"status_description":"HELD","status_code":0,"amount":1000}`}, got,
		"the composed fields, with an unknown event and without user_data")

	n.ProjectID = 43
	assert.ErrorContains(t, srv.Send(t.Context(), n, paymentsvctest.SignedWithOldSecret())[0].Err, "no old secret")
	n.ProjectID = 44
	assert.ErrorContains(t, srv.Send(t.Context(), n, paymentsvctest.Forged())[0].Err, "no such project")
	srv.SetReceiver(paymentsvctest.ToURL("://?token=tok-7"))
	n.ProjectID = 43
	err := srv.Send(t.Context(), n)[0].Err
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "tok-7")
}

func TestRepeatedCountsOnlyWithEachDuplicate(t *testing.T) {
	for name, hits := range map[string]int{"complete": 1, "context ended": 0, "server closed": 0} {
		t.Run(name, func(t *testing.T) {
			srv := paymentsvctest.StartInMemory(t, config())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				switch name {
				case "context ended":
					cancel()
				case "server closed":
					srv.Close()
				}
			}), "/"))
			settled(t, srv, pay(t, newClient(t, srv), "1"), paymentsvc.StatusSuccess)
			rule := srv.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.RepeatedBy(1))
			assert.Len(t, srv.Deliver(ctx), 1+hits)
			assert.Equal(t, hits, rule.Hits())
		})
	}
}

func TestNotificationEndsAfterTenSecondsOrWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := paymentsvctest.StartInMemory(t, config())
		var ends []error
		srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if len(ends) == 1 {
				srv.Close()
			}
			<-r.Context().Done()
			ends = append(ends, r.Context().Err())
		}), "/"))
		began := time.Now()
		for range 2 {
			srv.Send(t.Context(), paymentsvctest.Notification{ProjectID: project, Amount: amount("1")})
		}
		assert.Equal(t, []error{context.DeadlineExceeded, context.Canceled}, ends)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestSendBodyReachesTheReceiverOfItsFields(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config())
	received := ""
	srv.SetReceiver(paymentsvctest.Receiver{})
	to := paymentsvctest.ToEach(func(n paymentsvctest.Notification) paymentsvctest.Receiver {
		if n.ProjectID != project || n.OrderID == "none" {
			return paymentsvctest.Receiver{}
		}
		return paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			received += n.OrderID + " "
		}), "/")
	})
	for body, problem := range map[string]string{`{"order_id":"o"}`: "", "[]": "", `{"order_id":"none"}`: "no receiver"} {
		status, err := srv.SendBody(t.Context(), to, project, now(), []byte(body), nil)
		if problem != "" {
			assert.ErrorContains(t, err, problem)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, status)
	}
	assert.Len(t, received, 3)
}

func TestToHandlerBehavesLikeAServer(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.Now = now }))
	n := paymentsvctest.Notification{ProjectID: project, Event: paymentsvc.EventRefundStatusChanged, OrderID: "o",
		StatusDescription: "HELD", Amount: amount("1")}
	to := func(h http.HandlerFunc) paymentsvctest.Delivery {
		srv.SetReceiver(paymentsvctest.ToHandler(h, "/a b"))
		return srv.Send(t.Context(), n)[0]
	}
	d := to(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/a%20b", r.RequestURI)
		assert.Equal(t, "/a b", r.URL.Path)
		assert.Empty(t, r.URL.Host)
		assert.Equal(t, "partner.example", r.Host)
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusContinue)
		_, err := io.WriteString(w, "taken")
		assert.NoError(t, err)
		w.WriteHeader(http.StatusTeapot) // too late
	})
	assert.Equal(t, http.StatusOK, d.HTTPStatus)
	assert.Equal(t, http.StatusOK, to(func(http.ResponseWriter, *http.Request) {}).HTTPStatus)
	assert.Equal(t, http.StatusAccepted,
		to(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }).HTTPStatus)
	assert.ErrorIs(t, to(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }).Err,
		http.ErrAbortHandler)
	assert.PanicsWithValue(t, "a fault of the partner's", func() {
		to(func(http.ResponseWriter, *http.Request) { panic("a fault of the partner's") })
	})
}

func TestSettleAndRefundUpdateBalances(t *testing.T) {
	srv, client := startFake(t, func(c *paymentsvctest.Config) {
		c.Numbers = map[paymentsvc.StatusName]paymentsvctest.Numbers{"RETURNED": {Status: 4, StatusCode: 40}}
	})
	balance := func(payout, expected string) {
		t.Helper()
		b, err := srv.Balance(project)
		require.NoError(t, err)
		assert.Equal(t, payout, b.PayoutBalance.String())
		assert.Equal(t, expected, b.ExpectedBalance.String())
	}
	paymentID, payoutID := pay(t, client, "order-1"), payOut(t, client, "payout-1")
	balance("989.50", "1000.00")
	_, err := srv.Refund(paymentID, amount("1"), paymentsvc.StatusSuccess)
	require.Error(t, err, "a payment that is not in SUCCESS")
	settled(t, srv, paymentID, paymentsvc.StatusSuccess)
	balance("1000.00", "1000.00")
	_, err = srv.Settle(paymentID, paymentsvc.StatusFailure)
	require.ErrorContains(t, err, "no status after")
	require.ErrorContains(t, srv.Move(paymentID, paymentsvc.StatusFailure), "no status after")
	settled(t, srv, payoutID, paymentsvc.StatusFailure)
	balance("1010.50", "1010.50")
	_, err = srv.Settle(payoutID, "RETURNED")
	require.NoError(t, err, "the document does not specify the statuses of payouts")
	balance("1000.00", "1000.00")
	settled(t, srv, payoutID, paymentsvc.StatusSuccess)
	_, err = srv.Settle(payoutID, "HELD")
	require.ErrorContains(t, err, "Config.Numbers")
	_, err = srv.Settle("x", paymentsvc.StatusSuccess)
	require.ErrorContains(t, err, "no such order")

	for _, refund := range []struct {
		id, amount string
		status     paymentsvc.StatusName
		want       string
	}{
		{"x", "1", paymentsvc.StatusSuccess, "no such order"},
		{payoutID, "1", paymentsvc.StatusSuccess, "a payout has no refund"},
		{paymentID, "0", paymentsvc.StatusSuccess, "the amount is not more than 0"},
		{paymentID, "-1", paymentsvc.StatusSuccess, "the amount is not more than 0"},
		{paymentID, "10.51", paymentsvc.StatusSuccess, "10.51 is more than the unrefunded 10.50"},
		{paymentID, "1", "HELD", "Config.Numbers"},
	} {
		_, err = srv.Refund(refund.id, amount(refund.amount), refund.status)
		require.ErrorContains(t, err, refund.want)
	}
	_, err = srv.Refund(paymentID, amount("10.5"), paymentsvc.StatusPending)
	require.NoError(t, err)
	balance("1000.00", "1000.00")
	_, err = srv.Refund(paymentID, amount("10.499"), paymentsvc.StatusSuccess)
	require.NoError(t, err)
	balance("989.501", "989.501")
	_, err = srv.Refund(paymentID, amount("0.002"), paymentsvc.StatusSuccess)
	require.ErrorContains(t, err, "0.002 is more than the unrefunded 0.001")
	_, err = srv.Refund(paymentID, amount("0.001"), paymentsvc.StatusSuccess)
	require.NoError(t, err)
	balance("989.500", "989.500")
	o, _ := srv.Order(paymentID)
	assert.Equal(t, "10.500", o.Refunded.String())
	_, found := srv.Order("x")
	assert.False(t, found)

	late, err := srv.Compose(paymentID, paymentsvc.StatusPending)
	require.NoError(t, err)
	assert.Equal(t, paymentsvc.StatusPending, late.StatusDescription)
	assert.Equal(t, int64(1), late.Status)
	_, err = srv.Compose("x", paymentsvc.StatusPending)
	require.Error(t, err)
	o, _ = srv.Order(paymentID)
	assert.Equal(t, paymentsvc.StatusSuccess, o.Status, "Compose changes nothing")
}

func TestBalanceIsExactAfterManyDecimals(t *testing.T) {
	srv, client := startFake(t)
	balances := func(payout, expected string) {
		t.Helper()
		b, err := srv.Balance(project)
		require.NoError(t, err)
		assert.True(t, b.PayoutBalance.Equal(amount(payout)) && b.ExpectedBalance.Equal(amount(expected)), b)
	}
	start := func(text string) (orderID string) {
		t.Helper()
		request := paymentsvc.PaymentRequest{Amount: amount(text), UserData: paymentsvc.NewUserData()}
		p, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, request)
		require.NoError(t, err)
		return p.OrderID
	}
	fine := start("0." + strings.Repeat("0", 59) + "1")
	balances("1000", "1000."+strings.Repeat("0", 59)+"1")
	settled(t, srv, fine, paymentsvc.StatusFailure)
	balances("1000", "1000")
	start("1" + strings.Repeat("0", 30) + ".5")
	balances("1000", "1"+strings.Repeat("0", 26)+"1000.5") // fits without the zeros at its end
}

func TestBalanceRejectsMoreDigitsThanAnAmountHolds(t *testing.T) {
	srv, client := startFake(t)
	most := amount(strings.Repeat("9", 62)) // with the two decimals of the balance, 64 digits
	_, err := client.InitPayout(t.Context(), paymentsvc.PayoutRequest{Amount: most, Destination: card, UserData: "1"})
	require.NoError(t, err)
	_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard,
		paymentsvc.PaymentRequest{Amount: amount("0.001"), UserData: "2"})
	require.Equal(t, paymentsvc.OutcomeRejected, paymentsvc.OutcomeOf(err))
	assert.Equal(t, paymentsvctest.ProblemRefused, srv.Rejected()[0].Problem)
	got, err := client.GetBalance(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "-"+strings.Repeat("9", 58)+"8999.00", got.PayoutBalance.String())
}

func TestAlteredNeedsASignedBody(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Scheme = paymentsvc.Scheme{Canonical: canonical.Timestamp, Encoding: paymentsvc.Hex}
	}))
	srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("sent")
	}), "/"))
	n := paymentsvctest.Notification{ProjectID: project, Amount: amount("1")}
	deliveries := srv.Send(t.Context(), n, paymentsvctest.Altered())
	require.Len(t, deliveries, 1)
	require.ErrorContains(t, deliveries[0].Err, "the scheme does not sign the last digit of the body")
}

func TestDeliveryShowsNoPartOfAnInvalidResponse(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", body) // repeats the notification in an invalid response
			_ = conn.Close()
		}
	}))
	defer receiver.Close()
	srv := paymentsvctest.Start(t, config())
	srv.SetReceiver(paymentsvctest.ToURL(receiver.URL))
	d := srv.Send(t.Context(), paymentsvctest.Notification{ProjectID: project, OrderID: card, Amount: amount("1")})[0]
	require.ErrorContains(t, d.Err, `malformed HTTP status code "…"`)
	assert.NotContains(t, d.Err.Error(), card)
}
