package main

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// observer serves the interface and writes a line for each request, and one for each that the mock refused by
// itself. No line holds anything of a body.
type observer struct {
	mock     *paymentsvctest.Server
	basePath string
	log      *slog.Logger

	mu   sync.Mutex
	seen int // rejected requests that have their line
}

// ServeHTTP passes on the panic by which net/http is told to break a connection off.
func (o *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	seen := &observedWriter{ResponseWriter: w}
	whole := false
	defer func() {
		outcome := slog.Int("http_status", seen.status)
		broken := !whole || seen.status == 0
		if broken {
			outcome = slog.String("outcome", "broken off")
		}
		o.log.Info("request", "endpoint", o.endpoint(r), outcome, "duration", time.Since(start).Round(time.Microsecond))
		if broken || seen.status >= http.StatusBadRequest {
			o.refusals()
		}
	}()
	o.mock.ServeHTTP(seen, r)
	whole = true
}

// endpoint names a request by its path, of which a caller may send any length.
func (o *observer) endpoint(r *http.Request) string {
	name := strings.TrimPrefix(r.URL.Path, o.basePath+"/")
	return name[:min(len(name), 100)]
}

// refusals writes the lines of the requests refused since the last time.
func (o *observer) refusals() {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.mock.Rejected()
	for _, r := range list[o.seen:] {
		o.log.Info("refused", "endpoint", r.Endpoint[:min(len(r.Endpoint), 100)], "number", r.Number,
			"problem", r.Problem, "reason", reasonFor(o.mock, r))
	}
	o.seen = len(list)
}

// reasonFor says why a request was refused: for a wrong signature also what it is the signature of, if that is
// known. It leaves out the excerpts of the canonical strings, which are made of what was sent.
func reasonFor(mock *paymentsvctest.Server, r paymentsvctest.Rejection) string {
	for _, f := range mock.SignatureFaults() {
		if f.Endpoint == r.Endpoint && f.Number == r.Number && f.Reason != r.Message {
			reason, _, _ := strings.Cut(f.Reason, "; Server.Watch") // a hint for tests in Go
			return r.Message + ": " + reason
		}
	}
	return r.Message
}

// observedWriter sees how a request is answered.
type observedWriter struct {
	http.ResponseWriter
	status int
}

func (w *observedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *observedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap returns http.ResponseController everything else. A connection that is taken to be broken off has no status.
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
