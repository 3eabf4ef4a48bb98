package discover_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // the catalogues are short-lived, and collecting them is a third of the tests' time
	goleak.VerifyTestMain(m)
}

const secret paymentsvc.Secret = "sk-test-4b1d0c55"

const payerBody = `{"partner_id":17,"amount":10.50,"note":"","user_data":"o/\"1\"","payer":{"email":"a@example.com"}}`

const (
	cardBody   = `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"order-1"}`
	cardURL    = "https://pay.example.com/v1/init_payment/card"
	notifyBody = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":0,"amount":10.5}`
)

// signed returns m as a sample, with the hexadecimal signature of the canonical string of part.
func signed(t testing.TB, part paymentsvc.CanonicalFunc, m paymentsvc.Message) discover.Sample {
	t.Helper()
	signature, err := paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex}.Signature(secret, &m)
	require.NoError(t, err)
	m.Header = m.Header.Clone()
	m.Header.Set("signature", signature)
	m.Header.Set("timestamp", m.Timestamp)
	return discover.Sample{Message: m}
}

// signedCard returns a request with cardBody as a sample, see signed.
func signedCard(t testing.TB, part paymentsvc.CanonicalFunc) discover.Sample {
	t.Helper()
	return signed(t, part, post(cardURL, "1700000000", cardBody))
}

func find(samples ...discover.Sample) (discover.Result, error) { return findWith(0.005, samples...) }

func findWith(effort float64, samples ...discover.Sample) (discover.Result, error) {
	return discover.Find(context.Background(), samples, discover.Options{Secret: secret, Effort: effort})
}

// requireTexts requires that the text of each match parses to the scheme and the key of the match.
func requireTexts(t testing.TB, secret paymentsvc.Secret, result discover.Result, messages ...paymentsvc.Message) {
	t.Helper()
	for _, m := range slices.Concat(result.Matches, result.Partial) {
		scheme, key, err := canonical.ParseSchemeWith(m.Text, secret)
		require.NoError(t, err, m.Text)
		require.Equal(t, string(m.Secret), string(key), m.Text)
		for _, message := range messages {
			want, err := m.Scheme.Signature(m.Secret, &message)
			if err != nil {
				continue // the message lacks a part
			}
			got, err := scheme.Signature(key, &message)
			require.NoError(t, err, m.Text)
			require.Equal(t, want, got, m.Text)
		}
		code, err := canonical.GoCode(m.Text)
		require.NoError(t, err)
		require.Contains(t, m.Expr, "Canonical: "+code.Canonical)
	}
}

func exprs(matches []discover.Match) (list []string) {
	for _, m := range matches {
		list = append(list, m.Expr)
	}
	return list
}

func TestFindReturnsTheSimplestFirst(t *testing.T) {
	part := canonical.Join("\n", canonical.Timestamp, canonical.Method, canonical.Path, canonical.Body)
	result, err := find(signedCard(t, part))
	require.NoError(t, err)
	first := result.Matches[0]
	require.Equal(t, "paymentsvc.Scheme{\n"+
		"\tCanonical: canonical.Join(\"\\n\", canonical.Timestamp, canonical.Method, canonical.Path, "+
		"canonical.Body),\n"+
		"\tEncoding:  paymentsvc.Hex,\n}", first.Expr)
	require.Equal(t, `hex(timestamp "\n" method "\n" path "\n" body)`, first.Text)
	require.Equal(t, "secret", first.SecretExpr)
	require.Equal(t, canonical.SecretText, first.SecretForm)
	require.Equal(
		t, []string{"github.com/paymentsvc/paymentsvc", "github.com/paymentsvc/paymentsvc/canonical"}, first.Imports,
	)
	require.Equal(
		t,
		`HMAC-SHA256, keyed with the secret as text, of timestamp + method + path + body, with "\n" between; written `+
			`in hexadecimal in lower case`,
		first.Description,
	)
	require.Equal(t, []string{"sample 1"}, first.Samples)
	require.Positive(t, result.Tried)
	require.Positive(t, result.Elapsed)
	require.Empty(t, result.Hints)
	require.Empty(t, result.Partial)
}

func TestMatchesSignEverySample(t *testing.T) {
	part := canonical.Join("|", canonical.Timestamp, canonical.Field("amount"), canonical.Secret(secret))
	samples := []discover.Sample{
		signedCard(t, part), signed(t, part, post(cardURL, "1700000007", strings.Replace(cardBody, "10.50", "7", 1))),
	}
	result, err := discover.FindKnowing(t.Context(), samples, discover.Options{Secret: secret},
		"1700000000|10.50|"+string(secret), "1700000007|7|"+string(secret))
	require.NoError(t, err)
	for _, m := range result.Matches {
		for _, s := range samples {
			got, err := m.Scheme.Signature(m.Secret, &s.Message)
			require.NoError(t, err)
			require.Equal(t, s.Message.Header.Get("signature"), got, m.Expr)
		}
		require.Len(t, m.Samples, 2)
	}
}

