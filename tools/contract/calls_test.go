package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

// An operation of the document is the method of Client that has its operationId for a name, so calls are made through
// reflection: a method or an operation without the other is a failure, and a new one is tested from its first day.

func clientType() reflect.Type { return reflect.TypeFor[*paymentsvc.Client]() }

// endpointMethods are the methods of Client that call the service.
func endpointMethods() []string {
	var names []string
	for m := range clientType().Methods() {
		takesContext := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if takesContext && m.Type.NumOut() == 2 && m.Type.Out(1) == reflect.TypeFor[error]() {
			names = append(names, m.Name)
		}
	}
	return names
}

// answerType is the struct that an endpoint gives, and requestType the one that it takes, nil for none.
func answerType(t require.TestingT, id string) reflect.Type {
	m, ok := clientType().MethodByName(id)
	require.True(t, ok, "Client has no method %s", id)
	return m.Type.Out(0).Elem()
}

func requestType(t require.TestingT, id string) reflect.Type {
	m, ok := clientType().MethodByName(id)
	require.True(t, ok, "Client has no method %s", id)
	if last := m.Type.In(m.Type.NumIn() - 1); last.Kind() == reflect.Struct {
		return last
	}
	return nil
}

// invoke calls an endpoint. request is a struct of requestType, and is not used where there is none.
func invoke(t require.TestingT, client *paymentsvc.Client, id, paymentType string, request any) (any, error) {
	method := reflect.ValueOf(client).MethodByName(id)
	require.True(t, method.IsValid(), "Client has no method %s", id)
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	for i := 1; i < method.Type().NumIn(); i++ {
		if in := method.Type().In(i); in == reflect.TypeFor[paymentsvc.PaymentType]() {
			args = append(args, reflect.ValueOf(paymentsvc.PaymentType(paymentType)))
			continue
		}
		args = append(args, reflect.ValueOf(request))
	}
	out := method.Call(args)
	err, _ := out[1].Interface().(error)
	return out[0].Interface(), err
}

// jsonName is the name that a field of a request has on the wire.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// drawRequest fills a request with anything valid, and gives what each field must be on the wire: a string, a
// json.Number with the very digits, or a json.RawMessage with the same value.
func drawRequest(t *rapid.T, id string) (request any, want map[string]any) {
	want = map[string]any{}
	typ := requestType(t, id)
	if typ == nil {
		return nil, want
	}
	r := reflect.New(typ).Elem()
	onlyOne := -1
	if id == "StatusPayment" { // takes one of its two identifiers
		onlyOne = rapid.IntRange(0, 1).Draw(t, "identifier")
	}
	for i := range typ.NumField() {
		name := jsonName(typ.Field(i))
		if onlyOne >= 0 && i != onlyOne {
			continue
		}
		switch into := r.Field(i).Addr().Interface().(type) {
		case *paymentsvc.Amount:
			*into = drawAmount(t, name)
			want[name] = json.Number(into.String())
		case *string:
			*into = drawText(t, name)
			want[name] = *into
		case *any:
			value, sent := drawOpen(t, name)
			*into = value
			if sent {
				data, err := json.Marshal(value)
				require.NoError(t, err)
				want[name] = json.RawMessage(data)
			}
		default:
			t.Fatalf("%s.%s has a type that no test fills", typ, typ.Field(i).Name)
		}
	}
	return r.Interface(), want
}

// fullRequest fills every field of a request.
func fullRequest(t require.TestingT, id string) reflect.Value {
	typ := requestType(t, id)
	r := reflect.New(typ).Elem()
	for i := range typ.NumField() {
		switch into := r.Field(i).Addr().Interface().(type) {
		case *paymentsvc.Amount:
			*into = paymentsvc.MustParseAmount("10.50")
		case *string:
			*into = "text"
		case *any:
			*into = map[string]any{"member": 1}
		}
	}
	return r
}

// minimalRequest fills what the document requires of a request, or else the first of its choices.
func minimalRequest(t require.TestingT, o *operation) reflect.Value {
	required := o.request().Required
	if choices := o.request().AnyOf; len(choices) > 0 {
		required = append(slices.Clone(required), choices[0].Required...)
	}
	r := fullRequest(t, o.OperationID)
	for i := range r.NumField() {
		if !slices.Contains(required, jsonName(r.Type().Field(i))) {
			r.Field(i).SetZero()
		}
	}
	return r
}

