package paymentsvc

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/internal/buffer"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// The two headers of section 5.
const (
	headerTimestamp = "Timestamp"
	headerSignature = "Signature"
)

// Signer signs one attempt at a request: it sets the timestamp and signature headers of section 5 on req. It is
// called anew for every attempt and must be safe for concurrent use. It must not change body, which is what
// will be sent, whatever it does to req.Body. An error stops the call; nothing is sent.
type Signer interface {
	Sign(req *http.Request, body []byte) error
}

// SignerFunc is a function that is a [Signer].
type SignerFunc func(req *http.Request, body []byte) error

// Sign calls f. It returns an error if f is nil.
func (f SignerFunc) Sign(req *http.Request, body []byte) error {
	if f == nil {
		return invalid("SignerFunc", "nil")
	}
	return f(req, body)
}

// Scheme is what section 5 does not show about the signature. Both fields are required; neither has a default, since a
// guess would fail in production. Package canonical has parts to compose Canonical from, and package discover finds a
// Scheme from a signed message.
type Scheme struct {
	// Canonical appends the canonical string, the text that HMAC-SHA256 signs.
	Canonical CanonicalFunc
	// Encoding encodes the HMAC's 32 bytes as text: [Hex], [HexUpper], or an encoding of encoding/base64.
	Encoding Encoding
}

// CanonicalFunc appends the canonical string of m to dst and returns the extended slice. It serves requests and
// notifications, which m.Kind tells apart. It must be safe for concurrent use and must keep neither dst nor m.
type CanonicalFunc func(dst []byte, m *Message) ([]byte, error)

// MessageKind says in which direction a [Message] goes.
type MessageKind int

const (
	// KindRequest is the zero value: a request from the partner to the service (section 4).
	KindRequest MessageKind = iota
	// KindNotification is a notification from the service to the partner (section 6).
	KindNotification
)

// Message is what a canonical string can be composed from.
type Message struct {
	// Kind says in which direction the message goes.
	Kind MessageKind
	// Method is the HTTP method, POST for everything in the interface document.
	Method string
	// URL is the request's address; nil for a notification that was passed as header and body only.
	URL *url.URL
	// Header is the header so far, the timestamp included. It must not be changed.
	Header http.Header
	// Timestamp is the timestamp header, Unix time in seconds.
	Timestamp string
	// Body is the body as it is sent, byte for byte. It must not be changed.
	Body []byte
}

// Encoding encodes a signature's bytes as text. *base64.Encoding implements it.
type Encoding interface {
	AppendEncode(dst, src []byte) []byte
}

var (
	// Hex is hexadecimal in lower case.
	Hex Encoding = hexEncoding{}
	// HexUpper is hexadecimal in upper case.
	HexUpper Encoding = hexEncoding{upper: true}
)

type hexEncoding struct{ upper bool }

// AppendEncode appends src in hexadecimal.
func (e hexEncoding) AppendEncode(dst, src []byte) []byte {
	start := len(dst)
	dst = hex.AppendEncode(dst, src)
	for i := start; e.upper && i < len(dst); i++ {
		if dst[i] >= 'a' {
			dst[i] -= 'a' - 'A'
		}
	}
	return dst
}

// Signature returns the signature of m under secret, for tests and for servers of your own. It returns an error if the
// scheme is incomplete, the secret empty or m nil. [HMACSigner] and [Webhook] do the same with less work per call.
func (s Scheme) Signature(secret Secret, m *Message) (string, error) {
	a, err := newAuthenticator(s, []Secret{secret}, true)
	if err != nil {
		return "", err
	}
	if m == nil {
		return "", invalid("Message", "nil")
	}
	w := a.take()
	defer a.release(w)
	w.message = *m
	return a.sign(w)
}

func (s Scheme) check() error {
	if s.Canonical == nil {
		return invalid("Scheme.Canonical", "not set; the interface document does not show the canonical string, so it has no default")
	}
	if jsonobject.IsNil(s.Encoding) {
		return invalid("Scheme.Encoding", "not set; the interface document does not show the encoding, so it has no default")
	}
	return nil
}

