package discover

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// hints returns the checks after a search without a match, the most useful first.
func (f *finder) hints(result *Result) (hints []string) {
	if len(result.Partial) > 0 {
		p := result.Partial[0]
		return []string{
			fmt.Sprintf("%s explains %s, but not the other samples: check how the other samples were captured, and that "+
				"they belong to the same project%s",
				p.Text, strings.Join(p.Samples, ", "), f.unlike(p.Samples)),
			"if requests and notifications have different schemes, search them separately and use canonical.ByKind",
		}
	}
	otherKind := func(s *sample) bool { return s.message.Kind != f.samples[0].message.Kind }
	if slices.ContainsFunc(f.samples, otherKind) {
		hints = append(hints, "requests and notifications may have different schemes: search them separately")
	}
	hints = append(
		hints,
		"the secret: check that it is the complete secret key of the sample's project at the time of the sample",
	)
	fewest := math.MaxInt
	for _, s := range f.samples {
		hints = append(hints, s.hints()...)
		list, _ := members(s.message.Body)
		fewest = min(fewest, len(list))
	}
	if f.catalogue.cut {
		hints = append(
			hints,
			"a smaller body: the search skipped some forms of the JSON, of the list of fields and of single fields, "+
				"because a large body takes too long",
		)
	}
	hints = append(
		hints,
		"the capture: check that body and headers have the transmitted bytes, neither formatted nor decoded, and that "+
			"no proxy changed the path",
	)
	if fewest > 2 {
		hints = append(
			hints,
			fmt.Sprintf(
				"a shorter body: these samples have at least %d fields, and a sample with two fields, such as a "+
					"get_balance request, leaves time for longer compositions",
				fewest,
			),
		)
	}
	if len(f.options.Words) == 0 {
		hints = append(
			hints,
			"texts that are in the canonical string but not in a sample, such as the partner id, the project id or the "+
				"name of an API key: add them with Options.Words",
		)
	}
	hints = append(
		hints,
		"the algorithm: ask the service, because the search covers only HMAC-SHA256, as in section 5 of the interface "+
			"document",
	)
	return append(hints, f.effortHint())
}

// unlike lists the features of the other samples that the named samples lack.
func (f *finder) unlike(named []string) (text string) {
	var common []string
	var others []*sample
	for _, s := range f.samples {
		if slices.Contains(named, s.name) {
			common = append(common, features(s.message.Body)...)
		} else {
			others = append(others, s)
		}
	}
	for _, s := range others {
		own := slices.DeleteFunc(features(s.message.Body), func(feature string) bool {
			return slices.Contains(common, feature)
		})
		if len(own) > 0 {
			text += fmt.Sprintf("; unlike these samples, %s has %s", s.name, strings.Join(own, ", "))
		}
	}
	return text
}

var (
	quotedTexts = regexp.MustCompile(quotedText)

	// featuresOfJSON are properties of JSON that programs often write in different ways.
	featuresOfJSON = []struct {
		name    string
		pattern *regexp.Regexp
		inTexts bool // also inside quoted texts
	}{
		{"an object or a list inside the body", regexp.MustCompile(`\S\s*[{[]`), false},
		{"letters that are not ASCII", regexp.MustCompile(`[^\x00-\x7f]|\\u`), true},
		{"a number with a fraction", regexp.MustCompile(`[0-9]\.`), false},
		{"a number with an exponent", regexp.MustCompile(`[0-9][eE]`), false},
		{"null", regexp.MustCompile(`null`), false},
	}
)

// features returns the names of the featuresOfJSON that a body has.
func features(body []byte) (list []string) {
	withoutTexts := quotedTexts.ReplaceAll(body, nil)
	for _, feature := range featuresOfJSON {
		text := withoutTexts
		if feature.inTexts {
			text = body
		}
		if feature.pattern.Match(text) {
			list = append(list, feature.name)
		}
	}
	return list
}

