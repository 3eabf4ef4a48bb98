//go:build unix

package contract

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

const prism = "@stoplight/prism-cli@5.14.2"

// TestPrismTakesEveryCallAndRejectsWhatIsBroken runs the SDK against Prism, which serves the document and has a
// validator of its own. It knows no secret, so a request is altered here to one that breaks the document.
func TestPrismTakesEveryCallAndRejectsWhatIsBroken(t *testing.T) {
	base, p := startPrism(t), places()[0]
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: p.scheme(), Secret: secret, Now: now})
	require.NoError(t, err)
	cfg := paymentsvc.Config{BaseURL: base, PartnerID: partnerID, ProjectID: projectID, Signer: signer}
	for _, o := range readDocument(t).operations {
		route := o.routes()[0]
		_, err := invoke(t, newClient(t, cfg), o.id, route.paymentType, minimal(t, o))
		require.NoError(t, err, o.id)

		full := fullBody(t, o.request)
		unsigned := p.post(base+route.path, objectOf(full))
		unsigned.header.Del("Signature")
		for _, m := range []*message{unsigned, p.post(base+route.path, objectOf(with(full, "partner_id", `"text"`)))} {
			resp, err := http.DefaultClient.Do(m.request())
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode, "%s: %s", o.id, m.body)
		}
	}
}

// startPrism starts Prism until the test is over and returns its address.
func startPrism(t *testing.T) string {
	t.Helper()
	if said, err := npx(t.Context(), "--version").CombinedOutput(); err != nil {
		t.Skipf("npx cannot run %s: %v: %s", prism, err, said)
	}
	ctx, stop := context.WithCancel(context.Background()) // t.Context ends before Cleanup can wait
	server := npx(ctx, "mock", "--errors", "-p", "0", documentFile)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { stop(); _ = server.Wait() }) // which says that it was killed
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at := regexp.MustCompile(`listening on (http://[0-9.:]+)`).FindStringSubmatch(lines.Text()); at != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // or Prism would wait for its log to be read
			return at[1]
		}
		t.Log(lines.Text())
	}
	t.Fatal("Prism has ended")
	return ""
}

// npx is Prism in a process group of its own, which ends as a whole with ctx: npx starts a shell, and the shell Node.
func npx(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "npx", append([]string{"--yes", "--prefer-offline", prism}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
