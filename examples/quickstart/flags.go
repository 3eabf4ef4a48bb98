package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/internal/schemeflag"
)

// Defaults of the in-process server. The interface document shows none of them, so with -base-url the flags must.
const (
	demoSecret      = "secret-of-the-in-process-server"
	demoPartnerID   = 1001
	demoProjectID   = 2002
	demoScheme      = `hex(timestamp "." body)`
	demoErrorFields = "error_code,error_message"
	tolerance       = 5 * time.Minute // of timestamps, in requests and in notifications
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
	secretFile := flags.String("secret-file", "", schemeflag.SecretFileUsage)
	flags.StringVar(&set.SchemeText, "scheme", "", schemeflag.SchemeUsage+" (in-process: "+demoScheme+")")
	errorFields := flags.String("error-fields", "", schemeflag.ErrorFieldsUsage+", such as\n"+
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
		if set.Secret, err = schemeflag.ReadSecret("-secret-file", secretFile); err != nil {
			return err
		}
	}
	if errorFields != "" {
		code, message, err := schemeflag.ErrorFields(errorFields)
		if err != nil {
			return err
		}
		set.DecodeError = paymentsvc.ErrorFields(code, message)
	}
	set.Scheme, set.Secret, err = schemeflag.Scheme(set.SchemeText, set.Secret)
	return err
}
