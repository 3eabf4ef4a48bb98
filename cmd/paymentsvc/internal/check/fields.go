package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

var (
	codeName  = regexp.MustCompile(`(?i)(code|errno)[^.]*$|^error$`)
	shortCode = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
)

// documented returns the response fields in the interface document: first six of status calls, last three of balances.
func documented() []string {
	return []string{
		"partner_id", "project_id", "amount", "description", "user_data", "order_id", "status", "status_code",
		"redirect_url", "invoice_url", "payout_balance", "expected_balance", "currency",
	}
}

// valueAt returns the string or number of a field in a body, or "" if the field is missing.
func valueAt(body []byte, name string) string {
	if e := paymentsvc.ErrorFields(name, "")(0, body); e != nil {
		return e.Code
	}
	return ""
}

// addFields adds the names of the strings, numbers and booleans in a JSON value, and in the first element of a list. It
// skips names that ErrorFields does not support, possible card numbers, long names, and a list without a name.
func addFields(v any, at string, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if name != "" && len(name) < 60 && !strings.Contains(name, ".") && mask.Text(name) == name {
				addFields(member, strings.TrimPrefix(at+"."+name, "."), names)
			}
		}
	case []any:
		if len(v) > 0 && at != "" {
			addFields(v[0], at+".0", names)
		}
	case string, float64, bool:
		names[at] = true
	}
}

// fieldsOf returns the sorted names of the fields in the bodies.
func fieldsOf(exchanges ...*Exchange) []string {
	names := map[string]bool{}
	for _, x := range exchanges {
		var decoded any
		if json.Unmarshal(x.Body, &decoded) == nil {
			addFields(decoded, "", names)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// form returns the form of the body: "html", "json", "text" or "empty".
func (x *Exchange) form() string {
	body := bytes.TrimSpace(x.Body)
	switch {
	case strings.Contains(x.Header.Get("Content-Type"), "html"), bytes.HasPrefix(body, []byte("<")):
		return "html"
	case len(body) == 0:
		return "empty"
	case json.Valid(body) && (body[0] == '{' || body[0] == '['):
		return "json"
	}
	return "text"
}

// hidden replaces a text of the response in the output.
const hidden = "(hidden)"

// shown returns a text of the response for output. It returns hidden for a text with the signature or a card number.
func (x *Exchange) shown(text string) string {
	signature := x.Request.Header.Get("Signature")
	if mask.Text(text) != text || signature != "" && strings.Contains(text, signature) {
		return hidden
	}
	return text
}

// codes returns the names and values of the fields that the output may contain: codes outside the document. It omits a
// long value, because it may be the signature that the service expected.
func (x *Exchange) codes() (list []string) {
	for _, name := range fieldsOf(x) {
		value := valueAt(x.Body, name)
		isDigest := len(value) > 32 || len(value) > 16 && strings.ContainsAny(value, "0123456789")
		isCode := shortCode.MatchString(value) && x.shown(value) == value && !isDigest
		if isCode && codeName.MatchString(name[strings.LastIndexByte(name, '.')+1:]) && !slices.Contains(documented(), name) {
			list = append(list, name+": "+value)
		}
	}
	return list
}
