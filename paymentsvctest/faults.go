package paymentsvctest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// When is the time of a fault, before or after the server processes the request and commits a started order.
type When int

const (
	// BeforeCommit is before the server processes the request. It is the zero value.
	BeforeCommit When = iota
	// AfterCommit is after the processing. The fault has no effect on a rejected request, except after
	// [ProblemNotFound], nor after a fault that ends the request or replaces the response before the commitment.
	AfterCommit
)

// String returns "before" or "after".
func (w When) String() string {
	if w == AfterCommit {
		return "after"
	}
	return "before"
}

// Fault is a fault of one request. The zero value has no effect. The server applies the faults of one request in this
// order: Refuse and Reset; Hold, Hang, Drop and the faults that replace the response, before the commitment; Hold, Hang
// and Drop after the commitment; LateCommit; the faults that replace the response after the commitment. At the end,
// WrongShape, WrongDate, Oversized, GzipBomb, Slow and the cuts change the response.
type Fault struct {
	text  string
	slot  string // different faults in one slot exclude each other
	apply func(*effects)
}

// String returns the text that [ParseFault] reads.
func (f Fault) String() string { return f.text }

// effects is the combination of the faults of one request.
type effects struct {
	pendingFaults
	reset         bool
	before, after stage
	unseen        *int // the number of status calls that do not find the order; nil without LateCommit
	wrongShape    bool
	date          *time.Duration // the skew of WrongDate, or nil
	size          int            // the minimum length of the body, for Oversized
	bomb          int            // the minimum uncompressed length of the body, for GzipBomb, or 0
	slow          time.Duration  // the pause before each byte
	cut           cut
}

// stage has the faults before or after the commitment that delay, end or replace a response.
type stage struct {
	holds  []hold
	hang   bool
	drop   bool
	answer func(c *Config) answer
}

type hold struct {
	slot    string
	release <-chan struct{}
}

func (e *effects) at(when When) *stage {
	if when == AfterCommit {
		return &e.after
	}
	return &e.before
}

// cut is the framing of an incomplete response, and the number of bytes before its end.
type cut struct {
	framing framing
	at      int
}

type framing int

const (
	whole framing = iota
	withLength
	chunked
	withoutLength
	inHeader
)

// add adds the faults of a rule. r is nil for Chaos. Of two different faults in one slot, the later fault applies.
func (e *effects) add(r *Rule, faults []Fault) {
	addAll(&e.pendingFaults, r, faults, func(f Fault) (slot, text string) {
		if f.apply != nil {
			f.apply(e)
		}
		return f.slot, f.text
	})
}

// refuses reports whether a fault refuses the connection.
func refuses(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.slot == "refuse" })
}

// Refuse refuses the connection before any byte is sent. A server cannot refuse connections for one endpoint, so this
// fault needs the client of [Server.HTTPClient]. That client consults the rules before each attempt to send a request,
// and a rule with Refuse counts these attempts. For other clients the fault is [Reset]. The server does not receive a
// refused request, so [Server.Fault] panics unless Refuse is the only fault.
func Refuse() Fault { return Fault{"refuse", "refuse", func(e *effects) { e.reset = true }} }

// Reset resets the connection before the body is read.
func Reset() Fault { return Fault{"reset", "reset", func(e *effects) { e.reset = true }} }

// Drop reads the request and closes the connection without a response.
func Drop(when When) Fault {
	return Fault{"drop " + when.String(), "drop " + when.String(), func(e *effects) { e.at(when).drop = true }}
}

// LateCommit simulates a start that reaches the service after the call has failed. It closes the connection without a
// response. For the given number of queries, status_payment and status_payout do not find the order, unless its status
// changes or a further start returns its order_id. A second start after "not found" makes a second order if
// Config.Repeated is [NewOrder] or the user_data is new. The fault has no effect on other calls and rejected starts.
func LateCommit(queries int) Fault {
	return Fault{"late-commit " + strconv.Itoa(queries), "late-commit", func(e *effects) { e.unseen = &queries }}
}

// Hang reads the request and sends no response. It ends when the client leaves or the server closes.
func Hang(when When) Fault {
	return Fault{"hang " + when.String(), "hang " + when.String(), func(e *effects) { e.at(when).hang = true }}
}

// Hold delays the request until release is closed, the client leaves or the server closes. Use Hold to control the
// order of events without a sleep. [ParseFault] does not support Hold.
func Hold(when When, release <-chan struct{}) Fault {
	h := hold{fmt.Sprintf("hold %s %p", when, release), release}
	return Fault{"hold " + when.String(), h.slot, func(e *effects) { e.at(when).holds = append(e.at(when).holds, h) }}
}

// Answer replaces the response. It panics unless the HTTP status is from 200 to 599.
func Answer(when When, httpStatus int, contentType, body string) Fault {
	mustBeStatus(httpStatus)
	contentType = strings.ReplaceAll(contentType, " ", "") // ParseFault reads one word; HTTP ignores the spaces
	return replaced(strings.TrimRight(fmt.Sprintf("answer %s %d %s %s", when, httpStatus, contentType, body), " "), when,
		func(*Config) answer {
			return newAnswer(httpStatus, contentType, []byte(body))
		})
}

