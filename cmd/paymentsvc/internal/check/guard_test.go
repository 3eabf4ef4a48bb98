package check

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRecorderRejectsOtherEndpoints(t *testing.T) {
	for _, endpoint := range []string{"init_payment/sbp", "init_payout", "init_form", "init_invoice", "get_balance/", ""} {
		x := &Exchange{}
		req := httptest.NewRequest(http.MethodPost, "https://pay.example/"+endpoint, http.NoBody)
		_, err := recorder{&Session{}, x}.RoundTrip(req)
		assert.ErrorContains(t, err, "not a read-only endpoint", endpoint)
		assert.Nil(t, x.Request)
	}
}
