// Package stranger_test uses the modules of a release like a new user, in an empty module and through a module proxy.
package stranger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root = "../../.."
	sdk  = "github.com/paymentsvc/paymentsvc"
	// database is the environment variable with the address of a PostgreSQL server.
	database = "TEST_DATABASE_URL"
)

// page is a page of a module. It has a go get line, and its first Go block is a program or, with harness, the
// statements of a function.
type page struct {
	name, prints string
	harness      string // the program around the block, if the block is not a complete program
	postgres     bool
	modules      []string // downloaded by a user of the program
}

var pages = []page{
	{name: "README.md", prints: "1.0.0\n", harness: rootHarness, modules: []string{"github.com/google/uuid", sdk}},
	{
		name: "durable/README.md", prints: "1 payout sent\n",
		modules: slices.Concat(
			[]string{"github.com/google/uuid", sdk, sdk + "/durable", "golang.org/x/text"}, sqliteModules,
		),
	},
	{
		name: "durable/riverqueue/README.md", prints: "1 payout sent\n", postgres: true,
		modules: slices.Concat([]string{"github.com/google/uuid", sdk, sdk + "/durable", sdk + "/durable/riverqueue",
			"golang.org/x/text"}, pgxModules, riverModules),
	},
}

// TestPagesFirstProgramsRun fetches each module with the go get line of its page, and runs the first program.
func TestPagesFirstProgramsRun(t *testing.T) {
	proxy := released(t)
	for _, toolchain := range toolchains {
		for _, p := range pages {
			t.Run(toolchain+"/"+p.name, func(t *testing.T) {
				if p.postgres && os.Getenv(database) == "" {
					t.Skip("no PostgreSQL: " + database + " is not set. " +
						"Run the test with .ci/postgres go -C tools/compat test ./stranger")
				}
				s := newStranger(t, toolchain, proxy)
				get, program := p.read(t)
				s.run("mod", "init", "example.com/stranger")
				s.run(get...)
				require.NoError(t, os.WriteFile(filepath.Join(s.dir, "main.go"), []byte(program), 0o600))
				s.run("get", ".") // the drivers that the program imports
				s.run("vet", ".")
				assert.Equal(t, p.prints, s.run("run", "."))
				s.run("mod", "verify")
				assert.ElementsMatch(t, p.modules, s.downloaded())
			})
		}
	}
}

func TestQuickstartRunsFromTheProxy(t *testing.T) {
	proxy := released(t)
	for _, toolchain := range toolchains {
		t.Run(toolchain, func(t *testing.T) {
			s := newStranger(t, toolchain, proxy)
			output := s.run("run", sdk+"/examples/quickstart@latest")
			assert.Contains(t, output, "notification   payment.status_changed SUCCESS 10.50")
			assert.Equal(t, []string{"github.com/google/uuid", sdk}, s.downloaded())
		})
	}
}

// TestModulesAreFetchedInAnyOrder gets the three modules in each order, and expects the same versions.
func TestModulesAreFetchedInAnyOrder(t *testing.T) {
	proxy := released(t)
	var want string
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s := newStranger(t, toolchains[0], proxy)
		s.run("mod", "init", "example.com/stranger")
		for _, i := range order {
			get, _ := pages[i].read(t)
			s.run(get...)
		}
		versions := s.run("list", "-m", "-f", "{{.Path}} {{.Version}}", sdk, sdk+"/durable", sdk+"/durable/riverqueue")
		if want == "" {
			want = versions
		}
		assert.Equal(t, want, versions, order)
		assert.Equal(t, 3, strings.Count(versions, " v1.0.0\n"), versions)
	}
}

var (
	getLine = regexp.MustCompile(`(?m)^    go (get \S+)$`)
	goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
)

// read returns the arguments of the page's go get line, and its first program.
func (p page) read(t *testing.T) (get []string, program string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, p.name))
	require.NoError(t, err)
	line, block := getLine.FindSubmatch(text), goBlock.FindSubmatch(text)
	require.NotNil(t, line, "%s: no line with go get", p.name)
	require.NotNil(t, block, "%s: no Go block", p.name)
	program = string(block[1])
	if p.harness != "" {
		program = strings.Replace(p.harness, "// BLOCK", program, 1)
	}
	return strings.Fields(string(line[1])), program
}