// Reject rejects a request before the commitment, with code and message in the fields named by Config.ErrorCode and
// Config.ErrorMessage. It encodes code as a JSON string. It panics unless the HTTP status is from 200 to 599.
func Reject(httpStatus int, code, message string) Fault {
	mustBeStatus(httpStatus)
	return replaced(fmt.Sprintf("reject %d %s %s", httpStatus, code, message), BeforeCommit, func(c *Config) answer {
		return c.errorAnswer(httpStatus, quote(code), message)
	})
}

func validStatus(status int) bool { return 200 <= status && status <= 599 }

func mustBeStatus(status int) {
	if !validStatus(status) {
		panic(fmt.Sprintf("paymentsvctest: HTTP status %d is not from 200 to 599", status))
	}
}

// BadGateway responds with a proxy's HTML page and HTTP 502.
func BadGateway(when When) Fault {
	return replaced("bad-gateway "+when.String(), when, func(*Config) answer {
		return newAnswer(http.StatusBadGateway, "text/html", []byte("<html><body><h1>502 Bad Gateway</h1></body></html>\n"))
	})
}

// TooManyRequests responds with HTTP 429 and a Retry-After header in whole seconds, rounded up. With [BeforeCommit],
// the body is an error in the fields named by Config.ErrorCode and Config.ErrorMessage. With [AfterCommit], the body is
// plain text, as from a gateway in front of the service.
func TooManyRequests(when When, retryAfter time.Duration) Fault {
	return replaced(fmt.Sprintf("too-many-requests %s %s", when, retryAfter), when, func(c *Config) answer {
		a := newAnswer(http.StatusTooManyRequests, "text/plain; charset=utf-8", []byte("too many requests\n"))
		if when == BeforeCommit {
			a = c.errorAnswer(http.StatusTooManyRequests, quote("too_many_requests"), "too many requests")
		}
		a.header.Set("Retry-After", strconv.FormatInt(int64((retryAfter+time.Second-1)/time.Second), 10))
		return a
	})
}

// Redirect responds with HTTP 307 to another address.
func Redirect(when When, location string) Fault {
	return replaced("redirect "+when.String()+" "+location, when, func(*Config) answer {
		a := newAnswer(http.StatusTemporaryRedirect, "text/plain; charset=utf-8", nil)
		a.header.Set("Location", location)
		return a
	})
}

func replaced(text string, when When, produce func(*Config) answer) Fault {
	return Fault{text, "answer " + when.String(), func(e *effects) { e.at(when).answer = produce }}
}

// WrongShape replaces each value of a response by a value of another type. The response must be a JSON object.
func WrongShape() Fault {
	return Fault{"wrong-shape", "wrong-shape", func(e *effects) { e.wrongShape = true }}
}

// WrongDate shifts the Date header by skew.
func WrongDate(skew time.Duration) Fault {
	return Fault{"wrong-date " + skew.String(), "wrong-date", func(e *effects) { e.date = &skew }}
}

// Oversized pads the response with spaces to the given number of bytes.
func Oversized(bytes int) Fault {
	return Fault{fmt.Sprintf("oversized %d", bytes), "oversized", func(e *effects) { e.size = bytes }}
}

// GzipBomb pads the response with spaces to the given number of bytes and compresses it, even if the client does not
// accept gzip.
func GzipBomb(bytes int) Fault {
	return Fault{fmt.Sprintf("gzip-bomb %d", bytes), "gzip-bomb", func(e *effects) { e.bomb = bytes }}
}

// Slow sends the body one byte at a time, with a pause before each byte.
func Slow(pause time.Duration) Fault {
	return Fault{"slow " + pause.String(), "slow", func(e *effects) { e.slow = pause }}
}

// Cut closes the connection after n bytes of a longer body with a Content-Length. The client detects the cut.
func Cut(n int) Fault { return cutting("cut", withLength, n) }

// CutChunked closes the connection after n bytes of a chunked body, or at its end. The client detects the cut.
func CutChunked(n int) Fault { return cutting("cut-chunked", chunked, n) }

// CutUnframed closes the connection after n bytes of a longer body without a length. The client can detect the cut only
// by the incomplete JSON. CutUnframed needs HTTP/1.1. Over HTTP/2 it acts like [Cut].
func CutUnframed(n int) Fault { return cutting("cut-unframed", withoutLength, n) }

// CutHeader closes the connection after n bytes of the status line and the header, or before their last byte. It needs
// HTTP/1.1. Over HTTP/2 it acts like [Drop].
func CutHeader(n int) Fault { return cutting("cut-header", inHeader, n) }

func cutting(name string, f framing, n int) Fault {
	return Fault{name + " " + strconv.Itoa(n), "cut", func(e *effects) { e.cut = cut{f, n} }}
}

