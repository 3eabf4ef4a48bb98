// Package proxied restores the address that the service called.
package proxied

import "net/http"

// AsCalled gives each request its address before a proxy cut off prefix and set another Host. Both are settings of
// yours: anybody can send an X-Forwarded-Prefix.
func AsCalled(prefix, host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called := r.WithContext(r.Context()) // a copy
		called.RequestURI, called.Host = prefix+r.RequestURI, host
		next.ServeHTTP(w, called)
	})
}