func TestUndecidedUntilASampleDecides(t *testing.T) {
	part := canonical.Join("", canonical.Timestamp, canonical.Path, canonical.Body)
	one, err := find(signedCard(t, part))
	require.NoError(t, err)
	alternatives := map[string]string{}
	for _, u := range one.Undecided {
		for _, other := range u.Others {
			alternatives[u.Chosen+" or "+other.Expr] = other.Needs
		}
	}
	require.Equal(t, "a sample with a query in the address", alternatives["canonical.Path or canonical.RequestURI"])
	require.Equal(
		t, "a sample with another endpoint",
		alternatives[`canonical.Path or canonical.Literal("/v1/init_payment/card")`],
	)
	require.Equal(
		t, "a sample with white space between the JSON tokens of the body",
		alternatives["canonical.Body or canonical.BodyCompact"],
	)
	require.Contains(t, strings.Join(exprs(one.Matches), "\n"), "canonical.RequestURI")

	payout := post("https://pay.example.com/v1/init%2Fpayout/A?x=1", "1700000001", `{ "b": "/é<B", "a": 1.0 }`)
	two, err := find(signedCard(t, part), signed(t, part, payout))
	require.NoError(t, err)
	require.Empty(t, two.Undecided)
	require.Len(t, two.Matches, 1)
}

func TestUndecidedListsEncodingsWithTheSameText(t *testing.T) {
	scheme := paymentsvc.Scheme{Canonical: canonical.Body, Encoding: base64.StdEncoding}
	var ambiguous, telling *discover.Sample
	for i := 0; ambiguous == nil || telling == nil; i++ {
		m := post(cardURL, "1700000000", fmt.Sprintf(`{"n":%d}`, i))
		signature, err := scheme.Signature(secret, &m)
		require.NoError(t, err)
		s := discover.Sample{Message: m, Signature: signature}
		if strings.ContainsAny(signature, "+/") {
			telling = &s
		} else {
			ambiguous = &s
		}
	}
	result, err := find(*ambiguous)
	require.NoError(t, err)
	last := result.Undecided[len(result.Undecided)-1]
	require.Equal(t, "base64.StdEncoding", last.Chosen)
	require.Equal(t, "base64.URLEncoding", last.Others[0].Expr)
	require.Contains(t, strings.Join(exprs(result.Matches), "\n"), "base64.URLEncoding")

	result, err = find(*ambiguous, *telling)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(exprs(result.Matches), "\n"), "base64.URLEncoding")
}

func TestFindRequestsAndNotificationsUnderOneScheme(t *testing.T) {
	part := canonical.Join(".", canonical.Timestamp, canonical.Body)
	notification := received("", "1700000001", notifyBody)
	notification.URL = nil // as for Webhook.Parse
	result, err := find(signedCard(t, part), signed(t, part, notification))
	require.NoError(t, err)
	require.Contains(t, result.Matches[0].Expr, `canonical.Join(".", canonical.Timestamp, canonical.Body)`)
}

func TestFindFieldsThatSomeSamplesLack(t *testing.T) {
	part := canonical.Join("|", canonical.Field("order_id"), canonical.FieldOr("", "user_data"), canonical.Timestamp)
	with := strings.Replace(notifyBody, "}", `,"user_data":"order-1"}`, 1)
	samples := []discover.Sample{
		signed(t, part, received("https://shop.example/hook", "1700000000", with)),
		signed(t, part, received("https://shop.example/hook", "1700000001", notifyBody)),
	}
	for range 2 {
		result, err := discover.FindKnowing(
			t.Context(), samples, discover.Options{Secret: secret}, "o-1|order-1|1700000000", "o-1||1700000001",
		)
		require.NoError(t, err)
		require.Contains(t, result.Matches[0].Expr, `canonical.FieldOr("", "user_data")`)
		slices.Reverse(samples)
	}
}

// Find searches the first sample, and must then find compositions of its text that explain the others too.
func TestFindCorrectsTheFirstSampleByTheOthers(t *testing.T) {
	for name, gaps := range map[string][2]string{"one separator": {"#", "#"}, "different separators": {".", "\n"}} {
		t.Run(name, func(t *testing.T) {
			part := canonical.Join(
				"", canonical.Timestamp, canonical.Literal(gaps[0]), canonical.Method, canonical.Literal(gaps[1]),
				canonical.BodySorted,
			)
			result, err := findSigned([]discover.Sample{
				signed(t, part, post(cardURL, "1700000000", `{"a":1,"b":2}`)),
				signed(t, part, post(cardURL, "1700000001", `{"b":20,"a":10}`)),
			}, discover.Options{Secret: secret}, "1700000000"+gaps[0]+"POST"+gaps[1]+`{"a":1,"b":2}`)
			require.NoError(t, err)
			require.Contains(t, result.Matches[0].Expr, "canonical.BodySorted")
		})
	}
}

