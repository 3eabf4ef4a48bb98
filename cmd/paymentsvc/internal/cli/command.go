// Package cli has the common parts of the commands: flags, the settings file, environment variables, secrets, output
// and exit codes. It reads the environment only from [Env], so that tests can run commands inside the test process.
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
	// Getenv returns an environment variable, or "" if it is not set.
	Getenv func(name string) string
	// Environ returns the environment in the form of os.Environ, for notes on unknown names. nil disables the notes.
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
	// Values are possible arguments, for completion.
	Values []string
	// Flags are the command's flags, including flags of [Shared]. Each command also has -config, -json, -q and -h.
	Flags []Flag
	// Notes is text for the help, after the flags.
	Notes string
	// Examples are command lines for the help.
	Examples []string
	// Run executes the command. The error determines the exit code, see [ExitError].
	Run func(ctx context.Context, c *Call) error
}

// all returns the command's flags with their owners, and the flags of every command.
func (cmd Command) all() []Flag {
	flags := append(slices.Clone(cmd.Flags), Shared("config", "json", "q")...)
	shared := sharedFlags()
	for i := range flags {
		if !slices.ContainsFunc(shared, func(f Flag) bool { return f.Name == flags[i].Name }) {
			flags[i].owner = cmd.Name
		}
	}
	return flags
}

// Program has a name and all commands.
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

// Settings returns every flag of the settings file and the environment except -config, shared flags first.
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

// NearestOf returns the hint of [Nearest] and a list of all candidates.
func NearestOf(word string, candidates []string) string {
	return Nearest(word, candidates) + "; want one of " + strings.Join(candidates, ", ")
}

// Mapped returns the results of convert, and an empty list for no values.
func Mapped[V, R any](values []V, convert func(V) R) []R {
	results := make([]R, 0, len(values))
	for _, v := range values {
		results = append(results, convert(v))
	}
	return results
}

// Line returns the flags that the command accepts on the command line, sorted by name.
func (cmd Command) Line() []Flag {
	flags := slices.DeleteFunc(cmd.all(), func(f Flag) bool { return f.Kind == JSON })
	slices.SortFunc(flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}

// Names returns the names of the flags of [Command.Line].
func (cmd Command) Names() []string {
	return Mapped(cmd.Line(), func(f Flag) string { return f.Name })
}

// command returns the command's name and the other arguments. The name is the first argument that is neither a flag
// nor a flag's value, before "--".
func (p Program) command(args []string) (name string, rest []string) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		if len(args[i]) < 2 || args[i][0] != '-' {
			return args[i], slices.Concat(args[:i], args[i+1:])
		}
		flag := strings.TrimPrefix(args[i][1:], "-")
		for _, cmd := range p.Commands {
			if f := find(cmd.all(), flag); f != nil && f.Kind != Bool {
				i++ // its value
				break
			}
		}
	}
	return "", args
}
