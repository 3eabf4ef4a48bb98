package discover

import (
	"encoding/json"
	"slices"

	"github.com/paymentsvc/paymentsvc"
)

// probe is a sample's message with another body, and what is in it.
type probe struct {
	need    string
	message *paymentsvc.Message
}

// probes returns messages that tell the ways to write a body apart. There is none if the body is not a JSON object.
func (f *finder) probes() (list []probe) {
	m := f.samples[f.primary].message
	body := m.Body
	if f.catalogue.large() {
		body = []byte(`{"amount":10.50}`)
	}
	if _, ok := members(body); !ok {
		return nil
	}
	add := func(need, name, value string) {
		other := m
		other.Body = withField(body, name, value)
		if need == needsSpace {
			other.Body = append([]byte("{ "), other.Body[1:]...)
		}
		list = append(list, probe{need, &other})
	}
	for _, p := range [][2]string{
		{needsWhole, "100.00"}, {needsZero, "10.50"}, {"an amount with one decimal place such as 10.5", "10.5"},
		{"an amount without decimal places such as 100", "100"}, {"a large amount such as 12000000.00", "12000000.00"},
		{"an amount with an exponent", "1e-5"}, {"an amount with an exponent", "1e+15"}, {"an amount with an exponent", "1e20"},
	} {
		add(p[0], "amount", p[1])
	}
	for _, p := range [][2]string{
		{needsSpace, "1"}, {needsSlash, `"a/b"`}, {needsUnicode, `"é"`}, {needsHTML, `"<&>"`}, {"a = or ' in a text of the body", `"='"`},
		{"true in the body", "true"}, {"false in the body", "false"}, {"null in the body", "null"}, {"an empty text in the body", `""`},
		{needsNested, `{"b":"c","a":"d"}`}, {"a list inside the body", `["a","b"]`}, {"a space in a text of the body", `"a b"`},
		{"a ~ in a text of the body", `"~"`}, {"a * in a text of the body", `"*"`}, {"one of !'() in a text of the body", `"!()"`},
		{needsUpperBody, `"A"`}, {needsLowerBody, `"a"`}, {needsEscapes, `"\/\u00e9"`},
	} {
		add(p[0], "zzz", p[1])
	}
	add(needsOrder, "!", "1")
	return list
}

// withField returns the object with one more field, and so each object inside it.
func withField(object []byte, name, value string) []byte {
	list, _ := members(object)
	at := slices.IndexFunc(list, func(f member) bool { return f.name == name })
	if at < 0 {
		at, list = len(list), append(list, member{name: name})
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
			out = append(out, withField(f.value, name, value)...)
		default:
			out = append(out, f.value...)
		}
	}
	return append(out, '}')
}

// differences returns the needs of the probes of which two pieces make different texts, or else the needs that only one
// of them has.
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