// In each sample, another header has the value of the field, and the search finds the header.
func TestFindReadsTheTextWithOtherParts(t *testing.T) {
	for _, want := range []string{
		`hex(timestamp "#" field("user_data") "#" path)`, `hex(timestamp "." field("user_data") "|" path)`,
		`hex(hex(sha256(timestamp "|" field("user_data") "|" method)))`,
	} {
		scheme, err := canonical.ParseScheme(want)
		require.NoError(t, err)
		part := scheme.Canonical
		const address = "https://a.example/v1"
		result, err := findSigned([]discover.Sample{
			signed(t, part, post(address, "1700000000", `{"user_data":"n-1"}`, "X-Nonce", "n-1", "X-Other", "o-1")),
			signed(t, part, post(address, "1700000001", `{"user_data":"n-2"}`, "X-Nonce", "n-3", "X-Other", "n-2")),
		}, discover.Options{Secret: secret}, "1700000000 n-1 POST /v1 1700000001 n-2")
		require.NoError(t, err, want)
		require.Equal(t, want, result.Matches[0].Text)
	}
}

// The first search finds the scheme of one sample, or of two.
func TestPartialExplainsTheMostSamples(t *testing.T) {
	for _, short := range []int{0, 2} {
		var samples []discover.Sample
		for i, part := range []paymentsvc.CanonicalFunc{canonical.Path, canonical.Body, canonical.Body} {
			space := strings.Repeat(" ", i*short/4) // in the third body, which is then a text without other forms
			body := fmt.Sprintf(`{"a":%s"%d%s"}`, space, i, strings.Repeat("x", (i-short)*(i-short)))
			samples = append(samples, signed(t, part, post(cardURL, "1700000000", body)))
		}
		result, err := findSigned(samples, discover.Options{Secret: secret}, "/v1/init_payment/card",
			string(samples[1].Message.Body), string(samples[2].Message.Body))
		require.ErrorIs(t, err, discover.ErrNoMatch)
		for _, p := range result.Partial {
			require.Equal(t, []string{"sample 2", "sample 3"}, p.Samples)
		}
		require.NotEmpty(t, result.Partial)
	}
}

func TestPartialHasTheSimplestOfEachSample(t *testing.T) {
	part := canonical.Join("", canonical.Timestamp, canonical.Field("a"), canonical.Field("b"))
	good := signed(t, part, post(cardURL, "1700000000", `{"a":"1","b":"23","c":"12","d":"3","e":"123","f":"2"}`))
	bad := signed(t, part, post(cardURL, "1700000001", `{"a":"a longer body, which is searched later","b":""}`))
	bad.Message.Body = append(bad.Message.Body, ' ', ' ')
	bad.Message.Timestamp = "1700000002"
	result, err := findSigned([]discover.Sample{good, bad}, discover.Options{Secret: secret}, "1700000000123", "unknown")
	require.ErrorIs(t, err, discover.ErrNoMatch)
	require.Len(t, result.Partial, 3, "of five readings")
	require.Equal(t, `hex(timestamp field("e"))`, result.Partial[0].Text)
}

// The first sample has no upper-case letters, so its search finds the text without lower. This match does not explain
// the second sample.
func TestFindDropsPartialMatchesForAMatch(t *testing.T) {
	part := canonical.Lower(canonical.Fields(canonical.FieldList{Names: true, Equals: "=", Between: "&"}))
	result, err := findSigned([]discover.Sample{
		signed(t, part, post(cardURL, "1700000000", `{"a":"x"}`)),
		signed(t, part, post(cardURL, "1700000001", `{"a":"X","b":1}`)),
	}, discover.Options{Secret: secret}, "a=x", "a=X&b=1")
	require.NoError(t, err)
	require.Equal(t, `hex(lower(fields(sorted, "=", "&")))`, result.Matches[0].Text)
	require.Empty(t, result.Partial)
}

func TestUndecidedListsOtherBordersBetweenTheParts(t *testing.T) {
	part := canonical.Join("", canonical.Timestamp, canonical.Field("a"), canonical.Field("b"))
	result, err := findSigned(
		[]discover.Sample{signed(t, part, post(cardURL, "1700000000", `{"a":"1","b":"23","c":"12","d":"3"}`))},
		discover.Options{Secret: secret}, "1700000000123",
	)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(result.Undecided), `canonical.Join("", canonical.Timestamp, canonical.Field("c"), `+
		`canonical.Field("d")) a sample with other values in its fields`)
}

func TestFindReadsASingleSeparator(t *testing.T) {
	s := signed(t, canonical.Path, post("https://pay.example.com/", "1700000000", "{}"))
	result, err := findSigned([]discover.Sample{s}, discover.Options{Secret: secret}, "/")
	require.NoError(t, err)
	require.Equal(t, "hex(path), body unsigned", result.Matches[0].Text)
}

