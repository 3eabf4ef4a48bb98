package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// NumberForm is the form in which a program writes a number read from JSON.
type NumberForm int

const (
	// NumbersAsSent keeps the digits of the message. It is the zero value.
	NumbersAsSent NumberForm = iota
	// NumbersShort is a float64 in the form of Go, and of JavaScript except for -0. PHP has the same form for numbers
	// from 0.0001 to below 1e14 with at most 14 digits. 100.50 becomes 100.5, and 7.0 becomes 7.
	NumbersShort
	// NumbersPython is a float in the form of Python. 100.50 becomes 100.5, 1e16 becomes 1e+16, and 7.0 stays 7.0.
	// Integers stay unchanged, except that -0 becomes 0.
	NumbersPython
	// NumbersJava is a double in the form of Java. 100.50 becomes 100.5, and 12000000.0 becomes 1.2E7. Integers stay
	// unchanged.
	NumbersJava
	// NumbersTwoPlaces has two decimal places, so 100.5 becomes 100.50. In [Fields] and [BodyJSON] it applies to each
	// field named amount and to numbers with a point or an exponent. Nonzero further decimals and very large numbers are
	// errors.
	NumbersTwoPlaces
	// NumbersMinor is a number of hundredths, so 100.5 becomes 10050. It has the scope and errors of NumbersTwoPlaces.
	NumbersMinor
	// NumbersPadded is NumbersMinor with leading zeros up to twelve digits, so 100.5 becomes 000000010050.
	NumbersPadded
	// NumbersQuoted keeps the digits of the message. [BodyJSON] writes quotes around them.
	NumbersQuoted
)

// Number returns part with its number in another form. The part returns an error if its text is not one JSON number of
// at most 64 digits, and the errors of the form.
func Number(form NumberForm, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transformed("Number", part, func(dst, text []byte) ([]byte, error) {
		if _, err := paymentsvc.ParseAmount(string(text)); err != nil {
			return nil, errors.New("canonical: the part of Number is not a number")
		}
		return form.write(dst, text, true)
	})
}

// transformed returns a part with changed text.
func transformed(
	name string, part paymentsvc.CanonicalFunc, change func(dst, text []byte) ([]byte, error),
) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if part == nil {
			return nil, fmt.Errorf("canonical: the part of %s is nil", name)
		}
		text, err := part(nil, m)
		if err != nil {
			return nil, err
		}
		return change(dst, text)
	}
}

// write appends a JSON number. isAmount is set for Number and for a field named amount. Without isAmount, the forms
// with two decimal places and in hundredths keep integers unchanged.
func (f NumberForm) write(dst, number []byte, isAmount bool) ([]byte, error) {
	integer := !bytes.ContainsAny(number, ".eE")
	switch f {
	case NumbersShort:
		return appendShort(dst, number), nil
	case NumbersPython, NumbersJava:
		value, err := strconv.ParseFloat(string(number), 64)
		switch {
		case f == NumbersPython && string(number) == "-0":
			return append(dst, '0'), nil // an int of Python has no negative zero
		case integer || err != nil: // err means too large for a float64
			return append(dst, number...), nil //nolint:nilerr // such a number keeps its digits
		case f == NumbersPython:
			return appendPython(dst, value), nil
		default:
			return appendJava(dst, value), nil
		}
	case NumbersTwoPlaces, NumbersMinor, NumbersPadded:
		if integer && !isAmount {
			break
		}
		return appendMinor(dst, number, f)
	}
	return append(dst, number...), nil
}

// appendShort appends a number as encoding/json writes a float64. JavaScript differs only in writing 0 for -0.
func appendShort(dst, number []byte) []byte {
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil { // too large for a float64
		return append(dst, number...)
	}
	short, err := json.Marshal(f)
	if err != nil {
		return append(dst, number...)
	}
	return append(dst, short...)
}

// appendMinor appends an amount with two decimal places, in hundredths, or in padded hundredths.
func appendMinor(dst, number []byte, form NumberForm) ([]byte, error) {
	amount, err := paymentsvc.ParseAmount(string(number))
	if err != nil {
		return nil, errors.New("canonical: a number is too long for an amount")
	}
	units, err := amount.Minor(2)
	switch {
	case err != nil:
		return nil, errors.New("canonical: a number has more than two decimal places, or is too large")
	case form == NumbersTwoPlaces:
		return append(dst, paymentsvc.AmountFromMinor(units, 2).String()...), nil
	case form == NumbersPadded:
		return fmt.Appendf(dst, "%012d", units), nil
	}
	return strconv.AppendInt(dst, units, 10), nil
}

func appendPython(dst []byte, f float64) []byte {
	if exponent := exponentOf(f); exponent < -4 || exponent >= 16 {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return appendFloat(dst, f)
}

func appendJava(dst []byte, f float64) []byte {
	exponent := exponentOf(f)
	if f == 0 || -3 <= exponent && exponent < 7 {
		return appendFloat(dst, f)
	}
	mantissa, _, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	dst = append(dst, mantissa...)
	if !strings.Contains(mantissa, ".") {
		dst = append(dst, ".0"...)
	}
	return strconv.AppendInt(append(dst, 'E'), int64(exponent), 10)
}

// appendFloat appends a float without exponent and with at least one decimal place.
func appendFloat(dst []byte, f float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// exponentOf returns the decimal exponent of a float.
func exponentOf(f float64) int {
	_, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent) // always a number
	return n
}
