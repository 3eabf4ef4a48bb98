package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

const (
	maxBody     = 1 << 20          // far more than a message of the interface document
	mostSamples = 8                // of a search: more of them tell little more, and cost time
	serveGrace  = 30 * time.Second // for what is in flight at the end
)

// receiver saves messages, and hands them to the search.
type receiver struct {
	*discovery
	to *url.URL // of -proxy

	mu      sync.Mutex
	number  int
	waiting []capture.Message
	failed  error         // a message could not be saved
	arrived chan struct{} // holds one element while something is waiting or has failed
}

// receive serves -listen or -proxy and searches what arrives, until a scheme is found or ctx ends.
func (d *discovery) receive(ctx context.Context) error {
	r := &receiver{discovery: d, arrived: make(chan struct{}, 1)}
	addr, handler := d.Text("listen"), http.Handler(http.HandlerFunc(r.listen))
	if d.Bool("proxy") {
		var err error
		if r.to, err = d.target(); err != nil {
			return err
		}
		addr, handler = d.Text("addr"), r.proxy()
	}
	listeners, err := cli.Listen(ctx, addr)
	if err != nil {
		return err
	}
	r.ready(cli.BaseURL(listeners))
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- cli.Serve(serving, cli.NewServer(handler), listeners, serveGrace) }()
	err = r.search(ctx, served)
	stop()
	if died := <-served; died != nil {
		return died
	}
	return err
}

func (d *discovery) target() (*url.URL, error) {
	to, err := url.Parse(d.Text("to"))
	switch {
	case d.Text("to") == "":
		return nil, cli.Usagef("-to: not set; it is the service behind -proxy, such as https://test.example")
	case err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https":
		return nil, d.Fail("to", "want a URL such as https://test.example")
	case to.Path != "" && to.Path != "/" || to.RawQuery != "" || to.User != nil:
		return nil, d.Fail("to", "want no path: put it into the base URL of your program, since a signature may cover it")
	}
	return to, nil
}

func (r *receiver) ready(base string) {
	o := struct {
		URL string `json:"url"`
		To  string `json:"to"`
	}{URL: base}
	line := "ready  " + base + ", any path; waiting for a signed notification"
	if r.to != nil {
		o.To = r.to.Scheme + "://" + r.to.Host
		line = "ready  " + base + " -> " + o.To + "; waiting for a signed request"
		r.Note("the Host becomes %s; a signature that covers another Host will be refused", r.to.Host)
	}
	r.Print("ready", o, line)
}

// search searches all samples again whenever something has arrived, so a later one confirms a scheme or refutes it.
func (r *receiver) search(ctx context.Context, served chan error) error {
	var samples []sample
	var results []found
	best, count := "", int(r.Int("count"))
	for {
		select {
		case err := <-served: // a listener has died; receive reads the error too
			served <- err
			return err
		case <-ctx.Done():
			return r.ended(ctx, results)
		case <-r.arrived:
		}
		messages, err := r.take()
		if err != nil {
			return err
		}
		more := r.samplesOf(messages)
		if len(more) == 0 {
			continue
		}
		samples = append(samples, more...)
		seen := len(samples)
		searched := samples[:min(seen, mostSamples)]
		if results, err = r.discovery.search(ctx, searched); err != nil {
			r.Note("not searched: %v", err)
			samples = samples[:seen-len(more)]
			continue
		}
		if ctx.Err() != nil {
			return r.ended(ctx, results)
		}
		best = r.verdict(best, results, len(searched))
		enough := count == 0 && best != "" || count > 0 && seen >= count
		if enough && len(r.arrived) == 0 {
			break
		}
	}
	return r.report(ctx, results)
}

// verdict prints what the samples so far say, and returns the scheme that fits, "" if none does. Report prints the end.
func (r *receiver) verdict(before string, results []found, n int) string {
	text := ""
	for _, f := range results {
		if !f.fits() {
			r.printResult(f)
			return ""
		}
		text += f.result.Matches[0].Text
	}
	switch {
	case before == text:
		r.Print("confirmed", textJSON{text}, fmt.Sprintf("same   %d messages have this scheme: %s", n, text))
	case before != "":
		r.Print("refuted", textJSON{before}, "wrong  the new message does not fit: "+before)
	}
	return text
}

// ended returns the error of a search that -timeout or a signal has ended.
func (r *receiver) ended(ctx context.Context, results []found) error {
	fits := len(results) > 0
	for _, f := range results {
		if errors.Is(f.err, ctx.Err()) {
			return cli.Ended(ctx) // it was cut short
		}
		fits = fits && f.fits()
	}
	if fits {
		if err := r.report(context.WithoutCancel(ctx), results); err != nil {
			return err
		}
	}
	ended := cli.Ended(ctx)
	exit, _ := errors.AsType[*cli.ExitError](ended)
	switch late := exit != nil && exit.Code == cli.ExitTimeout; {
	case fits && !late:
		return nil // stopped on request, with an answer
	case len(results) > 0 && !fits && late:
		return cli.No()
	}
	return ended
}

