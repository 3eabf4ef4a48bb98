package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// process is one run of a program with the command "try", which has every shared flag and some of its own.
type process struct {
	files          map[string]string
	vars           map[string]string
	stdin          string
	run            func(context.Context, *Call) error
	stdout, stderr bytes.Buffer
}

func (p *process) start(ctx context.Context, t *testing.T, args ...string) int {
	t.Helper()
	dir := t.TempDir()
	for name, text := range p.files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	env := &Env{
		Stdin: strings.NewReader(p.stdin), Stdout: &p.stdout, Stderr: &p.stderr, Dir: dir, Now: time.Now,
		Getenv: func(name string) string { return p.vars[name] },
		Environ: func() (list []string) {
			for name, value := range p.vars {
				list = append(list, name+"="+value)
			}
			return list
		},
	}
	names := []string{"scheme", "scheme-file", "secret-file", "old-secret-file", "tolerance", "timeout", "v", "project"}
	flags := append(Shared(names...), Flag{Name: "addr", Default: "localhost:1"}, Flag{Name: "word", Kind: List},
		Flag{Name: "all", Kind: Bool}, Flag{Name: "more", Kind: JSON})
	command := Command{Name: "try", Summary: "Try", MaxArgs: 2, Flags: flags, Run: p.run}
	return Main(ctx, env, Program{Name: "prog", Commands: []Command{command}}, args)
}

func TestFlagsAreReadAnywhere(t *testing.T) {
	for line, want := range map[string]string{
		"try a -all b":                    "a b true ",
		"try --all=false a --word=x":      "a false x",
		"-addr y try -word x -word z a":   "a false x z",
		"try -word x -- -all --":          "-all -- false x",
		"try - -word -":                   "- false -",
		"-q --json=false try -all=true a": "a true ",
	} {
		p := &process{run: func(_ context.Context, c *Call) error {
			assert.Equal(t, want, fmt.Sprintf("%s %t %s", strings.Join(c.Args, " "), c.Bool("all"),
				strings.Join(c.List("word"), " ")), line)
			return nil
		}}
		assert.Zero(t, p.start(t.Context(), t, strings.Fields(line)...), "%s: %s", line, &p.stderr)
	}
}

func TestUsageErrorNamesTheFlagOrCommand(t *testing.T) {
	for line, want := range map[string]string{
		"":                                      "prog: no command",
		"--hepl":                                `prog: no command: "--hepl"; did you mean "help"?`,
		"tri":                                   `prog: no command "tri"; did you mean "try"?`,
		"help tri":                              `prog: no command "tri"; did you mean "try"?`,
		"4111111111111111":                      `prog: no command "<card number>"`,
		"try a b 4111-1111-1111-1111":           `prog try: unexpected argument "<card number>"`,
		"try -adr x":                            `prog try: no flag -adr; did you mean "-addr"?`,
		"try -adrd x":                           `no flag -adrd; did you mean "-addr"?`,
		"try -ADDR x":                           `no flag -ADDR; did you mean "-addr"?`,
		"try -q -x y":                           "no flag -x\n",
		"try " + strings.Repeat("-addr", 9):     "no flag -addr-addr",
		"try --secret x":                        "prog try: no flag -secret: a secret comes from a file, so use -secret-file",
		"try -more {}":                          "prog try: no flag -more",
		"try -addr":                             "prog try: -addr: needs a value",
		"try -addr a -addr b":                   "prog try: -addr: given twice",
		"try a b c":                             `prog try: unexpected argument "c"`,
		"try -all=maybe":                        "prog try: -all: want true or false",
		"try -project one":                      "prog try: -project: want a whole number",
		"try -timeout 5":                        "prog try: -timeout: want a duration such as 30s",
		"try -config gone.json":                 "prog try: gone.json: no such file or directory",
		"try -secret-file key -scheme hex(bdy)": `prog try: -scheme: column 5: unknown part "bdy", did you mean body?`,
		"try -scheme hex(body) -scheme-file b":  "prog try: -scheme and -scheme-file: want only one of these settings",
		"try -secret-file scheme -scheme-file sk": "prog try: -scheme-file: not a scheme, such as hex(",
		"try -secret-file sk_live_1":              "prog try: -secret-file: no such file or directory",
		"try -tolerance soon":                     `prog try: -tolerance: want a duration of at least 1s, or "any"`,
		"try":                                     "prog try: -tolerance: not set",
	} {
		files := map[string]string{"key": "k", "scheme": "hex(body)", "sk": "sk_live_1"}
		p := &process{files: files, run: func(_ context.Context, c *Call) error {
			var err error
			switch {
			case c.Set("secret-file"):
				_, err = c.Key()
			case c.Set("scheme"):
				_, _, err = c.SchemeText()
			default:
				_, err = c.Tolerance()
			}
			return err
		}}
		assert.Equal(t, ExitUsage, p.start(t.Context(), t, strings.Fields(line)...), line)
		assert.Empty(t, p.stdout.String(), line)
		assert.Contains(t, p.stderr.String(), want, line)
		assert.NotContains(t, p.stderr.String(), "sk_live", line)

		p.stderr.Reset()
		p.start(t.Context(), t, append([]string{"-json"}, strings.Fields(line)...)...)
		var object struct {
			Type, Code, Message string
			V, Exit             int
		}
		require.NoError(t, json.Unmarshal(p.stderr.Bytes(), &object), "%s: %s", line, &p.stderr)
		assert.Equal(t, "error usage 1 2", fmt.Sprint(object.Type, " ", object.Code, " ", object.V, " ", object.Exit), line)
		assert.Empty(t, p.stdout.String(), line)
	}
}