func TestMatchHasEachFieldOnce(t *testing.T) {
	part := canonical.Join(".", canonical.Field("a"), canonical.Field("b"), canonical.Timestamp)
	s := signed(t, part, post(cardURL, "1700000000", `{"a":"x","b":"x"}`))
	result, err := findSigned([]discover.Sample{s}, discover.Options{Secret: secret, MaxMatches: 1000}, "x.x.1700000000")
	require.NoError(t, err)
	for _, m := range result.Matches {
		require.Less(t, max(strings.Count(m.Text, `field("a")`), strings.Count(m.Text, `field("b")`)), 2, m.Text)
	}
}

// A second sample must not hide the match of the first, whatever fields, address or secret the second has.
func TestFindLosesNothingForASecondSample(t *testing.T) {
	part := canonical.Join("|", canonical.Timestamp, canonical.Field("amount"), canonical.Field("user_data"))
	one := signed(t, part, post(cardURL, "1700000000", cardBody, "X-Nonce", "n-1"))
	one.Name = "one"
	for name, other := range map[string]discover.Sample{
		"with fewer fields": signed(
			t, canonical.Body,
			post("https://pay.example.com/v1/get_balance", "1700000001", `{"partner_id":17,"project_id":42}`),
		),
		"with more fields": signed(
			t, canonical.Path,
			post(cardURL, "1700000002", strings.Replace(cardBody, "}", `,"payer":{"name":"Ann"}}`, 1)),
		),
		"no JSON and no address": signed(
			t, canonical.Timestamp,
			paymentsvc.Message{Timestamp: "1700000003", Body: []byte("a=1"), Header: http.Header{}},
		),
		"signed with another secret": {
			Message: post(cardURL, "1700000004", cardBody, "X-Nonce", "n-2"), Signature: strings.Repeat("ab", 32),
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := findWith(0.002, one, other)
			require.ErrorIs(t, err, discover.ErrNoMatch)
			require.Condition(t, func() bool {
				return slices.ContainsFunc(
					result.Partial, func(m discover.Match) bool { return slices.Contains(m.Samples, "one") },
				)
			}, "%+v", exprs(result.Partial))
		})
	}
}

func TestHintOfAKeyThatNoFormIs(t *testing.T) {
	m := post(cardURL, "1700000000", cardBody)
	scheme := paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex}
	signature, err := scheme.Signature(secret+"1700000000", &m)
	require.NoError(t, err)
	result, err := findWith(0.004, discover.Sample{Message: m, Signature: signature})
	require.ErrorIs(t, err, discover.ErrNoMatch)
	require.Contains(t, result.Hints[0], "the secret followed by the timestamp")
	require.NotContains(t, result.Hints[0], string(secret))
}

func TestWarningOfWhiteSpaceThatIsNotSigned(t *testing.T) {
	part := canonical.Join(".", canonical.Timestamp, canonical.BodyCompact)
	result, err := find(signed(t, part, post(cardURL, "1700000000", "{\n"+cardBody[1:])))
	require.NoError(t, err)
	require.Contains(t, strings.Join(result.Matches[0].Warnings, "\n"), "white space in the body is not signed")
}

func TestOptionsWordsAreParts(t *testing.T) {
	part := canonical.Join(":", canonical.Literal("key-of-mine"), canonical.Timestamp, canonical.Body)
	s := signedCard(t, part)
	_, err := findWith(0.0005, s)
	require.ErrorIs(t, err, discover.ErrNoMatch)

	o := discover.Options{Secret: secret, Effort: 0.02, Words: []string{"key-of-mine"}}
	result, err := discover.Find(t.Context(), []discover.Sample{s}, o)
	require.NoError(t, err)
	require.Contains(t, result.Matches[0].Expr, `canonical.Literal("key-of-mine")`)
}

func TestOptionsMaxMatchesLimitsAndCountsTheRest(t *testing.T) {
	s := signedCard(t, canonical.Join("", canonical.Timestamp, canonical.Path, canonical.Body))
	all, err := find(s)
	require.NoError(t, err)
	some, err := discover.Find(t.Context(), []discover.Sample{s}, discover.Options{Secret: secret, MaxMatches: 3})
	require.NoError(t, err)
	require.Equal(t, exprs(all.Matches[:3]), exprs(some.Matches))
	require.Positive(t, some.More)
}

func TestOptionsWorkersDoNotChangeTheMatches(t *testing.T) {
	s := signedCard(t, canonical.Join("&", canonical.Method, canonical.RequestURI, canonical.Timestamp))
	var want []string
	for _, workers := range []int{1, 2, 7} {
		o := discover.Options{Secret: secret, Workers: workers}
		result, err := discover.Find(t.Context(), []discover.Sample{s}, o)
		require.NoError(t, err)
		if want == nil {
			want = exprs(result.Matches)
		}
		require.Equal(t, want, exprs(result.Matches), "%d workers", workers)
	}
}

func TestFindNothingWithAWrongSecret(t *testing.T) {
	samples := []discover.Sample{signedCard(t, canonical.Body)}
	result, err := discover.Find(t.Context(), samples, discover.Options{Secret: secret + "x", Effort: 0.0005})
	require.ErrorIs(t, err, discover.ErrNoMatch)
	require.Empty(t, result.Matches)
	require.Empty(t, result.Partial)
	require.NotEmpty(t, result.Hints)
	require.Contains(t, result.Hints[0], "secret key of the sample's project")

	var covered int64
	for _, c := range result.Covered {
		require.Equal(t, c.Compositions > 0, c.Done, c.What)
		require.Equal(t, c.Compositions > 0, c.MaxParts > 0, c.What)
		covered += c.Compositions
	}
	require.Equal(t, covered, result.Tried, "all covered compositions must have been tried")
}

func TestPartialNamesTheSamplesThatFit(t *testing.T) {
	part := canonical.Join(".", canonical.Timestamp, canonical.Body)
	good := signedCard(t, part)
	good.Name = "good.http"
	// The body is shorter, so this sample is searched first.
	bad := signed(t, part, post(cardURL, "1700000001", strings.Replace(cardBody, "10.50", "1", 1)))
	bad.Name = "bad.http"
	bad.Message.Body = []byte(strings.Replace(cardBody, "10.50", "2", 1))
	for name, samples := range map[string][]discover.Sample{"first": {good, bad}, "second": {bad, good}} {
		t.Run(name, func(t *testing.T) {
			result, err := findWith(0.001, samples...)
			require.ErrorIs(t, err, discover.ErrNoMatch)
			require.Empty(t, result.Matches)
			require.Equal(t, []string{"good.http"}, result.Partial[0].Samples)
			require.Contains(t, result.Partial[0].Expr, `canonical.Join(".", canonical.Timestamp, canonical.Body)`)
			require.Contains(t, result.Hints[0], "explains good.http, but not the other samples")
		})
	}
}

func TestHintsNameTheFeaturesOfTheOtherSamples(t *testing.T) {
	const plain = `{"a":"{null 1.5 2e5} \"[]"}`
	for body, want := range map[string]string{
		`{"a":"Zoë","b":{"c":null}}`:     "an object or a list inside the body, letters that are not ASCII, null",
		"{\"a\":\"\\u00eb\",\"b\":\n[]}": "an object or a list inside the body, letters that are not ASCII",
		`{"a":1.5,"b":2e5}`:              "a number with a fraction, a number with an exponent",
		"{}":                             "",
	} {
		result, err := findWith(0.001, signed(t, canonical.Literal("x"), post(cardURL, "1700000000", body)),
			signed(t, canonical.Body, post(cardURL, "1700000000", plain)))
		require.ErrorIs(t, err, discover.ErrNoMatch)
		if want != "" {
			want = "; unlike these samples, sample 1 has " + want
		}
		require.True(t, strings.HasSuffix(result.Hints[0], "belong to the same project"+want), result.Hints[0])
	}
}

func TestHintsForKindsThatAreSignedDifferently(t *testing.T) {
	result, err := find(signedCard(t, canonical.Join("\n", canonical.Path, canonical.Body)),
		signed(t, canonical.Body, received("https://shop.example/hook", "1700000001", notifyBody)))
	require.ErrorIs(t, err, discover.ErrNoMatch)
	require.Len(t, result.Partial[0].Samples, 1)
	require.Contains(t, strings.Join(result.Hints, "\n"), "canonical.ByKind")
}

