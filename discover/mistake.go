package discover

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Explainer explains wrong signatures for a receiver that knows the scheme and the key. It is safe for concurrent use.
type Explainer struct {
	// Scheme and Secret are the scheme and the HMAC key of correct signatures. They are required.
	Scheme paymentsvc.Scheme
	Secret paymentsvc.Secret
	// Text is the text form of Scheme, for [Mistake.Text]. It is optional, but Explain finds more mistakes with Text.
	Text string
	// Others are other keys of the program by their descriptions, such as "the secret of project 7".
	Others map[string]paymentsvc.Secret

	mu   sync.Mutex
	next time.Time // see maySearch

	once sync.Once
	keys []string // see Explainer.hidden
}

// Mistake is the explanation of a wrong signature.
type Mistake struct {
	// Text is the cause in one sentence, without secrets, bodies and long numbers:
	//
	//	signed hex(body), want hex(timestamp "." body)
	//
	// Without Explainer.Text, the sentence ends with the length of the expected canonical string if the client signed
	// another text.
	Text string
	// Canonical is the signed canonical string, or nil for an unknown cause. It can contain card data and the secret.
	Canonical []byte
	// Message is the message with this canonical string in the expected scheme. It is nil for an unknown cause, and if
	// the client used another scheme.
	Message *paymentsvc.Message
}

// Explain finds the cause of a wrong signature of m. It tries common compositions, changes of the message, keys and
// algorithms, for about 50 ms of processor time. After 20 searches in quick succession it searches at most once per
// second, because anybody can send wrong signatures.
func (x *Explainer) Explain(m *paymentsvc.Message, signature string) Mistake {
	expected, err := x.Scheme.Canonical(nil, m)
	if err != nil {
		return Mistake{Text: hideNumbers("the scheme rejects this message: " + x.hideKeys(err.Error()))}
	}
	written := x.readings(signature)
	if len(written) == 0 {
		return Mistake{Text: x.wanted(notASignature(signature))}
	}
	if !x.maySearch(time.Now()) {
		return Mistake{Text: "too many wrong signatures in a short time, so the search for the cause was skipped"}
	}
	e := newExplanation(x, m, expected, written)
	if c := e.search(); c != nil {
		return Mistake{Text: e.sentence(c), Canonical: c.signed, Message: c.message}
	}
	if e.left < 0 {
		return Mistake{Text: x.wanted("the cause was not found, because the message is too large for a complete search")}
	}
	return Mistake{Text: x.wanted(fmt.Sprintf(
		"no common mistake explains this signature (the canonical string has %d bytes): "+
			"the key is wrong, the message was altered, or the scheme is different", len(expected),
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

// simpleEncoding matches an encoding without options at the start of a text form.
var simpleEncoding = regexp.MustCompile(`^(hex|HEX|base64[a-z-]*)\(`)

// sentence describes a cause.
func (e *explanation) sentence(c *cause) string {
	text, words := c.text, ""
	if c.piece != nil {
		if text = c.in(e.scheme); text == e.scheme {
			text, words = "", " "+c.piece.text+" in place of "+c.of
		}
	}
	right := string(e.Scheme.Encoding.AppendEncode(nil, []byte(c.written.sum))) == c.written.bare
	if text == "" && !right {
		text = e.scheme
	}
	switch {
	case simpleEncoding.MatchString(text):
		text = simpleEncoding.ReplaceAllLiteralString(text, c.written.text+"(")
	case !right:
		text, words = "", words+" in "+c.written.desc
	}
	if text != "" {
		words = " " + text + words
		if c.key.words == "" {
			words += e.keyForm
		}
	}
	words = e.hideKeys(words + c.written.around)
	if c.key.words != "" {
		words += " with " + c.key.words
	}
	if c.mac.words != "" {
		words += " by " + c.mac.words
	}
	if e.Text == "" && !bytes.Equal(c.signed, e.expected) {
		words += fmt.Sprintf(", want a canonical string of %d bytes", len(e.expected))
	}
	return e.wanted("signed" + words)
}

// wanted adds the expected scheme, if Text is set, to a sentence without keys. It hides long numbers.
func (x *Explainer) wanted(sentence string) string {
	if x.Text != "" {
		sentence += ", want " + x.hideKeys(x.Text)
	}
	return hideNumbers(sentence)
}

// hideKeys hides the texts that x.hidden returns. It decodes URL escapes in a text with an escaped key. A client can
// send a key in its address, or before its signature. The descriptions of keys stay, because the program chose them.
func (x *Explainer) hideKeys(text string) string {
	for _, key := range x.hidden() {
		text = strings.ReplaceAll(text, key, "***")
		if plain := unescaped(text); strings.Contains(plain, key) {
			text = strings.ReplaceAll(plain, key, "***")
		}
	}
	return text
}

var urlEscape = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

func unescaped(text string) string {
	return urlEscape.ReplaceAllStringFunc(text, func(escape string) string {
		octet, _ := hex.DecodeString(escape[1:]) // the expression allows only hexadecimal
		return string(octet)
	})
}

// hidden returns the texts that reveal a key.
func (x *Explainer) hidden() []string {
	x.once.Do(func() { x.keys = revealing(append(slices.Collect(maps.Values(x.Others)), x.Secret)...) })
	return x.keys
}

// longNumber matches a possible card number. Its second alternative also matches the compact dates of a scheme.
var longNumber = regexp.MustCompile(`[0-9](?:[ -]?[0-9]){12,}|[0-9]{8,}`)

func hideNumbers(text string) string {
	return longNumber.ReplaceAllStringFunc(text, func(number string) string {
		if number == "20060102" || number == "20060102150405" { // the layout of a date
			return number
		}
		return strings.Repeat("#", len(number))
	})
}

// revealing returns the texts that reveal a secret, the longest first: the secret, its readings, and its encodings,
// plain and quoted. It omits texts of fewer than 8 bytes, because such texts can occur in any sentence.
func revealing(secrets ...paymentsvc.Secret) (texts []string) {
	add := func(text string) {
		quoted := strconv.Quote(text)
		texts = append(texts, text, quoted[1:len(quoted)-1])
	}
	for _, secret := range secrets {
		add(hex.EncodeToString([]byte(secret)))
		add(strings.ToUpper(hex.EncodeToString([]byte(secret))))
		add(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="))
		add(base64.RawURLEncoding.EncodeToString([]byte(secret)))
		for form := canonical.SecretText; form.Name() != ""; form++ {
			if key, err := form.Read(secret); err == nil {
				add(string(key))
			}
		}
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return len(text) < 8 })
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(texts)
}
