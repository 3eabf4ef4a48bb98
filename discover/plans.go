package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// separators returns the most common separators.
func separators(many int) []string {
	all := []string{
		"", "\n", ".", "|", ":", "&",
		";", ",", " ", "-", "_", "/", "\r\n", "+", "#", "\t",
		"~", "*", "::", "||", "{np}", "\x00", "=", "@", "?", `\n`, "%", "$", "--", "---", ", ", "; ", ": ", " | ", "\n\n",
		"^", "!", "//", "&&", "__", "{up}", "|||", ":::", "...", "##", "~~", "**", "++", "==", "@@", ";;", ",,", "..",
		"$$", "%%", "^^", "!!", "??", "<", ">", "<>", "->", "=>", " - ", " . ", " : ", " & ", " + ", "\\", "\r", "\v",
		"\x01", "\x1f", "\x1e", "\u00a7", "\u00b6", "[", "]", "(", ")", "{", "}", "\"", "'", "`", ":|:", "|:|", "-|-",
		"<|>", "+|+", "#|#", "%20", "%0A", "&amp;", `\t`, `\r\n`, "0", "1", "x",
	}
	return all[:min(many, len(all))]
}

const (
	fewSeparators   = 6
	mixedSeparators = 9
	someSeparators  = 16
	allSeparators   = math.MaxInt
)

// plan describes a stage. limit is its work in compositions of short texts. Above the limit, the longest compositions
// are left out.
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
	odd       func(*piece) bool // chooses pieces with a limited number in a composition
	odds      int               // this number
	ascending bool              // fields keep the order of the body
	sorted    bool              // texts are in byte order
	own       bool              // a list of fields fits only its own separator
}

// rarity returns the rarity of a reading of the secret among all possible readings.
func (k *key) rarity(all []key) int {
	readable := func(forms ...canonical.SecretForm) bool {
		return slices.ContainsFunc(all, func(o key) bool { return slices.Contains(forms, o.form) })
	}
	switch k.form {
	case canonical.SecretText, canonical.SecretHex, canonical.SecretBase64Tail:
		return common
	case canonical.SecretBase64:
		if readable(canonical.SecretHex, canonical.SecretBase64Tail) { // most of their texts are valid base64 too
			return uncommon
		}
		return common
	default:
		return rare
	}
}

// plans returns the plans in the order of the search: simple and common compositions first.
func plans() []plan {
	return slices.Concat(simplePlans(), partPlans(), labelledPlans(), listPlans(), wrappedPlans(), longPlans())
}

const million = 1e6

// simplePlans are short compositions of timestamp, method, address, body, fields and identifying parts.
func simplePlans() []plan {
	core := upTo(common, coreKinds()...)
	twice := either(core, onShelf(again, rare), upTo(common, ofSecret))
	identified := either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isIdentity)
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
			what: "timestamp, method, address and body, with up to two identifying parts", take: identified,
			min: 2, max: 5, extras: 2, gaps: separators(fewSeparators), frames: after, limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, with rare separators", take: core, max: 4,
			gaps: separators(allSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "timestamp, method, address, body and one more common part", take: upTo(common), max: 4, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		{
			what: "single fields of the body and the timestamp, up to five", take: upTo(common, ofField, ofTimestamp),
			max: 5, extras: 5, gaps: separators(someSeparators), frames: after, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with different separators, up to three", take: core, max: 3,
			gaps: separators(mixedSeparators), mixed: true, frames: newline, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, one of them in a rare form", take: core, odd: rareCore, odds: 1,
			max: 4, gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address and body, with a part that appears twice", take: twice, max: 4, extras: 2,
			gaps: separators(someSeparators), limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body in another form, with a part that appears twice", take: twice,
			odd: upTo(rare, ofBody), odds: 1, min: 3, max: 4, extras: 2, gaps: separators(fewSeparators),
			limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, with a rare reading of the secret", take: core, max: 4,
			gaps: separators(someSeparators), keyRarity: rare, limit: 1 * million,
		},
	}
}