func TestFlagWinsOverVariableAndVariableOverFile(t *testing.T) {
	const file = `{"tolerance": "3m", "try": {"addr": "file:3", "word": ["a", "b"], "all": true}, "project": 9}`
	vars := map[string]string{"PAYMENTSVC_TOLERANCE": "2m", "PAYMENTSVC_TRY_ADDR": "variable:2"}
	for _, test := range []struct {
		name, line, file  string
		vars              map[string]string
		tolerance, origin string
		addr              string
		note              string
	}{
		{"flags", "try -tolerance 1m -addr flag:1", file, vars, "1m", "-tolerance", "flag:1",
			"note   -tolerance overrides the different value of PAYMENTSVC_TOLERANCE\nnote   -addr overrides " +
				"the different value of PAYMENTSVC_TRY_ADDR\n"},
		{"the same flag", "try -tolerance 2m", file, vars, "2m", "-tolerance", "variable:2", ""},
		{"quiet", "try -q -tolerance 1m", file, vars, "1m", "-tolerance", "variable:2", ""},
		{"variables", "try", file, vars, "2m", "PAYMENTSVC_TOLERANCE", "variable:2", ""},
		{"file", "try", file, nil, "3m", "paymentsvc.json:1:15", "file:3", ""},
		{"default", "try", "{}", nil, "", "default", "localhost:1", ""},
		{"a secret in a variable", "try", "{}", map[string]string{"PAYMENTSVC_SECRET": "sk"}, "", "default", "localhost:1",
			"note   PAYMENTSVC_SECRET is ignored: a secret comes from a file, so use PAYMENTSVC_SECRET_FILE\n"},
		{"an unknown variable", "try", "{}", map[string]string{"PAYMENTSVC_TOLERANC": "1m", "PAYMENTSVC_SCHEME": "hex(body)",
			"PAYMENTSVC_TRY_ADDR": "a:1", "TOLERANC": "1"}, "", "default", "a:1", "note   PAYMENTSVC_TOLERANC is ignored: " +
			"no setting has this variable; did you mean \"PAYMENTSVC_TOLERANCE\"?\n"},
	} {
		p := &process{files: map[string]string{SettingsFile: test.file}, vars: test.vars,
			run: func(_ context.Context, c *Call) error {
				assert.Equal(t, test.tolerance, c.Text("tolerance"), test.name)
				assert.Equal(t, test.origin, c.Value("tolerance").Origin, test.name)
				assert.Equal(t, test.addr, c.Text("addr"), test.name)
				if test.file == file {
					assert.Equal(t, []string{"a", "b"}, c.List("word"))
					assert.True(t, c.Bool("all"))
					assert.EqualValues(t, 9, c.Int("project"))
				}
				return c.PrintSettings()
			}}
		assert.Zero(t, p.start(t.Context(), t, strings.Fields(test.line)...), "%s: %s", test.name, &p.stderr)
		assert.Equal(t, test.note, p.stderr.String(), test.name)
		assert.Regexp(t, `(?m)^tolerance .* `+test.origin+`$`, p.stdout.String(), test.name)
	}
}

func TestSettingsFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"tolerancy\": \"5m\"}": `paymentsvc.json:2:3: unknown key "tolerancy"; did you mean ` +
			`"tolerance"?`,
		`{"try": {"adr": 1}}`:                        `paymentsvc.json:1:10: unknown key "try.adr"; did you mean "addr"?`,
		`{"config": "x"}`:                            `paymentsvc.json:1:2: unknown key "config"`,
		"{\"tolerance\": \"5m\",\n\"tolerance\": 1}": `paymentsvc.json:2:1: duplicate key "tolerance"`,
		`{"tolerance": 5}`:                           `paymentsvc.json:1:15: tolerance: want a string, such as "5m"`,
		`{"timeout": "5"}`:                           `paymentsvc.json:1:13: timeout: want a duration such as 30s`,
		`{"try": {"word": "x"}}`:                     `paymentsvc.json:1:18: try.word: want an array of strings`,
		`{"try": {"all": null}}`:                     `paymentsvc.json:1:17: try.all: want true or false`,
		`{"project": 1.5}`:                           `paymentsvc.json:1:13: project: want a whole number`,
		`{"try": {"more": {"b": 1}}}`:                `paymentsvc.json:1:18: try.more: unknown field "b"`,
		`{"try": 1}`:                                 `paymentsvc.json:1:9: want a JSON object`,
		`["x"]`:                                      `paymentsvc.json:1:1: want a JSON object`,
		"{\"é\n":                                     `paymentsvc.json:1:4: `,
		`{"project": 1,}`:                            `paymentsvc.json:1:15: `,
		`{"project": 1`:                              `paymentsvc.json:1:14: the JSON is incomplete`,
		`{} x`:                                       `paymentsvc.json:1:4: want the end of the file after the JSON object`,
		"\xff\xfe{\x00}\x00":                         `paymentsvc.json: in UTF-16`,
	} {
		p := &process{files: map[string]string{SettingsFile: text}, run: func(_ context.Context, c *Call) error {
			_, err := c.JSON("more", &struct{ A int }{})
			return err
		}}
		assert.Equal(t, ExitUsage, p.start(t.Context(), t, "try"), text)
		assert.Contains(t, p.stderr.String(), want, text)
	}
}

func TestConfigOfAnEmptyFileHasNoSettings(t *testing.T) {
	for _, empty := range []string{os.DevNull, "empty"} {
		p := &process{
			files: map[string]string{SettingsFile: `{"project": 7}`, "empty": "\n"},
			run: func(_ context.Context, c *Call) error {
				assert.False(t, c.Set("project"))
				return nil
			},
		}
		assert.Zero(t, p.start(t.Context(), t, "try", "-config", empty), p.stderr.String())
	}
}

func TestSecretsOfOpenFilesAreNoted(t *testing.T) {
	const note = "other users can open the secret's file; want mode 0600"
	for mode, noted := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o602: true} {
		key := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(key, []byte("secret"), 0o600))
		require.NoError(t, os.Chmod(key, mode))
		p := &process{run: func(_ context.Context, c *Call) error { _, err := c.Secret(); return err }}
		assert.Zero(t, p.start(t.Context(), t, "try", "-secret-file", key))
		assert.Equal(t, noted && os.PathSeparator == '/', strings.Contains(p.stderr.String(), note), mode)
	}
}

