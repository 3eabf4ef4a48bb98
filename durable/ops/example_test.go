package ops_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/ops"
)

func ExampleNew() {
	var store *durable.Store // of durable.Open
	page := ops.New(store, ops.Config{
		Login: func(r *http.Request) (name string, ok bool) {
			name = r.Header.Get("X-User") // set by the login in front, which removes it from what comes in
			return name, name != ""
		},
		Hosts: []string{"ops.example.com"},
	})
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://ops.example.com/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 403 the login does not let you in
}
