package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/paymentsvc/paymentsvc/internal/markdown"
	"github.com/paymentsvc/paymentsvc/internal/snippet"
)

const (
	sdk        = "github.com/paymentsvc/paymentsvc"
	uuid       = "github.com/google/uuid"
	sdkVersion = "v1.0.0"
	nextGo     = "go1.27.3" // the release of Go after the one in go.mod
)

// A stranger has an empty module and a module proxy, and neither this repository nor what its tests import.
func TestAStrangerCanUseTheModule(t *testing.T) {
	root := repositoryRoot(t)
	proxy := publish(t, root)
	for _, toolchain := range []string{"local", nextGo} {
		t.Run(toolchain, func(t *testing.T) {
			goCommand, version := goOf(t, toolchain)
			t.Log(version)
			s := stranger{directory: t.TempDir(), goCommand: goCommand, env: strangerEnv(t, proxy)}

			s.run(t, "mod", "init", "example.com/stranger")
			s.run(t, "get", sdk+"@"+sdkVersion)
			pages := s.writeSnippets(t, root)
			require.NotZero(t, pages["README.md"], "snippets in README.md")
			t.Logf("snippets: %v", pages)
			examples := s.writeExamples(t)
			require.NotZero(t, examples)

			s.run(t, "build", "./...")
			// Vet would look for the names of the examples in the stranger's own packages.
			tested := s.run(t, "test", "-vet=off", "-count=1", "-v", "./examples/...")
			assert.Equal(t, examples, strings.Count(tested, "--- PASS: Example"), tested)

			s.checkQuickstart(t)
			s.checkPackages(t)
			s.checkDownloads(t)
			s.run(t, "mod", "tidy")
			s.checkRequirements(t)
		})
	}
}

func TestTheModuleHoldsWhatItShould(t *testing.T) {
	proxy := publish(t, repositoryRoot(t))
	archive, err := zip.OpenReader(filepath.Join(proxy, sdk, "@v", sdkVersion+".zip"))
	require.NoError(t, err)
	defer archive.Close()
	info, err := os.Stat(filepath.Join(proxy, sdk, "@v", sdkVersion+".zip"))
	require.NoError(t, err)
	t.Logf("the module is %d KB, compressed, in %d files", info.Size()/1000, len(archive.File))
	assert.Less(t, info.Size(), int64(2_000_000), "what every user downloads")

	names := map[string]uint64{}
	for _, file := range archive.File {
		names[strings.TrimPrefix(file.Name, sdk+"@"+sdkVersion+"/")] = file.UncompressedSize64
	}
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "go.mod", "go.sum", "doc.go", "example_test.go", "canonical/canonical.go",
		"paymentsvctest/server.go", "examples/quickstart/main.go", "testdata/openapi.yaml",
	} {
		assert.NotZero(t, names[name], name)
	}
	for name, size := range names {
		assert.Less(t, size, uint64(200_000), name)
		assert.False(t, strings.HasSuffix(name, "/go.mod"), "a module within: %s", name)
		for _, nested := range []string{"internal/release/", "internal/benchmarks/", "internal/browsertest/", ".git/"} {
			assert.False(t, strings.HasPrefix(name, nested), name)
		}
	}
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	return root
}

// publish makes a module proxy of files that has this work tree as sdkVersion. It holds what git knows or would add.
func publish(t *testing.T, root string) (proxy string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	output, err := list.Output()
	if err != nil {
		t.Skipf("this is no git repository, so which files belong to the module is not known: %v", err)
	}
	var files []modzip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(output), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil { // and not deleted
			files = append(files, onDisk{root, name})
		}
	}
	proxy = t.TempDir()
	versions := filepath.Join(proxy, sdk, "@v")
	require.NoError(t, os.MkdirAll(versions, 0o750))
	var archive bytes.Buffer
	require.NoError(t, modzip.Create(&archive, module.Version{Path: sdk, Version: sdkVersion}, files))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"list": []byte(sdkVersion + "\n"), sdkVersion + ".info": []byte(`{"Version":"` + sdkVersion + `"}`),
		sdkVersion + ".mod": mod, sdkVersion + ".zip": archive.Bytes(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(versions, name), content, 0o644))
	}
	return proxy
}

// onDisk is a file of the module.
type onDisk struct{ root, name string }

func (f onDisk) Path() string                 { return f.name }
func (f onDisk) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f onDisk) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// goOf finds the go command of a toolchain, "local" for the one that runs this test.
func goOf(t *testing.T, toolchain string) (command, version string) {
	t.Helper()
	find := exec.CommandContext(t.Context(), "go", "env", "GOROOT", "GOVERSION")
	find.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain)
	output, err := find.CombinedOutput()
	if err != nil {
		t.Skipf("%s is not to be had here: %s", toolchain, output)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	if toolchain != "local" {
		require.Equal(t, toolchain, version)
	}
	return filepath.Join(root, "bin", "go"), version
}