func TestFindEndsWithItsContext(t *testing.T) {
	s := signedCard(t, canonical.Body)

	t.Run("at once when it has ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		result, err := discover.Find(ctx, []discover.Sample{s}, discover.Options{Secret: "another"})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, discover.ErrNoMatch)
		require.Zero(t, result.Tried)
	})
	t.Run("at once when its deadline is over", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer cancel()
		_, err := discover.Find(ctx, []discover.Sample{s}, discover.Options{Secret: "another"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("with what was tried until then", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		result, err := discover.Find(ctx, []discover.Sample{s}, discover.Options{
			Secret: "another", Effort: 100,
			Progress: func(p discover.Progress) {
				if p.Tried > 0 {
					cancel()
				}
			},
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Positive(t, result.Tried)
		require.False(t, result.Covered[len(result.Covered)-1].Done)
	})
}

func TestProgressGrowsToTheResult(t *testing.T) {
	s := signedCard(t, canonical.Body)
	var reports []discover.Progress // written from one goroutine, and read when Find has returned
	result, err := discover.Find(context.Background(), []discover.Sample{s}, discover.Options{
		Secret: "another", Effort: 0.0002, Progress: func(p discover.Progress) { reports = append(reports, p) },
	})
	require.ErrorIs(t, err, discover.ErrNoMatch)
	last := reports[len(reports)-1]
	require.Equal(t, result.Tried, last.Tried)
	require.Equal(t, result.Tried, last.Total)
	require.NotEmpty(t, last.What)
	for i, next := range reports[1:] {
		require.GreaterOrEqual(t, next.Tried, reports[i].Tried)
		require.GreaterOrEqual(t, next.Elapsed, reports[i].Elapsed)
	}
}

func TestFindRejectsInvalidSamples(t *testing.T) {
	right := strings.Repeat("ab", 32)
	with := func(change func(*discover.Sample)) []discover.Sample {
		s := discover.Sample{Message: post(cardURL, "1700000000", cardBody), Signature: right}
		change(&s)
		return []discover.Sample{s}
	}
	signature := func(text string) []discover.Sample {
		return with(func(s *discover.Sample) { s.Signature = text })
	}
	for name, tt := range map[string]struct {
		samples []discover.Sample
		want    string
	}{
		"none":         {nil, "Find needs a sample"},
		"no signature": {signature(""), "sample 1: 0 signature headers, want exactly 1"},
		"the signature twice": {
			with(func(s *discover.Sample) {
				s.Signature = ""
				s.Message.Header["Signature"] = []string{right, right}
			}),
			"2 signature headers, want exactly 1",
		},
		"an empty signature": {
			with(func(s *discover.Sample) {
				s.Signature = ""
				s.Message.Header["Signature"] = []string{""}
			}),
			"the signature is empty",
		},
		"no timestamp": {
			with(func(s *discover.Sample) { s.Message.Timestamp = "" }), "0 timestamp headers, want exactly 1",
		},
		"its name in the error": {
			with(func(s *discover.Sample) { s.Name, s.Message.Timestamp = "a.http", "" }), "discover: a.http: ",
		},
		"white space around": {signature(" " + right), "white space around"},
		"a SHA-1": {
			signature(strings.Repeat("ab", 20)), "it is 20 bytes in hexadecimal, the size of SHA-1",
		},
		"a SHA-512 in base64": {
			signature(base64.StdEncoding.EncodeToString(make([]byte, 64))),
			"it is 64 bytes in base64, the size of SHA-512",
		},
		"half of it":            {signature(right[:30]), "it is 15 bytes in hexadecimal"},
		"a few bytes in base64": {signature("+/8="), "it is 2 bytes in base64"},
		"a list":                {signature("t=1700000000,v1=" + right), "looks like a list"},
		"something else":        {signature("<SIGNATURE>"), "11 characters in an unknown encoding"},
		"different encodings": {
			append(signature(right), signature(strings.ToUpper(right))...),
			"sample 1 and sample 2 are in different encodings",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := find(tt.samples...)
			require.ErrorContains(t, err, tt.want)
			joined := errors.Join(err, (*discover.SampleError)(nil))
			require.NotErrorIs(t, joined, discover.ErrNoMatch)
			require.ErrorContains(t, joined, "a nil *SampleError")
			if sample, ok := errors.AsType[*discover.SampleError](err); ok {
				require.Equal(
					t, strings.Contains(tt.want, "timestamp") || strings.Contains(name, "name"),
					sample.Header == "Timestamp",
				)
			}
			require.NotContains(t, err.Error(), right, "an error holds no signature")
			require.Zero(t, result)
		})
	}
}

func TestFindRejectsInvalidOptions(t *testing.T) {
	s := []discover.Sample{signedCard(t, canonical.Body)}
	for name, tt := range map[string]struct {
		options discover.Options
		want    string
	}{
		"no secret":            {discover.Options{}, "Secret: empty"},
		"a negative effort":    {discover.Options{Secret: secret, Effort: -1}, "negative"},
		"negative workers":     {discover.Options{Secret: secret, Workers: -1}, "negative"},
		"a negative limit":     {discover.Options{Secret: secret, MaxMatches: -1}, "negative"},
		"a secret in its mask": {discover.Options{Secret: paymentsvc.Secret(fmt.Sprint(secret))}, "placeholder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := discover.Find(context.Background(), s, tt.options)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := discover.Find(nil, s, discover.Options{Secret: secret}) //nolint:staticcheck // nil is the test
	require.ErrorContains(t, err, "needs a context")
}

func TestFindNeverShowsTheSecret(t *testing.T) {
	part := canonical.Join("", canonical.Path, canonical.Timestamp, canonical.Secret(secret), canonical.Body)
	text := string(secret) // in the address by mistake
	escaped := fmt.Sprintf("/%%%x%s", text[0], text[1:])
	address := "https://pay.example.com" + escaped + "/" + text + "/init_payout"
	s := signed(t, part, post(address, "1700000000", cardBody))
	check := func(result discover.Result, err error) {
		encoded, jsonErr := json.Marshal(result)
		require.NoError(t, jsonErr)
		for _, text := range []string{
			fmt.Sprintf("%v %+v %#v", result, result, result), string(encoded), fmt.Sprint(err),
		} {
			require.NotContains(t, text, string(secret[1:]), "also with a URL escape")
		}
	}
	o := discover.Options{Secret: secret, Words: []string{"w" + string(secret)}}
	result, err := discover.Find(t.Context(), []discover.Sample{s}, o)
	require.NoError(t, err)
	require.Contains(t, result.Matches[0].Expr, "canonical.Secret(secret)")
	check(result, err)

	s.Message.Body = []byte("{}")
	result, err = findWith(0.0002, s)
	require.ErrorIs(t, err, discover.ErrNoMatch)
	check(result, err)

	part = canonical.Join("", canonical.PathBelow(escaped), canonical.Body)
	s = signed(t, part, post("https://pay.example.com"+escaped+"/init_payout", "1700000000", cardBody))
	check(find(s))
}

// TestMatchExprCompilesAndSigns parses the program generated from the matches. With -discover.long it runs the program.
func TestMatchExprCompilesAndSigns(t *testing.T) {
	program, want := generated(t)
	_, err := parser.ParseFile(token.NewFileSet(), "main.go", program, parser.AllErrors)
	require.NoError(t, err, program)
	if !*long {
		return
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))

	// An overlay puts the program into this module without a file in its tree.
	module, err := filepath.Abs("..")
	require.NoError(t, err)
	place := filepath.Join(module, "discover", "generated_by_a_test")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(place, "main.go"): source}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))

	run := exec.Command("go", "run", "-overlay", overlayFile, "./discover/generated_by_a_test")
	run.Dir = module
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, program)
	require.Equal(t, strings.Join(want, "\n")+"\n", string(out))
}

