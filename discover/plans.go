package discover

import (
	"fmt"
	"slices"
)

// plan describes a family of compositions. limit is its maximum work with Options.Effort 1 for each reading of the
// secret, in compositions of short texts. The search skips the longest compositions above the limit.
type plan struct {
	what       string
	take       filter   // chooses pieces
	special    filter   // chooses further pieces, at least 1 and at most maxSpecial in a composition
	maxSpecial int      // 0 if special is nil
	min, max   int      // pieces in a composition
	extras     int      // maximum of pieces of kinds that order lacks, or of kinds that are not core if order is nil
	gaps       []string // possible separators
	mixed      bool     // separators may differ within a composition
	ends       ends     // texts at the ends
	bodyAtEnd  bool     // the body is first or last
	order      []kind   // order of these kinds, all other kinds are extras; nil for any order
	sorted     bool     // texts are in byte order
	own        bool     // the separator equals the separator of the list of fields
	keyRarity  int      // maximum rarity of a reading of the secret
	wrap       *frame   // frame around the whole text, or nil
	limit      float64
}

// filter reports whether a plan takes the pieces with these traits.
type filter func(traits) bool

// plans begin with simple and common compositions. The search moves large stages to the end; see cheapFirst.
var plans = slices.Concat(simplePlans(), partPlans(), labelledPlans(), listPlans(), wrappedPlans(), longPlans())

const million = 1e6

// simplePlans returns plans for short compositions of timestamp, method, address, body, fields and identifying parts.
func simplePlans() []plan {
	core := upTo(common, coreKinds()...)
	twice := either(core, onShelf(again, rare), upTo(common, ofSecret))
	return []plan{
		{
			// A body of many megabytes leaves no time for the other plans.
			what: "timestamp, method, path and body in their simplest forms",
			take: isSimplest, max: 4, gaps: fewSeparators, ends: after, limit: 60 * million,
		},
		{
			what: "timestamp, method, address and body",
			take: upTo(common, append(coreKinds(), ofNothing)...), max: 5, extras: 1, gaps: someSeparators,
			ends: after, limit: million,
		},
		{
			what: "all fields of the body",
			take: onShelf(lists, rare), max: 1, gaps: someSeparators, ends: after | around, keyRarity: rare,
			limit: million,
		},
		{
			what: "timestamp, method, address and body, with up to two identifying parts",
			take: isIdentified, min: 2, max: 5, extras: 2, gaps: fewSeparators, ends: after,
			limit: 2 * million,
		},
		{
			// Some services have an unusual separator, such as {up} for Unitpay.
			what: "timestamp, method, address and body, with rare separators",
			take: core, max: 4, gaps: allSeparators, ends: after, limit: million,
		},
		{
			what: "timestamp, method, address, body and one more common part",
			take: upTo(common), max: 4, extras: 1, gaps: fewSeparators, limit: million,
		},
		{
			what: "single fields of the body and the timestamp, up to eight",
			take: upTo(common, ofField, ofTimestamp), max: 8, extras: 8, gaps: someSeparators, ends: after,
			limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, one of them in a rare form",
			take: core, special: rareCore, maxSpecial: 1, max: 4, gaps: someSeparators, ends: after,
			limit: 5 * million,
		},
		{
			what: "timestamp, method, address and body, with a part that appears twice",
			take: twice, max: 4, extras: 2, gaps: someSeparators, limit: million,
		},
		{
			what: "timestamp, method, address and body in another form, with a part that appears twice",
			take: twice, special: upTo(rare, ofBody), maxSpecial: 1, min: 3, max: 4, extras: 2,
			gaps: fewSeparators, limit: 2 * million,
		},
		{
			what: "timestamp, method, address and body, with a rare reading of the secret",
			take: core, max: 4, gaps: someSeparators, keyRarity: rare, limit: million,
		},
	}
}