// hints lists the parts that the search did not try, and warns about white space at the end of the body.
func (s *sample) hints() (hints []string) {
	add := func(lacks bool, text string) {
		if lacks {
			hints = append(hints, s.name+": "+text)
		}
	}
	list, isObject := members(s.message.Body)
	add(
		len(bytes.TrimRight(s.message.Body, " \t\r\n")) < len(s.message.Body),
		"its body ends in white space: check that the sender transmitted this white space",
	)
	add(
		s.message.URL == nil || s.message.URL.Host == "",
		"it has no host, so the host and the whole address were not tried",
	)
	add(s.message.URL == nil, "it has no address, so the path was not tried")
	add(!isObject && len(s.message.Body) > 0, "its body is not a JSON object, so its fields were not tried")
	add(
		len(list) > fieldsTried,
		fmt.Sprintf("it has %d fields, but only %d were tried as single fields", len(list), fieldsTried),
	)
	return hints
}

// effortHint suggests more effort and names up to three incomplete families of one sample, or reports a complete
// search.
func (f *finder) effortHint() string {
	var cut []string
	for i, st := range f.stages[f.order[0]] {
		stages := f.stages[f.order[0]]
		reached := st.max // less than wanted if the limit excluded compositions
		if i+1 < len(stages) && stages[i+1].short {
			reached = max(reached, stages[i+1].maxParts())
		}
		if !st.short && reached < min(st.wanted, len(st.groups)) {
			cut = append(
				cut, fmt.Sprintf("%s (up to %d of %d parts)", st.what, reached, min(st.wanted, len(st.groups))),
			)
		}
	}
	if len(cut) == 0 && f.options.Effort > 1 {
		return "more effort does not help: the search tried all its compositions for this sample"
	}
	text := fmt.Sprintf(
		"more effort: Options.Effort %g takes up to ten times as long, and tries more readings of the secret, more "+
			"separators and longer compositions",
		10*max(1, f.options.Effort),
	)
	if len(cut) > 0 {
		text += "; not tried in full: " + strings.Join(cut[:min(3, len(cut))], "; ")
	}
	return text
}

// keyHints tries simple compositions with keys beyond the forms of the secret, and describes a matching key.
func (f *finder) keyHints(ctx context.Context) []string {
	const simple = 2_000_000
	s, text := f.samples[f.order[0]], string(f.options.Secret)
	odd, words := oddKeys(text, s.message.Timestamp, f.keys)
	f.search.reset(s.sums())
	for _, st := range f.catalogue.stages(f.order[0], odd, min(1, f.options.Effort)) {
		if st.total > simple || f.search.run(ctx, st) || f.search.found == nil {
			continue
		}
		h := f.search.found
		return []string{
			fmt.Sprintf(
				"the key: %s fits with %s as the key, which is not a canonical.SecretForm: pass this key, or write a Signer",
				h.composition.describe(), words[h.key.secret],
			),
		}
	}
	return nil
}

// oddKeys returns wrong variants of the secret, except the known keys, each with its description.
func oddKeys(text, timestamp string, known []key) (odd []key, words map[paymentsvc.Secret]string) {
	words = map[paymentsvc.Secret]string{
		paymentsvc.Secret(text + timestamp):      "the secret followed by the timestamp",
		paymentsvc.Secret(timestamp + text):      "the timestamp followed by the secret",
		paymentsvc.Secret(text + "\n"):           "the secret and a line break",
		paymentsvc.Secret(text + "\r\n"):         "the secret and a line break of Windows",
		paymentsvc.Secret(text + " "):            "the secret and a space",
		paymentsvc.Secret(text + "&"):            "the secret and an ampersand",
		paymentsvc.Secret("\ufeff" + text):       "a byte order mark and the secret",
		paymentsvc.Secret(`"` + text + `"`):      "the secret in double quotes",
		paymentsvc.Secret("'" + text + "'"):      "the secret in single quotes",
		paymentsvc.Secret(strings.ToUpper(text)): "the secret in upper case",
		paymentsvc.Secret(strings.ToLower(text)): "the secret in lower case",
	}
	for _, k := range known {
		delete(words, k.secret)
	}
	for secret := range words {
		odd = append(odd, newKey(canonical.SecretText, secret))
	}
	return odd, words
}
