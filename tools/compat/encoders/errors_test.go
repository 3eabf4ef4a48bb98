package encoders

import (
	"bytes"
	"encoding/gob"
	"encoding/json"

	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/fatih/structs"
	"github.com/fxamacker/cbor/v2"
	"github.com/go-viper/mapstructure/v2"
	goccyjson "github.com/goccy/go-json"
	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	bsonv1 "go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/v2/bson"
	"gopkg.in/yaml.v3"

	"github.com/paymentsvc/paymentsvc"
)

// writer is an encoder of values.
type writer struct {
	name    string
	marshal func(v any) ([]byte, error)
	// reflects is set for a writer that reads the fields of an error and calls no methods.
	reflects bool
}

func writers() []writer {
	for _, v := range []any{
		paymentsvc.Error{}, paymentsvc.ServiceError{}, paymentsvc.NotificationError{}, []any{}, map[string]any{},
	} {
		gob.Register(v) // for values in an interface
	}
	spelled := func(v any, err error) ([]byte, error) { return fmt.Appendf(nil, "%q", v), err }
	return []writer{
		{"encoding/json", json.Marshal, false},
		{"encoding/xml", marshalXML, false},
		{"encoding/gob", func(v any) ([]byte, error) {
			var buf bytes.Buffer
			err := gob.NewEncoder(&buf).Encode(&v)
			return buf.Bytes(), err
		}, false},
		{"yaml.v3", yaml.Marshal, false},
		{"goccy/go-yaml", goccy.Marshal, false},
		{"goccy/go-yaml as JSON", func(v any) ([]byte, error) {
			return goccy.MarshalWithOptions(v, goccy.JSON())
		}, false},
		{"goccy/go-json", goccyjson.Marshal, false},
		{"msgpack", msgpack.Marshal, false},
		{"CBOR", cbor.Marshal, false},
		{"DynamoDB with options", func(v any) ([]byte, error) {
			return spelled(attributevalue.MarshalWithOptions(v, encodesText))
		}, false},

		{"DynamoDB", func(v any) ([]byte, error) { return spelled(attributevalue.Marshal(v)) }, true},
		{"BSON", bson.Marshal, true},
		{"BSON, driver v1", bsonv1.Marshal, true},
		{"mapstructure", func(v any) ([]byte, error) {
			var members map[string]any
			err := mapstructure.Decode(v, &members)
			return fmt.Appendf(nil, "%q", members), err
		}, true},
		{"structs", func(v any) (out []byte, err error) {
			if !structs.IsStruct(v) {
				return nil, nil
			}
			return fmt.Appendf(nil, "%q", structs.Map(v)), nil
		}, true},
	}
}

// Encoders that call text methods must write an error without the bytes of a response. Encoders that read fields by
// reflection write these bytes, and SECURITY.md lists these encoders.
func TestEncodersWriteTheTextOfErrors(t *testing.T) {
	for _, w := range writers() {
		written := 0
		for _, s := range subjects(t) {
			if !slices.Contains([]string{"Error", "ServiceError", "NotificationError", "errors"}, s.name) {
				continue
			}
			for _, sh := range s.shapes {
				data, err := w.marshal(sh.value)
				is := shown(string(data)) || err != nil && shown(err.Error())
				switch {
				case is && !w.reflects:
					t.Errorf("%s, %s, %s: shows the canary: %.300q %v", w.name, s.name, sh.name, data, err)
				case !is && w.reflects && sh.name == "value":
					t.Errorf("%s, %s shows nothing, so SECURITY.md must omit it: %.300q %v", w.name, s.name, data, err)
				}
				if err == nil {
					written++
				}
				direct := slices.Contains([]string{"value", "pointer", "struct with any", "map"}, sh.name)
				if err == nil && direct && s.name == "Error" && !w.reflects {
					require.Contains(t, string(data), "the service reported an error", "%s, %s", w.name, sh.name)
				}
			}
		}
		require.Greater(t, written, 3, w.name)
	}
}

func TestEncodersAcceptNilErrors(t *testing.T) {
	type record struct {
		Name         string
		Failure      *paymentsvc.Error
		Service      *paymentsvc.ServiceError
		Notification *paymentsvc.NotificationError
	}
	for _, w := range writers() {
		require.NotPanics(t, func() {
			data, err := w.marshal(record{Name: "a name"})
			if w.name != "encoding/gob" { // gob rejects types that are not registered
				require.NoError(t, err, w.name)
				require.Contains(t, string(data), "a name", w.name)
			}
		}, w.name)
	}
}
