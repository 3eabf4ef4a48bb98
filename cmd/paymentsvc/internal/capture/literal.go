package capture

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// literal converts values in the syntax of JavaScript, Python, PHP or Go to JSON. It skips the names of types and
// functions before a value.
type literal struct {
	data   string
	pos    int
	strict bool // rejects variables and other expressions
	bad    bool // true after a rejected expression, a missing end, or too many nested brackets
}

// item is an element in brackets, with or without a name.
type item struct {
	name, value string // as JSON
	named       bool
}

const opening, closing = "{[(<", "}])>"

func (l *literal) rest() string { return l.data[l.pos:] }

// next skips characters and returns the following character, or 0 at the end.
func (l *literal) next(skipped string) byte {
	for l.pos < len(l.data) && strings.IndexByte(skipped, l.data[l.pos]) >= 0 {
		l.pos++
	}
	if l.pos == len(l.data) {
		return 0
	}
	return l.data[l.pos]
}

const blank = " \t\r\n"

// group parses a pair of brackets and the elements inside.
func (l *literal) group(depth int) (items []item) {
	l.pos++
	for {
		before := l.pos
		switch c := l.next(blank + ",;"); {
		case c == 0 || depth > maxNested:
			l.bad = true
			return items
		case strings.IndexByte(closing, c) >= 0:
			l.pos++
			return items
		case l.strict && len(items) > 0 && !strings.ContainsAny(l.data[before:l.pos], ",;"):
			l.bad = true // Python joins adjacent strings, but JavaScript rejects them
		}
		start := l.pos
		element := item{value: l.value(depth + 1)}
		l.next(blank)
		if sign := pairSign(l.rest()); sign > 0 {
			l.pos += sign
			element = item{name: element.value, named: true}
			if c := l.next(blank); strings.IndexByte(closing+",", c) < 0 {
				element.value = l.value(depth + 1)
			}
		}
		if l.pos == start {
			l.pos++ // a value cannot start with this character
			continue
		}
		items = append(items, element)
	}
}

// pairSign returns the length of the sign between a name and a value, or 0.
func pairSign(rest string) int {
	for _, sign := range []string{"=>", ":", "="} {
		if strings.HasPrefix(rest, sign) {
			return len(sign)
		}
	}
	return 0
}

// value parses a value, and skips names of types before it.
func (l *literal) value(depth int) string {
	prefix := ""
	for {
		c := l.next(blank + "&*@")
		switch {
		case c == 0 || strings.IndexByte(closing+",;:=", c) >= 0:
			return wordJSON(prefix)
		case strings.IndexByte("'\"`", c) >= 0:
			text := l.quoted(c)
			l.bad = l.bad || l.strict && prefix == "b" && strings.Contains(text, `\u`) // JSON has characters, not bytes
			return text
		case strings.IndexByte(opening, c) >= 0:
			items := l.group(depth)
			if !l.continues() { // in string(4) "abab" and []string{"abab"} the brackets belong to the type
				return join(items, c == '(' || c == '<')
			}
			prefix = ""
		default:
			end := strings.IndexAny(l.rest(), blank+",;:='\"`"+opening+closing)
			if end < 0 {
				end = len(l.rest())
			}
			prefix = l.rest()[:end]
			l.pos += end
			l.check(prefix)
			if !l.continues() {
				return wordJSON(prefix)
			}
		}
	}
}

// continues reports whether a value follows the name of its type on the same line.
func (l *literal) continues() bool {
	c := l.next(" \t")
	return c != 0 && strings.IndexByte("'\"`"+opening, c) >= 0 || isLetter(c)
}

