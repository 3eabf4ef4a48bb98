package docs_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

const recipes = root + "/paymentsvctest/recipes/recipes_test.go"

// TestPageOfTestingCopiesTheRecipes copies the recipes with the commands of docs/testing.md, and runs the copy in a
// module that requires only the SDK. TestGoCodeIsCompiled finds the blocks of the page in the recipes.
func TestPageOfTestingCopiesTheRecipes(t *testing.T) {
	dir, write := module(t)
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	write("go.mod", "module example.com/shop\n\ngo 1.26\n\nrequire (\n\tgithub.com/google/uuid v1.6.0 // indirect\n"+
		"\tgithub.com/paymentsvc/paymentsvc v0.0.0\n)\n\nreplace github.com/paymentsvc/paymentsvc => "+here+"\n")
	copied := false
	for _, b := range pages(t)["docs/testing.md"].blocks {
		if copied = strings.Contains(b.text, "recipes_test.go"); copied {
			script := strings.Replace(b.text, "go get github.com/paymentsvc/paymentsvc\n", "", 1)
			run := exec.CommandContext(t.Context(), "bash", "-euc", script+"go test .\necho '// writable' >>recipes_test.go")
			run.Dir = dir
			output, err := run.CombinedOutput()
			require.NoError(t, err, "%s", output)
			break
		}
	}
	require.True(t, copied)
}

// TestPageOfTestingListsTheRecipes compares the table of docs/testing.md with the tests of the recipes.
func TestPageOfTestingListsTheRecipes(t *testing.T) {
	source, err := os.ReadFile(recipes)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	names := func(pattern string, text []byte) (list []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			list = append(list, string(found[1]))
		}
		return list
	}
	tests := names(`(?m)^func (Test\w+)`, source)
	require.Greater(t, len(tests), 10)
	assert.Equal(t, tests, names("(?m)^\\| `(Test\\w+)` \\|", page))
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

