package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// halfSent sends the header of a signed get_balance, and returns what remains to be sent once the server waits for it.
func (r *running) halfSent(t *testing.T) (conn net.Conn, answer *bufio.Reader, body string) {
	t.Helper()
	body = fmt.Sprintf(`{"partner_id":%d,"project_id":%d}`, demoPartnerID, demoProjectID)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address+"/get_balance", nil)
	require.NoError(t, err)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: mustScheme(t), Secret: testSecret})
	require.NoError(t, err)
	require.NoError(t, signer.Sign(req, []byte(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")

	conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", req.URL.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /get_balance HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", req.URL.Host, len(body))
	require.NoError(t, err)
	require.NoError(t, req.Header.Write(conn))
	_, err = io.WriteString(conn, "\r\n")
	require.NoError(t, err)
	answer = bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = answer.ReadString('\n')
	require.NoError(t, err)
	return conn, answer, body
}

// signal sends a signal to this process, which the program takes.
func (r *running) signal(s os.Signal) {
	r.t.Helper()
	process, err := os.FindProcess(os.Getpid())
	require.NoError(r.t, err)
	require.NoError(r.t, process.Signal(s))
}

// waitFor polls without a limit: a test that hangs is ended by go test.
func waitFor(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}

func (r *running) waitForLog(text string) {
	waitFor(func() bool { return strings.Contains(r.stderr.String(), text) })
}

func TestSignalLetsARequestInFlightEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself a signal")
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			r := start(t, "-grace", "1h")
			conn, answer, body := r.halfSent(t)
			r.signal(signal)
			r.waitForLog("msg=stopping")
			waitFor(func() bool { // until it takes no new connections
				another, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.address, "http://"))
				if err == nil {
					_ = another.Close()
				}
				return err != nil
			})

			_, err := io.WriteString(conn, body)
			require.NoError(t, err)
			resp, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.JSONEq(t, `{"payout_balance":0,"expected_balance":0,"currency":"XTS"}`, string(text))
			r.wait() // and checks the exit status
			require.Contains(t, r.stderr.String(), "msg=stopped")
		})
	}
}

func TestGraceEndsARequestThatHangs(t *testing.T) {
	r := start(t, "-grace", "50ms")
	r.press("faults/requests", url.Values{"which": {"every"}, "usual": {"hang before"}})
	http.DefaultClient.CloseIdleConnections()

	conn, answer, body := r.halfSent(t)
	_, err := io.WriteString(conn, body)
	require.NoError(t, err)
	r.cancel()
	_, err = http.ReadResponse(answer, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	r.wait()
	require.Contains(t, r.stderr.String(), "cut off what was still under way")
	require.Contains(t, r.stderr.String(), "msg=stopped")
}
