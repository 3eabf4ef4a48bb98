package paymentsvc_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

var cells = flag.Int("cells", 10_000, "random cells of the outcome table")

// response is a random response with the facts that decide its outcome, which the client has to find in the text.
type response struct {
	text     string
	isObject bool            // one whole JSON object
	hasCode  bool            // error_code is not empty
	good     map[string]bool // fields that the document allows at the top level
	names    map[string]bool // order_id and redirect_url with a value, at any depth
}

// TestOutcomeOracle compares random cells of the table in docs/outcomes.md with a second implementation of it.
func TestOutcomeOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 1))
	fields := paymentsvc.ErrorFields("error_code", "error_message")
	effects := map[string]paymentsvc.Effect{
		"by status": paymentsvc.EffectByStatus, "none": paymentsvc.EffectNone, "possible": paymentsvc.EffectPossible,
	}
	seen := map[string]int{}
	for n := range *cells {
		op := operations()[n%len(operations())]
		r := randomResponse(random)
		status := 100 + random.IntN(500)
		if random.IntN(2) == 0 {
			status = []int{200, 201, 202, 400, 401, 403, 404, 408, 409, 422, 425, 429, 499, 503}[random.IntN(14)]
		}
		effect := []string{"", "by status", "by status", "none", "possible"}[random.IntN(5)]
		var decoder paymentsvc.ErrorDecoder
		if effect != "" {
			decoder = func(status int, body []byte) *paymentsvc.ServiceError {
				found := fields(status, body)
				if found != nil {
					found.Effect = effects[effect]
				}
				return found
			}
		}
		c := newClient(t, "http://127.0.0.1", decoding(decoder), attempts(1),
			over(roundTripFunc(func(*http.Request) (*http.Response, error) { return canned(status, nil, r.text), nil })))
		got := success
		if _, err := op.call(t, c); err != nil {
			got = paymentsvc.OutcomeOf(err).String()
			about := status == 401 || status == 403 || status == 429
			require.Equal(t, got == rejected && about, paymentsvc.SafeToRetry(err))
		}
		want := oracle(op.name, effect, status, r)
		require.Equal(t, want, got, "cell %d: %s, status %d, effect %q: %s", n, op.name, status, effect, r.text)
		seen[effect+" "+want]++
	}
	for _, cell := range []string{
		" success", " unknown", "by status success", "by status unknown", "by status rejected", "none success",
		"none unknown", "none rejected", "possible success", "possible unknown",
	} {
		assert.Greater(t, seen[cell], *cells/200, cell)
		delete(seen, cell)
	}
	assert.Empty(t, seen, "outcomes that no row has")
}

// oracle is the table, row by row. effect is "" without a decoder.
func oracle(endpoint, effect string, status int, r response) string {
	found := effect != "" && r.isObject && r.hasCode
	proof := "order_id"
	if endpoint == "init_form" {
		proof = "redirect_url"
	}
	class := status / 100
	switch {
	case class == 1: // informational, so never a complete response
		return unknown
	case found && class == 2 && r.names[proof]:
		return unknown
	case found && effect == "none":
		return rejected
	case found && effect == "possible":
		return unknown
	case found && class == 4 && !slices.Contains([]int{408, 409, 425, 499}, status):
		return rejected
	case found && class == 2 && status != 202:
		return rejected
	case found:
		return unknown
	case class == 2 && r.isObject && hasRequired(endpoint, r):
		return success
	}
	return unknown
}

func hasRequired(endpoint string, r response) bool {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !r.good[name] })
	}
	switch endpoint {
	case "init_payment", "init_payout":
		return has("order_id", "status", "status_code")
	case "init_form":
		return has("redirect_url")
	case "init_invoice":
		return has("order_id", "invoice_url")
	case "get_balance":
		return has("currency") && (has("payout_balance") || has("expected_balance"))
	}
	return true // of a status call, every field is optional
}

// spelling is a JSON value: good if a success may have it there, filled if it is not empty.
type spelling struct {
	json         string
	good, filled bool
}

