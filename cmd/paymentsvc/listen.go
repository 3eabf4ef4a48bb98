package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

func listenCommand() cli.Command {
	return cli.Command{
		Name:    "listen",
		Summary: "Receive notifications, verify them and forward them to your program",
		Flags: append(cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "cacert", "http2", "tolerance",
			"timestamp-header", "signature-header", "timeout", "count", "v"),
			cli.NewFlag("addr", cli.Text, "HOST:PORT", "address to listen on; localhost is 127.0.0.1 and ::1, port 0 is any").
				With("localhost:9000").Checked(cli.HostPort),
			cli.NewFlag("forward", cli.Address, "URL", "address of your program; without a path, the requested path remains").
				Checked(isReceiver),
			answerFlag("status for a valid message without -forward"),
			cli.NewFlag("host", cli.Text, "HOST", "Host header of forwarded messages (default: the host of -forward)").
				Checked(cli.Host),
			cli.NewFlag("forward-timeout", cli.Duration, "DURATION", "limit for the response; 0 is no limit").With("30s"),
			cli.NewFlag("forward-all", cli.Bool, "", "also forward messages with a wrong signature or timestamp"),
			cli.NewFlag("save", cli.File, "DIR", "save each failed message, byte for byte").Checked(cli.Written),
		),
		Notes: `The sender gets your program's response, or 502 or 504 without a response. An invalid message gets 401, or 400
or 413 for its body. Only -forward-all forwards it, except that a correctly signed but malformed message is always
forwarded, and an incomplete body or a body over 1 MiB never. Without -forward, a valid message gets 503, because a
service with redelivery then sends it again. -answer sets another status. A request other than POST gets 405 and does
not count. These statuses are this command's choice.
Exit codes with -count or -timeout: 0 all messages were valid and accepted, 1 otherwise, 124 if -timeout passed before
the first message or before -count messages.`,
		Examples: []string{
			"paymentsvc listen -forward http://127.0.0.1:3000/hook -tolerance 5m -save failed",
			"paymentsvc listen -addr 127.0.0.1:0 -tolerance 5m -count 1 -timeout 30s -json",
		},
		Run: runListen,
	}
}

// answerFlag returns the flag -answer: the status for an accepted message that the command does not forward.
func answerFlag(usage string) cli.Flag {
	return cli.NewFlag("answer", cli.Int, "STATUS", usage).With("503").Checked(cli.Between(200, 599)).OnLine()
}

// inbox is the state of a listen command.
type inbox struct {
	c         *cli.Call
	verifier  *verifier
	forwarder *forwarder // nil without -forward
	stop      context.CancelFunc

	mu sync.Mutex
	counts
	answered int64 // messages with a response, for -count
	saveErr  error // the latest error of -save
}

// counts has the numbers for the summary.
type counts struct {
	Received  int64 `json:"received"`
	Valid     int64 `json:"valid"`
	Forwarded int64 `json:"forwarded"`
	Failed    int64 `json:"failed"`
}

func runListen(ctx context.Context, c *cli.Call) error {
	verifier, err := newVerifier(c, paymentsvc.KindNotification)
	if err != nil {
		return err
	}
	target := c.Address("forward")
	if target != nil && c.Set("answer") {
		return c.Fail("answer", "not allowed with -forward")
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	r := &inbox{c: c, verifier: verifier, stop: stop}
	answer := int(c.Int("answer"))
	to, does := "", fmt.Sprintf(", responds with %d, does not forward", answer)
	if target != nil {
		transport, err := clientTransport(c)
		if err != nil {
			return err
		}
		r.forwarder = &forwarder{transport, target, c.Text("host"), c.Duration("forward-timeout")}
		to = mask.Query(target.String())
		answer, does = 0, " -> "+to
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
	addresses := cli.Mapped(listeners, func(l net.Listener) string { return "http://" + l.Addr().String() })
	c.Print("ready", cli.Fields{"addresses": addresses, "forward": to, "answer": answer},
		"ready  "+strings.Join(addresses, ", ")+does)
	err = cli.Serve(serving, cli.NewServer(r), listeners, 0)
	return r.end(ctx, err)
}

// end prints the summary and returns an error with the exit code, or nil for success.
func (r *inbox) end(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, count := r.counts, r.c.Int("count")
	r.c.Print("summary", n, fmt.Sprintf("       %d received, %d valid, %d forwarded, %d failed",
		n.Received, n.Valid, n.Forwarded, n.Failed))
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case err != nil:
		return err
	case r.saveErr != nil:
		return r.saveErr
	case r.answered < count || timedOut && r.answered == 0:
		return cli.Ended(ctx)
	case n.Failed > 0 && (count > 0 || timedOut):
		return cli.No()
	}
	return nil
}

// arrive returns the number of a message, or 0 after -count messages.
func (r *inbox) arrive() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if count := r.c.Int("count"); count > 0 && r.Received == count {
		return 0
	}
	r.Received++
	return r.Received
}

