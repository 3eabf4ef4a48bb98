package mock

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// fault is a rule of the fake, with its filter and the requests that it selected.
type fault struct {
	ID    int
	In    faultIn
	rule  *paymentsvctest.Rule
	which paymentsvctest.Which

	// The fake holds its lock while it calls strike, so never call the fake with e.mu held.
	struck []int
	hold   chan struct{} // closed by release; nil after release and for other faults
}

// onNotifications is the "on" of a fault for all events.
const onNotifications = "notifications"

// faultIn is a new fault in JSON.
type faultIn struct {
	On    string `json:"on"` // an endpoint, an event, "" for all requests, "notifications" for all events
	Which string `json:"which"`
	N     int    `json:"n"` // for first and nth; 0 means 1
	Fault string `json:"fault"`
	Where filter `json:"where"`
}

// faultGroup is a list of faults for the form on the page and for error texts.
type faultGroup struct {
	Of     string
	Faults []faultChoice
}

// faultChoice is a fault and the syntax of its arguments, see [paymentsvctest.ParseFault] and
// [paymentsvctest.ParseNotificationFault].
type faultChoice struct{ Name, Arguments string }

var (
	faultChoices  = []faultGroup{requestFaults, notificationFaults}
	requestFaults = faultGroup{"Requests", []faultChoice{
		{"drop", "before|after"}, {"hang", "before|after"}, {"hold", "before|after"}, {"late-commit", "QUERIES"},
		{"bad-gateway", "before|after"},
		{"too-many-requests", "before|after DURATION"}, {"reject", "STATUS CODE MESSAGE"},
		{"answer", "before|after STATUS TYPE BODY"}, {"redirect", "before|after ADDRESS"}, {"reset", ""},
		{"cut", "BYTES"}, {"cut-chunked", "BYTES"}, {"cut-unframed", "BYTES"}, {"cut-header", "BYTES"},
		{"slow", "DURATION"}, {"wrong-shape", ""}, {"wrong-date", "DURATION"}, {"oversized", "BYTES"}, {"gzip-bomb", "BYTES"},
	}}
	notificationFaults = faultGroup{"Notifications", []faultChoice{
		{"forged", ""}, {"unsigned", ""}, {"altered", ""}, {"late", "[DURATION]"}, {"early", "[DURATION]"},
		{"repeated", "[DUPLICATES]"}, {"cut", "[BYTES]"}, {oldSecret, ""}, {"lost", ""}, {"delayed", "DELIVERIES"},
		{"reordered", ""},
	}}
)

// faultOut is a fault in JSON.
type faultOut struct {
	ID     int    `json:"id"`
	On     string `json:"on"`
	Which  string `json:"which"`
	Fault  string `json:"fault"`
	Hits   int    `json:"hits"`
	Struck []int  `json:"struck"` // the message numbers of the selected requests; empty for notifications
}

func (e *epoch) faultOut(f *fault) faultOut {
	e.mu.Lock()
	struck := append([]int{}, f.struck...)
	e.mu.Unlock()
	return faultOut{f.ID, f.In.On, f.which.String(), e.hide(f.In.Fault), f.rule.Hits(), struck}
}

func endpoints() []string {
	return []string{
		paymentsvctest.InitPayment, "init_payment/card", "init_payment/sbp", "init_payment/crypto", "init_payment/mc",
		paymentsvctest.StatusPayment, paymentsvctest.InitPayout, paymentsvctest.StatusPayout,
		paymentsvctest.InitForm, paymentsvctest.InitInvoice, paymentsvctest.GetBalance,
	}
}

// inJSON replaces the Go names in errors of the fake with the names of the control API.
var inJSON = strings.NewReplacer("paymentsvctest: ", "", "paymentsvc: ", "", "HMACConfig: ", "", "Config: ", "",
	"invalid request: ", "", " of Projects", "", "Projects: ", "projects: ", "ID: ", "id: ", "OldSecret: ", "old_secret: ",
	"same as Secret", "same as secret", "Secret: ", "secret: ", ", or set SecretEndsInLineBreak", "")

func trimmed(err error) string { return inJSON.Replace(err.Error()) }

