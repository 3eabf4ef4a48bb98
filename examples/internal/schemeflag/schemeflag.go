// Package schemeflag reads the flags of the examples for what the interface document does not show: the canonical
// string, the encoding of the signature, and the names of the error fields.
package schemeflag

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// What the flags say of themselves.
const (
	CanonicalUsage = "canonical string as a `template` of {timestamp}, {method}, {path}, {body}, {body-sha256}\n" +
		`and any text between them, \n being a line end`
	EncodingUsage    = "`encoding` of the signature: hex, hex-upper or base64"
	ErrorFieldsUsage = "`names` of the fields that hold an error's code and message in an answer"
	SecretFileUsage  = "`file` with the project secret key; a line end after it is not part of it"
)

// Scheme returns the scheme of a template and the name of an encoding.
func Scheme(template, encoding string) (paymentsvc.Scheme, error) {
	text, err := canonicalString(template)
	if err != nil {
		return paymentsvc.Scheme{}, err
	}
	enc, err := encodingNamed(encoding)
	return paymentsvc.Scheme{Canonical: text, Encoding: enc}, err
}

// canonicalString parses a template. Your own program names the parts directly, as in canonical.Join(".",
// canonical.Timestamp, canonical.Body).
func canonicalString(template string) (paymentsvc.CanonicalFunc, error) {
	template = strings.ReplaceAll(template, `\n`, "\n")
	var parts []paymentsvc.CanonicalFunc
	for template != "" {
		text, rest, found := strings.Cut(template, "{")
		if text != "" {
			parts = append(parts, canonical.Literal(text))
		}
		if !found {
			break
		}
		name, rest, closed := strings.Cut(rest, "}")
		part, ok := map[string]paymentsvc.CanonicalFunc{
			"timestamp":   canonical.Timestamp,
			"method":      canonical.Method,
			"path":        canonical.Path,
			"body":        canonical.Body,
			"body-sha256": canonical.BodySHA256,
		}[name]
		if !ok || !closed {
			return nil, fmt.Errorf("-canonical: {%s is no part; -help lists them", name)
		}
		parts = append(parts, part)
		template = rest
	}
	return canonical.Join("", parts...), nil
}

func encodingNamed(name string) (paymentsvc.Encoding, error) {
	switch name {
	case "hex":
		return paymentsvc.Hex, nil
	case "hex-upper":
		return paymentsvc.HexUpper, nil
	case "base64":
		return base64.StdEncoding, nil
	}
	return nil, errors.New("-encoding is none of hex, hex-upper, base64")
}

// ErrorFields splits the two names of -error-fields.
func ErrorFields(names string) (code, message string, err error) {
	code, message, both := strings.Cut(names, ",")
	if !both {
		return "", "", errors.New("-error-fields wants two names with a comma between them")
	}
	return code, message, nil
}

// ReadSecret reads a key from a file.
func ReadSecret(flag, file string) (paymentsvc.Secret, error) {
	secret, err := os.ReadFile(file) //nolint:gosec // the file is the user's to name
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return paymentsvc.Secret(strings.TrimRight(string(secret), "\r\n")), nil
}
