// Package markdown reads the code blocks of a Markdown text, so that tests can compile and run what the documentation
// shows.
//
// It follows CommonMark for fenced and indented blocks, at the top level and in list items. It does not know block
// quotes and HTML: a block in one of these is read as if it stood in the text.
package markdown

import "strings"

// Indented is the Lang of a block that is set off by four spaces and not by a fence.
const Indented = "indented"

// Block is a code block.
type Block struct {
	// Lang is the info string of the fence, "go" for instance; "" when there is none, and Indented where there is no
	// fence.
	Lang string

	// Text is the code without its indentation in the page. Each line ends with a newline.
	Text string

	// Line is the number of the first line of Text in the page, from 1.
	Line int
}

// Blocks gives the code blocks of a Markdown text in their order. A fence that is never closed holds the rest of its
// list item, or of the text.
func Blocks(text string) []Block {
	r := reader{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		r.read(i+1, strings.TrimSuffix(line, "\r"))
	}
	r.end()
	return r.blocks
}

type reader struct {
	blocks []Block

	items     []int // the columns at which the content of the open list items begins
	paragraph bool  // the last line was text, so an indented line continues it

	open  *Block // the block that is being read
	fence string // its fence, "" for an indented block
	inset int    // the columns of indentation that its lines lose
	blank int    // blank lines in an indented block, which belong to it only when another line follows
}

func (r *reader) read(number int, line string) {
	column, rest := indentation(line)
	if r.open != nil && r.continues(column, rest, line) {
		return
	}
	if rest == "" {
		r.paragraph = false
		return
	}
	for len(r.items) > 0 && r.item() > column {
		r.items = r.items[:len(r.items)-1]
	}
	for {
		if column-r.item() >= 4 {
			if !r.paragraph {
				r.begin(Block{Lang: Indented, Text: dedent(line, r.item()+4) + "\n", Line: number}, "", r.item()+4)
			}
			return
		}
		width := marker(rest)
		if width == 0 {
			break
		}
		r.paragraph = false
		spaces, after := indentation(rest[width:])
		if after == "" || spaces > 4 {
			spaces = 1
			after = strings.TrimPrefix(rest[width:], " ")
		}
		line = strings.Repeat(" ", column+width+spaces) + after
		r.items = append(r.items, column+width+spaces)
		if column, rest = indentation(line); rest == "" {
			return
		}
	}
	if fence, info, ok := opening(rest); ok {
		r.begin(Block{Lang: info, Line: number + 1}, fence, column)
		return
	}
	r.paragraph = !strings.HasPrefix(rest, "#") && !ruled(rest)
}

// continues reads a line of the open block, or ends the block when the line is none of its own and left to read.
func (r *reader) continues(column int, rest, line string) bool {
	switch {
	case r.fence == "" && rest == "":
		r.blank++
		return true
	case r.fence == "" && column >= r.inset:
		r.open.Text += strings.Repeat("\n", r.blank) + dedent(line, r.inset) + "\n"
		r.blank = 0
		return true
	case r.fence == "":
		r.end()
		return false
	case rest != "" && column < r.item():
		r.end()
		return false
	case closes(rest, r.fence) && column-r.item() < 4:
		r.end()
		return true
	default:
		r.open.Text += dedent(line, r.inset) + "\n"
		return true
	}
}

func (r *reader) begin(b Block, fence string, inset int) {
	r.open, r.fence, r.inset, r.blank, r.paragraph = &b, fence, inset, 0, false
}

func (r *reader) end() {
	if r.open != nil {
		r.blocks = append(r.blocks, *r.open)
		r.open = nil
	}
}

// item is the column at which the content of the innermost list item begins, 0 outside of lists.
func (r *reader) item() int {
	if len(r.items) == 0 {
		return 0
	}
	return r.items[len(r.items)-1]
}

// indentation gives the columns of white space before a line's text, with tab stops at four, and the text.
func indentation(line string) (columns int, rest string) {
	for i, c := range line {
		switch c {
		case ' ':
			columns++
		case '\t':
			columns += 4 - columns%4
		default:
			return columns, line[i:]
		}
	}
	return columns, ""
}

// dedent takes up to so many columns of white space from a line.
func dedent(line string, columns int) string {
	column := 0
	for i, c := range line {
		width := 1
		if c == '\t' {
			width = 4 - column%4
		}
		if column >= columns || c != ' ' && c != '\t' {
			return line[i:]
		}
		column += width
		if column > columns { // the tab reaches beyond
			return strings.Repeat(" ", column-columns) + line[i+1:]
		}
	}
	return ""
}

// marker gives the length of the mark of a list item that begins a text, 0 when there is none.
func marker(text string) int {
	mark := 0
	for mark < len(text) && mark < 9 && text[mark] >= '0' && text[mark] <= '9' {
		mark++
	}
	switch {
	case mark > 0 && mark < len(text) && (text[mark] == '.' || text[mark] == ')'):
		mark++
	case mark == 0 && (text[0] == '-' || text[0] == '*' || text[0] == '+'):
		mark = 1
	default:
		return 0
	}
	if mark < len(text) && text[mark] != ' ' && text[mark] != '\t' || ruled(text) {
		return 0
	}
	return mark
}

// ruled says whether a text is a thematic break, which looks like a list item.
func ruled(text string) bool {
	marks := strings.NewReplacer(" ", "", "\t", "").Replace(text)
	return len(marks) >= 3 && strings.Trim(marks, marks[:1]) == "" && strings.ContainsAny(marks[:1], "-*_")
}

func opening(text string) (fence, info string, ok bool) {
	char := text[:1]
	if char != "`" && char != "~" {
		return "", "", false
	}
	info = strings.TrimLeft(text, char)
	fence = text[:len(text)-len(info)]
	if len(fence) < 3 || char == "`" && strings.Contains(info, "`") {
		return "", "", false
	}
	return fence, strings.TrimSpace(info), true
}

func closes(text, fence string) bool {
	text = strings.TrimRight(text, " \t")
	return len(text) >= len(fence) && strings.Trim(text, fence[:1]) == ""
}
