package contract

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestTheDocumentIsOpenAPI31(t *testing.T) {
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	parsed, err := libopenapi.NewDocument(data)
	require.NoError(t, err)
	v, errs := validator.NewValidator(parsed)
	require.Empty(t, errs)
	_, found := v.ValidateDocument()
	require.NoError(t, joined(data, found))
	require.Equal(t, "3.1.0", parsed.GetVersion())
}

// TestEveryNameOfTheSDKIsTheDocuments compares the version, the operations, the headers that each asks for, the events,
// and the fields of the request types. Requests and answers show the rest on the wire.
func TestEveryNameOfTheSDKIsTheDocuments(t *testing.T) {
	d := readDocument(t)
	require.Equal(t, paymentsvc.InterfaceVersion, d.version)
	var operations []string
	for _, o := range append(d.operations, d.notification) {
		operations = append(operations, o.id)
		var headers []string
		for _, p := range o.parameters {
			if p.In == "header" {
				require.True(t, *p.Required, o.id)
				headers = append(headers, p.Name+" "+p.Schema.Schema().Type[0])
			}
		}
		require.ElementsMatch(t, []string{"timestamp integer", "signature string"}, headers, o.id)
	}
	require.ElementsMatch(t, operations, append(endpointMethods(), d.notification.id))
	for _, o := range d.operations {
		names := []string{"partner_id", "project_id"} // the Client's
		if request := newRequest(t, o.id); request.IsValid() {
			names = append(names, jsonNames(request)...)
		}
		require.ElementsMatch(t, o.request.names(), names, o.id)
	}
	for _, p := range d.notification.request.properties {
		for _, name := range p.enum {
			require.True(t, paymentsvc.EventType(name).Known(), name)
		}
	}
	require.False(t, paymentsvc.EventType("dispute.status_changed").Known())
}

// TestEveryRequestHasTheDocumentsFieldsInItsOrder sends each request in full and without each field that is optional,
// and does not get one sent without a field that is required.
func TestEveryRequestHasTheDocumentsFieldsInItsOrder(t *testing.T) {
	s := serve(t, places()[0], nil)
	client := newClient(t, s.config())
	for _, o := range readDocument(t).operations {
		sent := func(request reflect.Value) (names []string) {
			_, err := invoke(t, client, o.id, "card", request) // the fake may know no such order
			if paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent && err != nil {
				require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
				require.Empty(t, s.taken(), "messages on the wire")
				return nil
			}
			for _, name := range regexp.MustCompile(`[{,]"(\w+)":`).FindAllStringSubmatch(string(s.only(t).body), -1) {
				if name[1] != "member" { // of an open object
					names = append(names, name[1])
				}
			}
			return names
		}
		in := func(some []string) []string {
			return slices.DeleteFunc(o.request.names(), func(name string) bool { return !slices.Contains(some, name) })
		}
		least := append(slices.Clone(o.request.required), o.request.choices[:min(1, len(o.request.choices))]...)
		require.Equal(t, in(least), sent(minimal(t, o)), o.id)
		if !newRequest(t, o.id).IsValid() {
			continue
		}
		for i, name := range jsonNames(newRequest(t, o.id)) {
			request := minimal(t, o)
			if slices.Contains(least, name) {
				request.Field(i).SetZero()
				require.Nil(t, sent(request), "%s without %s", o.id, name)
			} else if !slices.Contains(o.request.choices, name) {
				setAny(request.Field(i))
				require.Equal(t, in(append(least, name)), sent(request), "%s with %s", o.id, name)
			}
		}
		if o.request.choices == nil {
			request := minimal(t, o)
			for i := range request.NumField() {
				setAny(request.Field(i))
			}
			require.Equal(t, o.request.names(), sent(request), o.id)
		}
	}
}

// statement is what the interface document says of a field: its type in words, and whether it is required.
type statement struct {
	field, typ string
	required   bool
}

