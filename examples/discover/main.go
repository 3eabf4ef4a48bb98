// Command discover finds out how the Payment Service signs, which the interface document does not show (section 5). It
// takes one message with a correct signature and the project's secret key, and prints the scheme as text and as Go code.
//
//	go run ./examples/discover -secret-file project.key accepted-request.http notification.http
//
// A sample is a raw HTTP request as it was captured: a request that the service accepted, or a notification that it
// sent. [discover.Find] says what is searched.
//
//	go run ./examples/discover -demo
//
// makes samples with a hidden composition, and finds it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
	"github.com/paymentsvc/paymentsvc/examples/internal/schemeflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Usage: discover (-secret-file FILE | -secret-env NAME) [flags] [SAMPLE...]
       discover -demo

SAMPLE is a file with a raw HTTP request, as it was captured:

    POST /init_payment/card HTTP/1.1
    Host: pay.example.com
    Content-Type: application/json
    Timestamp: 1700000000
    Signature: <SIGNATURE>

    {"partner_id":17, ...}

Without SAMPLE, or with "-", it is read from standard input. The first line may hold the whole address instead of the
path; with a path, the address is taken to be https. The body ends where Content-Length says. Without that header it
ends with the file, and one line end there is taken for the file's own.

The secret is never read from an argument and never printed.

Exit status: 0 when something fits, 1 when nothing does, 2 for flags or samples that make no sense.

`

// settings are the parsed flags.
type settings struct {
	secret  paymentsvc.Secret
	options discover.Options
	samples []sample
	demo    *demo
	check   string
	json    bool
}

// run returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	set, err := readFlags(ctx, args, stdin, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "discover:", err)
		return 2
	}
	out := report{w: stdout, json: set.json}
	if set.check != "" {
		return check(set, out, stderr)
	}
	progress := newProgress(stderr, set.json)
	set.options.Progress = progress.show
	found, err := searchAll(ctx, set, progress)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "discover:", err)
	}
	if len(found) == 0 {
		return 2
	}
	out.found(found, set)
	for _, f := range found {
		if !f.fits() {
			return 1
		}
	}
	return 0
}

// found is the result of one search.
type found struct {
	about  string // "requests", "notifications" or "requests and notifications"
	result discover.Result
	err    error // nil when there is a match
}

func (f found) fits() bool { return f.err == nil }

// searchAll searches each kind of message separately, and then, if both have a match, for a scheme of both.
func searchAll(ctx context.Context, set *settings, progress *progress) (all []found, err error) {
	search := func(about string, samples []sample) (found, error) {
		result, err := discover.Find(ctx, canonicalSamples(samples), set.options)
		progress.done()
		if wrong, ok := errors.AsType[*discover.SampleError](err); ok {
			s := samples[wrong.Index]
			return found{}, fmt.Errorf("%s:%d: %w", s.file, s.lineOf(wrong.Header), wrong.Err)
		}
		if err != nil && !errors.Is(err, discover.ErrNoMatch) && ctx.Err() == nil {
			return found{}, err
		}
		return found{about, result, err}, nil
	}

	requests, notifications := byKind(set.samples)
	for _, part := range []struct {
		about   string
		samples []sample
	}{{"requests", requests}, {"notifications", notifications}} {
		if len(part.samples) == 0 {
			continue
		}
		f, err := search(part.about, part.samples)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(all) < 2 || !all[0].fits() || !all[1].fits() {
		return all, nil
	}
	both, err := search("requests and notifications", set.samples)
	if err != nil || !both.fits() {
		return all, nil //nolint:nilerr // that the samples share no encoding, or no composition, is what all says
	}
	return []found{both}, nil
}

func byKind(samples []sample) (requests, notifications []sample) {
	for _, s := range samples {
		if s.message.Kind == paymentsvc.KindNotification {
			notifications = append(notifications, s)
			continue
		}
		requests = append(requests, s)
	}
	return requests, notifications
}

func readFlags(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) (*settings, error) {
	set := &settings{}
	flags := flag.NewFlagSet("discover", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong is said once, by run
	secretFile := flags.String("secret-file", "", schemeflag.SecretFileUsage)
	secretEnv := flags.String("secret-env", "", "`name` of the environment variable with the project secret key")
	makeDemo := flags.Bool("demo", false, "make samples with a hidden composition, and find it")
	kind := flags.String("kind", "", "`kind` of all samples, request or notification; without it, a body with an event is a notification")
	flags.StringVar(&set.check, "check", "", "scheme to try, as `text` such as hex(timestamp \".\" body): shows the canonical string that it makes of each sample")
	flags.BoolVar(&set.json, "json", false, "write JSON")
	flags.Float64Var(&set.options.Effort, "effort", 1, "`factor` to the number of compositions tried; 10 takes ten times as long")
	flags.Func("word", "`text` that the canonical string may hold and no sample does, such as an API key's name; may be repeated", func(word string) error {
		set.options.Words = append(set.options.Words, word)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = io.WriteString(stderr, usage)
			flags.SetOutput(stderr)
			flags.PrintDefaults()
		}
		return nil, err
	}
	var err error
	if *makeDemo {
		if *secretFile+*secretEnv+*kind+set.check != "" || flags.NArg() > 0 {
			return nil, errors.New("-demo makes its own samples and secret, so it takes neither")
		}
		set.demo, err = newDemo(ctx)
		if err == nil {
			set.secret, set.samples = set.demo.secret, set.demo.samples
		}
	} else {
		set.secret, err = readSecret(*secretFile, *secretEnv)
		if err == nil {
			set.samples, err = readSamples(flags.Args(), stdin, *kind)
		}
	}
	set.options.Secret = set.secret
	return set, err
}

func readSecret(file, env string) (paymentsvc.Secret, error) {
	if (file == "") == (env == "") {
		return "", errors.New("give the secret by one of -secret-file and -secret-env; -help says more")
	}
	if file != "" {
		return schemeflag.ReadSecret("-secret-file", file)
	}
	secret := os.Getenv(env)
	if secret == "" {
		return "", errors.New("-secret-env: the environment variable is not set, or empty") // its name may be the secret, by mistake
	}
	return paymentsvc.Secret(strings.TrimRight(secret, "\r\n")), nil
}

func readSamples(files []string, stdin io.Reader, kind string) (samples []sample, err error) {
	if kind != "" && kind != "request" && kind != "notification" {
		return nil, errors.New("-kind is neither request nor notification")
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, file := range files {
		name := file
		var data []byte
		if file == "-" {
			name = "standard input"
			data, err = io.ReadAll(stdin)
		} else {
			data, err = os.ReadFile(file) //nolint:gosec // the file is the user's to name
		}
		if err != nil {
			return nil, err
		}
		s, err := parseSample(name, data)
		if err != nil {
			return nil, err
		}
		switch kind {
		case "request":
			s.message.Kind = paymentsvc.KindRequest
		case "notification":
			s.message.Kind = paymentsvc.KindNotification
		}
		samples = append(samples, s)
	}
	return samples, nil
}
