//go:build unix

package docs_test

import (
	"regexp"
	"strings"
)

// step is a command of the pages, and how it is run here.
type step struct {
	// command is as on the page, its lines joined.
	command string
	// instead are pairs: what is replaced, which has to be there, and by what. {tmp} is a directory of the test's own,
	// {root} the repository; serving commands add their addresses under a name of their own.
	instead []string
	// in is the directory, from the repository's.
	in string
	// exempt is why the command is not run here.
	exempt string
	// needs is looked at before: a command that must be there, a module whose dependencies must be, or npm's packages.
	needs []string
	// before and after prepare and check what the command itself does not show.
	before, after func(s *session)
	// says must be in the output.
	says string
	// serves names a command that goes on in the background. It is awaited until the output matches listens, whose
	// group is the address.
	serves, listens string
}

// What steps need.
const (
	needsCurl       = "curl"
	needsNPX        = "npx"
	needsBenchmarks = "internal/benchmarks"
	needsBrowser    = "internal/browsertest"
	needsContract   = "internal/contract"
	needsPartner    = "examples/partner"
)

const mockListens = `interface +(http://127\.0\.0\.1:\d+)\n`

// steps are all commands of the README, CONTRIBUTING and docs, in the order in which they are run.
func steps() []step {
	list := []step{
		{
			command: "go get github.com/paymentsvc/paymentsvc",
			instead: []string{"go get", "GOPROXY=off go get"}, // what it needs else is in the module cache
			in:      "{tmp}/stranger", before: makeStranger, after: requiresTheSDK,
		},
		{
			command: "git clone https://github.com/paymentsvc/paymentsvc && cd paymentsvc",
			exempt:  "it needs the network, and the steps below run in what it makes",
		},
		{command: "go run ./examples/quickstart", says: "refund SUCCESS               200  taken"},
		{command: "go test ./...", exempt: "it would run this test, which would run it"},
		{command: ".ci/run", exempt: "it runs this test"},

		{command: "go run ./examples/discover -demo", says: "Hidden was: "},
		{
			command: "go run ./examples/discover -secret-file project.key notification.http",
			instead: []string{"project.key", "{tmp}/project.key", "notification.http", "{tmp}/notification.http"},
			before:  captureNotification,
			says:    "Canonical: canonical.Join(\".\", canonical.Timestamp, canonical.Body),\n    \tEncoding:  paymentsvc.Hex,",
		},
		{
			command: `go run ./examples/discover -secret-file project.key ` +
				`-check 'canonical.Join(".", canonical.Timestamp, canonical.Body)' notification.http`,
			instead: []string{"project.key", "{tmp}/project.key", "notification.http", "{tmp}/notification.http"},
			before:  captureNotification,
			says:    "with the secret as text, in paymentsvc.Hex",
		},

		{
			command: "go run ./examples/mockserver -addr 127.0.0.1:8080 -notify http://127.0.0.1:9000/notifications",
			instead: []string{"127.0.0.1:8080", "127.0.0.1:0", "http://127.0.0.1:9000", "{receiver}"},
			before:  receiveNotifications,
			serves:  "mock", listens: mockListens,
			after: startPaymentAtMock,
		},
		{
			command: "curl --silent --output /dev/null --retry 20 --retry-connrefused http://127.0.0.1:8080/ui/",
			instead: []string{"http://127.0.0.1:8080", "{mock}"},
			needs:   []string{needsCurl},
		},
		{
			command: "curl -d status=SUCCESS http://127.0.0.1:8080/ui/orders/00000000-0000-4000-8000-000000000001/settle",
			instead: []string{"http://127.0.0.1:8080", "{mock}"},
			needs:   []string{needsCurl},
			after:   notifiedOfSuccess,
		},
		{
			command: "curl -d on=init_payment -d which=first -d n=1 -d 'text=drop after' http://127.0.0.1:8080/ui/faults/requests",
			instead: []string{"http://127.0.0.1:8080", "{mock}"},
			needs:   []string{needsCurl},
			after:   losesTheNextAnswer,
		},

		{
			command: "printf %s 'a test key' > secret.txt",
			instead: []string{"secret.txt", "{tmp}/secret.txt"},
		},
		{
			command: "go run ./examples/mockserver -secret-file secret.txt &",
			instead: []string{"mockserver", "mockserver -addr 127.0.0.1:0", "secret.txt", "{tmp}/secret.txt", " &", ""},
			serves:  "second mock", listens: mockListens,
		},
		{
			command: "go run ./examples/quickstart -base-url http://127.0.0.1:8080 -partner 1001 -project 2002 " +
				"-secret-file secret.txt -canonical '{timestamp}.{body}' -encoding hex -error-fields error_code,error_message",
			instead: []string{"http://127.0.0.1:8080", "{second mock}", "secret.txt", "{tmp}/secret.txt"},
			says:    "settled: it was started",
		},
		{
			command: "npx --yes @stoplight/prism-cli@5.14.2 mock -p 4010 testdata/openapi.yaml",
			instead: []string{"4010", "0"},
			needs:   []string{needsNPX},
			serves:  "prism", listens: `listening on (http://127\.0\.0\.1:\d+)`,
		},
		{
			command: "go run ./examples/quickstart -base-url http://127.0.0.1:4010 -partner 1 -project 2 " +
				"-secret-file secret.txt -canonical '{timestamp}.{body}' -encoding hex",
			instead: []string{"http://127.0.0.1:4010", "{prism}", "secret.txt", "{tmp}/secret.txt"},
			needs:   []string{"prism"},
			says:    "InitPayment card 10.50",
		},

		{
			command: "go test ./paymentsvctest -run TestSoak -soak.ops 100000 -v",
			instead: []string{"100000", "200"},
			says:    "--- PASS: TestSoak",
		},
		{
			command: "go -C internal/contract test -short -run 'Every|Allows' -rapid.checks 20000 .",
			instead: []string{"20000", "500"},
			needs:   []string{needsContract},
			says:    "ok",
		},
		{
			command: ".ci/postgres go -C examples/partner test -run TestNoKill -timeout 60m . -kills 1000 -kills.payouts 200",
			instead: []string{".ci/postgres ", "", "-timeout 60m", "-short -timeout 60m"}, // .ci/run runs it with few kills
			needs:   []string{needsPartner},
			says:    "ok",
		},
		{
			command: ".ci/postgres go -C examples/partner test -run AtMostOneStart ./internal/store -rapid.checks 20000",
			instead: []string{".ci/postgres ", "", "20000", "5"},
			needs:   []string{needsPartner},
			says:    "ok",
		},
		{
			command: "go test -run 'NeverSaid|AtMostOnce' -count 50 .",
			instead: []string{"-count 50", "-short -v -count 1"},
			says:    "--- PASS: Test",
		},
		{
			command: "go test -run TestTheExportedAPI -update .",
			instead: []string{"-update", "-v"}, // which leaves the listing alone
			says:    "--- PASS: TestTheExportedAPI",
		},
		{
			command: "git fetch --tags",
			exempt:  "it needs the network, and would change the repository",
		},
		{
			command: "go -C internal/release run . -n v1.0.0",
			exempt:  "it refuses a work tree that is not clean; the tests of internal/release run it on a repository of their own",
		},
		{
			command: "go test -run '^$' -bench '//ratio' -count 10 . > new.txt",
			instead: []string{"-count 10", "-benchtime 1x -count 1", "new.txt", "{tmp}/new.txt"},
		},
		{
			command: "grep -E '^(pkg:|Benchmark)' new.txt > internal/benchmarks/testdata/baseline.txt",
			instead: []string{"new.txt", "{tmp}/new.txt", "internal/benchmarks/testdata", "{tmp}"},
		},
		{
			command: "go -C internal/benchmarks tool benchstat -ignore goos,goarch,cpu,/gomaxprocs " +
				`testdata/baseline.txt "$PWD/new.txt"`,
			instead: []string{"$PWD/new.txt", "{tmp}/new.txt"},
			needs:   []string{needsBenchmarks},
			says:    "/ratio",
		},
		{
			command: "(cd internal/browsertest && go test -count=1 -v ./...)",
			instead: []string{"-v", "-v -run '^$'"}, // .ci/run runs the tests themselves, with a browser
			needs:   []string{needsBrowser},
			says:    "ok",
		},
		{
			command: ".ci/postgres go -C examples/partner test ./...",
			exempt:  ".ci/run runs it, and it takes longer than this whole test",
		},
		{
			command: "go run . -o ../../docs",
			instead: []string{"../../docs", "{tmp}/performance -rounds 1"},
			in:      "internal/benchmarks",
			needs:   []string{needsBenchmarks},
			before:  copyPerformance,
			after:   performanceHasChanged,
		},
		{
			command: "go run . -o ../../docs -builds",
			exempt:  "it builds with empty caches, which takes minutes; the same without -builds is run",
		},
	}
	for _, fuzz := range []string{
		"'^FuzzParseAmount$' -fuzztime 10m .",
		"'^FuzzDecode$' -fuzztime 10m ./internal/jsonobject",
		"'^FuzzEncodeOpen$' -fuzztime 10m ./internal/jsonobject",
		"'^FuzzGrammar$' -fuzztime 10m ./internal/jsonobject",
		"'^FuzzJSONParts$' -fuzztime 10m ./canonical",
		"'^FuzzSamplesNeverPanic$' -fuzztime 10m ./examples/discover",
		"'^FuzzParse$' -fuzztime 10m -fuzzminimizetime 20x .",
		"'^FuzzHandler$' -fuzztime 10m -fuzzminimizetime 20x .",
	} {
		list = append(list, step{
			command: "go test -run '^$' -fuzz " + fuzz,
			instead: []string{"10m", "1x"},
			says:    "fuzz: elapsed: ",
		})
	}
	return list
}

// rewritten gives the command as it is run, or what is wrong with its replacements.
func (s step) rewritten(places map[string]string) (command, problem string) {
	command = s.command
	for i := 0; i < len(s.instead); i += 2 {
		if !strings.Contains(command, s.instead[i]) {
			return "", "nothing to replace: " + s.instead[i]
		}
		command = strings.Replace(command, s.instead[i], s.instead[i+1], 1)
	}
	command = placed(command, places)
	if missing := inBraces.FindString(command); missing != "" && len(places) > 0 && !strings.Contains(s.command, missing) {
		return "", "nothing is there for " + missing
	}
	return command, ""
}

var inBraces = regexp.MustCompile(`\{[a-z ]+\}`)

// placed puts the places of a session where their names stand in braces.
func placed(text string, places map[string]string) string {
	for name, place := range places {
		text = strings.ReplaceAll(text, "{"+name+"}", place)
	}
	return text
}
