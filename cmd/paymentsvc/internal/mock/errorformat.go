package mock

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// ErrorFormats returns the values of Options.ErrorFormat. "fields" replies with the two error fields, and "list" puts
// them into the first element of the list "errors". "shared" adds both fields as null to successes and uses HTTP 200
// for errors. "status" replies with the HTTP status only. "html" is "fields", but a gateway's page for a wrong
// signature.
func ErrorFormats() []string { return []string{"fields", "list", "shared", "status", "html"} }

// CheckErrorFormat returns an error for an unknown format.
func CheckErrorFormat(format string) error {
	if !slices.Contains(ErrorFormats(), format) {
		return errors.New("want one of " + strings.Join(ErrorFormats(), ", "))
	}
	return nil
}

// formatter rewrites the whole JSON responses of the fake. Cut and slow responses stay as they are.
type formatter struct {
	http.ResponseWriter
	opt    *Options
	status int // not written yet
}

// format returns a writer of responses in Options.ErrorFormat.
func (opt *Options) format(w http.ResponseWriter) http.ResponseWriter {
	if opt.ErrorFormat == "" || opt.ErrorFormat == "fields" {
		return w
	}
	return &formatter{ResponseWriter: w, opt: opt}
}

// WriteHeader delays the status until the body, if there is one.
func (f *formatter) WriteHeader(status int) {
	if status < http.StatusOK || f.Header().Get("Content-Length") == "0" {
		f.ResponseWriter.WriteHeader(status)
		return
	}
	f.status = status
}

// Write rewrites the first write if it is the whole body.
func (f *formatter) Write(b []byte) (int, error) {
	if f.status == 0 {
		return f.ResponseWriter.Write(b)
	}
	status, body := f.status, b
	if f.Header().Get("Content-Length") == strconv.Itoa(len(b)) {
		status, body = f.format(status, b)
		f.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	f.status = 0
	f.ResponseWriter.WriteHeader(status)
	if _, err := f.ResponseWriter.Write(body); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError writes the status first.
func (f *formatter) FlushError() error {
	if f.status != 0 {
		f.ResponseWriter.WriteHeader(f.status)
		f.status = 0
	}
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (f *formatter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *formatter) format(status int, body []byte) (int, []byte) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return status, body
	}
	failed := paymentsvc.ErrorFields(f.opt.ErrorCode, f.opt.ErrorMessage)(status, body) != nil
	switch {
	case f.opt.ErrorFormat == "shared" && failed:
		return http.StatusOK, body
	case f.opt.ErrorFormat == "shared":
		for _, name := range []string{f.opt.ErrorCode, f.opt.ErrorMessage} {
			top, _, _ := strings.Cut(name, ".")
			fields[top] = json.RawMessage("null")
		}
		body, _ = json.Marshal(fields) // valid JSON stays valid
	case f.opt.ErrorFormat == "list" && failed:
		body = []byte(`{"errors":[` + string(body) + `]}`)
	case f.opt.ErrorFormat == "status" && failed:
		f.Header().Del("Content-Type")
		return status, nil
	case f.opt.ErrorFormat == "html" && status == http.StatusUnauthorized:
		f.Header().Set("Content-Type", "text/html")
		return status, []byte("<html><title>401 Authorization Required</title></html>")
	}
	return status, body
}
