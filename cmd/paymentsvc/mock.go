package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mock"
	"github.com/paymentsvc/paymentsvc/internal/transport"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The defaults of this command. The interface document does not specify them.
const (
	mockSecret = "secret-of-the-mock"
	mockScheme = `hex(timestamp "." body)`
	byMock     = "mock" // the origin of the default secret, in /_mock/settings and the ready file
)

func mockCommand() cli.Command {
	return cli.Command{
		Name:    "mock",
		Summary: "Run a mock of the service with a control API, a payment page and a page for testers",
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "cacert", "http2", "partner",
			"project", "tolerance", "timeout", "v"),
			cli.NewFlag("addr", cli.Text, "HOST:PORT", "address to listen on; port 0 is a free port").
				With("localhost:8080").Checked(cli.HostPort),
			cli.NewFlag("notify", cli.Address, "URL", "receiver of notifications"),
			cli.NewFlag("receiver", cli.List, "TEXT", "receiver for a project or event: 'project_id=7: http://...'"),
			cli.NewFlag("script", cli.List, "TEXT", "scripted outcome, such as 'user_data=slow-*: SUCCESS after 2s'"),
			cli.NewFlag("balance", cli.Text, "AMOUNT", "payout balance to begin with").With("0").Checked(cli.Amount),
			cli.NewFlag("projects", cli.JSON, "", ""),
			cli.NewFlag("error-fields", cli.Text, "NAMES", "fields of an error's code and message").
				With("error_code,error_message").Checked(isPair),
			cli.NewFlag("error-format", cli.Choice, "FORMAT", strings.Join(mock.ErrorFormats(), ", ")).
				With("fields").Among(mock.ErrorFormats()...),
			cli.NewFlag("repeated", cli.Choice, "WHAT", "response to a duplicate user_data: reject, same or new").
				With("reject").Among("reject", "same", "new"),
			cli.NewFlag("base-path", cli.Text, "PATH", "path of the endpoints").Checked(isBasePath),
			cli.NewFlag("public", cli.Address, "URL", "public origin of the mock, for redirect_url").
				Checked(cli.Origin),
			cli.NewFlag("hosts", cli.Text, "NAMES", "host names of the mock besides localhost, separated by commas").
				Checked(cli.HostNames),
			cli.NewFlag("show-bodies", cli.Bool, "", "show card data and destinations in messages"),
			cli.NewFlag("journal", cli.Int, "MIB", "memory for the messages").With("64").Checked(cli.Between(1, 1<<20)),
			cli.NewFlag("max-sessions", cli.Int, "N", "maximum number of sessions").
				With("100").Checked(cli.Between(1, 1<<20)),
			cli.NewFlag("tls-cert", cli.File, "FILE", "serve https with a new certificate, written to FILE").
				Checked(cli.Written),
			cli.NewFlag("ready-file", cli.File, "FILE", "file for the addresses, written when the mock is ready").
				Checked(cli.Written),
			cli.NewFlag("grace", cli.Duration, "DURATION", "time for requests in flight after SIGTERM").With("5s"),
			cli.NewFlag("wait", cli.Address, "URL", "wait for the mock at URL instead of starting a mock").OnLine(),
		),
		Notes: "/_mock/openapi.json describes the control API, and /_mock/settings lists the mock's own choices. /ui/ is\n" +
			"the page for testers. In the settings file, mock.projects lists more projects, each with id and secret_file.",
		Examples: []string{
			"paymentsvc mock -notify http://127.0.0.1:9000/notifications",
			"paymentsvc mock -addr 127.0.0.1:0 -ready-file mock.json -script 'amount=13.13: DECLINED'",
			"paymentsvc mock -wait http://127.0.0.1:8080 -timeout 10s",
		},
		Run: runMock,
	}
}

func isBasePath(text string) error {
	isPath := (text == "" || strings.HasPrefix(text, "/")) && !strings.ContainsAny(text, "?#%")
	return cli.Want(isPath, "want a path that begins with a slash, without ?, # and %")
}

// isPair accepts the field names of a code and a message, separated by a comma. The second name may be empty.
func isPair(text string) error {
	code, _, both := strings.Cut(text, ",")
	return cli.Want(both && code != "", "want two names, separated by a comma")
}

func runMock(ctx context.Context, c *cli.Call) error {
	if c.Text("wait") != "" {
		return waitForMock(ctx, c)
	}
	opt, err := mockOptions(c)
	if err != nil {
		return err
	}
	listeners, err := cli.Listen(ctx, c.Text("addr"))
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners { // cli.Serve has closed them, except after an earlier error
			_ = l.Close()
		}
	}()
	base := cli.BaseURL(listeners)
	if c.Set("tls-cert") {
		var certificate []byte
		listeners, certificate, err = cli.Secure(listeners, opt.Hosts, c.Now())
		if err != nil {
			return err
		}
		if err := c.ReplaceFile("tls-cert", certificate); err != nil {
			return err
		}
		base = strings.Replace(base, "http://", "https://", 1)
	}
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	opt.Origin, opt.Stop = cmp.Or(strings.TrimRight(c.Text("public"), "/"), base), stop
	m, err := mock.New(opt)
	if err != nil {
		return cli.Usagef("%s", strings.ReplaceAll(err.Error(), "paymentsvctest: ", ""))
	}
	defer m.Close()
	if err := printReady(c, opt, base); err != nil {
		return err
	}
	return serveMock(ctx, stopped, c, m, listeners)
}

