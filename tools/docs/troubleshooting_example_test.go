package docs_test

import (
	"crypto/x509"
	"net/http"

	"github.com/paymentsvc/paymentsvc"
)

func aTransport(roots *x509.CertPool, traced func(http.RoundTripper) http.RoundTripper) paymentsvc.Config {
	transport := paymentsvc.NewTransport() // HTTP/1.1 only
	transport.TLSClientConfig.RootCAs = roots
	config := paymentsvc.Config{
		HTTPClient:     &http.Client{Transport: traced(transport)}, // such as otelhttp.NewTransport
		TrustTransport: true,                                       // your promise: it sends each request at most once
	} // and the rest
	return config
}

func aDecoder() paymentsvc.Config {
	fields := paymentsvc.ErrorFields("error_code", "error_message") // examples, like "00": ask the service
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := fields(status, body)
		if reported != nil && reported.Code == "00" { // its code for success
			return nil
		}
		return reported
	}
	config := paymentsvc.Config{DecodeError: decode} // and the rest
	return config
}
