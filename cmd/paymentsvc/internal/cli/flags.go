package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Kind is the type of a flag's value.
type Kind int

// The kinds of values.
const (
	Text     Kind = iota
	Bool          // a flag that needs no value; true or false in settings
	Int           // a number in settings
	Duration      // text such as 30s, not negative
	File          // a path; in a settings file, relative to that file
	List          // a repeatable flag; an array of strings in settings, one string in a variable
	Choice        // one of Flag.Values
	Address       // an absolute http or https address; "" means no value
	JSON          // any JSON value, only in settings: see [Call.JSON]
)

// Flag is a setting of a command. The command line has -Name, the settings file [Flag.Key], and the environment
// [Flag.Variable].
type Flag struct {
	// Name is lower case, with dashes between words.
	Name string
	Kind Kind
	// Value is the placeholder of the value in the help, such as FILE.
	Value string
	// Default is the text of the default, or "".
	Default string
	// Usage describes the flag in a short line.
	Usage string
	// Values are the possible values, for completion. Only the kind [Choice] rejects other values.
	Values []string
	// Check, if not nil, returns an error for an invalid text. For a [List], it checks each text.
	Check func(text string) error
	// LineOnly excludes the flag from the settings file and the environment.
	LineOnly bool

	owner string // the command, or "" for shared flags
}

// Key returns the name in the settings file: secret_file, or listen.addr for -addr of the command listen.
func (f Flag) Key() string {
	key := strings.ReplaceAll(f.Name, "-", "_")
	if f.owner != "" {
		return f.owner + "." + key
	}
	return key
}

// Variable returns the environment variable: PAYMENTSVC_SECRET_FILE, or PAYMENTSVC_LISTEN_ADDR for -addr of the
// command listen.
func (f Flag) Variable() string {
	return "PAYMENTSVC_" + strings.ToUpper(strings.ReplaceAll(f.Key(), ".", "_"))
}

// NewFlag returns a flag. value is the placeholder of its value, or "" for a [Bool].
func NewFlag(name string, kind Kind, value, usage string) Flag {
	return Flag{Name: name, Kind: kind, Value: value, Usage: usage}
}

// With returns f with a default.
func (f Flag) With(value string) Flag {
	f.Default = value
	return f
}

// Among returns f with its possible values.
func (f Flag) Among(values ...string) Flag {
	f.Values = values
	return f
}

// Checked returns f with a Check.
func (f Flag) Checked(check func(text string) error) Flag {
	f.Check = check
	return f
}

// OnLine returns f for the command line only.
func (f Flag) OnLine() Flag {
	f.LineOnly = true
	return f
}

// Shared returns flags with the same meaning in every command. It panics for an unknown name.
func Shared(names ...string) []Flag {
	flags := make([]Flag, 0, len(names))
	for _, name := range names {
		f := find(sharedFlags(), name)
		if f == nil {
			panic("cli: no shared flag " + name)
		}
		flags = append(flags, *f)
	}
	return flags
}

func sharedFlags() []Flag {
	return []Flag{
		NewFlag("config", File, "FILE", "settings file (default paymentsvc.json, if it exists)"),
		NewFlag("scheme", Text, "TEXT", `signature scheme, such as hex(timestamp "." body)`),
		NewFlag("scheme-file", File, "FILE", "file with the text of -scheme"),
		NewFlag("secret-file", File, "FILE", "file with the project secret key; - is standard input"),
		NewFlag("old-secret-file", File, "FILE", "file with the key before a rotation"),
		NewFlag("base-url", Address, "URL", "address of the service, {base_url}").Checked(serviceAddress),
		NewFlag("cacert", File, "FILE", "PEM file with further CA certificates for https"),
		NewFlag("http2", Bool, "", "send by HTTP/2 only, also without TLS"),
		NewFlag("partner", Int, "ID", "partner id").Checked(AtLeast(1)),
		NewFlag("project", Int, "ID", "project id").Checked(AtLeast(1)),
		NewFlag("tolerance", Text, "DURATION", `maximum age of a timestamp in both directions, or "any"`).
			Among("any", "5m").Checked(Tolerance),
		NewFlag("timestamp-header", Text, "NAME", "header with the timestamp").With("timestamp").Checked(headerName),
		NewFlag("signature-header", Text, "NAME", "header with the signature").With("signature").Checked(headerName),
		NewFlag("timeout", Duration, "DURATION", "end after this time with exit code 124"),
		NewFlag("count", Int, "N", "end after N messages").Checked(AtLeast(0)).OnLine(),
		NewFlag("json", Bool, "", "print JSON, one object per line").OnLine(),
		NewFlag("q", Bool, "", "print no notes and no progress").OnLine(),
		NewFlag("v", Bool, "", "print more").OnLine(),
	}
}

