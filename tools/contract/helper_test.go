package contract

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
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

// place is a base address and what goes with it in the tests.
type place struct {
	path     string // that of {base_url}, as it is in an address
	encoding paymentsvc.Encoding
	encode   func([]byte) string
}

// places are where the service is tried. Their encodings differ, because the document specifies none.
var places = []place{
	{"", paymentsvc.Hex, hex.EncodeToString},
	{"/a%20b/%C3%A9", base64.StdEncoding, base64.StdEncoding.EncodeToString},
}

func (p *place) scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body),
		Encoding:  p.encoding,
	}
}

// signature is that of scheme, made without the SDK (section 5).
func (p *place) signature(timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return p.encode(mac.Sum(nil))
}

// post is a signed message as any partner could send it, on its way to an address.
func (p *place) post(url, body string) *message {
	return &message{
		method: http.MethodPost, url: url, body: []byte(body),
		header: http.Header{
			"Content-Type": {"application/json"}, "Timestamp": {timestamp}, "Signature": {p.signature(timestamp, []byte(body))},
		},
	}
}

// service is the fake behind a server that keeps what was on the wire.
type service struct {
	place
	*contract
	http *http.Client
	base string

	mu       sync.Mutex // guards what follows where the server's goroutines use it
	fake     *paymentsvctest.Server
	messages []*message
}

// serve starts the fake at a place.
func serve(t testing.TB, p place) *service {
	t.Helper()
	s := &service{place: p}
	s.renew(t)
	t.Cleanup(func() { s.fake.Close() })
	front := httptest.NewServer(s.record())
	t.Cleanup(front.Close)
	s.http = front.Client()
	s.base = front.URL + p.path
	s.contract = newContract(t, s.base)
	return s
}

// renew makes the fake anew, without orders and rules, so that no check of rapid depends on those before it.
func (s *service) renew(t require.TestingT) {
	cfg := paymentsvctest.Config{
		PartnerID: partnerID,
		Projects:  []paymentsvctest.Project{{ID: projectID, Secret: secret, OldSecret: "the-secret-before"}},
		Scheme:    s.scheme(),
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

// record keeps what the fake is sent and what it answers.
func (s *service) record() http.Handler {
	prefix, err := url.PathUnescape(s.path)
	if err != nil {
		panic(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := arrived(r)
		r.Body = io.NopCloser(bytes.NewReader(m.body))
		answer := httptest.NewRecorder()
		s.mu.Lock()
		fake := s.fake
		s.mu.Unlock()
		http.StripPrefix(prefix, fake).ServeHTTP(answer, r)
		m.status, m.answerHeader, m.answer = answer.Code, answer.Header().Clone(), answer.Body.Bytes()
		s.mu.Lock()
		s.messages = append(s.messages, m)
		s.mu.Unlock()
		maps.Copy(w.Header(), m.answerHeader)
		w.WriteHeader(m.status)
		_, _ = w.Write(m.answer) // a client that left is not told
	})
}

// arrived is a request as a server has read it.
func arrived(r *http.Request) *message {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return &message{method: r.Method, url: "http://" + r.Host + r.RequestURI, header: r.Header.Clone(), body: body}
}

// taken returns what was on the wire since it was last asked.
func (s *service) taken() []*message {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// only returns the one message that was on the wire since taken was last asked.
func (s *service) only(t require.TestingT) *message {
	taken := s.taken()
	require.Len(t, taken, 1, "messages on the wire")
	return taken[0]
}

// config is that of a client of the service.
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

// send sends a message as it is, and returns what was on the wire.
func (s *service) send(t require.TestingT, m *message) *message {
	resp, err := s.http.Do(m.request())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return s.only(t)
}

// An operation of the document is the method of Client that has its operationId for a name, so calls are made through
// reflection: a method or an operation without the other is a failure, and a new one is tested from its first day.

// endpointMethods are the methods of Client that call the service.
func endpointMethods() (names []string) {
	for m := range reflect.TypeFor[*paymentsvc.Client]().Methods() {
		takesContext := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if takesContext && m.Type.NumOut() == 2 && m.Type.Out(1) == reflect.TypeFor[error]() {
			names = append(names, m.Name)
		}
	}
	return names
}

// newRequest returns a request of an operation that can be set, or the zero Value where the method takes none.
func newRequest(t require.TestingT, id string) reflect.Value {
	m, ok := reflect.TypeFor[*paymentsvc.Client]().MethodByName(id)
	require.True(t, ok, "Client has no method %s", id)
	if last := m.Type.In(m.Type.NumIn() - 1); last.Kind() == reflect.Struct {
		return reflect.New(last).Elem()
	}
	return reflect.Value{}
}

// invoke calls an endpoint.
func invoke(t require.TestingT, client *paymentsvc.Client, id, paymentType string, request reflect.Value) (any, error) {
	method := reflect.ValueOf(client).MethodByName(id)
	require.True(t, method.IsValid(), "Client has no method %s", id)
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	if method.Type().NumIn() == 3 {
		args = append(args, reflect.ValueOf(paymentsvc.PaymentType(paymentType)))
	}
	if request.IsValid() {
		args = append(args, request)
	}
	out := method.Call(args)
	err, _ := out[1].Interface().(error)
	return out[0].Interface(), err
}

// jsonNames are the names that the fields of a request have on the wire.
func jsonNames(request reflect.Value) (names []string) {
	for f := range request.Type().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// fill sets the fields of a request except one. For each it returns the expected JSON, or nothing if the field is
// unset. Text is compared by its value.
func fill(t *testing.T, request reflect.Value, v variant, except string) map[string]any {
	want := map[string]any{}
	if !request.IsValid() {
		return want
	}
	for i, name := range jsonNames(request) {
		if name == except {
			continue
		}
		switch into := request.Field(i).Addr().Interface().(type) {
		case *paymentsvc.Amount:
			*into = paymentsvc.MustParseAmount(v.amount)
			want[name] = json.RawMessage(into.String())
		case *string:
			*into = v.text
			want[name] = *into
		case *any:
			*into = v.open
			if !isNothing(*into) {
				data, err := json.Marshal(*into)
				require.NoError(t, err)
				want[name] = json.RawMessage(data)
			}
		default:
			t.Fatalf("%s has a type that no test fills", name)
		}
	}
	return want
}

// minimal returns a request of what the document requires, with the first of its choices.
func minimal(t require.TestingT, o *operation) reflect.Value {
	request := newRequest(t, o.id)
	if request.IsValid() {
		for i, name := range jsonNames(request) {
			if o.request.requires(name) || len(o.request.choices) > 0 && name == o.request.choices[0] {
				setAny(request.Field(i))
			}
		}
	}
	return request
}

// setAny sets a field of a request.
func setAny(field reflect.Value) {
	switch into := field.Addr().Interface().(type) {
	case *paymentsvc.Amount:
		*into = paymentsvc.MustParseAmount("10.50")
	case *string:
		*into = "text"
	case *any:
		*into = map[string]any{"member": 1}
	}
}

// requireBody compares a body on the wire with what was asked for, name by name.
func requireBody(t require.TestingT, want map[string]any, body []byte) {
	got := membersOf(t, body)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), "names in the body")
	for name, value := range want {
		if text, ok := value.(string); ok {
			require.Equal(t, text, decoded(t, got[name]), name)
			continue
		}
		require.Equal(t, decoded(t, value.(json.RawMessage)), decoded(t, got[name]), name)
	}
}

func membersOf(t require.TestingT, object []byte) (members map[string]json.RawMessage) {
	require.NoError(t, json.Unmarshal(object, &members), "%s", object)
	return members
}

// decoded reads any JSON and keeps every digit.
func decoded(t require.TestingT, data []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&v))
	return v
}

