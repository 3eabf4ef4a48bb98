package paymentsvctest

import (
	"math/big"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// money is an exact sum of amounts, never changed once it is made. The zero value is 0.
type money struct {
	value *big.Rat // nil is 0
	scale int      // of the finest amount in it
}

// moneyOf returns an amount as a sum, with one that is not set as 0.
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
	return money{new(big.Rat).Add(m.rat(), other.rat()), max(m.scale, other.scale)}
}

func (m money) minus(other money) money {
	return money{new(big.Rat).Sub(m.rat(), other.rat()), max(m.scale, other.scale)}
}

func (m money) sign() int { return m.rat().Sign() }

// amount returns m with its scale. It is an error for m to have more digits than an Amount holds.
func (m money) amount() (paymentsvc.Amount, error) {
	return paymentsvc.ParseAmount(m.rat().FloatString(m.scale))
}
