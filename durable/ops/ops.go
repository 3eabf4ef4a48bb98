// Package ops serves a web page for the operators of a [durable.Store]. The page lists payments and payouts with their
// states and ages, and the rows in need of review. Operators use it to decide, pause, hold and release. The page has no
// script, and loads its files only from its own address. It shows only the end of a card number in a text, except in a
// user_data or order_id.
//
// The page has no password. Serve it on a separate address behind your login, and set Config.Login. Without Login,
// operators can look, but not decide.
package ops

import (
	"context"
	"embed"
	"errors"
	"html/template"
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

// Config configures the page. The zero value serves requests to localhost and loopback addresses, without decisions.
type Config struct {
	// Login returns the operator's name, and reports whether the operator may see the page. If not, the response is HTTP
	// 403. If name is "" or Login is nil, an operator can only look, and the response to a form is HTTP 403.
	Login func(*http.Request) (name string, ok bool)
	// Balance returns the displayed balance. It is called at most once in 10 seconds, with a context that ends after 3
	// seconds. nil means [durable.Store.Balance].
	Balance func(context.Context) (*paymentsvc.Balance, error)
	// Hosts are the accepted host names, without a port, besides localhost and loopback addresses. A request for another
	// host name gets HTTP 421, because a foreign site could point its own name to this address.
	Hosts []string
	// Path is the path of the page, such as "/ops". "" means the root.
	Path string
	// Notice appears at the top of every page, unless it is "".
	Notice string
	// Log receives decisions and errors. nil means slog.Default().
	Log *slog.Logger
}

const (
	maxForm     = 256 << 10
	rowsPerPage = 50
)

//go:embed pages.html style.css
var files embed.FS // a package variable, because embed needs it

type page struct {
	Config
	store   *durable.Store
	balance *balance
	pages   *template.Template
}

// handler shows a page or applies a form. [page.fail] shows its error.
type handler func(w http.ResponseWriter, r *http.Request) error

// New returns the page's handler, for all paths below c.Path.
func New(store *durable.Store, c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Balance == nil {
		c.Balance = store.Balance
	}
	c.Path = strings.TrimRight(c.Path, "/")
	p := &page{Config: c, store: store, balance: &balance{ask: c.Balance, log: c.Log}}
	p.pages = template.Must(template.New("").Funcs(p.functions()).ParseFS(files, "pages.html"))
	mux := http.NewServeMux()
	for pattern, handle := range map[string]handler{
		"GET /{$}":              p.overview,
		"GET /rows":             p.rows,
		"GET /find":             p.find,
		"GET /row/{user_data}":  p.row,
		"GET /files":            p.files,
		"GET /unreadable":       p.unreadable,
		"POST /unreadable":      p.reviewUnreadable,
		"POST /row/{user_data}": p.decide,
		"POST /bulk":            p.bulk,
		"POST /control":         p.control,
	} {
		mux.Handle(pattern, p.known(handle))
	}
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		http.ServeFileFS(w, r, files, "style.css")
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	protected := http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(onlyText(mux), maxForm))
	below := http.NewServeMux() // redirects c.Path to the overview
	below.Handle(c.Path+"/", http.StripPrefix(c.Path, protected))
	return secure(OnlyHosts(c.Hosts, below))
}

// operator is the context key of the operator's name.
type operator struct{}

// known rejects requests that Config.Login rejects, and forms from an operator without a name.
func (p *page) known(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, unnamed := "", "ops.Config.Login is not set, and a decision needs the name of the operator"
		if p.Login != nil {
			var ok bool
			name, ok = p.Login(r)
			unnamed = "the login has no name for you, and a decision needs a name"
			if !ok {
				http.Error(w, "the login does not let you in", http.StatusForbidden)
				return
			}
		}
		name = strings.TrimSpace(name)
		if r.Method == http.MethodPost && name == "" {
			http.Error(w, unnamed, http.StatusForbidden)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), operator{}, name))
		if err := handle(w, r); err != nil {
			p.fail(w, r, err)
		}
	})
}

func by(r *http.Request) string {
	name, _ := r.Context().Value(operator{}).(string)
	return name
}

// secure forbids scripts, frames and foreign files.
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

// onlyText rejects NUL and invalid UTF-8, because PostgreSQL cannot store them. It rejects multipart forms too, because
// ParseForm does not read them.
func onlyText(next http.Handler) http.Handler {
	isText := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, notMultipart := r.MultipartReader()
		bad := notMultipart == nil || !isText(r.URL.Path) || r.ParseForm() != nil
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

// OnlyHosts accepts requests for hosts, localhost and loopback addresses. It rejects all others with HTTP 421, because
// a foreign site could point its own name to this address. Use OnlyHosts for metrics beside the page. New calls it.
func OnlyHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		loopback := err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
		if !loopback && !slices.ContainsFunc(hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
			http.Error(w, "the page is not served for this host name: see ops.Config.Hosts", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// rejection is the error of a form, in a sentence for the operator.
type rejection string

func (r rejection) Error() string { return string(r) }

// fail shows an error of a form or of the store.
func (p *page) fail(w http.ResponseWriter, r *http.Request, err error) {
	head := frame{Who: by(r)}
	status, title, text := http.StatusServiceUnavailable, "The database does not respond",
		"Refresh this page before you repeat a change."
	rejected, ok := errors.AsType[rejection](err)
	switch {
	case ok:
		status, title, text = http.StatusUnprocessableEntity, "Not applied", string(rejected)
		if withStatus, err := p.frame(r, title, ""); err == nil {
			head = withStatus
		}
	case errors.Is(err, durable.ErrNotFound):
		status, title, text = http.StatusNotFound, "Not found", "There is no such row."
	default:
		p.Log.Error("ops: the database failed", "err", err)
	}
	head.Title = title
	p.show(w, status, "message", message{head, text})
}

// location returns the address of a path with a query.
func (c Config) location(path string, query url.Values) string {
	if len(query) == 0 {
		return c.Path + path
	}
	return c.Path + path + "?" + query.Encode()
}
