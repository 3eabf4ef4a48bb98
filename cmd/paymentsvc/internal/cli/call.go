package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// Call is one call of a command. Its methods, except PrintRaw, are safe for concurrent use.
type Call struct {
	*Env
	// Program lists all commands, for commands such as completion.
	Program Program
	// Args are the arguments without flags.
	Args []string

	command Command
	values  map[string]Value // by Flag.Name
	out     sync.Mutex
	stdin   string // the setting or argument that has read standard input
	noted   map[string]bool
	failed  error // the latest error of a write to standard output
}

// Value is a setting's value and its origin.
type Value struct {
	// Texts has the value or default, or all values of a [List]. It is empty for [JSON], and for a setting without a
	// value and a default.
	Texts []string
	// Raw is the JSON of the settings file, for kind [JSON].
	Raw json.RawMessage
	// Origin is "-flag", a variable, file:line:column, or "default".
	Origin string

	rank rank
	dir  string // the base of relative paths
	key  string // in the settings file
}

// Place returns the origin for errors, with the key for a settings file.
func (v Value) Place() string {
	if v.rank == byFile {
		return v.Origin + ": " + v.key
	}
	return v.Origin
}

type rank int

const (
	byDefault rank = iota
	byFile
	byVariable
	byFlag
)

// resolve returns the value of each flag. It takes the first existing value, in this order: command line, environment,
// settings file, default.
func (c *Call) resolve(flags []Flag, given line, file settingsFile) (map[string]Value, error) {
	values := map[string]Value{}
	for _, f := range flags {
		v, err := c.value(f, given, file)
		if err != nil {
			return nil, err
		}
		for _, text := range v.Texts {
			if err := f.validate(text); err != nil {
				return nil, Usagef("%s: %w", v.Place(), err)
			}
		}
		values[f.Name] = v
	}
	return values, nil
}

func (c *Call) value(f Flag, given line, file settingsFile) (Value, error) {
	fromFlag, onLine := given.flags[f.Name]
	variable := ""
	if !f.LineOnly && f.Kind != JSON {
		variable = c.Getenv(f.Variable())
	}
	set, inFile := file.values[f.Key()]
	switch {
	case onLine:
		if variable != "" && variable != strings.Join(fromFlag, "\n") {
			c.Note("-%s overrides the different value of %s", f.Name, f.Variable())
		}
		return Value{Texts: fromFlag, Origin: "-" + f.Name, rank: byFlag, dir: c.Dir}, nil
	case variable != "":
		return Value{Texts: []string{variable}, Origin: f.Variable(), rank: byVariable, dir: c.Dir}, nil
	case inFile && f.Kind == JSON:
		return Value{Raw: set.raw, Origin: set.where, rank: byFile, dir: file.dir, key: f.Key()}, nil
	case inFile:
		texts, err := set.texts(f)
		return Value{Texts: texts, Origin: set.where, rank: byFile, dir: file.dir, key: f.Key()}, err
	case f.Default != "":
		return Value{Texts: []string{f.Default}, Origin: "default", dir: c.Dir}, nil
	}
	return Value{Origin: "default"}, nil
}

// Value returns the value of a flag of this command. It panics for an unknown flag.
func (c *Call) Value(name string) Value {
	v, ok := c.values[name]
	if !ok {
		panic("cli: " + c.command.Name + " has no flag " + name)
	}
	return v
}

// Set reports whether the command line, the environment or the settings file sets a flag, even to its default.
func (c *Call) Set(name string) bool { return c.Value(name).rank > byDefault }

// Text returns the value of a flag, or "". The path of a [File] is absolute, or "-".
func (c *Call) Text(name string) string {
	v := c.Value(name)
	if len(v.Texts) == 0 {
		return ""
	}
	f := find(c.command.all(), name)
	if f != nil && f.Kind == File && v.Texts[0] != "-" {
		return inDir(v.dir, v.Texts[0])
	}
	return v.Texts[0]
}

