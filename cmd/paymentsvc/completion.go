package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func completionCommand() cli.Command {
	return cli.Command{
		Name:    "completion",
		Summary: "Print the completion script of a shell",
		Usage:   "bash|zsh|fish|powershell",
		Values:  shells(),
		MaxArgs: 1,
		Examples: []string{
			`eval "$(paymentsvc completion bash)"                    # in ~/.bashrc, with zsh in ~/.zshrc`,
			"paymentsvc completion fish > ~/.config/fish/completions/paymentsvc.fish",
			"paymentsvc completion powershell | Out-String | Invoke-Expression",
		},
		Run: func(_ context.Context, c *cli.Call) error {
			scripts := map[string]func(cli.Program) string{
				"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion, "powershell": powershellCompletion,
			}
			shell := strings.Join(c.Args, "")
			script := scripts[shell]
			if script == nil {
				return cli.Usagef("no shell %q%s", cli.Printable(shell), cli.NearestOf(shell, shells()))
			}
			text := script(c.Program)
			c.Print("completion", struct {
				Script string `json:"script"`
			}{text}, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
			return nil
		},
	}
}

func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// schemeParts are the names in a scheme that completion offers, a bracket included.
var schemeParts = []string{
	"hex(", "HEX(", "base64(", "timestamp", "timestamp-ms", "method", "path", "uri", "url", "host", "query",
	"sorted-query", "body", "body-compact", "body-sorted", "secret", "header(", "field(", "fields(", "json(", "sha256(",
	"sha512(", "md5(", "sha1(", "lower(", "upper(",
}

// valuesOf returns the words that completion offers for the value of a flag.
func valuesOf(f cli.Flag) string {
	switch f.Name {
	case "scheme":
		return strings.Join(schemeParts, " ")
	case "kind": // of every command
		return "request notification"
	}
	return strings.Join(f.Values, " ")
}

// eachValue returns a line per flag with a value, made of the command, the flag and the words of its value.
func eachValue(p cli.Program, format string) string {
	var out strings.Builder
	for _, cmd := range p.Commands {
		for _, f := range cmd.Line() {
			if f.Kind != cli.Bool {
				fmt.Fprintf(&out, format, cmd.Name, f.Name, valuesOf(f))
			}
		}
	}
	return out.String()
}

// eachCommand returns a line per command, made of its name, its arguments and its flags with their dashes.
func eachCommand(p cli.Program, format string) string {
	var out strings.Builder
	for _, cmd := range p.Commands {
		flags := "-" + strings.Join(cmd.Names(), " -")
		fmt.Fprintf(&out, format, cmd.Name, strings.TrimSpace(strings.Join(cmd.Values, " ")+" "+flags))
	}
	return out.String()
}

func commandNames(p cli.Program) string {
	return strings.TrimSpace(eachCommand(p, "%[1]s "))
}

// bashCompletion completes the last name in a scheme, also after a quote. It completes names of files where it has no
// words.
func bashCompletion(p cli.Program) string {
	return `_paymentsvc() {
	local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} list= head=
	case "${COMP_WORDS[1]} ${flag/#--/-}" in
` + eachValue(p, "\t'%s -%s') list='%s' ;;\n") + eachCommand(p, "\t'%s '*) list='%s' ;;\n") + `	esac
	[ "$COMP_CWORD" -gt 1 ] || list='` + commandNames(p) + `'
	if [ "${flag/#--/-}" = -scheme ]; then
		word=${word#[\'\"]} head=${word%"${word##*[( ]}"}
		compopt -o nospace 2>/dev/null
	fi
	local IFS=$'\n'
	COMPREPLY=($(IFS=' '; compgen -P "$head" -W "$list" -- "${word#"$head"}"))
}
complete -o default -F _paymentsvc paymentsvc
`
}

// zshCompletion uses zsh's own reader of completions for bash.
func zshCompletion(p cli.Program) string {
	return "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" + bashCompletion(p)
}

func fishCompletion(p cli.Program) string {
	var out strings.Builder
	for _, cmd := range p.Commands {
		fmt.Fprintf(&out, "complete -c paymentsvc -f -n __fish_use_subcommand -a %s -d '%s'\n", cmd.Name, cmd.Summary)
		line := fmt.Sprintf("complete -c paymentsvc -n '__fish_seen_subcommand_from %s'", cmd.Name)
		if len(cmd.Values) > 0 {
			fmt.Fprintf(&out, "%s -a '%s'\n", line, strings.Join(cmd.Values, " "))
		}
		for _, f := range cmd.Line() {
			option := "-o"
			if len(f.Name) == 1 {
				option = "-s"
			}
			fmt.Fprintf(&out, "%s%s %s %s\n", line, fishValue(f), option, f.Name)
		}
	}
	return out.String()
}

// fishValue returns the options for the value of a flag: -r takes the name of a file, -x only the words of -a.
func fishValue(f cli.Flag) string {
	switch {
	case f.Kind == cli.Bool:
		return ""
	case f.Kind == cli.File || f.Value == "FILE":
		return " -r"
	}
	return " -x -a '" + valuesOf(f) + "'"
}

func powershellCompletion(p cli.Program) string {
	return `Register-ArgumentCompleter -Native -CommandName paymentsvc -ScriptBlock {
	param($word, $line, $position)
	$words = @{
` + eachValue(p, "\t\t'%s -%s' = '%s'\n") + eachCommand(p, "\t\t'%s' = '%s'\n") + `	}
	$given = $line.CommandElements
	if ($given.Count -lt 2 -or ($given.Count -eq 2 -and $word)) {
		$list = '` + commandNames(p) + `'
	} else {
		$place = $given[1].ToString()
		$flag = "$place " + $given[$given.Count - 1 - [int][bool]$word].ToString()
		if ($words.ContainsKey($flag)) { $place = $flag }
		$list = $words[$place]
	}
	-split $list | Where-Object { $_ -like "$word*" } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`
}
