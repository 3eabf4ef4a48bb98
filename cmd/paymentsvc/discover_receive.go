package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

const (
	maxSamples   = 8                // received messages in one search; more cost time and add little
	maxKept      = 64               // waiting messages; also samples without a scheme, unless -count is higher
	proxyTimeout = 2 * time.Minute  // for the service's response
	serveGrace   = 30 * time.Second // for requests in flight at the end
)

// catcher saves messages and passes them to the search.
type catcher struct {
	*discovery
	to *forwarder // nil without -proxy

	mu      sync.Mutex
	number  int64 // of the latest message
	waiting []capture.Message
	failed  error         // the latest error of saving a message
	arrived chan struct{} // has one element if messages or an error may be waiting
}

// receive serves -listen or -proxy and searches until the samples have a scheme. With -count, it searches until it has
// that number of samples, even without a scheme. The end of ctx and an error also end the search.
func (d *discovery) receive(ctx context.Context) error {
	r := &catcher{discovery: d, arrived: make(chan struct{}, 1)}
	addr, to := d.Text("listen"), ""
	if d.Bool("proxy") {
		target := d.Address("to")
		r.to = &forwarder{transport: newTransport(nil), to: target, timeout: proxyTimeout}
		addr, to = d.Text("addr"), target.Scheme+"://"+target.Host
		d.Note("the Host becomes %s, so a signature over another Host fails", target.Host)
	}
	listeners, err := cli.Listen(ctx, addr)
	if err != nil {
		return err
	}
	base := cli.BaseURL(listeners)
	d.Print("ready", cli.Fields{"url": base, "to": to}, "ready  "+strings.TrimSuffix(base+" -> "+to, " -> ")+
		", any path; waiting for a signed message")
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- cli.Serve(serving, cli.NewServer(r), listeners, serveGrace) }()
	err = r.search(ctx, served)
	stop()
	if died := <-served; died != nil {
		return died
	}
	return err
}

// search searches again after new messages, because a later message can confirm or refute a scheme.
func (r *catcher) search(ctx context.Context, served chan error) error {
	var samples []sample
	var results []found // of the last complete search
	count := int(r.Int("count"))
	for {
		enough := count == 0 && allFit(results) || count > 0 && len(samples) >= count
		if enough && len(r.arrived) == 0 {
			return r.end(context.WithoutCancel(ctx), results)
		}
		select {
		case err := <-served:
			served <- err // receive reads the error too
			return r.end(ctx, results)
		case <-ctx.Done():
			return r.end(ctx, results)
		case <-r.arrived:
		}
		messages, err := r.take()
		if err != nil {
			return err
		}
		more := r.samplesOf(messages, samples)
		if len(more) == 0 {
			continue
		}
		searched := slices.Concat(samples, more)
		now, err := r.discovery.search(ctx, newest(searched))
		if ctx.Err() == nil && len(searched) > 1 && (err != nil || !allFit(now)) {
			now, searched, err = r.dropForged(ctx, found{samples: searched, err: err}, now, results, more)
		}
		switch {
		case err != nil:
			r.Note("not searched: %v", err)
			continue
		case ctx.Err() != nil && !allFit(now):
			return r.end(ctx, results)
		case !slices.ContainsFunc(more, searched[len(searched)-1].sameSignature): // dropForged dropped all new messages
			continue
		}
		r.verdict(results, now)
		samples, results = kept(searched, now, count), now
	}
}

// kept returns the samples to keep in memory: all samples of a found scheme, or else the newest.
func kept(samples []sample, results []found, count int) []sample {
	if allFit(results) {
		return samples
	}
	return samples[max(len(samples)-max(maxKept, count), 0):]
}

// newest returns the last samples, at most maxSamples.
func newest(samples []sample) []sample { return samples[max(len(samples)-maxSamples, 0):] }

// dropForged searches each of the newest messages in more separately, at most maxSamples, until a search finds a
// scheme. That message is genuine, because a forger does not have the secret. The known schemes are the schemes in the
// parameters before and now. If they include no scheme for the genuine message's kind, the message's own scheme is also
// known. dropForged drops the messages that fit no known scheme. It drops no message if the genuine message does not
// fit the known scheme of its kind. If no message in more is genuine, it drops all of them, provided that the results
// in before have schemes and all.err is nil. Otherwise, it drops no message.
func (r *catcher) dropForged(ctx context.Context, all found, now, before []found, more []sample) (
	[]found, []sample, error,
) {
	for _, s := range slices.Backward(newest(more)) {
		alone, err := r.discovery.search(ctx, []sample{s})
		switch {
		case ctx.Err() != nil:
			return now, all.samples, all.err
		case err != nil || !allFit(alone):
			continue
		}
		scheme := alone[0]
		known := slices.DeleteFunc(slices.Concat(before, now), func(f found) bool { return !f.fits() })
		sameKind := func(other sample) bool { return other.Message.Kind == s.Message.Kind }
		if i := slices.IndexFunc(known, func(f found) bool { return slices.ContainsFunc(f.samples, sameKind) }); i >= 0 {
			scheme = known[i]
		}
		if !r.explainedBy(scheme, s) { // two genuine messages without a common scheme
			return now, all.samples, all.err
		}
		known = append(known, scheme)
		kept := slices.DeleteFunc(slices.Clone(all.samples), func(other sample) bool {
			return !slices.ContainsFunc(known, func(f found) bool { return r.explainedBy(f, other) })
		})
		r.Note("ignored %d messages that do not fit the found scheme: they may be forged", len(all.samples)-len(kept))
		if len(kept) > 1 {
			alone, err = r.discovery.search(ctx, newest(kept))
		}
		return alone, kept, err
	}
	if allFit(before) && all.err == nil {
		r.Note("ignored %d new messages that do not fit the found scheme: they may be forged", len(more))
		return before, all.samples[:len(all.samples)-len(more)], nil
	}
	return now, all.samples, all.err
}