// fieldNamed finds the field of a struct that stands for a name of the document: order_id is OrderID.
func fieldNamed(result reflect.Value, name string) reflect.Value {
	return result.FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, strings.ReplaceAll(name, "_", ""))
	})
}

// requireRead compares what was read into a struct with the JSON that it was read from, field by field.
func requireRead(t require.TestingT, s *schema, body []byte, result any) {
	requireFields(t, s, body, result)
	v := reflect.Indirect(reflect.ValueOf(result))
	require.Equal(t, string(body), string(v.FieldByName("Raw").Bytes()), "Raw")
	require.Empty(t, malformed(v), "Malformed")
}

// malformed returns the names of the fields that were there and could not be read. A Notification has none such.
func malformed(result reflect.Value) []string {
	if names := result.FieldByName("Malformed"); names.IsValid() {
		return names.Interface().([]string)
	}
	return nil
}

// requireFields compares the fields that the document names, of which the struct must have all and no other.
func requireFields(t require.TestingT, s *schema, body []byte, result any) {
	given := membersOf(t, body)
	v := reflect.Indirect(reflect.ValueOf(result))
	fields := slices.DeleteFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool {
		return slices.Contains([]string{"Raw", "Malformed", "Timestamp", "SecretIndex"}, f.Name)
	})
	require.Len(t, fields, len(s.properties), "fields of %s", v.Type())
	for _, p := range s.properties {
		field := fieldNamed(v, p.name)
		require.True(t, field.IsValid(), "%s has no field for %s", v.Type(), p.name)
		if value, there := given[p.name]; there {
			require.NoError(t, sameValue(p, value, field), p.name)
		} else {
			require.True(t, field.IsZero(), "%s is set, and was not given", p.name)
		}
	}
}

