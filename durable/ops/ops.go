// Package ops is a page for the people who operate a [durable.Store]: what is in which state, what needs review, and the
// decisions, pauses and releases that only a person can make. It has no script and loads nothing from elsewhere.
//
// The page asks for no password. Serve it on an address of its own that only your login reaches, and set Config.Login.
package ops

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// Config configures the page. The zero value serves requests for the loopback's names and knows nobody's name.
type Config struct {
	// Login returns the name of the person who made a request, and whether the person may see the page: otherwise the
	// answer is HTTP 403. Without a name a person may look, but not decide. nil means that there is no login: decisions
	// are then kept as made by "no login".
	Login func(*http.Request) (name string, ok bool)
	// Balance is asked at most once in 10 seconds. nil means [durable.Store.Balance].
	Balance func(context.Context) (*paymentsvc.Balance, error)
	// Hosts are the names by which the page may be requested, without a port, besides localhost and loopback addresses.
	// Another name is answered with HTTP 421: a foreign site could point its own name here.
	Hosts []string
	// Path is where the page is mounted, such as "/ops". "" means the root.
	Path string
	// Notice is shown at the top of every page, "" for none.
	Notice string
	// Log receives decisions and errors. nil means slog.Default().
	Log *slog.Logger
}

const (
	maxForm     = 64 << 10
	rowsPerPage = 50
	noLogin     = "no login"
)

type page struct {
	Config
	store   *durable.Store
	balance *balance
	views   *views
}

// New returns the page's handler, which serves everything below c.Path.
func New(store *durable.Store, c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Balance == nil {
		c.Balance = store.Balance
	}
	c.Path = strings.TrimRight(c.Path, "/")
	p := &page{Config: c, store: store, balance: &balance{ask: c.Balance, log: c.Log}, views: newViews(c)}
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /{$}":              p.overview,
		"GET /rows":             p.rows,
		"GET /find":             p.find,
		"GET /row/{user_data}":  p.row,
		"GET /files":            p.files,
		"POST /row/{user_data}": p.decide,
		"POST /bulk":            p.bulk,
		"POST /control":         p.control,
	} {
		mux.Handle(pattern, p.known(handler))
	}
	mux.HandleFunc("GET /style.css", asset("style.css"))
	mux.HandleFunc("GET /favicon.ico", asset("icon.svg"))
	protected := http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(onlyText(mux), maxForm))
	return http.StripPrefix(c.Path, secure(p.onlyHosts(protected)))
}

// who is the key of the name in a request's context.
type who struct{}

// known lets those in whom the login knows, and decides nothing without a name.
func (p *page) known(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := noLogin
		if p.Login != nil {
			var ok bool
			if name, ok = p.Login(r); !ok {
				http.Error(w, "the login does not let you in", http.StatusForbidden)
				return
			}
		}
		if r.Method == http.MethodPost && name == "" {
			http.Error(w, "the login has no name for you, and nothing is decided without one", http.StatusForbidden)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), who{}, name)))
	})
}

func by(r *http.Request) string {
	name, _ := r.Context().Value(who{}).(string)
	return name
}

// secure forbids scripts, frames and everything that comes from elsewhere.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "+
			"base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// onlyText rejects text that PostgreSQL cannot store: NUL and what is not UTF-8.
func onlyText(next http.Handler) http.Handler {
	isText := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bad := !isText(r.URL.Path) || r.ParseForm() != nil
		for _, values := range r.Form {
			bad = bad || slices.ContainsFunc(values, func(s string) bool { return !isText(s) })
		}
		if bad {
			http.Error(w, "the request cannot be read", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *page) onlyHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		loopback := err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
		if !loopback && !slices.ContainsFunc(p.Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
			http.Error(w, "this page has another name: see ops.Config.Hosts", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fail answers an error of the store.
func (p *page) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, durable.ErrNotFound) {
		p.views.show(w, http.StatusNotFound, "message.html",
			message{frame{Title: "Not found", Who: by(r)}, "There is no such row."})
		return
	}
	p.Log.Error("ops: the database failed", "err", err)
	p.views.show(w, http.StatusServiceUnavailable, "message.html",
		message{frame{Title: "The database does not answer", Who: by(r)}, "Nothing is known to have changed. Refresh this page."})
}

// location is the address of a path of the page with a query.
func (c Config) location(path string, query url.Values) string {
	if len(query) == 0 {
		return c.Path + path
	}
	return c.Path + path + "?" + query.Encode()
}
