package paymentsvc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// authority is a certificate authority of a test's own.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

// issue makes a certificate for the names and addresses given.
func (a *authority) issue(t testing.TB, notAfter time.Time, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server of a test"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// file writes the authority's certificate as SSL_CERT_FILE wants it.
func (a *authority) file(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// trusting makes an http.Client of the caller's own that trusts the authority.
func (a *authority) trusting(config *tls.Config) *http.Client {
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AddCert(a.certificate)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

// secureServer counts and records the requests that get through to it.
type secureServer struct {
	*httptest.Server
	requests atomic.Int64
	last     atomic.Pointer[request]
}

func newSecureServer(t testing.TB, config *tls.Config) *secureServer {
	t.Helper()
	s := &secureServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		s.last.Store(&request{r.URL.Path, r.Header.Clone(), string(body)})
		s.requests.Add(1)
		_, _ = io.WriteString(w, paymentAnswer)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail on purpose
	s.TLS = config
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// versions gives a server's configuration that speaks no other than these versions of TLS.
func versions(certificate tls.Certificate, least, most uint16) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: least, MaxVersion: most}
}

// payOnce is what a process of its own does: a payment over the client that the SDK makes itself, whose roots and proxy
// come from the environment. It prints what became of it.
func payOnce(t *testing.T, base string) {
	c := newClient(t, base)
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
	if err == nil {
		fmt.Println("RESULT: paid")
		return
	}
	e := failed(t, nil, err, paymentsvc.OutcomeOf(err))
	fmt.Printf("RESULT: %s after %d attempts: %v\n", e.Outcome, e.Attempts, err)
}

// needsRootsOfItsOwn skips a test where a process takes its trusted authorities from the system alone.
func needsRootsOfItsOwn(t testing.TB) {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		t.Skip(runtime.GOOS + " has no SSL_CERT_FILE, so that a process cannot be given an authority of the test's")
	}
}

// resultOf gives the line that payOnce printed.
func resultOf(t testing.TB, output string, err error) string {
	t.Helper()
	require.NoError(t, err, output)
	_, result, found := strings.Cut(output, "RESULT: ")
	require.True(t, found, output)
	result, _, _ = strings.Cut(result, "\n")
	return result
}

// A handshake that fails is proved to have sent nothing: the request goes out on a connection that is secure, or not at
// all.
func TestTheDefaultClientPaysOverTLS12AndNewerOnly(t *testing.T) {
	if base := os.Getenv(childVariable); base != "" {
		payOnce(t, base)
		return
	}
	needsRootsOfItsOwn(t)
	a := newAuthority(t)
	good := a.issue(t, time.Now().Add(time.Hour), "127.0.0.1", "localhost")
	stranger := newAuthority(t).issue(t, time.Now().Add(time.Hour), "127.0.0.1")
	for _, test := range []struct {
		name   string
		config *tls.Config
		want   string
	}{
		{"TLS 1.3", versions(good, tls.VersionTLS13, tls.VersionTLS13), "paid"},
		{"TLS 1.2", versions(good, tls.VersionTLS12, tls.VersionTLS12), "paid"},
		{"TLS 1.1", versions(good, tls.VersionTLS10, tls.VersionTLS11), "protocol version"},
		{"TLS 1.0", versions(good, tls.VersionTLS10, tls.VersionTLS10), "protocol version"},
		{"another host's certificate", versions(a.issue(t, time.Now().Add(time.Hour), "evil.example"), 0, 0), "certificate"},
		{"an expired certificate", versions(a.issue(t, time.Now().Add(-time.Hour), "127.0.0.1"), 0, 0), "expired"},
		{"a stranger's certificate", versions(stranger, 0, 0), "unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSecureServer(t, test.config)
			output, err := runChild(t, s.URL, "SSL_CERT_FILE="+a.file(t), "SSL_CERT_DIR="+t.TempDir())
			result := resultOf(t, output, err)
			if test.want == "paid" {
				assert.Equal(t, "paid", result)
				assert.EqualValues(t, 1, s.requests.Load())
				return
			}
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.Contains(t, result, test.want)
			assert.Zero(t, s.requests.Load())
			holdsNothing(t, "the error", result)
		})
	}
	t.Run("an old server speaks to whom it is told to", func(t *testing.T) {
		// A client of the caller's keeps what it was set to, and these servers are reachable at all.
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
			s := newSecureServer(t, versions(good, version, version))
			given := a.trusting(&tls.Config{MinVersion: version})
			_, err := pay(t.Context(), newClient(t, s.URL, func(cfg *paymentsvc.Config) { cfg.HTTPClient = given }))
			require.NoError(t, err)
			assert.EqualValues(t, 1, s.requests.Load())
		}
	})
}

