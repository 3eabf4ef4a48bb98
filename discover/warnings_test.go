package discover

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWarnings decides by structure alone. TestAlteredMessages shows that what has no warning is safe.
func TestWarnings(t *testing.T) {
	c := alteredCatalogue(t)
	fields := []string{"order_id", "status"}
	const stale = "the timestamp is not signed, so an old message can be sent as a new one"
	for name, tt := range map[string]struct {
		sep   string
		texts []string
		want  []string
	}{
		"a timestamp is digits, and a body begins with a brace": {"", []string{"timestamp", "body"}, nil},
		"no body is the end of another one": {
			"", []string{"timestamp", "method", "uri", "body"}, nil,
		},
		"a digest stays in its place": {
			"", []string{"method", "timestamp", "hex(sha256(body))", "uri"}, nil,
		},
		"an escaped path has no line's end": {"\n", []string{"path", "timestamp", "body"}, nil},
		"a header has no line's end": {
			"\n", []string{`header("X-Request-Id")`, "timestamp", "body"}, nil,
		},
		"a header may have a colon, and a timestamp has none": {
			":", []string{"timestamp", `header("X-Request-Id")`, "body"}, nil,
		},
		"the body says what the field is": {
			"", []string{"timestamp", `field("status")`, "hex(sha256(body))"}, nil,
		},
		"two fields": {"", []string{`field("order_id")`, `field("status")`}, []string{
			`the text can be cut in two ways: field order_id and field status run into each other, so a recorded ` +
				`message can be accepted as another one, such as order "1" with status 2 as order "12"`, stale,
		}},
		"a number ends before a bar": {"|", []string{`field("status")`, "timestamp", `field("order_id")`}, nil},
		"an integer may be written with a full stop": {".", []string{
			`field("status")`, "timestamp", `field("order_id")`,
		}, []string{
			"the text can be cut in two ways: field status, timestamp and field order_id run into each other, " +
				"so a recorded message can be accepted as another one",
		}},
		"an amount has a full stop": {".", []string{
			`field("amount")`, `field("status")`, `field("order_id")`,
		}, []string{
			"the text can be cut in two ways: field amount, field status and field order_id run into each other, " +
				"so a recorded message can be accepted as another one", stale,
		}},
		"one header after the other": {".", []string{`header("X-Request-Id")`, "query", "timestamp", "body"}, []string{
			"the text can be cut in two ways: header X-Request-Id and query run into each other, so what is signed " +
				"as the one can be read as the other",
		}},
		"all values, nothing between": {".", []string{"timestamp", "fields(sorted, unseparated)"}, []string{
			`the text can be cut in two ways: the values of the fields run into each other, so a recorded message ` +
				`can be accepted as another one, such as order "1" with status 2 as order "12"`,
		}},
		"one field left out": {".", []string{"timestamp", `fields(sorted, "=", "&", omit("status"))`}, []string{
			`the text can be cut in two ways: a value can contain "&", so a recorded message can be accepted ` +
				`as another one`, "fields that are not signed can be changed: status",
		}},
		"no field of the body": {
			".", []string{"timestamp", "path"}, []string{"nothing of the body is signed, so it can be changed"},
		},
		"a digest of values that run together": {".", []string{
			"timestamp", "hex(md5(fields(sorted, unseparated)))",
		}, []string{
			`the text can be cut in two ways: the values of the fields run into each other, so a recorded message ` +
				`can be accepted as another one, such as order "1" with status 2 as order "12"`,
		}},
		"an object inside the body": {".", []string{"timestamp", `within("user", fields(sorted, "|"))`}, []string{
			`the text can be cut in two ways: the names of the fields are not signed, and a value can contain "|", ` +
				`so a recorded message can be accepted as another one`,
			"fields that are not signed can be changed: order_id and status",
		}},
		"one field of two": {
			".", []string{"timestamp", `field("status")`},
			[]string{"fields that are not signed can be changed: order_id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, c.composition(t, tt.sep, tt.texts...).warnings(fields))
		})
	}
}

func TestWarningsOfWrappings(t *testing.T) {
	c := alteredCatalogue(t)
	for _, w := range wrappings() {
		whole, hashed := c.composition(t, ".", "timestamp", "body"), c.composition(
			t, ".", "timestamp", "hex(sha256(body))",
		)
		whole.wrap, hashed.wrap = w, w
		require.Empty(t, hashed.warnings(nil), w.desc)
		require.Equal(t, w.loses != "", len(whole.warnings(nil)) > 0, w.desc)
	}
}

func TestPathBytesAreThoseOfNetURL(t *testing.T) {
	for c := range 256 {
		u := url.URL{Path: "/" + string([]byte{byte(c)}), RawPath: "/" + string([]byte{byte(c)})}
		kept := len(u.EscapedPath()) == 2
		if c != '%' { // which begins every escape
			require.Equal(t, kept, isPathByte(byte(c)), "%q", c)
		}
		require.Equal(
			t, len(url.QueryEscape(string([]byte{byte(c)}))) == 1 && c != ' ' || c == '%' || c == '+',
			isFormText(byte(c)), "%q", c,
		)
	}
}
