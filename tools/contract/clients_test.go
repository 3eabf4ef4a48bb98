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

// TestClientsOfTheMock runs the tests in clients, which partners could write in Node and Python. The test in Node uses
// only the standard library.
func TestClientsOfTheMock(t *testing.T) {
	m := startMock(t, "-secret-file", secretFile(t), "-balance", "100.00")
	for _, test := range []struct{ available, command []string }{
		{[]string{"node", "--version"}, []string{"node", "--test", "client.test.mjs"}},
		{
			[]string{"/usr/bin/python3", "-c", "import fastapi, uvicorn"}, // Debian: python3-fastapi, python3-uvicorn
			[]string{"/usr/bin/python3", "fastapi_test.py"},
		},
	} {
		t.Run(test.command[len(test.command)-1], func(t *testing.T) {
			run := func(command []string) ([]byte, error) {
				cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
				cmd.Dir, cmd.Env = "clients", append(os.Environ(), "READY_FILE="+m.readyFile, "SECRET="+secret)
				return cmd.CombinedOutput()
			}
			if output, err := run(test.available); err != nil {
				t.Skipf("%v: %v: %s", test.available, err, output)
			}
			output, err := run(test.command)
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

func TestPageOfFastAPIQuotesItsTest(t *testing.T) {
	page, err := os.ReadFile("../../docs/fastapi.md")
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
