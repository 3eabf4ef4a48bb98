package encoders

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/davecgh/go-spew/spew"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// printer writes a value to a log.
type printer struct {
	name  string
	print func(t *testing.T, w io.Writer, v any)
}

func printers() []printer {
	all := []printer{
		{"slog text", func(_ *testing.T, w io.Writer, v any) { toSlog(slog.NewTextHandler(w, nil), v) }},
		{"slog JSON", func(_ *testing.T, w io.Writer, v any) { toSlog(slog.NewJSONHandler(w, nil), v) }},
		{"zap JSON", func(_ *testing.T, w io.Writer, v any) { toZap(zapcore.NewJSONEncoder, w, v) }},
		{"zap console", func(_ *testing.T, w io.Writer, v any) { toZap(zapcore.NewConsoleEncoder, w, v) }},
		{"zerolog", func(_ *testing.T, w io.Writer, v any) { toZerolog(w, v) }},
		{
			"zerolog console",
			func(_ *testing.T, w io.Writer, v any) { toZerolog(zerolog.ConsoleWriter{Out: w, NoColor: true}, v) },
		},
		{"logrus text", func(t *testing.T, w io.Writer, v any) { toLogrus(t, w, &logrus.TextFormatter{}, v) }},
		{"logrus JSON", func(t *testing.T, w io.Writer, v any) { toLogrus(t, w, &logrus.JSONFormatter{}, v) }},
		{"logr", func(_ *testing.T, w io.Writer, v any) {
			toLogr(funcr.New(func(_, args string) { _, _ = io.WriteString(w, args) }, funcr.Options{}), v)
		}},
		{"messages", func(t *testing.T, w io.Writer, v any) { toMessages(t, w, v) }},
		{"encoding/json", func(_ *testing.T, w io.Writer, v any) {
			data, err := json.MarshalIndent(v, "", " ")
			fmt.Fprint(w, string(data), err)
		}},
		{"spew", func(_ *testing.T, w io.Writer, v any) {
			spew.Fdump(w, v)
			_, _ = spew.Fprintf(w, "%v %+v %#v %#+v", v, v, v, v)
		}},
		{"spew without methods", func(_ *testing.T, w io.Writer, v any) {
			c := spew.ConfigState{DisableMethods: true, DisablePointerMethods: true, SortKeys: true} // as in testify
			c.Fdump(w, v)
		}},
		{"go-cmp", func(_ *testing.T, w io.Writer, v any) {
			other := reflect.Zero(reflect.TypeOf(v)).Interface()
			fmt.Fprint(w, cmp.Diff(other, v, cmp.Exporter(func(reflect.Type) bool { return true })))
			fmt.Fprint(w, cmp.Diff([]any{}, []any{v}, cmp.Exporter(func(reflect.Type) bool { return true })))
		}},
	}
	for _, f := range []struct{ name, verbs string }{
		{"fmt %v", "v"}, {"fmt %s %q", "sq"}, {"fmt %x", "xX"}, {"fmt %d", "tbcdoOUeEfFgG"},
		{"fmt %p", "p"}, {"fmt %w", "w"}, {"fmt unknown verb", "z!"}, {"fmt %T", "T"},
	} {
		all = append(all, printer{f.name, func(_ *testing.T, w io.Writer, v any) {
			for _, verb := range f.verbs {
				for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "# ", "30.20"} {
					fmt.Fprintf(w, "%"+flags+string(verb)+"\n", v)
				}
			}
		}})
	}
	return append(all, printer{"fmt arguments", func(_ *testing.T, w io.Writer, v any) {
		fmt.Fprint(w, v, fmt.Sprintln(v))
		for _, format := range []string{"none", "%*d %d", "%.*d", "%[3]v %[1]*d"} {
			fmt.Fprintf(w, format, v, v)
		}
		_, _ = io.WriteString(w, fmt.Errorf("%v %+v %#v", v, v, v).Error())
	}})
}

func toSlog(h slog.Handler, v any) {
	l := slog.New(h)
	l.With("with", v).Info("message", "value", v, slog.Group("group", "value", v, "list", []any{v}))
	l.LogAttrs(context.Background(), slog.LevelError, "message", slog.Any("err", v))
}

