package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Main runs the command in args and returns the exit code of the process. If ctx ends, its cause must be
// [Interrupted] or [Terminated].
func Main(ctx context.Context, env *Env, p Program, args []string) int {
	c := &Call{Env: env, Program: p, values: map[string]Value{}}
	if wantsJSON(args) {
		c.values["json"] = Value{Texts: []string{"true"}}
	}
	exit := asExit(ctx, c.run(ctx, args))
	if exit == nil {
		return 0
	}
	c.printError(exit)
	return exit.Code
}

// wantsJSON reports whether args contain -json. It does not parse the line, because errors of parsing are JSON too.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"-json", "--json", "-json=true", "--json=true"}, arg)
	})
}

func (c *Call) run(ctx context.Context, args []string) error {
	name, rest := c.Program.command(args)
	if name == "" {
		name, rest = asFlag(args)
	}
	switch name {
	case "help":
		return c.helpOn(rest)
	case "":
		if !c.is("json") {
			_, _ = fmt.Fprint(c.Stderr, c.Program.help())
		}
		if len(args) > 0 {
			return Usagef("no command: %q%s", Printable(args[0]), Nearest(strings.TrimLeft(args[0], "-"), c.Program.names()))
		}
		return Usagef("no command")
	}
	cmd, err := c.Program.known(name)
	if err != nil {
		return err
	}
	c.command = *cmd
	line, err := parse(rest, cmd.all())
	switch {
	case err != nil:
		return err
	case line.help:
		return c.help(cmd)
	case cmd.MaxArgs >= 0 && len(line.args) > cmd.MaxArgs:
		return Usagef("unexpected argument %q", Printable(line.args[cmd.MaxArgs]))
	}
	if err := c.prepare(line); err != nil {
		return err
	}
	if _, has := c.values["timeout"]; has && c.Duration("timeout") > 0 {
		timeout := c.Duration("timeout")
		late := &ExitError{ExitTimeout, fmt.Errorf("-timeout: %s passed", timeout)}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, late)
		defer cancel()
	}
	if exit := asExit(ctx, cmd.Run(ctx, c)); exit != nil { // ctx has the cause of a timeout
		return exit
	}
	return c.failed
}

// known returns a command by its name, and an error for an unknown name.
func (p Program) known(name string) (*Command, error) {
	cmd := p.Command(name)
	if cmd == nil {
		return nil, Usagef("no command %q%s", Printable(name), Nearest(name, p.names()))
	}
	return cmd, nil
}

// helpOn prints the help of the command in args, or of the program.
func (c *Call) helpOn(args []string) error {
	topic := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if topic < 0 || args[topic] == "help" {
		return c.printHelp(c.Program.help())
	}
	cmd, err := c.Program.known(args[topic])
	if err != nil {
		return err
	}
	return c.help(cmd)
}

// asFlag returns the command for the flags --help and --version, or "", and the other arguments.
func asFlag(args []string) (name string, rest []string) {
	for i, arg := range args {
		switch arg {
		case "-h", "-help", "--help":
			name = "help"
		case "-version", "--version":
			name = "version"
		default:
			continue
		}
		return name, slices.Concat(args[:i], args[i+1:])
	}
	return "", args
}

// prepare sets the arguments and the value of each flag.
func (c *Call) prepare(given line) error {
	c.Args = given.args
	for _, name := range []string{"json", "q"} { // the notes below depend on these flags
		c.values[name] = Value{Texts: given.flags[name]}
	}
	if c.Getenv("PAYMENTSVC_SECRET") != "" {
		c.Note("PAYMENTSVC_SECRET is ignored: a secret comes from a file, so use PAYMENTSVC_SECRET_FILE")
	}
	c.noteUnknownVariables()
	file, err := c.settings(given)
	if err != nil {
		return err
	}
	values, err := c.resolve(c.command.all(), given, file)
	if err == nil {
		c.values = values
	}
	return err
}

// noteUnknownVariables prints a note for each unknown variable with the program's prefix.
func (c *Call) noteUnknownVariables() {
	known := []string{"PAYMENTSVC_CONFIG", "PAYMENTSVC_SECRET"}
	for _, f := range c.Program.Settings() {
		if f.Kind != JSON {
			known = append(known, f.Variable())
		}
	}
	if c.Environ == nil {
		return
	}
	for _, entry := range c.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PAYMENTSVC_") && !slices.Contains(known, name) {
			c.Note("%s is ignored: no setting has this variable%s", name, Nearest(name, known))
		}
	}
}

func (c *Call) settings(given line) (settingsFile, error) {
	config := c.Getenv("PAYMENTSVC_CONFIG")
	if flag := given.flags["config"]; len(flag) > 0 {
		config = flag[0]
	}
	return readSettings(c.Env, config, c.Program.Settings())
}

func (p Program) names() []string {
	return append(Mapped(p.Commands, func(cmd Command) string { return cmd.Name }), "help")
}

func (p Program) help() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s COMMAND [flags] [arguments]\n\n", p.Name)
	for _, cmd := range p.Commands {
		fmt.Fprintf(&out, "  %-12s%s\n", cmd.Name, cmd.Summary)
	}
	fmt.Fprintf(&out, `
Flags of all or most commands:

  -config FILE       settings file (default %[2]s, if it exists)
  -json              print JSON, one object per line
  -q, -v             print less (no notes, no progress), or print more
  -timeout DURATION  end after this time with exit code 124

%[1]s COMMAND -h describes a command. Flags may be anywhere on the line; -- ends the flags.
Settings come from flags, PAYMENTSVC_* variables and %[2]s: see %[1]s settings.

Exit codes: 0 success, 1 negative result, 2 invalid usage or input, 3 failure of the machine or network, 124 timeout.
`, p.Name, SettingsFile)
	return out.String()
}

func (c *Call) printHelp(text string) error {
	return c.PrintRaw("help", Fields{"text": text}, text)
}

// help prints the help of a command on standard output.
func (c *Call) help(cmd *Command) error {
	var out strings.Builder
	usage := strings.TrimSpace("[flags] " + cmd.Usage)
	fmt.Fprintf(&out, "Usage: %s %s %s\n\n%s.\n\n", c.Program.Name, cmd.Name, usage, cmd.Summary)
	var common []string
	for _, f := range cmd.all() {
		if f.Kind == JSON {
			continue
		}
		if slices.Contains([]string{"config", "json", "q", "v", "timeout"}, f.Name) {
			common = append(common, "-"+f.Name+defaultOf(f))
			continue
		}
		usage := f.Usage
		if f.Kind == List {
			usage += "; may be repeated"
		}
		fmt.Fprintf(&out, "  %-26s%s\n", strings.TrimSpace("-"+f.Name+" "+f.Value), usage+defaultOf(f))
	}
	fmt.Fprintf(&out, "  %s: see %s help\n", strings.Join(common, ", "), c.Program.Name)
	if cmd.Notes != "" {
		fmt.Fprintf(&out, "\n%s\n", cmd.Notes)
	}
	for i, example := range cmd.Examples {
		if i == 0 {
			out.WriteString("\nExamples:\n")
		}
		fmt.Fprintf(&out, "  %s\n", example)
	}
	return c.printHelp(out.String())
}

// defaultOf returns the default of a flag for the help.
func defaultOf(f Flag) string {
	if f.Default == "" {
		return ""
	}
	return " (default " + f.Default + ")"
}

// Millis returns a duration in whole milliseconds, for output.
func Millis(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }
