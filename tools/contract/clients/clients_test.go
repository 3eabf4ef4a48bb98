package clients

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestClientsOfTheMock(t *testing.T) {
	dir := t.TempDir()
	program, ready := filepath.Join(dir, "paymentsvc"), filepath.Join(dir, "ready.json")
	output, err := exec.CommandContext(t.Context(), "go", "-C", "../../..", "build", "-o", program, "./cmd/paymentsvc").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	secret := filepath.Join(dir, "secret.txt")
	if err := os.WriteFile(secret, []byte("a test key"), 0o600); err != nil {
		t.Fatal(err)
	}
	mock := exec.CommandContext(t.Context(), program, "mock", "-addr", "127.0.0.1:0", "-secret-file", secret, "-ready-file", ready, "-balance", "100.00")
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mock.Wait() }) // the context has ended it
	for _, client := range [][]string{
		{"node", "--test", "client.test.mjs"}, {"python3", "client_test.py"}, {"/usr/bin/python3", "fastapi_test.py"},
	} {
		t.Run(client[len(client)-1], func(t *testing.T) {
			if _, err := exec.LookPath(client[0]); err != nil {
				t.Skipf("there is no %s here: %v", client[0], err)
			}
			if client[1] == "fastapi_test.py" {
				needPython(t, client[0], "fastapi", "uvicorn")
			}
			cmd := exec.CommandContext(t.Context(), client[0], client[1:]...)
			cmd.Env = append(os.Environ(), "READY_FILE="+ready, "SECRET=a test key")
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		})
	}
}

// needPython skips the test without a module.
func needPython(t *testing.T, python string, modules ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), python, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput()
	if err != nil {
		t.Skipf("a module is missing: on Debian, apt-get install python3-%s: %s", strings.Join(modules, " python3-"), output)
	}
}

func TestPageOfFastAPIQuotesItsTest(t *testing.T) {
	page, test := string(read("../../../docs/fastapi.md")), string(read("fastapi_test.py"))
	blocks := strings.Split(page, "```python\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no block")
	}
	for _, block := range blocks {
		if code, _, _ := strings.Cut(block, "```"); !strings.Contains(test, code) {
			t.Errorf("not in fastapi_test.py:\n%s", code)
		}
	}
}

func TestMockAnswersWhatIsInFlightAtSIGTERM(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "paymentsvc"), filepath.Join(dir, "ready.json")
	output, err := exec.CommandContext(t.Context(), "go", "-C", "../../..", "build", "-o", program, "./cmd/paymentsvc").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	mock := exec.CommandContext(t.Context(), program, "mock", "-addr", "127.0.0.1:0", "-ready-file", file, "-grace", "1m")
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mock.Process.Kill() }() // it has ended if all went well
	var ready struct {
		BaseURL    string `json:"base_url"`
		ControlURL string `json:"control_url"`
	}
	for json.Unmarshal(read(file), &ready) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	post := func(address, body string, header ...string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = resp.Body.Close() // its status is enough
		return resp.StatusCode
	}
	post(ready.ControlURL+"/faults", `{"on":"init_payment","fault":"slow 5ms"}`)
	body := `{"partner_id":1001,"project_id":2002,"amount":1.0,"user_data":"order-1"}`
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte("secret-of-the-mock"))
	_, _ = mac.Write([]byte(stamp + "." + body)) // a hash takes everything
	answered := make(chan int, 1)
	go func() {
		answered <- post(ready.BaseURL+"/init_payment/card", body, "timestamp", stamp, "signature", hex.EncodeToString(mac.Sum(nil)))
	}()
	post(ready.ControlURL+"/expect", `{"that":"messages","endpoint":"init_payment","within":"1m"}`)
	if err := mock.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := <-answered; status != http.StatusOK {
		t.Errorf("HTTP %d", status)
	}
	if err := mock.Wait(); err != nil {
		t.Error(err)
	}
}

func read(file string) []byte {
	text, _ := os.ReadFile(file) // nothing, if it is not there yet
	return text
}
