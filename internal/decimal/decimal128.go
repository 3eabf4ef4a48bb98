package decimal

import (
	"fmt"
	"math/big"
)

// From128 returns the value of an IEEE 754 decimal128 in binary encoding, as BSON has it, given as its high and low 64
// bits. It keeps the scale, and returns ErrSyntax for infinities and NaN.
func From128(high, low uint64) (string, error) {
	const bias = 6176
	sign := ""
	if high>>63 == 1 {
		sign = "-"
	}
	exponent := high >> 49 & (1<<14 - 1)
	if high>>61&3 == 3 {
		if high>>59&3 == 3 {
			return "", ErrSyntax
		}
		// Coefficients of this form are larger than 34 digits, which the standard reads as zero.
		exponent, high, low = high>>47&(1<<14-1), 0, 0
	}
	coefficient := new(big.Int).SetUint64(high & (1<<49 - 1))
	coefficient.Lsh(coefficient, 64).Or(coefficient, new(big.Int).SetUint64(low))
	return Parse(fmt.Sprintf("%s%de%d", sign, coefficient, int64(exponent)-bias))
}
