package web

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

//go:embed templates/*.html style.css icon.svg
var files embed.FS // what go:embed fills must be a variable of the package

// pages are the templates.
type pages struct {
	all *template.Template
	log *slog.Logger
}

// newPages reads the templates, which cannot fail with those that were built in.
func newPages(log *slog.Logger) *pages {
	return &pages{log: log, all: template.Must(template.New("").Funcs(template.FuncMap{
		"utc": utc, "label": label,
	}).ParseFS(files, "templates/*.html"))}
}

// utc writes a time for people, who may sit anywhere.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// render makes the page before it sends anything of it.
func (p *pages) render(w http.ResponseWriter, status int, name string, view any) {
	var page bytes.Buffer
	if err := p.all.ExecuteTemplate(&page, name, view); err != nil {
		p.log.Error("a page cannot be made", "page", name, "err", err)
		plain(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a reader that has left is not told
}

// asset serves a file that was built in.
func asset(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		http.ServeFileFS(w, r, files, name)
	})
}

// label is a state in the words of a page.
func label(state store.State) string {
	words := map[store.State]string{
		store.StateCreated:   "to be started",
		store.StateStarting:  "being started",
		store.StateUnknown:   "unknown",
		store.StatePending:   "under way",
		store.StateSucceeded: "paid",
		store.StateFailed:    "failed",
		store.StateRejected:  "refused",
	}
	if text, ok := words[state]; ok {
		return text
	}
	return string(state)
}
