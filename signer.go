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

// These are the two headers of section 5.
const (
	headerTimestamp = "Timestamp"
	headerSignature = "Signature"
)

// Signer signs one attempt of a call. Sign sets the timestamp and signature headers of section 5 on req. The client
// calls Sign for every attempt, also concurrently. Sign must not change body, because the client sends exactly these
// bytes and ignores changes to req.Body. If Sign returns an error, the client sends no further request of the call.
type Signer interface {
	Sign(req *http.Request, body []byte) error
}

// SignerFunc adapts a function to a [Signer].
type SignerFunc func(req *http.Request, body []byte) error

// Sign calls f. It returns an error if f is nil.
func (f SignerFunc) Sign(req *http.Request, body []byte) error {
	if f == nil {
		return invalid("SignerFunc", "nil")
	}
	return f(req, body)
}

// Scheme contains the two parts of a signature that section 5 does not specify. Both fields are required and have no
// default, because a guess would fail in production. Compose Canonical from the parts of package canonical, or find the
// Scheme of a signed message with package discover.
type Scheme struct {
	// Canonical appends the canonical string, the input of HMAC-SHA256.
	Canonical CanonicalFunc
	// Encoding encodes the 32 bytes of the HMAC as text. Use [Hex], [HexUpper], or an encoding of encoding/base64.
	Encoding Encoding
}

// CanonicalFunc appends the canonical string of m to dst and returns the extended slice. It handles both requests and
// notifications; m.Kind distinguishes them. It must be safe for concurrent use, and must not keep dst or m.
type CanonicalFunc func(dst []byte, m *Message) ([]byte, error)

// MessageKind is the direction of a [Message].
type MessageKind int

const (
	// KindRequest is a request from the partner to the service (section 4). It is the zero value.
	KindRequest MessageKind = iota
	// KindNotification is a notification from the service to the partner (section 6).
	KindNotification
)

// Message is the input of a [CanonicalFunc].
type Message struct {
	// Kind is the direction of the message.
	Kind MessageKind
	// Method is the HTTP method. Every call in the interface document uses POST.
	Method string
	// URL is the address of the request. It is nil for a notification in [Webhook.Verify] and [Webhook.Parse].
	URL *url.URL
	// Header has the headers of a notification, or the headers of a request with its timestamp, but without a signature
	// yet. Do not change it.
	Header http.Header
	// Timestamp is the timestamp header: digits of a Unix time in seconds.
	Timestamp string
	// Body has the exact bytes of the body. It must not be changed.
	Body []byte
}

// Encoding encodes the bytes of a signature as text. *base64.Encoding implements it.
type Encoding interface {
	AppendEncode(dst, src []byte) []byte
}

var (
	// Hex is hexadecimal with lower-case letters.
	Hex Encoding = hexEncoding{}
	// HexUpper is hexadecimal with upper-case letters.
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

// Signature returns the signature of m under secret, for tests and for your own servers. It returns the errors of
// Canonical, and an error for an incomplete scheme, an unusable secret or a nil m. HMACSigner and Webhook are faster.
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
	const unset = "not set; the interface document does not specify it, so it has no default"
	if s.Canonical == nil {
		return invalid("Scheme.Canonical", unset)
	}
	if jsonobject.IsNil(s.Encoding) {
		return invalid("Scheme.Encoding", unset)
	}
	return nil
}

// authenticator signs and verifies messages with one scheme and one or more secrets. It reuses its buffers, so a call
// allocates only the result. Take a scratch, set its message, sign or verify, and release it.
type authenticator struct {
	scheme  Scheme
	scratch sync.Pool
}

type scratch struct {
	message   Message     // assigned in place, because copies are slow
	macs      []hash.Hash // one per secret; Reset keeps the key
	canonical []byte
	sum       []byte
	signature []byte
}

// newAuthenticator rejects an incomplete scheme or an unusable secret. lineBreak accepts a line break after a secret.
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
	a.release(a.take()) // fail now, not at the first message, if crypto/hmac rejects a key
	return a, nil
}

func (a *authenticator) take() *scratch { return a.scratch.Get().(*scratch) }

func (a *authenticator) release(w *scratch) {
	w.message = Message{} // do not keep the caller's memory alive
	a.scratch.Put(w)
}