// serveMock serves until the context stopped ends, and then waits at most -grace for requests in flight. The end of
// -timeout is an error.
func serveMock(ctx, stopped context.Context, c *cli.Call, m *mock.Mock, listeners []net.Listener) error {
	grace := c.Duration("grace")
	drained := make(chan error, 1)
	go func() {
		<-stopped.Done()
		m.Stopping()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := m.Drain(limit)
		if err != nil {
			err = fmt.Errorf("cut off requests in flight after %s, such as requests that hang on purpose", grace)
			m.Close() // ends hanging requests
		}
		drained <- err
	}()
	err := cli.Serve(stopped, cli.NewServer(m), listeners, grace+time.Second)
	if err == nil {
		err = <-drained
	}
	if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // a signal is not an error
		return cli.Ended(ctx)
	}
	return err
}

// mockOptions converts the settings to options. runMock sets Origin and Stop.
func mockOptions(c *cli.Call) (mock.Options, error) {
	opt := mock.Options{
		PartnerID: cmp.Or(c.Int("partner"), 1001), BasePath: strings.TrimRight(c.Text("base-path"), "/"),
		Notify: c.Text("notify"), Receivers: c.List("receiver"), HTTP2: c.Bool("http2"), Script: c.List("script"),
		ErrorFormat: c.Text("error-format"), ShowBodies: c.Bool("show-bodies"),
		Tolerance:    c.Duration("tolerance"), // 0 for "any", and without -tolerance
		JournalBytes: int(c.Int("journal")) << 20, MaxSessions: int(c.Int("max-sessions")), Chosen: chosen(c),
	}
	opt.ErrorCode, opt.ErrorMessage, _ = strings.Cut(c.Text("error-fields"), ",")
	opt.Repeated, _ = mock.ParseRepeated(c.Text("repeated")) // the flag rejects other values
	if c.Text("hosts") != "" {
		opt.Hosts = strings.Split(c.Text("hosts"), ",")
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		opt.Version = build.Main.Version
	}
	if c.Bool("v") {
		opt.Logf = func(format string, args ...any) {
			line := fmt.Sprintf(format, args...)
			c.Print("message", cli.Fields{"message": line}, line)
		}
	}
	var err error
	opt.Trust, err = c.ClientTLS()
	if err != nil {
		return opt, err
	}
	if err := mock.CheckScript(opt.Script); err != nil {
		return opt, c.Fail("script", "%w", err)
	}
	if err := mock.CheckReceivers(opt.Receivers); err != nil {
		return opt, c.Fail("receiver", "%w", err)
	}
	return opt, mockProjects(c, &opt)
}

// chosen returns the origin of each listed setting set by a flag, a variable or the settings file. It omits the secret.
func chosen(c *cli.Call) map[string]string {
	origins := map[string]string{}
	for _, name := range []string{
		"partner", "project", "scheme", "tolerance", "notify", "receiver", "script", "error-fields", "error-format",
		"repeated", "base-path", "show-bodies",
	} {
		if c.Set(name) {
			origins[strings.ReplaceAll(name, "-", "_")] = c.Value(name).Origin
		} else if name == "scheme" && c.Set("scheme-file") {
			origins[name] = c.Value("scheme-file").Origin
		}
	}
	return origins
}

// mockProjects sets the scheme, the project of the shared settings, and further projects of the settings file in opt.
func mockProjects(c *cli.Call, opt *mock.Options) error {
	var err error
	opt.SchemeText = mockScheme
	if c.Set("scheme") || c.Set("scheme-file") {
		text, _, err := c.SchemeText()
		if err != nil {
			return err
		}
		opt.SchemeText, _ = cutSeen(text)
	}
	first := paymentsvctest.Project{ID: cmp.Or(c.Int("project"), 2002), Secret: mockSecret}
	first.Balance, _ = paymentsvc.ParseAmount(c.Text("balance")) // cli.Amount has checked it
	opt.Chosen["secret"] = byMock
	if c.Set("secret-file") {
		opt.Chosen["secret"] = c.Value("secret-file").Place()
		first.Secret, err = c.Secret()
		if err != nil {
			return err
		}
	}
	first.OldSecret, err = c.OldSecret()
	if err != nil {
		return err
	}
	opt.Projects = []paymentsvctest.Project{first}
	if err := moreProjects(c, opt); err != nil {
		return err
	}
	if opt.Projects[0].Secret == mockSecret {
		c.Note("no -secret-file: the mock uses its own secret, which is public in docs/mock.md")
	}
	for i := range opt.Projects {
		p := &opt.Projects[i]
		opt.Scheme, p.Secret, err = canonical.ParseSchemeWith(opt.SchemeText, p.Secret)
		if err != nil {
			return c.Fail("scheme", "%s", strings.TrimPrefix(err.Error(), "scheme: "))
		}
		if p.OldSecret == "" {
			continue
		}
		_, p.OldSecret, err = canonical.ParseSchemeWith(opt.SchemeText, p.OldSecret)
		if err != nil {
			return c.Fail("old-secret-file", "%s", strings.TrimPrefix(err.Error(), "scheme: "))
		}
	}
	if _, err := canonical.ParseScheme(opt.SchemeText); err != nil && len(opt.Projects) > 1 {
		return c.Fail("projects", "the scheme contains the secret, so only one project can use this scheme")
	}
	return nil
}

