package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const (
	key       = "a test key"
	partner   = 1001
	project   = 2002
	htmlError = "<html><body>Access denied</body></html>"
)

func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

// service is a service with an error format of its own. It counts requests and remembers their paths.
type service struct {
	past, future int                                                     // accepted ages in seconds
	onceOnly     bool                                                    // accepts each signature once
	success      string                                                  // body of get_balance
	reply        func(problem, identifier string) (status int, b string) // for an error
	before       func(n int, problem string) (status int, body string)   // status 0 means the usual reply

	now   func() time.Time
	mu    sync.Mutex
	paths []string
	seen  map[string]bool
}

func (s *service) problem(r *http.Request, body []byte) (problem, identifier string) {
	signature, err := scheme().Signature(key, &paymentsvc.Message{
		Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: body,
	})
	var in struct {
		ProjectID int64  `json:"project_id"`
		OrderID   string `json:"order_id"`
		UserData  string `json:"user_data"`
	}
	if json.Unmarshal(body, &in) != nil || err != nil {
		return "body", ""
	}
	seconds, _ := strconv.ParseInt(r.Header.Get("Timestamp"), 10, 64)
	again := s.seen[signature]
	switch age := int(s.now().Unix() - seconds); {
	case signature != r.Header.Get("Signature"):
		return "signature", ""
	case age > s.past || -age > s.future:
		return "timestamp", ""
	case s.onceOnly && again:
		return "replay", ""
	case in.ProjectID != project:
		return "project", ""
	case in.OrderID == "order-of-a-test":
		return "", "order"
	case in.UserData != "":
		return "user_data", in.UserData
	case in.OrderID != "":
		return "order_id", in.OrderID
	}
	s.seen[signature] = true
	return "", ""
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	problem, identifier := s.problem(r, body)
	s.paths = append(s.paths, path.Base(r.URL.Path))
	status, text := 0, ""
	if s.before != nil {
		status, text = s.before(len(s.paths), problem)
	}
	switch {
	case status != 0:
	case identifier == "order":
		status, text = 200, `{"order_id":"order-of-a-test","status":2,"state":{"name":"SUCCESS"},"amount":10.50}`
	case problem == "":
		status, text = 200, s.success
	default:
		status, text = s.reply(problem, identifier)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	if strings.HasPrefix(text, "<") {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	if status == 503 {
		w.Header().Set("Retry-After", "60")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

const balance = `{"payout_balance":100.00,"expected_balance":0,"currency":"XTS"}`

// code returns the code and the HTTP status of a problem. Both order look-ups have the same code.
func code(problem string) (string, int) {
	switch problem {
	case "order_id", "user_data":
		return "E404", 404
	case "project":
		return "E403", 403
	}
	return "E1-" + problem, 401
}

// reply is an error with a code.
func reply(problem, _ string) (int, string) {
	c, status := code(problem)
	return status, fmt.Sprintf(`{"code":%q}`, c)
}

// replies maps a problem to the HTTP status and the body of its reply.
type replies map[string]struct {
	status int
	body   string
}

// or returns a reply function with the replies of other to other problems.
func (r replies) or(other func(problem, identifier string) (int, string)) func(string, string) (int, string) {
	return func(problem, identifier string) (int, string) {
		if own, found := r[problem]; found {
			return own.status, own.body
		}
		return other(problem, identifier)
	}
}

// ran is a run against a service.
type ran struct {
	Findings
	seen    []*Exchange
	stopped string
	waits   int
}

func newSession(address string, transport *http.Transport) *Session {
	return &Session{
		BaseURL: address, Partner: partner, Project: project, Scheme: scheme(), Secret: key, Transport: transport,
		Now: time.Now, Wait: func(context.Context) error { return nil },
		Done: func(int, *Exchange) error { return nil },
	}
}

func run(t *testing.T, s *service, orderID string, ahead time.Duration) ran {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var r ran
	start := time.Now()
	s.now = func() time.Time { return start.Add(time.Duration(r.waits) * time.Second) }
	session := newSession(server.URL+"/api", transport)
	session.OrderID, session.Now = orderID, func() time.Time { return s.now().Add(ahead) }
	session.Wait = func(context.Context) error { r.waits++; return nil }
	var err error
	r.seen, r.stopped, err = session.Run(t.Context(), Plan(orderID != ""))
	require.NoError(t, err)
	r.Findings = Derive(r.seen, r.stopped)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.LessOrEqual(t, len(s.paths), 20)
	assert.Len(t, r.seen, len(s.paths))
	assert.Equal(t, len(s.paths)-1, r.waits, "it waits between each two requests")
	for _, p := range s.paths {
		assert.Contains(t, []string{"get_balance", "status_payment", "status_payout"}, p)
	}
	text, err := json.Marshal(r.Findings)
	require.NoError(t, err)
	assert.NotContains(t, string(text), key)
	for _, x := range r.seen {
		assert.NotContains(t, string(text), x.Request.Header.Get("Signature"))
	}
	return r
}

// facts returns the texts of the facts with a name.
func (r ran) facts(name string) string {
	var texts []string
	for _, f := range r.Facts {
		if f.Name == name {
			texts = append(texts, f.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func TestDeriveTheErrorFormat(t *testing.T) {
	reply := func(format string) func(string, string) (int, string) {
		return func(problem, _ string) (int, string) {
			c, status := code(problem)
			return status, fmt.Sprintf(format, c, "The "+problem+" is wrong.")
		}
	}
	for _, test := range []struct {
		name     string
		service  *service
		format   Format
		notFound string
		open     string
	}{
		{"flat", &service{reply: reply(`{"error_code":%q,"error_message":%q}`)},
			Format{Code: "error_code", Message: "error_message"}, "E404", ""},
		{"nested, beside a status", &service{reply: reply(`{"status":"error","error":{"code":%q,"text":%q,"type":"api"}}`)},
			Format{Code: "error.code", Message: "error.text"}, "E404", ""},
		{"a list", &service{reply: reply(`{"errors":[{"code":%q,"detail":%q}],"request_id":"r1"}`)},
			Format{Code: "errors.0.code", Message: "errors.0.detail"}, "E404", ""},
		{"one shape with an empty code", &service{
			success: `{"payout_balance":1,"expected_balance":0,"currency":"XTS","code":0,"message":""}`,
			reply: func(problem, _ string) (int, string) {
				c, _ := code(problem)
				return 200, fmt.Sprintf(`{"code":%d,"message":"The %s is wrong.","currency":null}`, len(c)*7, problem)
			},
		}, Format{Code: "code", Message: "message"}, "28", "not found: another problem also has the code 28"},
		{"one shape with a code for success", &service{
			success: `{"payout_balance":1,"expected_balance":0,"currency":"XTS","code":"OK","message":"ok"}`,
			reply:   reply(`{"code":%q,"message":%q,"currency":null}`),
		}, Format{Code: "code", Message: "message", Success: "OK"}, "E404", ""},
		{"one shape with a balance of zero", &service{
			success: `{"error":{"code":"","text":""},"payout_balance":1,"expected_balance":0,"currency":"XTS"}`,
			reply: func(problem, _ string) (int, string) {
				c, _ := code(problem)
				return 200, fmt.Sprintf(
					`{"error":{"code":%q,"text":"No."},"payout_balance":0,"expected_balance":0,"currency":""}`, c)
			},
		}, Format{Code: "error.code", Message: "error.text"}, "E404", ""},
		{"one shape with a currency and a code for success", &service{
			success: `{"code":"OK","payout_balance":1,"expected_balance":0,"currency":"XTS"}`,
			reply:   reply(`{"code":%q,"hint":%q,"payout_balance":0,"expected_balance":0,"currency":"XTS"}`),
		}, Format{Code: "code", Message: "hint", Success: "OK"}, "E404", ""},
		{"only the status", &service{reply: func(problem, _ string) (int, string) {
			_, status := code(problem)
			return status, ""
		}}, Format{}, "", "errors with only an HTTP status"},
		{"a message that gateways use too", &service{reply: func(string, string) (int, string) {
			return 403, `{"message":"Forbidden"}`
		}}, Format{}, "", "no field has a code only in errors"},
		{"a gateway's HTML for everything", &service{reply: func(string, string) (int, string) { return 403, htmlError }},
			Format{}, "", "errors in HTML"},
		{"a gateway's HTML for the signature", &service{
			reply: replies{"signature": {401, htmlError}}.or(reply(`{"error_code":%q,"error_message":%q}`)),
		}, Format{Code: "error_code", Message: "error_message"}, "E404", "errors in HTML"},
		{"a gateway's JSON for the signature", &service{
			reply: replies{"signature": {403, `{"message":"Forbidden"}`}}.or(reply(`{"error_code":%q,"error_message":%q}`)),
		}, Format{Code: "error_code", Message: "error_message"}, "E404", "JSON errors without error_code"},
		{"half of the errors in another format", &service{
			reply: replies{"order_id": {404, `{"fault":"gone-order_id"}`}, "user_data": {404, `{"fault":"gone-user_data"}`}}.
				or(reply(`{"error_code":%q,"error_message":%q}`)),
		}, Format{}, "", "error format: perhaps"},
		{"identifiers that differ in each error", &service{reply: func(problem, id string) (int, string) {
			c, status := code(problem)
			event := fmt.Sprintf("t%x", time.Now().UnixNano())
			return status, fmt.Sprintf(`{"event_code":%q,"kind":%q,"about":%q}`, event, c, id)
		}}, Format{Code: "kind"}, "E404", ""},
		{"a request's identifier", &service{reply: func(problem, _ string) (int, string) {
			c, status := code(problem)
			return status, fmt.Sprintf(`{"request_id":%q,"fault":%q}`, "r-"+problem, c)
		}}, Format{Code: "fault"}, "E404", ""},
		{"a message outside the list", &service{reply: reply(`{"errors":[{"code":%q}],"message":%q}`)},
			Format{Code: "errors.0.code", Message: "message"}, "E404", ""},
		{"card numbers in the place of codes", &service{
			reply: replies{"timestamp": {400, `{"code":"4111111111111111"}`}}.
				or(func(string, string) (int, string) { return 400, `{"code":"5555555555554444"}` }),
		}, Format{}, "", "no field has a code only in errors"},
		{"5xx, which gateways send", &service{reply: func(problem, _ string) (int, string) {
			return 500, fmt.Sprintf(`{"code":%q}`, problem)
		}}, Format{}, "", "no field has a code only in errors"},
		{"a documented field of starts", &service{reply: reply(`{"status_code":%q,"message":%q}`)},
			Format{}, "", "no field has a code only in errors"},
		{"one code for everything", &service{reply: func(string, string) (int, string) { return 400, `{"code":"bad"}` }},
			Format{}, "", "with 1 codes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.service
			s.past, s.future = 300, 60
			if s.success == "" {
				s.success = balance
			}
			r := run(t, s, "", 0)
			assert.Empty(t, r.stopped)
			assert.Equal(t, test.format, r.Format, r.facts("open"))
			assert.Contains(t, r.facts("open"), test.open)
			if strings.Contains(test.open, "not found: another problem") {
				test.notFound = ""
			}
			assert.Equal(t, test.notFound, r.NotFound)
			assert.Contains(t, r.facts("timestamps"), "accepted from -290 s to +50 s; rejected at -890 s")
			if test.format.Code == "" {
				assert.Empty(t, r.Go)
				return
			}
			checkGo(t, r.Go, test.notFound != "")
		})
	}
}

func TestNotFoundNeedsOneCodeOfItsOwn(t *testing.T) {
	const noError = `{"code":"","lookup_code":"none"}`
	for _, test := range []struct {
		name, open string
		replies    replies
	}{
		{"user_data is no identifier", "the service replied with codes E404 with HTTP 404 and FIELD",
			replies{"user_data": {400, `{"code":"FIELD"}`}}},
		{"a code of the project too", "another problem also has the code E404",
			replies{"project": {404, `{"code":"E404"}`}}},
		{"no error at all", "an unknown payment has no error",
			replies{"order_id": {200, noError}, "user_data": {200, noError}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := run(t, &service{past: 300, future: 300, success: balance, reply: test.replies.or(reply)}, "", 0)
			assert.Equal(t, "code", r.Format.Code)
			assert.Empty(t, r.NotFound)
			assert.Contains(t, r.facts("open"), test.open)
			checkGo(t, r.Go, false)
		})
	}
}

func TestDeriveNeedsEnoughErrors(t *testing.T) {
	r := run(t, &service{past: 300, future: 300, success: balance, reply: func(problem, _ string) (int, string) {
		return 400, fmt.Sprintf(`{"code":%q}`, problem)
	}}, "", 0)
	assert.Equal(t, "code", r.Format.Code)
	few := Derive([]*Exchange{r.seen[0], r.seen[1], r.seen[2], r.seen[4]}, "")
	assert.Equal(t, Format{}, few.Format)
	assert.Contains(t, fmt.Sprint(few.Facts), "error format: perhaps code, but only from 2 kinds of errors with 2 codes")
	one := Derive(r.seen[:1], "")
	assert.Contains(t, fmt.Sprint(one.Facts), "timestamps: no observation")
}

func TestRunEndsAtASignOfALockout(t *testing.T) {
	from := func(first, status int, body string) func(int, string) (int, string) {
		return func(n int, _ string) (int, string) {
			if n >= first {
				return status, body
			}
			return 0, ""
		}
	}
	for _, test := range []struct {
		name, stopped string
		requests      int
		before        func(n int, problem string) (int, string)
	}{
		{"HTTP 429", "HTTP 429", 5, from(5, 429, `{"code":"SLOW"}`)},
		{"HTTP 503 with Retry-After", "HTTP 503 with Retry-After", 4, from(4, 503, htmlError)},
		{"a correct request is rejected after the unknown project", "a correct request was rejected with HTTP 401", 10,
			from(9, 401, `{"code":"LOCKED"}`)},
		{"a correct request is rejected after the wrong signature", "a correct request was rejected with HTTP 403", 18,
			func() func(int, string) (int, string) {
				locked := false
				return func(_ int, problem string) (int, string) {
					if locked {
						return 403, htmlError
					}
					locked = problem == "signature"
					return 0, ""
				}
			}()},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &service{past: 300, future: 300, success: balance, reply: reply, before: test.before}
			r := run(t, s, "", 0)
			assert.Equal(t, test.stopped, r.stopped)
			assert.Len(t, s.paths, test.requests, "not one request more")
			assert.Contains(t, r.facts("open"), "the run ended early: "+test.stopped)
			assert.NotContains(t, fmt.Sprint(r.Facts), "LOCKED", "the lockout is no finding")
		})
	}
}

func TestRunEndsWithTheConnection(t *testing.T) {
	s := &service{past: 300, future: 300, success: balance, before: func(n int, _ string) (int, string) {
		if n == 3 {
			panic(http.ErrAbortHandler)
		}
		return 0, ""
	}}
	r := run(t, s, "", 0)
	assert.Contains(t, r.stopped, "no response: ")
	assert.Len(t, s.paths, 3, "no retry")
	assert.Empty(t, r.Go)
}

func TestFindingsBesideTheFormat(t *testing.T) {
	s := &service{past: 40, future: 1 << 30, onceOnly: true, reply: reply,
		success: `{"payout_balance":"1","expected_balance":"0","currency":"XTS","limits":{"daily":5}}`}
	r := run(t, s, "order-of-a-test", 100*time.Second)
	assert.Contains(t, r.facts("timestamps"), "accepted from +0 s to +890 s; rejected at -50 s with HTTP 401")
	assert.Equal(t, "a second request with the same signature was rejected", r.facts("replay"))
	extra := "get_balance: limits.daily\nstatus_payment: state.name\nstatus_payment: status"
	assert.Equal(t, extra, r.facts("extra field"))
	assert.NotContains(t, fmt.Sprint(r.Facts), "SUCCESS", "names of fields, no data")
	assert.Len(t, s.paths, 17)

	s = &service{past: 1 << 30, future: 1 << 30, success: balance, reply: reply}
	s.before = func(_ int, problem string) (int, string) {
		if problem == "signature" {
			return 200, balance
		}
		return 0, ""
	}
	r = run(t, s, "", 0)
	assert.Len(t, s.paths, 19, "the whole list")
	assert.Contains(t, r.facts("open"), "contradiction: the service accepted a request with the wrong signature")
	assert.Contains(t, r.facts("timestamps"), "accepted from -3500 s to +890 s; the document")
	assert.Len(t, Plan(true), 20)
}

func TestFindingsRepeatNoCardNumberAndNoSignature(t *testing.T) {
	const card = "4111111111111111"
	s := &service{past: 40, future: 40,
		success: `{"payout_balance":1,"expected_balance":0,"currency":"` + card + `","result_code":"` + card + `"}`}
	s.reply = func(problem, _ string) (int, string) {
		c, status := code(problem)
		return status, fmt.Sprintf(`{"code":%q,"result_code":%q}`, c, c)
	}
	broken := ""
	s.before = func(_ int, problem string) (int, string) {
		if problem == "timestamp" && broken != "" {
			return 500, `{"code":"` + broken + `"}`
		}
		return 0, ""
	}
	for _, broken = range []string{"", card, "no code: " + card} {
		s.paths = nil
		r := run(t, s, "", 0)
		assert.Equal(t, "code", r.Format.Code, "a field with card numbers is no code")
		text, err := json.Marshal(append(r.Facts, Connection(r.seen[0], "")...))
		require.NoError(t, err)
		assert.NotContains(t, string(text), card)
		assert.Contains(t, string(text), "hidden")
	}
}

func TestConnectionPrintsOnlyTheCodeOfAnError(t *testing.T) {
	for body, want := range map[string]string{
		`{"code":"ids","message":"unknown partner"}`:                                  "code: ids",
		`{"errors":[{"code":17,"detail":"no project"}]}`:                              "errors.0.code: 17",
		`{"error":"ids","status_code":"2"}`:                                           "error: ids",
		`{"code":"4111111111111111"}`:                                                 "",
		`{"code":"9df94d4fb3023782088f8d724f5bd67ebc4fdd2582c68d3863547d9c18d82b56"}`: "",
		`{"code":"nfX10TeCCI-NckW9Z_vE_dJYLGjThjVH2cGNgrVk"}`:                         "",
		`{"code":"an order"}`:                                                         "",
		`{"code":"PARTNER_OR_PROJECT_WRONG"}`:                                         "code: PARTNER_OR_PROJECT_WRONG",
		`<html>`:                                                                      "",
	} {
		s := &service{before: func(int, string) (int, string) { return 403, body }}
		r := run(t, s, "", 0)
		r.Facts = Connection(r.seen[0], "")
		assert.Equal(t, want, r.facts("response"), body)
	}
}

func TestConnectionRemembersTheKindOfTheSamples(t *testing.T) {
	rejecting := &service{before: func(int, string) (int, string) { return 401, `{"code":"signature"}` }}
	for seenIn, want := range map[string]string{
		"notifications": "requests may have another scheme, because this scheme was seen in notifications only; " +
			"or an id is wrong",
		"requests": "the signature scheme, the key or an id is wrong",
		"":         "the signature scheme, the key or an id is wrong",
	} {
		rejecting.paths = nil
		r := run(t, rejecting, "", 0)
		r.Facts = Connection(r.seen[0], seenIn)
		assert.Equal(t, want, r.facts("likely cause"))
		assert.Contains(t, r.facts("next"), "REQUEST, with a request that the service accepted")
	}
	r := run(t, &service{past: 300, future: 300, success: balance, reply: reply}, "", 0)
	r.Facts = Connection(r.seen[0], "notifications")
	assert.Contains(t, r.facts("scheme"), "also accepted for requests")
}

func TestConnectionNamesAWrongAddress(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusNotFound)
	}))
	defer plain.Close()
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	for address, want := range map[string]string{
		"https" + strings.TrimPrefix(plain.URL, "http"):     "the port expects http, not https",
		"http" + strings.TrimPrefix(encrypted.URL, "https"): "the port expects https, not http",
		plain.URL: "the service has no get_balance at this address", // not the clock, because the Date is missing
	} {
		seen, _, err := newSession(address, &http.Transport{}).Run(t.Context(), Plan(false))
		require.NoError(t, err)
		r := ran{Findings: Findings{Facts: Connection(seen[0], "")}}
		assert.Equal(t, want, r.facts("likely cause"))
		assert.Contains(t, r.facts("next"), "-base-url")
	}
}

func TestSessionSendsNothingElse(t *testing.T) {
	s := &service{past: 300, future: 300, success: balance, now: time.Now}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	transport, ok := server.Client().Transport.(*http.Transport)
	require.True(t, ok)
	many := make([]Probe, 25)
	for i := range many {
		many[i] = Plan(false)[0]
	}
	_, _, err := newSession(server.URL, transport).Run(t.Context(), many)
	require.Error(t, err)
	assert.Len(t, s.paths, 20)

	stop, waiting := errors.New("stop"), newSession(server.URL, transport)
	waiting.Wait = func(context.Context) error { return stop }
	seen, _, err := waiting.Run(t.Context(), many)
	assert.ErrorIs(t, err, stop)
	assert.Empty(t, seen)
	seen, _, err = newSession(server.URL, transport).Run(t.Context(), many[:1])
	require.NoError(t, err)
	facts := fmt.Sprint(Connection(seen[0], ""))
	assert.Regexp(t, `tls TLS 1\.3, certificate \d+ days old, valid for \d+ more days`, facts)

	seen, stopped, err := newSession(server.URL, &http.Transport{}).Run(t.Context(), many)
	require.NoError(t, err)
	assert.Len(t, seen, 1)
	assert.Contains(t, stopped, "certificate")
	assert.Contains(t, fmt.Sprint(Connection(seen[0], "")), "certificate signed by unknown authority")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{past: 300, future: 300, success: balance, now: time.Now}
	s.before = func(int, string) (int, string) { cancel(); return 0, "" }
	server := httptest.NewServer(s)
	defer server.Close()
	_, _, err := newSession(server.URL, &http.Transport{}).Run(ctx, Plan(false))
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, s.paths, 1)
}

