package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPageOfTestingCompilesBlockByBlock compiles the first block of docs/testing.md with each other block.
func TestPageOfTestingCompilesBlockByBlock(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "testing_example_test.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	dir, write := module(t)
	var code []string
	for _, b := range pages(t)["docs/testing.md"].blocks {
		if b.lang == "go" {
			code = append(code, b.text)
		}
	}
	require.Greater(t, len(code), 3)
	for i, block := range code[1:] {
		text := code[0] + "\n" + block
		for _, spec := range file.Imports {
			name := path.Base(strings.Trim(spec.Path.Value, `"`))
			if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
				text = "import " + spec.Path.Value + "\n" + text
			}
		}
		write(fmt.Sprintf("block%d/shop_test.go", i), "package shop\n"+text)
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir = dir
	output, err := vet.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}

// module returns a directory with this module's requirements, and a function that writes a file in it.
func module(t *testing.T) (dir string, write func(name, text string)) {
	t.Helper()
	dir = t.TempDir()
	write = func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		write(name, strings.Replace(string(data), "=> "+root, fmt.Sprintf("=> %q", here), 1))
	}
	return dir, write
}

// TestPageOfTestingDetectsWrongCode runs the tests of docs/testing.md with mistakes in its checkout and shop.
func TestPageOfTestingDetectsWrongCode(t *testing.T) {
	const (
		lost   = "TestLostResponseIsNotPaidTwice"
		each   = "TestEachFaultStartsAtMostOnePayment"
		ships  = "TestPaidOrderShipsOnce"
		refund = "TestRefundBeforePaymentPreventsShipping"

		again    = "checkout(client, userData)"
		called   = "	if err == nil || paymentsvc.OutcomeOf(err)"
		compared = "	if failed != nil || status.UserData"
		notFound = "	if f := new(paymentsvc.Error); errors.As(failed, &f) && f.HTTPStatus == 404 {\n" +
			"		return " + again + "\n	}\n" + compared
		known   = "	if f := new(paymentsvc.Error); errors.As(err, &f) && %s {\n		return %s\n	}\n" + called
		refused = "&paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected}"
		final   = "n.StatusDescription != paymentsvc.StatusSuccess:"
		order   = `n.UserData != "order-1"`
		event   = "n.Event == paymentsvc.EventPaymentStatusChanged"
		failed  = `return errors.New("the store failed")`
	)
	wrong := []struct{ old, new, test string }{
		{"Amount: price, UserData", `Amount: paymentsvc.MustParseAmount("1990"), UserData`, lost},
		{"Amount: price, UserData", "Amount: paymentsvc.AmountFromMinor(int64(cents(price)), 2), UserData", lost},
		{called, "	if paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown {\n		return nil\n	}\n" + called, lost},
		{called, fmt.Sprintf(known, "len(userData) < 12", `checkout(client, userData+"-again")`), "TestUnderChaos"},
		{called, fmt.Sprintf(known, "f.HTTPStatus == 429", again), each},
		{called, fmt.Sprintf(known, "f.HTTPStatus == 403", again), each},
		{called, fmt.Sprintf(known, "f.HTTPStatus == 403", refused), each},
		{called, fmt.Sprintf(known, "f.HTTPStatus == 200", refused), each},
		{called, fmt.Sprintf(known, "f.HTTPStatus == 200", "nil"), each},
		{"return err // still unknown", "return failed // still unknown", each},
		{"status.UserData != userData", `status.OrderID == ""`, each},
		{compared, notFound, each},
		{"return err // still unknown", `return errors.New("never started") // still unknown`, each},
		{final, `n.StatusDescription == paymentsvc.StatusPending || n.StatusDescription == "FAILURE":`, ships},
		{order, `!hasPrefix(n.UserData, "order-1")`, ships},
		{order, `!equalFold(n.UserData, "order-1")`, ships},
		{order, order + " && n.Event != paymentsvc.EventRefundStatusChanged", ships},
		{"n.Amount.Equal(price)", "n.Amount.String() == price.String()", ships},
		{"n.Amount.Equal(price)", "int64(cents(n.Amount)) == int64(cents(price))", ships},
		{"	s.seen[n.Key()] = true\n", "	clear(s.seen)\n	s.seen[n.Key()] = true\n", ships},
		{"s.seen[n.Key()]", "s.seen[n.Key()+n.Timestamp.String()]", ships},
		{"Tolerance: time.Minute", "Tolerance: paymentsvc.AnyAge", ships},
		{"n.Amount.Equal(price)", "n.Amount.Cmp(price) >= 0", ships},
		{" && !s.refunded", "", refund},
		{final, "n.StatusDescription != paymentsvc.StatusSuccess && n.Event != paymentsvc.EventRefundStatusChanged:", refund},
		{event, "(" + event + " || n.Event == paymentsvc.EventPayoutStatusChanged)", ships},
		{event, "(" + event + " || !n.Event.Known())", ships},
		{failed, "return nil", ships},
		{failed, "s.seen[n.Key()] = true\n" + failed, ships},
		{"s.seen[n.Key()]", "s.seen[n.OrderID+string(n.StatusDescription)]", "TestNotificationBeforeTheResponse"},
		{"webhook.Handler(s.Notified)", "checked(webhook.Handler(s.Notified))", ships},
	}
	// checked accepts a message without a signature.
	const helpers = `package docs_test
import ("bytes"; "io"; "net/http"; "strconv"; "strings"; "github.com/paymentsvc/paymentsvc")
var hasPrefix, equalFold = strings.HasPrefix, strings.EqualFold
func cents(a paymentsvc.Amount) float64 {
	f, _ := strconv.ParseFloat(a.String(), 64)
	return f * 100
}
func checked(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Signature") == "" {
			body, _ := io.ReadAll(r.Body)
			m := &paymentsvc.Message{Timestamp: r.Header.Get("Timestamp"), Body: body}
			signature, _ := scheme.Signature(secret, m)
			r.Header.Set("Signature", signature)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	}
}`
	source, err := os.ReadFile("testing_example_test.go")
	require.NoError(t, err)
	dir, write := module(t)
	for i, w := range wrong {
		require.Contains(t, string(source), w.old)
		write(fmt.Sprintf("wrong%d/shop_test.go", i), strings.ReplaceAll(string(source), w.old, w.new))
		write(fmt.Sprintf("wrong%d/helpers_test.go", i), helpers)
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "./...")
	run.Dir = dir
	output, err := run.CombinedOutput()
	require.Error(t, err)
	reports := map[string]string{}
	report := regexp.MustCompile(`(?s)(.*?)\n(?:FAIL|ok  )\t\S+/(wrong\d+)[\t ]`)
	for _, found := range report.FindAllStringSubmatch(string(output), -1) {
		reports[found[2]] = found[1]
	}
	for i, w := range wrong {
		assert.Contains(t, reports[fmt.Sprintf("wrong%d", i)], "--- FAIL: "+w.test, "%q became %q", w.old, w.new)
	}
}
