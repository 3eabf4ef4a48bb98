package canonical

import (
	"crypto/md5"  //nolint:gosec // some services key the HMAC with the MD5 of their secret
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// SecretForm says how to read the text of a secret as the key of the HMAC.
type SecretForm int

const (
	// SecretText is the text itself, as paymentsvc uses a Secret. It is the zero value.
	SecretText SecretForm = iota
	// SecretHex is hexadecimal, in either case.
	SecretHex
	// SecretBase64 is a text in base64, in the standard or the URL alphabet, with or without padding.
	SecretBase64
	// SecretBase64Tail is SecretBase64 for the text after the last underscore, as in "whsec_…".
	SecretBase64Tail
	// SecretSHA256 is the SHA-256 of the text, its 32 bytes.
	SecretSHA256
	// SecretSHA256Hex is the SHA-256 of the text as hexadecimal in lower case.
	SecretSHA256Hex
	// SecretTail is the text after the last underscore, as in "sk_…".
	SecretTail
	// SecretHexTail is SecretHex for the text after the last underscore.
	SecretHexTail
	// SecretMD5Hex is the MD5 of the text as hexadecimal in lower case.
	SecretMD5Hex
	// SecretSHA1Hex is the SHA-1 of the text as hexadecimal in lower case.
	SecretSHA1Hex
	// SecretTrimmed is the text without the white space around it.
	SecretTrimmed
	// SecretUUID is a UUID without its dashes, as text.
	SecretUUID
	// SecretUUIDBytes is the 16 bytes of a UUID.
	SecretUUIDBytes
)

// keyForm is a form of the secret: its name in the text form, after the word key, its name in Go and in words, and how
// it is read.
type keyForm struct {
	text, code, words string
	form              SecretForm
	read              func(string) (string, error)
}

func keyForms() []keyForm {
	return []keyForm{
		{"text", "SecretText", "text", SecretText, func(s string) (string, error) { return s, nil }},
		{"hex", "SecretHex", "hexadecimal", SecretHex, fromHex},
		{"base64", "SecretBase64", "base64", SecretBase64, fromBase64},
		{"base64-tail", "SecretBase64Tail", "base64 behind the last underscore", SecretBase64Tail, tail(fromBase64)},
		{"sha256", "SecretSHA256", "the SHA-256 of the text", SecretSHA256, func(s string) (string, error) {
			sum := sha256.Sum256([]byte(s))
			return string(sum[:]), nil
		}},
		{"sha256-hex", "SecretSHA256Hex", "the SHA-256 of the text in hexadecimal", SecretSHA256Hex, func(s string) (string, error) {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:]), nil
		}},
		{"tail", "SecretTail", "the text behind the last underscore", SecretTail, tail(func(s string) (string, error) { return s, nil })},
		{"hex-tail", "SecretHexTail", "hexadecimal behind the last underscore", SecretHexTail, tail(fromHex)},
		{"md5-hex", "SecretMD5Hex", "the MD5 of the text in hexadecimal", SecretMD5Hex, func(s string) (string, error) {
			sum := md5.Sum([]byte(s)) //nolint:gosec // see the imports
			return hex.EncodeToString(sum[:]), nil
		}},
		{"sha1-hex", "SecretSHA1Hex", "the SHA-1 of the text in hexadecimal", SecretSHA1Hex, func(s string) (string, error) {
			sum := sha1.Sum([]byte(s)) //nolint:gosec // see the imports
			return hex.EncodeToString(sum[:]), nil
		}},
		{"trimmed", "SecretTrimmed", "the text without the white space around it", SecretTrimmed, func(s string) (string, error) {
			return strings.TrimSpace(s), nil
		}},
		{"uuid", "SecretUUID", "a UUID without its dashes", SecretUUID, withoutDashes},
		{"uuid-bytes", "SecretUUIDBytes", "the bytes of a UUID", SecretUUIDBytes, func(s string) (string, error) {
			text, err := withoutDashes(s)
			if err != nil {
				return "", err
			}
			return fromHex(text)
		}},
	}
}

// String describes the form in a few words, such as "text".
func (f SecretForm) String() string {
	if form, known := f.find(); known {
		return form.words
	}
	return "unknown form"
}

// Name is the name of the form in the text form of a scheme, such as "base64-tail"; "" if there is no such form.
func (f SecretForm) Name() string {
	form, _ := f.find()
	return form.text
}

func (f SecretForm) find() (form keyForm, known bool) {
	for _, known := range keyForms() {
		if known.form == f {
			return known, true
		}
	}
	return keyForm{}, false
}

// Read returns the key for HMACConfig.Secret and WebhookConfig.Secrets. It returns an error if s is empty or not of
// this form. Its errors hold nothing of s.
func (f SecretForm) Read(s paymentsvc.Secret) (paymentsvc.Secret, error) {
	form, known := f.find()
	switch {
	case s == "":
		return "", errors.New("canonical: the secret is empty")
	case !known:
		return "", errors.New("canonical: no such form of a secret")
	}
	key, err := form.read(string(s))
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", errors.New("canonical: the secret holds no key")
	}
	return paymentsvc.Secret(key), nil
}

// tail reads the text after the last underscore.
func tail(read func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		at := strings.LastIndexByte(text, '_')
		if at < 0 {
			return "", errors.New("canonical: the secret has no underscore")
		}
		return read(text[at+1:])
	}
}

func fromHex(text string) (string, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		return "", errors.New("canonical: the secret is not hexadecimal") // err repeats a character of it
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

func fromBase64(text string) (string, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", errors.New("canonical: the secret is not base64")
	}
	return string(key), nil
}
