package discover

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Explainer explains wrong signatures for a receiver that knows the scheme and the key. It is safe for concurrent use.
type Explainer struct {
	// Scheme and Secret are the scheme and the HMAC key of correct signatures. They are required.
	Scheme paymentsvc.Scheme
	Secret paymentsvc.Secret
	// Text is the text form of Scheme, for [Mistake.Text]. It is optional, but more mistakes are found with it.
	Text string
	// Others are other keys of the program by their descriptions, such as "the secret of project 7".
	Others map[string]paymentsvc.Secret

	mu   sync.Mutex
	next time.Time // see maySearch
}

// Mistake is the explanation of a wrong signature.
type Mistake struct {
	// Text is the cause in one sentence, without secrets, bodies and long numbers:
	//
	//	signed hex(body), want hex(timestamp "." body)
	//
	// Without Explainer.Text it ends with the length of the expected canonical string.
	Text string
	// Canonical is the signed canonical string, or nil for an unknown cause. It can contain card data and the secret.
	Canonical []byte
	// Message is the message with this canonical string in the expected scheme. It is nil if the client used another
	// scheme.
	Message *paymentsvc.Message
}

// Explain finds the cause of a wrong signature of m. It tries common compositions, changes of the message, keys and
// algorithms, for about 50 ms of processor time. After 20 searches it searches at most once per second, because anybody
// can send wrong signatures.
func (x *Explainer) Explain(m *paymentsvc.Message, signature string) Mistake {
	expected, err := x.Scheme.Canonical(nil, m)
	if err != nil {
		return Mistake{Text: "the scheme makes no canonical string of this message: " + err.Error()}
	}
	e := &explanation{Explainer: x, message: m, expected: expected, left: maxBytes, written: readings(signature)}
	if len(e.written) == 0 {
		return Mistake{Text: e.masked(notASignature(signature))}
	}
	if !x.maySearch(time.Now()) {
		return Mistake{Text: "too many wrong signatures in a short time, so the cause was not searched"}
	}
	if c := e.search(); c != nil {
		return Mistake{Text: e.sentence(c), Canonical: c.signed, Message: c.message}
	}
	return Mistake{Text: e.masked(fmt.Sprintf(
		"none of the usual mistakes makes this signature (the canonical string has %d bytes): "+
			"the key is another one, the message was altered, or the scheme is another", len(expected),
	))}
}

// maySearch allows 20 searches at once, and one more each second.
func (x *Explainer) maySearch(now time.Time) bool {
	const burst = 20 * time.Second
	x.mu.Lock()
	defer x.mu.Unlock()
	if earliest := now.Add(-burst); x.next.Before(earliest) {
		x.next = earliest
	}
	if !x.next.Before(now) {
		return false
	}
	x.next = x.next.Add(time.Second)
	return true
}

// simpleEncoding is the encoding at the start of a text form.
var simpleEncoding = regexp.MustCompile(`^(hex|HEX|base64[a-z-]*)\(`)

// sentence describes a cause.
func (e *explanation) sentence(c *cause) string {
	text, words := c.text, ""
	if c.piece != nil {
		if text = c.in(e.Text); text == e.Text {
			text, words = "", " "+c.piece.text+" in place of "+c.of
		}
	}
	right := string(e.Scheme.Encoding.AppendEncode(nil, []byte(c.written.sum))) == c.written.bare
	if text == "" && !right {
		text = e.Text
	}
	switch {
	case simpleEncoding.MatchString(text):
		text = simpleEncoding.ReplaceAllLiteralString(text, c.written.text+"(")
	case !right:
		text, words = "", words+" in "+c.written.desc
	}
	if text != "" {
		words = " " + text + words
	}
	words += c.written.around
	if c.key.words != "" {
		words += " with " + c.key.words
	}
	if c.mac.words != "" {
		words += " by " + c.mac.words
	}
	if e.Text == "" && !bytes.Equal(c.signed, e.expected) {
		words += fmt.Sprintf(", want a canonical string of %d bytes", len(e.expected))
	}
	return e.masked("signed" + words)
}

// longNumber can be a card number.
var longNumber = regexp.MustCompile(`[0-9]{8,}`)

// masked adds the expected scheme, and hides the secret and long numbers.
func (e *explanation) masked(sentence string) string {
	if e.Text != "" {
		sentence += ", want " + e.Text
	}
	if len(e.Secret) >= 8 { // a shorter secret can occur in every text
		sentence = strings.ReplaceAll(sentence, string(e.Secret), "***")
	}
	return longNumber.ReplaceAllStringFunc(sentence, func(number string) string {
		return strings.Repeat("#", len(number))
	})
}