// check sets l.bad in strict mode for variables, operators and prefixes of strings with variables, such as f"{a}".
func (l *literal) check(word string) {
	follows := l.next(blank)
	constant := json.Valid([]byte(word)) || slices.Contains([]string{"None", "True", "False", "undefined"}, word)
	switch {
	case !l.strict, constant, follows != 0 && pairSign(l.rest()) > 0:
	case isLetter(word[0]) && (follows == '(' || follows == '{'):
	case (word == "b" || word == "u") && (follows == '"' || follows == '\''):
	default:
		l.bad = true
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// wordJSON converts an unquoted word to JSON.
func wordJSON(word string) string {
	switch lower := strings.ToLower(word); lower {
	case "none", "undefined", "nil", "":
		return "null"
	case "true", "false", "null":
		return lower
	}
	if json.Valid([]byte(word)) {
		return word
	}
	return string(quoted(word).raw)
}

// quoted converts a quoted string to JSON.
func (l *literal) quoted(quote byte) string {
	var b strings.Builder
	b.WriteByte('"')
	for l.pos++; l.pos < len(l.data); l.pos++ {
		c := l.data[l.pos]
		switch {
		case c == quote:
			l.pos++
			b.WriteByte('"')
			return b.String()
		case c == '\\' && l.pos+1 < len(l.data):
			l.pos++
			l.escape(&b, l.data[l.pos], quote)
		case quote == '`' && strings.HasPrefix(l.rest(), "${"):
			l.bad = true
			b.WriteByte(c)
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	l.bad = true
	return `""`
}

// escape converts a backslash and c to JSON. In strict mode, it rejects escapes that differ between JavaScript and
// Python.
func (l *literal) escape(b *strings.Builder, c, quote byte) {
	switch {
	case l.strict && strings.IndexByte("\"'\\bfnrtuvx\n", c) < 0 && (quote != '`' || strings.IndexByte("`$", c) < 0):
		l.bad = true
	case strings.IndexByte(`"\/bfnrtu`, c) >= 0:
		b.WriteString(`\` + string(c))
	case c == 'x' && l.pos+2 < len(l.data):
		b.WriteString(`\u00` + l.data[l.pos+1:l.pos+3])
		l.pos += 2
	case c == 'v' || c == '0':
		b.WriteString(map[byte]string{'v': `\u000b`, '0': `\u0000`}[c])
	case c != '\n':
		b.WriteByte(c)
	}
}

// join returns items as JSON. Names that are numbers make a list, as in PHP. Round or angle brackets around a single
// value have no effect. In a call, an unnamed argument in capitals is the method, and the members of an unnamed
// object are named arguments. The first other unnamed argument is the address, and the second is the body.
func join(items []item, round bool) string {
	if len(items) == 1 && round && !items[0].named {
		return items[0].value
	}
	named := slices.ContainsFunc(items, func(i item) bool {
		return i.named && strings.Trim(i.name, "[]0123456789") != ""
	})
	var parts []string
	unnamed := []string{`"url"`, `"body"`, `"more"`}
	for _, i := range items {
		switch {
		case !named:
			parts = append(parts, i.value)
		case !i.named && len(unnamed) == 0:
		case i.named:
			name := strings.TrimSuffix(strings.TrimPrefix(i.name, "["), "]")
			if !strings.HasPrefix(name, `"`) {
				name = string(quoted(name).raw)
			}
			parts = append(parts, name+":"+i.value)
		case strings.HasPrefix(i.value, "{"): // the options argument of fetch and axios
			if inner := strings.TrimSpace(i.value[1 : len(i.value)-1]); inner != "" {
				parts = append(parts, inner)
			}
		case strings.Trim(i.value, `"ABCDEFGHIJKLMNOPQRSTUVWXYZ`) == "":
			parts = append(parts, `"method":`+i.value)
		default:
			parts = append(parts, unnamed[0]+":"+i.value)
			unnamed = unnamed[1:]
		}
	}
	if named {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// calls matches the start of a call that sends a request.
var calls = regexp.MustCompile(`\b(?:fetch|axios(?:\.(post|put|patch))?|requests?\.(post|put|patch|request))\(`)

// call finds the first call that sends a request. It returns the call's arguments as JSON, and the position of the call
// or -1. The value is "" if the arguments contain an expression.
func call(data string) (value string, at int) {
	found := calls.FindStringSubmatchIndex(data)
	if found == nil {
		return "", -1
	}
	l := &literal{data: data, pos: found[1] - 1, strict: true}
	items := l.group(0)
	method := "GET"
	for _, pair := range [][]int{found[2:4], found[4:6]} {
		if pair[0] >= 0 {
			method = data[pair[0]:pair[1]]
		}
	}
	items = append([]item{{`"method"`, string(quoted(strings.ToUpper(method)).raw), true}}, items...)
	value = join(items, false)
	if l.bad || !json.Valid([]byte(value)) {
		return "", found[0]
	}
	return value, found[0]
}

var (
	printR   = regexp.MustCompile(`(?m)^\s*\[([\w-]+)\] => (?:Array\s*\(\s*\[0\] => )?([^\r\n]*)`)
	goMap    = regexp.MustCompile(`([\w-]+):\[([^\]\r\n]*)\]`)
	variable = regexp.MustCompile(`(?m)^((?:HTTP|CONTENT|REQUEST)_[A-Z0-9_]+)=([^\r\n]*)`)
)

// printed returns headers in a program's output as JSON, and the end of their text. For other text, it returns "", 0.
func printed(data string) (value string, end int) {
	first := strings.TrimLeft(data, blank)
	line, _, _ := strings.Cut(first, "\n")
	form := variable
	switch {
	case strings.Contains(line, "map["):
		form = goMap
	case strings.TrimSpace(line) == "Array":
		form = printR
	case !variable.MatchString(data):
		l := &literal{data: data, pos: len(data) - len(first)}
		value = l.value(0)
		l.next(blank)
		if l.bad || !json.Valid([]byte(value)) {
			return "", 0
		}
		return value, l.pos
	}
	var items []item
	for _, pair := range form.FindAllStringSubmatchIndex(data, -1) {
		name, text := data[pair[2]:pair[3]], data[pair[4]:pair[5]]
		items = append(items, item{string(quoted(name).raw), string(quoted(text).raw), true})
		end = pair[1]
	}
	end += len(data[end:]) - len(strings.TrimLeft(data[end:], blank+")]"))
	if form == variable {
		end = len(data)
	}
	return join(items, false), end
}

// program returns the message in a call or in printed headers. The list is empty for other text.
func (t *text) program(o Options) []entry {
	value, at := call(t.data)
	end := len(t.data)
	if at >= 0 && value == "" {
		return []entry{{number: 1, signed: true, read: func() (Message, error) {
			return Message{}, t.fail(at, "this call has a variable or another expression: replace it with its value")
		}}}
	}
	if at < 0 {
		value, end = printed(t.data)
		at = len(t.data) - len(strings.TrimLeft(t.data, blank))
	}
	if value == "" {
		return nil
	}
	n := node{json.RawMessage(value), at}
	part := &text{name: t.name, data: value, above: t.lineOf(at) - 1}
	var list []entry
	t.walk(&list, n, "", o, 0)
	if len(list) > 0 {
		return list
	}
	if !isHeaders(n) {
		return nil
	}
	return []entry{{number: 1, signed: true, read: func() (Message, error) {
		m := newMessage()
		err := part.pairs(&m, node{raw: n.raw})
		if err == nil {
			m.note("there is no request line, so the address is unknown; the signature may cover a part of the address")
			err = t.printedBody(&m, end, o)
		}
		return t.finish(m, err)
	}}}
}

// printedBody sets the body of printed headers to the separate file or to the text after the headers.
func (t *text) printedBody(m *Message, end int, o Options) error {
	if o.Body != nil {
		return t.bodyFile(m, o)
	}
	if end == len(t.data) {
		return t.present(m, len(t.data), false)
	}
	return t.cut(m, end, len(t.data))
}
