package paymentsvctest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

// SignatureFault is a request with a wrong timestamp or signature, and the reason.
type SignatureFault struct {
	// Endpoint is the path below {base_url}. Number is the number of the request at this endpoint, from 1.
	Endpoint string
	Number   int
	// Reason is the cause in one sentence without secrets and bodies, for example the text of a [discover.Mistake].
	Reason string
	// Difference is the first difference from the expected canonical string, or nil if it is unknown.
	Difference *Difference
}

// String returns the fault on one line.
func (f SignatureFault) String() string {
	text := fmt.Sprintf("%s, request %d: %s", f.Endpoint, f.Number, f.Reason)
	if f.Difference != nil {
		text += "; " + f.Difference.String()
	}
	return text
}

// Difference is the first difference of two canonical strings, with a few bytes around it. Secrets and digits are
// masked, except the digits of the timestamp. Letters outside a secret are not masked.
type Difference struct {
	// Offset is the number of equal bytes before the difference.
	Offset int
	// Signed and Expected are the bytes around the difference.
	Signed, Expected string
}

// String returns the offset and both sides.
func (d Difference) String() string {
	return fmt.Sprintf("the canonical strings differ at byte %d: signed %q, expected %q", d.Offset, d.Signed, d.Expected)
}

// SignatureFaults returns the requests with a rejected timestamp or signature, the oldest first.
func (s *Server) SignatureFaults() []SignatureFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, _ := s.signatures.after(0)
	return list
}

// Watch returns a copy of scheme that records its canonical strings. If the code under test signs with this copy,
// [Server.SignatureFaults] has the first difference from the canonical string of Config.Scheme:
//
//	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: srv.Watch(mine), Secret: secret})
//
// The server keeps the latest 256 strings. For other signatures, it searches for the cause, see [discover.Explainer].
func (s *Server) Watch(scheme paymentsvc.Scheme) paymentsvc.Scheme {
	inner := scheme.Canonical
	if inner == nil {
		return scheme
	}
	scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		before := len(dst)
		dst, err := inner(dst, m)
		if err == nil {
			s.watched.add(dst[before:])
		}
		return dst, err
	}
	return scheme
}

// recorder keeps the latest canonical strings.
type recorder struct {
	mu    sync.Mutex
	texts [][]byte
}

func (r *recorder) add(text []byte) {
	const most = 256
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.texts) == most {
		r.texts = slices.Delete(r.texts, 0, 1)
	}
	r.texts = append(r.texts, bytes.Clone(text))
}

func (r *recorder) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.texts)
}

// newExplainers returns an explainer of wrong signatures for each project.
func newExplainers(c *Config) map[int64]*discover.Explainer {
	explainers := map[int64]*discover.Explainer{}
	for _, p := range c.Projects {
		others := map[string]paymentsvc.Secret{}
		for _, other := range c.Projects {
			if other.ID != p.ID {
				others[fmt.Sprintf("the secret of project %d", other.ID)] = other.Secret
			}
		}
		if p.OldSecret != "" {
			others["the old secret"] = p.OldSecret
		}
		explainers[p.ID] = &discover.Explainer{Scheme: c.Scheme, Text: c.SchemeText, Secret: p.Secret, Others: others}
	}
	return explainers
}

// diagnose explains a wrong signature of m. It skips a large body, because the search signs the body many times. The
// explainer limits the number of searches during a flood of wrong signatures.
func (s *Server) diagnose(p Project, m *paymentsvc.Message) *SignatureFault {
	const longest = 64 << 10
	if len(m.Body) > longest {
		return &SignatureFault{Reason: "the signature is wrong, and the body is too large to search for the mistake"}
	}
	signature, watched := m.Header.Get("Signature"), s.watched.all()
	for _, signed := range watched {
		scheme := paymentsvc.Scheme{Canonical: canonical.Literal(string(signed)), Encoding: s.cfg.Scheme.Encoding}
		if made, err := scheme.Signature(p.Secret, m); err == nil && made == signature {
			return s.differs("the code under test makes another canonical string", signed, m)
		}
	}
	mistake := s.explainers[p.ID].Explain(m, signature)
	if mistake.Canonical != nil {
		return s.differs(mistake.Text, mistake.Canonical, m)
	}
	expected, _ := s.cfg.Scheme.Canonical(nil, m) // Explain reports the error
	if slices.ContainsFunc(watched, func(signed []byte) bool { return bytes.Equal(signed, expected) }) {
		return &SignatureFault{Reason: "the canonical string is right, so the secret or the encoding is wrong"}
	}
	return &SignatureFault{Reason: mistake.Text}
}

// differs returns a fault with the difference of the signed and the expected canonical string.
func (s *Server) differs(reason string, signed []byte, m *paymentsvc.Message) *SignatureFault {
	expected, _ := s.cfg.Scheme.Canonical(nil, m) // the scheme may fail for m
	secrets := make([]paymentsvc.Secret, 0, 2*len(s.cfg.Projects))
	for _, p := range s.cfg.Projects {
		secrets = append(secrets, p.Secret, p.OldSecret)
	}
	return &SignatureFault{Reason: reason, Difference: NewDifference(signed, expected, m.Timestamp, secrets...)}
}

// excerpt is the number of bytes on each side of a difference.
const excerpt = 12

// NewDifference returns the first difference of two canonical strings, or nil for equal strings. It masks the secrets
// and all digits, except a timestamp of at least 10 bytes.
func NewDifference(signed, expected []byte, timestamp string, secrets ...paymentsvc.Secret) *Difference {
	if bytes.Equal(signed, expected) {
		return nil
	}
	at := 0
	for at < min(len(signed), len(expected)) && signed[at] == expected[at] {
		at++
	}
	around := func(text []byte) string {
		text = masked(text, timestamp, secrets)
		return string(text[max(at-excerpt, 0):min(at+excerpt, len(text))])
	}
	return &Difference{Offset: at, Signed: around(signed), Expected: around(expected)}
}

// masked hides secrets and digits, because a canonical string can contain card data and the key.
func masked(text []byte, timestamp string, secrets []paymentsvc.Secret) []byte {
	out := bytes.Clone(text)
	for i, c := range out {
		if '0' <= c && c <= '9' {
			out[i] = '#'
		}
	}
	if len(timestamp) >= 10 { // a time of this century; a shorter number may be another value
		overlay(out, text, timestamp, timestamp)
	}
	for _, secret := range secrets {
		overlay(out, text, string(secret), strings.Repeat("*", len(secret)))
	}
	return out
}

// overlay overwrites out with a replacement at each occurrence of word in text. Occurrences may overlap.
func overlay(out, text []byte, word, with string) {
	for at := 0; word != "" && at < len(text); at++ {
		next := bytes.Index(text[at:], []byte(word))
		if next < 0 {
			return
		}
		at += next
		copy(out[at:], with)
	}
}
