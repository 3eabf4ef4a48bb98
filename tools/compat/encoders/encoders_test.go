// Package encoders tests the SDK's values with loggers, encoders and databases. Loggers must not print secrets or
// payment data, except in the cases listed in SECURITY.md. Encoders and databases must keep an Amount and a request
// unchanged or return an error, except for the SQLite columns listed in the test. It is a separate module, so that the
// SDK does not require these libraries.
package encoders

import (
	"bytes"
	"database/sql"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fxamacker/cbor/v2"
	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	bsonv1 "go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/v2/bson"
	"gopkg.in/yaml.v3"
	_ "modernc.org/sqlite"

	"github.com/paymentsvc/paymentsvc"
)

// encoder writes a value and reads it into another value.
type encoder struct {
	name string
	trip func(in, out any) error
}

// trip returns a function that encodes a value and decodes the result.
func trip[D any](marshal func(any) (D, error), unmarshal func(D, any) error) func(in, out any) error {
	return func(in, out any) error {
		data, err := marshal(in)
		if err != nil {
			return err
		}
		return unmarshal(data, out)
	}
}

// marshalXML names the element, because the types in these tests have no name.
func marshalXML(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := xml.NewEncoder(&buf).EncodeElement(v, xml.StartElement{Name: xml.Name{Local: "record"}})
	return buf.Bytes(), err
}

func encoders() []encoder {
	return []encoder{
		{"encoding/json", trip(json.Marshal, json.Unmarshal)},
		{"encoding/xml", trip(marshalXML, xml.Unmarshal)},
		{"encoding/gob", func(in, out any) error {
			var buf bytes.Buffer
			if err := gob.NewEncoder(&buf).Encode(in); err != nil {
				return err
			}
			return gob.NewDecoder(&buf).Decode(out)
		}},
		{"yaml.v3", trip(yaml.Marshal, yaml.Unmarshal)},
		{"goccy/go-yaml", trip(goccy.Marshal, goccy.Unmarshal)},
		{"BSON", trip(bson.Marshal, bson.Unmarshal)},
		{"BSON as JSON", trip(
			func(v any) ([]byte, error) { return bson.MarshalExtJSON(v, true, false) },
			func(b []byte, v any) error { return bson.UnmarshalExtJSON(b, true, v) },
		)},
		{"BSON, driver v1", trip(bsonv1.Marshal, bsonv1.Unmarshal)},
		{"CBOR", trip(cbor.Marshal, cbor.Unmarshal)},
		{"msgpack", trip(msgpack.Marshal, msgpack.Unmarshal)},
		{"DynamoDB", trip(attributevalue.Marshal, attributevalue.Unmarshal)},
		{"DynamoDB with options", trip(
			func(v any) (types.AttributeValue, error) { return attributevalue.MarshalWithOptions(v, encodesText) },
			func(av types.AttributeValue, v any) error {
				return attributevalue.UnmarshalWithOptions(av, v, decodesText)
			},
		)},
	}
}

func encodesText(o *attributevalue.EncoderOptions) { o.UseEncodingMarshalers = true }
func decodesText(o *attributevalue.DecoderOptions) { o.UseEncodingUnmarshalers = true }

// amounts returns small amounts, and amounts beyond a float64, an int64 and 34 digits.
func amounts() []paymentsvc.Amount {
	all := []paymentsvc.Amount{{}} // not set
	for _, text := range []string{
		"10.50", "0", "0.00", "-0.01", "7", "12345678901234567.89", "1e20", "9007199254740993",
		strings.Repeat("9", 62) + ".10", "0." + strings.Repeat("0", 63) + "1",
	} {
		all = append(all, paymentsvc.MustParseAmount(text))
	}
	return all
}

// amountShapes returns records that contain an Amount in different places.
func amountShapes(a paymentsvc.Amount) []shape {
	two := paymentsvc.MustParseAmount("2.0")
	return []shape{
		{"field", struct{ A paymentsvc.Amount }{a}},
		{"pointer", struct{ A *paymentsvc.Amount }{&a}},
		{"slice", struct{ A []paymentsvc.Amount }{[]paymentsvc.Amount{a, two, a}}},
		{"slice of pointers", struct{ A []*paymentsvc.Amount }{[]*paymentsvc.Amount{&a, &two}}},
		{"array", struct{ A [2]paymentsvc.Amount }{[2]paymentsvc.Amount{a, two}}},
		{"nested", struct{ B struct{ A paymentsvc.Amount } }{struct{ A paymentsvc.Amount }{a}}},
		{"map value", struct{ A map[string]paymentsvc.Amount }{map[string]paymentsvc.Amount{"a": a, "b": two}}},
		{"map key", struct{ A map[paymentsvc.Amount]string }{map[paymentsvc.Amount]string{a: "a", two: "b"}}},
	}
}

