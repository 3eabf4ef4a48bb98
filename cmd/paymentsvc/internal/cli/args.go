package cli

import (
	"slices"
	"strings"
)

// line is a parsed command line.
type line struct {
	flags map[string][]string // the texts of each given flag
	args  []string
	help  bool
}

// parse parses flags anywhere on the line, with one dash or two. "--" ends them.
func parse(args []string, flags []Flag) (line, error) {
	l := line{flags: map[string][]string{}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			l.args = append(l.args, args...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			l.args = append(l.args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "h" || name == "help" {
			l.help = true
			continue
		}
		f := find(flags, name)
		switch {
		case f == nil:
			return l, Usagef("no flag -%s%s", Printable(name), nearestFlag(name, flags))
		case hasValue:
		case f.Kind == Bool:
			value = "true"
		case len(args) == 0:
			return l, Usagef("-%s: needs a value, %s", name, f.Value)
		default:
			value, args = args[0], args[1:]
		}
		if f.Kind != List && len(l.flags[name]) > 0 {
			return l, Usagef("-%s: given twice", name)
		}
		l.flags[name] = append(l.flags[name], value)
	}
	return l, nil
}

func find(flags []Flag, name string) *Flag {
	i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name && f.Kind != JSON })
	if i < 0 {
		return nil
	}
	return &flags[i]
}

func nearestFlag(name string, flags []Flag) string {
	if name == "secret" {
		return ": a secret is read from a file, -secret-file"
	}
	return strings.Replace(Nearest(name, Command{Flags: flags}.Names()), `"`, `"-`, 1)
}

// command removes the command's name from the line. The name is the first argument after any flags.
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