// generated returns a program that signs each sample with the code of each of its matches, and the lines that the
// program must print.
func generated(t *testing.T) (program string, want []string) {
	const hexSecret paymentsvc.Secret = "00112233445566778899aabbccddeeff"
	imports := map[string]bool{"fmt": true, "net/http": true, "net/url": true}
	var body strings.Builder
	for i, scheme := range []string{
		`HEX(timestamp "\n" lower(method) "\n" uri "\n" hex(sha256(body)))`,
		`base64(fields("=", "&") "&key=" secret), key hex`,
		`prefixed("sha256=", hex)(fields(as-sent, "", "\n", flat("[]"), omit-empty))`,
		`chain(hex, base64)(timestamp "." method path "\n" body), key hex`,
		`base64url-raw(hex(sha256(timestamp "|" path "|" body)))`,
		`base64url(timestamp "." url "." body-sorted), key sha256`,
		`hex("timestamp:" timestamp ";amount:" field("amount") ";")`,
		`hex(header("X-Nonce") "|" timestamp "|" url), body unsigned`,
		`hex(timestamp body), key sha256-hex`,
		`hex(json(sorted, escape-slash, short-numbers) "\n" timestamp)`,
	} {
		if !*long && i%5 != 0 {
			continue
		}
		m := post(cardURL+"?lang=en", "1700000000", payerBody, "X-Nonce", "n-1")
		parsed, key, err := canonical.ParseSchemeWith(scheme, hexSecret)
		require.NoError(t, err)
		signature, err := parsed.Signature(key, &m)
		require.NoError(t, err)
		text, err := parsed.Canonical(nil, &m)
		require.NoError(t, err)
		samples := []discover.Sample{{Message: m, Signature: signature}}
		o := discover.Options{Secret: hexSecret, MaxMatches: 12}
		hashed := "1700000000|/v1/init_payment/card|" + string(m.Body) // in one of the schemes
		result, err := findSigned(samples, o, string(text), hashed)
		require.NoError(t, err, scheme)
		requireTexts(t, hexSecret, result, m, received("https://shop.example/hook", "1700000001", notifyBody))
		for _, match := range result.Matches {
			for _, path := range match.Imports {
				imports[path] = true
			}
			assign := "key, err := " + match.SecretExpr
			if match.SecretForm == canonical.SecretText {
				assign = "key, err := " + match.SecretExpr + ", error(nil)"
			}
			fmt.Fprintf(&body, "\t{\n\t%s\n\tif err != nil { panic(err) }\n\tscheme := %s\n\tsignature, err := "+
				"scheme.Signature(key, &m)\n\tfmt.Println(signature, err)\n\t}\n", assign, match.Expr)
			want = append(want, signature+" <nil>")
		}
		for _, u := range result.Undecided {
			for _, other := range u.Others {
				if strings.HasPrefix(other.Expr, "canonical.") && strings.HasPrefix(u.Chosen, "canonical.") {
					fmt.Fprintf(&body, "\t_ = %s\n", other.Expr)
				}
			}
		}
	}
	var list strings.Builder
	for path := range imports {
		fmt.Fprintf(&list, "\t%q\n", path)
	}
	m := post(cardURL+"?lang=en", "1700000000", "")
	program = fmt.Sprintf(`package main

import (
%s)

func main() {
	const secret paymentsvc.Secret = %q
	m := paymentsvc.Message{
		Method: http.MethodPost,
		Timestamp: %q,
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"captured/1"}, "X-Nonce": {"n-1"}},
		Body: []byte(%q),
	}
	m.URL, _ = url.Parse(%q)
%s}
`, list.String(), string(hexSecret), m.Timestamp, payerBody, m.URL, body.String())
	return program, want
}

