package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc/internal/markdown"
)

// commandsOf gives the commands of a page by where they stand, each on one line and without its comment. A command is
// a line of an indented block or of one that calls itself sh, with the lines that a backslash joins to it.
func commandsOf(p page) (commands []string, where map[string]string) {
	where = map[string]string{}
	for _, block := range p.blocks {
		if block.Lang != "sh" && block.Lang != "bash" && block.Lang != markdown.Indented {
			continue
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(block.Text, "\\\n", " "), "\n") {
			command := strings.Join(strings.Fields(shellComment.ReplaceAllString(line, "")), " ")
			if command == "" {
				continue
			}
			commands = append(commands, command)
			where[command] = p.at(block)
		}
	}
	return commands, where
}

// shellComment is a comment of the pages: at the start of a line, or set off by two spaces.
var shellComment = regexp.MustCompile(`(^|\s\s)\s*#.*$`)

func TestCommandsAreFoundInEveryKindOfBlock(t *testing.T) {
	const text = "Text, and `not this`.\n\n    first 'a  b' \\\n        second    # a comment\n    third '#'\n\n" +
		"```sh\n# a comment\nfourth &\n```\n\n```go\nno()\n```\n\n- item\n\n      fifth\n\n```\noutput\n```\n"
	commands, where := commandsOf(page{"x.md", text, markdown.Blocks(text)})
	assert.Equal(t, []string{"first 'a b' second", "third '#'", "fourth &", "fifth"}, commands)
	assert.Equal(t, "x.md:3", where["third '#'"])
}
