package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestClientsOfTheMock(t *testing.T) {
	dir := t.TempDir()
	program, ready := filepath.Join(dir, "paymentsvc"), filepath.Join(dir, "ready.json")
	output, err := exec.CommandContext(t.Context(), "go", "-C", "../..", "build", "-o", program, "./cmd/paymentsvc").CombinedOutput()
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
	for _, client := range [][]string{{"node", "--test", "client.test.mjs"}, {"python3", "client_test.py"}} {
		t.Run(client[0], func(t *testing.T) {
			if _, err := exec.LookPath(client[0]); err != nil {
				t.Skipf("there is no %s here: %v", client[0], err)
			}
			cmd := exec.CommandContext(t.Context(), client[0], client[1:]...)
			cmd.Env = append(os.Environ(), "READY_FILE="+ready, "SECRET=a test key")
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		})
	}
}
