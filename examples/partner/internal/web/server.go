// Package web is what buyers, the service and operators see of the program: pages that are made on the server and have
// no script. Buyers and the service come to one listener, operators to another one, which no buyer reaches.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxForm bounds what a form may send.
const maxForm = 16 << 10

// Server is an http.Server with every time bounded. answer is the longest that h may take for one request, whose context
// ends then: WriteTimeout would not end a query that waits for a database.
func Server(h http.Handler, answer time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answer)
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      15*time.Second + answer,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// safely answers 500 to a request whose handler panics. What it logs holds nothing of the request but the route:
// net/http itself would log the panic's value, which may hold anything.
func safely(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			what := recover()
			if what == nil {
				return
			}
			if what == http.ErrAbortHandler { //nolint:errorlint // net/http wants this very value
				panic(what)
			}
			log.Error("panic in a handler", "route", r.Pattern, "stack", places(debug.Stack()))
			http.Error(w, "something went wrong", http.StatusInternalServerError)
		}()
		h.ServeHTTP(w, r)
	})
}

// places keeps of a stack the places in the source: the lines between them hold arguments.
func places(stack []byte) []string {
	var list []string
	for line := range strings.Lines(string(stack)) {
		if place, ok := strings.CutPrefix(line, "\t"); ok && !strings.Contains(place, "/runtime/") {
			place, _, _ = strings.Cut(strings.TrimSpace(place), " ")
			list = append(list, place[strings.LastIndex(place, "/")+1:])
		}
	}
	return list
}

// secure forbids scripts, frames, and everything that comes from elsewhere.
func secure(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "+
			"base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer") // the address of an order's page is all that it takes to see it
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// onlyText answers 404 to an address that names what no row can be called: PostgreSQL refuses a text with NUL or broken
// UTF-8 in it, which would look as if the database were away.
func onlyText(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.QueryUnescape(r.URL.RawQuery)
		if err != nil || !isText(r.URL.Path) || !isText(query) {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// onlyHosts refuses requests for other names than the loopback's and those given. A name that somebody has pointed to
// the loopback would make a foreign site's requests same-origin.
func onlyHosts(names []string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if loopback := err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost"); !loopback &&
			!slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) }) {
			http.Error(w, "this page has another name: see -admin-hosts", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
