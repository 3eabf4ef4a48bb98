package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// listenTLS returns listeners for HTTPS with a new certificate for localhost, the addresses and the names. It writes the
// certificate to the file of -tls-cert. Without -tls-cert it returns the listeners. It serves HTTP/1.1 only, because HTTP/2
// streams cannot show the faults of a connection.
func listenTLS(c *cli.Call, listeners []net.Listener, names []string) ([]net.Listener, error) {
	if !c.Set("tls-cert") {
		return listeners, nil
	}
	certificate, err := newCertificate(listeners, append([]string{"localhost"}, names...), c.Now())
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	if err := replaceFile(c, "tls-cert", text); err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	secure := make([]net.Listener, 0, len(listeners))
	for _, l := range listeners {
		secure = append(secure, tls.NewListener(l, config))
	}
	return secure, nil
}

// newCertificate returns a self-signed certificate, which clients can also use as the certificate of its CA.
func newCertificate(listeners []net.Listener, names []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "paymentsvc mock"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
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

// clientTLS returns the configuration of HTTPS clients: with the certificates of -cacert, or nil without -cacert.
func clientTLS(c *cli.Call) (*tls.Config, error) {
	roots, err := c.RootCAs()
	if roots == nil || err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
