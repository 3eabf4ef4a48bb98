package cli

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Listen listens on a TCP address that [HostPort] accepts. For localhost, it listens on 127.0.0.1 and, if the machine
// has IPv6, also on the same port of ::1, because some clients try only one of the two. Port 0 is a free port.
// An error exits with [ExitMachine].
func Listen(ctx context.Context, addr string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &ExitError{ExitMachine, err}
	}
	hosts := []string{host}
	if strings.EqualFold(host, "localhost") {
		hosts = []string{"127.0.0.1", "::1"}
	}
	var listeners []net.Listener
	for i, host := range hosts {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil && i > 0 && !errors.Is(err, syscall.EADDRINUSE) {
			continue // the machine has no IPv6
		}
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, &ExitError{ExitMachine, err}
		}
		if port == "0" {
			_, port, _ = net.SplitHostPort(l.Addr().String())
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// BaseURL returns the http address of the first listener, with localhost for a listener on all addresses.
func BaseURL(listeners []net.Listener) string {
	tcp, ok := listeners[0].Addr().(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(tcp.String())
		return "http://" + net.JoinHostPort("localhost", port)
	}
	return "http://" + listeners[0].Addr().String()
}

// NewServer returns a server with time limits for requests, but not for responses. It does not log.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // standard error is for notes and errors
	}
}

// Serve serves until ctx ends, and then waits for requests in flight, at most grace. 0 is no limit. If a listener fails
// or requests remain after grace, the error exits with [ExitMachine].
func Serve(ctx context.Context, server *http.Server, listeners []net.Listener, grace time.Duration) error {
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	var died error
	running := len(listeners)
	select {
	case died = <-ended:
		running--
	case <-ctx.Done():
	}
	stop := context.WithoutCancel(ctx)
	if grace > 0 {
		var cancel context.CancelFunc
		stop, cancel = context.WithTimeout(stop, grace)
		defer cancel()
	}
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.New("requests in flight were cut off")
	}
	_ = server.Close()
	for range running {
		died = cmp.Or(died, <-ended) // does not block, because the server is closed
	}
	if died != nil && !errors.Is(died, http.ErrServerClosed) {
		err = died
	}
	if err != nil {
		return &ExitError{ExitMachine, err}
	}
	return nil
}

// Secure returns HTTPS listeners and, as PEM, their new certificate. The certificate is for localhost, the host names
// in names, and the listeners' addresses. The listeners serve HTTP/1.1 only, because HTTP/2 streams cannot show the
// faults of a connection.
func Secure(listeners []net.Listener, names []string, now time.Time) ([]net.Listener, []byte, error) {
	certificate, err := newCertificate(listeners, append([]string{"localhost"}, names...), now)
	if err != nil {
		return listeners, nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	secure := Mapped(listeners, func(l net.Listener) net.Listener { return tls.NewListener(l, config) })
	return secure, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), nil
}

// newCertificate returns a self-signed certificate. Clients can use the certificate as a CA certificate.
func newCertificate(listeners []net.Listener, names []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "paymentsvc mock"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	for _, l := range listeners {
		if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
			template.IPAddresses = append(template.IPAddresses, tcp.IP)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// ClientTLS returns a configuration that trusts the certificates of the system and of -cacert. Without -cacert, it
// returns nil.
func (c *Call) ClientTLS() (*tls.Config, error) {
	if !c.Set("cacert") {
		return nil, nil //nolint:nilnil // net/http then uses the system's certificates
	}
	what := c.Value("cacert").Place()
	text, err := c.ReadInput(what, c.Text("cacert"))
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, Usagef("%s: no certificate in PEM", what)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