// TestTheTablesOfTheInterfaceDocumentAreOpenAPIs compares field by field what sections 4 and 6 say in words with
// openapi.yaml. testdata/interface.md is a copy of the interface document.
func TestTheTablesOfTheInterfaceDocumentAreOpenAPIs(t *testing.T) {
	text, err := os.ReadFile("testdata/interface.md")
	require.NoError(t, err)
	d := readDocument(t)
	_, events, _ := strings.Cut(string(text), "Body of all three events")
	events, _, _ = strings.Cut(events, "\n## ")
	requireSame(t, fieldsIn(events), d.notification.request)

	_, endpoints, _ := strings.Cut(string(text), "\n## 4. ")
	endpoints, _, _ = strings.Cut(endpoints, "\n## 5. ")
	shown := regexp.MustCompile("`POST \\{base_url\\}(/[^`]+)`").FindAllStringSubmatch(endpoints, -1)
	require.Len(t, shown, len(d.operations))
	requests, responses := map[string][]statement{}, map[string][]statement{}
	for _, o := range d.operations {
		_, section, there := strings.Cut(endpoints, "`POST {base_url}"+o.path+"`")
		require.True(t, there, "no section has %s", o.path)
		section, _, _ = strings.Cut(section, "\n### ")
		request, response, _ := strings.Cut(section, "Response body")
		_, request, _ = strings.Cut(request, "Request body")
		requests[o.id], responses[o.id] = fieldsIn(request), fieldsIn(response)
		if strings.Contains(request, "same as 4.1") {
			requests[o.id] = requests["InitPayment"]
		}
		if strings.Contains(response, "same types as in 4.2") {
			responses[o.id] = responses["StatusPayment"]
		}
		if o.id == "StatusPayment" {
			// The one difference: the table of section 4.2 requires order_id, while its text says that either order_id or
			// user_data identifies the payment. openapi.yaml and the SDK have both.
			require.Contains(t, requests[o.id], statement{"order_id", "string", true}, "no longer a difference")
			require.Equal(t, []string{"order_id", "user_data"}, o.request.choices)
			requests[o.id] = append(requests[o.id][1:], statement{"order_id", "string", false}, statement{"user_data", "string", false})
		}
		requireSame(t, requests[o.id], o.request)
		requireSame(t, responses[o.id], o.answer)
	}
}

func requireSame(t *testing.T, want []statement, s *schema) {
	t.Helper()
	require.NotEmpty(t, want)
	var got []statement
	for _, p := range s.properties {
		got = append(got, statement{p.name, strings.TrimSuffix(p.typ+"/"+p.format, "/"), s.requires(p.name)})
	}
	require.ElementsMatch(t, want, got)
}

// fieldsIn reads the table of a text, or the names with a type in its first line where there is none.
func fieldsIn(text string) (fields []statement) {
	first, _, _ := strings.Cut(text, "\n")
	all := strings.Contains(first, "all required")
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z]\w+) \| ([^|]+) \|(?: ([^|]+) \|)?$`).FindAllStringSubmatch(text, -1) {
		fields = append(fields, statement{row[1], typeOf(row[2]), all || strings.HasPrefix(row[3], "yes")})
	}
	if fields != nil {
		return fields
	}
	for _, found := range regexp.MustCompile("`(\\w+)` \\(([^)]*)\\)").FindAllStringSubmatch(first, -1) {
		fields = append(fields, statement{found[1], typeOf(found[2]), strings.Contains(found[2], "required")})
	}
	return fields
}

// typeOf returns a type in words as openapi.yaml has it: "number (decimal)" is number, "string (URI)" is string/uri.
func typeOf(words string) string {
	name := regexp.MustCompile(`^\w*`).FindString(words)
	switch {
	case name == "decimal":
		return "number"
	case strings.Contains(words, "(uuid)"):
		return name + "/uuid"
	case strings.Contains(words, "URI"):
		return name + "/uri"
	}
	return name
}
