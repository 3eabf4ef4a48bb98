package discover_test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

var schemesFile = flag.String(
	"discover.schemes", "testdata/catalogue.tsv", "table of the schemes that TestFindSchemes searches for",
)

var (
	only = flag.String(
		"discover.only", "", "text in the schemes that TestFindSchemes searches for, even without -discover.long",
	)
	all  = flag.Bool("discover.all", false, "TestFindSchemes searches for all schemes of the table")
	seed = flag.Uint64("discover.seed", 0, "seed of the schemes that -discover.long draws; 0 takes the clock")
)

// scheme is a line of the table: a publicly documented scheme, or a family of schemes, as this service would use it. A
// scheme that Find is known to miss has a fifth cell.
type scheme struct {
	name, source, messages, text string
	missed                       bool
}

func schemes(t *testing.T) (list []scheme) {
	t.Helper()
	file, err := os.Open(*schemesFile)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if cells := strings.Split(lines.Text(), "\t"); !strings.HasPrefix(cells[0], "#") {
			require.GreaterOrEqual(t, len(cells), 4, "%q", cells)
			list = append(list, scheme{cells[0], cells[1], cells[2], cells[3], len(cells) > 4})
		}
	}
	return list
}

// secret returns a secret that can be read in the scheme's form.
func (s scheme) secret() paymentsvc.Secret {
	_, form, _ := strings.Cut(s.text, ", key ")
	secret := map[string]paymentsvc.Secret{
		"hex":         "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
		"base64":      "c2VjcmV0IGtleSBvZiB0aGUgYWNjb3VudA==",
		"base64-tail": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"uuid":        "0b1d7c5e-9d3f-4a55-8c1e-5f0c7a1e1f6b",
		"tail":        "sk_live_9f3Zr0tQ7yKb",
	}[form]
	return cmp.Or(secret, "p7Vq!kd83.Zr-2")
}

// exchange returns three messages: two to search, as docs/signing.md advises, and one to sign.
func exchange(messages string) (list [3]paymentsvc.Message) {
	const base, hook = "https://api.pay.example/v1/", "https://shop.example/hooks"
	list[2] = post(base+"init_payout", "1700009999",
		`{"partner_id":17,"project_id":42,"amount":7.50,"destination":"79005556677","user_data":"order/3 ü"}`)
	switch messages {
	case "payments":
		list[0] = post(base+"init_payout", "1700000000",
			`{"partner_id":17,"project_id":42,"amount":100.00,"destination":"79001234567","user_data":"order-1"}`)
		list[1] = post(base+"init_payout", "1700000977",
			`{"partner_id":17,"project_id":42,"amount":10.50,"destination":"79007654321","user_data":"order/2"}`)
	case "notifications":
		list[0] = received(hook, "1700000000",
			`{"event":"payment.status_changed","order_id":"5f0c7a1e","status":2,"status_description":"SUCCESS",`+
				`"status_code":0,"amount":100.0,"user_data":"order/1"}`)
		list[1] = received(hook, "1700000977",
			`{"event":"payout.status_changed","order_id":"0d39e7b9","status":3,"status_description":"FAILURE",`+
				`"status_code":51,"amount":10.5}`)
		list[2] = received(hook, "1700009999",
			`{"event":"refund.status_changed","order_id":"c39e7b91","status":2,"status_description":"SUCCESS",`+
				`"status_code":0,"amount":7.25,"user_data":"order/3"}`)
	default:
		list[0] = post(base+"get_balance", "1700000000", `{"partner_id":17,"project_id":42}`)
		list[1] = post(base+"init_payment/card", "1700000977",
			`{"partner_id":17,"project_id":42,"amount":100.00,"user_data":"order/1 é","payer":{"name":"Ann Lee",`+
				`"email":"ann@example.com"}}`)
	}
	for i, id := range []string{"req-1f", "req-2b", "req-3a"} {
		list[i].Header.Set("X-Request-Id", id)
		list[i].Header.Set("X-Nonce", fmt.Sprint("n0nce", i+1))
		list[i].Header.Set("X-Api-Key", "pk-77")
	}
	return list
}

// drawSchemes returns all schemes, or a few that Find is not known to miss. By default, the few are always the same.
func drawSchemes(t *testing.T) (list []scheme) {
	t.Helper()
	list = slices.DeleteFunc(schemes(t), func(s scheme) bool {
		return !strings.Contains(s.text, *only) || s.missed && !*all && *only == ""
	})
	if !*all && *only == "" {
		drawn := uint64(1)
		if *long {
			drawn = cmp.Or(*seed, uint64(time.Now().UnixNano()))
			t.Logf("to repeat: -discover.seed=%d", drawn)
		}
		r := rand.New(rand.NewPCG(drawn, 1))
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:6]
	}
	slices.SortStableFunc(list, func(a, b scheme) int { return cmp.Compare(a.messages, b.messages) }) // see FindKnowing
	return list
}

// TestFindSchemes searches for schemes of the table with two samples. Nine in ten must sign a third message.
func TestFindSchemes(t *testing.T) {
	tried, found, third, silent, slowest := 0, 0, 0, 0, time.Duration(0)
	for _, s := range drawSchemes(t) {
		tried++
		wanted, key, err := canonical.ParseSchemeWith(s.text, s.secret())
		require.NoError(t, err, s.text)
		var samples []discover.Sample
		var signed []string
		for _, m := range exchange(s.messages) {
			signature, err := wanted.Signature(key, &m)
			require.NoError(t, err, s.text)
			samples = append(samples, discover.Sample{Message: m, Signature: signature})
			text, err := wanted.Canonical(nil, &m)
			require.NoError(t, err)
			// Some schemes encode the second text as a whole.
			signed = append(signed, string(text), m.Timestamp+m.Method+m.URL.Path+string(m.Body))
		}
		o := discover.Options{Secret: s.secret(), Words: []string{"5000"}}
		result, err := findSigned(samples[:2], o, signed[:2]...)
		slowest = max(slowest, result.Elapsed)
		if err != nil {
			t.Logf("not found in %v: %s: %s", result.Elapsed.Round(time.Millisecond), s.name, s.text)
			if len(result.Partial) > 0 {
				t.Log("   PARTIAL", result.Partial[0].Text, result.Partial[0].Samples)
			}
			continue
		}
		found++
		best := result.Matches[0]
		got, err := best.Scheme.Signature(best.Secret, &samples[2].Message)
		if err == nil && got == samples[2].Signature {
			third++
			continue
		}
		if len(result.Undecided) == 0 {
			silent++
		}
		t.Logf("wrong for a third message, %d undecided: %s: %s for %s", len(result.Undecided), s.name, best.Text, s.text)
	}
	t.Logf("of %d found %d, third message signed %d, silently wrong %d, slowest %v", tried, found, third, silent, slowest)
	require.Zero(t, silent)
	require.GreaterOrEqual(t, 10*third, 9*tried)
}