// List returns the values of a repeatable flag.
func (c *Call) List(name string) []string { return c.Value(name).Texts }

// Bool returns the value of a flag of kind [Bool].
func (c *Call) Bool(name string) bool { return c.Text(name) == "true" }

// Int returns the value of a flag of kind [Int], or 0.
func (c *Call) Int(name string) int64 {
	n, _ := strconv.ParseInt(c.Text(name), 10, 64) // resolve has checked it
	return n
}

// Duration returns the value of a flag of kind [Duration], or 0.
func (c *Call) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.Text(name)) // resolve has checked it
	return d
}

// Address returns the value of a flag of kind [Address], or nil.
func (c *Call) Address(name string) *url.URL {
	u, _ := address(c.Text(name)) // resolve has checked it
	return u
}

// JSON decodes the value of a setting of kind [JSON] and reports whether it is set. It rejects unknown names.
func (c *Call) JSON(name string, into any) (bool, error) {
	v := c.Value(name)
	if v.Raw == nil {
		return false, nil
	}
	dec := json.NewDecoder(bytes.NewReader(v.Raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Type.Kind() == reflect.String {
		return false, Usagef("%s: %s: want a string%s", v.Place(), wrong.Field, sample(wrong.Field))
	}
	if err != nil {
		return false, Usagef("%s: %s", v.Place(), strings.TrimPrefix(err.Error(), "json: "))
	}
	return true, nil
}

// Beside returns the absolute form of a path in a setting's value. Paths in a settings file are relative to that file.
func (c *Call) Beside(name, path string) string { return inDir(c.Value(name).dir, path) }

// Fail returns a usage error with the origin of a flag's value: the flag, the variable, or file, line and column.
func (c *Call) Fail(name, format string, args ...any) error {
	place := c.Value(name).Place()
	if !c.Set(name) {
		place = "-" + name
	}
	return Usagef("%s: %w", place, fmt.Errorf(format, args...))
}

// Tolerance returns the value of -tolerance. The flag is required, because the document does not specify a default.
func (c *Call) Tolerance() (time.Duration, error) {
	switch text := c.Text("tolerance"); text {
	case "":
		return 0, Usagef(`-tolerance: not set; choose a duration such as 5m, or "any" for timestamps of every age`)
	case "any":
		return paymentsvc.AnyAge, nil
	}
	return c.Duration("tolerance"), nil
}

// PrintSettings prints every setting with its value and origin. Flags of this command affect only shared settings.
func (c *Call) PrintSettings() error {
	given := line{flags: map[string][]string{}}
	for name, v := range c.values {
		if v.rank == byFlag {
			given.flags[name] = v.Texts
		}
	}
	file, err := c.settings(given)
	if err != nil {
		return err
	}
	width := 0
	for _, f := range c.Program.Settings() {
		width = max(width, len(f.Key()))
	}
	for _, f := range c.Program.Settings() {
		own := given
		if f.owner != "" {
			own = line{}
		}
		values, err := c.resolve([]Flag{f}, own, file)
		if err != nil {
			return err
		}
		c.printSetting(f, values[f.Name], width)
	}
	return nil
}

// printSetting prints a setting, with its key in a column of the given width.
func (c *Call) printSetting(f Flag, v Value, width int) {
	text := strings.Join(v.Texts, ", ")
	switch {
	case v.Raw != nil:
		text = "(JSON)" // a file name in the JSON may be a secret by mistake
	case f.Kind == File && text != "" && text != "-":
		text = inDir(v.dir, text)
		if _, err := os.Stat(text); err != nil {
			text = "(no such file)" // the name may be the secret by mistake
		}
	case f.Kind != Bool:
		text = mask.Text(mask.Addresses(text))
	}
	shown := text
	if shown == "" {
		shown = "(not set)"
	}
	c.Print("setting", Fields{"key": f.Key(), "value": text, "set": text != "", "origin": v.Origin},
		fmt.Sprintf("%-*s  %-30s  %s", width, f.Key(), shown, v.Origin))
}
