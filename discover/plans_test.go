package discover

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// sampleOf returns a request with a signature in a scheme.
func sampleOf(t *testing.T, text, body string) Sample {
	t.Helper()
	m := paymentsvc.Message{
		Method: http.MethodPost, Timestamp: "1700000000", Body: []byte(body),
		URL: &url.URL{Scheme: "https", Host: "pay.example", Path: "/v1/init_payout"},
		Header: http.Header{
			"X-Api-Key": {"b5aac1af45"}, "X-Recv-Window": {"5000"}, "Content-Type": {"application/json"},
		},
	}
	scheme, key, err := canonical.ParseSchemeWith(text, "secret-of-the-test")
	require.NoError(t, err)
	signature, err := scheme.Signature(key, &m)
	require.NoError(t, err)
	return Sample{Message: m, Signature: signature}
}

// Each of these schemes is found by only one plan. The table of TestFindSchemes needs the other plans.
func TestPlanFindsItsScheme(t *testing.T) {
	const body = `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"Order-1"}`
	f, err := newFinder(t.Context(), []Sample{sampleOf(t, "hex(body)", body)}, Options{Secret: "secret-of-the-test"})
	require.NoError(t, err)
	for text, whole := range map[string]string{
		`timestamp "::" method "::" path "::" body`: "1700000000::POST::/v1/init_payout::" + body,
		`"amount=" field("amount") "&" "partner_id=" field("partner_id") "&" "timestamp=" timestamp "&" ` +
			`"user_data=" field("user_data")`: "amount=10.50&partner_id=17&timestamp=1700000000&user_data=Order-1",
		`lower(fields(sorted, "=", "&"))`:            "amount=10.50&partner_id=17&project_id=42&user_data=Order-1",
		`hex(sha256(timestamp method path body))`:    "1700000000POST/v1/init_payout" + body,
		`timestamp "{" fields(sorted, "=", "&") "}"`: "",
		`sha256(path ":" timestamp ":" body)`:        "/v1/init_payout:1700000000:" + body,
		`method "\n" base64(md5(body)) "\n" header("X-Recv-Window") "\n" timestamp "\n" "x-api-key:" ` +
			`header("X-Api-Key") "\n" path "\n"`: "",
		`"x-api-key:" header("X-Api-Key") "\n" "x-recv-window:" header("X-Recv-Window") "\n" "Request-Target:" path ` +
			`"\n" "Digest:" base64(sha256(body))`: "",
		`"x-api-key: " header("X-Api-Key") "\n" "host: " host "\n" "(request-target): " lower(method) " " uri "\n" ` +
			`"digest: SHA-256=" base64(sha256(body)) "\n" "x-recv-window: " header("X-Recv-Window")`: "",
		`path "\n" method "\n" header("X-Api-Key") "\n" timestamp "\n" header("Content-Type") "\n" body`: "",
		`method header("X-Api-Key") host path header("X-Recv-Window") timestamp body`:                    "",
		`method "\n" path "\n" date("Mon, 02 Jan 2006 15:04:05 GMT") ";" host ";" base64(sha256(body))`:  "",
	} {
		sample := sampleOf(t, "hex("+text+")", body)
		scheme, _, err := canonical.ParseSchemeWith("hex("+text+")", "secret-of-the-test")
		require.NoError(t, err)
		signed, err := scheme.Canonical(nil, &sample.Message)
		require.NoError(t, err)
		require.NoError(t, f.sign(sample))
		result, err := f.findKnowing(t.Context(), string(signed), whole)
		require.NoError(t, err, text)
		require.Equal(t, "hex("+text+")", result.Matches[0].Text)
	}
}

// Webhooks of several services sign the fields of an object, with an empty text for null. A name can contain a verb of
// package fmt.
func TestFindNullInsideAnObject(t *testing.T) {
	const body = `{"event":"paid","da%ta":{"order":"o-1","note":null,"memo":"","amount":10.50,"test":true}}`
	for text, signed := range map[string]string{
		`hex(within("da%ta", fields(sorted, "=", "&", no-null)))`:   "amount=10.50&memo=&note=&order=o-1&test=true",
		`hex(within("da%ta", fields(sorted, "=", "&", omit-null)))`: "amount=10.50&memo=&order=o-1&test=true",
	} {
		result, err := FindKnowing(
			t.Context(), []Sample{sampleOf(t, text, body)}, Options{Secret: "secret-of-the-test"}, signed,
		)
		require.NoError(t, err, text)
		require.Equal(t, text, result.Matches[0].Text)
	}
}

// A body of megabytes leaves time for the most common compositions, with their separators.
func TestLargeBodyIsSearchedInTheSimplestForms(t *testing.T) {
	s := sampleOf(t, "hex(body)", `{"amount":10.50,"text":"`+strings.Repeat("x", 4<<20)+`"}`)
	f, err := newFinder(t.Context(), []Sample{s}, Options{Secret: "secret-of-the-test"})
	require.NoError(t, err)
	reached := 0
	for _, st := range f.stages[0] {
		hasBody := slices.ContainsFunc(st.groups, func(g stageGroup) bool {
			return slices.ContainsFunc(g.pieces, func(p *piece) bool { return p.text == "body" })
		})
		if hasBody && len(st.gaps) >= len(fewSeparators) {
			reached = max(reached, st.maxParts())
		}
	}
	require.Equal(t, 4, reached)
}

// Each of these schemes must be found by the stages of the first second or two.
func TestPlausibleSchemesAreSearchedSoon(t *testing.T) {
	const body = `{"partner_id":17,"project_id":42}`
	f, err := newFinder(t.Context(), []Sample{sampleOf(t, "hex(body)", body)}, Options{Secret: "secret-of-the-test"})
	require.NoError(t, err)
	for text, signed := range map[string]string{
		`hex(field("partner_id") ":" field("project_id") ":" timestamp ":" body)`: "17:42:1700000000:" + body,
		`hex(timestamp header("X-Api-Key") header("X-Recv-Window") body)`:         "1700000000b5aac1af455000" + body,
		`hex(method "\n" path "\n" timestamp "\n" header("X-Api-Key") "\n" body "\n")`: "POST\n/v1/init_payout\n" +
			"1700000000\nb5aac1af45\n" + body + "\n",
		`hex(base64(body))`: "eyJwYXJ0bmVyX2lkIjoxNywicHJvamVjdF9pZCI6NDJ9",
		`hex(secret body)`:  "secret-of-the-test" + body,
	} {
		require.NoError(t, f.sign(sampleOf(t, text, body)))
		before := 0.0
		for _, st := range f.cheapFirst(0) {
			for i := range st.groups {
				st.groups[i].keep(func(text string) bool { return strings.Contains(signed, text) })
			}
			f.search.reset(f.samples[0].sums())
			if !f.search.run(t.Context(), st) {
				break
			}
			before += float64(st.total)
		}
		require.NotNil(t, f.search.found, text)
		require.Less(t, before, 12e6, text)
	}
}
