// Package clients tests paymentsvc mock with clients in Node and Python, as partners write them. They use only standard
// libraries, except a shop in FastAPI.
package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const secret = "a test key"

// mock is the mock server in a separate process.
type mock struct {
	*exec.Cmd
	file       string
	BaseURL    string `json:"base_url"`
	ControlURL string `json:"control_url"`
}

// startMock builds and starts the mock server. It ends with the test.
func startMock(t *testing.T, args ...string) *mock {
	t.Helper()
	dir := t.TempDir()
	program, key := filepath.Join(dir, "paymentsvc"), filepath.Join(dir, "secret.txt")
	build := exec.CommandContext(t.Context(), "go", "-C", "../../..", "build", "-o", program, "./cmd/paymentsvc")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.WriteFile(key, []byte(secret), 0o600))
	m := &mock{file: filepath.Join(dir, "ready.json")}
	args = append([]string{"mock", "-addr", "127.0.0.1:0", "-secret-file", key, "-ready-file", m.file}, args...)
	m.Cmd = exec.CommandContext(t.Context(), program, args...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { _ = m.Wait() }) // the context ends it
	for json.Unmarshal(read(m.file), m) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return m
}

func TestClientsOfTheMock(t *testing.T) {
	m := startMock(t, "-balance", "100.00")
	for _, client := range [][]string{
		{"node", "--test", "client.test.mjs"}, {"python3", "client_test.py"}, {"/usr/bin/python3", "fastapi_test.py"},
	} {
		t.Run(client[len(client)-1], func(t *testing.T) {
			if _, err := exec.LookPath(client[0]); err != nil {
				t.Skipf("%s is missing: %v", client[0], err)
			}
			if client[1] == "fastapi_test.py" {
				needPython(t, client[0], "fastapi", "uvicorn")
			}
			cmd := exec.CommandContext(t.Context(), client[0], client[1:]...)
			cmd.Env = append(os.Environ(), "READY_FILE="+m.file, "SECRET="+secret)
			output, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", output)
		})
	}
}

// needPython skips the test without a module.
func needPython(t *testing.T, python string, modules ...string) {
	t.Helper()
	program := "import " + strings.Join(modules, ", ")
	output, err := exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput()
	if err != nil {
		packages := strings.Join(modules, " python3-")
		t.Skipf("a module is missing: on Debian, apt-get install python3-%s: %s", packages, output)
	}
}

func TestPageOfFastAPIQuotesItsTest(t *testing.T) {
	page, test := string(read("../../../docs/fastapi.md")), string(read("fastapi_test.py"))
	blocks := strings.Split(page, "```python\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		assert.Contains(t, test, code)
	}
}

func TestMockAnswersRequestsInFlightAtSIGTERM(t *testing.T) {
	m := startMock(t, "-grace", "1m")
	post := func(path, body string) {
		resp, err := http.Post(m.ControlURL+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Less(t, resp.StatusCode, 300, path)
	}
	post("/faults", `{"on":"init_payment","fault":"slow 5ms"}`)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
		Secret: secret,
	})
	require.NoError(t, err)
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: m.BaseURL, PartnerID: 1001, ProjectID: 2002, Signer: signer,
	})
	require.NoError(t, err)
	answered := make(chan error)
	go func() {
		_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
			Amount: paymentsvc.MustParseAmount("1"), UserData: "order-1",
		})
		answered <- err
	}()
	post("/expect", `{"that":"messages","endpoint":"init_payment","within":"1m"}`)
	require.NoError(t, m.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-answered)
	require.NoError(t, m.Wait())
}

// read returns a file, or nil if it does not exist.
func read(file string) []byte {
	text, _ := os.ReadFile(file)
	return text
}
