// Package stranger_test uses the module as somebody does who has an empty module and a module proxy.
package stranger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	root    = "../.."
	sdk     = "github.com/paymentsvc/paymentsvc"
	version = "v1.0.0"
)

// program imports every package that a partner does.
const program = `package main

import (
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func main() {
	_, _ = canonical.Literal(""), paymentsvctest.AllFaults()
	fmt.Println(paymentsvc.InterfaceVersion)
}
`

func TestStrangerUsesTheModule(t *testing.T) {
	for _, toolchain := range []string{"go1.26.8", "go1.27.3"} { // the supported releases of Go
		t.Run(toolchain, func(t *testing.T) {
			s := newStranger(t, toolchain)
			s.run("mod", "init", "example.com/stranger")
			s.run("get", sdk+"@"+version)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "main.go"), []byte(program), 0o600))
			assert.Equal(t, "1.0.0\n", s.run("run", "."))
			assert.Contains(t, s.run("run", sdk+"/examples/quickstart"), "payment SUCCESS              200  taken")
			assert.Equal(t, []string{"github.com/google/uuid", sdk}, s.downloaded())

			s.run("mod", "tidy")
			mod, err := os.ReadFile(filepath.Join(s.dir, "go.mod"))
			require.NoError(t, err)
			var required []string
			for _, line := range regexp.MustCompile(`(\S+) v\d`).FindAllStringSubmatch(string(mod), -1) {
				required = append(required, line[1])
			}
			assert.ElementsMatch(t, []string{"github.com/google/uuid", sdk}, required)
		})
	}
}

type stranger struct {
	*testing.T
	goCommand, dir, cache string
	env                   []string
}

func newStranger(t *testing.T, toolchain string) *stranger {
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
	// The work tree and what this machine has downloaded come before its proxy.
	proxies := fmt.Sprintf("file://%s,file://%s/cache/download,%s", publish(t), machine.GOMODCACHE, machine.GOPROXY)
	s.env = append(os.Environ(), "GOROOT="+machine.GOROOT, "GOTOOLCHAIN=local", "GOPROXY="+proxies, "GOMODCACHE="+s.cache, "GONOPROXY=none",
		"GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GOWORK=off")
	return s
}

// run returns what a go command prints.
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

// downloaded returns the modules whose code is in the stranger's cache, but for Go itself. go mod tidy adds the modules
// of the tests of what is imported.
func (s *stranger) downloaded() (modules []string) {
	archives, err := filepath.Glob(filepath.Join(s.cache, "cache/download/*/*/*/@v/*.zip"))
	require.NoError(s, err)
	for _, archive := range archives {
		name, err := filepath.Rel(filepath.Join(s.cache, "cache/download"), filepath.Dir(filepath.Dir(archive)))
		require.NoError(s, err)
		modules = append(modules, filepath.ToSlash(name))
	}
	return modules
}

// publish returns a module proxy, a directory, that has the work tree as version.
func publish(t *testing.T) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	versions := filepath.Join(proxy, sdk, "@v")
	require.NoError(t, os.MkdirAll(versions, 0o750))
	var archive bytes.Buffer
	require.NoError(t, modzip.CreateFromDir(&archive, module.Version{Path: sdk, Version: version}, root))
	assert.Less(t, archive.Len(), 2_000_000, "bytes that every user downloads")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": []byte(`{"Version":"` + version + `"}`),
		version + ".mod": mod, version + ".zip": archive.Bytes(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(versions, name), content, 0o600))
	}
	return proxy
}