func moreProjects(c *cli.Call, opt *mock.Options) error {
	var list []struct {
		ID            int64  `json:"id"`
		SecretFile    string `json:"secret_file"`
		OldSecretFile string `json:"old_secret_file"`
		Balance       string `json:"balance"`
		Currency      string `json:"currency"`
	}
	if _, err := c.JSON("projects", &list); err != nil {
		return err
	}
	for _, given := range list {
		p := paymentsvctest.Project{ID: given.ID, Currency: given.Currency}
		switch {
		case given.ID < 1:
			return c.Fail("projects", "id: want a whole number, at least 1")
		case given.SecretFile == "":
			return c.Fail("projects", "project %d: secret_file: not set", given.ID)
		}
		var err error
		p.Secret, err = c.ReadSecret("mock.projects: secret_file", c.Beside("projects", given.SecretFile))
		if err != nil {
			return err
		}
		if given.OldSecretFile != "" {
			file := c.Beside("projects", given.OldSecretFile)
			p.OldSecret, err = c.ReadSecret("mock.projects: old_secret_file", file)
			if err != nil {
				return err
			}
		}
		p.Balance, err = paymentsvc.ParseAmount(cmp.Or(given.Balance, "0"))
		if err != nil {
			return c.Fail("projects", "balance: want a string with a decimal number")
		}
		opt.Projects = append(opt.Projects, p)
	}
	return nil
}

// ready has the addresses and ids of a listening mock server, for programs.
type ready struct {
	BaseURL    string `json:"base_url"`
	ControlURL string `json:"control_url"`
	PageURL    string `json:"page_url"`
	PartnerID  int64  `json:"partner_id"`
	ProjectID  int64  `json:"project_id"`
	PID        int    `json:"pid"`
	SecretFrom string `json:"secret_from"` // a flag, a variable, a place in the settings file, or byMock
}

func printReady(c *cli.Call, opt mock.Options, base string) error {
	r := ready{
		BaseURL: base + opt.BasePath, ControlURL: base + "/_mock", PageURL: base + "/ui/", PartnerID: opt.PartnerID,
		ProjectID: opt.Projects[0].ID, PID: os.Getpid(), SecretFrom: opt.Chosen["secret"],
	}
	if c.Text("ready-file") != "" {
		text, _ := json.Marshal(r) // encoding strings and numbers never fails
		if err := c.ReplaceFile("ready-file", append(text, '\n')); err != nil {
			return err
		}
	}
	from := r.SecretFrom
	if from == byMock {
		from = "the mock's own"
	}
	c.Print("ready", r, fmt.Sprintf("ready  %s  page /ui/  control /_mock  partner %d  project %d  secret: %s",
		r.BaseURL, r.PartnerID, r.ProjectID, from))
	c.Note("the interface document leaves choices open: /_mock/settings lists the choices of the mock and yours")
	if u, err := url.Parse(base); err == nil {
		if addr, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && !addr.IsLoopback() {
			c.Note("other machines can reach this address, and use the page and the control API " +
				"without a password")
		}
	}
	return nil
}

// waitForMock polls a mock server until the server is ready, the server rejects the host name, or ctx ends.
func waitForMock(ctx context.Context, c *cli.Call) error {
	base := c.Address("wait")
	health := base.JoinPath("_mock", "health").String()
	trust, err := c.ClientTLS()
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: newTransport(trust)}
	last := "none" // why the last attempt failed
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			var answer struct{ Sessions *int }
			wrong := json.NewDecoder(io.LimitReader(resp.Body, 4<<10)).Decode(&answer)
			_ = resp.Body.Close() // the body is read
			if resp.StatusCode == http.StatusOK && wrong == nil && answer.Sessions != nil {
				c.Print("ready", cli.Fields{"base_url": c.Text("wait")}, "ready  "+c.Text("wait"))
				return nil
			}
			if resp.StatusCode == http.StatusMisdirectedRequest {
				return &cli.ExitError{Code: cli.ExitNo, Err: fmt.Errorf(
					"the mock at %s does not accept this host name: start it with -hosts %s", base.Host, base.Hostname())}
			}
			last = fmt.Sprintf("HTTP %d, but not from a ready mock server", resp.StatusCode)
		} else if ctx.Err() == nil {
			last = reason(err)
		}
		if transport.Wait(ctx, 50*time.Millisecond) != nil {
			c.Note("the last attempt: %s", last)
			return cli.Ended(ctx)
		}
	}
}
