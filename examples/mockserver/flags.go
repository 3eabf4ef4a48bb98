package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/internal/schemeflag"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// What holds where no flag says otherwise. The interface document shows none of it.
const (
	demoSecret      = "secret-of-the-mockserver-example"
	demoPartnerID   = 1001
	demoProjectID   = 2002
	demoScheme      = `hex(timestamp "." body)`
	demoErrorFields = "error_code,error_message"
)

// Marks of what the interface document does not show.
const (
	mockChoice = "this mock's choice"
	yourChoice = "your choice"
)

// settings are the parsed flags.
type settings struct {
	Addr, BasePath       string
	Notify               string
	PartnerID, ProjectID int64
	Scheme               string
	ErrorFields          string
	Balance              paymentsvc.Amount
	Tolerance, Grace     time.Duration
	// Who chose it: mockChoice or yourChoice.
	SchemeBy, ErrorFieldsBy, ToleranceBy string

	scheme                  paymentsvc.Scheme
	secret, oldSecret       paymentsvc.Secret
	demo                    bool // the secret is this example's
	errorCode, errorMessage string
}

const usage = `Usage: mockserver [flags]

Serves the Payment Service Partner Interface for tests, and a page for people at /ui/. What the interface document
does not show has a default that is this mock's choice: say with -scheme how your service signs.

`

// readFlags returns the settings, or nil and the exit status.
func readFlags(args []string, stderr io.Writer) (*settings, int) {
	set := &settings{}
	flags := flag.NewFlagSet("mockserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&set.Addr, "addr", "127.0.0.1:8080", "`address` to listen at; port 0 takes a free one, which the output names")
	flags.StringVar(&set.BasePath, "base-path", "/", "`path` of the endpoints; it can't be that of the page, /ui")
	flags.StringVar(&set.Notify, "notify", "", "`address` that notifications are sent to, when an order is settled or a button pressed")
	flags.Int64Var(&set.PartnerID, "partner", demoPartnerID, "partner `id`")
	flags.Int64Var(&set.ProjectID, "project", demoProjectID, "project `id`")
	secretFile := flags.String("secret-file", "", schemeflag.SecretFileUsage+"\n(without it: a demo secret, which is in this example's source)")
	oldSecretFile := flags.String("old-secret-file", "", "`file` with the key before a rotation: what is signed with it is rejected, with that reason")
	flags.StringVar(&set.Scheme, "scheme", demoScheme, schemeflag.SchemeUsage)
	flags.StringVar(&set.ErrorFields, "error-fields", demoErrorFields, schemeflag.ErrorFieldsUsage)
	flags.TextVar(&set.Balance, "balance", paymentsvc.MustParseAmount("0"), "`amount` of the payout balance to begin with")
	flags.DurationVar(&set.Tolerance, "tolerance", 0, "how far a request's timestamp may be from the clock; 0 accepts every age")
	flags.DurationVar(&set.Grace, "grace", 5*time.Second, "how long requests may still take after SIGINT or SIGTERM")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0
	case err != nil:
		return nil, 2
	}
	by := func(name string) string {
		choice := mockChoice
		flags.Visit(func(f *flag.Flag) {
			if f.Name == name {
				choice = yourChoice
			}
		})
		return choice
	}
	set.SchemeBy, set.ErrorFieldsBy, set.ToleranceBy = by("scheme"), by("error-fields"), by("tolerance")
	if err := set.complete(flags.Args(), *secretFile, *oldSecretFile); err != nil {
		_, _ = fmt.Fprintln(stderr, "mockserver:", err)
		return nil, 2
	}
	return set, 0
}

// complete reads texts and files.
func (set *settings) complete(rest []string, secretFile, oldSecretFile string) error {
	set.BasePath = strings.TrimRight(set.BasePath, "/")
	switch {
	case len(rest) > 0:
		return errors.New("only flags are understood; -help lists them")
	case isPage(set.BasePath):
		return errors.New("-base-path: /ui is the page")
	case set.Grace < 0:
		return errors.New("-grace is negative")
	}
	if err := checkReceiver(set.Notify); err != nil {
		return fmt.Errorf("-notify: %w", err)
	}
	var err error
	if set.errorCode, set.errorMessage, err = schemeflag.ErrorFields(set.ErrorFields); err != nil {
		return err
	}
	secret := paymentsvc.Secret(demoSecret)
	if set.demo = secretFile == ""; !set.demo {
		if secret, err = schemeflag.ReadSecret("-secret-file", secretFile); err != nil {
			return err
		}
	}
	if oldSecretFile != "" {
		old, err := schemeflag.ReadSecret("-old-secret-file", oldSecretFile)
		if err != nil {
			return err
		}
		if _, set.oldSecret, err = schemeflag.Scheme(set.Scheme, old); err != nil {
			return fmt.Errorf("-old-secret-file: %w", err)
		}
	}
	set.scheme, set.secret, err = schemeflag.Scheme(set.Scheme, secret)
	return err
}

// isPage reports whether a path belongs to the page.
func isPage(path string) bool { return path == "/ui" || strings.HasPrefix(path, "/ui/") }

func checkReceiver(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("not an address")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("not an http or https address without a user and a fragment")
	}
	return nil
}

// receiver returns the address of notifications without its query, which may hold a token.
func (set *settings) receiver() string {
	address, _, query := strings.Cut(set.Notify, "?")
	if query {
		return address + "?..."
	}
	return address
}

func (set *settings) config() paymentsvctest.Config {
	return paymentsvctest.Config{
		PartnerID:    set.PartnerID,
		Projects:     []paymentsvctest.Project{{ID: set.ProjectID, Secret: set.secret, OldSecret: set.oldSecret, Balance: set.Balance}},
		Scheme:       set.scheme,
		BasePath:     set.BasePath,
		Tolerance:    set.Tolerance,
		ErrorCode:    set.errorCode,
		ErrorMessage: set.errorMessage,
	}
}