// partPlans returns plans for compositions of parts without names, with one separator.
func partPlans() []plan {
	joined := either(upTo(common, ofTimestamp), onShelf(targets, rare), isCommonBody, isIdentity, onShelf(again, rare))
	shortGaps := []string{"\n", "", "|", ":", "&", "."}
	return []plan{
		{
			what: "method and address next to each other, with timestamp, body and up to three more parts",
			take: either(joined, upTo(common, ofHeader, ofQuery, ofNothing)), min: 2, max: 6, extras: 3,
			gaps: moreSeparators, ends: after, limit: 20 * million,
		},
		{
			what:    "method and address next to each other, timestamp as a date or in ms, or a digest of the body",
			take:    either(joined, upTo(common, ofHeader)),
			special: either(isDate, upTo(uncommon, ofTimestamp), isBodyOrDigest), maxSpecial: 2, min: 2, max: 5,
			extras: 2, gaps: shortGaps, ends: after, limit: 15 * million,
		},
		{
			what: "timestamp as a date, method, address, body and up to two headers or words",
			take: either(upTo(common, ofMethod, ofAddress, ofHeader, ofHost, ofWord), isBodyOrDigest), special: isDate,
			maxSpecial: 1, min: 3, max: 5, extras: 2, gaps: []string{"\n", "", "|", ":"}, ends: after,
			limit: 15 * million,
		},
		{
			what: "timestamp, method, address, body and one more part",
			take: upTo(uncommon), max: 3, extras: 1, gaps: someSeparators, ends: after, limit: 5 * million,
		},
		{
			what: "timestamp, method, address and body, in rare forms",
			take: upTo(rare, append(coreKinds(), ofNothing)...), max: 3, extras: 1, gaps: allSeparators,
			ends: after | around | newline, keyRarity: uncommon, limit: 10 * million,
		},
		{
			what: "single fields of the body and the timestamp",
			take: upTo(uncommon, ofField, ofTimestamp), max: 6, extras: 6, gaps: someSeparators,
			ends: after, limit: 2 * million,
		},
		{
			what: "single fields of the body and the timestamp, with rare separators",
			take: either(upTo(common, ofField), upTo(uncommon, ofTimestamp)), max: 4, extras: 4,
			gaps: allSeparators, ends: after, limit: 4 * million,
		},
		{
			what: "fields in the order of the body, with timestamp, secret and address",
			take: upTo(common, ofField, ofTimestamp, ofAddress, ofMethod, ofSecret), max: 10, extras: 3,
			gaps: fewSeparators, ends: after, order: []kind{ofField}, limit: 5 * million,
		},
	}
}

// labelledPlans returns plans for compositions with labels, such as name=value or header lines.
func labelledPlans() []plan {
	nextToBlock := either(
		upTo(common, ofTimestamp, ofMethod, ofAddress, ofQuery, ofNothing), onShelf(targets, rare), isBodyOrDigest,
	)
	return []plan{
		{
			what: "parts as name=value, up to three",
			take: onShelf(equalsSign, common), max: 3, extras: 3, gaps: []string{"&", ";", ",", "|", "\n", ""},
			ends: after, limit: million,
		},
		{
			what: "parts as name:value, up to three",
			take: onShelf(colon, uncommon), max: 3, extras: 3, gaps: []string{"&", ";", ",", "|", "\n", ""},
			ends: after, limit: 6 * million,
		},
		{
			what: "header lines next to method, address, body and up to two more parts",
			take: either(nextToBlock, upTo(common, ofHeader)), special: onShelf(blocks, rare), maxSpecial: 1, max: 5,
			extras: 2, gaps: []string{"\n", ""}, ends: after, limit: 25 * million,
		},
		{
			// Object stores, Worldline and Sinch sign lines in this order.
			what:    "method, body, headers, timestamp, header lines and address, in this order",
			take:    either(upTo(common, ofMethod, ofTimestamp, ofAddress, ofHeader), isBodyOrDigest),
			special: onShelf(blocks, rare), maxSpecial: 1, min: 3, max: 6, gaps: []string{"\n", ""}, ends: after,
			order: []kind{ofMethod, ofBody, ofHeader, ofTimestamp, ofBlock, ofAddress}, limit: 10 * million,
		},
		{
			// DOKU signs header lines and two lines with fixed names.
			what: "header lines, and lines with the address and a digest of the body",
			take: onShelfOf(colon, ofMethod, ofAddress, ofBody), special: onShelf(blocks, rare), maxSpecial: 1, min: 2, max: 4,
			extras: 1, gaps: []string{"\n"}, ends: after, limit: 2 * million,
		},
		{
			what:    "name=value pairs next to method, address and body",
			take:    either(upTo(common, ofAddress), onShelf(targets, rare), isBodyOrDigest),
			special: onShelf(pairs, rare), maxSpecial: 1, max: 3, extras: 1, gaps: []string{"\n", "", "&", "|"},
			limit: 30 * million,
		},
		{
			what: "lines of an HTTP signature, name: value",
			take: onShelfOf(colonSpace, append(coreKinds(), ofHost)...), min: 3, max: 5, extras: 1,
			gaps: []string{"\n"}, limit: 5 * million,
		},
		{
			// CyberSource signs lines of an HTTP signature for host, headers and a digest.
			what: "lines of an HTTP signature, name: value, with headers",
			take: isSignatureLine, min: 3, max: 6, extras: 4, gaps: []string{"\n"}, limit: 5 * million,
		},
		{
			// MoMo and other wallets sign some fields of the body as a sorted query.
			what: "parts as name=value, sorted by name",
			take: onShelfOf(equalsSign, ofTimestamp, ofSecret, ofHeader, ofField, ofWord), min: 2, max: 6, extras: 6,
			gaps: []string{"&", "\n", "", "|"}, sorted: true, limit: 15 * million,
		},
	}
}

