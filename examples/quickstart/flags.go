package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// What the in-process server and its caller agree on where no flag says otherwise. The interface document shows
// none of it: with -base-url nothing of this holds, and the flags must say it.
const (
	demoSecret      = "secret-of-the-in-process-server"
	demoPartnerID   = 1001
	demoProjectID   = 2002
	demoCanonical   = `{timestamp}.{body}`
	demoEncoding    = "hex"
	demoErrorFields = "error_code,error_message"
)

// settings are the flags, understood.
type settings struct {
	InProcess            bool
	BaseURL              string
	PartnerID, ProjectID int64
	Secret               paymentsvc.Secret
	Canonical, Encoding  string
	Scheme               paymentsvc.Scheme
	DecodeError          paymentsvc.ErrorDecoder
}

const usage = `Usage: quickstart [flags]

Without flags it calls a small server in this process. With -base-url it STARTS TWO PAYMENTS, A FORM, AN INVOICE AND
A PAYOUT at the server given, so use a test or mock server; -partner, -project, -secret-file, -canonical and
-encoding are then required, since the interface document shows no canonical string and no encoding.

`

// readFlags gives the settings, or nil and the exit status.
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
	flags.StringVar(&set.Canonical, "canonical", "", "canonical string as a `template` of {timestamp}, {method}, {path}, {body}, {body-sha256}\n"+
		`and any text between them, \n being a line end (in-process: `+demoCanonical+`)`)
	flags.StringVar(&set.Encoding, "encoding", "", "`encoding` of the signature: hex, hex-upper or base64 (in-process: "+demoEncoding+")")
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

// complete fills in what the in-process server has of its own, and reads what stands as text.
func (set *settings) complete(rest []string, secretFile, errorFields string) error {
	if len(rest) > 0 {
		return errors.New("only flags are understood; -help lists them")
	}
	set.InProcess = set.BaseURL == ""
	if set.InProcess {
		set.PartnerID = cmp.Or(set.PartnerID, demoPartnerID)
		set.ProjectID = cmp.Or(set.ProjectID, demoProjectID)
		set.Canonical = cmp.Or(set.Canonical, demoCanonical)
		set.Encoding = cmp.Or(set.Encoding, demoEncoding)
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
		{"-canonical", set.Canonical == ""},
		{"-encoding", set.Encoding == ""},
	} {
		if required.missing {
			return errors.New(required.name + " is required with -base-url; -help says why")
		}
	}

	if secretFile != "" {
		secret, err := os.ReadFile(secretFile) //nolint:gosec // the file is the user's to name
		if err != nil {
			return fmt.Errorf("-secret-file: %w", err)
		}
		set.Secret = paymentsvc.Secret(strings.TrimRight(string(secret), "\r\n"))
	}
	if errorFields != "" {
		code, message, both := strings.Cut(errorFields, ",")
		if !both {
			return errors.New("-error-fields wants two names with a comma between them")
		}
		set.DecodeError = paymentsvc.ErrorFields(code, message)
	}
	var err error
	if set.Scheme.Canonical, err = parseCanonical(set.Canonical); err != nil {
		return err
	}
	set.Scheme.Encoding, err = parseEncoding(set.Encoding)
	return err
}

func parseEncoding(name string) (paymentsvc.Encoding, error) {
	switch name {
	case "hex":
		return paymentsvc.Hex, nil
	case "hex-upper":
		return paymentsvc.HexUpper, nil
	case "base64":
		return base64.StdEncoding, nil
	}
	return nil, errors.New("-encoding is none of hex, hex-upper, base64")
}

// parseCanonical makes a canonical string of a template. A program of your own names the parts directly, as in
// canonical.Join(".", canonical.Timestamp, canonical.Body).
func parseCanonical(template string) (paymentsvc.CanonicalFunc, error) {
	template = strings.ReplaceAll(template, `\n`, "\n")
	var parts []paymentsvc.CanonicalFunc
	for template != "" {
		text, rest, found := strings.Cut(template, "{")
		if text != "" {
			parts = append(parts, canonical.Literal(text))
		}
		if !found {
			break
		}
		name, rest, closed := strings.Cut(rest, "}")
		part, ok := map[string]paymentsvc.CanonicalFunc{
			"timestamp":   canonical.Timestamp,
			"method":      canonical.Method,
			"path":        canonical.Path,
			"body":        canonical.Body,
			"body-sha256": canonical.BodySHA256,
		}[name]
		if !ok || !closed {
			return nil, fmt.Errorf("-canonical: {%s is no part; -help lists them", name)
		}
		parts = append(parts, part)
		template = rest
	}
	return canonical.Join("", parts...), nil
}