var (
	emptySpellings  = []spelling{{json: "null"}, {json: "[]"}, {json: "{ }"}, {json: "0"}, {json: "false"}}
	filledSpellings = []spelling{{json: "17", filled: true}, {json: "true", filled: true}, {json: `[""]`, filled: true}}
	textSpellings   = append([]spelling{
		{`"o-1"`, true, true}, {`"\u006f\"\\"`, true, true}, {`"{}"`, true, true}, {`""`, false, false}, {`"0"`, true, false},
	}, append(emptySpellings, filledSpellings...)...)
	integerSpellings = []spelling{
		{json: "1", good: true}, {json: "1.0", good: true}, {json: "0e7", good: true}, {json: `"20"`, good: true},
		{json: `"-3"`, good: true}, {json: `"007"`, good: true}, {json: `"0\u0031"`, good: true}, {json: "0", good: true},
		{json: `"1.0"`}, {json: `"x"`}, {json: `""`}, {json: `"+1"`}, {json: "1.5"}, {json: "null"}, {json: "true"},
		{json: "[1]"}, {json: "9223372036854775808"}, {json: `"9223372036854775808"`},
	}
	amountSpellings = []spelling{
		{json: "1", good: true}, {json: `"10.50"`, good: true}, {json: "1e2", good: true}, {json: "0", good: true},
		{json: "null"}, {json: `""`}, {json: `"x"`}, {json: "[]"}, {json: "false"},
	}
	currencySpellings = []spelling{
		{json: `"EUR"`, good: true}, {json: `""`, good: true}, {json: "null"}, {json: "1"}, {json: "[]"},
	}
	codeSpellings = []spelling{
		{json: "null"}, {json: `""`}, {json: "0"}, {json: `"0"`}, {json: "-0.0"}, {json: "false"}, {json: "[]"},
		{json: `"E17"`, filled: true}, {json: "7", filled: true}, {json: `"00"`, filled: true}, {json: "true", filled: true},
	}
	plainTexts = []string{
		"order_id is required", "the redirect_url: missing", `field "order_id" is empty`, `"order_id": required`, `\d+`,
		"order_id", "a \"b\"\n", `{"order_id":""}`, `{"error":"no"}`, "é😀", "",
	}
)

func randomResponse(random *rand.Rand) response {
	r := response{isObject: true, good: map[string]bool{}, names: map[string]bool{}}
	var members []string
	add := func(name string, from []spelling) (s spelling) {
		s = from[random.IntN(len(from))]
		if random.IntN(3) > 0 { // good ones are wanted more often
			s = from[0]
		}
		members = append(members, strconv.Quote(name)+":"+s.json)
		return s
	}
	if random.IntN(5) < 3 {
		r.hasCode = add("error_code", codeSpellings).filled
	}
	for _, field := range []struct {
		name string
		from []spelling
	}{
		{"order_id", textSpellings}, {"redirect_url", textSpellings}, {"invoice_url", textSpellings},
		{"status", integerSpellings}, {"status_code", integerSpellings}, {"currency", currencySpellings},
		{"payout_balance", amountSpellings}, {"expected_balance", amountSpellings},
	} {
		if random.IntN(4) == 0 {
			continue
		}
		first := add(field.name, field.from)
		r.good[field.name], r.names[field.name] = first.good, first.filled
		if random.IntN(30) == 0 { // a duplicate can be read in two ways
			second := add(field.name, field.from)
			r.good[field.name], r.names[field.name] = false, first.filled || second.filled
		}
	}
	if random.IntN(2) == 0 {
		members = append(members, `"data":`+r.nested(random, 3))
	}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	r.text = "{" + strings.Join(members, ",") + "}"
	switch random.IntN(12) {
	case 0:
		r.text = "\ufeff" + r.text
	case 1:
		r.text, r.isObject = r.text[:len(r.text)-1], false
	case 2:
		r.text, r.isObject = "<html>"+strconv.Itoa(random.IntN(9))+"</html>", false
	case 3:
		r.text, r.isObject = "["+r.text+"]", false
	case 4:
		r.text, r.isObject = r.text+r.text, false
	}
	return r
}

// nested returns a JSON value, and notes the names with a value in it.
func (r *response) nested(random *rand.Rand, depth int) string {
	if depth == 0 || random.IntN(4) == 0 {
		return quoteJSON(plainTexts[random.IntN(len(plainTexts))])
	}
	switch random.IntN(4) {
	case 0:
		return "[1," + r.nested(random, depth-1) + "]"
	case 1:
		return quoteJSON(r.nested(random, depth-1))
	case 2:
		return `{"message":` + r.nested(random, depth-1) + "}"
	}
	name := []string{"order_id", "redirect_url"}[random.IntN(2)]
	s := textSpellings[random.IntN(len(textSpellings))]
	r.names[name] = r.names[name] || s.filled
	name = []string{
		name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], fmt.Sprintf(`\u%04x`, name[0]) + name[1:],
	}[random.IntN(4)]
	return `{"x":` + r.nested(random, depth-1) + `, "` + name + `" : ` + s.json + "}"
}

// quoteJSON returns text as a JSON string, with other escapes than encoding/json uses.
func quoteJSON(text string) string {
	return `"` + strings.NewReplacer(`"`, `\u0022`, `\`, `\\`, "\n", `\n`).Replace(text) + `"`
}
