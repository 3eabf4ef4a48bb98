package discover

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// frame surrounds a part. The text form of the part replaces %s in text.
type frame struct {
	text   string
	part   func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	inside string // field whose object contains all signed fields; "" for other frames
	desc   string // description of a frame around a whole text, with %s for this text
	loses  string // see shape
}

func asIs() frame {
	return frame{text: "%s", part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return p }}
}

func within(name string) frame {
	return frame{
		text: fmt.Sprintf("within(%q, %%s)", name), inside: name,
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return canonical.Within(name, p) },
	}
}

// around returns the frame with another frame inside it. The result has only text and part.
func (f frame) around(inner frame) frame {
	return frame{
		text: fmt.Sprintf(f.text, inner.text),
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return f.part(inner.part(p)) },
	}
}

// digestOf returns the frame of a digest in an encoding. The encoding "" is the bytes of the digest.
func digestOf(name, encoding string) frame {
	digest := map[string]func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc{
		"md5": canonical.MD5, "sha1": canonical.SHA1, "sha256": canonical.SHA256, "sha512": canonical.SHA512,
	}[name]
	in := map[string]paymentsvc.Encoding{
		"": canonical.Raw, "hex": paymentsvc.Hex, "HEX": paymentsvc.HexUpper, "base64": base64.StdEncoding,
	}[encoding]
	text := name + "(%s)"
	if encoding != "" {
		text = encoding + "(" + text + ")"
	}
	return frame{text: text, part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return digest(in, p) }}
}

// addedField returns the frame that adds a field to the body. function is with or with-number.
func (c *catalogue) addedField(function, name, value string) frame {
	scheme, _, err := canonical.ParseSchemeWith(schemeText("hex", value, canonical.SecretText, false), c.secret)
	if err != nil {
		c.err = err
	}
	add := canonical.With
	if function == "with-number" {
		add = canonical.WithNumber
	}
	return frame{
		text: fmt.Sprintf("%s(%q, %s, %%s)", function, name, value),
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return add(name, scheme.Canonical, p) },
	}
}

// in returns the piece in a frame.
func (p piece) in(around frame) piece {
	p.around = around
	if around.text == "%s" {
		return p
	}
	p.text, p.part = fmt.Sprintf(around.text, p.text), around.part(p.part)
	p.cost += 6 // more than a separate piece with the secret or the timestamp
	if around.inside != "" {
		p.cost -= 3
	}
	p.desc += " (" + strings.TrimSuffix(around.text, ", %s)") + ")"
	p.hasTimestamp = strings.Contains(around.text, "timestamp")
	return p
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
	return &frame{text: name + "(%s)", desc: "%s, all in " + name + " case", part: part, loses: losesCase}
}

func inDigest(name, encoding, desc string) *frame {
	f := digestOf(name, encoding)
	f.desc = desc
	return &f
}