// partPlans are compositions of plain parts with one separator.
func partPlans() []plan {
	joined := either(upTo(common, ofTimestamp), onShelf(targets, rare), isCommonBody, isIdentity, onShelf(again, rare))
	shortGaps := []string{"\n", "", "|", ":", "&", "."}
	return []plan{
		{
			what: "method and address next to each other, with timestamp, body and up to three more parts",
			take: either(joined, upTo(common, ofHeader, ofQuery, ofNothing)), min: 2, max: 6, extras: 3,
			gaps: separators(9), frames: after, limit: 20 * million,
		},
		{
			what: "method and address next to each other, timestamp as a date or in milliseconds, or a digest of the body",
			take: either(joined, upTo(common, ofHeader)), odd: either(isDate, upTo(uncommon, ofTimestamp), isBodyOrDigest),
			odds: 2, min: 2, max: 5, extras: 2, gaps: shortGaps, frames: after, limit: 15 * million,
		},
		{
			what: "timestamp as a date, method, address, body and up to two headers or words",
			take: either(upTo(common, ofMethod, ofAddress, ofHeader, ofHost, ofWord), isBodyOrDigest), odd: isDate,
			odds: 1, min: 3, max: 5, extras: 2, gaps: []string{"\n", "", "|", ":"}, frames: after, limit: 15 * million,
		},
		{
			what: "timestamp, method, address and body, in uncommon forms", take: upTo(uncommon, coreOrNothing()...),
			max: 5, extras: 1, gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address, body and one more part", take: upTo(uncommon), max: 3, extras: 1,
			gaps: separators(someSeparators), frames: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address and body, in rare forms", take: upTo(rare, coreOrNothing()...), max: 3,
			extras: 1, gaps: separators(allSeparators), frames: after | around | newline, keyRarity: uncommon,
			limit: 10 * million,
		},
		{
			what: "single fields of the body and the timestamp", take: upTo(uncommon, ofField, ofTimestamp), max: 6,
			extras: 6, gaps: separators(someSeparators), frames: after, limit: 2 * million,
		},
		{
			what: "single fields of the body and the timestamp, with rare separators",
			take: either(upTo(common, ofField), upTo(uncommon, ofTimestamp)), max: 4, extras: 4,
			gaps: separators(allSeparators), frames: after, limit: 4 * million,
		},
		{
			what: "fields in the order of the body, with timestamp, secret and address",
			take: upTo(common, ofField, ofTimestamp, ofAddress, ofMethod, ofSecret), ascending: true, max: 10, extras: 8,
			gaps: separators(fewSeparators), frames: after, limit: 5 * million,
		},
	}
}

// labelledPlans are compositions with names.
func labelledPlans() []plan {
	nextToBlock := either(
		upTo(common, ofTimestamp, ofMethod, ofAddress, ofQuery, ofNothing), onShelf(targets, rare), isBodyOrDigest,
	)
	return []plan{
		{
			what: "parts as name=value, up to three", take: onShelf(equalsSign, common), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 1 * million,
		},
		{
			what: "parts as name:value, up to three", take: onShelf(colon, uncommon), max: 3, extras: 3,
			gaps: labelSeparators(), frames: after, limit: 6 * million,
		},
		{
			what: "header lines next to method, address, body and up to two more parts", odd: onShelf(blocks, rare),
			take: either(nextToBlock, upTo(common, ofHeader)), odds: 1, max: 5, extras: 2, gaps: []string{"\n", ""},
			frames: after, limit: 25 * million,
		},
		{
			what: "name=value pairs next to method, address and body", odd: onShelf(pairs, rare),
			take: either(upTo(common, ofAddress), onShelf(targets, rare), isBodyOrDigest), odds: 1, max: 3,
			extras: 1, gaps: []string{"\n", "", "&", "|"}, limit: 30 * million,
		},
		{
			what: "common name=value pairs next to method, address, body and up to two more parts",
			odd:  onShelf(pairs, common), take: either(nextToBlock, upTo(common, ofSecret, ofHost), isIdentity), odds: 1,
			min: 3, max: 5, extras: 2, gaps: []string{"\n", "", "&"}, frames: after, limit: 15 * million,
		},
		{
			what: "lines of an HTTP signature, name: value",
			take: onShelfOf(colonSpace, append(coreKinds(), ofHost)...), min: 3, max: 5, extras: 1,
			gaps: []string{"\n"}, limit: 5 * million,
		},
		{
			what: "parts as name=value, sorted by name",
			take: onShelfOf(equalsSign, ofTimestamp, ofSecret, ofHeader, ofField, ofWord), min: 2, max: 6, extras: 6,
			sorted: true, gaps: []string{"&", "\n", "", "|"}, limit: 15 * million,
		},
	}
}

