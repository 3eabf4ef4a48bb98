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

// transmit signs a notification and sends it to its receiver.
func (s *Server) transmit(ctx context.Context, to Receiver, n Notification, secret paymentsvc.Secret, e *deliveryEffects) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	body := encode(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, io.NopCloser(cutReader(body, e.cut)))
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(body))
	timestamp := strconv.FormatInt(s.cfg.Now().Add(e.skew).Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Timestamp", timestamp)
	signature, err := s.cfg.Scheme.Signature(secret, &paymentsvc.Message{
		Kind:      paymentsvc.KindNotification,
		Method:    req.Method,
		URL:       req.URL,
		Header:    req.Header,
		Timestamp: timestamp,
		Body:      body,
	})
	if err != nil {
		return 0, err
	}
	req.Header.Set("Signature", signature)
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

// cutReader reads body, or only its first bytes and then an error.
func cutReader(body []byte, at *int) io.Reader {
	if at == nil || *at >= len(body) {
		return bytes.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(body[:*at]), brokenReader{})
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