func toZap(encoder func(zapcore.EncoderConfig) zapcore.Encoder, w io.Writer, v any) {
	out := zapcore.AddSync(w)
	l := zap.New(zapcore.NewCore(encoder(zap.NewProductionEncoderConfig()), out, zap.DebugLevel), zap.ErrorOutput(out))
	l.With(zap.Any("with", v)).Info("message", zap.Any("any", v), zap.Reflect("reflect", v), zap.Any("list", []any{v}))
	s := l.Sugar()
	s.With("with", v).Infow("message", "key", v)
	s.Infow("message", v, v, "odd") // the key is not a string
	if err, ok := v.(error); ok {
		l.Error("message", zap.Error(err), zap.Errors("errors", []error{err}))
	}
}

func toZerolog(w io.Writer, v any) {
	l := zerolog.New(w)
	with := l.With().Interface("with", v).Logger()
	fields := with.Info().Interface("interface", v).Any("any", v)
	fields.Fields(map[string]any{"a": v}).Fields([]any{"b", v}).Msg("message")
	l.Info().Array("array", zerolog.Arr().Interface(v)).Msg("message")
	if err, ok := v.(error); ok {
		l.Err(err).AnErr("an", err).Errs("errs", []error{err}).Stack().Msg("message")
	}
}

func toLogrus(t *testing.T, w io.Writer, f logrus.Formatter, v any) {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr")) // logrus reports failures on os.Stderr
	require.NoError(t, err)
	defer func(was *os.File) {
		os.Stderr = was
		require.NoError(t, stderr.Close())
		data, err := os.ReadFile(stderr.Name())
		require.NoError(t, err)
		_, _ = w.Write(data)
	}(os.Stderr)
	os.Stderr = stderr
	l := logrus.New()
	l.SetOutput(w)
	l.SetFormatter(f)
	l.WithField("field", v).Info("message")
	l.WithFields(logrus.Fields{"a": v, "b": []any{v}}).Info("message")
	if err, ok := v.(error); ok {
		l.WithError(err).Error("message")
	}
}

func toLogr(l logr.Logger, v any) {
	l.WithValues("with", v).Info("message", "value", v, "list", []any{v})
	if err, ok := v.(error); ok {
		l.Error(err, "message")
	}
}

// toMessages makes v a part of the message. Loggers format messages with package fmt.
func toMessages(t *testing.T, w io.Writer, v any) {
	t.Helper()
	log.New(w, "", 0).Println(v)
	z := zap.New(
		zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(w), zap.DebugLevel),
	)
	z.Sugar().Info("message", v)
	z.Sugar().Infof("%v %+v", v, v)
	z.Sugar().Infoln(v)
	l := zerolog.New(w)
	l.Print(v)
	l.Info().Msgf("%v", v)
	r := logrus.New()
	r.SetOutput(w)
	r.Info(v)
	r.Infof("%v %+v", v, v)
}

// badByte is the output of fmt for a byte under an unsuitable verb.
var badByte = regexp.MustCompile(`%!.\(uint8=(\d+)\)`)

// shown reports whether out contains the canary as text, as numbers in any base of fmt, or in base64.
func shown(out string) bool {
	out = badByte.ReplaceAllString(out, "$1")
	squeezed := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, out)
	for _, format := range []string{"%d", "%x", "0x%x", "%o", "0%o", "0o%o", "%b", "0b%b", "u%04x", "%c"} {
		var spelled strings.Builder
		for _, b := range []byte("CANARY") {
			fmt.Fprintf(&spelled, format, b)
		}
		if strings.Contains(squeezed, strings.ToLower(spelled.String())) {
			return true
		}
	}
	return strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(canary))[:24])
}

func TestSearchFindsTheCanary(t *testing.T) {
	for _, p := range printers() {
		if p.name == "fmt %T" {
			continue
		}
		var out bytes.Buffer
		p.print(t, &out, []byte(canary))
		p.print(t, &out, canary)
		require.True(t, shown(out.String()), "%s: %s", p.name, &out)
	}
	require.False(t, shown("Canada 4000056655665556"))
}