// listPlans are compositions with all fields of the body.
func listPlans() []plan {
	return []plan{
		{
			what: "all fields of the body and one other part", take: nextToList(), odd: onShelf(lists, rare), odds: 1,
			min: 2, max: 2, extras: 1, gaps: separators(fewSeparators), limit: 4 * million,
		},
		{
			what: "a digest of the fields or the JSON and up to two other parts", take: anyNextToList,
			odd: onShelf(digests, rare), odds: 1, min: 1, max: 3, extras: 2, gaps: separators(fewSeparators),
			limit: 5 * million,
		},
		{
			what: "all fields of the body and one other part, with their own separator",
			take: either(anyNextToList, upTo(uncommon, ofAddress)), odd: isList(rare), odds: 1, min: 2, max: 2, extras: 2,
			own: true, gaps: separators(allSeparators), frames: after | around, keyRarity: uncommon, limit: 4 * million,
		},
		{
			what: "common lists of fields and up to two other parts, with rare separators",
			take: either(unlabelledNextToList, upTo(uncommon, ofAddress), onShelf(again, rare)),
			odd:  onShelf(lists, common), odds: 1, min: 2, max: 3, extras: 2, gaps: separators(allSeparators),
			frames: after, limit: 3 * million,
		},
		{
			what: "all fields of the body and up to three identifying parts", odds: 1, min: 2, max: 5, extras: 3,
			take: either(upTo(common, ofTimestamp, ofAddress, ofSecret), isIdentity, onShelf(again, rare)),
			odd:  onShelf(lists, common), gaps: separators(fewSeparators), frames: after, limit: 20 * million,
		},
		{
			what: "all fields of the body, with a field added, and up to two other parts", odds: 1, min: 2, max: 3,
			take: either(upTo(common, ofTimestamp, ofSecret), onShelf(again, rare), onShelf(targets, rare), isIdentity),
			odd:  onShelf(lists, rare), extras: 2, gaps: []string{"", "\n", "&"}, limit: 15 * million,
		},
		{
			what: "all fields of the body, a date, method, host and address", odds: 2, min: 2, max: 4, extras: 1,
			take: either(upTo(common, ofTimestamp, ofHost), onShelf(targets, rare)),
			odd:  either(onShelf(lists, rare), isDate), gaps: []string{"\n", "", "|"}, limit: 15 * million,
		},
		{
			what: "common lists of fields and up to three other parts, with different separators",
			take: upTo(common, ofTimestamp, ofMethod, ofAddress), odd: onShelf(lists, common), odds: 1, min: 2, max: 4,
			gaps: []string{"", "\n", "?", "&", "."}, mixed: true, limit: 10 * million,
		},
	}
}

// wrappedPlans are the plans of texts that are encoded or hashed as a whole. Digests of lists have a plan of their own.
func wrappedPlans() (list []plan) {
	identified := either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isIdentity)
	for _, w := range wrappings() {
		p := plan{
			what: fmt.Sprintf(w.desc, "timestamp, method, address, body and up to two identifying parts"),
			take: identified, max: 5, extras: 2, gaps: separators(fewSeparators), frames: after, wrap: w,
			limit: 4 * million,
		}
		if !w.digest {
			p.take, p.max, p.extras, p.limit = either(upTo(common, coreKinds()...), onShelf(lists, common)), 4, 0, million
		}
		list = append(list, p)
	}
	return list
}

// longPlans are long compositions, and compositions with different separators.
func longPlans() []plan {
	identified := either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isIdentity)
	return []plan{
		{
			what: "timestamp, method, address, body and one more part, one of them in a rare form", odd: rareCore, odds: 1,
			take: upTo(common, append(coreKinds(), ofHeader, ofSecret, ofHost, ofQuery, ofWord)...), max: 5, extras: 1,
			gaps: separators(fewSeparators), frames: after, limit: 20 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, with different separators", min: 3, max: 5,
			take: either(upTo(common, ofTimestamp, ofMethod, ofAddress, ofHeader, ofHost), isCommonBody), extras: 1,
			gaps: []string{"", "\n", ".", ":", "|", " "}, mixed: true, limit: 20 * million,
		},
		{
			what: "timestamp, method, address, body and up to three identifying parts, the body first or last",
			take: identified, min: 4, max: 7, extras: 3, bodyAtEnd: true, gaps: separators(fewSeparators),
			limit: 15 * million,
		},
		{
			what: "single fields, timestamp, address, headers, words and the secret, up to four", take: singles(),
			max: 4, extras: 4, gaps: separators(someSeparators), frames: after, limit: 4 * million,
		},
		{
			what: "single fields, timestamp, address and secret, five to eight", min: 5, max: 8, extras: 8,
			take: upTo(common, ofField, ofTimestamp, ofSecret, ofAddress), gaps: separators(8), frames: after,
			limit: 20 * million,
		},
	}
}