// sameValue compares by the document's type, without the SDK's own readers.
func sameValue(p property, given json.RawMessage, field reflect.Value) error {
	var text string
	number, isNumber := new(big.Rat).SetString(string(given)) // 17.0 and 1.7e1 are the integer 17
	same := false
	switch p.typ {
	case "string":
		same = json.Unmarshal(given, &text) == nil && field.Kind() == reflect.String && field.String() == text
	case "integer":
		same = isNumber && field.Kind() == reflect.Int64 && number.Cmp(new(big.Rat).SetInt64(field.Int())) == 0
	case "number":
		amount, isAmount := field.Interface().(paymentsvc.Amount)
		got, ok := new(big.Rat).SetString(amount.String())
		keepsScale := number.Sign() == 0 || strings.ContainsAny(string(given), "eE") || amount.String() == string(given)
		same = isAmount && ok && isNumber && got.Cmp(number) == 0 && keepsScale
	}
	if !same {
		return fmt.Errorf("%v was read from %s", field, given)
	}
	return nil
}

// hardText is what JSON, HTML, headers and databases each have trouble with.
const hardText = "\x00\x1f\x7f\t\r\n \"\\</script>&amp;it's%2F%00\u0085\u00a0" +
	"\u2028\u202e\ufeff\ufffd\uffff\ud7ffe\u0301ſ支払い🏳️\u200d🌈\U0010ffff"

// variant is what the fields of a request hold: an amount, a text and an open object.
type variant struct {
	amount, text string
	open         any
}

func variants() []variant {
	name := hardText
	return []variant{
		{"10.50", "order-1", nil},
		{"5e-1", "null", json.RawMessage("null")},
		{
			"1.50e1", hardText,
			map[string]any{
				hardText: []any{nil, true, 0.1, json.RawMessage(`"\u0000\ud83d\ude00\/"`), map[string]any{"card_data": nil}},
			},
		},
		{
			strings.Repeat("8", 31) + "." + strings.Repeat("8", 32), strings.Repeat("ü", 300),
			&cardData{card, &name, []json.Number{"1.10", "1e3"}},
		},
		{"9007199254740993", "0", json.RawMessage(` { "a" : 1.10 , "b" : "\u0041" } `)},
	}
}

// cardData is an open object as a partner may write it down.
type cardData struct {
	Number  string        `json:"number"`
	Name    *string       `json:"имя <владельца>"`
	Amounts []json.Number `json:"amounts"`
}

func isNothing(open any) bool {
	data, err := json.Marshal(open)
	return err == nil && string(data) == "null"
}

// member is one member of a JSON object, its value as text.
type member struct{ name, value string }

func objectOf(members []member) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, quoted(m.name)+":"+m.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // of no string
	}
	return string(data)
}

// example returns a valid value of a property, as JSON.
func example(t require.TestingT, p property) string {
	switch {
	case p.name == "partner_id":
		return strconv.Itoa(partnerID)
	case p.name == "project_id":
		return strconv.Itoa(projectID)
	case len(p.enum) > 0:
		return quoted(p.enum[0])
	}
	value, known := map[string]string{
		"string":      `"text"`,
		"string/uuid": `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`,
		"string/uri":  `"https://pay.example/form/1?a=b#c"`,
		"integer":     "17",
		"number":      "10.50",
		"object":      `{"member":1}`,
	}[strings.TrimSuffix(p.typ+"/"+p.format, "/")]
	require.True(t, known, "%s has a type that no test knows: %s %s", p.name, p.typ, p.format)
	return value
}

// ofOtherTypes returns values that a property must not have.
func ofOtherTypes(p property) []string {
	wrong := map[string][]string{
		"string":  {"17", "true", "null", `["text"]`, `{"text":1}`},
		"integer": {`"17"`, "1.5", "true", "null", "[17]", "{}"},
		"number":  {`"10.50"`, "false", "null", "[10.50]", "{}"},
		"object":  {`"{}"`, "17", "true", "null", "[]"},
	}[p.typ]
	switch p.format {
	case "uuid":
		wrong = append(wrong, `"text"`, `""`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c"`)
	case "uri":
		wrong = append(wrong, `"no uri"`, `""`, `"/a/path"`)
	}
	if len(p.enum) > 0 {
		wrong = append(wrong, `""`, quoted(strings.ToUpper(p.enum[0])), quoted(p.enum[0]+"_"))
	}
	return wrong
}

// fullBody has every property of a schema.
func fullBody(t require.TestingT, s *schema) (members []member) {
	for _, p := range s.properties {
		members = append(members, member{p.name, example(t, p)})
	}
	return members
}

func without(members []member, names ...string) []member {
	return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return slices.Contains(names, m.name) })
}

func with(members []member, name, value string) []member {
	changed := slices.Clone(members)
	if i := slices.IndexFunc(changed, func(m member) bool { return m.name == name }); i >= 0 {
		changed[i].value = value
		return changed
	}
	return append(changed, member{name, value})
}
