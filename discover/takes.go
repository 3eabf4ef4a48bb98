package discover

import "slices"

func coreKinds() []kind { return []kind{ofTimestamp, ofMethod, ofAddress, ofBody} }

func coreOrNothing() []kind { return append(coreKinds(), ofNothing) }

func labelSeparators() []string { return []string{"&", ";", ",", "|", "\n", ""} }

// upTo takes pieces of these kinds, or of all kinds, up to a rarity.
func upTo(rarity int, kinds ...kind) func(*piece) bool {
	return func(p *piece) bool {
		return p.shelf == plain && p.rarity <= rarity && (len(kinds) == 0 || slices.Contains(kinds, p.kind))
	}
}

func onShelf(s shelf, rarity int) func(*piece) bool {
	return func(p *piece) bool { return p.shelf == s && p.rarity <= rarity }
}

// onShelfOf takes pieces of these kinds on a shelf, rare ones only of the timestamp.
func onShelfOf(s shelf, kinds ...kind) func(*piece) bool {
	return func(p *piece) bool {
		return p.shelf == s && slices.Contains(kinds, p.kind) && (p.rarity <= uncommon || s == colonSpace)
	}
}

func coreOf(more ...kind) []kind { return append(coreKinds(), more...) }

func either(choices ...func(*piece) bool) func(*piece) bool {
	return func(p *piece) bool {
		return slices.ContainsFunc(choices, func(take func(*piece) bool) bool { return take(p) })
	}
}

func isIdentity(p *piece) bool { return p.shelf == plain && p.rarity == common && p.identity }

func isCommonBody(p *piece) bool {
	return p.shelf == plain && p.kind == ofBody && p.rarity == common && p.cost <= 3
}

func isExtra(p *piece) bool { return p.shelf == plain && p.rarity <= uncommon && !p.kind.core() }

// isOddCore takes what may be in the place of a common timestamp, method, address or body.
func isOddCore(p *piece) bool {
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

// isPlainBeside takes what is beside a list of fields without a name.
func isPlainBeside(p *piece) bool {
	return upTo(common, ofTimestamp, ofMethod, ofAddress, ofSecret, ofHeader, ofWord)(p) || p.kind == ofTimestamp && p.shelf == plain && p.rarity <= uncommon
}

// isPartBeside takes what is beside a list of fields, with or without a name.
func isPartBeside(p *piece) bool {
	labelled := (p.shelf == equalsSign || p.shelf == colon) && (p.kind == ofTimestamp || p.kind == ofSecret || p.kind == ofMethod || p.kind == ofAddress) && p.rarity <= uncommon
	return labelled || isPlainBeside(p) || upTo(uncommon, ofSecret)(p)
}

func isBodyOrDigest(p *piece) bool {
	return isCommonBody(p) || p.shelf == plain && p.kind == ofBody && p.shape.form == digest && p.cost <= 5
}

func isList(rarity int) func(*piece) bool {
	return func(p *piece) bool { return p.shelf == lists && p.list != nil && p.rarity <= rarity }
}

func isDate(p *piece) bool { return p.shelf == plain && p.kind == ofTimestamp && p.rarity == rare }

func singles() func(*piece) bool {
	return either(upTo(uncommon, ofField, ofHeader, ofTimestamp, ofSecret, ofWord), upTo(common, ofAddress))
}

func isBeside() func(*piece) bool {
	return either(upTo(common, ofTimestamp, ofMethod, ofAddress), upTo(uncommon, ofSecret), isIdentity)
}

func coreAndExtras() func(*piece) bool {
	return either(upTo(common, ofTimestamp, ofMethod, ofAddress), isCommonBody, isExtra)
}
