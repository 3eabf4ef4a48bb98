package markdown_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc/internal/markdown"
)

func TestCodeBlocksAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []markdown.Block
	}{
		"no block":               {"text\n\n- item\n", nil},
		"no text":                {"", nil},
		"a language":             {"a\n```go\nx\n\ty\n```\nb\n", []markdown.Block{{"go", "x\n\ty\n", 3}}},
		"no language":            {"```\nx\n```\n", []markdown.Block{{"", "x\n", 2}}},
		"an info string":         {"``` sh title=x \nx\n```\n", []markdown.Block{{"sh title=x", "x\n", 2}}},
		"tildes":                 {"~~~sh\n```\n~~~\n", []markdown.Block{{"sh", "```\n", 2}}},
		"a longer fence":         {"````md\n```go\nx\n```\n`````\n", []markdown.Block{{"md", "```go\nx\n```\n", 2}}},
		"a blank line":           {"```\n\nx\n\n```", []markdown.Block{{"", "\nx\n\n", 2}}},
		"an empty block":         {"```\n```\n", []markdown.Block{{"", "", 2}}},
		"two blocks":             {"```a\n1\n```\n```b\n2\n```\n", []markdown.Block{{"a", "1\n", 2}, {"b", "2\n", 5}}},
		"right after text":       {"text\n```go\nx\n```\ntext\n", []markdown.Block{{"go", "x\n", 3}}},
		"never closed":           {"```go\nx\n", []markdown.Block{{"go", "x\n", 2}}},
		"not closed by a word":   {"```go\nx\n```y\n", []markdown.Block{{"go", "x\n```y\n", 2}}},
		"code in a line":         {"```x``` is code\n    more\n", nil},
		"two backquotes":         {"``\nx\n``\n", nil},
		"line ends of Windows":   {"a\r\n```go\r\nx\r\n```\r\n", []markdown.Block{{"go", "x\n", 3}}},
		"an inset fence":         {"  ```go\n  x\n   y\n z\n  ```\n", []markdown.Block{{"go", "x\n y\nz\n", 2}}},
		"indented":               {"a\n\n    x\n      y\n\nb\n", []markdown.Block{{"indented", "x\n  y\n", 3}}},
		"indented by a tab":      {"a\n\n\tx\n\t\ty\n", []markdown.Block{{"indented", "x\n\ty\n", 3}}},
		"indented at the start":  {"    x", []markdown.Block{{"indented", "x\n", 1}}},
		"indented after a title": {"# a\n    x\n", []markdown.Block{{"indented", "x\n", 2}}},
		"a blank line within":    {"    x\n\n    y\n\n\nz\n", []markdown.Block{{"indented", "x\n\ny\n", 1}}},
		"indented fence":         {"a\n\n    ```go\n    ```\n", []markdown.Block{{"indented", "```go\n```\n", 3}}},
		"a line of a paragraph":  {"a\n    b\n", nil},
		"in a list":              {"- a\n\n  ```go\n  x\n  ```\n- b\n", []markdown.Block{{"go", "x\n", 4}}},
		"in a numbered list":     {"10. a\n    ```go\n    x\n    ```\n", []markdown.Block{{"go", "x\n", 3}}},
		"in a list in a list":    {"- a\n  - b\n\n    ```go\n    x\n    ```\n", []markdown.Block{{"go", "x\n", 5}}},
		"as a list item":         {"- ```go\n  x\n  ```\n", []markdown.Block{{"go", "x\n", 2}}},
		"ended by its list item": {"- ```go\n  x\n\ny\n", []markdown.Block{{"go", "x\n\n", 2}}},
		"text in a list":         {"- a\n\n    b\n", nil},
		"indented in a list":     {"- a\n\n      x\n", []markdown.Block{{"indented", "x\n", 3}}},
		"after a list":           {"- a\n\nb\n\n    x\n", []markdown.Block{{"indented", "x\n", 5}}},
		"after a rule":           {"---\n    x\n", []markdown.Block{{"indented", "x\n", 2}}},
		"indented list item":     {"-     x\n", []markdown.Block{{"indented", "x\n", 1}}},
		"an empty list item":     {"-\n  a\n\n      x\n", []markdown.Block{{"indented", "x\n", 4}}},
		"bold, not a list":       {"**a**\n\n    x\n", []markdown.Block{{"indented", "x\n", 3}}},
		"a number, not a list":   {"2026 a\n\n    x\n", []markdown.Block{{"indented", "x\n", 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, markdown.Blocks(test.text))
		})
	}
}

func TestAFencedTextIsReadAsItStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching("[ -_a-}]*")).Draw(t, "lines") // no backquote, no tilde
		text := ""
		for _, line := range lines {
			text += line + "\n"
		}
		page := "before\n```go\n" + text + "```\nafter\n"
		assert.Equal(t, []markdown.Block{{Lang: "go", Text: text, Line: 3}}, markdown.Blocks(page))
	})
}

func TestNoTextBreaksTheReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("`~-*1. \t\n\r#aé"))).Draw(t, "text")
		for _, block := range markdown.Blocks(text) {
			assert.Positive(t, block.Line)
		}
	})
}
