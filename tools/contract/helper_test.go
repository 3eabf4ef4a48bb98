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
	fake     *paymentsvctest.Server
	http     *http.Client
	base     string
	messages chan *message
}

// serve starts a fake without orders.
func serve(t *testing.T) *service {
	t.Helper()
	fake, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: partnerID,
		Projects:  []paymentsvctest.Project{{ID: projectID, Secret: secret, OldSecret: "the-secret-before"}},
		Scheme:    scheme(),
		Now:       now,
		Tolerance: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { fake.Close() })
	s := &service{fake: fake, messages: make(chan *message, 9)}
	prefix, err := url.PathUnescape(basePath)
	require.NoError(t, err)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		recorded := httptest.NewRecorder()
		header := r.Header.Clone()
		http.StripPrefix(prefix, fake).ServeHTTP(recorded, r)
		s.messages <- &message{
			r.Method, "http://" + r.Host + r.RequestURI, header, body,
			recorded.Code, recorded.Header().Clone(), recorded.Body.Bytes(),
		}
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes()) // the client may have disconnected
	}))
	t.Cleanup(front.Close)
	s.http, s.base = front.Client(), front.URL+basePath
	return s
}

// only returns the message that was sent since the last call of only, and requires that it is a single message.
func (s *service) only(t require.TestingT) *message {
	require.Len(t, s.messages, 1, "messages on the wire")
	return <-s.messages
}

// client returns a client that does not retry.
func (s *service) client(t require.TestingT) *paymentsvc.Client {
	cfg := s.fake.ClientConfig(projectID)
	cfg.BaseURL, cfg.HTTPClient = s.base, s.http
	cfg.Retry = paymentsvc.Retry{MaxAttempts: 1}
	return newClient(t, cfg)
}

func newClient(t require.TestingT, cfg paymentsvc.Config) *paymentsvc.Client {
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	return client
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