// listPlans returns plans for compositions with all fields of the body.
func listPlans() []plan {
	return []plan{
		{
			what:    "all fields of the body and one other part",
			take:    either(upTo(common, ofTimestamp, ofMethod, ofAddress), upTo(uncommon, ofSecret), isIdentity),
			special: onShelf(lists, rare), maxSpecial: 1, min: 2, max: 2, extras: 1, gaps: fewSeparators,
			limit: 4 * million,
		},
		{
			what: "a digest of the fields or the JSON and up to two other parts",
			take: anyNextToList, special: onShelf(digests, rare), maxSpecial: 1, min: 1, max: 3, extras: 2,
			gaps: fewSeparators, limit: 5 * million,
		},
		{
			what: "all fields of the body and one other part, with the separator of the fields",
			take: either(anyNextToList, upTo(uncommon, ofAddress)), special: isList(rare), maxSpecial: 1, min: 2,
			max: 2, extras: 2, gaps: allSeparators, ends: after | around, own: true, keyRarity: uncommon,
			limit: 4 * million,
		},
		{
			what:    "common lists of fields and up to two other parts, with rare separators",
			take:    either(unlabelledNextToList, upTo(uncommon, ofAddress), onShelf(again, rare)),
			special: onShelf(lists, common), maxSpecial: 1, min: 2, max: 3, extras: 2, gaps: allSeparators,
			ends: after, limit: 3 * million,
		},
		{
			what:    "all fields of the body and up to three identifying parts",
			take:    either(upTo(common, ofTimestamp, ofAddress, ofSecret), isIdentity, onShelf(again, rare)),
			special: onShelf(lists, common), maxSpecial: 1, min: 2, max: 5, extras: 3, gaps: fewSeparators,
			ends: after, limit: 20 * million,
		},
		{
			what: "all fields of the body, with a field added, and up to two other parts",
			take: either(
				upTo(common, ofTimestamp, ofSecret), onShelf(again, rare), onShelf(targets, rare), isIdentity,
			),
			special: onShelf(lists, rare), maxSpecial: 1, min: 2, max: 3, extras: 2, gaps: []string{"", "\n", "&"},
			limit: 15 * million,
		},
		{
			what:    "all fields of the body, a date, method, host and address",
			take:    either(upTo(common, ofTimestamp, ofHost), onShelf(targets, rare)),
			special: either(onShelf(lists, rare), isDate), maxSpecial: 2, min: 2, max: 4, extras: 1,
			gaps: []string{"\n", "", "|"}, limit: 15 * million,
		},
		{
			what: "common lists of fields and up to three other parts, with different separators",
			take: upTo(common, ofTimestamp, ofMethod, ofAddress), special: onShelf(lists, common), maxSpecial: 1,
			min: 2, max: 4, gaps: []string{"", "\n", "?", "&", "."}, mixed: true, limit: 10 * million,
		},
	}
}

// wrappedPlans returns plans for texts in a frame, such as a digest of the whole text. listPlans has digests of lists.
func wrappedPlans() (list []plan) {
	for _, w := range wrappings {
		p := plan{
			what: fmt.Sprintf(w.desc, "timestamp, method, address, body and up to two identifying parts"),
			take: isIdentified, max: 5, extras: 2, gaps: fewSeparators, ends: after, wrap: w,
			limit: 4 * million,
		}
		if w.loses != "" { // lower and upper
			p.take = either(upTo(common, coreKinds()...), onShelf(lists, common))
			p.max, p.extras, p.limit = 4, 0, 1*million
		}
		list = append(list, p)
	}
	return list
}