// Who stands between the client and the service, without a certificate, can refuse, cut and stall the handshake.
func TestAFailedHandshakeSendsNothing(t *testing.T) {
	stay := func(text string) func(*net.TCPConn) bool {
		return func(c *net.TCPConn) bool { write(c, text); return true }
	}
	for name, meddle := range map[string]func(*net.TCPConn) (stay bool){
		"closed":     func(*net.TCPConn) bool { return false },
		"reset":      func(c *net.TCPConn) bool { _ = c.SetLinger(0); return false },
		"cut":        func(c *net.TCPConn) bool { write(c, "\x16\x03\x03\x40\x00\x02"); return false },
		"plain HTTP": stay("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
		"an alert":   stay("\x15\x03\x03\x00\x02\x02\x28"),
		"noise":      stay(strings.Repeat("\x16\x03\x03\xff\xff", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			var seen tap
			s := newListener(t)
			s.serve(func(c *net.TCPConn) {
				hello := make([]byte, 4096)
				n, _ := c.Read(hello)
				_, _ = seen.Write(hello[:n])
				if meddle(c) {
					_, _ = io.Copy(&seen, c)
				}
			})
			c := newClient(t, "https://"+s.Addr().String())
			response, err := nilOr(c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment()))
			e := failed(t, response, err, paymentsvc.OutcomeNotSent)
			assert.Equal(t, 3, e.Attempts)
			holdsNothing(t, "the connection", seen.received())
			assert.NotContains(t, strings.ToLower(seen.received()), "signature:")
			assert.NotContains(t, seen.received(), "init_payment")
			assert.NotEmpty(t, seen.received(), "a handshake was begun")
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen tap
			silent := piped(t, func(conn net.Conn) { _, _ = io.Copy(&seen, conn) })
			response, err := pay(t.Context(), newClient(t, "https://127.0.0.1", over(silent)))
			e := failed(t, response, err, paymentsvc.OutcomeNotSent)
			assert.Equal(t, 3, e.Attempts)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotEmpty(t, seen.received(), "a handshake was begun")
		})
	})
	t.Run("the caller leaves during it", func(t *testing.T) {
		s := newListener(t)
		ctx, cancel := context.WithCancel(t.Context())
		s.serve(func(c *net.TCPConn) {
			cancel()
			_, _ = io.Copy(io.Discard, c)
		})
		response, err := pay(ctx, newClient(t, "https://"+s.Addr().String()))
		failed(t, response, err, paymentsvc.OutcomeNotSent)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Anybody on the way can show a certificate, with names that hold the ends of lines, and the error that refuses it is
// logged.
func TestACertificateWritesNoLineOfALog(t *testing.T) {
	a := newAuthority(t)
	certificate := a.issue(t, time.Now().Add(time.Hour), "a\n2026-01-01 INFO order-1 is paid\r\x1b[2J\x7f")
	s := newSecureServer(t, versions(certificate, tls.VersionTLS12, 0))
	given := a.trusting(&tls.Config{ServerName: "b"})
	response, err := pay(t.Context(), newClient(t, s.URL, func(cfg *paymentsvc.Config) { cfg.HTTPClient = given }))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	var wrongHost x509.HostnameError
	require.ErrorAs(t, err, &wrongHost, "for its names, so that they are in the text")
	assert.Contains(t, err.Error(), "order-1 is paid")
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	assert.Negative(t, strings.IndexFunc(err.Error(), unprintable), "%q", err.Error())
}