// authenticator signs and verifies messages of a scheme under one or more secrets. It keeps its buffers for the next
// message, so that only the result is allocated: take a scratch, set its message, sign or verify, release it.
type authenticator struct {
	scheme  Scheme
	scratch sync.Pool
}

type scratch struct {
	message   Message     // set in place: it is large enough for copies to count
	macs      []hash.Hash // one per secret; Reset keeps the key
	canonical []byte
	sum       []byte
	signature []byte
}

// newAuthenticator rejects secrets that are a mistake; lineBreak accepts text that ends in one.
func newAuthenticator(s Scheme, secrets []Secret, lineBreak bool) (*authenticator, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	keys := make([][]byte, 0, len(secrets))
	for i, secret := range secrets {
		field := "Secret"
		if len(secrets) > 1 {
			field = fmt.Sprintf("Secrets[%d]", i)
		}
		if err := secret.check(field, lineBreak); err != nil {
			return nil, err
		}
		keys = append(keys, []byte(secret))
	}
	newScratch := func() any {
		w := new(scratch)
		for _, key := range keys {
			w.macs = append(w.macs, hmac.New(sha256.New, key))
		}
		return w
	}
	a := &authenticator{scheme: s, scratch: sync.Pool{New: newScratch}}
	a.release(a.take()) // so that a key that crypto/hmac rejects fails here and not at the first message
	return a, nil
}

func (a *authenticator) take() *scratch { return a.scratch.Get().(*scratch) }

func (a *authenticator) release(w *scratch) {
	w.message = Message{} // nothing of the caller's is kept alive
	a.scratch.Put(w)
}

// sign returns the signature of the message under the first secret.
func (a *authenticator) sign(w *scratch) (string, error) {
	if err := a.canonical(w); err != nil {
		return "", err
	}
	return string(a.encode(w, w.macs[0])), nil
}

// verify returns the index of the first secret whose signature is given, or ErrSignatureMismatch.
func (a *authenticator) verify(w *scratch, given string) (secretIndex int, err error) {
	if err := a.canonical(w); err != nil {
		return 0, err
	}
	// The text is compared, in constant time: decoding first would let other spellings of a signature pass.
	for i, mac := range w.macs {
		if subtle.ConstantTimeCompare([]byte(given), a.encode(w, mac)) == 1 {
			return i, nil
		}
	}
	return 0, ErrSignatureMismatch
}

func (a *authenticator) canonical(w *scratch) error {
	w.message.Body = slices.Clip(w.message.Body) // so that a CanonicalFunc's append cannot overwrite bytes after the body
	made, err := a.scheme.Canonical(w.canonical[:0], &w.message)
	if err != nil {
		return fmt.Errorf("canonical string: %w", err)
	}
	w.canonical = buffer.Own(w.canonical, made)
	return nil
}

func (a *authenticator) encode(w *scratch, mac hash.Hash) []byte {
	mac.Reset()
	_, _ = mac.Write(w.canonical) // a hash never fails
	w.sum = mac.Sum(w.sum[:0])
	w.signature = a.scheme.Encoding.AppendEncode(w.signature[:0], w.sum)
	return w.signature
}

// Secret is a project secret key. Whatever formats it, such as fmt, log/slog and encoding/json, prints a placeholder. Only
// string(secret) returns the key.
//
// There are limits. fmt calls no methods on unexported fields, so a struct that keeps a Secret, an [HMACConfig] or a
// [WebhookConfig] in one prints it: keep the [HMACSigner] or the [Webhook] instead, which are safe there. Nor does fmt
// call a method under %w where that verb does not fit, which go vet reports. encoding/json writes the keys of a map, and
// encoding/gob and database/sql write a Secret, as they are. SECURITY.md has the rest.
type Secret string

// Format writes a placeholder under every verb.
func (s Secret) Format(f fmt.State, _ rune) { redact(f) }

