package encoders

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cell is one way of printing one type in one shape.
type cell struct{ printer, subject, shape string }

// exception is a block of cells that show the canary. SECURITY.md has the reason. "|" separates names. Empty shapes
// mean all shapes.
type exception struct {
	reason                     string
	printers, subjects, shapes string
}

func (e *exception) covers(c cell) bool {
	has := func(names, name string) bool { return slices.Contains(strings.Split(names, "|"), name) }
	return has(e.printers, c.printer) && has(e.subjects, c.subject) && (e.shapes == "" || has(e.shapes, c.shape))
}

const (
	requests = "PaymentRequest|PayoutRequest"
	configs  = "HMACConfig|WebhookConfig"
	errs     = "Error|ServiceError|NotificationError"
	open     = "Secret|" + requests + "|" + configs + "|" + errs // types with exported text fields
	badVerbs = "fmt %d|fmt unknown verb"
	unread   = "unexported value|unexported any|unexported slice|pointer to unexported value"
	byValue  = "value|slice|slice of any|array|map|map of any|struct|pointer to struct|struct with any|" +
		"struct with slice|" +
		"embedded value"
)

func exceptions() []exception {
	const (
		noMethod  = "calls no method of a value in an unexported field"
		pointer   = "`%s` and `%d` of a pointer in an unexported field"
		wraps     = "`%d` of an error that wraps or joins another"
		misuse    = "`%w` outside `fmt.Errorf`"
		noPointer = "`%p` of a value other than a pointer"
		compares  = "go-cmp compares field by field and prints the differing fields"
		noMethods = "Printers that call no methods, such as testify's differences"
		key       = "keys of a map in `encoding/json` use it directly"
	)
	return []exception{
		{
			noMethod,
			"slog text|logrus text|messages|fmt %v|fmt %s %q|fmt %x|fmt %d|fmt unknown verb|fmt arguments",
			open, unread,
		},

		{pointer, "fmt %s %q|" + badVerbs, requests + "|" + configs + "|" + errs, "unexported pointer"},
		{pointer, "fmt %s %q|" + badVerbs, errs, "unexported error"},
		{wraps, badVerbs, errs, "wrapped|joined|joined and wrapped"},
		{wraps, badVerbs, "errors", "error"},

		{misuse, "fmt %w", open, byValue + "|" + unread},
		{misuse, "fmt %w", requests + "|" + configs + "|" + errs, "pointer"},
		{misuse, "fmt %w", "Secret|PayoutRequest|ServiceError", "map key"},
		{misuse, "fmt %w", errs, "error"},

		{
			noPointer, "fmt %p", open,
			"value|array|struct|struct with any|struct with slice|unexported value|unexported any|unexported slice|" +
				"embedded value",
		},

		{
			compares, "go-cmp", requests + "|Secret|HMACConfig|Error|ServiceError",
			"value|struct|unexported value|embedded value",
		},
		{compares, "go-cmp", "Secret|ServiceError|HMACConfig", "array"},
		{compares, "go-cmp", "NotificationError", "value|struct|unexported value|embedded value"},

		{noMethods, "spew without methods", open + "|errors", ""},

		{key, "encoding/json|slog JSON|zerolog|zerolog console|zap JSON|zap console|logrus JSON", "Secret", "map key"},
	}
}

// skipped reports whether a printer cannot print a shape. spew crashes for a struct with only an embedded pointer whose
// type has a String or Error method, such as struct{ *time.Time }.
func skipped(c cell) bool { return c.printer == "spew" && c.shape == "embedded pointer" }

func TestSecurityListsTheExceptions(t *testing.T) {
	page, err := os.ReadFile("../../../SECURITY.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, e := range exceptions() {
		require.Contains(t, text, e.reason)
	}
}