// sign returns the message's signature under the first secret.
func (a *authenticator) sign(w *scratch) (string, error) {
	if err := a.canonical(w); err != nil {
		return "", err
	}
	return string(a.encode(w, w.macs[0])), nil
}

// verify returns the index of the first secret with the given signature, or ErrSignatureMismatch or Canonical's error.
func (a *authenticator) verify(w *scratch, given string) (secretIndex int, err error) {
	if err := a.canonical(w); err != nil {
		return 0, err
	}
	// Compare the text, in constant time. A comparison of decoded bytes would accept several spellings of a signature.
	for i, mac := range w.macs {
		if subtle.ConstantTimeCompare([]byte(given), a.encode(w, mac)) == 1 {
			return i, nil
		}
	}
	return 0, ErrSignatureMismatch
}

func (a *authenticator) canonical(w *scratch) error {
	w.message.Body = slices.Clip(w.message.Body) // an append must not overwrite bytes after the body
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

// Secret is a project secret key. fmt, log/slog and encoding/json write a placeholder instead of the key. Only the
// conversion string(secret) returns the key.
//
// Some encoders bypass these methods. fmt calls no methods of unexported fields, so it prints a Secret, [HMACConfig] or
// [WebhookConfig] in an unexported field of a struct. Store an [HMACSigner] or [Webhook] there instead. fmt also calls
// no method for a misplaced %w, which go vet reports. encoding/json writes a Secret that is the key of a map, and
// encoding/gob and database/sql write every Secret. SECURITY.md has the complete list.
type Secret string

// Format writes a placeholder under every verb.
func (s Secret) Format(f fmt.State, _ rune) { redact(f) }

// String returns a placeholder, for callers without package fmt, such as the runtime when it prints a panic.
func (s Secret) String() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder, so an encoded configuration cannot be decoded again. The error is always nil.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// check rejects an unusable secret. field is the secret's name in errors. lineBreak accepts a line break at the end.
func (s Secret) check(field string, lineBreak bool) error {
	blank := func(r rune) bool { return unicode.IsSpace(r) || r == 0 || r == '\ufeff' }
	switch {
	case s == "":
		return invalid(field, "empty")
	case strings.TrimFunc(string(s), blank) == "":
		// HMAC pads keys with NUL, so a key of NULs equals the empty key, which everybody knows.
		return invalid(field, "only white space or NUL")
	case s == redacted:
		return invalid(field, "the placeholder of a Secret that was written as text, not the key itself")
	case strings.HasPrefix(string(s), "\ufeff") && utf8.ValidString(string(s)):
		return invalid(field, "begins with a byte order mark, which editors put before text: remove it")
	case !lineBreak && s.isLine():
		return invalid(field, "ends in a line break, as a key read from a file often does: "+
			"trim it, or set SecretEndsInLineBreak")
	}
	return nil
}

// isLine reports whether s is text with a line break at the end. Random bytes may end in such a byte by chance.
func (s Secret) isLine() bool {
	text := strings.TrimRight(string(s), "\r\n")
	return text != string(s) && utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}

// HMACConfig configures an [HMACSigner].
type HMACConfig struct {
	// Scheme is required.
	Scheme Scheme
	// Secret is the project secret key. It is required. A text key must not begin with a byte order mark or end in a
	// line break.
	Secret Secret
	// SecretEndsInLineBreak accepts text with a line break at the end, for a service with such a key.
	SecretEndsInLineBreak bool
	// Now returns the time for the timestamp header. The default is time.Now.
	Now func() time.Time
}

// Format writes a placeholder under every verb.
func (c HMACConfig) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "HMACConfig{"+redacted+"}") }

// HMACSigner signs requests with HMAC-SHA256 (section 5). Create it with [NewHMACSigner]. It is safe for concurrent
// use.
type HMACSigner struct {
	// The key is behind a function, because fmt and reflect cannot read the variables of a function.
	authenticator func() *authenticator
	now           func() time.Time
}

var errNotMade = errors.New("nil or zero value")

// NewHMACSigner returns a signer for c. Errors wrap [ErrInvalidRequest] and contain the field's name.
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

// Sign sets the timestamp and signature headers on req. It returns the errors of [Scheme].Canonical, and an error if
// req is nil or if [NewHMACSigner] did not create s.
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
