package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

const usage = `Usage: partner [serve] [flags]
       partner payouts [flags] FILE.csv
       partner make-payouts N

serve takes payments and notifications, and pays what is queued. payouts reads a file of payouts, pays it, and ends
when nothing more can be done: exit status 0 when the service has every payout, which notifications end, 1 for an error,
2 for flags that make no sense, 3 when a person has to look at something.
make-payouts writes an example of such a file to the standard output.

Without -service all calls go to a fake service inside this process, and no money moves.

`

// settings are the flags, understood.
type settings struct {
	Command string   // serve, payouts or make-payouts
	Args    []string // what follows it

	Database                string // "" is a SQLite file that is removed in the end
	Service                 string // "" is the fake
	Partner, Project        int64
	Secret, OldSecret       paymentsvc.Secret
	DecodeError             paymentsvc.ErrorDecoder
	NotFound                func(*paymentsvc.Error) bool
	Tolerance               time.Duration
	Addr, Admin             string
	AdminHosts              []string
	UserHeader              string
	PayoutWorkers           int
	PayoutsPerSecond        float64
	CallTimeout             time.Duration
	Lease, Grace, GiveUp    time.Duration
	DemoFaults              int
	Traces                  bool
	LogJSON                 bool
	LogLevel                slog.Level
	secretFile, oldSecret   string
	errorFields, notFoundBy string
	duplicateBy             string
	adminHosts, logFormat   string
}

// readSettings gives the settings, or nil and the exit status. environment is os.Getenv.
func readSettings(args []string, environment func(string) string, stderr io.Writer) (*settings, int) {
	set := &settings{}
	flags := set.flags(environment, stderr)
	var words []string
	for { // flags may stand before the command, behind it and behind its arguments
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, 0
		case err != nil:
			return nil, 2
		}
		if args = flags.Args(); len(args) == 0 {
			break
		}
		words, args = append(words, args[0]), args[1:]
	}
	if err := set.complete(words); err != nil {
		_, _ = fmt.Fprintln(stderr, "partner:", err)
		return nil, 2
	}
	return set, 0
}

