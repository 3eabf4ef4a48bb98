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

// Amount is exact decimal text, such as "10.50", in the currency associated with the project (section 2.1).
// The scale is kept. The zero value is "not set" and never the amount 0. It holds no float and does no
// arithmetic: use Minor for that. Amounts of one value but two scales are not ==; use Equal.
//
// Every digit, and "not set", survives in encoding/json (as a number), encoding/xml, YAML and whatever else uses
// encoding.TextMarshaler (text), encoding/gob, CBOR and MessagePack (bytes that hold the text), and BSON of the MongoDB
// driver v2 (a string). Version 1 of that driver returns an error. DynamoDB's attributevalue writes a string with its
// options UseEncodingMarshalers and UseEncodingUnmarshalers, and returns an error without them.
//
// In a database it is text, see Value and Scan. SQLite keeps it only in a column of type TEXT: in NUMERIC, DECIMAL,
// INTEGER and REAL, 10.50 becomes a float that Scan rejects, and 12345678901234567.89 becomes 12345678901234568 without
// an error. Use numeric on PostgreSQL.
type Amount struct {
	unencodable `dynamodbav:",omitempty,nullempty"` //nolint:unused // reflection finds it

	text string // as internal/decimal writes it, "" when not set
}

// unencodable makes DynamoDB's attributevalue return an error for an Amount, where it would store an empty map: it
// finds embedded fields of unexported types, and rejects this combination of tags. It takes no space.
type unencodable [0]byte //nolint:unused // reflection finds it

var errAmountNotSet = errors.New("paymentsvc: amount is not set")

// ParseAmount parses a number in JSON's grammar with at most 64 digits. An exponent is expanded, and "-0" is "0". Errors
// do not repeat s.
func ParseAmount(s string) (Amount, error) { return parseAmount(s) }

func parseAmount[T string | []byte](s T) (Amount, error) {
	text, err := decimal.Parse(s)
	if err != nil {
		return Amount{}, fmt.Errorf("paymentsvc: amount: %w", err)
	}
	return Amount{text: text}, nil
}

// MustParseAmount is [ParseAmount] for amounts in source code. It panics on an error.
func MustParseAmount(s string) Amount {
	a, err := ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

// AmountFromMinor returns units of 10^-scale: AmountFromMinor(1050, 2) is "10.50". It is exact at every scale; above 64
// it has more digits than [ParseAmount] accepts.
func AmountFromMinor(units int64, scale uint8) Amount {
	return Amount{text: decimal.FromMinor(units, scale)}
}

// Minor returns the amount in units of 10^-scale, 1050 for "10.50" at scale 2. It returns an error if the amount is not
// set, has more decimals than scale other than zeros, or overflows.
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

// Round returns the amount with exactly scale decimals, rounded half away from zero: "29.949999999999999", as services
// write it that keep floats, is "29.95" at scale 2. It returns an error for an amount that is not set, and for a result
// of more than 64 digits.
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

// IsSet reports whether a is an amount at all.
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

// String returns the amount's text, "" if it is not set.
func (a Amount) String() string { return a.text }

// MarshalJSON returns a JSON number with the amount's scale, or null if it is not set. The error is always nil.
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

// MarshalText returns the amount's text, empty if it is not set. The error is always nil.
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

// MarshalBinary returns what MarshalText does, for encoding/gob, CBOR, MessagePack and Redis. The error is always nil.
func (a Amount) MarshalBinary() ([]byte, error) { return a.MarshalText() }

// UnmarshalBinary is UnmarshalText, with its errors.
func (a *Amount) UnmarshalBinary(b []byte) error { return a.UnmarshalText(b) }

// UnmarshalYAML reads the source text of a number, in quotes or not, or of null, with the errors of UnmarshalText. It
// is for goccy/go-yaml, which would hand UnmarshalText a number that has been a float; yaml.v3 needs no such method.
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

// The types of BSON values that an Amount is stored as or read from.
const (
	bsonString     = 0x02
	bsonNull       = 0x0A
	bsonInt32      = 0x10
	bsonInt64      = 0x12
	bsonDecimal128 = 0x13
)

// MarshalBSONValue returns a BSON string, or BSON's null when the amount is not set, for the MongoDB driver v2. The
// error is always nil.
func (a Amount) MarshalBSONValue() (typ byte, data []byte, err error) {
	if !a.IsSet() {
		return bsonNull, nil, nil
	}
	data = binary.LittleEndian.AppendUint32(nil, uint32(len(a.text)+1)) //nolint:gosec // at most a few hundred
	return bsonString, append(append(data, a.text...), 0), nil
}

// UnmarshalBSONValue reads a BSON string, int32, int64 or decimal128, or null, which is "not set". Every other type is
// an error: a double no longer has the digits that were stored.
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

// MarshalBSON always returns an error. Version 1 of the MongoDB driver, which does not know MarshalBSONValue, would
// store an empty document without it.
func (a Amount) MarshalBSON() ([]byte, error) {
	return nil, errors.New("paymentsvc: amount: not a BSON document; use the MongoDB driver v2, or store Amount.String()")
}

// Scan reads a column of text, of an exact decimal type that arrives as text, or of integers. NULL is "not
// set". A float is an error: its digits are no longer those that were stored.
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

// Value returns the amount's text, or nil (NULL) if it is not set. The error is always nil.
func (a Amount) Value() (driver.Value, error) {
	if !a.IsSet() {
		return nil, nil //nolint:nilnil // NULL is a nil value by the contract of driver.Valuer
	}
	return a.text, nil
}
