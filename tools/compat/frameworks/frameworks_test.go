// Package frameworks_test tests the code of docs/frameworks.md and docs/telemetry.md. Each package in its
// subdirectories contains a block of these pages, and compiles alone.
package frameworks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	infiber "github.com/paymentsvc/paymentsvc/tools/compat/frameworks/fiber"
	"github.com/paymentsvc/paymentsvc/tools/compat/frameworks/gateway"
	"github.com/paymentsvc/paymentsvc/tools/compat/frameworks/handlers"
)

const secret paymentsvc.Secret = "the-secret-of-the-framework-tests"

// scheme signs the complete address, because frameworks and proxies change it. The scheme is an example, because the
// document does not specify one.
var scheme = paymentsvc.Scheme{
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Host, canonical.RequestURI, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

// served returns a function that starts a server and returns the address for notifications.
func served(routes func(*paymentsvc.Webhook, handlers.Apply) http.Handler) serving {
	return func(t *testing.T, webhook *paymentsvc.Webhook, apply handlers.Apply) string {
		srv := httptest.NewServer(routes(webhook, apply))
		t.Cleanup(srv.Close)
		return srv.URL + "/api/notifications?shop=caf%C3%A9"
	}
}

type serving func(t *testing.T, webhook *paymentsvc.Webhook, apply handlers.Apply) (address string)

func serveFiber(t *testing.T, app *fiber.App) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		assert.NoError(t, app.Shutdown())
		assert.NoError(t, <-ended)
	})
	return "http://" + listener.Addr().String() + "/api/notifications?shop=caf%C3%A9"
}

// behindProxy serves net/http behind a proxy that removes /shop and sets another Host.
func behindProxy(t *testing.T, webhook *paymentsvc.Webhook, apply handlers.Apply) string {
	front := httptest.NewUnstartedServer(nil)
	host := front.Listener.Addr().String()
	back := httptest.NewServer(handlers.AsCalled("/shop", host, handlers.NetHTTP(webhook, apply)))
	t.Cleanup(back.Close)
	target, err := url.Parse(back.URL)
	require.NoError(t, err)
	front.Config.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target) // with the target's Host
		r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/shop")
	}}
	front.Start()
	t.Cleanup(front.Close)
	return front.URL + "/shop/api/notifications"
}

// function returns a function that serves method behind a gateway. The event has the names of the gateway's JSON.
func function[E, R any](
	encoded bool, query string, method func(gateway.Function, context.Context, E) (R, error),
) serving {
	return func(t *testing.T, webhook *paymentsvc.Webhook, apply handlers.Apply) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			text, joined := string(body), map[string]string{}
			if encoded {
				text = base64.StdEncoding.EncodeToString(body)
			}
			for name, values := range r.Header {
				joined[strings.ToLower(name)] = strings.Join(values, ",")
			}
			event, err := json.Marshal(map[string]any{
				"httpMethod": r.Method, "path": strings.TrimPrefix(r.URL.Path, "/stage"),
				"rawPath": r.URL.EscapedPath(), "rawQueryString": r.URL.RawQuery,
				"headers": joined, "multiValueHeaders": r.Header, "body": text, "isBase64Encoded": encoded,
				"requestContext": map[string]any{
					"path": r.URL.Path, "domainName": r.Host, "http": map[string]string{"method": r.Method},
				},
			})
			assert.NoError(t, err)
			var e E
			assert.NoError(t, json.Unmarshal(event, &e))
			result, err := method(gateway.Function{Webhook: webhook, Apply: apply}, r.Context(), e)
			assert.NoError(t, err)
			response, err := json.Marshal(result)
			assert.NoError(t, err)
			var returned struct{ StatusCode int }
			assert.NoError(t, json.Unmarshal(response, &returned))
			w.WriteHeader(returned.StatusCode)
		}))
		t.Cleanup(srv.Close)
		return srv.URL + "/stage/api/notifications" + query
	}
}

func newWebhook(t *testing.T) *paymentsvc.Webhook {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	require.NoError(t, err)
	return webhook
}

// newService returns a fake with one order, and the notification of its success.
func newService(t *testing.T) (*paymentsvctest.Server, paymentsvctest.Notification) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: secret}}, Scheme: scheme,
	})
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	require.NoError(t, err)
	payment, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
	})
	require.NoError(t, err)
	success, err := srv.Compose(payment.OrderID, paymentsvc.StatusSuccess)
	require.NoError(t, err)
	return srv, success
}

