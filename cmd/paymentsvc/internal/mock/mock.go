// Package mock is the mock server of the command line. It wraps the fake of package paymentsvctest, and adds an
// address, a control API for tests in any language, a payment page for payers, and a page for testers.
//
// The interface is below Options.BasePath, the control API below /_mock, the payment page below /pay, and the testers'
// page below /ui. Each named session has the same four paths below /s/{name}, and its own fake.
package mock

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Options configure a [Mock]. PartnerID, Projects, Scheme, Origin and Stop are required.
type Options struct {
	// The fields from PartnerID to ErrorMessage are documented in [paymentsvctest.Config].
	PartnerID               int64
	Projects                []paymentsvctest.Project
	Scheme                  paymentsvc.Scheme
	BasePath                string
	Tolerance               time.Duration
	Repeated                paymentsvctest.Repeated
	ErrorCode, ErrorMessage string
	// ErrorFormat is the format of errors, see [ErrorFormats]. "" means "fields".
	ErrorFormat string
	// SchemeText is the text form of Scheme, for the settings and the reasons for wrong signatures.
	SchemeText string
	// Notify is the address for notifications that match no text in Receivers. "", the default, sends none of these.
	Notify string
	// Receivers are the addresses for notifications of certain projects and events, see [CheckReceivers].
	Receivers []string
	// HTTP2 sends notifications by HTTP/2 only, even without TLS.
	HTTP2 bool
	// Trust is the configuration of HTTPS for notifications; nil trusts the system's CA certificates.
	Trust *tls.Config
	// Script lists the scripted outcomes, see [CheckScript].
	Script []string
	// Origin is the public address, such as "http://127.0.0.1:8080".
	Origin string
	// Hosts are further accepted host names of the control API and the pages, besides localhost and IP addresses.
	Hosts []string
	// ShowBodies shows card data and destinations in messages.
	ShowBodies bool
	// JournalBytes bounds the memory of the finished messages of all sessions together. 0 means 64 MiB.
	JournalBytes int
	// MaxSessions bounds the number of named sessions. 0 means 100.
	MaxSessions int
	// Chosen has the origin of each setting by name, such as a flag, a variable or a place in the settings file.
	// Settings not in Chosen are defaults of the mock server.
	Chosen map[string]string
	// Version is the version of the program.
	Version string
	// Stop is called for a POST /_mock/stop from the same machine.
	Stop func()
	// Logf, if not nil, is called with a line for each finished message.
	Logf func(format string, args ...any)
}

// Mock is the mock server, an [http.Handler]. Create it with [New] and close it at the end. It is safe for concurrent
// use.
type Mock struct {
	opt     Options
	main    *session
	control http.Handler
	pages   http.Handler
	client  *http.Transport // sends notifications
	budget  *budget

	mu       sync.Mutex
	sessions map[string]*session
	unnamed  int // the number in the last generated session name
	stopping bool
}

// New returns a Mock. It returns an error for incomplete or invalid options, but does not check Origin, ErrorFormat,
// Hosts, Stop, JournalBytes and MaxSessions.
func New(opt Options) (*Mock, error) {
	opt.JournalBytes, opt.MaxSessions = cmp.Or(opt.JournalBytes, 64<<20), cmp.Or(opt.MaxSessions, 100)
	m := &Mock{
		opt: opt, budget: newBudget(opt.JournalBytes), sessions: map[string]*session{},
		client: &http.Transport{DisableKeepAlives: true, TLSClientConfig: opt.Trust, Protocols: new(http.Protocols)},
	}
	m.client.Protocols.SetHTTP1(!opt.HTTP2)
	m.client.Protocols.SetHTTP2(true)
	m.client.Protocols.SetUnencryptedHTTP2(opt.HTTP2)
	for _, own := range []string{"/_mock", "/s", "/ui", "/pay"} {
		if opt.BasePath == own || strings.HasPrefix(opt.BasePath, own+"/") {
			return nil, fmt.Errorf("the base path cannot be %[1]s or below %[1]s, which is the mock server's own", own)
		}
	}
	var err error
	m.main, err = m.newSession("", opt)
	if err != nil {
		return nil, err
	}
	m.control, m.pages = m.controlHandler(), m.pagesHandler()
	return m, nil
}

// Close ends all sessions and their requests.
func (m *Mock) Close() {
	m.main.close()
	for _, s := range m.list() {
		s.close()
	}
	m.client.CloseIdleConnections()
}

// ServeHTTP handles a request to the interface, the control API or a page.
func (m *Mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, path := m.find(r.URL.Path)
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); {
	case s == nil:
		writeError(w, failure(http.StatusNotFound, "not_found", "name", "there is no such session"))
	case first == "_mock":
		m.control.ServeHTTP(w, s.within(r, path))
	case first == "ui", first == "pay", (path == "/" || path == "/favicon.ico") && r.Method != http.MethodPost:
		m.pages.ServeHTTP(w, s.within(r, path))
	default:
		s.serve(w, r)
	}
}

type epochKey struct{}

// within returns a copy of r with the path inside the session. Its context has the current epoch, for [epochOf].
func (s *session) within(r *http.Request, path string) *http.Request {
	r = r.Clone(context.WithValue(r.Context(), epochKey{}, s.current()))
	r.URL.Path, r.URL.RawPath = path, ""
	return r
}

