package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func completionCommand() cli.Command {
	shells := slices.Sorted(maps.Keys(completionScripts()))
	return cli.Command{
		Name:    "completion",
		Summary: "Print the completion script for a shell",
		Usage:   strings.Join(shells, "|"),
		Values:  shells,
		MaxArgs: -1,
		Examples: []string{
			`eval "$(paymentsvc completion bash)"                    # in ~/.bashrc; with "zsh", in ~/.zshrc`,
			"paymentsvc completion fish > ~/.config/fish/completions/paymentsvc.fish",
			"paymentsvc completion powershell | Out-String | Invoke-Expression",
		},
		Run: func(_ context.Context, c *cli.Call) error {
			if len(c.Args) > 0 && c.Args[0] == "words" { // for the scripts
				list := completedWords(c.Program, c.Args[1:])
				c.Print("words", cli.Fields{"words": list}, list...)
				return nil
			}
			shell := strings.Join(c.Args, " ")
			script := completionScripts()[shell]
			if script == "" {
				return cli.Usagef("no shell %q%s", cli.Printable(shell), cli.NearestOf(shell, shells))
			}
			return c.PrintRaw("completion", cli.Fields{"script": script}, script)
		},
	}
}

// completionScripts returns a script for each shell. Each script runs "paymentsvc completion words". If this command
// prints no word, the shell completes file names.
func completionScripts() map[string]string {
	const bash = `_paymentsvc() {
	local IFS=$'\n'
	COMPREPLY=($("$1" completion words -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
	case "${COMP_WORDS[COMP_CWORD-1]}" in -scheme | --scheme) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -F _paymentsvc paymentsvc
`
	return map[string]string{
		"bash": bash,
		"zsh":  "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" + bash,
		"fish": `function __paymentsvc
	set -l line (commandline -opc) (commandline -ct)
	paymentsvc completion words -- $line[2..-1] 2>/dev/null
end
complete -c paymentsvc -f -n 'test -n "$(__paymentsvc)"' -a '(__paymentsvc)'
`,
		"powershell": `Register-ArgumentCompleter -Native -CommandName paymentsvc -ScriptBlock {
	param($word, $line, $position)
	$words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
	if (-not $word) { $words += '""' } # some versions drop an empty argument
	paymentsvc completion words -- @words 2>$null | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`,
	}
}

// completedWords returns the words that can replace the last word of a line. The list is empty for a file name and
// for an unknown command.
func completedWords(p cli.Program, line []string) []string {
	if len(line) < 2 {
		names := cli.Mapped(p.Commands, func(cmd cli.Command) string { return cmd.Name })
		return beginning(strings.Join(line, ""), "", names)
	}
	cmd, word, before := p.Command(line[0]), line[len(line)-1], line[len(line)-2]
	if cmd == nil {
		return nil
	}
	list, dash := slices.Clone(cmd.Values), "-"
	if strings.HasPrefix(word, "--") {
		dash = "--"
	}
	for _, f := range cmd.Line() {
		isBefore := before == "-"+f.Name || before == "--"+f.Name
		switch {
		case isBefore && f.Name == "scheme":
			word = strings.TrimLeft(word, `'"`)
			last := strings.LastIndexAny(word, "( ") + 1
			return beginning(word[last:], word[:last], schemeParts)
		case isBefore && f.Kind != cli.Bool:
			return beginning(word, "", f.Values)
		}
		list = append(list, dash+f.Name)
	}
	return beginning(strings.Trim(word, `"`), "", list)
}

// beginning returns the words with the prefix in start, each preceded by the text in head.
func beginning(start, head string, words []string) (list []string) {
	for _, word := range words {
		if strings.HasPrefix(word, start) {
			list = append(list, head+word)
		}
	}
	return list
}

// schemeParts are the completions of -scheme, with their opening brackets.
var schemeParts = []string{
	"hex(", "HEX(", "base64(", "timestamp", "timestamp-ms", "method", "path", "uri", "url", "host", "query",
	"sorted-query", "body", "body-compact", "body-sorted", "secret", "header(", "field(", "fields(", "json(", "sha256(",
	"sha512(", "md5(", "sha1(", "lower(", "upper(",
}