// String returns a placeholder, for callers without package fmt, such as the runtime when it prints a panic's value.
func (s Secret) String() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder, so a configuration that contains a Secret can be encoded but not decoded. The error
// is always nil.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// check rejects secrets that are a mistake; field names the secret, and lineBreak accepts text that ends in one.
func (s Secret) check(field string, lineBreak bool) error {
	blank := func(r rune) bool { return unicode.IsSpace(r) || r == 0 || r == '\ufeff' }
	switch {
	case s == "":
		return invalid(field, "empty")
	case strings.TrimFunc(string(s), blank) == "":
		return invalid(field, "nothing but white space or NUL") // HMAC takes NULs for the empty key, which anybody can sign with
	case s == redacted:
		return invalid(field, "the placeholder of a Secret that was written as text, not the key itself")
	case strings.HasPrefix(string(s), "\ufeff") && utf8.ValidString(string(s)):
		return invalid(field, "begins with a byte order mark, which editors put before text: remove it")
	case !lineBreak && s.isLine():
		return invalid(field, "ends in a line break, as a key read from a file often does: trim it, or set SecretEndsInLineBreak")
	}
	return nil
}

// isLine reports whether s is text that ends in a line break. A key of other bytes may end in any of them by chance.
func (s Secret) isLine() bool {
	text := strings.TrimRight(string(s), "\r\n")
	return text != string(s) && utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}

// HMACConfig configures an [HMACSigner].
type HMACConfig struct {
	// Scheme is required.
	Scheme Scheme
	// Secret is the project secret key. It is required. Text must neither begin with a byte order mark nor end in a line
	// break.
	Secret Secret
	// SecretEndsInLineBreak accepts text that ends in a line break, for a service whose key really does.
	SecretEndsInLineBreak bool
	// Now returns the time for the timestamp header; nil means time.Now.
	Now func() time.Time
}

// Format shows that a secret is there, and nothing of it.
func (c HMACConfig) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "HMACConfig{"+redacted+"}") }

// HMACSigner signs requests with HMAC-SHA256 (section 5). Create it with [NewHMACSigner]; it is safe for concurrent use.
type HMACSigner struct {
	// The key is reachable only through a function, which fmt and reflect cannot look into.
	authenticator func() *authenticator
	now           func() time.Time
}

var errNotMade = errors.New("nil or zero value")

// NewHMACSigner returns a signer for c. Errors wrap [ErrInvalidRequest] and name the field.
func NewHMACSigner(c HMACConfig) (*HMACSigner, error) {
	a, err := newAuthenticator(c.Scheme, []Secret{c.Secret}, c.SecretEndsInLineBreak)
	if err != nil {
		return nil, fmt.Errorf("paymentsvc: HMACConfig: %w", err)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &HMACSigner{authenticator: func() *authenticator { return a }, now: c.Now}, nil
}

// Sign sets the timestamp and signature headers on req. It returns the error of [Scheme].Canonical, and an error for a nil
// req and for a signer that [NewHMACSigner] did not return.
func (s *HMACSigner) Sign(req *http.Request, body []byte) error {
	if s == nil || s.authenticator == nil {
		return fmt.Errorf("HMACSigner: %w: use NewHMACSigner", errNotMade)
	}
	if req == nil {
		return invalid("request", "nil")
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	timestamp := strconv.FormatInt(s.now().Unix(), 10)
	req.Header.Set(headerTimestamp, timestamp)
	a := s.authenticator()
	work := a.take()
	defer a.release(work)
	work.message = Message{
		Kind:      KindRequest,
		Method:    req.Method,
		URL:       req.URL,
		Header:    req.Header,
		Timestamp: timestamp,
		Body:      body,
	}
	signature, err := a.sign(work)
	if err != nil {
		return err
	}
	req.Header.Set(headerSignature, signature)
	return nil
}

// Format writes a placeholder under every verb.
func (s *HMACSigner) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "HMACSigner{"+redacted+"}")
}
