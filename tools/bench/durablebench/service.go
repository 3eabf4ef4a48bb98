package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// newService starts a service with the given response time. It does not check requests, because the checks would be
// measured too.
func newService(takes time.Duration) *httptest.Server {
	var orders atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(takes)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "status") {
			var request paymentsvc.StatusPaymentRequest
			_ = json.Unmarshal(body, &request)
			_, _ = fmt.Fprintf(w, `{"order_id":"of %[1]s","user_data":%[1]q}`, request.UserData)
			return
		}
		_, _ = fmt.Fprintf(w, `{"order_id":"order-%d-%d","status":1,"status_code":10,"redirect_url":"https://pay.example/"}`,
			takes, orders.Add(1))
	}))
}

func newClient(address string) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex}, Secret: "the-secret-of-the-benchmark",
	})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: 1001, ProjectID: 2002, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"),
	})
}
