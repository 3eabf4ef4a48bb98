package contract

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWhatTheDocumentAllowsIsReadFieldByField makes answers and notifications from the document's schemas, with and
// without what is optional and with members that it does not show, and has the SDK read them.
func TestWhatTheDocumentAllowsIsReadFieldByField(t *testing.T) {
	for _, r := range readers(t) {
		t.Run(r.id, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				body := drawObjectOf(t, drawMembers(t, &r))
				require.NoError(t, r.allowed(body), "what was made is not what the document allows")
				result, err := r.read(body)
				require.NoError(t, err)
				requireRead(t, r.schema, []byte(body), result)
			})
		})
	}
}

// drawMembers gives the members of an object that both the document and the SDK take.
func drawMembers(t *rapid.T, r *reader) []member {
	var members []member
	for _, p := range r.schema.Properties {
		must := r.schema.requires(p.name) || needs(r.id, p.name, false)
		if must || rapid.Bool().Draw(t, p.name+" is there") {
			members = append(members, member{p.name, drawValue(t, p, needs(r.id, p.name, true))})
		}
	}
	for _, s := range stricterFields() { // one of two is enough
		if s.id == r.id && s.or != "" && !hasMember(members, s.field) && !hasMember(members, s.or) {
			name := rapid.SampledFrom([]string{s.field, s.or}).Draw(t, "the one of two")
			members = append(members, member{name, drawValue(t, property{name, r.schema.property(name)}, false)})
		}
	}
	foreign := rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "error", "type", "status_name", "order", "order_ids", "_order_id", "amount ", "\x00amount",
		}),
		rapid.Custom(func(t *rapid.T) string { return drawText(t, "name") }),
		rapid.Map(rapid.SampledFrom(r.schema.names()), strings.ToUpper), // some other key to an answer
	).Filter(func(name string) bool { return !known(r, name) })
	for _, name := range rapid.SliceOfNDistinct(foreign, 0, 3, rapid.ID).Draw(t, "further names") {
		members = append(members, member{name, drawJSON(t, 2)})
	}
	return rapid.Permutation(members).Draw(t, "order")
}

func hasMember(members []member, name string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.name == name })
}

// known reports whether a name is one of the schema's. In a notification other case is a difference of its own.
func known(r *reader, name string) bool {
	for _, p := range r.schema.Properties {
		if p.name == name || r.notification() && strings.EqualFold(p.name, name) {
			return true
		}
	}
	return false
}

// drawValue gives a value of a property's type, as JSON.
func drawValue(t *rapid.T, p property, filled bool) string {
	switch {
	case len(p.Enum) > 0:
		return drawQuoted(t, rapid.SampledFrom(p.Enum).Draw(t, p.name))
	case p.Format == "uuid":
		return drawQuoted(t, rapid.StringMatching(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`).Draw(t, p.name))
	case p.Format == "uri":
		return drawQuoted(t, rapid.OneOf(
			rapid.SampledFrom([]string{
				"https://pay.example", "bank://pay?order=1&a=b#c", "http://[::1]:8080/%D0%BF/", "urn:order:17",
			}),
			rapid.StringMatching(`https://[a-z]{1,10}\.example(:[1-9][0-9]{1,3})?`+
				`(/[a-zA-Z0-9._~!$&'()*+,;=:@-]{0,10}){0,3}(\?[a-z=&]{0,20})?`),
		).Draw(t, p.name))
	case p.Type == "string":
		if !filled && rapid.IntRange(0, 9).Draw(t, p.name+" is empty") == 0 {
			return `""`
		}
		return drawQuoted(t, drawText(t, p.name))
	case p.Type == "integer":
		return rapid.OneOf(
			// JSON Schema's integers are numbers without a fraction, however they are written.
			rapid.SampledFrom([]string{"-0", "1.0", "1e0", "-17.00", "1.7e1", "1700e-2", "0.0E+5", "-9.223372036854775808e18"}),
			rapid.Custom(func(t *rapid.T) string { return strconv.FormatInt(rapid.Int64().Draw(t, p.name), 10) }),
		).Draw(t, p.name)
	case p.Type == "number":
		return drawDecimal(t, p.name)
	}
	t.Fatalf("%s has a type that no test makes: %s %s", p.name, p.Type, p.Format)
	return ""
}