// longPlans returns plans for long compositions, and for compositions with different separators.
func longPlans() []plan {
	return []plan{
		{
			what: "timestamp, method, address, body and one more part, one of them in a rare form",
			take: upTo(common, append(coreKinds(), ofHeader, ofSecret, ofHost, ofQuery, ofWord)...), special: rareCore,
			maxSpecial: 1, max: 5, extras: 1, gaps: fewSeparators, ends: after, limit: 20 * million,
		},
		{
			what: "timestamp, method, address, body and one more part, with different separators",
			take: either(upTo(common, ofTimestamp, ofMethod, ofAddress, ofHeader, ofHost), isCommonBody), min: 3,
			max: 5, extras: 1, gaps: []string{"", "\n", ".", ":", "|", " "}, mixed: true, limit: 20 * million,
		},
		{
			what: "timestamp, method, address, body and up to three identifying parts, the body first or last",
			take: isIdentified, min: 4, max: 7, extras: 3, gaps: fewSeparators, bodyAtEnd: true,
			limit: 15 * million,
		},
		{
			// PayPay signs six lines that begin with address and method.
			what: "address, method, timestamp and body in this order, with up to three headers",
			take: either(upTo(common, ofMethod, ofAddress, ofTimestamp, ofHeader), isCommonBody), min: 5, max: 7, extras: 3,
			gaps: []string{"\n", ""}, order: []kind{ofAddress, ofMethod, ofTimestamp, ofBody}, limit: 2 * million,
		},
		{
			// Bitstamp and other exchanges sign long lists, with method, host, address and query in this order.
			what:  "method, host, address, query, timestamp and body in this order, with up to four more parts",
			take:  either(upTo(common, ofMethod, ofHost, ofAddress, ofQuery, ofTimestamp, ofHeader, ofWord), isCommonBody),
			order: []kind{ofMethod, ofHost, ofAddress, ofQuery, ofTimestamp, ofBody}, min: 5, max: 9, extras: 4,
			gaps: []string{"", "\n"}, limit: 10 * million,
		},
		{
			what: "single fields, timestamp, address, headers, words and the secret, up to four",
			take: either(upTo(uncommon, ofField, ofHeader, ofTimestamp, ofSecret, ofWord), upTo(common, ofAddress)),
			max:  4, extras: 4, gaps: someSeparators, ends: after, limit: 4 * million,
		},
	}
}

func coreKinds() []kind { return []kind{ofTimestamp, ofMethod, ofAddress, ofBody} }

// upTo returns a filter for plain pieces of these kinds up to a rarity. Without kinds, the filter accepts all kinds.
func upTo(rarity int, kinds ...kind) filter {
	return func(p traits) bool {
		return p.shelf == plain && p.rarity <= rarity && (len(kinds) == 0 || slices.Contains(kinds, p.kind))
	}
}

func onShelf(s shelf, rarity int) filter {
	return func(p traits) bool { return p.shelf == s && p.rarity <= rarity }
}

// onShelfOf returns a filter for pieces of these kinds on a shelf. It accepts rare pieces only on the shelf colonSpace.
func onShelfOf(s shelf, kinds ...kind) filter {
	return func(p traits) bool {
		return p.shelf == s && slices.Contains(kinds, p.kind) && (p.rarity <= uncommon || s == colonSpace)
	}
}

func either(choices ...filter) filter {
	return func(p traits) bool {
		return slices.ContainsFunc(choices, func(take filter) bool { return take(p) })
	}
}

func isIdentity(p traits) bool { return p.shelf == plain && p.rarity == common && p.identity }

func isSignatureLine(p traits) bool {
	return p.shelf == colonSpace && p.rarity == common && p.kind != ofField
}

// isIdentified accepts timestamp, method, address, body and the parts that identify the caller or the call.
func isIdentified(p traits) bool {
	return upTo(common, ofTimestamp, ofMethod, ofAddress)(p) || isCommonBody(p) || isIdentity(p)
}

// isSimplest accepts timestamp, method (also in lower case), path, uri, body and the hexadecimal SHA-256 of the body.
func isSimplest(p traits) bool {
	return p.shelf == plain && p.kind.core() && p.rarity == common && p.cost <= 2
}

func isCommonBody(p traits) bool {
	return p.shelf == plain && p.kind == ofBody && p.rarity == common && p.cost <= 3
}

// rareCore accepts all forms of core kinds, labelled parts except fields and words, and common lists and digests.
func rareCore(p traits) bool {
	switch p.shelf {
	case plain:
		return p.kind.core()
	case equalsSign, colon, colonSpace:
		return p.kind <= ofHeader
	case lists, digests:
		return p.rarity == common
	default:
		return false
	}
}

// unlabelledNextToList accepts the parts without a label that may be next to a list of fields.
func unlabelledNextToList(p traits) bool {
	return upTo(common, ofTimestamp, ofMethod, ofAddress, ofSecret, ofHeader, ofWord)(p) ||
		upTo(uncommon, ofTimestamp)(p)
}

// anyNextToList accepts the parts, with and without a label, that may be next to a list of fields.
func anyNextToList(p traits) bool {
	labelled := (p.shelf == equalsSign || p.shelf == colon) && p.rarity <= uncommon &&
		slices.Contains([]kind{ofTimestamp, ofSecret, ofMethod, ofAddress}, p.kind)
	return labelled || unlabelledNextToList(p) || upTo(uncommon, ofSecret)(p)
}

func isBodyOrDigest(p traits) bool {
	return isCommonBody(p) || p.shelf == plain && p.kind == ofBody && p.isDigest && p.cost <= 4
}

func isList(rarity int) filter {
	return func(p traits) bool { return p.shelf == lists && p.isList && p.rarity <= rarity }
}

func isDate(p traits) bool { return p.shelf == plain && p.kind == ofTimestamp && p.rarity == rare }
