package paymentsvctest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// transmit sends a request to a receiver. prepare sets its header, and returns its body and the length of its body.
func (s *Server) transmit(
	ctx context.Context, to Receiver, prepare func(*http.Request) (io.Reader, int, error),
) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, nil)
	if err != nil {
		return 0, err
	}
	body, length, err := prepare(req)
	if err != nil {
		return 0, err
	}
	req.ContentLength, req.Body = int64(length), io.NopCloser(body) // without GetBody, because net/http may send it twice
	if to.handler != nil {
		return handle(to.handler, req)
	}
	client := http.Client{
		Transport:     cmp.Or[http.RoundTripper](to.transport, s.notifier),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// sign sets the timestamp and signature headers, and returns the body to send.
func (s *Server) sign(req *http.Request, body []byte, secret paymentsvc.Secret, e *deliveryEffects) ([]byte, error) {
	m, signature, err := s.signed(req, s.cfg.Now().Add(e.skew), secret, body)
	if err != nil {
		return nil, err
	}
	if e.altered {
		m.Body = altered(body)
		if unchanged, err := s.cfg.Scheme.Signature(secret, m); err == nil && unchanged == signature {
			return nil, errNotSigned
		}
	}
	if !e.unsigned {
		req.Header.Set("Signature", signature)
	}
	return m.Body, nil
}

// signed sets the headers of a notification without its signature, and returns the signed message and the signature.
func (s *Server) signed(
	req *http.Request, at time.Time, secret paymentsvc.Secret, body []byte,
) (*paymentsvc.Message, string, error) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Timestamp", timestamp)
	m := &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: req.Method, URL: req.URL, Header: req.Header, Timestamp: timestamp, Body: body,
	}
	signature, err := s.cfg.Scheme.Signature(secret, m)
	return m, signature, err
}

// altered changes the last digit of a body. Every notification has a digit, and some schemes do not sign white space.
func altered(body []byte) []byte {
	changed := bytes.Clone(body)
	at := bytes.LastIndexAny(changed, "0123456789")
	changed[at] = '0' + (changed[at]-'0'+1)%10
	return changed
}

// cutReader reads body, or only its first bytes and then an error.
func cutReader(body []byte, cut func(size int) int) io.Reader {
	if cut == nil || cut(len(body)) >= len(body) {
		return bytes.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(body[:cut(len(body))]), brokenReader{})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errCut }

// handle calls a handler as a server does.
func handle(h http.Handler, req *http.Request) (status int, err error) {
	host := req.URL.Host
	req.RequestURI, req.Host, req.RemoteAddr = req.URL.RequestURI(), host, "192.0.2.1:1234"
	req.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	w := &statusWriter{header: http.Header{}}
	defer func() {
		if stopped := recover(); stopped != nil {
			if stopped != http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
				panic(stopped)
			}
			status, err = 0, http.ErrAbortHandler
		}
	}()
	h.ServeHTTP(w, req)
	if w.status == 0 {
		return http.StatusOK, nil
	}
	return w.status, nil
}

// statusWriter keeps only the status of an answer.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header { return w.header }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}
