package contract

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const (
	partnerID = 1001
	projectID = 2002
	secret    = "the-secret-of-the-contract-tests"
	timestamp = "1800000000"
	card      = "4111111111111111"
)

func now() time.Time { return time.Unix(1800000000, 0) }

// basePath is the path of {base_url}. It needs escapes.
const basePath = "/a%20b/%C3%A9"

func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body),
		Encoding:  base64.StdEncoding,
	}
}

// signature returns a signature of scheme, made without the SDK (section 5).
func signature(timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// post returns a signed message to an address.
func post(url, body string) *message {
	return &message{
		method: http.MethodPost, url: url, body: []byte(body),
		header: http.Header{
			"Content-Type": {"application/json"},
			"Timestamp":    {timestamp},
			"Signature":    {signature(timestamp, []byte(body))},
		},
	}
}

// service is the fake behind a server that records the messages.
type service struct {
	http *http.Client
	base string

	mu       sync.Mutex // guards the fields below in the server's goroutines
	fake     *paymentsvctest.Server
	messages []*message
}

// serve starts the fake.
func serve(t testing.TB) *service {
	t.Helper()
	s := new(service)
	s.renew(t)
	t.Cleanup(func() { s.fake.Close() })
	front := httptest.NewServer(s.record())
	t.Cleanup(front.Close)
	s.http = front.Client()
	s.base = front.URL + basePath
	return s
}

// renew replaces the fake with a new fake, which has no orders.
func (s *service) renew(t require.TestingT) {
	cfg := paymentsvctest.Config{
		PartnerID: partnerID,
		Projects:  []paymentsvctest.Project{{ID: projectID, Secret: secret, OldSecret: "the-secret-before"}},
		Scheme:    scheme(),
		Now:       now,
		Tolerance: time.Minute,
	}
	if s.fake != nil {
		s.fake.Close()
	}
	fake, err := paymentsvctest.New(cfg)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fake, s.messages = fake, nil
}

// record records the requests and responses of the fake.
func (s *service) record() http.Handler {
	prefix, err := url.PathUnescape(basePath)
	if err != nil {
		panic(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := arrived(r)
		r.Body = io.NopCloser(bytes.NewReader(m.body))
		recorded := httptest.NewRecorder()
		s.mu.Lock()
		fake := s.fake
		s.mu.Unlock()
		http.StripPrefix(prefix, fake).ServeHTTP(recorded, r)
		m.status, m.responseHeader, m.responseBody = recorded.Code, recorded.Header().Clone(), recorded.Body.Bytes()
		s.mu.Lock()
		s.messages = append(s.messages, m)
		s.mu.Unlock()
		maps.Copy(w.Header(), m.responseHeader)
		w.WriteHeader(m.status)
		_, _ = w.Write(m.responseBody) // the client may have disconnected
	})
}

// arrived reads a request in a server.
func arrived(r *http.Request) *message {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return &message{method: r.Method, url: "http://" + r.Host + r.RequestURI, header: r.Header.Clone(), body: body}
}

// taken returns the messages since its last call.
func (s *service) taken() []*message {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// only returns the single message since the last call of taken.
func (s *service) only(t require.TestingT) *message {
	taken := s.taken()
	require.Len(t, taken, 1, "messages on the wire")
	return taken[0]
}

// config returns the configuration of a client of the service.
func (s *service) config() paymentsvc.Config {
	cfg := s.fake.ClientConfig(projectID)
	cfg.BaseURL, cfg.HTTPClient = s.base, s.http
	cfg.Retry = paymentsvc.Retry{MaxAttempts: 1}
	return cfg
}

func newClient(t require.TestingT, cfg paymentsvc.Config) *paymentsvc.Client {
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	return client
}

// send sends a message unchanged, and returns the recorded exchange.
func (s *service) send(t require.TestingT, m *message) *message {
	resp, err := s.http.Do(m.request())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return s.only(t)
}

// startedOrderID is the order_id of the first order of a fake.
const startedOrderID = "00000000-0000-4000-8000-000000000001"

func paymentRequest(full bool) paymentsvc.PaymentRequest {
	r := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-2"}
	if full {
		object := map[string]any{"member": 1}
		r.CardData, r.Browser, r.Payer, r.Payee = object, object, object, object
	}
	return r
}

// call calls an operation with the required fields, or with all compatible fields if full is set.
type call func(ctx context.Context, c *paymentsvc.Client, paymentType string, full bool) (any, error)

// calls maps each operationId, which is the name of a method of Client, to its call.
var calls = map[string]call{
	"InitPayment": func(ctx context.Context, c *paymentsvc.Client, paymentType string, full bool) (any, error) {
		return c.InitPayment(ctx, paymentsvc.PaymentType(paymentType), paymentRequest(full))
	},
	"StatusPayment": func(ctx context.Context, c *paymentsvc.Client, _ string, full bool) (any, error) {
		if full {
			return c.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: "order-1"})
		}
		return c.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{OrderID: startedOrderID})
	},
	"InitPayout": func(ctx context.Context, c *paymentsvc.Client, _ string, _ bool) (any, error) {
		return c.InitPayout(ctx, paymentsvc.PayoutRequest{
			Amount: paymentsvc.MustParseAmount("10.50"), Destination: card, UserData: "order-1",
		})
	},
	"StatusPayout": func(ctx context.Context, c *paymentsvc.Client, _ string, _ bool) (any, error) {
		return c.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: startedOrderID})
	},
	"InitForm": func(ctx context.Context, c *paymentsvc.Client, _ string, full bool) (any, error) {
		return c.InitForm(ctx, paymentRequest(full))
	},
	"InitInvoice": func(ctx context.Context, c *paymentsvc.Client, _ string, full bool) (any, error) {
		return c.InitInvoice(ctx, paymentRequest(full))
	},
	"GetBalance": func(ctx context.Context, c *paymentsvc.Client, _ string, _ bool) (any, error) {
		return c.GetBalance(ctx)
	},
}

