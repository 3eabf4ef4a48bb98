package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
)

// altered changes one letter in what a form was padded with, so that the JSON stays JSON.
func altered(body []byte) []byte {
	return bytes.Replace(body, []byte("order-1"), []byte("order-2"), 1)
}

func TestEveryCandidateVerifiesWhatIsValidAndRefusesWhatIsAltered(t *testing.T) {
	for _, size := range sizes() {
		for work, made := range map[string]func(int, delivery) []candidate{"verify": verifiers, "parse": parsers} {
			wanted := map[string]string{"verify": "", "parse": orderID}[work]
			forged := made(size, altered)
			for i, valid := range made(size, untouched) {
				name := work + ", " + sizeName(size) + ", " + valid.name
				for range 2 { // the second goes through pools that are filled
					id, err := valid.run()
					assert.NoError(t, err, name)
					if !valid.bound {
						assert.Equal(t, wanted, id, name)
					}
				}
				if valid.name == "SHA-256 of the body" {
					continue // the bound that checks nothing
				}
				for range 2 {
					_, err := forged[i].run()
					assert.Error(t, err, name)
				}
			}
		}
	}
}

func TestBodiesAreOfEqualSize(t *testing.T) {
	for _, size := range sizes() {
		for _, form := range []string{notificationForm, stripeForm, paddleForm} {
			body := padded(form, size)
			assert.Len(t, body, size)
			assert.NotEqual(t, body, altered(body))
		}
	}
	for _, c := range clients() {
		assert.Len(t, answer(c.who), len(answer(ours)), c.name)
	}
}

func TestEveryClientPostsItsRequestAndReadsTheAnswer(t *testing.T) {
	paths := map[string]string{
		ours: "/init_payment/card", byHand: "/init_payment/card", "resty": "/init_payment/card",
		"stripe-go": "/v1/payment_intents", "paddle": "/customers",
	}
	bodies := map[string]string{}
	for _, c := range clients() {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, http.MethodPost, r.Method, c.name)
			assert.Equal(t, paths[c.who], r.URL.Path, c.name)
			bodies[c.who] = string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer(c.who))
		}))
		for _, h := range []*http.Client{server.Client(), nil} {
			id, err := c.connect(server.URL, h)(t.Context())
			assert.NoError(t, err, c.name)
			assert.Equal(t, orderID, id, c.name)
		}
		server.Close()
	}
	assert.Equal(t, bodies[byHand], bodies[ours], "the same bytes")
	assert.Equal(t, bodies[byHand], bodies["resty"], "the same bytes")
	assert.Contains(t, bodies["stripe-go"], "order-1")
	assert.Contains(t, bodies["paddle"], "order-1")
}

