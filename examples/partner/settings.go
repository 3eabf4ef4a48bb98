package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
)

const usage = `Usage: partner [serve] [flags]
       partner check [flags] FILE.csv
       partner payouts [flags] FILE.csv
       partner results [flags] [FILE.csv]
       partner hold REASON
       partner make-payouts N

serve takes payments and notifications, and sends queued payouts. check reports what a file of payouts contains, and
sends nothing. payouts imports a file, and sends its payouts until each one is sent or blocked. results writes the
states of the payouts of a file, or of all payouts. hold holds all payouts, after a restored backup, until their
release. make-payouts writes an example of a file. All write to the standard output.

Exit status: 0 if the service has every payout of the file (notifications report the final states later); 1 for an
error; 2 for wrong flags; 3 if something needs review.

Without -service all calls go to a fake service inside this process, with its own database, and no money moves.

`

// settings are the parsed command line and variables.
type settings struct {
	Command  string
	Args     []string
	FileName string // of payouts
	Rows     int    // of make-payouts

	Database                        string // "" for a SQLite file removed at the end
	Witness                         string // the file of the witness, or "" for the default of durable
	Service                         string // "" for the fake
	Name                            string // your name for the service, for durable.Config.Project
	Partner, Project                int64
	Scheme                          paymentsvc.Scheme
	Keys                            []paymentsvc.Secret // the first key signs
	DecodeError                     paymentsvc.ErrorDecoder
	NotFound                        func(*paymentsvc.Error) bool
	AccountCodes, AdminHosts        []string
	Addr, Admin                     string
	AdminUser, UserHeader           string // for the names of operators
	PendingReview                   time.Duration
	Slots                           int
	AllowUnsafe, Traces, LogJSON    bool
	LogLevel                        slog.Level
	File                            payoutcsv.Options
	secretFile, oldFile, schemeText string
	fields, notFound, duplicates    string
}

// readSettings returns the settings, or nil and the exit status. environment looks up a variable, like os.Getenv.
func readSettings(args []string, environment func(string) string, stderr io.Writer) (*settings, int) {
	set := &settings{}
	flags := set.flags(environment, stderr)
	var words []string
	for { // flags may precede and follow the command and its arguments
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, exitDone
		case err != nil:
			return nil, exitUsage
		}
		args = flags.Args()
		if len(args) == 0 {
			break
		}
		words, args = append(words, args[0]), args[1:]
	}
	if err := set.complete(words); err != nil {
		_, _ = fmt.Fprintln(stderr, "partner:", err)
		return nil, exitUsage
	}
	return set, exitDone
}

