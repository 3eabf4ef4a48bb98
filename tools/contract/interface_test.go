package contract

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statement is what the interface document says of a field: its type in words, and whether it is required.
type statement struct {
	field, typ string
	required   bool
}

// section is one of the interface document: the path in it, and its request, answer and notification.
type section struct {
	path              string
	request, response []statement
}

// TestTheTablesOfTheInterfaceDocumentAreOpenAPIs compares field by field what sections 4 and 6 say in words with
// openapi.yaml. testdata/interface.md is a copy of the interface document.
func TestTheTablesOfTheInterfaceDocumentAreOpenAPIs(t *testing.T) {
	text, err := os.ReadFile("testdata/interface.md")
	require.NoError(t, err)
	sections := readInterface(string(text))
	d := readDocument(t)
	for _, o := range d.operations() {
		s, there := sections[o.path]
		require.True(t, there, "no section has %s", o.path)
		delete(sections, o.path)
		if o.path == "/status_payment" {
			requireStatusByUserData(t, &s, o)
		}
		requireSame(t, o.path+" request", s.request, o.request())
		requireSame(t, o.path+" response", s.response, o.answer())
	}
	requireSame(t, "notification", sections["notification"].request, d.notification(t).request())
	delete(sections, "notification")
	require.Empty(t, sections, "sections that openapi.yaml has no operation for")
}

// requireStatusByUserData takes out the one difference between the two: the table of section 4.2 has order_id only and
// requires it, while its text says that either order_id or user_data identifies the payment. openapi.yaml and the SDK
// have both.
func requireStatusByUserData(t *testing.T, s *section, o *operation) {
	t.Helper()
	require.Contains(t, s.request, statement{"order_id", "string", true}, "no longer a difference")
	require.NotContains(t, s.names(), "user_data", "no longer a difference")
	var choices [][]string
	for _, choice := range o.request().AnyOf {
		choices = append(choices, choice.Required)
	}
	require.Equal(t, [][]string{{"order_id"}, {"user_data"}}, choices)
	s.request = slices.DeleteFunc(s.request, func(f statement) bool { return f.field == "order_id" })
	s.request = append(s.request, statement{"order_id", "string", false}, statement{"user_data", "string", false})
}

func (s *section) names() []string {
	var names []string
	for _, f := range s.request {
		names = append(names, f.field)
	}
	return names
}

func requireSame(t *testing.T, where string, want []statement, s *schema) {
	t.Helper()
	require.NotEmpty(t, want, where)
	var got []statement
	for _, p := range s.Properties {
		typ := strings.TrimSuffix(p.Type+"/"+p.Format, "/")
		got = append(got, statement{p.name, typ, s.requires(p.name)})
	}
	require.ElementsMatch(t, want, got, where)
}

var (
	pathOf   = regexp.MustCompile("`POST \\{base_url\\}(/[^`]+)`")
	tableRow = regexp.MustCompile(`^\| (\w+) \| ([^|]+) \|(?: ([^|]+) \|)?$`)
	inText   = regexp.MustCompile("`(\\w+)` \\(([^)]*)\\)")
)

// readInterface gives the sections by their path, and what all notifications have as "notification".
func readInterface(text string) map[string]section {
	sections := map[string]section{}
	_, endpoints, _ := strings.Cut(text, "\n## 4. ")
	endpoints, rest, _ := strings.Cut(endpoints, "\n## 5. ")
	var previous []section
	for part := range strings.SplitSeq(endpoints, "\n### ") {
		path := pathOf.FindStringSubmatch(part)
		if path == nil {
			continue
		}
		request, response, _ := strings.Cut(part, "Response body")
		_, request, _ = strings.Cut(request, "Request body")
		s := section{path: path[1], request: fieldsIn(request), response: fieldsIn(response)}
		if strings.Contains(request, "same as 4.1") {
			s.request = previous[0].request
		}
		if strings.Contains(response, "same types as in 4.2") {
			s.response = previous[1].response
		}
		previous = append(previous, s)
		sections[s.path] = s
	}
	_, events, _ := strings.Cut(rest, "Body of all three events")
	events, _, _ = strings.Cut(events, "\n## ")
	sections["notification"] = section{request: fieldsIn(events)}
	return sections
}

// fieldsIn reads the table of a text, or the names with a type in its first line where there is none.
func fieldsIn(text string) []statement {
	first, _, _ := strings.Cut(text, "\n")
	all := strings.Contains(first, "all required")
	var fields []statement
	for line := range strings.SplitSeq(text, "\n") {
		if row := tableRow.FindStringSubmatch(strings.TrimSpace(line)); row != nil && row[1] != "Field" {
			fields = append(fields, statement{row[1], typeOf(row[2]), all || strings.HasPrefix(row[3], "yes")})
		}
	}
	if fields != nil {
		return fields
	}
	for _, found := range inText.FindAllStringSubmatch(first, -1) {
		fields = append(fields, statement{found[1], typeOf(found[2]), strings.Contains(found[2], "required")})
	}
	return fields
}

// typeOf gives a type in words as openapi.yaml has it: "number (decimal)" is number, "string (URI)" is string/uri.
func typeOf(words string) string {
	typ := strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' })
	if len(typ) == 0 {
		return ""
	}
	switch name := typ[0]; {
	case name == "decimal":
		return "number"
	case strings.Contains(words, "(uuid)"):
		return name + "/uuid"
	case strings.Contains(strings.ToLower(words), "uri"):
		return name + "/uri"
	default:
		return name
	}
}
