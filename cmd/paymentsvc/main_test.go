package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

const (
	testKey    = "a test key"
	testScheme = `hex(timestamp "." body)`
	testNow    = 1700000000
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // the searches make short-lived catalogues
	m.Run()
}

// desk is a working directory with a settings file and a key, and the output of a command.
type desk struct {
	t              *testing.T
	dir            string
	stdin          string
	now            time.Time // zero for the current time
	stdout, stderr bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), now: time.Unix(testNow, 0).UTC()}
	d.write("key.txt", testKey)
	d.write(cli.SettingsFile, `{"scheme": "hex(timestamp '.' body)", "secret_file": "key.txt", "tolerance": "5m"}`)
	return d
}

// deskWith returns a desk with more files.
func deskWith(t *testing.T, files map[string]string) *desk {
	t.Helper()
	d := newDesk(t)
	for name, text := range files {
		d.write(name, text)
	}
	return d
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
}

func (d *desk) read(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	require.NoError(d.t, err)
	return string(text)
}

// isPrivate checks the mode of a file or directory.
func (d *desk) isPrivate(name string, mode os.FileMode) {
	d.t.Helper()
	info, err := os.Stat(filepath.Join(d.dir, name))
	require.NoError(d.t, err)
	assert.True(d.t, os.PathSeparator != '/' || info.Mode().Perm() == mode, info.Mode())
}

func (d *desk) env(stdout io.Writer) *cli.Env {
	env := &cli.Env{
		Stdin: strings.NewReader(d.stdin), Stdout: stdout, Stderr: &d.stderr, Dir: d.dir,
		Getenv: func(string) string { return "" }, Now: func() time.Time { return d.now },
	}
	if d.now.IsZero() {
		env.Now = time.Now
	}
	return env
}

// run runs a command line in this process and returns its exit code. No output may hold the key, and with -json every
// line must be an object.
func (d *desk) run(args ...string) int {
	d.t.Helper()
	d.stdout.Reset()
	d.stderr.Reset()
	code := cli.Main(d.t.Context(), d.env(&d.stdout), program(), args)
	d.check(args)
	return code
}

// rejects wants a usage error with a text, and no output.
func (d *desk) rejects(want string, args ...string) {
	d.t.Helper()
	assert.Equal(d.t, cli.ExitUsage, d.run(args...), "%q", args)
	assert.Contains(d.t, d.stderr.String(), want, "%q", args)
	assert.Empty(d.t, d.stdout.String(), "%q", args)
}

func (d *desk) check(args []string) {
	d.t.Helper()
	assert.NotContains(d.t, d.stdout.String()+d.stderr.String(), testKey)
	for line := range strings.Lines(d.stdout.String() + d.stderr.String()) {
		if strings.Contains(strings.Join(args, " "), "-json") {
			var object struct {
				Type string
				V    int
			}
			require.NoError(d.t, json.Unmarshal([]byte(line), &object), line)
			assert.NotEmpty(d.t, object.Type, line)
			assert.Equal(d.t, 1, object.V, line)
		}
	}
}

// process is a running command.
type process struct {
	*desk
	args    []string
	ready   string      // its first line
	address string      // in its first line
	lines   chan string // its other lines
	code    chan int
}

// start starts a command that prints "ready".
func (d *desk) start(ctx context.Context, args ...string) *process {
	d.t.Helper()
	d.stdout.Reset()
	d.stderr.Reset()
	p := &process{desk: d, args: args, lines: make(chan string, 1000), code: make(chan int, 1)}
	read, write := io.Pipe()
	go func() {
		p.code <- cli.Main(ctx, d.env(write), program(), args)
		_ = write.Close()
	}()
	lines := bufio.NewReader(read)
	var err error
	p.ready, err = lines.ReadString('\n')
	require.NoError(d.t, err, "%v: %s", args, &d.stderr)
	go func() {
		defer close(p.lines)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			d.stdout.WriteString(line)
			p.lines <- line
		}
	}()
	address := regexp.MustCompile(`(?:ready +|"(?:base_)?url":"|"addresses":\[")(https?://[^"\s,]+)`)
	found := address.FindStringSubmatch(p.ready)
	require.NotNil(d.t, found, p.ready)
	p.address = found[1]
	return p
}

