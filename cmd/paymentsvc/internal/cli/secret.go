package cli

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// Secret returns the project secret key of -secret-file, or an error if the flag is not set.
func (c *Call) Secret() (paymentsvc.Secret, error) {
	secret, err := c.secretOf("secret-file")
	if err == nil && secret == "" {
		err = Usagef("-secret-file: not set; want the file with the project secret key")
	}
	return secret, err
}

// OldSecret returns the key of -old-secret-file, or "".
func (c *Call) OldSecret() (paymentsvc.Secret, error) { return c.secretOf("old-secret-file") }

func (c *Call) secretOf(flag string) (paymentsvc.Secret, error) {
	path := c.Text(flag)
	if path == "" {
		return "", nil
	}
	return c.ReadSecret(c.Value(flag).Place(), path)
}

// ReadSecret reads a key from a file, or from standard input for "-". It removes a byte order mark and one line end,
// with a note, and prints a note for a file that other users can open. It rejects UTF-16, a line of a settings file,
// quotes, and all keys that [paymentsvc.NewHMACSigner] rejects. Errors contain the text in what instead of the path,
// because the path may be the key itself by mistake.
func (c *Call) ReadSecret(what, path string) (paymentsvc.Secret, error) {
	data, err := c.ReadInput(what, path)
	if err != nil {
		return "", err
	}
	key, err := withoutMark(what, data)
	if err != nil {
		return "", err
	}
	if len(key) < len(data) {
		c.Note("%s: the byte order mark is not part of the secret", what)
	}
	if rest, found := bytes.CutSuffix(key, []byte("\n")); found {
		key = bytes.TrimSuffix(rest, []byte("\r"))
		c.Note("%s: the line end is not part of the secret", what)
	}
	if err := checkKey(paymentsvc.Secret(key)); err != nil {
		return "", Usagef("%s: %w", what, err)
	}
	if path != "-" && openToOthers(inDir(c.Dir, path)) {
		c.Note("%s: other users can open the secret's file; want mode 0600", what)
	}
	return paymentsvc.Secret(key), nil
}

// openToOthers reports whether other users have permissions for a regular file. On Windows, it returns false.
func openToOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.PathSeparator == '/' && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}

var (
	keyForm    = regexp.MustCompile(`,\s*key\s+[^,]+`)
	assignment = regexp.MustCompile(`(?i)^(export +)?[a-z0-9_]*(key|secret) *= *[^=\s]`)
	quoted     = regexp.MustCompile("^(\".*\"|'.*'|`.*`)$")
)

// checkKey rejects text around a key, and every key that the SDK rejects, with the SDK's text.
func checkKey(key paymentsvc.Secret) error {
	switch {
	case assignment.MatchString(string(key)):
		return errors.New("a line of a settings file, KEY=...; want only the key")
	case quoted.MatchString(string(key)):
		return errors.New("quotes around the key; want only the key")
	}
	scheme := paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex}
	_, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: key})
	if err == nil {
		return nil
	}
	_, reason, _ := strings.Cut(err.Error(), "Secret: ")
	return errors.New(reason)
}

// Key is a scheme with one secret, ready to sign and verify.
type Key struct {
	Scheme paymentsvc.Scheme
	// Secret is the key of the HMAC, in the form named by the scheme.
	Secret paymentsvc.Secret
	// Shown is the scheme with a placeholder for the secret, for output.
	Shown paymentsvc.Scheme
	// Text is the text of the scheme.
	Text string
	// Old reports whether the key comes from -old-secret-file.
	Old bool

	hidden []*regexp.Regexp // the secret before and after conversion
}

// Mask hides the secret, card numbers and destinations in text.
func (k Key) Mask(text string) string { return mask.Text(text, k.hidden...) }

// MaskAll hides the secrets of all keys, card numbers and destinations in text.
func MaskAll(keys []Key, text string) string {
	var hidden []*regexp.Regexp
	for _, key := range keys {
		hidden = append(hidden, key.hidden...)
	}
	return mask.Text(text, hidden...)
}

// SchemeText returns the text of -scheme or -scheme-file and its origin. If both are set, the flag from the source with
// the higher precedence applies. It returns an error without a scheme, and if both flags come from one source.
func (c *Call) SchemeText() (text, origin string, err error) {
	scheme, file := c.Value("scheme"), c.Value("scheme-file")
	switch {
	case len(scheme.Texts)+len(file.Texts) == 0:
		return "", "", Usagef("-scheme: not set; the interface document does not specify a scheme; " +
			"paymentsvc discover finds it")
	case scheme.rank == file.rank:
		return "", "", Usagef("%s and %s: want only one of these settings", scheme.Place(), file.Place())
	case scheme.rank > file.rank:
		text, origin = scheme.Texts[0], scheme.Place()
	default:
		data, err := c.ReadInput(file.Place(), c.Text("scheme-file"))
		if err != nil {
			return "", "", err
		}
		data, err = withoutMark(file.Place(), data)
		if err != nil {
			return "", "", err
		}
		text, origin = strings.TrimSpace(string(data)), file.Place()
	}
	if !strings.Contains(text, "(") { // the text may be the secret by mistake, and errors of the parser quote words
		return "", "", Usagef(`%s: not a scheme, such as hex(timestamp "." body)`, origin)
	}
	return text, origin, nil
}

// Key returns the scheme with the secret of -secret-file.
func (c *Call) Key() (Key, error) {
	secret, err := c.Secret()
	if err != nil {
		return Key{}, err
	}
	text, origin, err := c.SchemeText()
	if err != nil {
		return Key{}, err
	}
	return newKey(text, origin, secret)
}

// Keys returns the scheme with each accepted secret: first -secret-file, then -old-secret-file.
func (c *Call) Keys() ([]Key, error) {
	key, err := c.Key()
	if err != nil {
		return nil, err
	}
	old, err := c.OldSecret()
	if err != nil || old == "" {
		return []Key{key}, err
	}
	// key.Text instead of SchemeText, because standard input can be read only once
	oldKey, err := newKey(key.Text, c.Value("old-secret-file").Place(), old)
	oldKey.Old = true
	return []Key{key, oldKey}, err
}

func newKey(text, origin string, secret paymentsvc.Secret) (k Key, err error) {
	k = Key{Text: text}
	k.Scheme, k.Secret, err = canonical.ParseSchemeWith(text, secret)
	if err != nil {
		return Key{}, Usagef("%s: %s", origin, strings.TrimPrefix(err.Error(), "scheme: "))
	}
	k.hidden = []*regexp.Regexp{mask.Pattern(string(secret))}
	if k.Secret != secret { // the scheme names a form of the key
		k.hidden = append(k.hidden, mask.Pattern(string(k.Secret)))
	}
	// Shown omits the form of the key, because the placeholder is text. Hashes of the secret become hashes of the
	// placeholder.
	end := strings.LastIndexByte(text, ')') + 1
	k.Shown, _, _ = canonical.ParseSchemeWith(text[:end]+keyForm.ReplaceAllString(text[end:], ""), "<secret>")
	return k, nil
}
