// Package proxied restores the address that the service called.
package proxied

import "net/http"

// AsCalled restores the requested address after a proxy removed prefix and set another Host. Take both values from your
// settings, because any sender can set X-Forwarded-Prefix.
func AsCalled(prefix, host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called := r.WithContext(r.Context()) // a copy
		called.RequestURI, called.Host = prefix+r.RequestURI, host
		next.ServeHTTP(w, called)
	})
}
