package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// TestNewTransportSpeaksHTTP2AndTrustsRoots applies two fixes of docs/troubleshooting.md.
func TestNewTransportSpeaksHTTP2AndTrustsRoots(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	transport := paymentsvc.NewTransport()
	transport.Protocols.SetHTTP2(true)
	transport.TLSClientConfig.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	resp, err := (&http.Client{Transport: transport}).Get(srv.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
}