func TestSecretsLoseOneLineEndOrAreRejected(t *testing.T) {
	for content, want := range map[string]struct{ secret, said string }{
		"key	":                 {"key	", ""},
		"key\n":                {"key", "the line end is not part of the secret"},
		"key\r\n":              {"key", "the line end is not part of the secret"},
		"key\n\n":              {"", "ends in a line break"},
		"\n\n":                 {"", "only white space or NUL"},
		"KEY=a\n":              {"", "a line of a settings file, KEY=...; want only the key"},
		"export MY_KEY='a'":    {"", "a line of a settings file"},
		"project_secret = a":   {"", "a line of a settings file"},
		"xY=9k":                {"xY=9k", ""},
		"\"key\"\n":            {"", "quotes around the key; want only the key"},
		"'key'":                {"", "quotes around the key"},
		"QUJD\"=":              {"QUJD\"=", ""},
		"QUI=":                 {"QUI=", ""},
		"QQ==\n":               {"QQ==", ""},
		"[redacted]":           {"", "the placeholder of a Secret"},
		"\xef\xbb\xbfkey":      {"key", "the byte order mark is not part of the secret"},
		"\xff\xfek\x00e\x00":   {"", "in UTF-16"},
		"k\x00e\x00y\x00s\x00": {"", "in UTF-16"},
		"":                     {"", "empty"},
		"\r\n":                 {"", "empty"},
	} {
		for _, name := range []string{"-", "key"} {
			p := &process{files: map[string]string{"key": content}, stdin: content}
			p.run = func(_ context.Context, c *Call) error {
				secret, err := c.Secret()
				assert.Equal(t, want.secret, string(secret), "%q", content)
				return err
			}
			assert.Equal(t, want.secret == "", p.start(t.Context(), t, "try", "-secret-file", name) == ExitUsage, "%q", content)
			assert.Contains(t, p.stderr.String(), want.said, "%q", content)
		}
	}
	p := &process{stdin: "key", run: func(_ context.Context, c *Call) error {
		_, err := c.Keys()
		return err
	}}
	assert.Equal(t, ExitUsage, p.start(t.Context(), t, "try", "-secret-file", "-", "-scheme", "hex(body)",
		"-old-secret-file", "-"))
	assert.Contains(t, p.stderr.String(), "-old-secret-file: standard input is already read by -secret-file")
}

func TestKeysReadTheSchemeOnce(t *testing.T) {
	p := &process{files: map[string]string{"key": "k", "old": "o"}, stdin: "hex(body)\n"}
	p.run = func(_ context.Context, c *Call) error {
		keys, err := c.Keys()
		assert.Len(t, keys, 2)
		assert.Equal(t, "hex(body)", keys[0].Text)
		return err
	}
	line := []string{"try", "-scheme-file", "-", "-secret-file", "key", "-old-secret-file", "old"}
	assert.Zero(t, p.start(t.Context(), t, line...), "%s", &p.stderr)
}

func TestErrorsNameNoArgumentThatIsNoFile(t *testing.T) {
	p := &process{run: func(_ context.Context, c *Call) error {
		_, err := c.ReadInput(c.Args[0], c.Args[0])
		return err
	}}
	for arg, want := range map[string]string{
		"gone.json": "gone.json: no such file", `{"a":"secret"}`: "argument 1: ", "4111111111111111": "argument 1: ",
		"secret=\n": "argument 1: ",
	} {
		p.stderr.Reset()
		assert.Equal(t, ExitUsage, p.start(t.Context(), t, "try", arg), arg)
		assert.Contains(t, p.stderr.String(), "prog try: "+want, arg)
	}
	_, err := readAll(bytes.NewReader(make([]byte, maxInput+1)))
	assert.EqualError(t, err, "more than 64 MiB")
}

type failsOnce struct{ done bool }

func (f *failsOnce) Write(p []byte) (int, error) {
	if f.done {
		return len(p), nil
	}
	f.done = true
	return 0, errors.New("disk full")
}

func TestPathsInTheSettingsFileAreRelativeToIt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.json"), []byte(`{"secret_file":"key","scheme":"hex(body)"}`),
		0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("far"), 0o600))
	p := &process{files: map[string]string{"key": "near"},
		vars: map[string]string{"PAYMENTSVC_CONFIG": filepath.Join(dir, "s.json")},
		run: func(_ context.Context, c *Call) error {
			key, err := c.Key()
			assert.Equal(t, "far", string(key.Secret))
			return errors.Join(err, c.PrintSettings())
		}}
	assert.Zero(t, p.start(t.Context(), t, "try"), "%s", &p.stderr)
	assert.NotContains(t, p.stdout.String(), "far\n")
	p.stdout.Reset()
	p.run = func(_ context.Context, c *Call) error { return c.PrintSettings() }
	assert.Zero(t, p.start(t.Context(), t, "try", "-secret-file", "sk_live_1"))
	assert.Contains(t, p.stdout.String(), "(no such file)")
	assert.NotContains(t, p.stdout.String(), "sk_live_1", "a secret by mistake")
}