// validate returns an error for an invalid value.
func (f Flag) validate(text string) error {
	var err error
	switch f.Kind {
	case Bool:
		err = Want(text == "true" || text == "false", "want true or false")
	case Int:
		_, failed := strconv.ParseInt(text, 10, 64)
		err = Want(failed == nil, "want a whole number")
	case Duration:
		d, failed := time.ParseDuration(text)
		err = Want(failed == nil && d >= 0, "want a duration such as 30s")
	case File:
		err = Want(text != "", "want the name of a file")
	case Choice:
		if !slices.Contains(f.Values, text) {
			err = errors.New("want one of " + strings.Join(f.Values, ", ") + Nearest(text, f.Values))
		}
	case Address:
		err = CheckAddress(text)
	}
	if err == nil && f.Check != nil {
		err = f.Check(text)
	}
	return err
}

// Want returns nil if ok, and an error with a text otherwise.
func Want(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

// address parses the text of an [Address]. It returns nil for "".
func address(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no address is a valid value
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("want an address that starts with http:// or https://")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("want an address without user and fragment")
	case strings.Contains(u.RawQuery, " "):
		return nil, errors.New("want %20 in place of a space")
	}
	return u, nil
}

// CheckAddress accepts the texts of an [Address].
func CheckAddress(text string) error {
	_, err := address(text)
	return err
}

// Origin rejects an [Address] with a query or a path other than /. [CheckAddress] rejects other texts.
func Origin(text string) error {
	u, err := address(text)
	isOrigin := err != nil || u == nil || strings.Trim(u.Path, "/") == "" && u.RawQuery == ""
	return Want(isOrigin, "want an origin such as https://test.example, without a path")
}

// serviceAddress accepts an [Address] that a client of the SDK accepts.
func serviceAddress(text string) error {
	_, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: text, PartnerID: 1, ProjectID: 1,
		Signer: paymentsvc.SignerFunc(func(*http.Request, []byte) error { return nil }),
	})
	return Want(err == nil, "want https, or http for a loopback address, without a query")
}

// Host accepts a host, with or without a port.
func Host(text string) error {
	u, err := url.Parse("//" + text)
	return Want(err == nil && text != "" && u.Host == text, "want a host, without scheme and path")
}

// HostNames accepts host names, separated by commas.
func HostNames(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if Host(name) != nil || strings.Contains(name, ":") {
			return errors.New("want host names, separated by commas, without scheme and port")
		}
	}
	return nil
}

// HostPort accepts an address to listen on.
func HostPort(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("want HOST:PORT, such as localhost:9000")
	}
	_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	return Want(err == nil, "want a port from 0 to 65535")
}

// Amount accepts a decimal number.
func Amount(text string) error {
	_, err := paymentsvc.ParseAmount(text)
	return Want(err == nil, "not a decimal number")
}

// AtLeast returns a check that accepts whole numbers from least.
func AtLeast(least int64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		return Want(err == nil && n >= least, fmt.Sprintf("want a whole number, at least %d", least))
	}
}

// Between returns a check that accepts whole numbers from least to most.
func Between(least, most int64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		inRange := err == nil && n >= least && n <= most
		return Want(inRange, fmt.Sprintf("want a whole number from %d to %d", least, most))
	}
}

// Written rejects "-" as the name of a file or directory to write.
func Written(text string) error {
	return Want(text != "-", "want the name of a file or directory, not standard output")
}

var headerNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func headerName(text string) error {
	return Want(headerNames.MatchString(text), "want the name of a header")
}

// Tolerance accepts a duration of at least one second, and "any".
func Tolerance(text string) error {
	d, err := time.ParseDuration(text)
	return Want(text == "any" || err == nil && d >= time.Second, `want a duration of at least 1s, or "any"`)
}

// line is a parsed command line.
type line struct {
	flags map[string][]string // the texts of each given flag
	args  []string
	help  bool
}

// parse parses flags anywhere on the line, with one dash or two. "--" ends the flags.
func parse(args []string, flags []Flag) (line, error) {
	l := line{flags: map[string][]string{}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			l.args = append(l.args, args...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			l.args = append(l.args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "h" || name == "help" {
			l.help = true
			continue
		}
		f := find(flags, name)
		switch {
		case f == nil:
			return l, Usagef("no flag -%s%s", Printable(name), nearestFlag(name, flags))
		case hasValue:
		case f.Kind == Bool:
			value = "true"
		case len(args) == 0:
			return l, Usagef("-%s: needs a value, %s", name, f.Value)
		default:
			value, args = args[0], args[1:]
		}
		if f.Kind != List && len(l.flags[name]) > 0 {
			return l, Usagef("-%s: given twice", name)
		}
		l.flags[name] = append(l.flags[name], value)
	}
	return l, nil
}

func find(flags []Flag, name string) *Flag {
	i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name && f.Kind != JSON })
	if i < 0 {
		return nil
	}
	return &flags[i]
}

func nearestFlag(name string, flags []Flag) string {
	if name == "secret" {
		return ": a secret comes from a file, so use -secret-file"
	}
	return strings.Replace(Nearest(name, Command{Flags: flags}.Names()), `"`, `"-`, 1)
}
