package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// process is the command in a process of its own.
type process struct {
	*exec.Cmd
	address string
	log     chan string // lines of its log
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // kills one that does not end
	t.Cleanup(cancel)
	p := &process{log: make(chan string, 100)}
	p.Cmd = exec.CommandContext(ctx, os.Args[0], append([]string{"-addr", "127.0.0.1:0", "-secret-file", fileWith(t, testSecret)}, args...)...)
	p.Env = append(os.Environ(), asProcess+"=1")
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	stderr, err := p.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.address, _ = addresses(t, stdout)
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.log <- lines.Text()
		}
	}()
	return p
}

// waitFor reads the log up to a line with text.
func (p *process) waitFor(t *testing.T, text string) {
	t.Helper()
	for line := range p.log {
		if strings.Contains(line, text) {
			return
		}
	}
	t.Fatalf("the process has ended without a line with %q", text)
}

// halfSent sends the header of a signed get_balance, and gives what remains to be sent once the server waits for it.
func (p *process) halfSent(t *testing.T) (conn net.Conn, answer *bufio.Reader, body string) {
	t.Helper()
	body = fmt.Sprintf(`{"partner_id":%d,"project_id":%d}`, demoPartnerID, demoProjectID)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.address+"/get_balance", nil)
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

func TestARequestUnderWayIsAnsweredBeforeTheProcessEnds(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startProcess(t, "-grace", "50s")
			conn, answer, body := p.halfSent(t)
			require.NoError(t, p.Process.Signal(signal))
			p.waitFor(t, "msg=stopping")
			require.Eventually(t, func() bool {
				another, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.address, "http://"))
				if err == nil {
					_ = another.Close()
				}
				return err != nil
			}, 10*time.Second, 5*time.Millisecond, "it takes new connections")

			_, err := io.WriteString(conn, body)
			require.NoError(t, err)
			resp, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.JSONEq(t, `{"payout_balance":0,"expected_balance":0,"currency":"XTS"}`, string(text))
			p.waitFor(t, "msg=stopped")
			require.NoError(t, p.Wait(), "the exit status")
		})
	}
}

func TestARequestThatHangsOnPurposeIsCutOffInTheEnd(t *testing.T) {
	p := startProcess(t, "-grace", "50ms")
	fault := url.Values{"which": {"every"}, "usual": {"hang before"}}
	resp, err := http.PostForm(p.address+"/ui/faults/requests", fault)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()

	conn, answer, body := p.halfSent(t)
	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	p.waitFor(t, "cut off what was still under way")
	_, err = http.ReadResponse(answer, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	p.waitFor(t, "msg=stopped")
	require.NoError(t, p.Wait(), "the exit status")
}