// samplesOf returns the messages that have a timestamp and a signature.
func (r *receiver) samplesOf(messages []capture.Message) (samples []sample) {
	for _, m := range messages {
		s, err := r.sample(m)
		if err != nil {
			r.Note("not searched: %v", err)
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

func (r *receiver) take() ([]capture.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := r.waiting
	r.waiting = nil
	return messages, r.failed
}

// keep saves a message, byte for byte, and then hands it to the search. An error ends the command.
func (r *receiver) keep(m capture.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	m.Source = fmt.Sprintf("%04d.http", r.number)
	err := r.save(&m)
	if err == nil {
		r.waiting = append(r.waiting, m)
		o := struct {
			File   string    `json:"file"`
			Saved  bool      `json:"saved"`
			Time   time.Time `json:"time"`
			Method string    `json:"method"`
			Path   string    `json:"path"`
			Bytes  int       `json:"bytes"`
		}{m.Source, r.Set("save"), r.Now().UTC(), m.Method, m.URL.Path, len(m.Body)}
		line := fmt.Sprintf("%s  %s %s  %d bytes", r.Now().Format("15:04:05"), m.Method, m.URL.Path, len(m.Body))
		if r.Set("save") {
			line += "  saved " + m.Source
		}
		r.Print("received", o, line)
	} else {
		r.failed = &cli.ExitError{Code: cli.ExitMachine, Err: fmt.Errorf("-save: %w", err)}
	}
	select {
	case r.arrived <- struct{}{}:
	default:
	}
	return err
}

// save writes a message to the next file that does not exist.
func (r *receiver) save(m *capture.Message) error {
	if !r.Set("save") {
		return nil
	}
	dir := r.Text("save")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := capture.Write(&b, *m); err != nil {
		return err
	}
	for {
		name := fmt.Sprintf("%04d.http", r.number)
		m.Source = filepath.Join(r.Value("save").Texts[0], name)
		err := createFile(filepath.Join(dir, name), b.Bytes())
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		r.number++
	}
}

// body reads a body. It answers for a body that is too long or breaks off.
func body(w http.ResponseWriter, req *http.Request) ([]byte, bool) {
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		http.Error(w, "paymentsvc discover: the body is too long", http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(w, "paymentsvc discover: the body broke off", http.StatusBadRequest)
		return nil, false
	}
	return data, true
}

// listen takes a notification. Its answer says that it is not handled, so that the service delivers it again.
func (r *receiver) listen(w http.ResponseWriter, req *http.Request) {
	data, ok := body(w, req)
	if !ok {
		return
	}
	if err := r.keep(received(req, data)); err != nil {
		http.Error(w, "paymentsvc discover: not saved", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(int(r.Int("answer")))
}

// proxy passes requests on, and keeps those that are accepted.
func (r *receiver) proxy() http.Handler {
	transport := &http.Transport{
		DisableCompression:    true,                // the answer passes as it is
		DisableKeepAlives:     true,                // net/http repeats a request on a broken connection that is reused
		Protocols:             new(http.Protocols), // HTTP/2 repeats requests too
		Proxy:                 http.ProxyFromEnvironment,
		ResponseHeaderTimeout: 2 * time.Minute,
	}
	transport.Protocols.SetHTTP1(true)
	type key struct{}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = r.to.Scheme, r.to.Host, r.to.Host
			p.Out.URL.RawQuery = p.In.URL.RawQuery // ReverseProxy has cleaned it
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := p.In.Header[name]; values != nil {
					p.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(answer *http.Response) error {
			m, _ := answer.Request.Context().Value(key{}).(capture.Message)
			if answer.StatusCode/100 == 2 {
				_ = r.keep(m) // the client gets its answer all the same: its payment was started
				return nil
			}
			r.Note("%s %s: HTTP %d, so it is no sample", m.Method, m.URL.Path, answer.StatusCode)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			r.Note("%s: %v", r.to.Host, err)
			http.Error(w, "paymentsvc discover: no answer from "+r.to.Host, http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		data, ok := body(w, req)
		if !ok {
			return
		}
		m := received(req, data)
		m.URL.Scheme, m.URL.Host = r.to.Scheme, r.to.Host // as the service sees it
		req = req.WithContext(context.WithValue(req.Context(), key{}, m))
		req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
		proxy.ServeHTTP(w, req)
	})
}
