// Package proxied restores the address that the service called.
package proxied

import "net/http"

// AsCalled restores the address that the service called, before a proxy cut off prefix and set another Host. Take both
// from your settings and not from a header: anybody can send X-Forwarded-Prefix.
func AsCalled(prefix, host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called := r.WithContext(r.Context()) // a copy
		called.RequestURI, called.Host = prefix+r.RequestURI, host
		next.ServeHTTP(w, called)
	})
}
