package paymentsvc

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// Amount is exact decimal text, such as "10.50", in the currency associated with the project (section 2.1).
// The scale is kept. The zero value is "not set" and never the amount 0. It holds no float and does no
// arithmetic: use Minor for that. Amounts of one value but two scales are not ==; use Equal.
type Amount struct {
	text string // as internal/decimal writes it, "" when not set
}

var errAmountNotSet = errors.New("paymentsvc: amount is not set")

// ParseAmount reads a number in JSON's grammar with at most 64 digits. An exponent is written out, "-0" is
// "0". Errors do not repeat s.
func ParseAmount(s string) (Amount, error) { return parseAmount(s) }

func parseAmount[T string | []byte](s T) (Amount, error) {
	text, err := decimal.Parse(s)
	if err != nil {
		return Amount{}, fmt.Errorf("paymentsvc: amount: %w", err)
	}
	return Amount{text}, nil
}

// MustParseAmount is ParseAmount for amounts that stand in the source. It panics on an error.
func MustParseAmount(s string) Amount {
	a, err := ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

// AmountFromMinor gives units of 10^-scale: AmountFromMinor(1050, 2) is "10.50". It is exact at every scale;
// at scales above 64 it gives more digits than ParseAmount reads.
func AmountFromMinor(units int64, scale uint8) Amount { return Amount{decimal.FromMinor(units, scale)} }

// Minor gives the amount in units of 10^-scale, 1050 for "10.50" at scale 2. It refuses an amount that is not
// set, that has more decimals than scale other than zeros, or that overflows.
func (a Amount) Minor(scale uint8) (int64, error) {
	if !a.IsSet() {
		return 0, errAmountNotSet
	}
	units, err := decimal.Minor(a.text, scale)
	if err != nil {
		return 0, fmt.Errorf("paymentsvc: amount %s at scale %d: %w", a.text, scale, err)
	}
	return units, nil
}

// IsSet says whether a is an amount at all.
func (a Amount) IsSet() bool { return a.text != "" }

// Sign is -1, 0 or 1, and 0 for an amount that is not set.
func (a Amount) Sign() int { return decimal.Sign(a.text) }

// Cmp compares by value: -1 if a is less than b, 0 if they are equal, 1 if a is more. An amount that is not
// set is less than every other.
func (a Amount) Cmp(b Amount) int {
	switch {
	case a.IsSet() && b.IsSet():
		return decimal.Cmp(a.text, b.text)
	case a.IsSet():
		return 1
	case b.IsSet():
		return -1
	}
	return 0
}

// Equal compares by value, so "1.0" equals "1.00", and "not set" equals only itself.
func (a Amount) Equal(b Amount) bool { return a.Cmp(b) == 0 }

// String gives the amount's text, "" when it is not set.
func (a Amount) String() string { return a.text }

// MarshalJSON gives a JSON number with the amount's scale, or null when it is not set. The error is always nil.
func (a Amount) MarshalJSON() ([]byte, error) {
	if !a.IsSet() {
		return []byte("null"), nil
	}
	return []byte(a.text), nil
}

// UnmarshalJSON reads a number, a number in quotes, or null, which is "not set". The limits are those of ParseAmount,
// and errors do not repeat b.
func (a *Amount) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*a = Amount{}
		return nil
	}
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return fmt.Errorf("paymentsvc: amount: %w", decimal.ErrSyntax)
		}
		b = []byte(text)
	}
	parsed, err := parseAmount(b)
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// MarshalText gives the amount's text, empty when it is not set. The error is always nil.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.text), nil }

// UnmarshalText is ParseAmount, with its errors, but for empty text, which is "not set".
func (a *Amount) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*a = Amount{}
		return nil
	}
	parsed, err := parseAmount(b)
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Scan reads a column of text, of an exact decimal type that arrives as text, or of integers. NULL is "not
// set". A float is refused, for its digits are no longer those that were stored.
func (a *Amount) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*a = Amount{}
		return nil
	case string:
		return a.scanText([]byte(v))
	case []byte:
		return a.scanText(v)
	case int64:
		return a.scanText(strconv.AppendInt(nil, v, 10))
	default:
		return fmt.Errorf("paymentsvc: amount: cannot be read from a column of type %T, keep it as text", src)
	}
}

func (a *Amount) scanText(b []byte) error {
	parsed, err := parseAmount(bytes.TrimSpace(b)) // CHAR columns come padded
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Value gives the amount's text, or nil (NULL) when it is not set. The error is always nil.
func (a Amount) Value() (driver.Value, error) {
	if !a.IsSet() {
		return nil, nil //nolint:nilnil // NULL is a nil value by the contract of driver.Valuer
	}
	return a.text, nil
}