// wait returns the next line of a type, with -json.
func (p *process) wait(kind string) string {
	p.t.Helper()
	for line := range p.lines {
		if strings.Contains(line, `"type":"`+kind+`"`) {
			return line
		}
	}
	require.Fail(p.t, "no line of this type", "%s: %s", kind, &p.stderr)
	return ""
}

// end waits for the end, and returns the exit code.
func (p *process) end() int {
	p.t.Helper()
	for range p.lines { // until the output ends
	}
	p.check(p.args)
	return <-p.code
}

// serve starts a command, and returns its address and a function that waits for its exit code.
func (d *desk) serve(ctx context.Context, args ...string) (address string, wait func() int) {
	d.t.Helper()
	p := d.start(ctx, args...)
	return p.address, p.end
}

// object returns the first object of a type on standard output.
func (d *desk) object(kind string) map[string]any {
	d.t.Helper()
	for line := range strings.Lines(d.stdout.String()) {
		var object map[string]any
		require.NoError(d.t, json.Unmarshal([]byte(line), &object), line)
		if object["type"] == kind {
			return object
		}
	}
	require.Fail(d.t, "no object of this type", kind)
	return nil
}

// signed returns a notification as HTTP text.
func signed(t *testing.T, body, timestamp string) string {
	t.Helper()
	return "POST /hook HTTP/1.1\r\nHost: shop.example\r\nTimestamp: " + timestamp + "\r\nSignature: " +
		signatureOf(t, testScheme, testKey, body, timestamp) + "\r\n\r\n" + body
}

func signatureOf(t *testing.T, text string, key paymentsvc.Secret, body, timestamp string) string {
	t.Helper()
	scheme, key, err := canonical.ParseSchemeWith(text, key)
	require.NoError(t, err)
	signature, err := scheme.Signature(key, &paymentsvc.Message{Method: "POST", Timestamp: timestamp, Body: []byte(body)})
	require.NoError(t, err)
	return signature
}

func TestHelpFitsAScreen(t *testing.T) {
	d := newDesk(t)
	for _, cmd := range append(program().Commands, cli.Command{}) {
		assert.Zero(t, d.run(strings.Fields(cmd.Name+" -h")...), cmd.Name)
		assert.Empty(t, d.stderr.String(), cmd.Name)
		lines := strings.Split(strings.TrimSuffix(d.stdout.String(), "\n"), "\n")
		assert.LessOrEqual(t, len(lines), 40, cmd.Name)
		for _, line := range lines {
			assert.LessOrEqual(t, len(line), 120, "%s: %s", cmd.Name, line)
			assert.Equal(t, strings.TrimRight(line, " "), line, cmd.Name)
		}
		assert.NotContains(t, cmd.Summary, "'", "fish quotes it")
	}
	assert.LessOrEqual(t, strings.Count(d.stdout.String(), "\n"), 24)
}

func TestFlagsOfOneNameAllHaveValuesOrNone(t *testing.T) {
	bools := map[string]bool{}
	keys := map[string]bool{}
	for _, cmd := range program().Commands {
		for _, f := range cmd.Flags {
			before, known := bools[f.Name]
			assert.True(t, !known || before == (f.Kind == cli.Bool), "%s -%s: a line may have it before the command", cmd.Name,
				f.Name)
			bools[f.Name] = f.Kind == cli.Bool
		}
	}
	for _, f := range program().Settings() {
		assert.False(t, keys[f.Key()], f.Key())
		keys[f.Key()] = true
	}
}

