package contract

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// TestClientsOfTheMock runs the tests in clients, which partners could write in Node and Python. All use only standard
// libraries, except the FastAPI shop.
func TestClientsOfTheMock(t *testing.T) {
	m := startMock(t, "-secret-file", secretFile(t), "-balance", "100.00")
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
			cmd.Dir, cmd.Env = "clients", append(os.Environ(), "READY_FILE="+m.readyFile, "SECRET="+secret)
			output, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", output)
		})
	}
}

func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	return file
}

// needPython skips the test if a Python module is missing.
func needPython(t *testing.T, python string, modules ...string) {
	t.Helper()
	program := "import " + strings.Join(modules, ", ")
	output, err := exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput()
	if err != nil {
		packages := strings.Join(modules, " python3-")
		t.Skipf("a module is missing: on Debian, apt-get install python3-%s: %s", packages, output)
	}
}

func TestPageOfFrameworksQuotesTheTestOfFastAPI(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	test, err := os.ReadFile("clients/fastapi_test.py")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```python\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		assert.Contains(t, string(test), code)
	}
}

func TestMockCompletesRequestsInFlightAtSIGTERM(t *testing.T) {
	m := startMock(t, "-secret-file", secretFile(t), "-grace", "1m")
	post := func(path, body string) {
		resp, err := http.Post(m.ControlURL+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Less(t, resp.StatusCode, 300, path)
	}
	post("/faults", `{"on":"init_payment","fault":"slow 5ms"}`)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{ // the default of the mock server
			Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
		Secret: secret,
	})
	require.NoError(t, err)
	client := newClient(t, paymentsvc.Config{
		BaseURL: m.BaseURL, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
	})
	completed := make(chan error)
	go func() {
		_, err := calls["InitPayment"](t.Context(), client, "card", false)
		completed <- err
	}()
	post("/expect", `{"that":"messages","endpoint":"init_payment","within":"1m"}`)
	require.NoError(t, m.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-completed)
	require.NoError(t, m.Wait())
}
