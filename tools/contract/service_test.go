package contract

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	// path is that of {base_url}, as it stands in an address.
	path     string
	encoding paymentsvc.Encoding
	encode   func([]byte) string
	errors   errorFields
}

// places are where the service is tried. How it signs and what its errors look like differ with them, since the
// document shows neither.
func places() []place {
	return []place{
		{"", paymentsvc.Hex, hex.EncodeToString, errorFields{"error_code", "error_message"}},
		{"/partner/v1", base64.StdEncoding, base64.StdEncoding.EncodeToString, errorFields{"error.code", "error.message"}},
		{"/a%20b/%C3%A9", paymentsvc.Hex, hex.EncodeToString, errorFields{"code", "message"}},
	}
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

// service is the fake behind a server that keeps what was on the wire.
type service struct {
	place
	*contract
	configure func(*paymentsvctest.Config)
	http      *http.Client
	base      string

	mu       sync.Mutex // guards what follows where the server's goroutines use it
	fake     *paymentsvctest.Server
	messages []*message
}

// serve starts the fake at a place. configure, when not nil, changes its configuration.
func serve(t testing.TB, p place, configure func(*paymentsvctest.Config)) *service {
	t.Helper()
	s := &service{place: p, configure: configure}
	s.renew(t)
	t.Cleanup(func() { s.fake.Close() })
	front := httptest.NewServer(s.record())
	t.Cleanup(front.Close)
	s.http = front.Client()
	s.base = front.URL + p.path
	s.contract = newContract(t, s.base, p.errors)
	return s
}

// renew makes the fake anew, without orders and rules, so that no check of rapid depends on those before it.
func (s *service) renew(t require.TestingT) {
	cfg := paymentsvctest.Config{
		PartnerID:    partnerID,
		Projects:     []paymentsvctest.Project{{ID: projectID, Secret: secret, OldSecret: "the-secret-before"}},
		Scheme:       s.scheme(),
		Now:          now,
		Tolerance:    time.Minute,
		ErrorCode:    s.errors.code,
		ErrorMessage: s.errors.message,
	}
	if s.configure != nil {
		s.configure(&cfg)
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
		for name, values := range m.answerHeader {
			w.Header()[name] = values
		}
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

// taken gives what was on the wire since it was last asked.
func (s *service) taken() []*message {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// only gives the one message that was on the wire since taken was last asked.
func (s *service) only(t require.TestingT) *message {
	taken := s.taken()
	require.Len(t, taken, 1, "messages on the wire")
	return taken[0]
}

// config is that of a client of the service. slash puts one behind the address, which changes nothing.
func (s *service) config(slash bool) paymentsvc.Config {
	cfg := s.fake.ClientConfig(projectID)
	cfg.BaseURL, cfg.HTTPClient = s.base, s.http
	cfg.Retry = paymentsvc.Retry{MaxAttempts: 1}
	if slash {
		cfg.BaseURL += "/"
	}
	return cfg
}

func newClient(t require.TestingT, cfg paymentsvc.Config) *paymentsvc.Client {
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	return client
}

// sign puts the two headers of section 5 on a message.
func (s *service) sign(m *message) *message {
	m.header.Set("Timestamp", timestamp)
	m.header.Set("Signature", s.signature(timestamp, m.body))
	return m
}

// post is a signed message as any partner could send it, on its way to an endpoint.
func (s *service) post(path, body string) *message {
	return s.sign(&message{
		method: http.MethodPost,
		url:    s.base + path,
		header: http.Header{"Content-Type": {"application/json"}},
		body:   []byte(body),
	})
}

// send sends a message as it is, and gives what was on the wire.
func (s *service) send(t require.TestingT, m *message) *message {
	resp, err := s.http.Do(m.request())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return s.only(t)
}

// serveHTTP starts a server until the test is over, and gives its address.
func serveHTTP(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
