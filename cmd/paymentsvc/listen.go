package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func listenCommand() cli.Command {
	return cli.Command{
		Name:    "listen",
		Summary: "Receive notifications, verify them and forward them to your program",
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "tolerance",
			"timestamp-header", "signature-header", "timeout", "count", "v"),
			cli.Flag{Name: "addr", Value: "HOST:PORT", Default: "localhost:9000", Usage: "address; localhost is both loopbacks, port 0 a free port"},
			cli.Flag{Name: "forward", Value: "URL", Usage: "where to forward; without a path, to the path that was requested"},
			cli.Flag{Name: "host", Value: "HOST", Usage: "Host header of forwarded messages (default: that of -forward)"},
			cli.Flag{Name: "forward-timeout", Kind: cli.Duration, Value: "DURATION", Default: "30s", Usage: "time for an answer; 0 is no limit"},
			cli.Flag{Name: "forward-all", Kind: cli.Bool, Usage: "forward messages that are not valid too"},
			cli.Flag{Name: "save", Kind: cli.File, Value: "DIR", Usage: "save each message that failed, byte for byte"},
		),
		Notes: "It answers with the receiver's status, with 502 or 504 if it gets none, and with 401 or 400 where it does not\n" +
			"forward. Without -forward it answers a valid message with 200. These statuses are this command's choice.\n" +
			"Exit codes with -count: 0 all were valid and accepted, 1 one was not, 124 -timeout passed before.",
		Examples: []string{
			"paymentsvc listen -forward http://127.0.0.1:3000/hook -tolerance 5m -save failed",
			"paymentsvc listen -addr 127.0.0.1:0 -tolerance 5m -count 1 -timeout 30s -json",
		},
		Run: runListen,
	}
}

// inbox is a running listen.
type inbox struct {
	c        *cli.Call
	verifier *verifier
	forward  *forwarder // nil without -forward
	all      bool
	count    int64
	stop     context.CancelFunc

	mu      sync.Mutex
	counts  counts
	saveErr error
}

// counts is the summary.
type counts struct {
	Received  int64 `json:"received"`
	Valid     int64 `json:"valid"`
	Forwarded int64 `json:"forwarded"`
	Failed    int64 `json:"failed"`
	answered  int64
}

func runListen(ctx context.Context, c *cli.Call) error {
	verifier, err := newVerifier(c, paymentsvc.KindNotification)
	if err != nil {
		return err
	}
	target, err := webAddress(c, "forward")
	if err != nil {
		return err
	}
	if c.Int("count") < 0 {
		return c.Fail("count", "negative")
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	r := &inbox{c: c, verifier: verifier, all: c.Bool("forward-all"), count: c.Int("count"), stop: stop}
	to, arrow := "", ""
	if target != nil {
		r.forward = &forwarder{newClient(), target, c.Text("host"), c.Duration("forward-timeout")}
		to = shownAddress(target)
		arrow = " -> " + to
	}
	if c.Set("save") {
		if err := os.MkdirAll(c.Text("save"), 0o700); err != nil {
			return fmt.Errorf("-save: %w", err)
		}
	}
	listeners, err := cli.Listen(ctx, c.Text("addr"))
	if err != nil {
		return err
	}
	addresses := make([]string, 0, len(listeners))
	for _, l := range listeners {
		addresses = append(addresses, "http://"+l.Addr().String())
	}
	c.Print("ready", struct {
		Addresses []string `json:"addresses"`
		Forward   string   `json:"forward"`
	}{addresses, to}, "ready  "+strings.Join(addresses, ", ")+arrow)
	err = cli.Serve(serving, cli.NewServer(r), listeners, 0)
	return r.end(ctx, err)
}

// end prints the summary and decides the exit code.
func (r *inbox) end(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.counts
	r.c.Print("summary", n, fmt.Sprintf("       %d received, %d valid, %d forwarded, %d failed", n.Received, n.Valid, n.Forwarded, n.Failed))
	ended := cli.Ended(ctx)
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case err != nil:
		return err
	case r.saveErr != nil:
		return fmt.Errorf("-save: %w", r.saveErr)
	case r.count > 0 && n.answered < r.count:
		return ended
	case timedOut && n.answered == 0:
		return ended
	case n.Failed > 0 && (r.count > 0 || timedOut):
		return cli.No()
	}
	return nil
}

// arrive returns the number of a message, 0 once there are enough.
func (r *inbox) arrive() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count > 0 && r.counts.Received == r.count {
		return 0
	}
	r.counts.Received++
	return r.counts.Received
}

// ServeHTTP receives one message.
func (r *inbox) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost { // such as a browser's or a health check's GET
		r.c.Note("%s is not counted: a notification is a POST", req.Method)
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	n := r.arrive()
	if n == 0 {
		w.Header().Set("Connection", "close")
		http.Error(w, "the number of messages to receive is reached", http.StatusServiceUnavailable)
		return
	}
	body, verdict := r.read(w, req)
	r.printReceived(n, verdict)
	a := r.handle(w, req, body, &verdict)
	failed := !verdict.Valid || !accepted(a.Status)
	if failed && r.c.Set("save") {
		a.Saved = r.saveMessage(n, req, body)
	}
	r.printAnswered(n, a)
	a.write(w) // last, so that a client with an answer finds the file
	r.finish(verdict, a, failed)
}

