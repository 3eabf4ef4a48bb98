package main

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// observer serves the interface and logs a line for each request, and one for each that the mock itself rejected. No
// line holds anything of a body.
type observer struct {
	mock     *paymentsvctest.Server
	basePath string
	log      *slog.Logger

	mu   sync.Mutex
	seen int // rejected requests that have their line
}

// ServeHTTP passes on the panic that tells net/http to abort a connection.
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

// endpoint returns a short name for a path, which may be of any length.
func (o *observer) endpoint(r *http.Request) string {
	name := strings.TrimPrefix(r.URL.Path, o.basePath+"/")
	return name[:min(len(name), 100)]
}

// refusals logs the requests that were rejected since the last call.
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

// reasonFor says why a request was rejected; for a wrong signature also how it was made, if that is known. It leaves
// out the excerpts of canonical strings, which are made of what was sent.
func reasonFor(mock *paymentsvctest.Server, r paymentsvctest.Rejection) string {
	for _, f := range mock.SignatureFaults() {
		if f.Endpoint == r.Endpoint && f.Number == r.Number && f.Reason != r.Message {
			reason, _, _ := strings.Cut(f.Reason, "; Server.Watch") // a hint for tests in Go
			return r.Message + ": " + reason
		}
	}
	return r.Message
}

// observedWriter records the status of an answer.
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

// Unwrap is for http.ResponseController. A hijacked connection has no status.
func (w *observedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
