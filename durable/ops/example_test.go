package ops_test

import (
	"net/http"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/ops"
)

func Example() {
	var store *durable.Store // of durable.Open
	serve := func() http.Handler {
		page := ops.New(store, ops.Config{
			Login: func(r *http.Request) (name string, ok bool) {
				name = r.Header.Get("X-User") // set by the login in front, which removes it from what comes in
				return name, name != ""
			},
			Hosts: []string{"ops.example.com"},
		})
		return page
	}
	_ = serve
}