// requireBody compares a body on the wire with what was asked for, name by name.
func requireBody(t require.TestingT, want map[string]any, body []byte) {
	var got map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &got))
	require.ElementsMatch(t, sortedNames(want), sortedNames(got), "names in the body")
	for name, value := range want {
		switch value := value.(type) {
		case json.Number:
			require.Equal(t, value.String(), string(got[name]), name)
		case string:
			var text string
			require.NoError(t, json.Unmarshal(got[name], &text), name)
			require.Equal(t, value, text, name)
		case json.RawMessage:
			require.Equal(t, decoded(t, value), decoded(t, got[name]), name)
		}
	}
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// decoded reads any JSON and keeps every digit.
func decoded(t require.TestingT, data []byte) any {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

// namesInOrder gives the names of a JSON object as they stand.
func namesInOrder(t require.TestingT, object []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, err := dec.Token()
	require.NoError(t, err)
	var names []string
	for dec.More() {
		name, err := dec.Token()
		require.NoError(t, err)
		var value json.RawMessage
		require.NoError(t, dec.Decode(&value))
		names = append(names, name.(string))
	}
	return names
}

// fieldNamed finds the field of a struct that stands for a name of the document: order_id is OrderID.
func fieldNamed(result reflect.Value, name string) reflect.Value {
	return result.FieldByNameFunc(func(field string) bool { return snake(field) == name })
}

// snake gives a Go name as the document writes it: capitals that stand together are one word.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i > 0 &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// requireRead compares what was read into a struct with the JSON that it was read from, field by field.
func requireRead(t require.TestingT, s *schema, body []byte, result any) {
	requireFields(t, s, body, result)
	v := reflect.Indirect(reflect.ValueOf(result))
	require.Equal(t, string(body), string(v.FieldByName("Raw").Bytes()), "Raw")
	require.Empty(t, malformed(v), "Malformed")
}

// malformed returns the names of the fields that were there and could not be read. A Notification has none such.
func malformed(result reflect.Value) []string {
	if names := result.FieldByName("Malformed"); names.IsValid() {
		return names.Interface().([]string)
	}
	return nil
}

// requireFields compares the fields that the document names.
func requireFields(t require.TestingT, s *schema, body []byte, result any) {
	var given map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &given))
	v := reflect.Indirect(reflect.ValueOf(result))
	for _, p := range s.Properties {
		field := fieldNamed(v, p.name)
		require.True(t, field.IsValid(), "%s has no field for %s", v.Type(), p.name)
		value, there := given[p.name]
		if !there {
			require.True(t, field.IsZero(), "%s is set, and was not given", p.name)
			continue
		}
		require.NoError(t, sameValue(p.schema, value, field), p.name)
	}
}

// sameValue compares by the document's type, without the SDK's own readers.
func sameValue(s *schema, given json.RawMessage, field reflect.Value) error {
	switch s.Type {
	case "string":
		var text string
		if err := json.Unmarshal(given, &text); err != nil {
			return err
		}
		if field.Kind() != reflect.String || field.String() != text {
			return fmt.Errorf("%q was read from %s", field, given)
		}
	case "integer":
		n, isNumber := new(big.Rat).SetString(string(given)) // 17.0 and 1.7e1 are the integer 17
		if !isNumber || field.Kind() != reflect.Int64 || n.Cmp(new(big.Rat).SetInt64(field.Int())) != 0 {
			return fmt.Errorf("%v was read from %s", field, given)
		}
	case "number":
		amount, ok := field.Interface().(paymentsvc.Amount)
		got, isNumber := new(big.Rat).SetString(amount.String())
		want, wasNumber := new(big.Rat).SetString(string(given))
		switch {
		case !ok, !isNumber, !wasNumber, got.Cmp(want) != 0:
			return fmt.Errorf("%s was read from %s", amount, given)
		case want.Sign() != 0 && !strings.ContainsAny(string(given), "eE") && amount.String() != string(given):
			return fmt.Errorf("%s was read from %s, in another scale", amount, given)
		}
	default:
		return fmt.Errorf("a %s is not read by any test", s.Type)
	}
	return nil
}