// fails reports whether an encoder returns an error for an Amount. An error is acceptable, because it shows that the
// Amount was not stored.
func fails(encoder, shape string, a paymentsvc.Amount) bool {
	switch encoder {
	case "encoding/json":
		return shape == "map key" && !a.IsSet() // "" is text, and not null
	case "encoding/xml":
		return strings.HasPrefix(shape, "map") || shape == "array" // encoding/xml supports neither
	case "BSON, driver v1":
		return shape != "map key" // the driver writes a key with MarshalText
	case "DynamoDB":
		return shape != "map key" || !a.IsSet()
	case "DynamoDB with options":
		return shape == "map key" && !a.IsSet() // a key must not be empty
	}
	return false
}

func TestEncodersKeepAnAmountOrFail(t *testing.T) {
	for _, e := range encoders() {
		for _, a := range amounts() {
			for _, s := range amountShapes(a) {
				name := fmt.Sprintf("%s, %s, %q", e.name, s.name, a)
				out := reflect.New(reflect.TypeOf(s.value))
				err := e.trip(s.value, out.Interface())
				if fails(e.name, s.name, a) {
					if err == nil {
						t.Errorf("%s: no error; it became %q", name, texts(out.Elem()))
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if want, got := texts(reflect.ValueOf(s.value)), texts(out.Elem()); !slices.Equal(want, got) {
					t.Errorf("%s: %q became %q without an error", name, want, got)
				}
			}
		}
	}
}

// texts returns the texts of the amounts in v. A nil pointer counts as an unset amount.
func texts(v reflect.Value) (all []string) {
	if a, ok := v.Interface().(paymentsvc.Amount); ok {
		return []string{a.String()}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return []string{""}
		}
		return texts(v.Elem())
	case reflect.Struct:
		return texts(v.Field(0))
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = append(all, texts(v.Index(i))...)
		}
	case reflect.Map:
		for members := v.MapRange(); members.Next(); {
			all = append(all, fmt.Sprint(members.Key(), "=", members.Value()))
		}
		slices.Sort(all)
	default:
		panic(v.Kind())
	}
	return all
}

// TestAmountReadsTypesOfOtherPrograms reads values of other programs. A float is an error, because it has lost digits.
func TestAmountReadsTypesOfOtherPrograms(t *testing.T) {
	decimal128 := func(s string) bson.Decimal128 {
		d, err := bson.ParseDecimal128(s)
		require.NoError(t, err)
		return d
	}
	inBSON := func(v any) func(out any) error {
		return func(out any) error {
			data, err := bson.Marshal(bson.D{{Key: "a", Value: v}})
			require.NoError(t, err)
			return bson.Unmarshal(data, out)
		}
	}
	type option = func(*attributevalue.DecoderOptions)
	inDynamo := func(av types.AttributeValue, options ...option) func(out any) error {
		item := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"A": av}}
		return func(out any) error { return attributevalue.UnmarshalWithOptions(item, out, options...) }
	}
	in := func(marshal func(any) ([]byte, error), unmarshal func([]byte, any) error, v any) func(out any) error {
		return func(out any) error {
			data, err := marshal(map[string]any{"A": v})
			require.NoError(t, err)
			return unmarshal(data, out)
		}
	}
	text := func(unmarshal func([]byte, any) error, text string) func(out any) error {
		return func(out any) error { return unmarshal([]byte(text), out) }
	}
	const isError = "an error"
	for _, tt := range []struct {
		name string
		read func(out any) error
		want string
	}{
		{"BSON string", inBSON("10.50"), "10.50"},
		{"BSON int32", inBSON(int32(-7)), "-7"},
		{"BSON int64", inBSON(int64(9007199254740993)), "9007199254740993"},
		{"BSON decimal128", inBSON(decimal128("10.50")), "10.50"},
		{"BSON decimal128 that is not a number", inBSON(decimal128("NaN")), isError},
		{"BSON null", inBSON(nil), ""},
		{"BSON double", inBSON(10.5), isError},
		{"BSON boolean", inBSON(true), isError},
		{"BSON empty string", inBSON(""), isError},
		{"BSON document, as version 1 of the driver would have stored it", inBSON(bson.D{}), isError},

		{"JSON string", text(json.Unmarshal, `{"A":"10.50"}`), "10.50"},
		{"YAML number", text(yaml.Unmarshal, `a: 10.50`), "10.50"},
		{"YAML integer beyond 64 bits", text(yaml.Unmarshal, `a: 123456789012345678901`), "123456789012345678901"},
		{"YAML hexadecimal", text(yaml.Unmarshal, `a: 0x10`), isError},
		{"goccy's YAML number", text(goccy.Unmarshal, `a: 10.50`), "10.50"},
		{"goccy's YAML number with a comment", text(goccy.Unmarshal, "a: 10.50 # the price\nb: 1"), "10.50"},
		{
			"goccy's YAML number of many digits", text(goccy.Unmarshal, `a: 12345678901234567.89`),
			"12345678901234567.89",
		},
		{"goccy's YAML text", text(goccy.Unmarshal, `a: '10.50'`), "10.50"},
		{"goccy's YAML null", text(goccy.Unmarshal, `a: null`), ""},
		{"goccy's YAML hexadecimal", text(goccy.Unmarshal, `a: 0x10`), isError},
		{"goccy's YAML octal", text(goccy.Unmarshal, `a: 010`), isError},
		{"XML element", text(xml.Unmarshal, `<x><A>10.50</A></x>`), "10.50"},

		{"CBOR bytes", in(cbor.Marshal, cbor.Unmarshal, []byte("10.50")), "10.50"},
		{"CBOR null", in(cbor.Marshal, cbor.Unmarshal, nil), ""},
		{"CBOR text", in(cbor.Marshal, cbor.Unmarshal, "10.50"), isError},
		{"CBOR float", in(cbor.Marshal, cbor.Unmarshal, 10.5), isError},
		{"msgpack text", in(msgpack.Marshal, msgpack.Unmarshal, "10.50"), "10.50"},
		{"msgpack float", in(msgpack.Marshal, msgpack.Unmarshal, 10.5), isError},
		{"msgpack null", in(msgpack.Marshal, msgpack.Unmarshal, nil), ""},

		{"DynamoDB string", inDynamo(&types.AttributeValueMemberS{Value: "10.50"}, decodesText), "10.50"},
		{"DynamoDB null", inDynamo(&types.AttributeValueMemberNULL{Value: true}, decodesText), ""},
		{"DynamoDB number", inDynamo(&types.AttributeValueMemberN{Value: "10.50"}, decodesText), isError},
		{"DynamoDB string without the option", inDynamo(&types.AttributeValueMemberS{Value: "10.50"}), isError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got struct{ A paymentsvc.Amount }
			err := tt.read(&got)
			if tt.want == isError {
				require.Error(t, err, "it was read as %q", got.A)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got.A.String())
		})
	}
}

