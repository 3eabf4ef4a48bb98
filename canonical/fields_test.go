package canonical_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Values without separators must return an error at the first use, unless Unseparated is set.
func TestFieldListRequiresBetween(t *testing.T) {
	m := message(t, "", `{"order_id":"1","status":2}`)
	for _, l := range []canonical.FieldList{
		{},
		{AsSent: true, OmitEmpty: true},
		{Nested: canonical.NestedFlat, Path: "."},
		{Equals: "="},
		{Escaping: canonical.EscapingForm, Omit: []string{"status"}},
	} {
		got, err := canonical.Fields(l)([]byte("x"), m)
		require.EqualError(
			t, err,
			"canonical: FieldList: Between is empty, so values would have no separator: want Between, Names or "+
				"Unseparated",
			"%+v", l,
		)
		require.Nil(t, got)

		l.Unseparated = true
		got, err = canonical.Fields(l)([]byte("x"), m)
		require.NoError(t, err, "%+v", l)
		require.True(t, strings.HasPrefix(string(got), "x1"), "%s", got)
	}
	got, err := canonical.Fields(canonical.FieldList{Between: "|", Unseparated: true})(nil, m)
	require.NoError(t, err)
	require.Equal(t, "1|2", string(got), "Unseparated allows an empty Between, and changes nothing else")
}

// TestFieldListReportsError requires that Sign and Verify return the error of the zero value.
func TestFieldListReportsError(t *testing.T) {
	const want = "FieldList: Between is empty"
	scheme := paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Fields(canonical.FieldList{})),
		Encoding:  paymentsvc.Hex,
	}

	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: "s3cret"})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, "https://pay.example.com/get_balance", strings.NewReader(`{}`),
	)
	require.NoError(t, err)
	require.ErrorContains(t, signer.Sign(r, []byte(`{}`)), want)

	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{"s3cret"}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	header := http.Header{"Timestamp": {"1700000000"}, "Signature": {strings.Repeat("ab", 32)}}
	require.ErrorContains(t, webhook.Verify(header, []byte(`{"order_id":"1"}`)), want)
}

// The sender of a notification chooses its body, and the canonical string is computed before the signature check.
// Encoding each level of a nested body again would take seconds for 60 KB.
func TestNestedBodyCostsNoMoreThanFlatBody(t *testing.T) {
	flat := canonical.Fields(canonical.FieldList{Nested: canonical.NestedFlat, Names: true, Path: "."})
	for name, part := range map[string]paymentsvc.CanonicalFunc{
		"BodySorted": canonical.BodySorted, "BodyJSON": canonical.BodyJSON(canonical.JSONForm{}), "Fields": flat,
	} {
		for shape, nested := range map[string]func(depth int) string{
			"objects": func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) },
			"arrays": func(n int) string {
				return `{"a":` + strings.Repeat("[", n-1) + "1" + strings.Repeat("]", n-1) + "}"
			},
		} {
			_, err := part(nil, &paymentsvc.Message{Body: []byte(nested(64))})
			require.NoError(t, err, "%s of 64 %s", name, shape)
			for _, depth := range []int{66, 1000, 9999} {
				_, err := part(nil, &paymentsvc.Message{Body: []byte(nested(depth))})
				require.Error(t, err, "%s of %d %s", name, depth, shape)
			}
		}
	}
}

// A field of a nested object is written with the names of all levels.
func TestFieldsLimitsNamesOfNestedFields(t *testing.T) {
	var leaves strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&leaves, `"%x":1,`, i)
	}
	long := strings.Repeat("n", 1000)
	body := strings.Repeat(`{"`+long+`":`, 30) + "{" + leaves.String() + `"z":1}` + strings.Repeat("}", 30)
	for _, escaping := range []canonical.Escaping{canonical.EscapingNone, canonical.EscapingForm} {
		part := canonical.Fields(canonical.FieldList{
			Nested: canonical.NestedFlat, Names: true, Path: ".", Escaping: escaping,
		})
		text, err := part(nil, &paymentsvc.Message{Body: []byte(body)})
		require.Error(t, err, "%d bytes of %d", len(text), len(body))
		assert.NotContains(t, err.Error(), "nnn")
	}
}
