package mock

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func getHealth(c *call) (int, any, error) {
	c.mock.mu.Lock()
	defer c.mock.mu.Unlock()
	if c.mock.stopping {
		return 0, nil, failure(http.StatusServiceUnavailable, "stopping", "", "the mock stops")
	}
	return http.StatusOK, map[string]any{"version": c.opt.Version, "sessions": len(c.mock.sessions)}, nil
}

// setting is a value and its origin.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	By    string `json:"by"`
}

// Values of setting.By, for a default of the mock server and for a setting from the control API.
const (
	byMock    = "mock"
	byControl = "control API"
)

// all returns the settings without secrets.
func (s *session) all() []setting {
	to, script := s.settings()
	tolerance := "any"
	if s.opt.Tolerance > 0 {
		tolerance = s.opt.Tolerance.String()
	}
	list := []setting{
		{"partner", fmt.Sprint(s.opt.PartnerID), ""},
		{"scheme", s.opt.SchemeText, ""},
		{"error_fields", s.opt.ErrorCode + "," + s.opt.ErrorMessage, ""},
		{"error_format", cmp.Or(s.opt.ErrorFormat, "fields"), ""},
		{"tolerance", tolerance, ""},
		{"repeated", behaviours[s.opt.Repeated], ""},
		{"notify", mask.Query(to.rest), ""},
		{"base_path", cmp.Or(s.opt.BasePath, "/"), ""},
		{"show_bodies", fmt.Sprint(s.opt.ShowBodies), ""},
	}
	for _, p := range s.opt.Projects {
		list = append(list, setting{"project", fmt.Sprint(p.ID), ""})
	}
	for _, own := range to.own {
		list = append(list, setting{"receiver", mask.Query(own.text), ""})
	}
	for _, line := range script {
		list = append(list, setting{"script", s.hide(line.text), ""})
	}
	s.mu.Lock()
	for i := range list {
		list[i].By = cmp.Or(s.chosen[list[i].Name], byMock)
	}
	s.mu.Unlock()
	return append(list, setting{"status_numbers", "PENDING 1/10, SUCCESS 2/20, FAILURE 3/30", byMock},
		setting{"error_statuses", "401 signature, 403 ids, 404 order, 409 repeated user_data, 422 refused", byMock})
}

func getSettings(c *call) (int, any, error) {
	return http.StatusOK, map[string]any{"settings": c.all()}, nil
}

type settingsIn struct {
	Notify    *string  `json:"notify"`
	Receivers []string `json:"receivers"`
	Script    []string `json:"script"`
}

func patchSettings(c *call, in settingsIn) (int, any, error) {
	if in.Notify != nil && cli.CheckAddress(*in.Notify) != nil {
		return 0, nil, invalid("notify", "notify: %s", cli.CheckAddress(*in.Notify))
	}
	script, err := parseScript(in.Script)
	if err != nil {
		return 0, nil, invalid("script", "%s", err)
	}
	own, err := parseReceivers(in.Receivers)
	if err != nil {
		return 0, nil, invalid("receivers", "%s", err)
	}
	c.change(in.Notify, own, script)
	return getSettings(c)
}

// sessionIn is a new session. A setting that is omitted or has an empty text gets the main session's value, but an
// empty Notify stays empty. With Notify, omitted Receivers are an empty list. If Name is empty, the mock server chooses
// a name.
type sessionIn struct {
	Name      string      `json:"name"`
	Projects  []projectIn `json:"projects"`
	Scheme    string      `json:"scheme"`
	Notify    *string     `json:"notify"`
	Receivers []string    `json:"receivers"`
	Repeated  string      `json:"repeated"`
	Tolerance string      `json:"tolerance"`
	Script    []string    `json:"script"`
}

// maxProjects limits the projects in a POST /sessions, because the memory grows with the square of their number.
const maxProjects = 100

type projectIn struct {
	ID        int64             `json:"id"`
	Secret    paymentsvc.Secret `json:"secret"`
	OldSecret paymentsvc.Secret `json:"old_secret"`
	Balance   string            `json:"balance"`
	Currency  string            `json:"currency"`
}

// behaviours are the names of the behaviours for a duplicate user_data.
var behaviours = []string{
	paymentsvctest.RejectRepeated: "reject", paymentsvctest.SameOrder: "same", paymentsvctest.NewOrder: "new",
}

// ParseRepeated parses the behaviour for a duplicate user_data: "reject", "same" or "new".
func ParseRepeated(text string) (paymentsvctest.Repeated, error) {
	i := slices.Index(behaviours, text)
	if i < 0 {
		return 0, errors.New("not reject, same or new")
	}
	return paymentsvctest.Repeated(i), nil
}