// read reads and verifies a message.
func (r *inbox) read(w http.ResponseWriter, req *http.Request) ([]byte, verdict) {
	body, err := readAll(http.MaxBytesReader(w, req.Body, maxMessage))
	if err == nil {
		return body, r.verifier.verify(req, body)
	}
	v := verdict{Reason: "body_unreadable", Message: "the body broke off", summary: summary{Bytes: len(body)}}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		v.Reason, v.Message = "body_too_large", "the body has more than 1 MiB"
	}
	return body, v
}

// handle forwards a message, or decides the answer itself.
func (r *inbox) handle(w http.ResponseWriter, req *http.Request, body []byte, v *verdict) answer {
	broken := v.Reason == "body_unreadable" || v.Reason == "body_too_large"
	genuine := v.Valid || v.Reason == "malformed_notification" // the service has signed it, and recently
	if r.forward != nil && !broken && (genuine || r.all) {
		return r.forward.send(req, body)
	}
	a := answer{Status: http.StatusOK}
	switch v.Reason {
	case "":
	case "body_too_large":
		w.Header().Set("Connection", "close")
		a.Status = http.StatusRequestEntityTooLarge
	case "body_unreadable", "empty_body", "malformed_notification":
		a.Status = http.StatusBadRequest
	default:
		a.Status = http.StatusUnauthorized
	}
	return a
}

func (r *inbox) finish(v verdict, a answer, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.answered++
	if v.Valid {
		r.counts.Valid++
	}
	if a.Forwarded {
		r.counts.Forwarded++
	}
	if failed {
		r.counts.Failed++
	}
	if r.count > 0 && r.counts.answered == r.count {
		r.stop()
	}
}

func (r *inbox) printReceived(n int64, v verdict) {
	lines := v.lines()
	word := "valid"
	switch {
	case !v.Valid:
		word = "wrong: " + v.Message
	case v.OldSecret:
		word = "valid, with the old secret"
	}
	lines[0] = fmt.Sprintf("%s #%d --> %s  %s", r.clock(), n, v.summary, word)
	r.c.Print("received", struct {
		N    int64     `json:"n"`
		Time time.Time `json:"time"`
		verdict
	}{n, r.c.Now().UTC(), v}, lines...)
}

func (r *inbox) clock() string { return r.c.Now().Format(time.TimeOnly) }

func (r *inbox) printAnswered(n int64, a answer) {
	line := fmt.Sprintf("%s #%d <-- %d", r.clock(), n, a.Status)
	switch {
	case a.Error != "":
		line += ": " + a.Error
	case a.Forwarded:
		line += fmt.Sprintf(" in %dms", a.Millis)
	case r.forward != nil:
		line += ", not forwarded"
	}
	if a.Saved != "" {
		line += "; saved " + a.Saved
	}
	lines := []string{line}
	if r.c.Verbose() {
		a.Response = r.verifier.keys[0].Mask(string(a.head))
		lines = append(lines, indented(a.Response)...)
	}
	r.c.Print("answered", struct {
		N int64 `json:"n"`
		answer
	}{n, a}, lines...)
}

// saveMessage writes a message to a new file and returns the file's name, "" after an error.
func (r *inbox) saveMessage(n int64, req *http.Request, body []byte) string {
	name, err := saveCapture(r.c, "save", n, captureOf(req, body))
	if err != nil {
		r.c.Note("-save: %v", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.saveErr = err
	}
	return name
}

// captureOf returns a request that arrived. What ends TLS before a program usually says so in X-Forwarded-Proto.
func captureOf(req *http.Request, body []byte) capture.Message {
	address := *req.URL
	if asked, err := url.ParseRequestURI(req.RequestURI); err == nil {
		address = *asked
	}
	address.Scheme, address.Host = "http", req.Host
	if req.TLS != nil || strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "https") {
		address.Scheme = "https"
	}
	return capture.Message{Method: req.Method, URL: &address, Header: req.Header, Body: body}
}

// saveCapture writes a message to a new file in the directory that a flag names, and returns the file's name.
func saveCapture(c *cli.Call, flag string, n int64, m capture.Message) (string, error) {
	if err := os.MkdirAll(c.Text(flag), 0o700); err != nil {
		return "", err
	}
	var text bytes.Buffer
	err := capture.Write(&text, m)
	name := fmt.Sprintf("%04d.http", n)
	for again := 2; err == nil; again++ {
		if err = createFile(filepath.Join(c.Text(flag), name), text.Bytes()); err == nil {
			return path.Join(filepath.ToSlash(c.Value(flag).Texts[0]), name), nil
		}
		if errors.Is(err, fs.ErrExist) { // of an earlier run
			name, err = fmt.Sprintf("%04d-%d.http", n, again), nil
		}
	}
	return "", err
}
