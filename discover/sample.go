package discover

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Sample is an accepted request or a notification, with the exact bytes sent and a correct signature.
type Sample struct {
	// Name identifies the sample in errors and hints, such as the name of a file. "" means "sample 1" and so on.
	Name string
	// Message is the message with its Kind. An empty Timestamp means the timestamp header of the message.
	Message paymentsvc.Message
	// Signature is the text of the signature. "" means the signature header of the message.
	Signature string
}

// sample is a checked Sample with the possible encodings of its signature.
type sample struct {
	name      string
	message   paymentsvc.Message
	signature string
	encodings []reading
}

// reading is a possible encoding of a signature, and the decoded bytes.
type reading struct {
	spelling
	sum string
}

// sums returns the possible sums of the signature.
func (s *sample) sums() (list []string) {
	for _, r := range s.encodings {
		list = append(list, r.sum)
	}
	return list
}

// spelling is an encoding: as in the text form of a scheme, in words, and as a value.
type spelling struct {
	text, desc string
	encoding   paymentsvc.Encoding
}

func newSpelling(text, desc string) spelling {
	scheme, _ := canonical.ParseScheme(text + "(body)") // the text is valid
	return spelling{text, desc, scheme.Encoding}
}

// expr returns the Go expression of the encoding.
func (s spelling) expr() string {
	code, _ := canonical.GoCode(s.text + "(body)") // the text is valid
	return code.Encoding
}

// SampleError is a mistake in a sample. Its text contains neither the signature nor the body.
type SampleError struct {
	// Index is the index of the sample in the argument of [Find]. Name is [Sample.Name], or "sample 1" and so on.
	Index int
	Name  string
	// Header is the wrong header, Timestamp or Signature.
	Header string
	// Err is the reason.
	Err error
}

// Error returns the name of the sample and the mistake.
func (e *SampleError) Error() string {
	if e == nil {
		return "discover: a nil *SampleError"
	}
	return fmt.Sprintf("discover: %s: %v", e.Name, e.Err)
}

