package paymentsvc_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// newCountingServer counts the connections that it accepts.
func newCountingServer(t testing.TB, h http.HandlerFunc) (base string, accepted *atomic.Int64) {
	t.Helper()
	accepted = new(atomic.Int64)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + testBase, accepted
}

// inAllProjects gives a client of the default transport and two for other projects, which share its connections.
func inAllProjects(t testing.TB, base string) []*paymentsvc.Client {
	t.Helper()
	clients := []*paymentsvc.Client{newClient(t, base)}
	for project := testProject + 1; project <= testProject+2; project++ {
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: testScheme(), Secret: secretOf(project)})
		require.NoError(t, err)
		client, err := clients[0].ForProject(project, signer)
		require.NoError(t, err)
		clients = append(clients, client)
	}
	return clients
}

func secretOf(project int64) paymentsvc.Secret {
	if project == testProject {
		return testSecret
	}
	return testSecret + paymentsvc.Secret(strconv.FormatInt(project, 10))
}

// Each round begins with a call of every caller at once, which takes a connection for each. That is all there ever
// need be: what follows finds one idle, also after a moment in which all of them were.
func TestSixtyFourCallersShareConnections(t *testing.T) {
	const rounds, callers, calls = 3, 64, 20
	var together [rounds]chan struct{}
	for i := range together {
		together[i] = make(chan struct{})
	}
	var requests atomic.Int64
	base, accepted := newCountingServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		before := requests.Add(1) - 1
		round, inRound := before/(callers*calls), before%(callers*calls)
		if inRound == callers-1 {
			close(together[round])
		}
		if inRound < callers {
			select {
			case <-together[round]:
			case <-r.Context().Done():
			}
		}
		time.Sleep(rand.N(2 * time.Millisecond)) // so that callers overtake one another
		answering(http.StatusOK, paymentAnswer)(w, r)
	})
	clients := inAllProjects(t, base)

	for range rounds {
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for call := range calls {
					client := clients[(caller+call)%len(clients)]
					_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentRequest())
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
	}
	assert.EqualValues(t, rounds*callers*calls, requests.Load())
	assert.EqualValues(t, callers, accepted.Load(), "connections for %d calls", requests.Load())
}

// Run with -race. Every caller knows its own answers by their ids, so that nothing of another's can be in them.
func TestFiftyGoroutinesShareClientsAndAWebhook(t *testing.T) {
	base, _ := newCountingServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var sent struct {
			ProjectID int64  `json:"project_id"`
			UserData  string `json:"user_data"`
		}
		assert.NoError(t, json.Unmarshal(body, &sent))
		signature, err := testScheme().Signature(secretOf(sent.ProjectID), &paymentsvc.Message{
			Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: body,
		})
		assert.NoError(t, err)
		assert.Equal(t, signature, r.Header.Get("Signature"))
		fmt.Fprintf(w, `{"order_id":"order of %s","status":%d,"status_code":2}`, sent.UserData, sent.ProjectID)
	})
	clients := inAllProjects(t, base)
	webhook := newWebhook(t, notificationScheme())

	var wg sync.WaitGroup
	for caller := range 50 {
		project := caller % len(clients)
		wg.Go(func() {
			for call := range 20 {
				userData := fmt.Sprintf("user %d, call %d", caller, call)
				started, err := clients[project].InitPayment(t.Context(), paymentsvc.PaymentTypeSBP,
					paymentsvc.PaymentRequest{Amount: paymentsvc.AmountFromMinor(int64(call+1), 2), UserData: userData})
				if assert.NoError(t, err) {
					assert.Equal(t, "order of "+userData, started.OrderID)
					assert.Equal(t, testProject+int64(project), started.Status)
				}

				body := fmt.Appendf(nil, `{"event":"payment.status_changed","order_id":%q,"status":1,`+
					`"status_description":"SUCCESS","status_code":2,"amount":%d}`, userData, call)
				header := signedHeader(t, notificationScheme(), body)
				n, err := webhook.Parse(header, body)
				if assert.NoError(t, err) {
					assert.Equal(t, userData, n.OrderID)
					assert.Equal(t, strconv.Itoa(call), n.Amount.String())
				}
				body[len(body)-2] ^= 1 // another amount
				assert.ErrorIs(t, webhook.Verify(header, body), paymentsvc.ErrSignatureMismatch)
			}
		})
	}
	wg.Wait()
}
