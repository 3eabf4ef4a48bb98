package discover

import "slices"

// A filter chooses the pieces of a plan.

func coreKinds() []kind { return []kind{ofTimestamp, ofMethod, ofAddress, ofBody} }

func coreOrNothing() []kind { return append(coreKinds(), ofNothing) }

func labelSeparators() []string { return []string{"&", ";", ",", "|", "\n", ""} }

// upTo accepts plain pieces of these kinds up to a rarity. Without kinds it accepts all kinds.
func upTo(rarity int, kinds ...kind) func(*piece) bool {
	return func(p *piece) bool {
		return p.shelf == plain && p.rarity <= rarity && (len(kinds) == 0 || slices.Contains(kinds, p.kind))
	}
}

func onShelf(s shelf, rarity int) func(*piece) bool {
	return func(p *piece) bool { return p.shelf == s && p.rarity <= rarity }
}

// onShelfOf accepts pieces of these kinds on a shelf, and rare pieces only on the shelf colonSpace.
func onShelfOf(s shelf, kinds ...kind) func(*piece) bool {
	return func(p *piece) bool {
		return p.shelf == s && slices.Contains(kinds, p.kind) && (p.rarity <= uncommon || s == colonSpace)
	}
}

func either(choices ...func(*piece) bool) func(*piece) bool {
	return func(p *piece) bool {
		return slices.ContainsFunc(choices, func(take func(*piece) bool) bool { return take(p) })
	}
}

func isIdentity(p *piece) bool { return p.shelf == plain && p.rarity == common && p.identity }

func isCommonBody(p *piece) bool {
	return p.shelf == plain && p.kind == ofBody && p.rarity == common && p.cost <= 3
}

// rareCore accepts a rare form of timestamp, method, address or body.
func rareCore(p *piece) bool {
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

// unlabelledNextToList accepts the parts without a name next to a list of fields.
func unlabelledNextToList(p *piece) bool {
	return upTo(common, ofTimestamp, ofMethod, ofAddress, ofSecret, ofHeader, ofWord)(p) ||
		upTo(uncommon, ofTimestamp)(p)
}

// anyNextToList accepts the parts next to a list of fields.
func anyNextToList(p *piece) bool {
	labelled := (p.shelf == equalsSign || p.shelf == colon) && p.rarity <= uncommon &&
		slices.Contains([]kind{ofTimestamp, ofSecret, ofMethod, ofAddress}, p.kind)
	return labelled || unlabelledNextToList(p) || upTo(uncommon, ofSecret)(p)
}

func isBodyOrDigest(p *piece) bool {
	return isCommonBody(p) || p.shelf == plain && p.kind == ofBody && p.shape.form == digest && p.cost <= 4
}

func isList(rarity int) func(*piece) bool {
	return func(p *piece) bool { return p.shelf == lists && p.list != nil && p.rarity <= rarity }
}

func isDate(p *piece) bool { return p.shelf == plain && p.kind == ofTimestamp && p.rarity == rare }

func singles() func(*piece) bool {
	return either(upTo(uncommon, ofField, ofHeader, ofTimestamp, ofSecret, ofWord), upTo(common, ofAddress))
}

func nextToList() func(*piece) bool {
	return either(upTo(common, ofTimestamp, ofMethod, ofAddress), upTo(uncommon, ofSecret), isIdentity)
}