// toolchains are the supported releases of Go.
var toolchains = []string{"go1.26.8", "go1.27.3"}

type stranger struct {
	*testing.T
	goCommand, dir, cache string
	env                   []string
}

func newStranger(t *testing.T, toolchain, proxy string) *stranger {
	t.Helper()
	query := exec.CommandContext(t.Context(), "go", "env", "-json", "GOROOT", "GOMODCACHE", "GOPROXY")
	query.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain)
	output, err := query.CombinedOutput()
	if err != nil {
		t.Skipf("%s cannot be downloaded here: %s", toolchain, output)
	}
	var machine struct{ GOROOT, GOMODCACHE, GOPROXY string }
	require.NoError(t, json.Unmarshal(output[bytes.IndexByte(output, '{'):], &machine))
	s := &stranger{T: t, goCommand: filepath.Join(machine.GOROOT, "bin", "go"), dir: t.TempDir(), cache: t.TempDir()}
	// The release and the machine's downloaded modules come before the machine's proxy.
	proxies := fmt.Sprintf("file://%s,file://%s/cache/download,%s", proxy, machine.GOMODCACHE, machine.GOPROXY)
	s.env = append(os.Environ(), "GOROOT="+machine.GOROOT, "GOTOOLCHAIN=local", "GOPROXY="+proxies,
		"GOMODCACHE="+s.cache, "GONOPROXY=none", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off",
		"DATABASE_URL="+os.Getenv(database))
	return s
}

// run returns the standard output of a go command.
func (s *stranger) run(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), s.goCommand, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(s, err, "go %s:\n%s%s", strings.Join(args, " "), output, &stderr)
	return string(output)
}

// downloaded returns the modules in the stranger's cache.
func (s *stranger) downloaded() (modules []string) {
	download := filepath.Join(s.cache, "cache", "download")
	err := filepath.WalkDir(download, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".zip" {
			name, _ := filepath.Rel(download, filepath.Dir(filepath.Dir(path)))
			modules = append(modules, filepath.ToSlash(name))
		}
		return err
	})
	require.NoError(s, err)
	return modules
}

// released returns the directory of a module proxy with the work tree as version 1.0.0.
func released(t *testing.T) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	output, err := exec.CommandContext(
		t.Context(), filepath.Join(root, ".ci", "release"), "-proxy", proxy, "v1.0.0",
	).CombinedOutput()
	require.NoError(t, err, "%s", output)
	archive, err := os.Stat(filepath.Join(proxy, sdk, "@v", "v1.0.0.zip"))
	require.NoError(t, err)
	assert.Less(t, archive.Size(), int64(2_000_000), "bytes that every user downloads")
	return proxy
}

// These are modules of other repositories that the pages' programs use.
var (
	sqliteModules = []string{
		"github.com/dustin/go-humanize", "github.com/mattn/go-isatty", "github.com/ncruces/go-strftime",
		"github.com/remyoudompheng/bigfft", "golang.org/x/sys", "modernc.org/libc", "modernc.org/mathutil",
		"modernc.org/memory", "modernc.org/sqlite",
	}
	pgxModules = []string{
		"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
		"github.com/jackc/puddle/v2", "golang.org/x/sync",
	}
	riverModules = []string{
		"github.com/lib/pq", "github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver",
		"github.com/riverqueue/river/riverdriver/riverdatabasesql",
		"github.com/riverqueue/river/riverdriver/riverpgxv5",
		"github.com/riverqueue/river/rivershared", "github.com/riverqueue/river/rivertype", "github.com/tidwall/gjson",
		"github.com/tidwall/match", "github.com/tidwall/pretty", "github.com/tidwall/sjson",
	}
)

// rootHarness is the program around the first block of README.md. The functions between start and main stand for the
// reader's code.
const rootHarness = `package main

import (
	"context"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func start(ctx context.Context, secret paymentsvc.Secret) error {
	// BLOCK
}

func redirectPayer(url, orderID string) error { return nil }
func retryLater(userData string) error        { return nil }
func reconcileLater(userData string) error    { return nil }
func showRejection(userData string) error     { return nil }

func main() {
	_ = start
	_ = paymentsvctest.AllFaults()
	fmt.Println(paymentsvc.InterfaceVersion)
}
`