// endpointMethods returns the names of the methods of Client that call the service.
func endpointMethods() (names []string) {
	for m := range reflect.TypeFor[*paymentsvc.Client]().Methods() {
		takesContext := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if takesContext && m.Type.NumOut() == 2 && m.Type.Out(1) == reflect.TypeFor[error]() {
			names = append(names, m.Name)
		}
	}
	return names
}

// fieldNamed returns the field of a struct for a name of the document, such as OrderID for order_id.
func fieldNamed(result reflect.Value, name string) reflect.Value {
	return result.FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, strings.ReplaceAll(name, "_", ""))
	})
}

// malformed returns the names of the unreadable fields.
func malformed(result reflect.Value) []string {
	if names := result.FieldByName("Malformed"); names.IsValid() {
		return names.Interface().([]string)
	}
	return nil
}

// members maps the names of a JSON object to JSON.
type members map[string]json.RawMessage

func (m members) String() string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // the values are JSON
	}
	return string(data)
}

func (m members) without(names ...string) members {
	changed := maps.Clone(m)
	for _, name := range names {
		delete(changed, name)
	}
	return changed
}

func (m members) with(name, value string) members {
	changed := maps.Clone(m)
	changed[name] = json.RawMessage(value)
	return changed
}

// full returns a member for every property of a schema, with a valid value.
func (s *schema) full(t require.TestingT) members {
	all := members{}
	for name, p := range s.Properties {
		value, known := map[string]string{
			"string":      `"text"`,
			"string/uuid": `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`,
			"string/uri":  `"https://pay.example/form/1?a=b#c"`,
			"integer":     "17",
			"number":      "10.50",
			"object":      `{"member":1}`,
		}[strings.TrimSuffix(p.Type.(string)+"/"+p.Format, "/")]
		require.True(t, known, "%s has an unknown type: %s %s", name, p.Type, p.Format)
		switch {
		case name == "partner_id":
			value = strconv.Itoa(partnerID)
		case name == "project_id":
			value = strconv.Itoa(projectID)
		case len(p.Enum) > 0:
			value = strconv.Quote(p.Enum[0])
		}
		all[name] = json.RawMessage(value)
	}
	return all
}

// wrong returns values that a property must not have.
func (s *schema) wrong() []string {
	wrong := map[string][]string{
		"string":  {"17", "true", "null", `["text"]`, `{"text":1}`},
		"integer": {`"17"`, "1.5", "true", "null", "[17]", "{}"},
		"number":  {`"10.50"`, "false", "null", "[10.50]", "{}"},
		"object":  {`"{}"`, "17", "true", "null", "[]"},
	}[s.Type.(string)]
	switch s.Format {
	case "uuid":
		wrong = append(wrong, `"text"`, `""`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c"`)
	case "uri":
		wrong = append(wrong, `"no uri"`, `""`, `"/a/path"`)
	}
	if len(s.Enum) > 0 {
		wrong = append(wrong, `""`, strconv.Quote(strings.ToUpper(s.Enum[0])), strconv.Quote(s.Enum[0]+"_"))
	}
	return wrong
}
