//go:build unix

package contract

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// prism is the last release for Node 20. npx keeps it once it has it.
const prism = "@stoplight/prism-cli@5.14.2"

// TestPrismTakesEveryCallAndRefusesWhatIsBroken runs the SDK against Prism, which serves the document and has a
// validator of its own.
func TestPrismTakesEveryCallAndRefusesWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("Prism takes its time to start, and this is a short run")
	}
	s := &service{place: places()[0], base: startPrism(t), http: &http.Client{Timeout: 20 * time.Second}}
	t.Cleanup(s.http.CloseIdleConnections)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: s.scheme(), Secret: secret, Now: now})
	require.NoError(t, err)
	cfg := paymentsvc.Config{
		BaseURL: s.base, PartnerID: partnerID, ProjectID: projectID, Signer: signer, HTTPClient: s.http,
		Retry: paymentsvc.Retry{MaxAttempts: 1},
	}
	unsigned := cfg
	unsigned.Signer = paymentsvc.SignerFunc(func(req *http.Request, body []byte) error {
		err := signer.Sign(req, body)
		req.Header.Del("Signature")
		return err
	})

	for _, o := range readDocument(t).operations() {
		for i, path := range o.paths() {
			t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
				for _, request := range validRequests(t, o) {
					result, err := invoke(t, newClient(t, cfg), o.OperationID, o.paymentType(i), request)
					require.NoError(t, err)
					raw := reflect.ValueOf(result).Elem().FieldByName("Raw").Bytes()
					requireRead(t, o.answer(), raw, result)

					_, err = invoke(t, newClient(t, unsigned), o.OperationID, o.paymentType(i), request)
					requirePrismRefuses(t, err, "signature")
				}
				for _, v := range bodies(t, o.request()) {
					if v.closed {
						continue // Prism reads JSON Schema as it is, where an object may have more members
					}
					require.Equal(t, v.valid, s.taken2xx(t, s.post(path, v.body)), "%s: %s", v.name, v.body)
				}
			})
		}
	}
}

// validRequests are the least and the most that a request can hold.
func validRequests(t *testing.T, o *operation) []any {
	t.Helper()
	if requestType(t, o.OperationID) == nil {
		return []any{nil}
	}
	requests := []any{minimalRequest(t, o).Interface()}
	if o.request().AnyOf == nil {
		return append(requests, fullRequest(t, o.OperationID).Interface())
	}
	return append(requests, paymentsvc.StatusPaymentRequest{UserData: "order-1"})
}

// requirePrismRefuses wants an error whose answer names what is missing.
func requirePrismRefuses(t *testing.T, err error, missing string) {
	t.Helper()
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, http.StatusUnprocessableEntity, failure.HTTPStatus)
	require.Equal(t, paymentsvc.OutcomeRejected, failure.Outcome)
	require.Contains(t, string(failure.Body), missing)
}

// taken2xx sends a message as it is, and says whether it was answered with a success.
func (s *service) taken2xx(t *testing.T, m *message) bool {
	t.Helper()
	resp, err := s.http.Do(m.request())
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	return resp.StatusCode/100 == 2
}

// startPrism starts Prism until the test is over and gives its address. Where npx, or Prism, is not to be had, the test
// is skipped; where Prism is there and does not serve the document, it fails.
func startPrism(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("there is no npx to start Prism with")
	}
	file, err := filepath.Abs(documentFile)
	require.NoError(t, err)

	fetching, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var said bytes.Buffer
	fetch := npx(fetching, "--version")
	fetch.Stdout, fetch.Stderr = &said, &said
	if err := fetch.Run(); err != nil {
		t.Skipf("npx cannot get %s: %v: %s", prism, err, said.String())
	}

	running, stop := context.WithCancel(context.Background()) // t.Context ends before Cleanup can wait
	port := freePort(t)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	server := npx(running, "mock", "--errors", "-h", "127.0.0.1", "-p", port, file)
	server.Stdout, server.Stderr = in, in
	require.NoError(t, server.Start())
	require.NoError(t, in.Close()) // so that out ends with the last process that writes there
	listening, ended := make(chan struct{}), make(chan struct{})
	var log bytes.Buffer
	go func() {
		defer close(ended)
		heard := false
		for lines := bufio.NewScanner(io.TeeReader(out, &log)); lines.Scan(); {
			if !heard && strings.Contains(lines.Text(), "Prism is listening") {
				heard = true
				close(listening)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		_ = server.Wait() // says that it was killed
		<-ended
		_ = out.Close()
		if t.Failed() {
			t.Logf("Prism said:\n%s", &log)
		}
	})
	select {
	case <-listening:
	case <-ended:
		t.Fatal("Prism has ended")
	case <-time.After(time.Minute):
		t.Fatal("Prism does not listen")
	}
	return "http://127.0.0.1:" + port
}

// npx is Prism in a process group of its own, which ends as a whole with ctx: npx starts a shell, and the shell Node.
func npx(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "npx", append([]string{"--yes", "--prefer-offline", prism}, args...)...)
	cmd.Env = append(os.Environ(), "npm_config_update_notifier=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// freePort gives a port that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