// explainedBy reports whether the best scheme of f produces the signature of s.
func (r *catcher) explainedBy(f found, s sample) bool {
	return r.explains(f.result.Matches[0].Text, f.body, s)
}

// verdict prints the current results, and their effect on the previous scheme.
func (r *catcher) verdict(before, now []found) {
	text := schemes(now)
	switch old := schemes(before); old {
	case "":
	case text:
		r.Print("confirmed", cli.Fields{"text": text}, "same   the new message confirms the scheme: "+text)
	default:
		r.Print("refuted", cli.Fields{"text": old}, "wrong  the new message refutes the scheme: "+old)
	}
	for _, f := range now {
		r.printResult(f)
	}
	if text == "" {
		r.Note("waiting for another message")
	}
}

// schemes returns the best schemes of all results in one text, or "" if a result has no scheme.
func schemes(results []found) (text string) {
	if !allFit(results) {
		return ""
	}
	for _, f := range results {
		text += f.result.Matches[0].Text
	}
	return text
}

// end calls [discovery.next] for a found scheme, and returns the error with the exit code, also after -timeout or a
// signal.
func (r *catcher) end(ctx context.Context, results []found) error {
	stopped, timedOut := cli.Ended(ctx), errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch fit := allFit(results); {
	case fit && timedOut: // the timeout passed before -count messages
		return errors.Join(r.next(results), stopped)
	case fit:
		return r.next(results)
	case stopped == nil, timedOut && len(results) > 0:
		return cli.No()
	}
	return stopped
}

// samplesOf returns the new messages that can be searched. It skips duplicates, because they cannot confirm a scheme.
func (r *catcher) samplesOf(messages []capture.Message, known []sample) (samples []sample) {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // a cancelled search only validates the message
	for _, m := range messages {
		s, err := r.sample(m)
		if err != nil {
			r.Note("not searched: %v", err)
			continue
		}
		if slices.ContainsFunc(known, s.sameSignature) || slices.ContainsFunc(samples, s.sameSignature) {
			r.Note("not searched: %s has the signature of an earlier message", m.Source)
			continue
		}
		if r.Set("save") {
			s.file = capture.ShellWord(m.Source)
		}
		if _, err := r.discovery.search(ended, []sample{s}); err != nil {
			r.Note("not searched: %v", err) // an invalid message must not block other messages
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

func (r *catcher) take() ([]capture.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := r.waiting
	r.waiting = nil
	return messages, r.failed
}

// keep saves a message for -save, and passes it to [catcher.search] if fewer than maxKept messages are waiting. An
// error ends the command.
func (r *catcher) keep(m capture.Message) error {
	r.mu.Lock()
	r.number++
	number := r.number
	r.mu.Unlock()
	m.Source = fmt.Sprintf("%04d.http", number)
	saved := ""
	var err error
	if r.Set("save") {
		saved, err = saveCapture(r.Call, number, m)
		m.Source = saved
	}
	if err == nil {
		r.printReceived(m, saved)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.failed = err
	case len(r.waiting) == maxKept:
		r.Note("not searched: %s, because %d messages are already waiting", m.Source, maxKept)
	default:
		r.waiting = append(r.waiting, m)
	}
	select {
	case r.arrived <- struct{}{}:
	default:
	}
	return err
}

func (r *catcher) printReceived(m capture.Message, saved string) {
	shown := mask.Text(m.URL.Path)
	line := fmt.Sprintf("%s  %s %s  %d bytes", r.Now().Format(time.TimeOnly), m.Method, shown, len(m.Body))
	if saved != "" {
		line += "  saved " + saved
	}
	r.Print("received", cli.Fields{
		"name": m.Source, "saved": saved, "time": r.Now().UTC(), "method": m.Method, "path": shown,
		"bytes": len(m.Body),
	}, line)
}

// ServeHTTP receives a message for -listen or forwards it for -proxy.
func (r *catcher) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, unread := readMessage(w, req)
	if unread != nil {
		status := statusOf(*unread, 0)
		r.Note("rejected: %s", unread.Message)
		http.Error(w, http.StatusText(status), status)
		return
	}
	m := capture.Received(req, body)
	if r.to != nil {
		r.pass(w, req, m)
		return
	}
	if err := r.keep(m); err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(int(r.Int("answer")))
}

// pass forwards a request, and keeps it if the service accepts it. The client receives the response even if saving
// fails, because the payment may have started.
func (r *catcher) pass(w http.ResponseWriter, req *http.Request, m capture.Message) {
	m.URL.Scheme, m.URL.Host = r.to.to.Scheme, r.to.to.Host // the service receives this address
	a := r.to.forward(w, req, m.Body)
	switch {
	case a.Error != "":
		r.Note("%s: %s", r.to.to.Host, a.Error)
	case accepted(a.Status):
		_ = r.keep(m) // search reports the error
	default:
		r.Note("%s %s: HTTP %d, so the request is not a sample", m.Method, mask.Text(m.URL.Path), a.Status)
	}
	if a.aborted != nil {
		panic(a.aborted)
	}
}