// Only TEXT and BLOB columns keep every Amount. Other columns convert a number to an integer or a float when they store
// it. Scan rejects the float, but it reads a changed integer without an error. The documentation of Amount and
// docs/notifications.md describe this.
func TestAmountInColumnsOfSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "amounts.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const kept, isError, notSet = "kept", "an error", ""
	long := strings.Repeat("9", 62) + ".10"
	values := []string{
		notSet, "7", "0", "10.50", "10.00", "-0.01", "12345678901234567.89", "1e20", "9007199254740993", long,
	}
	numeric := map[string]string{ // values other than these are kept
		"10.50": isError, "10.00": "10", "-0.01": isError, "12345678901234567.89": "12345678901234568", "1e20": isError,
		long: isError,
	}
	float := map[string]string{}
	for _, text := range values[1:] {
		float[text] = isError
	}
	for i, tt := range []struct {
		column string
		want   map[string]string
	}{
		{"TEXT", nil},
		{"VARCHAR(70)", nil},
		{"CHAR(70)", nil},
		{"BLOB", nil},
		{"NUMERIC", numeric},
		{"DECIMAL(20, 2)", numeric},
		{"INTEGER", numeric},
		{"REAL", float},
	} {
		t.Run(tt.column, func(t *testing.T) {
			_, err := db.ExecContext(
				t.Context(), fmt.Sprintf("CREATE TABLE t%d (id INTEGER PRIMARY KEY, amount %s)", i, tt.column),
			)
			require.NoError(t, err)
			for id, text := range values {
				want := kept
				if other, ok := tt.want[text]; ok {
					want = other
				}
				var stored, read paymentsvc.Amount
				require.NoError(t, stored.UnmarshalText([]byte(text)))
				_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO t%d VALUES ($1, $2)", i), id, stored)
				require.NoError(t, err)
				got := kept
				query := fmt.Sprintf("SELECT amount FROM t%d WHERE id = $1", i)
				if err := db.QueryRowContext(t.Context(), query, id).Scan(&read); err != nil {
					got = isError
				} else if read != stored {
					got = read.String()
				}
				require.Equal(t, want, got, "%q", text)
			}
		})
	}
}

// TestOtherEncodersKeepRequestsOrFail checks that encoders other than encoding/json keep the complete request or return
// an error. Loggers do not use these encoders.
func TestOtherEncodersKeepRequestsOrFail(t *testing.T) {
	for _, e := range encoders() {
		t.Run(e.name, func(t *testing.T) {
			want := canaryPayout()
			var got paymentsvc.PayoutRequest
			err := e.trip(want, &got)
			switch e.name {
			case "encoding/json":
				require.ErrorIs(t, err, paymentsvc.ErrSensitive)
			case "DynamoDB", "BSON, driver v1":
				require.Error(t, err, "Amount returns an error too")
			default:
				require.NoError(t, err)
				require.Equal(t, want, got)
			}

			payment := paymentsvc.PaymentRequest{
				Amount: want.Amount, UserData: "u", CardData: map[string]any{"number": canary},
			}
			var read paymentsvc.PaymentRequest
			if err := e.trip(payment, &read); err != nil {
				t.Log(err)
				return
			}
			require.Equal(t, payment.Amount, read.Amount)
			require.Equal(t, payment.UserData, read.UserData)
			require.Contains(t, fmt.Sprint(read.CardData), canary)
		})
	}
}
