package canonical

import (
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
)

// String describes the form in a few words, such as "text".
func (f SecretForm) String() string {
	switch f {
	case SecretText:
		return "text"
	case SecretHex:
		return "hexadecimal"
	case SecretBase64:
		return "base64"
	case SecretBase64Tail:
		return "base64 behind the last underscore"
	case SecretSHA256:
		return "the SHA-256 of the text"
	case SecretSHA256Hex:
		return "the SHA-256 of the text in hexadecimal"
	default:
		return "unknown form"
	}
}

// Read returns the key for HMACConfig.Secret and WebhookConfig.Secrets. It returns an error if s is empty or not of
// this form. Its errors hold nothing of s.
func (f SecretForm) Read(s paymentsvc.Secret) (paymentsvc.Secret, error) {
	key, err := f.read(string(s))
	switch {
	case s == "":
		return "", errors.New("canonical: the secret is empty")
	case err != nil:
		return "", err
	case key == "":
		return "", errors.New("canonical: the secret holds no key")
	}
	return paymentsvc.Secret(key), nil
}

func (f SecretForm) read(text string) (string, error) {
	switch f {
	case SecretText:
		return text, nil
	case SecretHex:
		key, err := hex.DecodeString(text)
		if err != nil {
			return "", errors.New("canonical: the secret is not hexadecimal") // err repeats a character of it
		}
		return string(key), nil
	case SecretBase64:
		return fromBase64(text)
	case SecretBase64Tail:
		at := strings.LastIndexByte(text, '_')
		if at < 0 {
			return "", errors.New("canonical: the secret has no underscore")
		}
		return fromBase64(text[at+1:])
	case SecretSHA256:
		sum := sha256.Sum256([]byte(text))
		return string(sum[:]), nil
	case SecretSHA256Hex:
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:]), nil
	default:
		return "", errors.New("canonical: no such form of a secret")
	}
}

func fromBase64(text string) (string, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", errors.New("canonical: the secret is not base64")
	}
	return string(key), nil
}
