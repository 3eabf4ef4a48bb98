package discover

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// frame surrounds a part. The strings before and after enclose the text form of the part. The zero frame changes
// nothing.
type frame struct {
	before, after string
	part          func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	messages      []paymentsvc.Message // by sample, for the part inside; nil for unchanged and for large messages
	missing       []bool               // by sample; true if the frame rejects the message
	inside        string               // field whose object contains all signed fields; "" for other frames
	desc          string               // description of a frame around a whole text, with %s for this text
	loses         string               // see shape
}

func (f frame) of(text string) string { return f.before + text + f.after }

func (c *catalogue) within(name string) frame {
	return c.prepared(frame{
		before: fmt.Sprintf("within(%q, ", name), after: ")", inside: name,
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return canonical.Within(name, p) },
	})
}

// around returns the frame with another frame inside it.
func (c *catalogue) around(outer, inner frame) frame {
	return c.prepared(frame{
		before: outer.before + inner.before, after: inner.after + outer.after,
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return outer.part(inner.part(p)) },
	})
}

// prepared returns a frame that changes the body, with the changed messages unless they take too much memory.
func (c *catalogue) prepared(f frame) frame {
	for _, s := range c.samples {
		if c.large() {
			break
		}
		body, err := f.part(canonical.Body)(nil, &s.message)
		m := s.message
		m.Body = body
		f.messages, f.missing = append(f.messages, m), append(f.missing, err != nil)
	}
	return f
}

// digestOf returns the frame of a digest in an encoding. The encoding "" is the bytes of the digest.
func digestOf(name, encoding string) frame {
	digest := map[string]func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc{
		"md5": canonical.MD5, "sha1": canonical.SHA1, "sha256": canonical.SHA256, "sha512": canonical.SHA512,
	}[name]
	in := map[string]paymentsvc.Encoding{
		"": canonical.Raw, "hex": paymentsvc.Hex, "HEX": paymentsvc.HexUpper, "base64": base64.StdEncoding,
	}[encoding]
	f := frame{before: name + "(", after: ")"}
	if encoding != "" {
		f.before, f.after = encoding+"("+f.before, "))"
	}
	f.part = func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return digest(in, p) }
	return f
}

// addedField returns the frame that adds a field to the body. function is "with" or "with-number".
func (c *catalogue) addedField(function, name, value string) frame {
	before := fmt.Sprintf("%s(%q, %s, ", function, name, value)
	if known, ok := c.frames[before]; ok {
		return known
	}
	scheme, _, err := canonical.ParseSchemeWith(schemeText("hex", value, canonical.SecretText, false), c.secret)
	if err != nil {
		c.err = err
	}
	add := canonical.With
	if function == "with-number" {
		add = canonical.WithNumber
	}
	c.frames[before] = c.prepared(frame{
		before: before, after: ")",
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return add(name, scheme.Canonical, p) },
	})
	return c.frames[before]
}

// in returns the piece in a frame.
func (p piece) in(around frame) piece {
	if around.part == nil {
		return p
	}
	p.around, p.inner, p.part = around, p.part, around.part(p.part)
	p.cost += 6 // more than a separate piece with the secret or the timestamp
	if around.inside != "" {
		p.cost -= 3
	}
	p.hasTimestamp = strings.Contains(around.before, "timestamp")
	if p.text != "" {
		p.text, p.desc = around.of(p.text), around.words(p.desc)
	}
	return p
}

// words returns the description of a piece in the frame.
func (f frame) words(desc string) string {
	return desc + " (" + strings.TrimSuffix(f.before, ", ") + ")"
}

// wrappings are the frames around a whole text.
var wrappings = []*frame{
	inCase("lower", canonical.Lower), // Apache CloudStack signs the query in lower case
	inCase("upper", canonical.Upper),
	inDigest("sha256", "hex", "SHA-256 in hexadecimal of %s"), // Alibaba Cloud and other clouds
	inDigest("sha256", "", "bytes of the SHA-256 of %s"),      // Bit2Me and other exchanges
	inDigest("sha512", "base64", "SHA-512 in base64 of %s"),
}

func inCase(name string, part func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc) *frame {
	return &frame{before: name + "(", after: ")", desc: "%s, all in " + name + " case", part: part, loses: losesCase}
}

func inDigest(name, encoding, desc string) *frame {
	f := digestOf(name, encoding)
	f.desc = desc
	return &f
}
