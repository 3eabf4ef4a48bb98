package paymentsvctest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/timestamp"
)

// maxBody limits a request's body. The document specifies no limit (section 8).
const maxBody = 1 << 20

// call is a correctly signed request.
type call struct {
	endpoint string
	project  int64
	fields   object
}

// kindOf returns the kind of the orders that an endpoint starts, or "".
func kindOf(endpoint string) Kind {
	switch {
	case covers(InitPayment, endpoint):
		return KindPayment
	case endpoint == InitPayout:
		return KindPayout
	case endpoint == InitForm:
		return KindForm
	case endpoint == InitInvoice:
		return KindInvoice
	}
	return ""
}

// endpointOf returns the part of a path below {base_url}, or "" for an unknown endpoint.
func (s *Server) endpointOf(path string) string {
	name, below := strings.CutPrefix(path, s.cfg.BasePath+"/")
	if !below || requestFields[name] == nil {
		return ""
	}
	return name
}

// fieldType is a field's type in the document.
type fieldType string

const (
	integerField fieldType = "an integer"
	amountField  fieldType = "a number"
	textField    fieldType = "a string that is not empty"
	objectField  fieldType = "an object"
)

// field is a field of a request.
type field struct {
	name     string
	is       fieldType
	required bool
}

// requestFields are the fields of each endpoint's request (section 4).
var requestFields = func() map[string][]field {
	ids := []field{{"partner_id", integerField, true}, {"project_id", integerField, true}}
	payment := slices.Concat(ids, []field{
		{"amount", amountField, true}, {"user_data", textField, true}, {"card_data", objectField, false},
		{"browser", objectField, false}, {"payer", objectField, false}, {"payee", objectField, false},
	})
	return map[string][]field{
		InitPayment + "/card": payment, InitPayment + "/sbp": payment, InitPayment + "/crypto": payment, InitPayment +
			"/mc": payment,
		InitForm: payment, InitInvoice: payment,
		InitPayout: slices.Concat(ids, []field{
			{"amount", amountField, true}, {"destination", textField, true}, {"user_data", textField, true},
		}),
		// check requires one of the two identifiers.
		StatusPayment: slices.Concat(ids, []field{{"order_id", textField, false}, {"user_data", textField, false}}),
		StatusPayout:  slices.Concat(ids, []field{{"order_id", textField, true}}),
		GetBalance:    ids,
	}
}()

// check checks a request. It returns the call if the signature is correct, and a rejection of an invalid request.
func (s *Server) check(r *http.Request, endpoint string, body []byte) (*call, *rejection) {
	fields := requestFields[endpoint]
	contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case fields == nil:
		return nil, reject(ProblemEndpoint, "no such endpoint")
	case r.Method != http.MethodPost:
		return nil, reject(ProblemMethod, "the method is not POST")
	case contentType != "application/json":
		return nil, reject(ProblemContentType, "the Content-Type is not application/json")
	case len(body) > maxBody:
		return nil, reject(ProblemTooLarge, "the body has more than 1 MiB")
	}
	parsed, bodyErr := parseObject(body)
	if why := s.checkSignature(r, body, parsed); why != nil {
		return nil, why
	}
	c := &call{endpoint: endpoint, project: parsed.integer("project_id"), fields: parsed}
	if bodyErr != nil {
		return c, reject(ProblemBody, bodyErr.Error())
	}
	if err := parsed.check(fields); err != nil {
		return c, reject(ProblemField, err.Error())
	}
	if endpoint == StatusPayment && parsed.text("order_id") == "" && parsed.text("user_data") == "" {
		return c, reject(ProblemField, "order_id: missing, and so is user_data")
	}
	if parsed.integer("partner_id") != s.cfg.PartnerID || s.project(c.project) == nil {
		return c, reject(ProblemIDs, "no such partner, or no such project of the partner")
	}
	return c, nil
}

func (s *Server) project(id int64) *Project {
	for i := range s.cfg.Projects {
		if s.cfg.Projects[i].ID == id {
			return &s.cfg.Projects[i]
		}
	}
	return nil
}

// checkSignature checks the two headers of section 5.
func (s *Server) checkSignature(r *http.Request, body []byte, parsed object) *rejection {
	fail := func(message string) *rejection {
		return &rejection{ProblemHeader, message, &SignatureFault{Reason: message}}
	}
	for _, name := range []string{"timestamp", "signature"} {
		switch values := r.Header.Values(name); {
		case len(values) == 0:
			return fail("the " + name + " header is missing")
		case len(values) > 1:
			return fail("the " + name + " header appears more than once")
		case values[0] == "":
			return fail("the " + name + " header is empty")
		}
	}
	at, err := timestamp.Parse(r.Header.Get("Timestamp"))
	if err != nil {
		return fail("timestamp: " + err.Error())
	}
	m := messageOf(paymentsvc.KindRequest, r, addressOf(r), body)
	signers := s.cfg.Projects // any project, if the body has no valid project_id
	if p := s.project(parsed.integer("project_id")); p != nil {
		signers = []Project{*p}
	}
	if slices.ContainsFunc(signers, func(p Project) bool { return s.signedWith(p.Secret, m) }) {
		return s.checkAge(at)
	}
	return &rejection{ProblemSignature, "the signature is not that of this request", s.diagnose(signers[0], m)}
}

