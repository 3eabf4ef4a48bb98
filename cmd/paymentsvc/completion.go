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
				return cli.Usagef("want bash, zsh, fish or powershell%s", cli.Nearest(shell, []string{"bash", "zsh", "fish", "powershell"}))
			}
			text := script(c.Program)
			c.Print("completion", struct {
				Script string `json:"script"`
			}{text}, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
			return nil
		},
	}
}

// eachCommand returns a line per command, made of its name and its flags with their dashes.
func eachCommand(p cli.Program, format string) string {
	var out strings.Builder
	for _, cmd := range p.Commands {
		fmt.Fprintf(&out, format, cmd.Name, "-"+strings.Join(cmd.Names(), " -"))
	}
	return out.String()
}

func commandNames(p cli.Program) string {
	return strings.TrimSpace(eachCommand(p, "%[1]s "))
}

func bashCompletion(p cli.Program) string {
	return `_paymentsvc() {
	local word=${COMP_WORDS[COMP_CWORD]} list=
	case ${COMP_WORDS[1]} in
` + eachCommand(p, "\t%s) list='%s' ;;\n") + `	esac
	[ "$COMP_CWORD" -gt 1 ] || list='` + commandNames(p) + `'
	COMPREPLY=($(compgen -W "$list" -- "$word"))
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
		for _, name := range cmd.Names() {
			option := "-o"
			if len(name) == 1 {
				option = "-s"
			}
			fmt.Fprintf(&out, "complete -c paymentsvc -n '__fish_seen_subcommand_from %s' %s %s\n", cmd.Name, option, name)
		}
	}
	return out.String()
}

func powershellCompletion(p cli.Program) string {
	return `Register-ArgumentCompleter -Native -CommandName paymentsvc -ScriptBlock {
	param($word, $line, $position)
	$flags = @{
` + eachCommand(p, "\t\t'%s' = '%s'\n") + `	}
	$given = $line.CommandElements
	if ($given.Count -lt 2 -or ($given.Count -eq 2 -and $word)) {
		$list = '` + commandNames(p) + `'
	} else {
		$list = $flags[$given[1].ToString()]
	}
	-split $list | Where-Object { $_ -like "$word*" } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`
}
