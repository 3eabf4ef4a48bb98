// Package pages has what the Go code of the pages leaves out. The tests compile both together.
package pages

import (
	"context"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var (
	scheme paymentsvc.Scheme
	secret paymentsvc.Secret
	client *paymentsvc.Client
	fields paymentsvc.ErrorDecoder
	srv    *paymentsvctest.Server
	orders interface {
		Apply(context.Context, string, paymentsvc.EventType, string, paymentsvc.StatusName) error
	}

	t         *testing.T
	ctx       context.Context
	err       error
	mux       *http.ServeMux
	userData  string
	roots     *x509.CertPool
	transport *http.Transport
	traced    func(http.RoundTripper) http.RoundTripper
	handler   http.Handler
	order     paymentsvctest.Order

	retryLater, reconcileLater, showRejection func(userData string) error

	sendPayerTo func(address, orderID string) error
	settleOrder func(userData string, status *paymentsvc.StatusResponse) error
	checkout    func(client *paymentsvc.Client, userData string)
)