// compiled returns the export data of a package.
func compiled(name string) (io.ReadCloser, error) {
	file, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", name).Output()
	if err != nil {
		return nil, err
	}
	return os.Open(strings.TrimSpace(string(file)))
}

var packages = importer.ForCompiler(token.NewFileSet(), "gc", compiled)

// checkGo type-checks code against package paymentsvc.
func checkGo(t *testing.T, source string, notFound bool) {
	t.Helper()
	assert.Equal(t, notFound, strings.Contains(source, "func isNotFound"))
	formatted, err := format.Source([]byte(source))
	require.NoError(t, err, source)
	assert.Equal(t, string(formatted), source)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "payments.go", source, parser.SkipObjectResolution)
	require.NoError(t, err, source)
	checker := types.Config{Importer: packages, Error: func(err error) { t.Error(err, "\n"+source) }}
	pkg, _ := checker.Check("payments", fset, []*ast.File{file}, nil)
	if notFound && pkg.Scope().Lookup("isNotFound") != nil {
		signature := pkg.Scope().Lookup("isNotFound").Type().String()
		assert.Equal(t, "func(e *github.com/paymentsvc/paymentsvc.Error) bool", signature)
	}
}

func TestRecorderRejectsOtherEndpoints(t *testing.T) {
	for _, endpoint := range []string{"init_payment/sbp", "init_payout", "init_form", "init_invoice", "get_balance/", ""} {
		x := &Exchange{}
		req := httptest.NewRequest(http.MethodPost, "https://pay.example/"+endpoint, http.NoBody)
		_, err := recorder{&Session{}, x}.RoundTrip(req)
		assert.ErrorContains(t, err, "not a read-only endpoint", endpoint)
		assert.Nil(t, x.Request)
	}
}