func TestEachFlagRejectsValuesWithoutAMeaning(t *testing.T) {
	number, path := []string{"-1", "x", "9223372036854775808"}, []string{"", "-"}
	nonsense := map[cli.Kind][]string{
		cli.Address: {"shop", "ftp://a", "http://", "http://u:p@a/", "http://a/#b", "http://a/?b c"},
		cli.Choice:  {"", "nonsense"}, cli.Duration: {"", "5", "-1s"}, cli.File: {""}, cli.Int: number,
	}
	named := map[string][]string{
		"addr": {"9000", "", "localhost:x", "127.0.0.1:99999"}, "listen": {"9000"}, "answer": {"199", "600"},
		"base-url": {"http://pay.example.com", "https://a?b", "https://a/?", "https://a#"},
		"partner":  {"0"}, "project": {"0"}, "entry": append(number, "0"), "journal": {"0", "1048577"},
		"max-sessions": {"0", "1048577"}, "to": nil, "public": {"http://a/b", "http://a?b"},
		"tolerance": {"", "0", "0s", "999ms", "soon"}, "effort": {"0", "-1", "x", "NaN", "1e9"}, "word": {""},
		"timestamp-header": {"", "a b", "a:"}, "signature-header": {"", "é"}, "host": {"", "http://a", "a/b", "a b"},
		"hosts": {"", "http://x", "a:1", "a, b", "a,"}, "method": {"", "POST /", "A\r\nB"}, "amount": {"", "1,5"},
		"balance": {"x"}, "error-fields": {"code", ",message"}, "base-path": {"api", "/a?b"},
		"receiver": {"x"}, "script": {"x"}, "fault": {"froged", "late x", "forged 1"}, "set": {"amount", "x=1", "event=x"},
		"scheme": nil, "save": path, "out": path, "tls-cert": path, "ready-file": path,
		"status": {"NEW"}, "body": nil, "replay": nil, "order-id": nil, "user-data": nil, "url": nil, // free text
	}
	for _, cmd := range program().Commands {
		for _, f := range cmd.Flags {
			values, known := named[f.Name]
			values = append(slices.Clone(nonsense[f.Kind]), values...)
			if f.Kind == cli.Bool || f.Kind == cli.JSON || cmd.Name == "settings" {
				continue
			}
			assert.True(t, known || len(values) > 0, "%s -%s: values without a meaning", cmd.Name, f.Name)
			for _, value := range values {
				d := newDesk(t)
				d.write("paymentsvc.json", `{"secret_file": "key.txt", "tolerance": "5m"}`)
				args := map[string][]string{
					"discover": {"-demo"}, "trigger": {"payment.status_changed", "-to=http://a"},
					"mock": {"-addr=127.0.0.1:0", "-timeout=1s"}, "listen": {"-addr=127.0.0.1:0", "-timeout=1s"},
				}[cmd.Name]
				args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-"+f.Name+"=") })
				line := append([]string{cmd.Name, "-" + f.Name + "=" + value}, args...)
				d.rejects("-"+f.Name+": ", line...)
			}
		}
	}
}

func TestCompletionPrintsAScriptForEachShell(t *testing.T) {
	d := newDesk(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Zero(t, d.run("completion", shell), shell)
		assert.Contains(t, d.stdout.String(), "completion words -- ", shell)
	}
	d.rejects(`did you mean \"bash\"?`, "completion", "bsh", "-json")
}

var programs = flag.Bool("programs", false, "run the tests that start shells and interpreters")

func needPrograms(t *testing.T) {
	t.Helper()
	if !*programs {
		t.Skip("-programs starts the installed shells and interpreters")
	}
}

