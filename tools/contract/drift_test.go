package contract

import (
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// TestEveryOperationIsAMethodAndEveryMethodAnOperation also holds the version to the document's.
func TestEveryOperationIsAMethodAndEveryMethodAnOperation(t *testing.T) {
	d := readDocument(t)
	var operations []string
	for _, o := range d.operations() {
		operations = append(operations, o.OperationID)
	}
	require.ElementsMatch(t, operations, endpointMethods())
	require.Equal(t, paymentsvc.InterfaceVersion, d.Info.Version)
}

// TestTheDocumentAsksForNoMoreThanABodyAndTwoHeaders holds the rest of each operation to what the SDK does: it sends
// these headers, always a body, and knows of one answer only.
func TestTheDocumentAsksForNoMoreThanABodyAndTwoHeaders(t *testing.T) {
	type header struct {
		name, typ string
		required  bool
		minLength int
	}
	d := readDocument(t)
	notification := d.notification(t)
	for _, o := range append(d.operations(), notification) {
		var headers []header
		for _, p := range o.Parameters {
			if p.In == "header" {
				headers = append(headers, header{p.Name, p.Schema.Type, p.Required, p.Schema.MinLength})
				continue
			}
			require.Equal(t, "path type", p.In+" "+p.Name, o.OperationID)
			require.Contains(t, o.path, "{type}")
		}
		require.ElementsMatch(t,
			[]header{{"timestamp", "integer", true, 0}, {"signature", "string", true, 1}}, headers, o.OperationID)
		require.True(t, o.RequestBody.Required, o.OperationID)
		answers := []string{"200"}
		if o.OperationID == notification.OperationID {
			answers = []string{"default"} // and what it is, is not shown
		}
		require.Equal(t, answers, sortedNames(o.Responses), o.OperationID)
	}
}

// TestEveryFieldOfARequestIsTheDocuments compares names, their order, and what is required, of what each request type
// has and of what is on the wire.
func TestEveryFieldOfARequestIsTheDocuments(t *testing.T) {
	s := serve(t, places()[0], nil)
	for _, o := range readDocument(t).operations() {
		t.Run(o.OperationID, func(t *testing.T) {
			names := []string{"partner_id", "project_id"} // the Client's
			typ := requestType(t, o.OperationID)
			if typ == nil {
				require.ElementsMatch(t, o.request().names(), names)
				return
			}
			for f := range typ.Fields() {
				names = append(names, jsonName(f))
			}
			require.ElementsMatch(t, o.request().names(), names)

			client := newClient(t, s.config(false))
			onWire := func(request reflect.Value) []string {
				_, _ = invoke(t, client, o.OperationID, "card", request.Interface()) // the fake may know no such order
				return namesInOrder(t, s.only(t).body)
			}
			var choices []string // of which one is required
			for _, choice := range o.request().AnyOf {
				choices = append(choices, choice.Required...)
			}
			for i := range typ.NumField() {
				name := jsonName(typ.Field(i))
				if slices.Contains(choices, name) {
					alone := reflect.New(typ).Elem()
					alone.Field(i).Set(fullRequest(t, o.OperationID).Field(i))
					require.Equal(t, inOrder(o, append([]string{name}, o.request().Required...)), onWire(alone))
					continue
				}
				lacking := fullRequest(t, o.OperationID)
				lacking.Field(i).SetZero()
				if o.request().requires(name) {
					requireNotSent(t, s, s.config(false), o.OperationID, lacking.Interface())
					continue
				}
				require.Equal(t, inOrder(o, slices.DeleteFunc(names, func(n string) bool { return n == name })), onWire(lacking))
				names = append(names, name)
			}
			if choices != nil {
				requireNotSent(t, s, s.config(false), o.OperationID, reflect.Zero(typ).Interface())
				return
			}
			require.Equal(t, o.request().names(), onWire(fullRequest(t, o.OperationID)))
		})
	}
}

// inOrder gives those of an operation's names that are among some, in the document's order.
func inOrder(o *operation, some []string) []string {
	return slices.DeleteFunc(o.request().names(), func(name string) bool { return !slices.Contains(some, name) })
}

// TestEveryPaymentTypeIsTheDocuments asks the SDK for the document's, and the document for the SDK's.
func TestEveryPaymentTypeIsTheDocuments(t *testing.T) {
	s := serve(t, places()[0], nil)
	o := readDocument(t).operation(t, "InitPayment")
	client := newClient(t, s.config(false))
	for i, name := range o.paymentTypes() {
		request := minimalRequest(t, o)
		request.FieldByName("UserData").SetString(name)
		_, err := invoke(t, client, o.OperationID, name, request.Interface())
		require.NoError(t, err, name)
		require.Equal(t, s.base+o.paths()[i], s.only(t).url)
	}
	_, err := invoke(t, client, o.OperationID, "cash", minimalRequest(t, o).Interface())
	require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
}

func TestEveryEventIsTheDocuments(t *testing.T) {
	events := readDocument(t).notification(t).request().property("event").Enum
	for _, name := range events {
		require.True(t, paymentsvc.EventType(name).Known(), name)
	}
	require.False(t, paymentsvc.EventType("dispute.status_changed").Known())
}

// notOfTheBody are the fields of structs that no member of a body is read into.
func notOfTheBody() []string { return []string{"Raw", "Malformed", "Timestamp", "SecretIndex"} }

// TestEveryFieldThatIsReadHasItsPlace changes one member of a body at a time and looks which field changes with it:
// exactly one, with the name that belongs to it, and in the end every field of the struct had its turn.
func TestEveryFieldThatIsReadHasItsPlace(t *testing.T) {
	for _, r := range readers(t) {
		t.Run(r.id, func(t *testing.T) {
			full := fullBody(t, r.schema)
			before := fieldsOf(t, &r, objectOf(full))
			unread := sortedNames(before)
			for _, p := range r.schema.Properties {
				after := fieldsOf(t, &r, objectOf(with(full, p.name, another(t, p))))
				var changed []string
				for name, value := range after {
					if !reflect.DeepEqual(before[name], value) {
						changed = append(changed, name)
					}
				}
				require.Len(t, changed, 1, "fields that change with %s", p.name)
				require.Equal(t, p.name, snake(changed[0]))
				unread = slices.DeleteFunc(unread, func(name string) bool { return name == changed[0] })
			}
			require.Empty(t, unread, "fields that nothing of the document is read into")
		})
	}
}

// fieldsOf reads a body and gives the fields that come from it.
func fieldsOf(t require.TestingT, r *reader, body string) map[string]any {
	result, err := r.read(body)
	require.NoError(t, err)
	v := reflect.Indirect(reflect.ValueOf(result))
	require.Equal(t, r.into, v.Type())
	fields := map[string]any{}
	for f, value := range v.Fields() {
		if !slices.Contains(notOfTheBody(), f.Name) {
			fields[f.Name] = value.Interface()
		}
	}
	return fields
}

// another gives a valid value other than example's.
func another(t require.TestingT, p property) string {
	if len(p.Enum) > 1 {
		return strconv.Quote(p.Enum[1])
	}
	values := map[string]string{
		"string":  `"another"`,
		"integer": "18",
		"number":  "10.51",
	}
	value, known := values[p.Type]
	require.True(t, known, "%s has a type that no test knows: %s", p.name, p.Type)
	switch p.Format {
	case "uuid":
		return `"6ba7b811-9dad-11d1-80b4-00c04fd430c8"`
	case "uri":
		return `"https://pay.example/form/2"`
	}
	return value
}

// TestEveryFieldThatIsReadIsJudgedAsTheDocumentDoes goes through every field of every answer and notification: absent,
// null, empty, of another form and of every other type. The SDK takes what the document allows and rejects the rest,
// but for the differences that are written down, each of which must show here. So whatever is wrong with a field that
// the document requires, the answer is rejected; and what is wrong with another field costs that field only.
func TestEveryFieldThatIsReadIsJudgedAsTheDocumentDoes(t *testing.T) {
	shown := map[string]bool{}
	for _, r := range readers(t) {
		full := fullBody(t, r.schema)
		require.NoError(t, r.allowed(objectOf(full)), r.id)
		require.Equal(t, taken, r.judge(t, objectOf(full)), r.id)
		for _, p := range r.schema.Properties {
			bodies := map[string]string{"": objectOf(without(full, p.name))}
			for _, value := range append(ofOtherTypes(p.schema), `""`) {
				bodies[value] = objectOf(with(full, p.name, value))
			}
			for value, body := range bodies {
				allowed := r.allowed(body) == nil
				want := rejected
				if allowed {
					want = taken
				}
				difference, becomes := differenceAt(&r, p, value, allowed)
				if difference != "" {
					want = becomes
					shown[difference] = true
				}
				require.Equal(t, want, r.judge(t, body), "%s: %s as %s: the document allows it: %t; difference on purpose: %s",
					r.id, p.name, value, allowed, difference)
				if want == takenBut(p.name) {
					result, err := r.read(body)
					require.NoError(t, err)
					requireFields(t, r.schema, []byte(objectOf(without(full, p.name))), result)
				}
			}
		}
	}
	require.ElementsMatch(t, valueDifferences(), sortedNames(shown), "differences that showed")
}