func TestFindIgnoresHeadersOfNetHTTP(t *testing.T) {
	m := post(
		cardURL, "1700000000", cardBody, "Content-Length", fmt.Sprint(len(cardBody)), "X-Forwarded-For", "10.0.0.1",
	)
	for _, name := range []string{"Content-Length", "X-Forwarded-For"} {
		_, err := findWith(0.0001, signed(t, canonical.Join("|", canonical.Timestamp, canonical.Header(name)), m))
		require.ErrorIs(t, err, discover.ErrNoMatch, name)
	}
}

func TestFindWritesUnseparated(t *testing.T) {
	part := canonical.Fields(canonical.FieldList{Unseparated: true})
	result, err := find(signed(t, part, received("https://shop.example/hook", "1700000000", notifyBody)))
	require.NoError(t, err)
	require.Contains(t, result.Matches[0].Expr, "canonical.Fields(canonical.FieldList{Unseparated: true})")
	require.Contains(t, result.Matches[0].Description, "without separators")
}

func post(address, timestamp, body string, header ...string) paymentsvc.Message {
	m := paymentsvc.Message{
		Method: http.MethodPost, Timestamp: timestamp, Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"captured/1"}},
	}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	m.URL, _ = url.Parse(address)
	return m
}

func received(address, timestamp, body string) paymentsvc.Message {
	m := post(address, timestamp, body)
	m.Kind = paymentsvc.KindNotification
	return m
}

var long = flag.Bool(
	"discover.long", false,
	"call Find instead of FindKnowing, and compile and run the matches",
)

// findSigned calls Find with -discover.long, or otherwise FindKnowing, which tries only parts of the signed texts.
func findSigned(samples []discover.Sample, o discover.Options, signed ...string) (discover.Result, error) {
	if *long {
		return discover.Find(context.Background(), samples, o)
	}
	return discover.FindKnowing(context.Background(), samples, o, signed...)
}

// A notification is often a partner's first signed message. The signature of this notification was made for the
// example, because the interface document does not specify the canonical string.
func ExampleFind() {
	sample := discover.Sample{
		Name: "notification.http",
		Message: paymentsvc.Message{
			Kind:   paymentsvc.KindNotification,
			Method: http.MethodPost,
			URL:    &url.URL{Scheme: "https", Host: "shop.example", Path: "/hooks/payments"},
			Header: http.Header{
				"Timestamp": {"1700000000"},
				"Signature": {"2fdb7ba6f96ac2f3913f1814725530fc61084d7407ffbd5bbf4855db374938e6"},
			},
			Body: []byte(`{"event":"payment.status_changed","order_id":"o-1","status":2,` +
				`"status_description":"SUCCESS","status_code":0,"amount":10.5}`),
		},
	}
	secret := paymentsvc.Secret("project secret key of the example")

	result, err := discover.Find(context.Background(), []discover.Sample{sample}, discover.Options{Secret: secret})
	if errors.Is(err, discover.ErrNoMatch) {
		for _, hint := range result.Hints {
			fmt.Println("look at", hint)
		}
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	best := result.Matches[0]
	fmt.Println(best.Text) // for a settings file: canonical.ParseScheme reads it
	fmt.Println(best.Description)
	fmt.Println(best.Expr)
	for _, open := range result.Undecided {
		fmt.Println(open.Chosen, "could also be", open.Others[0].Expr)
		fmt.Println("a decision needs", open.Others[0].Needs)
	}

	// best is ready for HMACConfig and for WebhookConfig.
	_, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: best.Scheme, Secret: best.Secret})
	fmt.Println("signer:", err)
	// Output:
	// hex(timestamp "." method "." path "." hex(sha256(body)))
	// HMAC-SHA256, keyed with the secret as text, of timestamp + method + path + SHA-256 of the body in hexadecimal, with "." between; written in hexadecimal in lower case
	// paymentsvc.Scheme{
	// 	Canonical: canonical.Join(".", canonical.Timestamp, canonical.Method, canonical.Path, canonical.BodySHA256),
	// 	Encoding:  paymentsvc.Hex,
	// }
	// canonical.Method could also be canonical.Literal("POST")
	// a decision needs a sample with another method (every operation of the interface document is a POST)
	// canonical.Path could also be canonical.RequestURI
	// a decision needs a sample with a query in the address
	// canonical.BodySHA256 could also be canonical.SHA256(paymentsvc.Hex, canonical.BodyCompact)
	// a decision needs a sample with white space between the JSON tokens of the body
	// signer: <nil>
}
