// Package decimal stores exact decimal numbers as text, in JSON's number grammar without exponents. It uses no floats.
package decimal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// MaxDigits limits the digits of a parsed number after its exponent is expanded. A single zero before the decimal point
// does not count.
const MaxDigits = 64

var (
	// ErrSyntax rejects a text other than a number in JSON's grammar.
	ErrSyntax = errors.New("not a decimal number")
	// ErrTooLong rejects a number of more than MaxDigits digits.
	ErrTooLong = errors.New("more than 64 digits")
	// ErrInexact rejects a number with non-zero decimals beyond the requested scale.
	ErrInexact = errors.New("more decimals than the scale holds")
	// ErrOverflow rejects a number too large for an int64 at the requested scale.
	ErrOverflow = errors.New("too large for an int64")
)

// Parse reads a number in JSON's grammar. It expands the exponent, keeps the scale ("1.50e1" is "15.0"), and removes
// the sign of zero.
func Parse[T string | []byte](s T) (string, error) {
	n, ok := split(s)
	if !ok {
		return "", ErrSyntax
	}
	if len(s) == n.mantissa && !n.zero && n.significant <= MaxDigits && n.mantissa <= MaxDigits {
		return string(s), nil // already in the stored form
	}
	return n.expand(string(s[:n.mantissa]))
}

// number describes the mantissa and the exponent of a text.
type number struct {
	mantissa    int   // bytes of sign, integer digits, point and decimals
	decimals    int   // digits after the point
	significant int   // digits from the first nonzero digit
	exponent    int64 // capped far above MaxDigits and the length of any mantissa
	negative    bool
	zero        bool
}

// split reads sign, integer, decimals and exponent, and reports whether the whole text is a number.
func split[T string | []byte](s T) (n number, ok bool) {
	i := 0
	n.zero = true
	digits := func() int {
		start := i
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			n.zero = n.zero && s[i] == '0'
			if !n.zero {
				n.significant++
			}
			i++
		}
		return i - start
	}
	if i < len(s) && s[i] == '-' {
		n.negative = true
		i++
	}
	first := i
	if width := digits(); width == 0 || width > 1 && s[first] == '0' {
		return n, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		n.decimals = digits()
		if n.decimals == 0 {
			return n, false
		}
	}
	n.mantissa = i
	if i == len(s) {
		return n, true
	}
	if s[i] != 'e' && s[i] != 'E' {
		return n, false
	}
	n.exponent, ok = exponent(s[i+1:])
	return n, ok
}

func exponent[T string | []byte](s T) (value int64, ok bool) {
	sign, i := int64(1), 0
	if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
		if s[0] == '-' {
			sign = -1
		}
		i = 1
	}
	if i == len(s) {
		return 0, false
	}
	for ; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if value < math.MaxInt64/100 {
			value = value*10 + int64(s[i]-'0')
		}
	}
	return sign * value, true
}

// expand returns the number without an exponent. It checks the length first, because an exponent can mean gigabytes.
func (n number) expand(mantissa string) (string, error) {
	decimals := int64(n.decimals) - n.exponent // if negative, the zeros to add before the point
	if decimals > MaxDigits {
		return "", ErrTooLong
	}
	if n.zero {
		return fromDigits(false, "0", int(max(decimals, 0))), nil
	}
	if n.significant > MaxDigits || decimals < -MaxDigits {
		return "", ErrTooLong
	}
	scale := int(decimals)
	digits := strings.Replace(strings.TrimPrefix(mantissa, "-"), ".", "", 1)
	digits = digits[len(digits)-n.significant:]
	digits += strings.Repeat("0", max(0, -scale))
	if len(digits) > MaxDigits {
		return "", ErrTooLong
	}
	return fromDigits(n.negative, digits, scale), nil
}

// fromDigits returns digits with a point before the last scale digits. It adds leading zeros if digits is too short.
func fromDigits(negative bool, digits string, scale int) string {
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale > 0 {
		point := len(digits) - scale
		digits = digits[:point] + "." + digits[point:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// FromMinor returns units of 10^-scale as a decimal. For example, 1050 at scale 2 is "10.50".
func FromMinor(units int64, scale uint8) string {
	digits, negative := strings.CutPrefix(strconv.FormatInt(units, 10), "-")
	return fromDigits(negative, digits, int(scale))
}

// Minor returns the number in units of 10^-scale, or ErrInexact or ErrOverflow.
func Minor(text string, scale uint8) (int64, error) {
	negative, integer, decimals := parts(text)
	decimals = strings.TrimRight(decimals, "0")
	if len(decimals) > int(scale) {
		return 0, ErrInexact
	}
	digits := strings.TrimLeft(integer+decimals, "0")
	if digits == "" {
		return 0, nil
	}
	digits += strings.Repeat("0", int(scale)-len(decimals))
	if negative {
		digits = "-" + digits
	}
	units, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, ErrOverflow
	}
	return units, nil
}

// Round returns the number with exactly scale decimals, rounded half away from zero, or ErrTooLong.
func Round(text string, scale uint8) (string, error) {
	negative, integer, decimals := parts(text)
	kept := min(len(decimals), int(scale))
	units, _ := new(big.Int).SetString(integer+decimals[:kept], 10) // never fails for digits
	if kept < len(decimals) && decimals[kept] >= '5' {
		units.Add(units, big.NewInt(1))
	}
	digits := units.String() + strings.Repeat("0", int(scale)-kept)
	// Parse checks the length and removes the sign of zero.
	return Parse(fromDigits(negative, digits, int(scale)))
}

// Sign returns -1, 0 or 1.
func Sign(text string) int {
	switch {
	case strings.Trim(text, "-0.") == "":
		return 0
	case text[0] == '-':
		return -1
	}
	return 1
}

// Cmp compares values and returns -1, 0 or 1. "1.0" and "1.00" are equal.
func Cmp(a, b string) int {
	sign := Sign(a)
	if other := Sign(b); sign != other {
		return cmp.Compare(sign, other)
	}
	_, ai, ad := parts(a)
	_, bi, bd := parts(b)
	// Integers have no leading zeros, so the longer integer is larger.
	magnitude := cmp.Or(
		cmp.Compare(len(ai), len(bi)),
		strings.Compare(ai, bi),
		strings.Compare(strings.TrimRight(ad, "0"), strings.TrimRight(bd, "0")),
	)
	return sign * magnitude
}

// parts returns the sign, the integer digits and the decimals of a number.
func parts(text string) (negative bool, integer, decimals string) {
	text, negative = strings.CutPrefix(text, "-")
	integer, decimals, _ = strings.Cut(text, ".")
	return negative, integer, decimals
}

// From128 returns the number in an IEEE 754 decimal128 with binary encoding, as in BSON. high and low are its two
// halves. The result keeps the scale. The error is ErrSyntax for infinities and NaN, or ErrTooLong.
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
		// In this form the coefficient has more than 34 digits, so the standard defines the value as zero.
		exponent, high, low = high>>47&(1<<14-1), 0, 0
	}
	coefficient := new(big.Int).SetUint64(high & (1<<49 - 1))
	coefficient.Lsh(coefficient, 64).Or(coefficient, new(big.Int).SetUint64(low))
	return Parse(fmt.Sprintf("%s%de%d", sign, coefficient, int64(exponent)-bias))
}