// AllFaults returns every fault with moderate values, except Hold, Answer, Reject, and TooManyRequests after the
// commitment. Redirects lead to a nonexistent address.
func AllFaults() []Fault {
	const size = 2 << 20 // twice the default limit of a paymentsvc.Client
	faults := []Fault{
		Refuse(), Reset(),
		WrongShape(), WrongDate(-time.Hour), Oversized(size), GzipBomb(16 * size), Slow(time.Millisecond),
		Cut(10), CutChunked(10), CutUnframed(10), CutHeader(10),
	}
	for _, when := range []When{BeforeCommit, AfterCommit} {
		faults = append(faults, Drop(when), Hang(when), BadGateway(when), Redirect(when, "http://elsewhere.invalid/"))
	}
	return append(faults, TooManyRequests(BeforeCommit, time.Second), LateCommit(2))
}

var errSyntax = errors.New("paymentsvctest: not a fault")

// ParseFault reads the text of [Fault.String], such as "drop after", "cut 10", "slow 5ms", "too-many-requests before
// 2s" or "reject 402 E17 no money". It returns an error for the text of [Hold] and for any other text.
func ParseFault(text string) (Fault, error) {
	p := parser{left: text}
	return parse(&p, map[string]func() Fault{
		"refuse":            Refuse,
		"reset":             Reset,
		"drop":              func() Fault { return Drop(p.when()) },
		"hang":              func() Fault { return Hang(p.when()) },
		"late-commit":       func() Fault { return LateCommit(p.number()) },
		"answer":            func() Fault { return Answer(p.when(), p.status(), p.text("a content type"), p.rest()) },
		"reject":            func() Fault { return Reject(p.status(), p.text("an error code"), p.rest()) },
		"bad-gateway":       func() Fault { return BadGateway(p.when()) },
		"too-many-requests": func() Fault { return TooManyRequests(p.when(), p.duration()) },
		"redirect":          func() Fault { return Redirect(p.when(), p.address()) },
		"wrong-shape":       WrongShape,
		"wrong-date":        func() Fault { return WrongDate(p.duration()) },
		"oversized":         func() Fault { return Oversized(p.number()) },
		"gzip-bomb":         func() Fault { return GzipBomb(p.number()) },
		"slow":              func() Fault { return Slow(p.duration()) },
		"cut":               func() Fault { return Cut(p.number()) },
		"cut-chunked":       func() Fault { return CutChunked(p.number()) },
		"cut-unframed":      func() Fault { return CutUnframed(p.number()) },
		"cut-header":        func() Fault { return CutHeader(p.number()) },
	})
}

// parse parses a fault. The first word of the text is the key in makers.
func parse[F any](p *parser, makers map[string]func() F) (fault F, err error) {
	text := p.left
	name := p.word()
	produce, known := makers[name]
	if !known {
		return fault, fmt.Errorf("%w: %q; want one of %s", errSyntax, name,
			strings.Join(slices.Sorted(maps.Keys(makers)), ", "))
	}
	fault = produce()
	if !p.ended() {
		p.fail(fmt.Sprintf("no text after %q", strings.TrimSuffix(text, " "+p.left)))
	}
	if p.err != nil {
		err = fmt.Errorf("%w: %q: %w", errSyntax, text, p.err)
	}
	return fault, err
}

// parser reads a text word by word, and keeps the first error.
type parser struct {
	left string
	err  error
}

// word returns the next word, or "" at the end.
func (p *parser) word() string {
	word, left, _ := strings.Cut(strings.TrimLeft(p.left, " "), " ")
	p.left = left
	return word
}

func (p *parser) text(want string) string {
	word := p.word()
	if word == "" {
		p.fail(want)
	}
	return word
}

// rest returns the remaining text.
func (p *parser) rest() (rest string) {
	rest, p.left = p.left, ""
	return rest
}

func (p *parser) when() When {
	word := p.word()
	if word == "after" {
		return AfterCommit
	}
	if word != "before" {
		p.fail("before or after")
	}
	return BeforeCommit
}

func (p *parser) number() int {
	n, err := strconv.Atoi(p.word())
	if err != nil || n < 0 || n > 1<<30 {
		p.fail("a number from 0 to 1073741824")
	}
	return n
}

func (p *parser) status() int {
	n := p.number()
	if !validStatus(n) {
		p.fail("an HTTP status from 200 to 599")
		return http.StatusOK
	}
	return n
}

func (p *parser) duration() time.Duration {
	d, err := time.ParseDuration(p.word())
	if err != nil {
		p.fail("a duration such as 2s")
	}
	return d
}

// seconds returns a shift of a timestamp, which has whole seconds.
func (p *parser) seconds() time.Duration {
	d, err := time.ParseDuration(p.word())
	if err != nil || d < time.Second || d%time.Second != 0 {
		p.fail("a duration of whole seconds, such as 2s")
	}
	return d
}

func (p *parser) ended() bool { return strings.TrimSpace(p.left) == "" }

func (p *parser) address() string {
	address := p.word()
	if u, err := url.Parse(address); err != nil || !u.IsAbs() {
		p.fail("an absolute address")
	}
	return address
}

func (p *parser) fail(want string) {
	if p.err == nil {
		p.err = errors.New("want " + want)
	}
}
