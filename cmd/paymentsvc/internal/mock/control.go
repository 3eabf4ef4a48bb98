package mock

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/testdata"
)

// openAPI describes the control API.
//
//go:embed openapi.json
var openAPI []byte

const (
	maxControl   = 1 << 20     // bytes of a request
	writeTimeout = time.Minute // limits the writing of a response or a page
)

// route is an operation of the control API. handle returns the HTTP status and the response. The response is a rawText
// or a value to encode as JSON. With status 204, only the status is sent.
type route struct {
	method, pattern string
	main            bool // only in the main session
	handle          func(*call) (int, any, error)
}

func routes() []route {
	return []route{
		{"GET", "/openapi.json", false,
			func(*call) (int, any, error) { return http.StatusOK, json.RawMessage(openAPI), nil }},
		{"GET", "/service.yaml", false,
			func(*call) (int, any, error) { return http.StatusOK, rawText(testdata.OpenAPI), nil }},
		{"GET", "/health", false, getHealth},
		{"GET", "/settings", false, getSettings},
		{"PATCH", "/settings", false, with(patchSettings)},
		{"GET", "/sessions", true, getSessions},
		{"POST", "/sessions", true, with(postSession)},
		{"DELETE", "/sessions/{name}", true, deleteSession},
		{"GET", "/orders", false, getOrders},
		{"POST", "/orders", false, with(postOrder)},
		{"GET", "/orders/{id}", false, getOrder},
		{"POST", "/orders/{id}/settle", false, with(postSettle)},
		{"POST", "/orders/{id}/refund", false, with(postRefund)},
		{"GET", "/notifications", false, getNotifications},
		{"POST", "/notifications", false, with(postNotification)},
		{"POST", "/notifications/deliver", false, with(postDeliver)},
		{"POST", "/notifications/{id}/resend", false, with(postResend)},
		{"GET", "/faults", false, getFaults},
		{"POST", "/faults", false, with(postFault)},
		{"DELETE", "/faults", false, deleteFaults},
		{"GET", "/faults/{id}", false, withFault(http.StatusOK, func(*call, *fault) {})},
		{"DELETE", "/faults/{id}", false, withFault(http.StatusNoContent, func(c *call, f *fault) { c.removeFault(f) })},
		{"POST", "/faults/{id}/release", false, withFault(http.StatusOK, func(c *call, f *fault) { c.release(f) })},
		{"GET", "/messages", false, getMessages},
		{"GET", "/messages/{id}", false, getMessage},
		{"GET", "/messages/{id}/raw", false, getRaw},
		{"POST", "/expect", false, with(postExpect)},
		{"GET", "/clock", false, getClock},
		{"PUT", "/clock", false, with(putClock)},
		{"POST", "/clock/advance", false, with(postAdvance)},
		{"POST", "/reset", false, with(postReset)},
		{"POST", "/drain", false, with(postDrain)},
		{"POST", "/stop", true, with(postStop)},
	}
}

// with returns a [route.handle] that decodes the body and passes the result to do.
func with[In any](do func(*call, In) (int, any, error)) func(*call) (int, any, error) {
	return func(c *call) (int, any, error) {
		var in In
		if err := c.decode(&in); err != nil {
			return 0, nil, err
		}
		return do(c, in)
	}
}

// call is a request to the control API.
type call struct {
	*epoch
	r *http.Request
}

// apiError is an error of the control API. Actual is the count of an unmet expectation, and Nearest describes up to
// three orders, rejections or messages.
type apiError struct {
	status int
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field"`
	} `json:"error"`
	Actual  *int     `json:"actual,omitempty"`
	Nearest []string `json:"nearest,omitempty"`
}

// failed is an apiError as a Go error.
type failed struct{ *apiError }

// Error returns the message.
func (f failed) Error() string { return f.apiError.Error.Message }

func failure(status int, code, field, format string, args ...any) failed {
	e := &apiError{status: status}
	e.Error.Code, e.Error.Field, e.Error.Message = code, field, fmt.Sprintf(format, args...)
	return failed{e}
}

func invalid(field, format string, args ...any) error {
	return failure(http.StatusUnprocessableEntity, "invalid", field, format, args...)
}

func writeError(w http.ResponseWriter, err error) {
	var f failed
	if !errors.As(err, &f) {
		f = failure(http.StatusUnprocessableEntity, "refused", "", "%s", trimmed(err))
	}
	writeJSON(w, f.status, f.apiError)
}

// writeJSON writes value, which must encode as an object, with the version of the API as its first member, "v": 1. It
// does not add the version to a json.RawMessage.
func writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil || len(text) < 2 || text[0] != '{' {
		status = http.StatusInternalServerError
		text = []byte(`{"error":{"code":"internal","message":"the response cannot be encoded","field":""}}`)
	}
	if _, raw := value.(json.RawMessage); !raw {
		separator := ","
		if len(text) == 2 {
			separator = ""
		}
		text = append([]byte(`{"v":1`+separator), text[1:]...)
	}
	respond(w, status, "application/json", append(text, '\n'))
}

// respond writes a response. The deadline frees the memory of a response to a client that does not read it.
func respond(w http.ResponseWriter, status int, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // fails in a test without a server
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have left
}

