package discover

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Explainer explains wrong signatures for a program that knows the scheme and the key. It is safe for concurrent use.
type Explainer struct {
	// Scheme and Secret are the scheme and the HMAC key of correct signatures. They are required.
	Scheme paymentsvc.Scheme
	Secret paymentsvc.Secret
	// Text is the text form of Scheme, for [Mistake.Text]. It is optional.
	Text string
	// Others are other keys of the program by their descriptions, such as "the secret of project 7".
	Others map[string]paymentsvc.Secret

	mutex  sync.Mutex
	latest *cause
	next   time.Time // see maySearch
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
	// Message is the message with this canonical string in the receiver's scheme. It is nil if the client used another
	// scheme.
	Message *paymentsvc.Message
}

// Explain finds the cause of a wrong signature of m. It tries common compositions, changes of the message, keys and
// algorithms, for about 50 ms of processor time. It tries the latest cause first. After 20 searches it searches at most
// once per second, because the sender of a wrong signature is a stranger.
func (r *Explainer) Explain(m *paymentsvc.Message, signature string) Mistake {
	expected, err := r.Scheme.Canonical(nil, m)
	if err != nil {
		return Mistake{Text: "the scheme makes no canonical string of this message: " + err.Error()}
	}
	e := &explanation{explainer: r, message: m, signature: signature, expected: expected, left: maxHashed}
	if e.written = readings(signature); len(e.written) == 0 {
		return e.cut(notASignature(signature))
	}
	r.mutex.Lock()
	latest, search := r.latest, false
	r.mutex.Unlock()
	found := e.again(latest)
	if found == nil {
		r.mutex.Lock()
		search = r.maySearch(time.Now())
		r.mutex.Unlock()
		if !search {
			return Mistake{Text: "too many wrong signatures in a short time, so the mistake was not searched"}
		}
		found = e.search()
	}
	if found == nil {
		return e.cut(fmt.Sprintf(
			"none of the usual mistakes makes this signature (the canonical string has %d bytes): "+
				"the key is another one, the message was altered, or the scheme is another", len(expected),
		))
	}
	r.mutex.Lock()
	r.latest = found
	r.mutex.Unlock()
	return Mistake{Text: e.sentence(found), Canonical: found.signed, Message: found.message}
}

// maySearch allows 20 searches at once, and one more each second. The lock is held.
func (r *Explainer) maySearch(now time.Time) bool {
	const burst = 20 * time.Second
	if r.next.Before(now.Add(-burst)) {
		r.next = now.Add(-burst)
	}
	if r.next.After(now) {
		return false
	}
	r.next = r.next.Add(time.Second)
	return true
}

// cut explains a signature without the expected bytes: a part of the correct signature, or the given problem.
func (e *explanation) cut(problem string) Mistake {
	const least = 8 // characters that are equal by chance are fewer
	right, err := e.explainer.Scheme.Signature(e.explainer.Secret, e.message)
	if err != nil || len(e.signature) < least || !strings.Contains(strings.ToLower(right), strings.ToLower(e.signature)) {
		return Mistake{Text: e.masked(problem)}
	}
	return Mistake{
		Text:      e.masked(fmt.Sprintf("the signature has only %d of its %d characters", len(e.signature), len(right))),
		Canonical: e.expected, Message: e.message,
	}
}

// cause is a way to make the signature. alteration is nil if composition is set.
type cause struct {
	candidate
	key     namedKey
	mac     mac
	written written
}

// candidate is a text that a client may have signed: a composition, or the scheme's text of an altered message.
type candidate struct {
	composition *composition
	alteration  *alteration
	signed      []byte
	message     *paymentsvc.Message
}

// sentence describes a cause.
func (e *explanation) sentence(c *cause) string {
	r, right := e.explainer, string(e.explainer.Scheme.Encoding.AppendEncode(nil, c.written.sum)) == c.written.bare
	text, words := "", ""
	switch {
	case c.composition != nil:
		ofBody := slices.ContainsFunc(c.composition.pieces, func(p *piece) bool { return p.kind.ofBody() })
		text = schemeText(c.written.text, c.composition.inner(), canonical.SecretText, ofBody)
		right = true
	case c.alteration.piece != nil:
		var changed bool
		if text, changed = c.alteration.in(r.Text); !changed {
			text, words = "", " "+c.alteration.piece.text+" in place of "+c.alteration.of
		}
	default:
		words = c.alteration.words
	}
	if !right {
		before := text
		if before == "" {
			before = r.Text
		}
		if i := slices.IndexFunc(spellings(), func(s spelling) bool { return strings.HasPrefix(before, s.text+"(") }); i >= 0 {
			text = c.written.text + before[len(spellings()[i].text):]
		} else {
			words += " in " + c.written.desc
		}
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
	if r.Text == "" && !bytes.Equal(c.signed, e.expected) {
		words += fmt.Sprintf(", want a canonical string of %d bytes", len(e.expected))
	}
	return e.masked("signed" + words)
}

// masked adds the expected scheme, and hides secrets and long numbers.
func (e *explanation) masked(sentence string) string {
	if e.explainer.Text != "" {
		sentence += ", want " + e.explainer.Text
	}
	for _, secret := range []paymentsvc.Secret{e.explainer.Secret} {
		if len(secret) >= 8 { // a short secret can occur in every text
			sentence = strings.ReplaceAll(sentence, string(secret), "***")
		}
	}
	return regexp.MustCompile(`[0-9]{8,}`).ReplaceAllStringFunc(sentence, func(number string) string {
		return strings.Repeat("#", len(number))
	})
}