func TestEveryClientReportsARefusal(t *testing.T) {
	for _, c := range clients() {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"code":"refused","message":"no"}}`))
		}))
		_, err := c.connect(server.URL, server.Client())(t.Context())
		assert.Error(t, err, c.name)
		server.Close()
	}
}

func TestTheBareServiceUnderstandsEveryClient(t *testing.T) {
	candidates, end := callers(t.Context())
	defer end()
	for _, c := range candidates {
		for range 3 { // what is left over from one request would spoil the next
			id, err := c.run()
			assert.NoError(t, err, c.name)
			assert.Equal(t, orderID, id, c.name)
		}
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	rows, err := measureConnections(t.Context(), 1, 1, 3, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	for _, r := range rows {
		assert.EqualValues(t, 1, r.connections, "%s: one caller needs one", r.name)
	}
}

func TestAFailureIsNotMeasured(t *testing.T) {
	failure := errors.New("failure")
	_, err := measure([]candidate{{name: "failing", run: func() (string, error) { return "", failure }}}, "failing", 1, 2,
		rand.New(rand.NewPCG(1, 2)))
	require.ErrorIs(t, err, failure)
}

func TestRatiosAreMadeWithinARound(t *testing.T) {
	candidates := []candidate{{name: "bound", bound: true}, {name: "slow", who: byHand}, {name: "best", who: ours}}
	rows := summarise(candidates, [][]float64{
		{1, 10, 2},   // the machine is ten times slower in the second round
		{8, 80, 9},   // and the third is disturbed
		{4, 40, 100}, // for this one
	}, byHand)
	require.Len(t, rows, 3)
	assert.InDelta(t, 2, rows[0].time, 0)
	assert.InDelta(t, 9, rows[1].time, 0)
	assert.InDelta(t, 2, rows[1].toBest, 0)
	assert.InDelta(t, 1, rows[2].toBest, 0)
	assert.InDelta(t, 0.25, rows[0].toBest, 0, "a bound is no best")
	assert.InDelta(t, 0.5, rows[2].toReference, 0)
}

// someTables are tables as a run makes them, with numbers that are made up.
func someTables() []table {
	var tables []table
	for _, title := range []string{"Verify, 220 B", "Verify and parse, 220 B", "A call, one caller"} {
		tables = append(tables, table{title: title, reference: byHand, rows: []row{
			{candidate: candidate{name: "other", who: "paddle"}, time: 2500, toBest: 2.5, toReference: 2, allocs: 7, bytes: 512},
			{candidate: candidate{name: "floor", bound: true}, time: 900, toBest: 0.9, toReference: 0.5},
			{candidate: candidate{name: "mine", who: ours}, time: 1000, toBest: 1, toReference: 0.8, allocs: 1, bytes: 16},
		}})
	}
	return tables
}

func TestTablesShowBoundsThenTheBestFirstEachTimeWithItsRatio(t *testing.T) {
	require.Equal(t, "### Verify, 220 B\n\n"+
		"| | time | × best | × by hand | allocations | bytes |\n|---|--:|--:|--:|--:|--:|\n"+
		"| *bound:* floor | 900 ns | 0.90 | 0.50 | 0 | 0 |\n"+
		"| **mine** | 1.00 µs | 1.00 | 0.80 | 1 | 16 |\n"+
		"| other | 2.50 µs | 2.50 | 2.00 | 7 | 512 |\n\n", someTables()[0].markdown())

	counted := table{title: "Connections", rows: []row{
		{candidate: candidate{name: "many"}, time: 2e6, toBest: 2, toReference: 1, connections: 12},
		{candidate: candidate{name: "few"}, time: 1e6, toBest: 1, toReference: 0.5, connections: 8},
	}}
	require.Equal(t, "### Connections\n\n"+
		"| | time | × best | × by hand | connections | × fewest |\n|---|--:|--:|--:|--:|--:|\n"+
		"| few | 1.00 ms | 1.00 | 0.50 | 8 | 1.0 |\n"+
		"| many | 2.00 ms | 2.00 | 1.00 | 12 | 1.5 |\n\n", counted.markdown())
}

func TestBuildsShowTheirRatios(t *testing.T) {
	require.Equal(t, "### A program\n\n"+
		"| imports | binary | × smallest | cold build | × quickest | processor time | × least |\n"+
		"|---|--:|--:|--:|--:|--:|--:|\n"+
		"| **paymentsvc** | 8.0 MB | 1.00 | 20 s | 1.00 | 30 s | 1.00 |\n"+
		"| resty | 12.0 MB | 1.50 | 40 s | 2.00 | 90 s | 3.00 |\n\n",
		builtMarkdown("A program", []built{
			{"paymentsvc", 8e6, 20e9, 30e9},
			{"resty", 12e6, 40e9, 90e9},
		}))
}

func TestEveryHelloProgramIsThere(t *testing.T) {
	for kind, names := range programs() {
		for _, name := range names {
			assert.FileExists(t, filepath.Join("hello", kind, name, "main.go"))
		}
		there, err := os.ReadDir(filepath.Join("hello", kind))
		require.NoError(t, err)
		assert.Len(t, there, len(names), kind)
	}
}

func TestPublishReplacesWhatIsBetweenItsMarkersAndDrawsThePicture(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "performance.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n<!-- measured -->\nold\n<!-- end of measured -->\nafter\n"), 0o600))
	require.NoError(t, publish(dir, map[string]string{"measured": "new\n"}, someTables()))

	document, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- measured -->\n\nnew\n\n<!-- end of measured -->\nafter\n", string(document))

	picture, err := os.ReadFile(filepath.Join(dir, "performance.svg"))
	require.NoError(t, err)
	var root struct {
		XMLName xml.Name
	}
	require.NoError(t, xml.Unmarshal(picture, &root))
	require.Equal(t, "svg", root.XMLName.Local)
	for _, text := range []string{"Verify a notification", "220 B", "one caller", "paymentsvc", "paddle", "2.5"} {
		assert.Contains(t, string(picture), ">"+text)
	}
}

func TestPublishRefusesADocumentWithoutMarkers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "performance.md")
	require.NoError(t, os.WriteFile(file, []byte("mine\n"), 0o600))
	require.ErrorIs(t, publish(dir, map[string]string{"measured": "new"}, someTables()), errNoMarkers)
	document, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(document))
}

func TestTheDocumentHoldsARunOfEveryCandidate(t *testing.T) {
	content, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	document := string(content)
	for _, size := range sizes() {
		assert.Contains(t, document, "### Verify, "+sizeName(size)+"\n")
		assert.Contains(t, document, "### Verify and parse, "+sizeName(size)+"\n")
	}
	all := append(verifiers(220, untouched), parsers(220, untouched)...)
	for _, c := range clients() {
		all = append(all, candidate{name: c.name})
	}
	for _, c := range all {
		assert.Contains(t, document, c.name)
	}
	for _, line := range strings.Split(document, "\n") {
		if strings.Contains(line, " µs") || strings.Contains(line, " ns") {
			assert.Regexp(t, `^\| .* \| [0-9.]+ (ns|µs) \| [0-9.]+ \| `, line, "no time without its ratio")
		}
	}
}

// The numbers of the last release are what CONTRIBUTING has compared, so they must be what benchstat reads, and hold
// ratios only: times of another machine say nothing.
func TestTheNumbersOfTheLastReleaseAreRatios(t *testing.T) {
	f, err := os.Open("testdata/baseline.txt")
	require.NoError(t, err)
	defer f.Close()
	reader := benchfmt.NewReader(f, "baseline.txt")
	runs := map[string]int{}
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		runs[string(result.Name.Full())]++
		for _, value := range result.Values {
			assert.Contains(t, []string{"x-time", "x-allocs", "x-bytes"}, value.Unit)
		}
	}
	require.NoError(t, reader.Err())
	require.NotEmpty(t, runs)
	for name, count := range runs {
		assert.GreaterOrEqual(t, count, 6, "%s: fewer runs give benchstat no interval", name)
	}
}