func TestFrameworksAcceptSignedNotifications(t *testing.T) {
	for name, serve := range map[string]serving{
		"net/http": served(handlers.NetHTTP), "chi": served(handlers.Chi),
		"gin": served(handlers.Gin), "echo": served(handlers.Echo),
		"fiber": func(t *testing.T, webhook *paymentsvc.Webhook, apply handlers.Apply) string {
			return serveFiber(t, infiber.Routes(webhook, apply))
		},
		"REST": function(false, "", gateway.Function.REST), "REST base64": function(true, "", gateway.Function.REST),
		"HTTP":        function(false, "?n=%20", gateway.Function.HTTP),
		"HTTP base64": function(true, "", gateway.Function.HTTP),
		"proxy":       behindProxy,
	} {
		t.Run(name, func(t *testing.T) {
			srv, success := newService(t)
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			defer slog.SetDefault(before)
			var fails error
			var applied []*paymentsvc.Notification
			address := serve(t, newWebhook(t), func(_ context.Context, n *paymentsvc.Notification) error {
				if !n.Event.Known() {
					panic(syscall.EPIPE) // gin's Recovery then writes no status
				}
				applied = append(applied, n)
				return fails
			})
			srv.SetReceiver(paymentsvctest.ToURL(address))
			statuses := func(n paymentsvctest.Notification, faults ...paymentsvctest.NotificationFault) (list []int) {
				for _, d := range srv.Send(t.Context(), n, faults...) {
					require.NoError(t, d.Err)
					list = append(list, d.HTTPStatus)
				}
				return list
			}
			assert.Equal(t, []int{http.StatusUnauthorized, http.StatusOK}, statuses(success, paymentsvctest.Forged()))
			assert.Equal(t, []int{http.StatusUnauthorized}, statuses(success, paymentsvctest.Late(time.Hour)))
			none := success
			none.Amount = paymentsvc.Amount{}
			assert.Equal(t, []int{http.StatusBadRequest}, statuses(none))
			assert.Equal(t, http.StatusUnauthorized, sent(t, http.MethodPost, address, "Signature", "00"))
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
				assert.Equal(t, 4, sent(t, method, address, "X-Http-Method-Override", "POST")/100, method)
			}
			assert.NotContains(t, log.String(), "4111", "anybody can send any event")
			upgrade := sent(t, http.MethodPost, address, "Connection", "Upgrade") / 100
			assert.Contains(t, []int{0, 5}, upgrade, "chi writes no status for an upgrade")
			fails = errors.New("the database is unavailable")
			assert.Equal(t, []int{http.StatusInternalServerError}, statuses(success))
			require.Len(t, applied, 2)
			assert.Equal(t, success.OrderID, applied[0].OrderID)
			assert.Equal(t, applied[0].Key(), applied[1].Key())
		})
	}
}

// sent sends a correct notification with an additional header, and returns the HTTP status, or 0 without a response.
func sent(t *testing.T, method, address, name, value string) int {
	const body = `{"event":"4111111111111111","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50}`
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	require.NoError(t, err)
	r.Close = name != "Connection"
	at := strconv.FormatInt(time.Now().Unix(), 10)
	signature, err := scheme.Signature(secret, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: http.MethodPost, URL: r.URL, Timestamp: at, Body: []byte(body),
	})
	require.NoError(t, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Timestamp": {at}, "Signature": {signature}}
	r.Header.Add(name, value)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// endless is an endless body that counts the bytes read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 8<<20 {
		return 0, io.EOF
	}
	n := copy(p, strings.Repeat("1", len(p)))
	e.read += n
	return n, nil
}

func TestFrameworksReadNoEndlessBody(t *testing.T) {
	apply := func(context.Context, *paymentsvc.Notification) error { return errors.New("not called") }
	for name, h := range map[string]http.Handler{
		"net/http": handlers.NetHTTP(newWebhook(t), apply), "chi": handlers.Chi(newWebhook(t), apply),
		"gin": handlers.Gin(newWebhook(t), apply), "echo": handlers.Echo(newWebhook(t), apply),
	} {
		t.Run(name, func(t *testing.T) {
			body, response := new(endless), httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/api/notifications", body)
			r.Header = http.Header{"Content-Type": {"application/json"}, "Timestamp": {"1"}, "Signature": {"00"}}
			h.ServeHTTP(response, r)
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, response.Code)
			assert.Positive(t, body.read)
			assert.LessOrEqual(t, body.read, 128<<10)
		})
	}
	assert.Equal(t, 64<<10, infiber.Routes(newWebhook(t), apply).Config().BodyLimit)
}

// TestFiberRequestsOutliveTheirHandler checks that Received copies the request, because Fiber reuses its memory.
func TestFiberRequestsOutliveTheirHandler(t *testing.T) {
	srv, success := newService(t)
	var queue []*http.Request
	app := fiber.New()
	app.Post("/api/notifications", func(c fiber.Ctx) error {
		queue = append(queue, infiber.Received(c))
		return c.SendStatus(http.StatusOK)
	})
	address := serveFiber(t, app)
	for i := range 20 {
		srv.SetReceiver(paymentsvctest.ToURL(address + "&n=" + strconv.Itoa(i)))
		success.UserData = strings.Repeat("x", i)
		require.True(t, srv.Send(t.Context(), success)[0].Accepted())
	}
	webhook := newWebhook(t)
	for i, r := range queue {
		n, err := webhook.ParseRequest(r)
		require.NoError(t, err, "notification %d", i)
		assert.Len(t, n.UserData, i)
		assert.True(t, bytes.Contains(n.Raw, []byte(success.OrderID)))
	}
	require.Len(t, queue, 20)
}
