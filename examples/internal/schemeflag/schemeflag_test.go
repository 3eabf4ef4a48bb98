package schemeflag

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestErrors(t *testing.T) {
	_, _, err := Scheme("hex(bdy)", "a secret")
	require.EqualError(t, err, `-scheme: column 5: unknown part "bdy", did you mean body?`)
	_, _, err = ErrorFields("code")
	require.ErrorContains(t, err, "-error-fields wants two names")
	_, err = ReadSecret("-secret-file", "no-such-file")
	require.ErrorContains(t, err, "-secret-file: open no-such-file")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	_, err = ReadSecret("-secret-file", empty)
	require.ErrorContains(t, err, "-secret-file: the file is empty")
}

func TestReadSecretTrimsTheLineEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(" a key \r\n"), 0o600))
	secret, err := ReadSecret("-secret-file", file)
	require.NoError(t, err)
	require.Equal(t, " a key ", string(secret))
}

func TestSchemeReadsTheKey(t *testing.T) {
	scheme, key, err := Scheme("base64(body secret), key hex", "00ff")
	require.NoError(t, err)
	require.Equal(t, "\x00\xff", string(key))
	text, err := scheme.Canonical(nil, &paymentsvc.Message{Body: []byte("{}")})
	require.NoError(t, err)
	require.Equal(t, "{}00ff", string(text))
}