// messageOf returns the parts of a request for the scheme.
func messageOf(kind paymentsvc.MessageKind, r *http.Request, address *url.URL, body []byte) *paymentsvc.Message {
	return &paymentsvc.Message{
		Kind: kind, Method: r.Method, URL: address, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: body,
	}
}

// signedWith reports whether a message has the signature made with a secret.
func (s *Server) signedWith(secret paymentsvc.Secret, m *paymentsvc.Message) bool {
	made, err := s.cfg.Scheme.Signature(secret, m)
	return err == nil && made == m.Header.Get("Signature")
}

// SignedNotification reports whether a notification of this server is signed with a secret of the partner, and whether
// that secret is a Project.OldSecret. Use it in a transport of [Receiver.Via] to detect forgeries.
func (s *Server) SignedNotification(r *http.Request, body []byte) (signed, old bool) {
	m := messageOf(paymentsvc.KindNotification, r, r.URL, body)
	for _, p := range s.cfg.Projects {
		old = s.signedWith(p.OldSecret, m)
		if old || s.signedWith(p.Secret, m) {
			return true, old
		}
	}
	return false, false
}

// checkAge rejects a timestamp outside Config.Tolerance.
func (s *Server) checkAge(at time.Time) *rejection {
	now := time.Unix(s.cfg.Now().Unix(), 0).UTC()
	earlier, later, direction := at, now, "behind"
	if later.Before(earlier) {
		earlier, later, direction = later, earlier, "ahead of"
	}
	if s.cfg.Tolerance == 0 || later.Sub(earlier) <= s.cfg.Tolerance {
		return nil
	}
	message := fmt.Sprintf("the timestamp is %s %s the server's clock, which is at %s; tolerance %s",
		timestamp.Distance(earlier, later), direction, now.Format(time.RFC3339), s.cfg.Tolerance)
	return &rejection{ProblemTimestamp, message, &SignatureFault{Reason: message}}
}

// addressOf returns the address signed by the client. It parses the request line, because a router may have changed
// r.URL. If the request line has no host, addressOf uses r.Host.
func addressOf(r *http.Request) *url.URL {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil { // a request made by a test, not received by a server
		copied := *r.URL
		u = &copied
	}
	u.Host = cmp.Or(u.Host, r.Host)
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u
}

// object is a JSON object with the JSON of each value by its name. The values share the memory of the body.
type object map[string]json.RawMessage

// parseObject parses exactly one JSON object without duplicate names. After an error it returns the fields that it
// has read, with the last value of a duplicate name. It reads no field of a body that is not UTF-8.
func parseObject(data []byte) (object, error) {
	o := object{}
	if !utf8.Valid(data) {
		return o, errors.New("the body is not UTF-8")
	}
	start := jsonobject.SkipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		return o, errors.New("the body is not a JSON object")
	}
	repeated := false
	end := jsonobject.Members(data, start, func(quoted, value []byte) {
		name := textOf(quoted)
		_, known := o[name]
		repeated = repeated || known
		o[name] = value
	})
	switch {
	case end < 0:
		return o, errors.New("the body is not JSON")
	case jsonobject.SkipSpace(data, end) < len(data):
		return o, errors.New("something follows the JSON object in the body")
	case repeated:
		return o, errors.New("duplicate field in the body")
	}
	return o, nil
}

// check returns an error for a missing, wrong or unknown field. The error contains no value and no unknown name.
func (o object) check(fields []field) error {
	known := 0
	for _, f := range fields {
		value, given := o[f.name]
		switch {
		case given && !f.accepts(value):
			return fmt.Errorf("%s: not %s", f.name, f.is)
		case given:
			known++
		case f.required:
			return fmt.Errorf("%s: missing", f.name)
		}
	}
	if known < len(o) {
		return errors.New("the body has a field that the document does not show for this endpoint")
	}
	return nil
}

func (f field) accepts(value json.RawMessage) bool {
	switch f.is {
	case integerField:
		_, err := strconv.ParseInt(string(value), 10, 64)
		return err == nil
	case amountField:
		_, err := paymentsvc.ParseAmount(string(value))
		return err == nil
	case textField:
		return len(value) > 2 && value[0] == '"'
	default:
		return value[0] == '{'
	}
}

// The methods text, integer and amount return a field, or the zero value if it is missing or of another type.

func (o object) text(name string) string { return textOf(o[name]) }

// textOf returns the text of a JSON string, and "" for other JSON.
func textOf(value []byte) (text string) {
	if len(value) > 0 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	_ = json.Unmarshal(value, &text)
	return text
}

func (o object) integer(name string) int64 {
	n, _ := strconv.ParseInt(string(o[name]), 10, 64)
	return n
}

func (o object) amount(name string) paymentsvc.Amount {
	a, _ := paymentsvc.ParseAmount(string(o[name]))
	return a
}
