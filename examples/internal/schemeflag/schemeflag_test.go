package schemeflag

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestSchemeTemplates(t *testing.T) {
	message := &paymentsvc.Message{
		Method:    http.MethodPost,
		URL:       &url.URL{Scheme: "https", Host: "pay.example", Path: "/v1/get_balance"},
		Timestamp: "1700000000",
		Body:      []byte("{}"),
	}
	for _, test := range []struct{ name, template, want string }{
		{"nothing but text", "text", "text"},
		{"the parts with text around them", "<{timestamp}.{body}>", "<1700000000.{}>"},
		{"a line end", `{method}\n{path}`, "POST\n/v1/get_balance"},
		{"the digest of the body", "{body-sha256}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
		{"a brace that closes nothing", "}{body}", "}{}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			scheme, err := Scheme(test.template, "base64")
			require.NoError(t, err)
			got, err := scheme.Canonical([]byte("before "), message)
			require.NoError(t, err)
			require.Equal(t, "before "+test.want, string(got))
		})
	}
}

func TestSchemeEncodings(t *testing.T) {
	for name, want := range map[string]string{"hex": "fb", "hex-upper": "FB", "base64": "+w=="} {
		scheme, err := Scheme("{body}", name)
		require.NoError(t, err)
		require.Equal(t, want, string(scheme.Encoding.AppendEncode(nil, []byte{0xfb})), name)
	}
}

func TestSchemeErrors(t *testing.T) {
	for _, test := range []struct{ name, template, encoding, want string }{
		{"an unknown part", "{body}{nonce}", "hex", "-canonical: {nonce is no part"},
		{"a part that does not end", "{body", "hex", "-canonical: {body is no part"},
		{"an unknown encoding", "{body}", "hexx", "-encoding is none of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Scheme(test.template, test.encoding)
			require.ErrorContains(t, err, test.want)
		})
	}
	_, _, err := ErrorFields("code")
	require.ErrorContains(t, err, "-error-fields wants two names")
	_, err = ReadSecret("-secret-file", "no-such-file")
	require.ErrorContains(t, err, "-secret-file: open no-such-file")
}

func TestReadSecretTrimsTheLineEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(" a key \r\n"), 0o600))
	secret, err := ReadSecret("-secret-file", file)
	require.NoError(t, err)
	require.Equal(t, " a key ", string(secret))
}
