package paymentsvctest

import (
	"math/big"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// money is an exact amount, never changed once it is made. The zero value is 0.
type money struct {
	value *big.Rat // nil is 0
	scale int      // decimals
}

// moneyOf returns an amount as money. An unset amount is 0.
func moneyOf(a paymentsvc.Amount) money {
	if !a.IsSet() {
		return money{}
	}
	value, _ := new(big.Rat).SetString(a.String()) // an Amount is plain decimal text, exact as a fraction
	_, decimals, _ := strings.Cut(a.String(), ".")
	return money{value, len(decimals)}
}

func (m money) rat() *big.Rat {
	if m.value == nil {
		return new(big.Rat)
	}
	return m.value
}

func (m money) plus(other money) money {
	switch {
	case other.value == nil:
		return money{m.value, max(m.scale, other.scale)}
	case m.value == nil:
		return money{other.value, max(m.scale, other.scale)}
	}
	return money{new(big.Rat).Add(m.rat(), other.rat()), max(m.scale, other.scale)}
}

func (m money) minus(other money) money {
	return money{new(big.Rat).Sub(m.rat(), other.rat()), max(m.scale, other.scale)}
}

func (m money) sign() int { return m.rat().Sign() }

// short reports whether m and sums of a few such values certainly fit an Amount of 64 digits.
func (m money) short() bool {
	const bits, decimals = 128, 20 // 2^128 has 39 digits
	return m.scale <= decimals && (m.value == nil || m.value.Num().BitLen() <= bits)
}

// amount returns m with its scale, or, if that has more digits than an Amount holds, without the zeros at its end. It is
// an error for m to have more digits even so.
func (m money) amount() (paymentsvc.Amount, error) {
	text := m.rat().FloatString(m.scale)
	a, err := paymentsvc.ParseAmount(text)
	if err != nil && m.scale > 0 {
		return paymentsvc.ParseAmount(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
	return a, err
}

// total is a sum of money with removable parts. Its scale is the finest scale of its parts.
type total struct {
	sum    money
	scales [maxScale + 1]int // how many have this scale
}

// maxScale is the most decimals that an Amount has.
const maxScale = 64

func (t *total) add(m money) { t.change(t.sum.plus(m), m.scale, 1) }

func (t *total) remove(m money) { t.change(t.sum.minus(m), m.scale, -1) }

func (t *total) change(sum money, scale, by int) {
	t.scales[scale] += by
	t.sum = money{value: sum.value}
	for scale, n := range t.scales {
		if n > 0 {
			t.sum.scale = scale
		}
	}
}
