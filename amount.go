package paymentsvc

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// Amount is exact decimal text, such as "10.50", in the currency of the project (section 2.1). It keeps its scale. The
// zero value is "not set", which differs from the amount 0. Amount uses no floats and has no arithmetic; use
// [Amount.Minor] for calculations. Compare amounts with [Amount.Equal], because == distinguishes 10.5 from 10.50.
//
// Every digit and "not set" survive in encoding/json (as a number); in encoding/xml, YAML and other users of
// encoding.TextMarshaler (as text); in encoding/gob, CBOR and MessagePack (as bytes with the text); and in BSON with
// the MongoDB driver v2 (as a string). Version 1 of the driver returns an error. DynamoDB's attributevalue writes a
// string with the options UseEncodingMarshalers and UseEncodingUnmarshalers, and returns an error without them.
//
// In a database, an Amount is text; see [Amount.Value] and [Amount.Scan]. On PostgreSQL use a numeric column. On SQLite
// use a TEXT column. SQLite's NUMERIC, DECIMAL, INTEGER and REAL columns convert 10.50 to a float, which Scan rejects,
// and change 12345678901234567.89 to 12345678901234568 without an error.
type Amount struct {
	unencodable `dynamodbav:",omitempty,nullempty"` //nolint:unused // reflection finds it

	text string // as decimal.Parse or decimal.FromMinor returned it; "" if not set
}

// unencodable makes DynamoDB's attributevalue return an error for an Amount instead of storing an empty map.
// attributevalue finds embedded fields of unexported types, and rejects this combination of tags. The field takes no
// space.
type unencodable [0]byte //nolint:unused // reflection finds it

var errAmountNotSet = errors.New("paymentsvc: amount is not set")

// ParseAmount parses a number in JSON's grammar with at most 64 digits. It expands an exponent, and returns "0" for
// "-0". Errors do not contain s.
func ParseAmount(s string) (Amount, error) { return parseAmount(s) }

func parseAmount[T string | []byte](s T) (Amount, error) {
	text, err := decimal.Parse(s)
	if err != nil {
		return Amount{}, fmt.Errorf("paymentsvc: amount: %w", err)
	}
	return Amount{text: text}, nil
}

// MustParseAmount is like [ParseAmount] but panics on an error. Use it for amounts in source code.
func MustParseAmount(s string) Amount {
	a, err := ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

// AmountFromMinor returns units times 10^-scale. For example, AmountFromMinor(1050, 2) is "10.50". The result is exact
// at every scale. At a scale above 64, its text has more digits than [ParseAmount] accepts.
func AmountFromMinor(units int64, scale uint8) Amount {
	return Amount{text: decimal.FromMinor(units, scale)}
}

// Minor returns the amount in units of 10^-scale, for example 1050 for "10.50" at scale 2. It returns an error if the
// amount is not set, if it has non-zero decimals beyond scale, or if it overflows an int64.
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

// Round returns the amount with exactly scale decimals, rounded half away from zero. For example, a service that
// computes in floats may send 29.949999999999999, which Round(2) changes to 29.95. It returns an error if the amount is
// not set or if the result has more than 64 digits.
func (a Amount) Round(scale uint8) (Amount, error) {
	if !a.IsSet() {
		return Amount{}, errAmountNotSet
	}
	text, err := decimal.Round(a.text, scale)
	if err != nil {
		return Amount{}, fmt.Errorf("paymentsvc: amount %s at scale %d: %w", a.text, scale, err)
	}
	return Amount{text: text}, nil
}

// IsSet reports whether a is an amount. It is false for the zero value.
func (a Amount) IsSet() bool { return a.text != "" }

// Sign returns -1 for a negative amount, 0 for zero, and 1 for a positive amount. It returns 0 if a is not set.
func (a Amount) Sign() int { return decimal.Sign(a.text) }

// Cmp compares values and returns -1 if a is less than b, 0 if both are equal, and 1 if a is greater. An unset amount
// is less than every amount.
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

// Equal compares values, so "1.0" equals "1.00". An unset amount equals only another unset amount.
func (a Amount) Equal(b Amount) bool { return a.Cmp(b) == 0 }

// String returns the amount's text, or "" if it is not set.
func (a Amount) String() string { return a.text }

// MarshalJSON returns a JSON number with the amount's scale, or null if the amount is not set. The error is always nil.
func (a Amount) MarshalJSON() ([]byte, error) {
	if !a.IsSet() {
		return []byte("null"), nil
	}
	return []byte(a.text), nil
}

// UnmarshalJSON reads a number, a quoted number, or null for "not set". It has the limits of [ParseAmount]. Errors do
// not contain b.
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
	return a.parse(b)
}