// Unwrap returns Err.
func (e *SampleError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

func newSample(index int, s Sample) (*sample, error) {
	out := &sample{
		name:      cmp.Or(s.Name, fmt.Sprintf("sample %d", index+1)),
		message:   s.Message,
		signature: s.Signature,
	}
	fail := func(header, problem string) (*sample, error) {
		return nil, &SampleError{Index: index, Name: out.name, Header: header, Err: errors.New(problem)}
	}
	if out.signature == "" {
		values := s.Message.Header.Values("Signature")
		if len(values) != 1 {
			return fail("Signature", fmt.Sprintf("%d signature headers, want exactly 1", len(values)))
		}
		out.signature = values[0]
	}
	if out.message.Timestamp == "" {
		values := s.Message.Header.Values("Timestamp")
		if len(values) != 1 {
			return fail("Timestamp", fmt.Sprintf("%d timestamp headers, want exactly 1", len(values)))
		}
		out.message.Timestamp = values[0]
	}
	if out.encodings = encodingsOf(out.signature, sha256.Size); len(out.encodings) == 0 {
		return fail("Signature", notASignature(out.signature))
	}
	return out, nil
}

// encodingsOf returns the encodings in which the signature, with or without a label, decodes to one of these sizes.
func encodingsOf(signature string, sizes ...int) []reading {
	found := plainEncodingsOf(signature, sizes)
	for at := range labelsBefore(signature) {
		for _, e := range plainEncodingsOf(signature[at:], sizes) {
			e.spelling = newSpelling(fmt.Sprintf("prefixed(%q, %s)", signature[:at], e.text),
				fmt.Sprintf("%s after %q", e.desc, signature[:at]))
			found = append(found, e)
		}
	}
	return found
}

// labelsBefore returns the possible starts of a signature after a label, as in "sha256=…", "v1,…" and "1/SHA256/…".
// A long number ends the search, because it can be a timestamp.
func labelsBefore(signature string) iter.Seq[int] {
	const longest, longestNumber = 40, 5
	return func(yield func(int) bool) {
		digits := 0
		for i := range min(len(signature), longest) {
			switch c := signature[i]; {
			case '0' <= c && c <= '9':
				if digits++; digits > longestNumber {
					return
				}
				continue
			case strings.IndexByte("=,: /", c) >= 0 && i > 0 && !yield(i+1):
				return
			}
			digits = 0
		}
	}
}

// spellings are the possible encodings of a signature.
var spellings = newSpellings()

func newSpellings() []spelling {
	hexes := []spelling{
		newSpelling("hex", "hexadecimal in lower case"), newSpelling("HEX", "hexadecimal in upper case"),
	}
	all := slices.Clone(hexes)
	for _, b := range []struct{ text, desc string }{
		{"base64", "base64"}, {"base64-raw", "base64 without padding"},
		{"base64url", "base64 in the URL alphabet"}, {"base64url-raw", "base64 in the URL alphabet without padding"},
	} {
		all = append(all, newSpelling(b.text, b.desc))
		for _, h := range hexes {
			all = append(all, newSpelling(
				fmt.Sprintf("chain(%s, %s)", h.text, b.text), fmt.Sprintf("%s of the %s", b.desc, h.desc)))
		}
	}
	return all
}

func plainEncodingsOf(text string, sizes []int) (found []reading) {
	inHex, _ := hex.DecodeString(text) // invalid text is too short or encodes differently
	alphabet := strings.NewReplacer("-", "+", "_", "/")
	inBase64, _ := base64.RawStdEncoding.DecodeString(alphabet.Replace(strings.TrimRight(text, "=")))
	inBoth, _ := hex.DecodeString(string(inBase64))
	for _, sum := range [][]byte{inHex, inBase64, inBoth} {
		if !slices.Contains(sizes, len(sum)) {
			continue
		}
		for _, s := range spellings {
			if string(s.encoding.AppendEncode(nil, sum)) == text {
				found = append(found, reading{s, string(sum)})
			}
		}
	}
	return found
}

// notASignature describes a text that is not 32 bytes in any encoding. It reports the length but not the characters.
func notASignature(text string) string {
	const wanted = "the signature is not the 32 bytes of an HMAC-SHA256 in hexadecimal or base64"
	switch {
	case text == "":
		return "the signature is empty"
	case strings.TrimSpace(text) != text:
		return "the signature has white space around it"
	case strings.Count(text, "=") > 1 && strings.Contains(text, ","):
		return wanted + "; it looks like a list: pass only the value of the signature"
	}
	size := func(n int, encoding string) string {
		text := fmt.Sprintf("%s; it is %d bytes in %s", wanted, n, encoding)
		if name := map[int]string{16: "MD5", 20: "SHA-1", 48: "SHA-384", 64: "SHA-512"}[n]; name != "" {
			text += ", the size of " + name
		}
		return text
	}
	if sum, err := hex.DecodeString(text); err == nil {
		return size(len(sum), "hexadecimal")
	}
	if sum, err := base64.StdEncoding.DecodeString(text); err == nil {
		return size(len(sum), "base64")
	}
	return fmt.Sprintf("%s; it has %d characters in an unknown encoding", wanted, len(text))
}

// newSamples checks all samples, and keeps their common encodings.
func newSamples(in []Sample) ([]*sample, error) {
	if len(in) == 0 {
		return nil, errors.New("discover: Find needs a sample")
	}
	samples := make([]*sample, len(in))
	for i := range in {
		var err error
		if samples[i], err = newSample(i, in[i]); err != nil {
			return nil, err
		}
	}
	has := func(s *sample, text string) bool {
		return slices.ContainsFunc(s.encodings, func(e reading) bool { return e.text == text })
	}
	for _, s := range samples[1:] { // first the shared encodings of samples[0], then those of the other samples
		samples[0].encodings = slices.DeleteFunc(samples[0].encodings, func(e reading) bool { return !has(s, e.text) })
		if len(samples[0].encodings) == 0 {
			return nil, fmt.Errorf("discover: the signatures of %s and %s are in different encodings: "+
				"search them separately", samples[0].name, s.name)
		}
	}
	for _, s := range samples[1:] {
		s.encodings = slices.DeleteFunc(s.encodings, func(e reading) bool { return !has(samples[0], e.text) })
	}
	return samples, nil
}
