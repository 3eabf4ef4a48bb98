// Package cli has the common parts of the commands: flags, the settings file, environment variables, secrets, output
// and exit codes. It reaches the environment only through [Env], so tests run commands in their own process.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/nearest"
)

// Env is the environment of the process. All fields except Environ are required.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv returns an environment variable, "" if it is not set.
	Getenv func(name string) string
	// Environ returns the environment as os.Environ does, for notes on unknown names. nil disables the notes.
	Environ func() []string
	// Dir is the working directory, the base of relative paths in flags and variables.
	Dir string
	// Now returns the time of signatures and of printed lines.
	Now func() time.Time
}

// Command is one command of the program.
type Command struct {
	Name string
	// Summary describes the command in one line.
	Summary string
	// Usage is the end of the usage line, such as "[FILE|-]".
	Usage string
	// MaxArgs is the number of arguments allowed; -1 is any number. The default, 0, allows none.
	MaxArgs int
	// Values are the possible arguments, or some of them, for completion.
	Values []string
	// Flags are the command's flags. A flag of [Shared] has one meaning for all commands. Each command also has
	// -config, -json, -q and -h.
	Flags []Flag
	// Notes is text for the help, after the flags.
	Notes string
	// Examples are command lines for the help.
	Examples []string
	// Run executes the command. Its error determines the exit code, see [ExitError].
	Run func(ctx context.Context, c *Call) error
}

// Kind is the type of a flag's value.
type Kind int

// The kinds of values.
const (
	Text     Kind = iota
	Bool          // a flag without a value; true or false in settings
	Int           // a number in settings
	Duration      // text such as 30s, not negative
	File          // a path; in a settings file, relative to that file
	List          // a repeatable flag; an array of strings in settings
	JSON          // any JSON value, only in settings: see [Call.JSON]
)

// Flag is a setting of a command. On the command line it is -name; in the settings file and in the environment, see
// [Flag.Key] and [Flag.Variable].
type Flag struct {
	// Name is lower case, with dashes between words.
	Name string
	Kind Kind
	// Value is the placeholder of the value in the help, such as FILE.
	Value string
	// Default is the text of the default, "" for none.
	Default string
	// Usage describes the flag in a short line.
	Usage string
	// Values are the possible values, or some of them, for completion.
	Values []string
	// LineOnly excludes it from the settings file and the environment.
	LineOnly bool

	owner string // the command, "" for shared flags
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

// With returns f with another default.
func (f Flag) With(value string) Flag {
	f.Default = value
	return f
}

// Shared returns flags with the same meaning in every command. It panics for an unknown name.
func Shared(names ...string) []Flag {
	flags := make([]Flag, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(sharedFlags(), func(f Flag) bool { return f.Name == name })
		if i < 0 {
			panic("cli: no shared flag " + name)
		}
		flags = append(flags, sharedFlags()[i])
	}
	return flags
}

func sharedFlags() []Flag {
	return []Flag{
		{Name: "config", Kind: File, Value: "FILE", Usage: "settings file (default paymentsvc.json, if there is one)"},
		{Name: "scheme", Value: "TEXT", Usage: `how messages are signed, such as hex(timestamp "." body)`},
		{Name: "scheme-file", Kind: File, Value: "FILE", Usage: "file with the text of -scheme"},
		{Name: "secret-file", Kind: File, Value: "FILE", Usage: "file with the project secret key, - for standard input"},
		{Name: "old-secret-file", Kind: File, Value: "FILE", Usage: "file with the key before a rotation"},
		{Name: "base-url", Value: "URL", Usage: "address of the service, {base_url}"},
		{Name: "cacert", Kind: File, Value: "FILE", Usage: "PEM file with further CA certificates for https"},
		{Name: "http2", Kind: Bool, Usage: "send by HTTP/2 only, also without TLS"},
		{Name: "partner", Kind: Int, Value: "ID", Usage: "partner id"},
		{Name: "project", Kind: Int, Value: "ID", Usage: "project id"},
		{
			Name: "tolerance", Value: "DURATION", Values: []string{"any", "5m"},
			Usage: `how far a timestamp may be from the clock, or "any"`,
		},
		{Name: "timestamp-header", Value: "NAME", Default: "timestamp", Usage: "header with the timestamp"},
		{Name: "signature-header", Value: "NAME", Default: "signature", Usage: "header with the signature"},
		{Name: "timeout", Kind: Duration, Value: "DURATION", Usage: "end after this time with exit code 124"},
		{Name: "count", Kind: Int, Value: "N", Usage: "end after N messages", LineOnly: true},
		{Name: "json", Kind: Bool, Usage: "print JSON, one object a line", LineOnly: true},
		{Name: "q", Kind: Bool, Usage: "print no notes and no progress", LineOnly: true},
		{Name: "v", Kind: Bool, Usage: "print more", LineOnly: true},
	}
}

// all returns the command's flags with their owners, and the flags of every command.
func (cmd Command) all() []Flag {
	flags := append(slices.Clone(cmd.Flags), Shared("config", "json", "q")...)
	for i := range flags {
		if !slices.ContainsFunc(sharedFlags(), func(f Flag) bool { return f.Name == flags[i].Name }) {
			flags[i].owner = cmd.Name
		}
	}
	return flags
}

// Program is all commands.
type Program struct {
	Name     string
	Commands []Command
}

// Command returns a command by its name, or nil.
func (p Program) Command(name string) *Command {
	i := slices.IndexFunc(p.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Commands[i]
}

// Settings returns every flag of the settings file and the environment, shared flags first.
func (p Program) Settings() []Flag {
	var list []Flag
	for _, f := range sharedFlags() {
		if !f.LineOnly && f.Name != "config" {
			list = append(list, f)
		}
	}
	for _, cmd := range p.Commands {
		for _, f := range cmd.all() {
			if f.owner != "" && !f.LineOnly {
				list = append(list, f)
			}
		}
	}
	return list
}

// Nearest returns a hint with the most similar candidate, such as `; did you mean "x"?`, or "".
func Nearest(word string, candidates []string) string {
	if best := nearest.Of(word, candidates); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// NearestOf is [Nearest] with a list of all candidates.
func NearestOf(word string, candidates []string) string {
	return Nearest(word, candidates) + "; want one of " + strings.Join(candidates, ", ")
}

// Line returns the command's flags for the command line, sorted by name.
func (cmd Command) Line() []Flag {
	flags := slices.DeleteFunc(cmd.all(), func(f Flag) bool { return f.Kind == JSON })
	slices.SortFunc(flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}

// Names returns the names of [Command.Line].
func (cmd Command) Names() (names []string) {
	for _, f := range cmd.Line() {
		names = append(names, f.Name)
	}
	return names
}