func (set *settings) flags(environment func(string) string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("partner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	// The environment's values are not given to flag as defaults: -help would print the password in DATABASE_URL.
	set.Database, set.Service = environment("DATABASE_URL"), environment("PAYMENTSVC_URL")
	set.secretFile = environment("PAYMENTSVC_SECRET_FILE")
	// OpenTelemetry's own variables, which its exporter reads too.
	set.Traces = environment("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	text := func(to *string) func(string) error {
		return func(s string) error { *to = s; return nil }
	}
	flags.Func("database", "`address` of the database: postgres://..., or the path of a SQLite file\n"+
		"(DATABASE_URL; without either a SQLite file that is removed in the end)", text(&set.Database))
	flags.Func("service", "`address` of the service (PAYMENTSVC_URL; without either a fake inside this process)", text(&set.Service))
	flags.Func("secret-file", "`file` with the project secret key; a line end after it is not part of it\n(PAYMENTSVC_SECRET_FILE)",
		text(&set.secretFile))
	flags.StringVar(&set.oldSecret, "old-secret-file", "", "`file` with the key before a rotation, with which notifications may still be signed")
	flags.Int64Var(&set.Partner, "partner", 0, "partner `id`")
	flags.Int64Var(&set.Project, "project", 0, "project `id`")
	flags.StringVar(&set.errorFields, "error-fields", "", "`names` of the fields of an error's code and message in an answer, with a comma between them")
	flags.StringVar(&set.notFoundBy, "not-found-codes", "", "`codes` of errors that say that the service has no such payment, with commas between them:\n"+
		"only after one of these is an order with an unknown outcome started again")
	flags.StringVar(&set.duplicateBy, "duplicate-codes", "", "`codes` of errors that say that user_data was used before, with commas between them:\n"+
		"the service may then have the order or payout by an earlier call")
	flags.DurationVar(&set.Tolerance, "tolerance", 0, "how old a notification may be; 0 is any age: a repetition changes nothing here,\n"+
		"and one that is refused for its age may never come again")
	flags.StringVar(&set.Addr, "addr", "127.0.0.1:8080", "`address` to listen at for buyers and notifications; port 0 takes a free one")
	flags.StringVar(&set.Admin, "admin", "127.0.0.1:8081", "`address` to listen at for the operators' page and /metrics, which ask for no password")
	flags.StringVar(&set.adminHosts, "admin-hosts", "", "`names` of the operators' page behind your login, with commas between them, besides the loopback's")
	flags.StringVar(&set.UserHeader, "admin-user-header", "", "`name` of the header in which your login says who decides")
	flags.IntVar(&set.PayoutWorkers, "payout-workers", 8, "payouts that this process starts at once")
	flags.Float64Var(&set.PayoutsPerSecond, "payouts-per-second", 0, "payouts that this process starts in a second; 0 is no limit")
	flags.DurationVar(&set.CallTimeout, "call-timeout", 40*time.Second, "what one call to the service may take")
	flags.DurationVar(&set.Lease, "lease", 2*time.Minute, "after what time a process that has not recorded an outcome counts as dead;\nmore than twice -call-timeout")
	flags.DurationVar(&set.Grace, "grace", 2*time.Minute, "how long after the last call an order that the service does not know is started again;\n"+
		"not less than -call-timeout")
	flags.DurationVar(&set.GiveUp, "give-up", 15*time.Minute, "how long after it was made an order is still started")
	flags.IntVar(&set.DemoFaults, "demo-faults", 0, "lets one in `n` calls to the fake go wrong; 0 is none")
	flags.StringVar(&set.logFormat, "log", "text", "`form` of the log on the standard error: json or text")
	flags.TextVar(&set.LogLevel, "log-level", slog.LevelInfo, "least `level` that is logged: debug, info, warn or error")
	return flags
}

// complete checks what stands as text, and reads what stands in files.
func (set *settings) complete(words []string) error {
	set.Command = "serve"
	if len(words) > 0 {
		set.Command, set.Args = words[0], words[1:]
	}
	if err := checkCommand(set.Command, set.Args); err != nil {
		return err
	}
	if set.Command == "make-payouts" {
		return nil // it needs nothing else
	}
	return errors.Join(set.readService(), set.readLimits(), set.readForms())
}

func checkCommand(command string, args []string) error {
	want := map[string]int{"serve": 0, "payouts": 1, "make-payouts": 1}
	number, known := want[command]
	switch {
	case !known:
		return errors.New("the commands are serve, payouts and make-payouts; -help tells more")
	case len(args) != number:
		return fmt.Errorf("%s takes %d arguments; -help tells more", command, number)
	case command == "make-payouts":
		if n, err := strconv.Atoi(args[0]); err != nil || n < 1 {
			return errors.New("make-payouts takes the number of rows")
		}
	}
	return nil
}

func (set *settings) readService() (err error) {
	if set.Service == "" {
		set.demo()
		return nil
	}
	if u, err := url.Parse(set.Service); err != nil || u.Host == "" {
		return errors.New("-service is not an address such as https://pay.example.com")
	}
	set.Service = strings.TrimRight(set.Service, "/") // it names whom the database belongs to
	if set.Partner == 0 || set.Project == 0 || set.secretFile == "" {
		return errors.New("-service needs -partner, -project and -secret-file")
	}
	if set.Secret, err = readSecret("-secret-file", set.secretFile); err != nil {
		return err
	}
	if set.oldSecret != "" {
		if set.OldSecret, err = readSecret("-old-secret-file", set.oldSecret); err != nil {
			return err
		}
	}
	if set.DecodeError, err = errorFields(set.errorFields, set.duplicateBy); err != nil {
		return err
	}
	if set.notFoundBy+set.duplicateBy != "" && set.DecodeError == nil {
		return errors.New("-not-found-codes and -duplicate-codes need -error-fields")
	}
	set.NotFound = notFound(set.notFoundBy)
	return nil
}

func (set *settings) readLimits() error {
	switch {
	case set.CallTimeout <= 0 || set.Lease <= 2*set.CallTimeout:
		// The outcome has to be recorded before another process may take the row for abandoned.
		return errors.New("-lease must be more than twice -call-timeout, which must be positive")
	case set.Grace < set.CallTimeout:
		return errors.New("-grace must be at least -call-timeout: a call that is under way may yet be carried out")
	case set.GiveUp <= 0:
		return errors.New("-give-up must be positive")
	case set.Tolerance < 0:
		return errors.New("-tolerance is negative")
	case set.PayoutWorkers < 1:
		return errors.New("-payout-workers must be at least 1")
	case math.IsNaN(set.PayoutsPerSecond) || set.PayoutsPerSecond < 0:
		return errors.New("-payouts-per-second is no rate")
	case set.DemoFaults < 0:
		return errors.New("-demo-faults is negative")
	}
	if set.Tolerance == 0 {
		set.Tolerance = paymentsvc.AnyAge
	}
	return nil
}

func (set *settings) readForms() error {
	for name := range strings.SplitSeq(set.adminHosts, ",") {
		if name = strings.TrimSpace(name); name != "" {
			set.AdminHosts = append(set.AdminHosts, name)
		}
	}
	switch set.logFormat {
	case "json":
		set.LogJSON = true
	case "text":
	default:
		return errors.New("-log is neither json nor text")
	}
	return nil
}

// readSecret reads a key. The error names the file and nothing of what is in it.
func readSecret(flag, file string) (paymentsvc.Secret, error) {
	secret, err := os.ReadFile(file) //nolint:gosec // the file is the operator's to name
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	key := strings.TrimRight(string(secret), "\r\n")
	if key == "" {
		return "", fmt.Errorf("%s: the file is empty", flag)
	}
	return paymentsvc.Secret(key), nil
}

// logger is what the whole program logs with.
func (set *settings) logger(stderr io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: set.LogLevel}
	if set.LogJSON {
		return slog.New(slog.NewJSONHandler(stderr, options))
	}
	return slog.New(slog.NewTextHandler(stderr, options))
}
