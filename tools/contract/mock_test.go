package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// controlCall is a call of the mock's control API. wrong marks a request that the document does not allow.
type controlCall struct {
	method, path, body string
	status             int
	wrong              bool
}

// TestMockControlAPIFitsItsDescription calls every operation of paymentsvc mock, and compares requests and responses
// with the OpenAPI document of the mock server.
func TestMockControlAPIFitsItsDescription(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	control := startMock(t, "-show-bodies", "-notify", receiver.URL).ControlURL
	document, err := http.Get(control + "/openapi.json")
	require.NoError(t, err)
	text, err := io.ReadAll(document.Body)
	require.NoError(t, err)
	paths := readDocument(t, text, true).Paths

	called := map[*operation]bool{paths["/openapi.json"]["get"]: true}
	for _, c := range controlCalls {
		m := &message{method: c.method, url: control + c.path, header: http.Header{}, body: []byte(c.body)}
		if c.body != "" {
			m.header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(m.request())
		require.NoError(t, err)
		m.status, m.responseHeader = resp.StatusCode, resp.Header
		m.responseBody, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, c.status, m.status, "%s %s: %s", c.method, c.path, m.responseBody)
		path, _, _ := strings.Cut(c.path, "?")
		path = pathIDs.ReplaceAllString(strings.Replace(path, "/sessions/t1", "/sessions/{name}", 1), "/{id}$1")
		o := paths[path][strings.ToLower(c.method)]
		require.NotNil(t, o, c.path)
		require.Equal(t, c.wrong, o.checkRequest(m) != nil, "%s %s %s", c.method, c.path, c.body)
		require.NoError(t, o.checkResponse(m), "%s %s: %s", c.method, c.path, m.responseBody)
		called[o] = called[o] || c.status < 300
	}
	for path, operations := range paths {
		for method, o := range operations {
			require.True(t, called[o], "%s %s has not succeeded", method, path)
		}
	}
}

// pathIDs matches the ids of orders, faults, messages and notifications in a path of controlCalls.
var pathIDs = regexp.MustCompile(`/(?:[0-9][0-9-]*|none)(/|$)`)

var controlCalls = []controlCall{
	{"GET", "/service.yaml", "", 200, false},
	{"GET", "/health", "", 200, false},
	{"GET", "/settings", "", 200, false},
	{"PATCH", "/settings", `{"script":["user_data=slow: SUCCESS after 1h"]}`, 200, false},
	{"POST", "/orders", `{"amount":"10.50","user_data":"order-1","kind":"payment"}`, 201, false},
	{"POST", "/orders", `{"amuont":"10.50","amount":"1"}`, 400, true},
	{"GET", "/orders?user_data=order-1&limit=1", "", 200, false},
	{"GET", "/orders/" + startedOrderID, "", 200, false},
	{"GET", "/orders/none", "", 404, false},
	{"POST", "/orders/" + startedOrderID + "/settle", `{"status":"SUCCESS","after":"1h"}`, 202, false},
	{"POST", "/orders/" + startedOrderID + "/settle", `{"status":"SUCCESS"}`, 200, false},
	{"POST", "/orders/" + startedOrderID + "/settle", `{"status":"FAILURE"}`, 409, false},
	{"POST", "/orders/" + startedOrderID + "/refund", `{"amount":"0.50"}`, 200, false},
	{"GET", "/notifications", "", 200, false},
	{"POST", "/notifications", `{"order_id":"` + startedOrderID + `","faults":["forged"]}`, 200, false},
	{"POST", "/notifications", `{"body":"{}"}`, 200, false},
	{"POST", "/notifications/deliver", "", 200, false},
	{"POST", "/notifications/1/resend", `{"sign":"as_sent"}`, 200, false},
	{
		"POST", "/faults",
		`{"on":"init_payment","which":"first","n":1,"fault":"drop after","where":{"user_data":"a"}}`, 201, false,
	},
	{"GET", "/faults", "", 200, false},
	{"GET", "/faults/1", "", 200, false},
	{"POST", "/faults/1/release", "", 200, false},
	{"DELETE", "/faults/1", "", 204, false},
	{"GET", "/messages?direction=out&wait=1s", "", 200, false},
	{"GET", "/messages/1", "", 200, false},
	{"GET", "/messages/1/raw", "", 200, false},
	{"POST", "/expect", `{"that":"delivered","user_data":"order-1","at_least":1,"within":"1s"}`, 200, false},
	{"POST", "/expect", `{"that":"started","user_data":"order-2","count":1}`, 409, false},
	{"GET", "/clock", "", 200, false},
	{"PUT", "/clock", `{"frozen":true}`, 200, false},
	{"POST", "/clock/advance", `{"by":"2h"}`, 200, false},
	{"POST", "/faults", `{"on":"get_balance","fault":"reset"}`, 201, false},
	{"POST", "/sessions", `{"name":"t1","projects":[{"id":1,"secret":"a secret"}]}`, 201, false},
	{"GET", "/sessions", "", 200, false},
	{"DELETE", "/sessions/t1", "", 204, false},
	{"DELETE", "/faults", "", 204, false},
	{"POST", "/drain", "", 200, false},
	{"POST", "/reset", `{"what":"all"}`, 200, false},
	{"POST", "/stop", "", 202, false},
}

// mockProcess is the mock server in a separate process.
type mockProcess struct {
	*exec.Cmd
	readyFile  string
	PID        int    `json:"pid"`
	BaseURL    string `json:"base_url"`
	ControlURL string `json:"control_url"`
}

// startMock builds the command, and starts the mock server for the test.
func startMock(t *testing.T, args ...string) *mockProcess {
	t.Helper()
	dir := t.TempDir()
	program, ready := filepath.Join(dir, "paymentsvc"), filepath.Join(dir, "ready.json")
	build := exec.CommandContext(t.Context(), "go", "-C", "../..", "build", "-o", program, "./cmd/paymentsvc")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	args = append([]string{"mock", "-addr", "127.0.0.1:0", "-ready-file", ready}, args...)
	m := &mockProcess{Cmd: exec.CommandContext(t.Context(), program, args...), readyFile: ready}
	stdout, err := m.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, m.Start())
	t.Cleanup(func() { _ = m.Wait() }) // the test or its context has ended the process
	_, err = stdout.Read(make([]byte, 1))
	require.NoError(t, err, "the mock server has not started")
	text, err := os.ReadFile(ready)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, m))
	require.Equal(t, m.Process.Pid, m.PID)
	return m
}

// TestClientsOfTheMock runs the tests of the directory clients. Partners could write such tests in Node and Python. All
// tests use only standard libraries, except the FastAPI shop.
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
				modules := exec.CommandContext(t.Context(), client[0], "-c", "import fastapi, uvicorn")
				if output, err := modules.CombinedOutput(); err != nil {
					t.Skipf("a module is missing: on Debian, apt-get install python3-fastapi python3-uvicorn: %s", output)
				}
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