// strangerEnv gives an environment with a module cache of its own, so that this version is left nowhere. Other modules
// come from this machine's cache, or from where it takes its modules.
func strangerEnv(t *testing.T, proxy string) []string {
	t.Helper()
	query := exec.CommandContext(t.Context(), "go", "env", "-json", "GOMODCACHE", "GOPROXY")
	output, err := query.Output()
	require.NoError(t, err)
	var machine struct{ GOMODCACHE, GOPROXY string }
	require.NoError(t, json.Unmarshal(output, &machine))
	cache := filepath.ToSlash(filepath.Join(machine.GOMODCACHE, "cache", "download"))
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "GOPRIVATE" || name == "GONOPROXY" || name == "GOROOT" || name == "GO111MODULE"
	})
	return append(env,
		"GOPROXY="+strings.Join([]string{fileURL(proxy), fileURL(cache), machine.GOPROXY}, ","),
		"GOMODCACHE="+t.TempDir(), "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off",
	)
}

func fileURL(path string) string { return "file:///" + strings.TrimPrefix(filepath.ToSlash(path), "/") }

type stranger struct {
	directory string
	goCommand string
	env       []string
}

// run gives what a go command prints.
func (s stranger) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.goCommand, args...)
	cmd.Dir, cmd.Env = s.directory, s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, "go %s:\n%s%s", strings.Join(args, " "), output, &stderr)
	return string(output)
}

// moduleDirectory is where the go command has put what it got.
func (s stranger) moduleDirectory(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(s.run(t, "list", "-m", "-f", "{{.Dir}}", sdk))
}

// writeSnippets makes a package of every Go snippet in the documentation, and gives their number by page.
func (s stranger) writeSnippets(t *testing.T, root string) map[string]int {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	counts := map[string]int{}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		for _, block := range markdown.Blocks(string(text)) {
			if block.Lang == "go" {
				source, err := snippet.Program(page, block.Line, block.Text)
				require.NoError(t, err)
				write(t, s.directory, map[string]string{fmt.Sprintf("snippets/%s/%d/snippet.go", name, block.Line): source})
				counts[filepath.ToSlash(name)]++
			}
		}
	}
	return counts
}

// writeExamples copies the examples that the module brings, which are a partner's code among the packages' tests, and
// gives their number.
func (s stranger) writeExamples(t *testing.T) int {
	t.Helper()
	count := 0
	from := s.moduleDirectory(t)
	for _, directory := range []string{".", "canonical", "paymentsvctest"} {
		for _, pattern := range []string{"example*_test.go", "*_example_test.go"} {
			files, err := filepath.Glob(filepath.Join(from, directory, pattern))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				write(t, s.directory, map[string]string{filepath.Join("examples", directory, filepath.Base(file)): string(text)})
				count += strings.Count(string(text), "\nfunc Example")
			}
		}
	}
	return count
}

// checkRequirements looks whether anything but google/uuid is required.
func (s stranger) checkRequirements(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.directory, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	required := map[string]bool{}
	for _, r := range mod.Require {
		required[r.Mod.Path] = r.Indirect
	}
	assert.Equal(t, map[string]bool{sdk: false, uuid: true}, required, "required modules, and whether only indirectly")
}

// checkDownloads looks whether the code of anything but google/uuid came along. (The go command takes the go.mod of
// more modules; and for go mod tidy the code of what the tests of a required package import.)
func (s stranger) checkDownloads(t *testing.T) {
	t.Helper()
	cache := filepath.Join(strings.TrimSpace(s.run(t, "env", "GOMODCACHE")), "cache", "download")
	var modules []string
	require.NoError(t, filepath.WalkDir(cache, func(file string, _ os.DirEntry, err error) error {
		if path, ok := strings.CutSuffix(filepath.ToSlash(strings.TrimPrefix(file, cache)), ".zip"); ok {
			modules = append(modules, path)
		}
		return err
	}))
	assert.Len(t, modules, 2, "%s", modules)
	for _, path := range modules {
		assert.True(t, strings.HasPrefix(path, "/"+sdk+"/@v/") || strings.HasPrefix(path, "/"+uuid+"/@v/"), path)
	}
}

// checkPackages looks whether the packages import anything but the standard library, google/uuid and one another.
func (s stranger) checkPackages(t *testing.T) {
	t.Helper()
	list := s.run(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		sdk, sdk+"/canonical", sdk+"/paymentsvctest", sdk+"/examples/...")
	packages := strings.Fields(list)
	require.Contains(t, packages, uuid)
	for _, path := range packages {
		assert.True(t, path == uuid || path == sdk || strings.HasPrefix(path, sdk+"/"), path)
	}
}

func (s stranger) checkQuickstart(t *testing.T) {
	t.Helper()
	printed := s.run(t, "run", sdk+"/examples/quickstart")
	for _, line := range []string{
		"Payment Service Partner Interface 1.0.0",
		"InitPayment card 10.50       order 00000000-0000-4000-8000-000000000001",
		"outcome: not sent; nothing left this process",
		"outcome: rejected; the service refused it",
		"outcome: unknown; it may have been carried out",
		"payment SUCCESS              200  taken",
	} {
		assert.Contains(t, printed, line)
	}
}
