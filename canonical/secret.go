package canonical

import (
	"crypto/md5"  //nolint:gosec // some services use the MD5 of the secret as key
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// SecretForm is the encoding of an HMAC key in the text of a secret.
type SecretForm int

const (
	// SecretText uses the text as the key, like paymentsvc by default. It is the zero value.
	SecretText SecretForm = iota
	// SecretHex is hexadecimal in upper or lower case.
	SecretHex
	// SecretBase64 is base64 in the standard or URL alphabet, with or without padding.
	SecretBase64
	// SecretBase64Tail is SecretBase64 of the text after the last underscore, as in "whsec_…".
	SecretBase64Tail
	// SecretSHA256 uses the 32 bytes of the text's SHA-256.
	SecretSHA256
	// SecretSHA256Hex uses the text's SHA-256 in lower-case hexadecimal.
	SecretSHA256Hex
	// SecretTail uses the text after the last underscore, as in "sk_…".
	SecretTail
	// SecretHexTail is SecretHex of the text after the last underscore.
	SecretHexTail
	// SecretMD5Hex uses the text's MD5 in lower-case hexadecimal.
	SecretMD5Hex
	// SecretSHA1Hex uses the text's SHA-1 in lower-case hexadecimal.
	SecretSHA1Hex
	// SecretTrimmed uses the text without surrounding white space.
	SecretTrimmed
	// SecretUUID uses the text of a UUID without dashes. It checks only the length and the number of dashes.
	SecretUUID
	// SecretUUIDBytes uses the 16 bytes of a UUID.
	SecretUUIDBytes
	// SecretToBase64 uses the base64 of the text.
	SecretToBase64
)

// keyForm is a row of the table of forms: the name after the word "key" in the text form, the name in Go, a
// description, and the function that reads the key.
type keyForm struct {
	text, code, words string
	form              SecretForm
	read              func(string) (string, error)
}

var keyForms = []keyForm{
	{"text", "SecretText", "text", SecretText, unchanged},
	{"hex", "SecretHex", "hexadecimal", SecretHex, fromHex},
	{"base64", "SecretBase64", "base64", SecretBase64, fromBase64},
	{"base64-tail", "SecretBase64Tail", "base64 after the last underscore", SecretBase64Tail, tail(fromBase64)},
	{"sha256", "SecretSHA256", "the SHA-256 of the text", SecretSHA256, sha256Of},
	{"sha256-hex", "SecretSHA256Hex", "the SHA-256 of the text in hexadecimal", SecretSHA256Hex, inHex(sha256Of)},
	{"tail", "SecretTail", "the text after the last underscore", SecretTail, tail(unchanged)},
	{"hex-tail", "SecretHexTail", "hexadecimal after the last underscore", SecretHexTail, tail(fromHex)},
	{"md5-hex", "SecretMD5Hex", "the MD5 of the text in hexadecimal", SecretMD5Hex, inHex(md5Of)},
	{"sha1-hex", "SecretSHA1Hex", "the SHA-1 of the text in hexadecimal", SecretSHA1Hex, inHex(sha1Of)},
	{"trimmed", "SecretTrimmed", "the text without surrounding white space", SecretTrimmed, trimmed},
	{"uuid", "SecretUUID", "a UUID without its dashes", SecretUUID, withoutDashes},
	{"uuid-bytes", "SecretUUIDBytes", "the bytes of a UUID", SecretUUIDBytes, uuidBytes},
	{"to-base64", "SecretToBase64", "the base64 of the text", SecretToBase64, toBase64},
}

// String returns a short description, such as "base64".
func (f SecretForm) String() string {
	if form, known := f.find(); known {
		return form.words
	}
	return "unknown form"
}

// Name returns the name in the text form of a scheme, such as "base64-tail", or "" for an unknown form.
func (f SecretForm) Name() string {
	form, _ := f.find()
	return form.text
}

func (f SecretForm) find() (form keyForm, known bool) {
	for _, known := range keyForms {
		if known.form == f {
			return known, true
		}
	}
	return keyForm{}, false
}

// Read returns the key in s, for HMACConfig.Secret and WebhookConfig.Secrets. It returns an error if s is empty,
// contains no key, or fails the checks of this form. Errors contain no bytes of s.
func (f SecretForm) Read(s paymentsvc.Secret) (paymentsvc.Secret, error) {
	form, known := f.find()
	switch {
	case s == "":
		return "", errors.New("canonical: the secret is empty")
	case !known:
		return "", errors.New("canonical: unknown form of the secret")
	}
	key, err := form.read(string(s))
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", errors.New("canonical: the secret contains no key")
	}
	return paymentsvc.Secret(key), nil
}

func unchanged(text string) (string, error) { return text, nil }

func trimmed(text string) (string, error) { return strings.TrimSpace(text), nil }

func sha256Of(text string) (string, error) {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:]), nil
}

func sha1Of(text string) (string, error) {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the imports
	return string(sum[:]), nil
}

func md5Of(text string) (string, error) {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see the imports
	return string(sum[:]), nil
}

// inHex returns a function that reads a key and encodes it in hexadecimal.
func inHex(read func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		key, err := read(text)
		return hex.EncodeToString([]byte(key)), err
	}
}

// tail returns a function that reads the text after the last underscore.
func tail(read func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		at := strings.LastIndexByte(text, '_')
		if at < 0 {
			return "", errors.New("canonical: the secret has no underscore")
		}
		return read(text[at+1:])
	}
}

func toBase64(text string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(text)), nil
}

func fromHex(text string) (string, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		return "", errors.New("canonical: the secret is not hexadecimal") // err contains a character of the text
	}
	return string(key), nil
}

func withoutDashes(text string) (string, error) {
	plain := strings.ReplaceAll(text, "-", "")
	if len(plain) != 32 || len(text) != 36 {
		return "", errors.New("canonical: the secret is not a UUID")
	}
	return plain, nil
}

func uuidBytes(text string) (string, error) {
	digits, err := withoutDashes(text)
	if err != nil {
		return "", err
	}
	return fromHex(digits)
}

func fromBase64(text string) (string, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", errors.New("canonical: the secret is not base64")
	}
	return string(key), nil
}
