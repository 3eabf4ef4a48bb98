package discover

import (
	"encoding/json"
	"slices"

	"github.com/paymentsvc/paymentsvc"
)

// probe is the message of a sample with another body. need describes the difference.
type probe struct {
	need    string
	message *paymentsvc.Message
}

// probes returns messages that distinguish the forms of a body, the most useful first. It returns none if the body is
// not a JSON object.
func (f *finder) probes() (list []probe) {
	m := f.samples[f.primary].message
	body := m.Body
	if f.catalogue.large() {
		body = []byte(`{"amount":10.50}`)
	}
	if _, ok := members(body); !ok {
		return nil
	}
	for _, p := range []struct{ need, name, value string }{
		{needsOrder, "!", "1"}, {needsSlash, "zzz", `"a/b"`}, {needsUnicode, "zzz", `"é"`},
		{needsWhole, "amount", "100.00"}, {needsZero, "amount", "10.50"}, {needsHTML, "zzz", `"<&>"`},
		{"an amount with one decimal place such as 10.5", "amount", "10.5"},
		{"an amount without decimal places such as 100", "amount", "100"},
		{needsNested, "zzz", `{"b":"c","a":"d"}`}, {"null in the body", "zzz", "null"},
		{"an empty text in the body", "zzz", `""`}, {"true in the body", "zzz", "true"},
		{"false in the body", "zzz", "false"}, {"a space in a text of the body", "zzz", `"a b"`},
		{"a = or ' in a text of the body", "zzz", `"='"`}, {"a list inside the body", "zzz", `["a","b"]`},
		{"a ~ in a text of the body", "zzz", `"~"`}, {"a * in a text of the body", "zzz", `"*"`},
		{"one of !'() in a text of the body", "zzz", `"!()"`}, {needsUpperBody, "zzz", `"A"`},
		{needsLowerBody, "zzz", `"a"`}, {needsEscapes, "zzz", `"\/\u00e9"`}, {needsSpace, "zzz", "1"},
		{"a large amount such as 12000000.00", "amount", "12000000.00"},
		{"an amount with an exponent", "amount", "1e-5"}, {"an amount with an exponent", "amount", "1e+15"},
		{"an amount with an exponent", "amount", "1e20"},
	} {
		other := m
		other.Body = withField(body, p.name, p.value, p.need != needsOrder)
		if p.need == needsSpace {
			other.Body = append([]byte("{ "), other.Body[1:]...)
		}
		list = append(list, probe{p.need, &other})
	}
	return list
}

// withField returns the object, and each object inside it, with one more field. A sorted field stands before the first
// larger name, so the order of the fields does not distinguish two forms.
func withField(object []byte, name, value string, sorted bool) []byte {
	list, _ := members(object)
	at := slices.IndexFunc(list, func(f member) bool { return f.name == name })
	if at < 0 {
		at = len(list)
		if larger := slices.IndexFunc(list, func(f member) bool { return f.name > name }); sorted && larger >= 0 {
			at = larger
		}
		list = slices.Insert(list, at, member{name: name})
	}
	out := []byte{'{'}
	for i, f := range list {
		if i > 0 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(f.name)
		out = append(append(out, quoted...), ':')
		switch {
		case i == at:
			out = append(out, value...)
		case f.value[0] == '{':
			out = append(out, withField(f.value, name, value, sorted)...)
		default:
			out = append(out, f.value...)
		}
	}
	return append(out, '}')
}

// differences returns the needs of the probes with different texts for two pieces. Without such probes it returns the
// needs of only one of the pieces.
func differences(a, b *piece, probes []probe) (needs []string) {
	for _, p := range probes {
		if slices.Contains(needs, p.need) || !a.kind.ofBody() || !b.kind.ofBody() {
			continue
		}
		text, err := a.part(nil, p.message)
		other, otherErr := b.part(nil, p.message)
		if string(text) != string(other) || (err == nil) != (otherErr == nil) {
			needs = append(needs, p.need)
		}
	}
	if len(needs) > 0 {
		return needs
	}
	for _, need := range slices.Concat(a.needs, b.needs) {
		if slices.Contains(a.needs, need) != slices.Contains(b.needs, need) {
			needs = append(needs, need)
		}
	}
	return needs
}
