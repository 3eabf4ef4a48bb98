package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"reflect"
	"regexp"
	"strings"
	"unicode"
)

// failure is a transport's error with a text for logs. Errors of net/http quote the response, and a response may repeat
// the request. Errors of crypto/x509 contain the names of the certificate, line breaks included. So failure shows only
// the texts of known errors. Unwrap returns the original error.
type failure struct{ err error }

// ForLogs wraps err in an error without any part of a request or response in its text.
func ForLogs(err error) error { return &failure{err} }

func (f *failure) Unwrap() error { return f.err }

func (f *failure) Error() string { return strings.Map(printable, shown(f.err)) }

// shown returns the parts of err's text that cannot repeat the request. For an unknown error it returns the type.
func shown(err error) string {
	switch e := err.(type) { //nolint:errorlint // shown walks the tree of errors
	case *net.OpError:
		without := *e
		without.Err = errors.New(shown(e.Err))
		if _, ok := e.Source.(*net.TCPAddr); ok {
			without.Source = nil // a new local port for each connection
		}
		return without.Error()
	case *tls.CertificateVerificationError:
		return "tls: failed to verify certificate: " + shown(e.Err)
	case x509.HostnameError:
		return "the certificate is not valid for " + e.Host // the original text lists the names of the certificate
	case textproto.ProtocolError:
		return "malformed header in the response" // the original text is the header, without quotes
	case *net.DNSError:
		without := *e
		without.Err = localUDP.ReplaceAllString(e.Err, "")
		return unquoted(without.Error())
	case tls.AlertError, tls.RecordHeaderError, x509.UnknownAuthorityError,
		x509.CertificateInvalidError, *http.MaxBytesError, proxyError:
		return unquoted(e.Error())
	case interface{ Unwrap() error }:
		if packageOf(err) == "os" { // the name of a system call
			return unquoted(err.Error())
		}
		if inner := e.Unwrap(); inner != nil {
			return shown(inner)
		}
	case interface{ Unwrap() []error }:
		var texts []string
		for _, err := range e.Unwrap() {
			if err == nil {
				continue
			}
			texts = append(texts, shown(err))
			if errors.Is(err, ErrRepeated) {
				break // the next text is how the transport happened to notice the stop
			}
		}
		if len(texts) > 0 {
			return strings.Join(texts, ": ")
		}
	}
	if text := unquoted(err.Error()); isKnown(err) || knownText(text) {
		return text
	}
	return fmt.Sprintf("%T (text hidden: it may repeat the request)", err)
}

// localUDP matches the local address in the error text of a DNS query.
var localUDP = regexp.MustCompile(`\S+:\d+->`)

// isKnown reports whether err has a constant text, or a type of a standard package that puts foreign text in quotes.
func isKnown(err error) bool {
	for _, known := range constantErrors {
		if err == known { //nolint:errorlint // only the text of err itself is shown
			return true
		}
	}
	switch packageOf(err) {
	case "net", "net/http", "net/http/internal", "net/http/internal/http2", "internal/poll", "syscall",
		"crypto/tls", "crypto/x509", "compress/flate":
		return true
	}
	return false
}

// constantErrors are known errors with constant texts. Their types do not identify them.
var constantErrors = []error{
	ErrTooLarge, ErrRepeated, errMalformedStatus, context.Canceled, context.DeadlineExceeded,
	io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, http.ErrSchemeMismatch,
}

// packageOf returns the path of the package of v's type.
func packageOf(v any) string {
	kind := reflect.TypeOf(v)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind.PkgPath()
}

// knownText reports whether a text without its quoted parts is an error of net/http, TLS or gzip. Most of these
// errors have no type of their own. If a proxy sends such a text, the log shows only this text.
func knownText(text string) bool {
	switch text {
	case "http: server closed idle connection",
		"http: HTTP/1.x transport connection broken",
		"http: server gave HTTP response to HTTPS client",
		"http: server replied with more than declared Content-Length; truncated",
		"net/http: cannot rewind body after connection loss",
		"net/http: request canceled while waiting for connection",
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] " +
			"after Request.Body was written; define Request.GetBody to avoid this error",
		"net/http: HTTP/2 transport closed connection",
		"http2: server sent GOAWAY and closed the connection",
		"http2: client connection lost",
		"http2: client connection force closed via ClientConn.Close",
		"http2: no cached connection was available",
		`malformed HTTP response "…"`,
		`malformed HTTP status code "…"`,
		`malformed HTTP version "…"`,
		`bad Content-Length "…"`,
		`http: invalid Content-Length of "…"`,
		`unsupported transfer encoding: "…"`,
		"malformed chunked encoding",
		"invalid byte in chunk length",
		"too many transfer encodings",
		"header line too long",
		"gzip: invalid header",
		"gzip: invalid checksum",
		"tls: first record does not look like a TLS handshake",
		"tls: handshake failure",
		"tls: server selected unsupported protocol version 301",
		"tls: server selected unsupported protocol version 302",
		"tls: no supported versions satisfy MinVersion and MaxVersion",
		"unknown status code",
		"stopped after 10 redirects":
		return true
	}
	return false
}

// printable returns r, or a question mark for an unprintable character.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// unquoted replaces quoted text by an ellipsis.
func unquoted(text string) string {
	var out strings.Builder
	for {
		before, quoted, found := strings.Cut(text, `"`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(`"…"`)
		text = afterQuote(quoted)
	}
}

// afterQuote returns the text after the closing quote, or "" without a closing quote.
func afterQuote(s string) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:]
		}
	}
	return ""
}