func (set *settings) flags(environment func(string) string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("partner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	// These are not defaults of the flags, because -help would print the password in DATABASE_URL.
	set.Database, set.Service = environment("DATABASE_URL"), environment("PAYMENTSVC_URL")
	set.secretFile = environment("PAYMENTSVC_SECRET_FILE")
	set.Traces = environment("OTEL_EXPORTER_OTLP_ENDPOINT")+environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	text := func(to *string) func(string) error { return func(s string) error { *to = s; return nil } }
	list := func(to *[]string) func(string) error { return func(s string) error { *to = split(s); return nil } }

	flags.Func("database", "`address` of the database: postgres://..., or the path of a SQLite file (DATABASE_URL);\n"+
		"the fake has a SQLite file that is removed at the end", text(&set.Database))
	flags.StringVar(&set.Witness, "witness", "",
		"`file` that detects a restored database, not on the volume of the database; with PostgreSQL there is no default")
	flags.Func(
		"service", "`address` of the service (PAYMENTSVC_URL); without it, a fake inside this process", text(&set.Service),
	)
	flags.Int64Var(&set.Partner, "partner", 0, "partner `id`")
	flags.Int64Var(&set.Project, "project", 0, "project `id`")
	flags.Func("secret-file", "`file` with the project secret key (PAYMENTSVC_SECRET_FILE)", text(&set.secretFile))
	flags.StringVar(&set.Name, "service-name", "",
		"your `name` for the service, stored in the database; it must never change, so it is not the address")
	flags.StringVar(&set.oldFile, "old-secret-file", "",
		"`file` with the key before a rotation: notifications may still be signed with it\n"+
			"(not with a -scheme that contains the secret)")
	flags.StringVar(&set.schemeText, "scheme", "", "`text` of the signature scheme, as paymentsvc discover prints it")
	flags.StringVar(&set.fields, "error-fields", "", "`names` of the fields of an error's code and message: code,message")
	flags.StringVar(&set.notFound, "not-found-codes", "",
		"`codes` of errors that mean that the service has no such payment: a payment with an\n"+
			"unknown outcome is started again only after one of these")
	flags.StringVar(&set.duplicates, "duplicate-codes", "", "`codes` of errors that mean that user_data was used before")
	flags.Func("account-codes", "`codes` of errors that mean that the account has no funds", list(&set.AccountCodes))
	flags.StringVar(&set.Addr, "addr", "127.0.0.1:8080",
		"`address` for payers and notifications; port 0 chooses a free port")
	flags.StringVar(
		&set.Admin, "admin", "127.0.0.1:8081", "`address` for the operators' page and /metrics, which have no password",
	)
	flags.Func(
		"admin-hosts", "host `names` of the operators' page behind your login, besides localhost and loopback addresses",
		list(&set.AdminHosts),
	)
	flags.StringVar(&set.UserHeader, "admin-user-header", "",
		"`name` of the header in which your login sends the operator's name; without a name nobody can decide")
	flags.StringVar(&set.AdminUser, "admin-user", "",
		"`name` of the only operator, instead of -admin-user-header, if nobody else reaches the operators' page")
	flags.DurationVar(&set.PendingReview, "pending-review", 24*time.Hour,
		"`age` at which a payment or payout needs review because its notification may be lost; 0 is never")
	flags.IntVar(&set.Slots, "slots", 8, "calls that this process makes at once")
	flags.BoolVar(
		&set.AllowUnsafe, "allow-unsafe-database", false, "accept a database that may lose commits: only for tests",
	)
	flags.BoolVar(&set.LogJSON, "log-json", false, "log in JSON")
	flags.TextVar(&set.LogLevel, "log-level", slog.LevelInfo, "lowest `level` that is logged: debug, info, warn or error")
	set.fileFlags(flags, list)
	return flags
}

// fileFlags adds the flags for a file of payouts.
func (set *settings) fileFlags(flags *flag.FlagSet, list func(*[]string) func(string) error) {
	flags.Func("expect-rows", "`number` of payouts that a file must have", func(s string) (err error) {
		set.File.ExpectRows, err = strconv.ParseInt(s, 10, 64)
		if err != nil || set.File.ExpectRows < 1 { // 0 would disable the comparison
			return errors.New("want a number above 0")
		}
		return nil
	})
	flags.TextVar(&set.File.ExpectTotal, "expect-total", paymentsvc.Amount{}, "`sum` of the payouts that a file must have")
	flags.BoolVar(&set.File.DecimalComma, "decimal-comma", false, "amounts in a file are like 10,50")
	flags.IntVar(&set.File.Scale, "scale", 2, "decimals that an amount in a file may have")
	columns := func(s string) error {
		set.File.Columns = map[string]string{}
		for _, pair := range split(s) {
			column, name, _ := strings.Cut(pair, "=")
			set.File.Columns[strings.TrimSpace(column)] = name
		}
		return nil
	}
	flags.Func("columns", "other `names` of the columns in a file, such as reference=Beleg,amount=Betrag", columns)
	flags.Func("ignore-columns", "`names` of further columns of a file", list(&set.File.Ignore))
}

// split returns the nonempty parts between commas, without surrounding white space.
func split(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// complete checks the command line, and reads the files of keys. Without -service, it uses the settings of the fake.
func (set *settings) complete(words []string) error {
	set.Command = "serve"
	if len(words) > 0 {
		set.Command, set.Args = words[0], words[1:]
	}
	bounds, known := map[string][2]int{
		"serve": {0, 0}, "check": {1, 1}, "payouts": {1, 1}, "results": {0, 1}, "hold": {1, 1}, "make-payouts": {1, 1},
	}[set.Command]
	switch {
	case !known:
		return errors.New("the commands are serve, check, payouts, results, hold and make-payouts; see -help")
	case len(set.Args) < bounds[0] || len(set.Args) > bounds[1]:
		return errors.New(set.Command + " has a wrong number of arguments; see -help")
	case set.Command == "make-payouts":
		set.Rows, _ = strconv.Atoi(set.Args[0])
		if set.Rows < 1 {
			return errors.New("make-payouts needs a number of rows")
		}
		return nil
	case set.Slots < 1 || set.File.Scale < 0:
		return errors.New("want -slots of 1 or more, and -scale of 0 or more")
	case set.Database != "" && set.Service == "":
		return errors.New("-database (DATABASE_URL) needs -service (PAYMENTSVC_URL): the fake has its own database, " +
			"because it forgets its payouts at the end")
	case set.AdminUser != "" && set.UserHeader != "":
		return errors.New("set either -admin-user or -admin-user-header, not both")
	case set.PendingReview < 0:
		return errors.New("-pending-review is negative, want 0 or more")
	case set.Database == "" && (set.Command == "hold" || set.Service != "" && set.Command != "check"):
		return errors.New("-service and hold need -database: a database for one run forgets its payouts and its hold")
	}
	if len(set.Args) > 0 && set.Command != "hold" {
		set.FileName = set.Args[0]
	}
	if set.File.Scale == 0 {
		set.File.Scale = -1 // no decimals, because 0 would be the default
	}
	if set.Service == "" {
		return set.demo()
	}
	return set.readService()
}

func (set *settings) readService() (err error) {
	if set.Name == "" || set.Partner == 0 || set.Project == 0 || set.secretFile == "" || set.schemeText == "" ||
		set.fields == "" {
		return errors.New("-service needs -service-name, -partner, -project, -secret-file, -scheme and -error-fields")
	}
	for name, file := range map[string]string{"-secret-file": set.secretFile, "-old-secret-file": set.oldFile} {
		if file == "" {
			continue
		}
		secret, err := readSecret(name, file)
		if err != nil {
			return err
		}
		scheme, key, err := canonical.ParseSchemeWith(set.schemeText, secret)
		if err != nil {
			return fmt.Errorf("-scheme: %w", err)
		}
		if name == "-secret-file" {
			set.Scheme = scheme
			set.Keys = append([]paymentsvc.Secret{key}, set.Keys...)
		} else {
			set.Keys = append(set.Keys, key)
		}
	}
	set.DecodeError, set.NotFound, err = decoders(set.fields, set.notFound, set.duplicates)
	return err
}

// readSecret reads a key. Its errors do not contain the content of the file.
func readSecret(name, file string) (paymentsvc.Secret, error) {
	secret, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	key := strings.TrimRight(string(secret), "\r\n")
	if strings.TrimSpace(key) == "" {
		return "", fmt.Errorf("%s: the file is empty", name)
	}
	return paymentsvc.Secret(key), nil
}

// logger returns the logger of the program.
func (set *settings) logger(stderr io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: set.LogLevel}
	if set.LogJSON {
		return slog.New(slog.NewJSONHandler(stderr, options))
	}
	return slog.New(slog.NewTextHandler(stderr, options))
}