func TestLoggersShowOnlyListedExceptions(t *testing.T) {
	all := exceptions()
	used := map[*exception]map[cell]bool{}
	for _, p := range printers() {
		for _, s := range subjects(t) {
			for _, sh := range s.shapes {
				at := cell{p.name, s.name, sh.name}
				if skipped(at) {
					continue
				}
				var out bytes.Buffer
				p.print(t, &out, sh.value)
				is := shown(out.String())
				listed := false
				for i := range all {
					if e := &all[i]; e.covers(at) {
						listed = true
						if used[e] == nil {
							used[e] = map[cell]bool{}
						}
						used[e][at] = is
					}
				}
				switch {
				case is && !listed:
					t.Errorf("%q shows the canary without an exception: %.300s", at, &out)
				case !is && listed:
					t.Errorf("%q shows nothing: remove its exception", at)
				}
			}
		}
	}
	for i := range all {
		if used[&all[i]] == nil {
			t.Errorf("the exception %q covers no cell", all[i].reason)
		}
	}
}

// cell is one way of printing one type in one shape.
type cell struct{ printer, subject, shape string }

// exception is a block of cells that show the canary. SECURITY.md has the reason. "|" separates names. Empty shapes
// mean all shapes.
type exception struct {
	reason                     string
	printers, subjects, shapes string
}

func (e *exception) covers(c cell) bool {
	has := func(names, name string) bool { return slices.Contains(strings.Split(names, "|"), name) }
	return has(e.printers, c.printer) && has(e.subjects, c.subject) && (e.shapes == "" || has(e.shapes, c.shape))
}

const (
	requests = "PaymentRequest|PayoutRequest"
	configs  = "HMACConfig|WebhookConfig"
	errs     = "Error|ServiceError|NotificationError"
	open     = "Secret|" + requests + "|" + configs + "|" + errs // types with exported text fields
	badVerbs = "fmt %d|fmt unknown verb"
	unread   = "unexported value|unexported any|unexported slice|pointer to unexported value"
	plain    = "value|struct|unexported value|embedded value"
	byValue  = "value|slice|slice of any|array|map|map of any|struct|pointer to struct|struct with any|" +
		"struct with slice|embedded value"
)

func exceptions() []exception {
	const (
		noMethod  = "calls no method of a value in an unexported field"
		pointer   = "`%s` and `%d` of a pointer in an unexported field"
		wraps     = "`%d` of an error that wraps or joins another"
		misuse    = "`%w` outside `fmt.Errorf`"
		noPointer = "`%p` of a value other than a pointer"
		compares  = "go-cmp compares field by field and prints the differing fields"
		noMethods = "Printers that call no methods, such as testify's differences"
		key       = "keys of a map in `encoding/json` use it directly"
	)
	return []exception{
		{noMethod, "slog text|logrus text|messages|fmt %v|fmt %s %q|fmt %x|fmt arguments|" + badVerbs, open, unread},

		{pointer, "fmt %s %q|" + badVerbs, requests + "|" + configs + "|" + errs, "unexported pointer"},
		{pointer, "fmt %s %q|" + badVerbs, errs, "unexported error"},
		{wraps, badVerbs, errs, "wrapped|joined|joined and wrapped"},
		{wraps, badVerbs, "errors", "error"},

		{misuse, "fmt %w", open, byValue + "|" + unread},
		{misuse, "fmt %w", requests + "|" + configs + "|" + errs, "pointer"},
		{misuse, "fmt %w", "Secret|PayoutRequest|ServiceError", "map key"},
		{misuse, "fmt %w", errs, "error"},

		{noPointer, "fmt %p", open, "array|struct with any|struct with slice|unexported any|unexported slice|" + plain},

		{compares, "go-cmp", requests + "|Secret|HMACConfig|" + errs, plain},
		{compares, "go-cmp", "Secret|ServiceError|HMACConfig", "array"},

		{noMethods, "spew without methods", open + "|errors", ""},

		{key, "encoding/json|slog JSON|zerolog|zerolog console|zap JSON|zap console|logrus JSON", "Secret", "map key"},
	}
}

// skipped reports whether a printer cannot print a shape. spew crashes for a struct with only an embedded pointer whose
// type has a String or Error method, such as struct{ *time.Time }.
func skipped(c cell) bool { return c.printer == "spew" && c.shape == "embedded pointer" }

func TestSecurityListsTheExceptions(t *testing.T) {
	page, err := os.ReadFile("../../../SECURITY.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, e := range exceptions() {
		require.Contains(t, text, e.reason)
	}
}
