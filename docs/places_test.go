//go:build unix

package docs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// path gives a file below the session's own directory.
func (s *session) path(names ...string) string {
	return filepath.Join(append([]string{s.places["tmp"]}, names...)...)
}

func (s *session) write(text string, names ...string) {
	file := s.path(names...)
	require.NoError(s, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(s, os.WriteFile(file, []byte(text), 0o600))
}

func (s *session) read(file string) string {
	text, err := os.ReadFile(file)
	require.NoError(s, err)
	return string(text)
}

// makeStranger makes a module that finds this repository under the SDK's name, as if it had been published.
func makeStranger(s *session) {
	s.write("module example.com/shop\n\ngo 1.26\n\nreplace github.com/paymentsvc/paymentsvc => "+s.places["root"]+"\n", "stranger", "go.mod")
	s.write(s.read(filepath.Join(s.places["root"], "go.sum")), "stranger", "go.sum")
	s.write("package main\n\nimport _ \"github.com/paymentsvc/paymentsvc\"\n\nfunc main() {}\n", "stranger", "main.go")
}

func requiresTheSDK(s *session) {
	assert.Contains(s, s.read(s.path("stranger", "go.mod")), "github.com/paymentsvc/paymentsvc v")
}

// dotted is the scheme of these commands, and the choice of the examples; the document shows none.
func dotted() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

// captureNotification writes the two files that discover is given.
func captureNotification(s *session) {
	signature, err := dotted().Signature(secret, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte(notice)})
	require.NoError(s, err)
	s.write(string(secret)+"\n", "project.key")
	s.write("POST /notifications HTTP/1.1\nHost: shop.example\nContent-Type: application/json\nTimestamp: 1700000000\nSignature: "+
		signature+"\n\n"+notice, "notification.http")
}

// receiveNotifications stands in for the partner's own server.
func receiveNotifications(s *session) {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.notified <- r.URL.Path + " " + string(body)
	}))
	s.all.Cleanup(receiver.Close)
	s.places["receiver"] = receiver.URL
}

// mockClient is a client of the first mock server, which was started without flags that say more.
func mockClient(s *session) *paymentsvc.Client {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: dotted(), Secret: "secret-of-the-mockserver-example"})
	require.NoError(s, err)
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: s.places["mock"], PartnerID: 1001, ProjectID: 2002, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"),
	})
	require.NoError(s, err)
	s.Cleanup(client.CloseIdleConnections)
	return client
}

func startPaymentAtMock(s *session) { require.NoError(s, pay(mockClient(s))) }

func notifiedOfSuccess(s *session) {
	select {
	case notification := <-s.notified:
		assert.True(s, strings.HasPrefix(notification, "/notifications {"), notification)
		assert.Contains(s, notification, `"SUCCESS"`)
	case <-s.ctx.Done():
		s.Error("no notification came")
	}
}

func losesTheNextAnswer(s *session) {
	client := mockClient(s)
	_, err := client.InitPayment(s.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-2",
	})
	require.Error(s, err)
	assert.Equal(s, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), err)
	status, err := client.StatusPayment(s.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-2"})
	require.NoError(s, err)
	assert.Equal(s, "order-2", status.UserData)
}

func copyPerformance(s *session) {
	s.write(s.read(filepath.Join(s.places["root"], "docs", "performance.md")), "performance", "performance.md")
}

func performanceHasChanged(s *session) {
	assert.NotEqual(s, s.read(filepath.Join(s.places["root"], "docs", "performance.md")), s.read(s.path("performance", "performance.md")))
	assert.NoError(s, wellFormed(s.read(s.path("performance", "performance.svg"))))
}
