package contract

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// A variation is a message in which one thing was changed, and whether the document allows it still. The same ones try
// the validator, the fake and the SDK.
type variation struct {
	name  string
	valid bool
	body  string
}

// example gives a valid value of a property, as JSON.
func example(t require.TestingT, p property) string {
	switch {
	case p.name == "partner_id":
		return strconv.Itoa(partnerID)
	case p.name == "project_id":
		return strconv.Itoa(projectID)
	case len(p.Enum) > 0:
		return strconv.Quote(p.Enum[0])
	}
	values := map[string]string{
		"string":      `"text"`,
		"string/uuid": `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`,
		"string/uri":  `"https://pay.example/form/1?a=b#c"`,
		"integer":     "17",
		"number":      "10.50",
		"object":      `{"member":1}`,
	}
	value, known := values[strings.TrimSuffix(p.Type+"/"+p.Format, "/")]
	require.True(t, known, "%s has a type that no test knows: %s %s", p.name, p.Type, p.Format)
	return value
}

// ofOtherTypes gives values that a property must not have.
func ofOtherTypes(s *schema) []string {
	values := map[string][]string{
		"string":  {"17", "true", "null", `["text"]`, `{"text":1}`},
		"integer": {`"17"`, "1.5", "true", "null", "[17]", "{}"},
		"number":  {`"10.50"`, "false", "null", "[10.50]", "{}"},
		"object":  {`"{}"`, "17", "true", "null", "[]"},
	}
	wrong := values[s.Type]
	switch s.Format {
	case "uuid":
		wrong = append(wrong, `"text"`, `""`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c"`)
	case "uri":
		wrong = append(wrong, `"no uri"`, `""`, `"/a/path"`)
	}
	if len(s.Enum) > 0 {
		wrong = append(wrong, `""`, strconv.Quote(strings.ToUpper(s.Enum[0])), strconv.Quote(s.Enum[0]+"_"))
	}
	return wrong
}

// fullBody has every property of a schema.
func fullBody(t require.TestingT, s *schema) []member {
	var members []member
	for _, p := range s.Properties {
		members = append(members, member{p.name, example(t, p)})
	}
	return members
}

func objectOf(members []member) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, strconv.Quote(m.name)+":"+m.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func without(members []member, name string) []member {
	return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.name == name })
}

func with(members []member, name, value string) []member {
	changed := slices.Clone(members)
	for i := range changed {
		if changed[i].name == name {
			changed[i].value = value
			return changed
		}
	}
	return append(changed, member{name, value})
}

func backward(members []member) []member {
	turned := slices.Clone(members)
	slices.Reverse(turned)
	return turned
}

// bodies gives what can be done to an object of a schema that allows nothing beyond its properties.
func bodies(t require.TestingT, s *schema) []variation {
	full := fullBody(t, s)
	list := []variation{
		{name: "all of it", valid: true, body: objectOf(full)},
		{name: "in another order", valid: true, body: objectOf(backward(full))},
		{name: "a foreign name", body: objectOf(with(full, "foreign", `"text"`))},
		{name: "no JSON", body: strings.TrimSuffix(objectOf(full), "}")},
		{name: "something behind it", body: objectOf(full) + "1"},
		{name: "a list of it", body: "[" + objectOf(full) + "]"},
		{name: "null", body: "null"},
		{name: "empty"},
	}
	for _, p := range s.Properties {
		upper := strings.ToUpper(p.name)
		list = append(list,
			variation{name: p.name + " missing", valid: !s.requires(p.name), body: objectOf(without(full, p.name))},
			variation{name: p.name + " in other case", body: objectOf(with(full, upper, example(t, p)))},
		)
		for _, value := range ofOtherTypes(p.schema) {
			list = append(list, variation{
				name: p.name + " as " + value, body: objectOf(with(full, p.name, value)),
			})
		}
	}
	for _, choice := range s.AnyOf { // each of them is enough
		only := full
		for _, other := range s.AnyOf {
			for _, name := range other.Required {
				if !slices.Contains(choice.Required, name) {
					only = without(only, name)
				}
			}
		}
		list = append(list, variation{name: "only " + strings.Join(choice.Required, ", "), valid: true, body: objectOf(only)})
	}
	if len(s.AnyOf) > 0 {
		none := full
		for _, choice := range s.AnyOf {
			for _, name := range choice.Required {
				none = without(none, name)
			}
		}
		list = append(list, variation{name: "none of the choices", body: objectOf(none)})
	}
	return list
}

// TestTheValidatorRefusesWhatTheDocumentDoesNotAllow shows that the other tests can fail.
func TestTheValidatorRefusesWhatTheDocumentDoesNotAllow(t *testing.T) {
	d := readDocument(t)
	for _, p := range places() {
		s := serve(t, p, nil)
		for _, o := range d.operations() {
			for _, path := range o.paths() {
				for _, v := range bodies(t, o.request()) {
					require.Equal(t, v.valid, checkRequest(s.closed, s.post(path, v.body)) == nil, v.name)
				}
			}
			for _, v := range bodies(t, o.answer()) {
				m := s.post(o.paths()[0], "{}")
				m.status, m.answerHeader, m.answer = 200, http.Header{"Content-Type": {"application/json"}}, []byte(v.body)
				require.Equal(t, v.valid, checkAnswer(s.closed, m) == nil, v.name)
			}
		}
		for _, v := range bodies(t, d.notification(t).request()) {
			require.Equal(t, v.valid, checkRequest(s.closed, s.post(webhookPath, v.body)) == nil, v.name)
		}
	}
}

// TestTheFakeAgreesWithTheDocument sends the fake, rightly signed, what the document allows and what it does not.
func TestTheFakeAgreesWithTheDocument(t *testing.T) {
	s := serve(t, places()[1], nil)
	for _, o := range readDocument(t).operations() {
		for _, path := range o.paths() {
			for _, v := range bodies(t, o.request()) {
				s.renew(t)
				m := s.send(t, s.post(path, v.body))
				rejected := s.fake.Rejected()
				accepted := len(rejected) == 0 || rejected[0].Problem == paymentsvctest.ProblemNotFound // nothing was started here
				require.Equal(t, v.valid, accepted, "%s: %s: %s", path, v.name, m.answer)
			}
		}
	}
}
