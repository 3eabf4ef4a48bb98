// Package schemeflag reads the flags of the examples for what the interface document does not show: the scheme, the
// secret, and the names of the error fields.
package schemeflag

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// What the flags say of themselves.
const (
	SchemeUsage = "how messages are signed, as `text` such as hex(timestamp \".\" body); docs/signing.md lists the names\n" +
		"and package canonical reads it"
	ErrorFieldsUsage = "`names` of the fields that hold an error's code and message in an answer"
	SecretFileUsage  = "`file` with the project secret key; a line end after it is not part of it"
)

// Scheme reads the text of -scheme. The key is the secret in the form that the text says.
func Scheme(text string, secret paymentsvc.Secret) (_ paymentsvc.Scheme, key paymentsvc.Secret, err error) {
	scheme, key, err := canonical.ParseSchemeWith(text, secret)
	if err != nil {
		return paymentsvc.Scheme{}, "", fmt.Errorf("-scheme: %s", strings.TrimPrefix(err.Error(), "scheme: "))
	}
	return scheme, key, nil
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
	key := paymentsvc.Secret(strings.TrimRight(string(secret), "\r\n"))
	if key == "" {
		return "", fmt.Errorf("%s: the file is empty", flag)
	}
	return key, nil
}