// controlHandler returns a handler that checks the host and the origin of a request to the control API.
func (m *Mock) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, failure(http.StatusNotFound, "not_found", "", "there is no such path: see /_mock/openapi.json"))
	})
	operations := map[string][]route{}
	for _, r := range routes() {
		operations[r.pattern] = append(operations[r.pattern], r)
	}
	for pattern, routes := range operations {
		mux.Handle("/_mock"+pattern, m.operation(routes))
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, failure(http.StatusForbidden, "foreign_origin", "", "the request comes from another origin"))
	}))
	inner := origin.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if err := m.checkHost(r.Host); err != nil {
			writeError(w, err)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// operation returns the handler of one path. routes has a route for each allowed method.
func (m *Mock) operation(routes []route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := epochOf(r)
		routes := slices.DeleteFunc(slices.Clone(routes), func(r route) bool { return r.main && e.session != m.main })
		i := slices.IndexFunc(routes, func(route route) bool { return route.method == r.Method })
		switch {
		case len(routes) == 0:
			writeError(w, failure(http.StatusNotFound, "not_found", "", "only the main session has this path"))
		case i < 0:
			allowed := cli.Mapped(routes, func(route route) string { return route.method })
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			want := strings.Join(allowed, " or ")
			writeError(w, failure(http.StatusMethodNotAllowed, "method", "", "the method is not %s", want))
		default:
			if err := routes[i].checkQuery(r.URL.Query()); err != nil {
				writeError(w, err)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxControl)
			status, answer, err := routes[i].handle(&call{e, r})
			writeAnswer(w, status, answer, err)
		}
	})
}

// checkQuery rejects each name in the query. GET /orders and GET /messages check their filters themselves.
func (r route) checkQuery(query url.Values) error {
	isGet := r.method == http.MethodGet
	if isGet && (r.pattern == "/orders" || r.pattern == "/messages") {
		return nil
	}
	hint := ": put all values into the body"
	if isGet {
		hint = ""
	}
	for name := range query {
		return failure(http.StatusBadRequest, "unknown_name", name, "unknown name %q in the query%s", name, hint)
	}
	return nil
}

// writeAnswer writes the result of a route.
func writeAnswer(w http.ResponseWriter, status int, answer any, err error) {
	switch raw, isText := answer.(rawText); {
	case err != nil:
		writeError(w, err)
	case isText:
		respond(w, status, "application/octet-stream", raw)
	case status == http.StatusNoContent:
		w.WriteHeader(status)
	default:
		writeJSON(w, status, answer)
	}
}

// rawText is a response in a format other than JSON.
type rawText []byte

// checkHost accepts localhost, IP addresses and Options.Hosts. Any other name could be a foreign site's name with the
// address of the mock server (DNS rebinding). The browser would then give the site's scripts access to the mock server.
func (m *Mock) checkHost(host string) error {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	known := func(name string) bool { return strings.EqualFold(name, host) }
	if err == nil || slices.ContainsFunc(append([]string{"localhost"}, m.opt.Hosts...), known) {
		return nil
	}
	return failure(http.StatusMisdirectedRequest, "unknown_host", "",
		"the mock server does not accept this host name: start it with -hosts and the name")
}

// decode parses the body. An empty body sets no value. decode rejects unknown names, and accepts every
// Content-Type, because controlHandler checks the origin of the request.
func (c *call) decode(into any) error {
	body, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return failure(http.StatusRequestEntityTooLarge, "too_large", "", "the body has more than %d bytes", maxControl)
	case err != nil:
		return failure(http.StatusBadRequest, "body", "", "the body cannot be read")
	}
	if len(body) == 0 {
		return nil
	}
	return decodeObject(body, into)
}

func decodeObject(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return decodeError(err, into)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return failure(http.StatusBadRequest, "body", "", "something follows the JSON object")
	}
	return nil
}

func decodeError(err error, into any) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		field := strings.TrimPrefix(wrong.Field, "filter.") // the embedded struct of an expectation
		return failure(http.StatusBadRequest, "type", field, "%s: not %s", field, jsonType(wrong.Type))
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		field, _ := strconv.Unquote(name)
		names := namesOf(reflect.TypeOf(into).Elem())
		return failure(http.StatusBadRequest, "unknown_name", field, "unknown name %q%s", field,
			cli.NearestOf(field, names))
	}
	// An error of another type comes from a time.Time, because no other field decodes itself.
	_, isSyntax := errors.AsType[*json.SyntaxError](err)
	if wrong == nil && !isSyntax && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return failure(http.StatusBadRequest, "type", "", "a time is not in the form 2006-01-02T15:04:05Z")
	}
	return failure(http.StatusBadRequest, "body", "", "the body is not a JSON object")
}

// namesOf returns the JSON names of the fields of t, including nested fields.
func namesOf(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("json"); name != "" {
			names = append(append(names, name), namesOf(field.Type)...)
		}
	}
	return names
}

func jsonType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

func duration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalid(field, `%s: not a duration of 0 or more, such as "2s"`, field)
	}
	return d, nil
}

func amount(field, text string) (paymentsvc.Amount, error) {
	a, err := paymentsvc.ParseAmount(text)
	if err != nil {
		return a, invalid(field, `%s: not a decimal number of at most 64 digits as text, such as "10.50"`, field)
	}
	return a, nil
}

func statusName(text string) (paymentsvc.StatusName, error) {
	s := paymentsvc.StatusName(text)
	if !s.Known() {
		return s, invalid("status", "status: not one of PENDING, SUCCESS and FAILURE")
	}
	return s, nil
}

func (c *call) number(name string) (int, error) {
	n, err := strconv.Atoi(c.r.PathValue(name))
	if err != nil {
		return 0, failure(http.StatusNotFound, "not_found", name, "the %s in the path is not a number", name)
	}
	return n, nil
}