func TestExitCodes(t *testing.T) {
	stopped, stop := context.WithCancelCause(t.Context())
	stop(Interrupted())
	killed, stop := context.WithCancelCause(t.Context())
	stop(Terminated())
	wait := func(ctx context.Context, _ *Call) error { <-ctx.Done(); return ctx.Err() }
	for _, test := range []struct {
		name string
		ctx  context.Context // nil is the context of the test
		run  func(context.Context, *Call) error
		code int
		said string
	}{
		{"yes", nil, func(context.Context, *Call) error { return nil }, 0, ""},
		{"no", nil, func(context.Context, *Call) error { return No() }, 1, ""},
		{"no, with a reason", nil, func(context.Context, *Call) error {
			return &ExitError{ExitNo, errors.New("a\x1b[m")}
		}, 1, `prog try: a\x1b[m`},
		{"usage", nil, func(context.Context, *Call) error { return Usagef("x") }, 2, "prog try: x"},
		{"the machine", nil, func(context.Context, *Call) error { return errors.New("disk full") }, 3, "prog try: disk full"},
		{"a deadline of its own", nil, func(context.Context, *Call) error { return context.DeadlineExceeded }, 3,
			"prog try: context deadline"},
		{"timeout", nil, wait, 124, "prog try: -timeout: 1h0m0s passed"},
		{"interrupted", stopped, wait, 130, "prog try: interrupted"},
		{"terminated", killed, func(ctx context.Context, _ *Call) error { return Ended(ctx) }, 143, "prog try: terminated"},
		{"stopped, with an answer", stopped, func(context.Context, *Call) error { return nil }, 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &process{run: test.run}
			assert.Equal(t, test.code, p.start(cmp.Or(test.ctx, t.Context()), t, "try", "-timeout", "1h"), test.name)
			assert.Equal(t, test.said == "", p.stderr.Len() == 0, test.name)
			assert.Contains(t, p.stderr.String(), test.said, test.name)
			assert.Empty(t, p.stdout.String(), test.name)
		})
	}
}

func TestOutputEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2J\nb\x00\xff\u202e": `a\x1b[2J\nb\x00\xff\u202e`,
		"tab\té":                    "tab\té",
	} {
		assert.Equal(t, want, Printable(text))
	}
	p := &process{run: func(_ context.Context, c *Call) error {
		c.Print("nothing", nil)
		c.Print("thing", struct{ A string }{"\x1b\n"}, "text\n")
		c.Note("once %s", "4111111111111111")
		c.Note("once %s", "4111111111111111")
		return nil
	}}
	assert.Equal(t, "{\"type\":\"a\",\"v\":1,\"A\":\"\\u007f\\u009b\u00e9\"}\n",
		string(record("a", struct{ A string }{"\u007f\u009b\u00e9"})))
	broken := &Call{Env: &Env{Stdout: &failsOnce{}}, values: map[string]Value{"json": {Texts: []string{"true"}}}}
	broken.Print("a", nil)
	broken.Print("b", nil)
	assert.EqualError(t, broken.failed, "disk full", "a later write does not hide it")
	assert.Zero(t, p.start(t.Context(), t, "try", "-json"))
	assert.Equal(t, "{\"type\":\"nothing\",\"v\":1}\n{\"type\":\"thing\",\"v\":1,\"A\":\"\\u001b\\n\"}\n",
		p.stdout.String())
	assert.Equal(t, "{\"type\":\"note\",\"v\":1,\"message\":\"once \\u003ccard number\\u003e\"}\n", p.stderr.String())
}

func TestListenTakesBothLoopbacksAndServeEnds(t *testing.T) {
	listeners, err := Listen(t.Context(), "localhost:0")
	require.NoError(t, err)
	if six, err := net.Listen("tcp", "[::1]:0"); err == nil {
		require.Len(t, listeners, 2)
		_ = six.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	client, err := net.Dial("tcp", listeners[len(listeners)-1].Addr().String())
	require.NoError(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "GET / HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, Serve(ctx, server, listeners, 0), "the last listener serves too")

	var exit *ExitError
	require.ErrorAs(t, Serve(t.Context(), NewServer(nil), listeners, 0), &exit, "a listener that died")
	assert.Equal(t, ExitMachine, exit.Code)
}
