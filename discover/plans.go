package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// separators returns the first separators, the likeliest first.
func separators(many int) []string {
	all := []string{
		"", "\n", ".", "|", ":", "&",
		";", ",", " ", "-", "_", "/", "\r\n", "+", "#", "\t",
		"~", "*", "::", "||", "{np}", "\x00", "=", "@", "?", `\n`, "%", "$", "--", "---", ", ", "; ", ": ", " | ", "\n\n", "^", "!", "//", "&&", "__",
		"{up}", "|||", ":::", "...", "##", "~~", "**", "++", "==", "@@", ";;", ",,", "..", "$$", "%%", "^^", "!!", "??", "<", ">", "<>", "->", "=>",
		" - ", " . ", " : ", " & ", " + ", "\\", "\r", "\v", "\x01", "\x1f", "\x1e", "\u00a7", "\u00b6", "[", "]", "(", ")", "{", "}", "\"", "'", "`", ":|:", "|:|", "-|-", "<|>", "+|+", "#|#",
		"%20", "%0A", "&amp;", `\t`, `\r\n`, "0", "1", "x",
	}
	return all[:min(many, len(all))]
}

const (
	fewSeparators   = 6
	mixedSeparators = 9
	someSeparators  = 16
	allSeparators   = math.MaxInt
)

// plan describes a stage. limit counts compositions, and cuts the longest ones.
type plan struct {
	what      string
	take      func(*piece) bool
	min, max  int
	extras    int
	bodyAtEnd bool
	gaps      []string
	mixed     bool
	frames    frames
	keyRarity int
	wrap      *wrapping
	limit     float64
	effort    float64           // the least Options.Effort that tries it
	odd       func(*piece) bool // takes pieces of which a composition has few
	odds      int               // how many
	ascending bool              // fields are in the order of the body
	sorted    bool              // all texts are in the order of their bytes
	own       bool              // a list of fields has its own separator beside it too
}

// rarity says how unusual a reading of the secret is among all that are possible.
func (k *key) rarity(all []key) int {
	readable := func(forms ...canonical.SecretForm) bool {
		return slices.ContainsFunc(all, func(o key) bool { return slices.Contains(forms, o.form) })
	}
	switch k.form {
	case canonical.SecretText, canonical.SecretHex, canonical.SecretBase64Tail:
		return common
	case canonical.SecretBase64:
		if readable(canonical.SecretHex, canonical.SecretBase64Tail) { // their texts mostly happen to be base64 as well
			return uncommon
		}
		return common
	default:
		return rare
	}
}

// plans returns what is searched, in this order: first what is simple and common, then what is rarer or longer.
func plans() []plan {
	return slices.Concat(simplePlans(), wrappedPlans(), uncommonPlans(), listPlans(), longPlans(), longestPlans())
}

const million = 1e6