// MarshalText returns the amount's text, which is empty if the amount is not set. The error is always nil.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.text), nil }

// UnmarshalText reads the text of an amount like [ParseAmount], or empty text for "not set".
func (a *Amount) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*a = Amount{}
		return nil
	}
	return a.parse(b)
}

// MarshalBinary returns the bytes of [Amount.MarshalText], for encoding/gob, CBOR, MessagePack and Redis. The error is
// always nil.
func (a Amount) MarshalBinary() ([]byte, error) { return a.MarshalText() }

// UnmarshalBinary reads the bytes of [Amount.MarshalBinary], like [Amount.UnmarshalText].
func (a *Amount) UnmarshalBinary(b []byte) error { return a.UnmarshalText(b) }

// UnmarshalYAML reads a YAML number, a quoted number, or null for "not set", with the errors of [Amount.UnmarshalText].
// It is for goccy/go-yaml, which would otherwise convert the number to a float first. yaml.v3 does not need this
// method.
func (a *Amount) UnmarshalYAML(b []byte) error {
	b = bytes.TrimSpace(b)
	if n := len(b); n > 1 && (b[0] == '"' || b[0] == '\'') && b[n-1] == b[0] {
		b = b[1 : n-1]
	}
	if text := string(b); text == "null" || text == "~" {
		b = nil
	}
	return a.UnmarshalText(b)
}

// These are the BSON types that an Amount reads or writes.
const (
	bsonString     = 0x02
	bsonNull       = 0x0A
	bsonInt32      = 0x10
	bsonInt64      = 0x12
	bsonDecimal128 = 0x13
)

// MarshalBSONValue returns a BSON string, or BSON's null if the amount is not set, for the MongoDB driver v2. The error
// is always nil.
func (a Amount) MarshalBSONValue() (typ byte, data []byte, err error) {
	if !a.IsSet() {
		return bsonNull, nil, nil
	}
	data = binary.LittleEndian.AppendUint32(nil, uint32(len(a.text)+1)) //nolint:gosec // at most a few hundred bytes
	return bsonString, append(append(data, a.text...), 0), nil
}

// UnmarshalBSONValue reads a BSON string, int32, int64 or decimal128, or null for "not set". Other types return an
// error. So does a double, because it has already lost digits.
func (a *Amount) UnmarshalBSONValue(typ byte, data []byte) error {
	var text string
	var err error
	switch {
	case typ == bsonNull:
		*a = Amount{}
		return nil
	case typ == bsonString && len(data) >= 5:
		text, err = decimal.Parse(data[4 : len(data)-1])
	case typ == bsonInt32 && len(data) == 4:
		text = strconv.Itoa(int(int32(binary.LittleEndian.Uint32(data)))) //nolint:gosec // two's complement
	case typ == bsonInt64 && len(data) == 8:
		text = strconv.FormatInt(int64(binary.LittleEndian.Uint64(data)), 10) //nolint:gosec // two's complement
	case typ == bsonDecimal128 && len(data) == 16:
		text, err = decimal.From128(binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data))
	default:
		return fmt.Errorf("paymentsvc: amount: cannot be read from %d bytes of BSON type %#x", len(data), typ)
	}
	if err != nil {
		return fmt.Errorf("paymentsvc: amount: %w", err)
	}
	*a = Amount{text: text}
	return nil
}

// MarshalBSON always returns an error. Version 1 of the MongoDB driver does not use MarshalBSONValue, and would
// otherwise store an empty document.
func (a Amount) MarshalBSON() ([]byte, error) {
	return nil, errors.New("paymentsvc: amount: not a BSON document; " +
		"use the MongoDB driver v2, or store Amount.String()")
}

// Scan reads text, an integer, or NULL for "not set". Exact decimal types arrive as text. It rejects a float, because a
// float has already lost digits.
func (a *Amount) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*a = Amount{}
		return nil
	case string:
		return a.parse(bytes.TrimSpace([]byte(v))) // databases pad CHAR columns
	case []byte:
		return a.parse(bytes.TrimSpace(v))
	case int64:
		return a.parse(strconv.AppendInt(nil, v, 10))
	default:
		return fmt.Errorf("paymentsvc: amount: cannot be read from a column of type %T, keep it as text", src)
	}
}

// parse sets a to the amount in b. An error leaves a unchanged.
func (a *Amount) parse(b []byte) error {
	parsed, err := parseAmount(b)
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Value returns the amount's text, or nil (NULL) if the amount is not set. The error is always nil.
func (a Amount) Value() (driver.Value, error) {
	if !a.IsSet() {
		return nil, nil //nolint:nilnil // NULL is a nil value by the contract of driver.Valuer
	}
	return a.text, nil
}