// TestPageOfTestingDetectsWrongCode runs the recipes with mistakes in their shop and payouts.
func TestPageOfTestingDetectsWrongCode(t *testing.T) {
	const (
		lost    = "TestLostResponseIsNotPaidTwice"
		second  = "TestSecondClickStartsNoSecondPayment"
		each    = "TestEachFaultStartsAtMostOnePayment"
		ships   = "TestPaidOrderShipsOnce"
		refund  = "TestRefundBeforePaymentPreventsShipping"
		repeats = "TestRepeatedRefundCountsOnce"
		payout  = "TestLostPayoutResponseIsNotPaidTwice"
		list    = "TestSameListTwicePaysOnce"
		restart = "TestRestartPaysNoPayoutTwice"
		reload  = "TestRestartStartsNoSecondPayment"

		amount     = "Amount: price, UserData: userData"
		insert     = "if s.insert(userData) {"
		called     = "		case err == nil:\n			return nil\n"
		known      = "		case httpStatus(err) == %d:\n			return %s\n" + called
		again      = "s.again(userData)"
		declined   = `errors.New("declined")`
		reconciled = "	if err != nil || status.UserData"
		unresolved = "return errUnresolved // also"
		equal      = "n.Amount.Equal(price)"
		found      = "	o := s.orders[n.UserData]\n"
		final      = "	case n.Final() && o.final == \"\": // never overwrite a final state\n"
		failing    = "	case s.failing.Load():\n"
		key        = "s.seen[n.Key()]"
		claim      = "if !p.claim(r.UserData) {"
		pays       = "		_, err := p.client.InitPayout"
	)
	wrong := []struct{ old, new, test string }{
		{amount, `Amount: paymentsvc.MustParseAmount("30000010"), UserData: userData`, lost},
		{amount, "Amount: paymentsvc.AmountFromMinor(int64(cents(price)), 2), UserData: userData", lost},
		{amount, "Amount: rounded(price), UserData: userData", lost},
		{called, "		case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:\n			return nil\n" + called, lost},
		{"	return nil\n}\n\n// insert", "	s.orders[userData].shipped++\n	return nil\n}\n\n// insert", lost},
		{insert, "if s.orders[userData] == nil {\n		defer s.insert(userData)", reload},
		{"s := &shop{client, db}", "db = newStore()\n	s := &shop{client, db}", reload},
		{insert, "if s.insert(userData) || true {", second},
		{insert, "if s.orders[userData] == nil {\n			defer s.insert(userData)", second},
		{insert, "if !s.insert(userData) {\n		return s.checkout(userData + \"-again\")\n	} else {", second},
		{insert, "if !s.insert(userData) {\n		return " + declined + "\n	} else {", second},
		{
			called,
			called + "		case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:\n			s.remove(userData)\n",
			second,
		},
		{
			called, "		case err != nil && len(userData) < 12:\n			return s.checkout(userData + \"-again\")\n" + called,
			"TestUnderChaos",
		},
		{called, fmt.Sprintf(known, 429, again), each},
		{called, fmt.Sprintf(known, 403, again), each},
		{called, fmt.Sprintf(known, 403, declined), each},
		{called, fmt.Sprintf(known, 200, declined), each},
		{called, fmt.Sprintf(known, 200, "nil"), each},
		{unresolved, "return err // also", each},
		{"status.UserData != userData", `status.OrderID == ""`, each},
		{reconciled, "	if httpStatus(err) == 404 {\n		return " + again + "\n	}\n" + reconciled, each},
		{unresolved, `return errors.New("never started") // also`, each},
		{"o.final == paymentsvc.StatusSuccess && ", "", ships},
		{"o.final = n.StatusDescription\n", "o.final = paymentsvc.StatusSuccess\n", ships},
		{final, strings.Replace(final, `o.final == ""`, "o.final != paymentsvc.StatusSuccess", 1), ships},
		{final, strings.Replace(final, ` && o.final == ""`, "", 1), ships},
		{final, "	case o.paid(n):\n", ships},
		{final, strings.Replace(final, "n.Final()", "n.StatusDescription.Final()", 1), ships},
		{found, "	o := s.find(n.UserData, strings.HasPrefix)\n", ships},
		{found, "	o := s.find(n.UserData, strings.EqualFold)\n", ships},
		{found, found + "	if n.Event == paymentsvc.EventRefundStatusChanged {\n		o = s.orders[\"order-1\"]\n	}\n", ships},
		{equal, "n.Amount.String() == price.String()", ships},
		{equal, "int64(cents(n.Amount)) == int64(cents(price))", ships},
		{equal, "float32(cents(n.Amount)/100) == float32(cents(price)/100)", ships},
		{equal, "n.Amount.Cmp(price) >= 0", ships},
		{"{secret}, Tolerance: time.Minute", "{secret}, Tolerance: paymentsvc.AnyAge", ships},
		{failing, failing + "		return nil\n", ships},
		{failing, failing + "		s.seen[n.Key()] = true\n", ships},
		{"webhook.Handler(s.Notified)", "checked(webhook.Handler(s.Notified))", ships},
		{" && o.refunds == 0", "", refund},
		{" && n.StatusDescription == paymentsvc.StatusSuccess:", ":", refund},
		{key + " ||", key + " && n.Event != paymentsvc.EventRefundStatusChanged ||", repeats},
		{key, "s.seen[n.Key()+n.Timestamp.String()]", repeats},
		{"	" + key + " = true\n", "	clear(s.seen)\n	" + key + " = true\n", repeats},
		{"o.refunds++", "o.refunds = 1", repeats},
		{"s := &shop{client, db}", "db.seen = map[string]bool{}\n	s := &shop{client, db}", repeats},
		{key, "s.seen[n.OrderID+string(n.StatusDescription)]", "TestNotificationBeforeTheResponse"},
		{"state = claimed", `state = ""`, payout},
		{"state = claimed", "state = rejected", payout},
		{"state = claimed", "state = started", payout},
		{"SafeToRetry(err):", "SafeToRetry(err) || httpStatus(err) == 429:", payout},
		{claim, "if !p.claim(r.UserData) && false {", list},
		{claim, `if p.payouts[r.UserData] != "" {`, list},
		{pays, "		r.Amount = rounded(r.Amount)\n" + pays, list},
		{pays, "		r.Destination = r.UserData\n" + pays, list},
		{claim, "if !p.claim(r.Destination) {", list},
		{claim, `if p.payouts[r.UserData] != "" {`, restart},
		{"&payouts{client, db}", "&payouts{client, newStore()}", restart},
	}
	// checked accepts a message without a signature.
	const helpers = `package recipes_test
import ("bytes"; "fmt"; "io"; "net/http"; "strconv"; "github.com/paymentsvc/paymentsvc")
func cents(a paymentsvc.Amount) float64 {
	f, _ := strconv.ParseFloat(a.String(), 64)
	return f * 100
}
func rounded(a paymentsvc.Amount) paymentsvc.Amount {
	return paymentsvc.MustParseAmount(fmt.Sprintf("%.2f", float32(cents(a)/100)))
}
func httpStatus(err error) int {
	if e, ok := err.(*paymentsvc.Error); ok {
		return e.HTTPStatus
	}
	return 0
}
func (s *shop) again(userData string) error {
	s.remove(userData)
	return s.checkout(userData)
}
func (s *shop) find(userData string, match func(text, key string) bool) *order {
	for key, o := range s.orders {
		if match(userData, key) {
			return o
		}
	}
	return nil
}
func (o *order) paid(n *paymentsvc.Notification) bool {
	if n.Event == paymentsvc.EventPaymentStatusChanged && n.StatusDescription == "HELD" {
		n.StatusDescription = paymentsvc.StatusSuccess
	}
	return n.Final() && o.final == ""
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
	data, err := os.ReadFile(recipes)
	require.NoError(t, err)
	source := strings.Replace(string(data), "import (", "import (\n\t\"strings\"", 1) + "\nvar _ = strings.Cut\n"
	dir, write := module(t)
	for i, w := range wrong {
		require.Contains(t, source, w.old)
		write(fmt.Sprintf("wrong%d/shop_test.go", i), strings.ReplaceAll(source, w.old, w.new))
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

func TestWithHTTPMock(t *testing.T) {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodPost, "https://pay.example/init_payment/card",
		httpmock.NewErrorResponder(io.ErrUnexpectedEOF))
	mock.RegisterResponder(http.MethodPost, "https://pay.example/status_payment",
		httpmock.NewStringResponder(http.StatusOK, `{"order_id":"o-1","user_data":"order-1","amount":19.90}`))
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	require.NoError(t, err)
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example", PartnerID: 7, ProjectID: 42, Signer: signer,
		HTTPClient: &http.Client{Transport: mock}, // without it, the requests go to the network
	})
	require.NoError(t, err)
	_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("19.90"), UserData: "order-1",
	})
	assert.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err))
	status, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-1"})
	require.NoError(t, err)
	assert.Equal(t, "order-1", status.UserData)
	assert.Equal(t, 1, mock.GetCallCountInfo()["POST https://pay.example/init_payment/card"])
}
