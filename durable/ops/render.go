package ops

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc/durable"
)

//go:embed templates/*.html style.css icon.svg
var files embed.FS // an embedded file needs a variable of the package

type views struct {
	all *template.Template
	log *slog.Logger
}

func newViews(c Config) *views {
	functions := template.FuncMap{
		"utc": utc, "count": count, "age": age, "since": since, "mask": mask, "control": control,
		"rowsOf": func(status *durable.Status, rows []durable.Row, selectable bool) table {
			return table{status, rows, selectable}
		},
		"notice": func() string { return c.Notice },
		"at":     func(path string) string { return c.location(path, nil) },
		"rowURL": func(userData string) string { return c.location("/row/"+url.PathEscape(userData), nil) },
		"listURL": func(values ...string) string { // pairs of name and value
			query := url.Values{}
			for i := 0; i+1 < len(values); i += 2 {
				query.Set(values[i], values[i+1])
			}
			return c.location("/rows", query)
		},
	}
	return &views{log: c.Log, all: template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))}
}

// table is a list of rows, with a box to select each.
type table struct {
	Status *durable.Status
	Rows   []durable.Row
	Select bool
}

// frame is the common part of all pages.
type frame struct {
	Title, Who string
	At         string // the current entry of the navigation
	Status     *durable.Status
}

type message struct {
	frame
	Text string
}

// frame returns the common part of a page.
func (p *page) frame(r *http.Request, title, at string) (frame, error) {
	status, err := p.store.Status(r.Context())
	return frame{Title: title, Who: by(r), At: at, Status: &status}, err
}

// show renders the whole page before it sends a part of it.
func (v *views) show(w http.ResponseWriter, status int, name string, view any) {
	var html bytes.Buffer
	if err := v.all.ExecuteTemplate(&html, name, view); err != nil {
		v.log.Error("ops: a page cannot be rendered", "page", name, "err", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html.Bytes())
}

func asset(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		http.ServeFileFS(w, r, files, name)
	}
}

// since writes the age of a row at a time of the database.
func since(status *durable.Status, created time.Time) string { return age(status.Now.Sub(created)) }

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// count writes a number of [durable.Counts].
func count(n int64) string {
	if n >= durable.CountLimit {
		return strconv.Itoa(durable.CountLimit) + " or more"
	}
	return strconv.FormatInt(n, 10)
}

// age writes a duration in its largest unit.
func age(d time.Duration) string {
	for _, unit := range ageUnits {
		if d >= unit.length {
			return strconv.FormatInt(int64(d/unit.length), 10) + " " + unit.name
		}
	}
	return "0 s"
}

// ageUnits are the units of ages, the largest first.
var ageUnits = []struct {
	length time.Duration
	name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}

func mask(end string) string { return "••••\u00a0" + end }