func simplePlans() []plan {
	return []plan{
		{
			what: "timestamp, method, address and body", take: upTo(common, coreOrNothing()...), max: 5, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "all fields of the body", take: onShelf(lists, rare), max: 1,
			gaps: separators(someSeparators), frames: after | around, keyRarity: rare, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with up to two identifying headers and fields, words and the secret",
			take: either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isIdentity), min: 2, max: 5, extras: 2,
			gaps: separators(fewSeparators), frames: after, limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, with rare separators", take: upTo(common, coreKinds()...), max: 4,
			gaps: separators(allSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "timestamp, method, address, body and one more common part", take: upTo(common), max: 4, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		{
			what: "single fields of the body and the timestamp, up to five", take: upTo(common, ofField, ofTimestamp), max: 5, extras: 5,
			gaps: separators(someSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with different separators, up to three", take: upTo(common, coreKinds()...), max: 3,
			gaps: separators(mixedSeparators), mixed: true, frames: newline, limit: 1 * million,
		},
		{
			what: "parts as name=value, with their likeliest names, up to three", take: onShelf(equalsSign, common), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 1 * million,
		},
		{
			what: "parts as name:value, with their likeliest names, up to three", take: onShelf(colon, common), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 1 * million,
		},
		{
			what: "parts as name: value, with their likeliest names, up to three", take: onShelf(colonSpace, common), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, one of them written otherwise", take: upTo(common, coreKinds()...), odd: isOddCore, odds: 1, max: 4,
			gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address and body, with a part that appears twice", take: either(upTo(common, coreKinds()...), onShelf(again, rare), upTo(common, ofSecret)), max: 4, extras: 2,
			gaps: separators(someSeparators), limit: 1 * million,
		},
		{
			what: "the body in another form, timestamp, method and address, with a part that appears twice", take: either(upTo(common, coreKinds()...), onShelf(again, rare), upTo(common, ofSecret)), odd: upTo(rare, ofBody), odds: 1, min: 3, max: 4, extras: 2,
			gaps: separators(fewSeparators), limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, with a rarer reading of the secret", take: upTo(common, coreKinds()...), max: 4,
			gaps: separators(someSeparators), keyRarity: rare, limit: 1 * million,
		},
	}
}

func wrappedPlans() []plan {
	wraps := wrappings()
	list := make([]plan, 0, len(wraps))
	for _, w := range wraps {
		list = append(list, plan{
			what: fmt.Sprintf(w.desc, "timestamp, method, address and body"), take: either(upTo(common, coreKinds()...), onShelf(lists, common)), max: 4,
			gaps: separators(fewSeparators), frames: after, wrap: w, limit: 0.3 * million,
		})
	}
	return list
}

func uncommonPlans() []plan {
	return []plan{
		{
			what: "timestamp, method, address and body, in uncommon forms, with common separators", take: upTo(uncommon, coreKinds()...), max: 4,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		{
			what: "all fields of the body and one other part, with common separators", take: isBeside(), odd: onShelf(lists, rare), odds: 1, min: 2, max: 2, extras: 1,
			gaps: separators(fewSeparators), limit: 3 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, with common separators", take: upTo(uncommon), max: 3, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with different separators", take: upTo(common, coreKinds()...), min: 4, max: 4,
			gaps: separators(mixedSeparators), mixed: true, frames: newline, limit: 5 * million,
		},
		{
			what: "all fields of the body and one other part", take: isBeside(), odd: onShelf(lists, uncommon), odds: 1, min: 2, max: 2, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 6 * million,
		},
		{
			what: "timestamp, method, address and body, in uncommon forms", take: upTo(uncommon, coreOrNothing()...), max: 5, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address, body and one more part", take: upTo(uncommon), max: 3, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "single fields of the body and the timestamp", take: upTo(uncommon, ofField, ofTimestamp), max: 6, extras: 6,
			gaps: separators(someSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "fields in the order of the body, with timestamp, secret and address", take: either(upTo(common, ofField, ofTimestamp, ofAddress, ofMethod)), ascending: true, max: 10, extras: 8,
			gaps: separators(fewSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "parts as name: value", take: onShelf(colonSpace, rare), max: 4, extras: 4,
			gaps: []string{"\n", "", "&", ";"}, frames: after, limit: 3 * million,
		},
		{
			what: "parts as name=value, sorted by name", take: onShelfOf(equalsSign, ofTimestamp, ofSecret, ofHeader, ofField), min: 2, max: 6, extras: 6, sorted: true,
			gaps: labelSeparators(), frames: after, limit: 10 * million,
		},
		{
			what: "lines of an HTTP signature, name: value", take: onShelfOf(colonSpace, coreOf(ofHost)...), min: 3, max: 5, extras: 1,
			gaps: []string{"\n"}, limit: 5 * million,
		},
		{
			what: "parts as name=value", take: onShelf(equalsSign, uncommon), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 6 * million,
		},
		{
			what: "parts as name:value", take: onShelf(colon, uncommon), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 6 * million,
		},
	}
}

func listPlans() []plan {
	return []plan{
		{
			what: "single fields of the body, one of them written otherwise", take: either(upTo(common, ofField, ofTimestamp, ofSecret)), odd: upTo(rare, ofField), odds: 1, max: 5, extras: 5,
			gaps: separators(someSeparators), frames: after, limit: 3 * million,
		},
		{
			what: "a digest of the fields or the JSON and up to two other parts", take: either(isPartBeside, isPlainBeside), odd: onShelf(digests, rare), odds: 1, min: 1, max: 3, extras: 2,
			gaps: separators(fewSeparators), limit: 5 * million,
		},
		{
			what: "all fields of the body and one other part, with their own separator", take: either(isPartBeside, upTo(uncommon, ofAddress)), odd: isList(rare), odds: 1, min: 2, max: 2, extras: 2,
			own: true, gaps: separators(allSeparators), frames: after | around, keyRarity: uncommon, limit: 4 * million,
		},
		{
			what: "all fields of the body and one other part, plain or with a name", take: either(isPartBeside, upTo(uncommon, ofAddress)), odd: onShelf(lists, rare), odds: 1, min: 2, max: 2, extras: 2,
			gaps: separators(fewSeparators), frames: after, keyRarity: uncommon, limit: 6 * million,
		},
		{
			what: "all fields of the body in common forms and one other part, with rare separators", take: either(isPlainBeside, upTo(uncommon, ofAddress), onShelf(again, rare)), odd: onShelf(lists, common), odds: 1, min: 2, max: 3, extras: 2,
			gaps: separators(allSeparators), frames: after, limit: 3 * million,
		},
	}
}

func longPlans() []plan {
	return []plan{
		{
			what: "all fields of the body and two other parts, with their own separator", take: either(isPartBeside, onShelf(again, rare), upTo(uncommon, ofAddress)), odd: isList(uncommon), odds: 1, min: 3, max: 3, extras: 2,
			own: true, gaps: separators(allSeparators), frames: after, limit: 15 * million,
		},
		{
			what: "all fields of the body and up to three of timestamp, method, address and host", take: upTo(common, ofTimestamp, ofMethod, ofAddress, ofHost), odd: either(onShelf(lists, rare), isDate), odds: 2, min: 3, max: 5, extras: 1,
			gaps: []string{"\n", "", "|"}, limit: 15 * million,
		},
		{
			what: "all fields of the body in common forms and up to three other parts, with different separators", take: upTo(common, ofTimestamp, ofMethod, ofAddress), odd: onShelf(lists, common), odds: 1, min: 2, max: 4,
			gaps: []string{"", "\n", "?", "&", "."}, mixed: true, limit: 10 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, one of them written otherwise", take: upTo(common, append(coreKinds(), ofHeader, ofSecret, ofHost, ofQuery, ofWord)...), odd: isOddCore, odds: 1, max: 5, extras: 1,
			gaps: separators(fewSeparators), frames: after, limit: 20 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, with different separators", take: either(upTo(common, ofTimestamp, ofMethod, ofAddress, ofHeader, ofHost), isCommonBody), min: 3, max: 5, extras: 1,
			gaps: []string{"", "\n", ".", ":", "|", " "}, mixed: true, limit: 20 * million,
		},
		{
			what: "single fields, timestamp, secret and address, five to eight", take: either(upTo(common, ofField, ofTimestamp, ofSecret)), min: 5, max: 8, extras: 8,
			gaps: separators(8), frames: after, limit: 20 * million,
		},
		{
			what: "timestamp in milliseconds or as a date, with up to two identifying headers, fields, words and the secret, and the body",
			take: either(isCommonBody, isIdentity), odd: upTo(rare, ofTimestamp), odds: 1, min: 3, max: 4, extras: 3, gaps: separators(fewSeparators), limit: 5 * million,
		},
		{
			what: "timestamp as a date, method, address, body and headers", take: either(upTo(common, ofMethod, ofAddress, ofHeader, ofHost, ofWord), isBodyOrDigest), odd: isDate, odds: 1, min: 3, max: 5, extras: 2,
			gaps: []string{"\n", "", "|"}, frames: after, limit: 15 * million,
		},
		{
			what: "timestamp, method, address, body and two more parts", take: coreAndExtras(), min: 3, max: 4, extras: 2,
			gaps: separators(fewSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address, body and up to three of identifying headers, fields, words and the secret, the body first or last",
			take: either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isIdentity),
			min:  4, max: 7, extras: 3, bodyAtEnd: true, gaps: separators(fewSeparators), limit: 15 * million,
		},
		{
			what: "single fields of the body, the timestamp, the address, headers, words and the secret, up to four",
			take: singles(), max: 4, extras: 4, gaps: separators(someSeparators), frames: after, limit: 3 * million,
		},
		{
			what: "timestamp, method, address and body, in rare forms", take: upTo(rare, coreOrNothing()...), max: 3, extras: 1,
			gaps: separators(allSeparators), frames: after | around | newline, keyRarity: uncommon, limit: 10 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, four in all", take: upTo(uncommon), min: 4, max: 4, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 20 * million, effort: 2,
		},
		{
			what: "all fields of the body and two other parts", take: isBeside(), odd: onShelf(lists, uncommon), odds: 1, min: 3, max: 3, extras: 2,
			gaps: separators(fewSeparators), limit: 12 * million,
		},
	}
}

func longestPlans() []plan {
	return []plan{
		{
			what: "single fields of the body, the timestamp, the address, headers, words and the secret, five",
			take: singles(), min: 5, max: 5, extras: 5, gaps: separators(someSeparators), frames: after, limit: 15 * million,
		},
		{
			what: "parts as name=value, with their likeliest names, up to five", take: onShelf(equalsSign, common), min: 4, max: 5, extras: 5,
			gaps: labelSeparators(), frames: after, limit: 15 * million,
		},
		{
			what: "parts as name:value, with their likeliest names, up to five", take: onShelf(colon, common), min: 4, max: 5, extras: 5,
			gaps: labelSeparators(), frames: after, limit: 15 * million,
		},
		{
			what: "timestamp, method, address, body and two more parts, up to six", take: coreAndExtras(), min: 5, max: 6, extras: 2,
			gaps: separators(fewSeparators), frames: after, limit: 15 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, five in all", take: upTo(uncommon), min: 5, max: 5, extras: 1,
			gaps: separators(fewSeparators), limit: 20 * million, effort: 2,
		},
		{
			what: "timestamp, method, address and body, in rare forms, four in all", take: upTo(rare, coreOrNothing()...), min: 4, max: 4, extras: 1,
			gaps: separators(allSeparators), frames: after | around | newline, keyRarity: uncommon, limit: 25 * million, effort: 2,
		},
	}
}