func TestCompletionWorksInEachShell(t *testing.T) {
	needPrograms(t)
	for shell, line := range map[string][]string{
		"bash": {"-c", `; COMP_WORDS=(paymentsvc mock -rep) COMP_CWORD=2; _paymentsvc paymentsvc; echo "${COMPREPLY[*]}"`},
		"zsh": {"-c", `; COMP_WORDS=(paymentsvc mock -rep) COMP_CWORD=2; emulate -R sh -c ` +
			`'_paymentsvc paymentsvc'; echo "${COMPREPLY[@]}"`},
		"fish": {"--no-config", "-c", `; complete -C "paymentsvc mock -rep"`},
	} {
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed: %v", shell, err)
			continue
		}
		d := newDesk(t)
		require.Zero(t, d.run("completion", shell))
		script := `paymentsvc() { echo "got $*"; }` + "\n" + d.stdout.String()
		if shell == "fish" {
			script = "function paymentsvc; echo got $argv; end\n" + d.stdout.String()
		}
		line[len(line)-1] = strings.TrimSuffix(script, "\n") + line[len(line)-1]
		out, err := exec.Command(program, line...).CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
		assert.Equal(t, "got completion words -- mock -rep", strings.TrimSpace(string(out)), shell)
	}
}

func TestCompletionCompletesWords(t *testing.T) {
	d := newDesk(t)
	for line, want := range map[string]string{
		"":                                "discover check sign verify listen trigger mock settings completion version",
		"tri":                             "trigger",
		"gone -":                          "",
		"mock -repeated ":                 "reject same new",
		"mock --repeated s":               "same",
		"mock -q -sh":                     "-show-bodies",
		"mock --sh":                       "--show-bodies",
		"trigger pay":                     "payment.status_changed payout.status_changed",
		"trigger -fault ea":               "early",
		"trigger -status S":               "SUCCESS",
		"completion f":                    "fish",
		"sign -kind n":                    "notification",
		"sign -as p":                      "python php",
		"mock -secret-file ":              "", // names of files
		`settings ""`:                     "-" + strings.Join(settingsCommand().Names(), " -"),
		"sign -scheme b":                  "base64( body body-compact body-sorted",
		"sign -scheme 'hex(timestamp bod": "hex(timestamp body hex(timestamp body-compact hex(timestamp body-sorted",
	} {
		words := strings.Split(line, " ")
		if at := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "'") }); at >= 0 {
			words = append(words[:at], strings.Join(words[at:], " ")) // a shell passes a quoted text as one word
		}
		assert.Zero(t, d.run(append([]string{"completion", "words", "--"}, words...)...), line)
		assert.Equal(t, want, strings.Join(strings.Split(strings.TrimSpace(d.stdout.String()), "\n"), " "), line)
	}
	for _, part := range schemeParts {
		_, err := canonical.ParseScheme("hex(" + part)
		assert.NotContains(t, fmt.Sprint(err), "unknown", part)
	}
}

func TestVersionNamesItsCommit(t *testing.T) {
	build := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
		{Key: "vcs.modified", Value: "false"}}}
	assert.Equal(t, "abc", commitOf(build))
	build.Settings[1].Value = "true"
	assert.Equal(t, "abc-modified", commitOf(build))
	assert.Equal(t, "unknown", commitOf(&debug.BuildInfo{}))
}

func TestVersionAndSettingsPrintEachValue(t *testing.T) {
	d := newDesk(t)
	assert.Zero(t, d.run("version", "-json"))
	assert.Equal(t, paymentsvc.InterfaceVersion, d.object("version")["interface"])
	for _, args := range [][]string{{"version"}, {"-version"}, {"--version"}} {
		assert.Zero(t, d.run(args...), args)
		assert.Regexp(t, `^paymentsvc \S+, commit \S+, go1\.\S+, interface version 1\.0\.0\n$`, d.stdout.String(), args)
	}
	assert.Zero(t, d.run("--version", "-json"))
	assert.Equal(t, runtime.Version(), d.object("version")["go"])
	assert.Zero(t, d.run("settings"))
	for line := range strings.Lines(d.stdout.String()) {
		assert.Regexp(t, `^[a-z0-9_.]+ +$`, line[:len("discover.forward_timeout")], "the values are in one column")
	}
	assert.Zero(t, d.run("settings", "-json"))
	assert.Contains(t, d.stdout.String(), `"key":"listen.addr","origin":"default","set":true,"value":"localhost:9000"`)
	assert.Contains(t, d.stdout.String(), `"key":"tolerance","origin":"paymentsvc.json:1:`)
}
