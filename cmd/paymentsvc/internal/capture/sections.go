package capture

import (
	"regexp"
	"strings"
)

var (
	separator   = regexp.MustCompile(`(?m)^###[^\n]*\n?`)
	assignment  = regexp.MustCompile(`(?m)^@([\w.-]+)[ \t]*=[ \t]*([^\r\n]*)`)
	placeholder = regexp.MustCompile(`\{\{\s*[$\w.-]+[^{}]*\}\}`)

	variableName = regexp.MustCompile(`\{\{[\w.-]+\}\}`)
)

const variables = "a variable in {{...}}: replace it with its value"

// hasSections reports whether data is an .http file. Either a line begins with ### and no line is a Content-Length
// header, or the first line is a // comment, a # @ directive or the definition of a variable.
func hasSections(data, first string) bool {
	return separator.MatchString(data) && !strings.Contains(strings.ToLower(data), "\ncontent-length:") ||
		strings.HasPrefix(first, "//") || strings.HasPrefix(first, "# @") || assignment.MatchString(first)
}

// sections returns the requests of an .http file.
func (t *text) sections(o Options) []entry {
	data := expanded(t.data)
	var list []entry
	from, above := 0, 0
	ends := append(separator.FindAllStringIndex(data, -1), []int{len(data), len(data)})
	for _, end := range ends {
		text := &text{name: t.name, data: request(data[from:end[0]]), above: above, commented: true}
		above += strings.Count(data[from:end[1]], "\n")
		from = end[1]
		if strings.TrimSpace(text.data) == "" {
			continue
		}
		m, _ := text.http(Options{Body: []byte{}}) // entry.read returns the error
		list = append(list, entry{
			number: len(list) + 1, method: m.Method, url: m.URL, signed: isSigned(m, o),
			read: func() (Message, error) { return t.finish(text.section(o)) },
		})
	}
	return list
}

// expanded replaces variables with their values. A value may contain variables from earlier lines. expanded stops after
// 1 MiB of values, because a few lines can double a value many times.
func expanded(data string) string {
	values, budget := map[string]string{}, 1<<20
	replace := func(text string) string {
		return variableName.ReplaceAllStringFunc(text, func(name string) string {
			value, known := values[strings.Trim(name, "{}")]
			budget -= len(value)
			if !known || budget < 0 {
				return name
			}
			return value
		})
	}
	for _, found := range assignment.FindAllStringSubmatch(data, -1) {
		values[found[1]] = replace(strings.TrimSpace(found[2]))
	}
	return replace(data)
}

// request returns a section from its request line up to the first response script or reference to a response. A line
// end replaces each line before the request line, to keep the line numbers for errors.
func request(section string) string {
	var b strings.Builder
	began := false
	for l := range strings.Lines(section) {
		trimmed := strings.TrimSpace(l)
		switch {
		case !began && (trimmed == "" || isComment(trimmed) || strings.HasPrefix(trimmed, "@")):
			b.WriteByte('\n')
		case strings.HasPrefix(l, "> {%"), strings.HasPrefix(l, "> ./"), strings.HasPrefix(l, "<> "):
			return strings.TrimRight(b.String(), "\r\n") + "\n"
		default:
			began = true
			b.WriteString(l)
		}
	}
	text := strings.TrimRight(b.String(), blank)
	if _, body := headLines(text + "\n"); body < 0 {
		return text + "\n\n" // a request without a body needs a blank line
	}
	return text + "\n"
}

func isComment(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//")
}

// section parses one request. The section contains the body or names its file.
func (t *text) section(o Options) (Message, error) {
	_, body := headLines(t.data)
	if strings.HasPrefix(t.data[max(body, 0):], "<@") {
		return Message{}, t.fail(body, "a body from a file with variables: paste the body here, with the values")
	}
	file, named := strings.CutPrefix(t.data[max(body, 0):], "< ")
	if !named || body < 0 {
		return t.http(o)
	}
	t.data = t.data[:body]
	if o.Body == nil {
		c := &command{text: t, o: o}
		var err error
		o.Body, err = c.read(strings.TrimSpace(file), body)
		if err != nil {
			return Message{}, err
		}
		o.BodyName = "the body's file"
	}
	return t.http(o)
}