func epochOf(r *http.Request) *epoch {
	e, _ := r.Context().Value(epochKey{}).(*epoch)
	return e
}

// find returns the session of a path and the path within it. The session is nil for an unknown name.
func (m *Mock) find(path string) (*session, string) {
	rest, named := strings.CutPrefix(path, "/s/")
	if !named {
		return m.main, path
	}
	name, below, _ := strings.Cut(rest, "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[name], "/" + below
}

func (m *Mock) list() []*session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.sessions), func(a, b *session) int { return strings.Compare(a.name, b.name) })
}

// Stopping makes /_mock/health respond with 503. Scheduled settlements are no longer applied.
func (m *Mock) Stopping() {
	for _, s := range append(m.list(), m.main) {
		s.current().clock.close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopping = true
}

// Drain waits until all requests to the interface and all notifications are complete. It returns an error if ctx ends
// first.
func (m *Mock) Drain(ctx context.Context) error {
	for _, s := range append(m.list(), m.main) {
		if err := s.current().journal.idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// session is a fake with a journal and its own address.
type session struct {
	name, prefix string
	mock         *Mock
	opt          Options
	idSpace      int64 // Config.IDSpace; 0 for the main session

	mu     sync.Mutex
	number int // the number of the current epoch
	epoch  *epoch
	to     receivers
	script []scripted
	chosen map[string]string // Options.Chosen, and the settings changed by the control API
}

// epoch is a session between two resets. Requests of an earlier epoch cannot change a later epoch.
type epoch struct {
	*session
	number  int
	fake    *paymentsvctest.Server
	journal *journal
	clock   *clock
	ctx     context.Context
	end     context.CancelFunc

	mu         sync.Mutex
	faults     []*fault
	faultCount int
}

func (m *Mock) newSession(name string, opt Options) (*session, error) {
	s := &session{name: name, mock: m, opt: opt, to: receivers{rest: opt.Notify}, chosen: map[string]string{}}
	maps.Copy(s.chosen, opt.Chosen)
	if name != "" { // different order_ids, because parallel sessions may notify one program
		s.prefix, s.idSpace = "/s/"+name, 1+rand.Int64N(999_999_999_999) //nolint:gosec // no secret
	}
	var err error
	s.script, err = parseScript(opt.Script)
	if err != nil {
		return nil, err
	}
	if err := cli.CheckAddress(opt.Notify); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	s.to.own, err = parseReceivers(opt.Receivers)
	if err != nil {
		return nil, err
	}
	s.epoch, err = s.newEpoch(0, 0)
	return s, err
}

// newEpoch starts an epoch without orders. Its numbers of orders and messages continue after lastOrder and lastMessage.
func (s *session) newEpoch(lastOrder, lastMessage int) (*epoch, error) {
	s.number++
	e := &epoch{session: s, number: s.number}
	e.ctx, e.end = context.WithCancel(context.Background())
	e.journal = newJournal(s.mock.budget, lastMessage, s.opt.Logf)
	e.clock = &clock{epoch: e}
	fake, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: s.opt.PartnerID, LastOrder: lastOrder, IDSpace: s.idSpace, Projects: s.opt.Projects, Scheme: s.opt.Scheme,
		BasePath: s.prefix + s.opt.BasePath, Pages: s.opt.Origin + s.prefix + "/pay/", Now: e.clock.stamp,
		Tolerance: s.opt.Tolerance, Repeated: s.opt.Repeated, ErrorCode: s.opt.ErrorCode, ErrorMessage: s.opt.ErrorMessage,
		SchemeText: s.opt.SchemeText, ExplainSignatures: true, Format: s.opt.format, Check: e.declined,
		OnStart: e.started, OnChecked: e.checked,
	})
	if err != nil {
		e.journal.close()
		return nil, err
	}
	e.fake = fake
	e.receive(s.to)
	return e, nil
}

func (s *session) current() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// reset replaces the epoch with an empty epoch. It returns the new epoch's number and the number of messages that the
// reset interrupted. After an error the session is closed.
func (s *session) reset() (number, cutOff int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.epoch
	if old.ctx.Err() != nil {
		return 0, 0, failure(http.StatusNotFound, "not_found", "name", "the session was deleted")
	}
	cutOff = old.journal.inFlight()
	old.close() // so that no order starts after the call of LastOrder
	fresh, err := s.newEpoch(old.fake.LastOrder(), old.journal.last())
	if err != nil {
		return 0, 0, err
	}
	s.epoch = fresh
	return fresh.number, cutOff, nil
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch.close()
}

func (e *epoch) close() {
	e.end()
	e.clock.close()
	e.fake.Close()
	e.journal.close()
}

// settings returns the settings that the control API can change.
func (s *session) settings() (to receivers, script []scripted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to, s.script
}

// change sets each setting that is not nil.
func (s *session) change(notify *string, own []receiver, script []scripted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if notify != nil {
		s.to.rest, s.chosen["notify"] = *notify, byControl
	}
	if own != nil {
		s.to.own, s.chosen["receiver"] = own, byControl
	}
	s.epoch.receive(s.to)
	if script != nil {
		s.script, s.chosen["script"] = script, byControl
	}
}