func (e *epoch) addFault(given faultIn) (*fault, error) {
	f := &fault{In: given}
	if err := e.only(&given.Where); err != nil {
		return nil, err
	}
	n := max(given.N, 1)
	switch given.Which {
	case "every", "":
		if given.N > 0 {
			return nil, invalid("n", "n: only for first and nth")
		}
		f.which = paymentsvctest.Every()
	case "first":
		f.which = paymentsvctest.First(n)
	case "nth":
		f.which = paymentsvctest.Nth(n)
	default:
		return nil, invalid("which", "which: not every, first or nth")
	}
	if given.N < 0 {
		return nil, invalid("n", "n: not a number from 1 on")
	}
	e.mu.Lock()
	e.faultCount++
	f.ID = e.faultCount
	e.mu.Unlock()
	isEvent := slices.Contains(Events(), given.On)
	switch {
	case isEvent || given.On == onNotifications:
		parsed, err := paymentsvctest.ParseNotificationFault(given.Fault)
		if err != nil {
			return nil, invalid("fault", "%s", notificationFaults.wantForm(given.Fault, err))
		}
		if parsed.String() == oldSecret && !e.hasOldSecret(given.Where.ProjectID) {
			return nil, errNoOldSecret("fault")
		}
		event := paymentsvc.EventType("")
		if isEvent {
			event = paymentsvc.EventType(given.On)
		}
		f.rule = e.fake.FaultNotificationsWhere(event, func(n paymentsvctest.Notification) bool {
			return given.Where.fits(n.ProjectID, n.UserData, n.OrderID)
		}, f.which, parsed)
	case given.On != "" && !slices.Contains(endpoints(), given.On):
		return nil, invalid("on", "on: no such endpoint or event; want notifications or one of %s",
			strings.Join(append(endpoints(), Events()...), ", "))
	default:
		parsed, err := f.parse()
		if err != nil {
			return nil, err
		}
		strike := func(r *http.Request) { e.strike(f, messageOf(r.Context())) }
		f.rule = e.fake.FaultWhere(given.On, f.fits, strike, f.which, parsed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, f)
	return f, nil
}

// parse parses a fault of requests. "hold before" and "hold after" last until [epoch.release].
func (f *fault) parse() (paymentsvctest.Fault, error) {
	when, holds := strings.CutPrefix(f.In.Fault, "hold ")
	if holds && (when == "before" || when == "after") {
		f.hold = make(chan struct{})
		if when == "after" {
			return paymentsvctest.Hold(paymentsvctest.AfterCommit, f.hold), nil
		}
		return paymentsvctest.Hold(paymentsvctest.BeforeCommit, f.hold), nil
	}
	parsed, err := paymentsvctest.ParseFault(f.In.Fault)
	if err != nil || parsed.String() == "refuse" { // a server cannot refuse the connection of one request
		return parsed, invalid("fault", "%s", requestFaults.wantForm(f.In.Fault, err))
	}
	return parsed, nil
}

// wantForm returns an error text for a fault: the text of err and the fault's syntax, or the names of all faults of the
// group if the fault is not one of them.
func (g faultGroup) wantForm(fault string, err error) string {
	name, _, _ := strings.Cut(fault, " ")
	if i := slices.IndexFunc(g.Faults, func(f faultChoice) bool { return f.Name == name }); i >= 0 {
		return strings.TrimRight(trimmed(err)+"; the form is "+name+" "+g.Faults[i].Arguments, " ")
	}
	names := cli.Mapped(g.Faults, func(f faultChoice) string { return f.Name })
	return fmt.Sprintf("not a fault of the mock server: %q; want one of %s", name, strings.Join(names, ", "))
}

const oldSecret = "old-secret"

// hasOldSecret reports whether a project has an old secret. 0 means any project.
func (e *epoch) hasOldSecret(project int64) bool {
	return slices.ContainsFunc(e.opt.Projects, func(p paymentsvctest.Project) bool {
		return (project == 0 || project == p.ID) && p.OldSecret != ""
	})
}

func errNoOldSecret(field string) error {
	return invalid(field, "%s: %s needs -old-secret-file, or old_secret of the session's project", field, oldSecret)
}

// fits reports whether a request meets the condition of the fault.
func (f *fault) fits(r *http.Request) bool {
	about := messageOf(r.Context()).Fields
	return f.In.Where.fits(about.ProjectID, about.UserData, about.OrderID)
}

// strike records a request that a fault selected, even if the fault then has no effect.
func (e *epoch) strike(f *fault, m *message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.struck = append(f.struck, m.Seq)
	e.journal.update(m, func(m *message) { m.Faults = append(m.Faults, f.ID) })
}

// ruleFor returns the first fault whose event and filter match n, or nil. It ignores the fault's "which".
func (e *epoch) ruleFor(n paymentsvctest.Notification) *fault {
	for _, f := range e.listFaults() {
		onIt := f.In.On == onNotifications || f.In.On == string(n.Event)
		if onIt && f.In.Where.fits(n.ProjectID, n.UserData, n.OrderID) {
			return f
		}
	}
	return nil
}

func (e *epoch) listFaults() []*fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.faults)
}

func (e *epoch) faultByID(id int) (*fault, error) {
	for _, f := range e.listFaults() {
		if f.ID == id {
			return f, nil
		}
	}
	return nil, failure(http.StatusNotFound, "not_found", "id", "there is no such fault")
}

// removeFault removes a fault and releases its held requests.
func (e *epoch) removeFault(f *fault) {
	f.rule.Remove()
	e.release(f)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = slices.DeleteFunc(e.faults, func(other *fault) bool { return other == f })
}

func (e *epoch) release(f *fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.hold != nil {
		close(f.hold)
		f.hold = nil
	}
}

func (e *epoch) clearFaults() {
	for _, f := range e.listFaults() {
		e.removeFault(f)
	}
}

func getFaults(c *call) (int, any, error) {
	return http.StatusOK, map[string]any{"faults": cli.Mapped(c.listFaults(), c.faultOut)}, nil
}

func postFault(c *call, given faultIn) (int, any, error) {
	f, err := c.addFault(given)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.faultOut(f), nil
}

// withFault returns a [route.handle] that passes the fault in the path to do, and responds with this fault.
func withFault(status int, do func(*call, *fault)) func(*call) (int, any, error) {
	return func(c *call) (int, any, error) {
		id, err := c.number("id")
		if err := cmp.Or(err, c.decode(new(struct{}))); err != nil {
			return 0, nil, err
		}
		f, err := c.faultByID(id)
		if err != nil {
			return 0, nil, err
		}
		do(c, f)
		return status, c.faultOut(f), nil
	}
}

func deleteFaults(c *call) (int, any, error) {
	c.clearFaults()
	return http.StatusNoContent, nil, nil
}