// inherited returns the current options of s, with the changes by the control API. A new session starts from them.
func (s *session) inherited() Options {
	s.mu.Lock()
	defer s.mu.Unlock()
	opt := s.opt
	opt.Notify, opt.Chosen = s.to.rest, maps.Clone(s.chosen)
	opt.Receivers = cli.Mapped(s.to.own, func(own receiver) string { return own.text })
	opt.Script = cli.Mapped(s.script, func(line scripted) string { return line.text })
	return opt
}

// options returns opt with the settings of the request.
func (in sessionIn) options(opt Options) (Options, error) {
	given := func(name string, isGiven bool) bool {
		if isGiven {
			opt.Chosen[name] = byControl
		}
		return isGiven
	}
	var err error
	if len(in.Projects) > maxProjects {
		return opt, invalid("projects", "projects: more than %d", maxProjects)
	}
	if given("project", in.Projects != nil) {
		opt.Projects = nil
	}
	for _, p := range in.Projects {
		next := paymentsvctest.Project{ID: p.ID, Secret: p.Secret, OldSecret: p.OldSecret, Currency: p.Currency}
		if p.Balance != "" {
			next.Balance, err = amount("balance", p.Balance)
			if err != nil {
				return opt, err
			}
		}
		opt.Projects = append(opt.Projects, next)
	}
	if given("scheme", in.Scheme != "") {
		opt.SchemeText = in.Scheme
		opt.Scheme, err = canonical.ParseScheme(in.Scheme)
		if err != nil {
			return opt, invalid("scheme", "%s", err)
		}
	}
	if given("notify", in.Notify != nil) {
		opt.Notify, opt.Receivers = *in.Notify, nil // the new session must not notify the main session's receivers
	}
	if given("receiver", in.Receivers != nil) {
		opt.Receivers = in.Receivers
	}
	if given("repeated", in.Repeated != "") {
		opt.Repeated, err = ParseRepeated(in.Repeated)
		if err != nil {
			return opt, invalid("repeated", "repeated: %s", err)
		}
	}
	if given("script", in.Script != nil) {
		opt.Script = in.Script
	}
	if given("tolerance", in.Tolerance != "") {
		if err := cli.Tolerance(in.Tolerance); err != nil {
			return opt, invalid("tolerance", "tolerance: %s", err)
		}
		opt.Tolerance, _ = time.ParseDuration(in.Tolerance) // 0 for "any"
	}
	return opt, err
}

type sessionOut struct {
	Name       string `json:"name"`
	BaseURL    string `json:"base_url"`
	ControlURL string `json:"control_url"`
	PageURL    string `json:"page_url"`
}

func (s *session) out() sessionOut {
	origin := s.opt.Origin + s.prefix
	return sessionOut{s.name, origin + s.opt.BasePath, origin + "/_mock", origin + "/ui/"}
}

func getSessions(c *call) (int, any, error) {
	return http.StatusOK, map[string]any{"sessions": cli.Mapped(c.mock.list(), (*session).out)}, nil
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func postSession(c *call, in sessionIn) (int, any, error) {
	if in.Name == "" {
		in.Name = c.mock.freeName()
	}
	if !validName.MatchString(in.Name) {
		return 0, nil, invalid("name", "name: not 1 to 64 letters, digits, - and _")
	}
	opt, err := in.options(c.inherited())
	if err != nil {
		return 0, nil, err
	}
	s, err := c.mock.newSession(in.Name, opt)
	if err != nil {
		return 0, nil, invalid("", "%s", trimmed(err))
	}
	c.mock.mu.Lock()
	defer c.mock.mu.Unlock()
	switch {
	case c.mock.sessions[in.Name] != nil:
		s.close()
		return 0, nil, failure(http.StatusConflict, "exists", "name",
			"the name is in use: omit the name for a new one, or delete the session first")
	case len(c.mock.sessions) >= c.opt.MaxSessions:
		s.close()
		return 0, nil, failure(http.StatusServiceUnavailable, "too_many", "",
			"there are %d sessions: delete one, or see -max-sessions", c.opt.MaxSessions)
	}
	c.mock.sessions[in.Name] = s
	return http.StatusCreated, s.out(), nil
}

func (m *Mock) freeName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		m.unnamed++
		if name := fmt.Sprint("s", m.unnamed); m.sessions[name] == nil {
			return name
		}
	}
}

func deleteSession(c *call) (int, any, error) {
	name := c.r.PathValue("name")
	c.mock.mu.Lock()
	s := c.mock.sessions[name]
	delete(c.mock.sessions, name)
	c.mock.mu.Unlock()
	if s == nil {
		return 0, nil, failure(http.StatusNotFound, "not_found", "name", "there is no such session")
	}
	s.close()
	return http.StatusNoContent, nil, nil
}
