package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Defaults of the in-process server. They do not apply with -base-url, because the interface document does not specify
// the values of the service.
const (
	demoSecret      = "secret-of-the-in-process-server"
	demoPartnerID   = 1001
	demoProjectID   = 2002
	demoScheme      = `hex(timestamp "." body)`
	demoErrorFields = "error_code,error_message"
	tolerance       = 5 * time.Minute // for timestamps of requests and notifications
)

// settings are the parsed flags.
type settings struct {
	InProcess            bool
	BaseURL              string
	PartnerID, ProjectID int64
	Secret               paymentsvc.Secret
	SchemeText           string
	Scheme               paymentsvc.Scheme
	DecodeError          paymentsvc.ErrorDecoder
}

const usage = `Usage: quickstart [flags]

Without flags it calls a fake of the service in this process. With -base-url it STARTS TWO PAYMENTS, A FORM, AN INVOICE
AND A PAYOUT at the server given, so use a test or mock server; -partner, -project, -secret-file and -scheme are then
required, since the interface document shows no canonical string and no encoding.

`

// readFlags returns the settings, or nil and the exit status.
func readFlags(args []string, stderr io.Writer) (*settings, int) {
	set := &settings{}
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&set.BaseURL, "base-url", "", "`address` of a test or mock server: https, or http on loopback")
	flags.Int64Var(&set.PartnerID, "partner", 0, "partner `id`")
	flags.Int64Var(&set.ProjectID, "project", 0, "project `id`")
	secretFile := flags.String("secret-file", "", "`file` with the project secret key; a line end after it is not part of it")
	flags.StringVar(&set.SchemeText, "scheme", "", "how messages are signed, as `text` such as "+demoScheme+", which is that of the\n"+
		"in-process server; docs/signing.md lists the names")
	errorFields := flags.String("error-fields", "", "`names` of the fields that hold an error's code and message in an answer, such as\n"+
		demoErrorFields+", which is what the in-process server has")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0
	case err != nil:
		return nil, 2
	}
	if err := set.complete(flags.Args(), *secretFile, *errorFields); err != nil {
		_, _ = fmt.Fprintln(stderr, "quickstart:", err)
		return nil, 2
	}
	return set, 0
}

// complete sets the defaults of the in-process server, and reads files and texts.
func (set *settings) complete(rest []string, secretFile, errorFields string) error {
	if len(rest) > 0 {
		return errors.New("only flags are understood; -help lists them")
	}
	set.InProcess = set.BaseURL == ""
	if set.InProcess {
		set.PartnerID = cmp.Or(set.PartnerID, demoPartnerID)
		set.ProjectID = cmp.Or(set.ProjectID, demoProjectID)
		set.SchemeText = cmp.Or(set.SchemeText, demoScheme)
		set.Secret = demoSecret
		if errorFields != "" {
			return errors.New("-error-fields is for -base-url; the in-process server has " + demoErrorFields)
		}
		errorFields = demoErrorFields
	}
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"-partner", set.PartnerID == 0},
		{"-project", set.ProjectID == 0},
		{"-secret-file", secretFile == "" && !set.InProcess},
		{"-scheme", set.SchemeText == ""},
	} {
		if required.missing {
			return errors.New(required.name + " is required with -base-url; -help says why")
		}
	}

	var err error
	if secretFile != "" {
		text, err := os.ReadFile(secretFile) //nolint:gosec // the file is the user's to name
		if err != nil {
			return fmt.Errorf("-secret-file: %w", err)
		}
		if set.Secret = paymentsvc.Secret(strings.TrimRight(string(text), "\r\n")); set.Secret == "" {
			return errors.New("-secret-file: the file is empty")
		}
	}
	if errorFields != "" {
		code, message, both := strings.Cut(errorFields, ",")
		if !both {
			return errors.New("-error-fields wants two names with a comma between them")
		}
		set.DecodeError = paymentsvc.ErrorFields(code, message)
	}
	if set.Scheme, set.Secret, err = canonical.ParseSchemeWith(set.SchemeText, set.Secret); err != nil {
		return fmt.Errorf("-scheme: %s", strings.TrimPrefix(err.Error(), "scheme: "))
	}
	return nil
}