// ServeHTTP receives one message.
func (r *inbox) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost { // such as a GET from a browser or a health check
		r.c.Note("rejected a request other than POST, because notifications are POST requests")
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
	body, unread := readMessage(w, req)
	v := unread
	if v == nil {
		v = new(r.verifier.verify(req, body))
	}
	r.printReceived(n, *v)
	genuine := v.Valid || v.Reason == "malformed_notification" // signed by the service, within the tolerance
	a := answer{Status: statusOf(*v, int(r.c.Int("answer")))}
	if r.forwarder != nil && unread == nil && (genuine || r.c.Bool("forward-all")) {
		a = r.forwarder.forward(w, req, body)
	} else {
		w.WriteHeader(a.Status)
		if !v.Valid {
			_, _ = io.WriteString(w, http.StatusText(a.Status)+"\n")
		}
	}
	if r.c.Bool("v") {
		a.Response = shownResponse(r.verifier.keys, a.head, req.Header.Get(r.verifier.signature))
	}
	failed := !v.Valid || r.forwarder != nil && !accepted(a.Status)
	if failed && r.c.Set("save") {
		a.Saved = r.save(n, capture.Received(req, body))
	}
	r.printAnswered(n, a)
	r.count(*v, a, failed)
	if a.aborted != nil {
		panic(a.aborted)
	}
}

// readMessage returns the body of a message. For an unreadable or too long body, it returns the first bytes and a
// verdict.
func readMessage(w http.ResponseWriter, req *http.Request) ([]byte, *verdict) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxMessage))
	s := summary{Bytes: len(body)}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return body, &verdict{Reason: "body_too_large", Message: "the body has more than 1 MiB", summary: s}
	}
	if err != nil {
		return body, &verdict{Reason: "body_unreadable", Message: "the body is incomplete", summary: s}
	}
	return body, nil
}

// statusOf returns the HTTP status for a message that is not forwarded: the argument valid for a valid message, and
// otherwise the status that [paymentsvc.Webhook.Handler] sends.
func statusOf(v verdict, valid int) int {
	switch v.Reason {
	case "":
		return valid
	case "body_too_large":
		return http.StatusRequestEntityTooLarge
	case "body_unreadable", "empty_body", "malformed_notification":
		return http.StatusBadRequest
	}
	return http.StatusUnauthorized
}

func (r *inbox) count(v verdict, a answer, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered++
	if v.Valid {
		r.Valid++
	}
	if a.Forwarded {
		r.Forwarded++
	}
	if failed {
		r.Failed++
	}
	if r.answered == r.c.Int("count") {
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
	lines[0] = fmt.Sprintf("%s #%d --> %s  %s", r.c.Now().Format(time.TimeOnly), n, v.summary, word)
	r.c.Print("received", struct {
		N    int64     `json:"n"`
		Time time.Time `json:"time"`
		verdict
	}{n, r.c.Now().UTC(), v}, lines...)
}

func (r *inbox) printAnswered(n int64, a answer) {
	line := fmt.Sprintf("%s #%d <-- %d", r.c.Now().Format(time.TimeOnly), n, a.Status)
	switch {
	case a.Error != "":
		line += ": " + a.Error
	case a.Forwarded:
		line += fmt.Sprintf(" in %dms", a.Millis)
	case r.forwarder != nil:
		line += ", not forwarded"
	}
	if a.Saved != "" {
		line += "; saved " + a.Saved
	}
	lines := append([]string{line}, indented(a.Response)...)
	r.c.Print("answered", struct {
		N int64 `json:"n"`
		answer
	}{n, a}, lines...)
}

// save writes a message to a new file and returns the file's name. After an error, it sets saveErr and returns "".
func (r *inbox) save(n int64, m capture.Message) string {
	name, err := saveCapture(r.c, n, m)
	if err != nil {
		r.c.Note("%v", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.saveErr = err
	}
	return name
}
