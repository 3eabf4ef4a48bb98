package contract

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestDocumentIsOpenAPI31(t *testing.T) {
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	parsed, err := libopenapi.NewDocument(data)
	require.NoError(t, err)
	v, errs := validator.NewValidator(parsed)
	require.Empty(t, errs)
	_, found := v.ValidateDocument()
	require.NoError(t, joined(data, found))
	require.Equal(t, "3.1.0", parsed.GetVersion())
}

// TestSDKHasTheNamesOfTheDocument compares the version, the operations, their headers, and the events. The requests and
// responses of the other tests have the fields.
func TestSDKHasTheNamesOfTheDocument(t *testing.T) {
	d := readDocument(t)
	require.Equal(t, paymentsvc.InterfaceVersion, d.version)
	var operations []string
	for _, o := range append(d.operations, d.notification) {
		operations = append(operations, o.id)
		var headers []string
		for _, p := range o.parameters {
			if p.In == "header" {
				require.True(t, *p.Required, o.id)
				headers = append(headers, p.Name+" "+p.Schema.Schema().Type[0])
			}
		}
		require.ElementsMatch(t, []string{"timestamp integer", "signature string"}, headers, o.id)
	}
	require.ElementsMatch(t, operations, append(endpointMethods(), d.notification.id))
	require.ElementsMatch(t, endpointMethods(), slices.Collect(maps.Keys(calls)))
	for _, p := range d.notification.request.properties {
		for _, name := range p.enum {
			require.True(t, paymentsvc.EventType(name).Known(), name)
		}
	}
	require.False(t, paymentsvc.EventType("dispute.status_changed").Known())
}
