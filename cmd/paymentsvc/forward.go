package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

const (
	maxShown  = 4 << 10  // of an answer, with -v
	maxAnswer = 10 << 20 // of an answer, passed on
)

// forwarder passes messages on, byte for byte.
type forwarder struct {
	client  *http.Client
	to      *url.URL
	host    string
	timeout time.Duration
}

// answer is what a message is answered with.
type answer struct {
	Status    int    `json:"status"`
	Forwarded bool   `json:"forwarded"`
	Millis    int64  `json:"ms"`
	Error     string `json:"error"`
	Saved     string `json:"saved"`
	Response  string `json:"response"`

	header http.Header
	head   []byte // what is shown of the body
	body   []byte
}

// send forwards a message and returns the receiver's answer. It goes on when the client has gone: the message may be
// half delivered.
func (f *forwarder) send(req *http.Request, body []byte) answer {
	ctx := context.WithoutCancel(req.Context())
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	var dialled dials
	out, err := http.NewRequestWithContext(dialled.trace(ctx), req.Method, f.address(req).String(), io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return answer{Status: http.StatusBadGateway, Error: "the address cannot be requested"}
	}
	out.ContentLength = int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	out.Header = endToEnd(req.Header)
	out.Host = f.host
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or net/http would add its own
	}
	began := time.Now()
	resp, err := f.client.Do(out)
	a := answer{Millis: cli.Millis(time.Since(began))}
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		a.Status, a.Forwarded, a.header = resp.StatusCode, true, endToEnd(resp.Header)
		a.body, err = readAll(io.LimitReader(resp.Body, maxAnswer))
		a.head = a.body[:min(len(a.body), maxShown)]
	}
	if err == nil {
		return a
	}
	a.Status, a.Error = http.StatusBadGateway, dialled.explain(err)
	if errors.Is(err, context.DeadlineExceeded) {
		a.Status = http.StatusGatewayTimeout
	}
	return a
}

// address returns that of -forward, with the path and query of the message where it has none.
func (f *forwarder) address(req *http.Request) *url.URL {
	to := *f.to
	if strings.Trim(to.Path, "/") == "" {
		to.Path, to.RawPath = req.URL.Path, req.URL.RawPath
	}
	if to.RawQuery == "" {
		to.RawQuery = req.URL.RawQuery
	}
	return &to
}

// write writes the answer to the sender.
func (a answer) write(w http.ResponseWriter) {
	if a.Error != "" || !a.Forwarded {
		if accepted(a.Status) {
			w.WriteHeader(a.Status)
			return
		}
		http.Error(w, http.StatusText(a.Status), a.Status)
		return
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length") // the server counts what it writes
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.body) // the sender may have gone
}

// indented returns the lines of an answer's body for output.
func indented(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, "       "+strings.TrimRight(line, "\r\n"))
	}
	return lines
}

func readAll(r io.Reader) ([]byte, error) {
	var buf bytes.Buffer
	_, err := buf.ReadFrom(r)
	return buf.Bytes(), err
}
