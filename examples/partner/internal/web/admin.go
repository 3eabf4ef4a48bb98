package web

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// Admin is what the operators' pages need. They ask for no password: bind them to a loopback address, and put your login
// in front.
type Admin struct {
	// Store, Balance, Metrics, Log and Enqueue are required.
	Store   *store.Store
	Balance *Balance
	// Metrics is what /metrics serves.
	Metrics http.Handler
	// Enqueue is told, in its transaction, of a payout that is to be sent again.
	Enqueue func(ctx context.Context, tx *sql.Tx, userData ...string) error
	// Paused says why no payouts are sent at the moment, "" when they are; nil means that they always are.
	Paused func() string
	// Hosts are the names that the pages may be asked by, besides the loopback's.
	Hosts []string
	// UserHeader is the header in which the login says who decides, "" for none.
	UserHeader string
	Demo       bool
	Log        *slog.Logger

	*pages
}

// rowsPerPage is the length of the lists.
const rowsPerPage = 50

// Handler serves the pages, and /metrics, which may be asked by any name.
func (a *Admin) Handler() http.Handler {
	a.pages = newPages(a.Log)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.overview)
	mux.HandleFunc("GET /orders", a.rows(store.Orders))
	mux.HandleFunc("GET /payouts", a.rows(store.Payouts))
	mux.HandleFunc("GET /orders/{user_data}", a.row(store.Orders))
	mux.HandleFunc("GET /payouts/{user_data}", a.row(store.Payouts))
	mux.HandleFunc("POST /orders/{user_data}", a.decide(store.Orders))
	mux.HandleFunc("POST /payouts/{user_data}", a.decide(store.Payouts))
	mux.HandleFunc("GET /files/{id}", a.file)
	mux.HandleFunc("GET /notifications", a.notifications)
	mux.Handle("GET /style.css", asset("style.css"))
	mux.Handle("GET /favicon.ico", asset("icon.svg"))
	protected := http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(safely(onlyText(mux), a.Log), maxForm))
	all := http.NewServeMux()
	all.Handle("GET /metrics", a.Metrics)
	all.Handle("/", secure(onlyHosts(a.Hosts, protected)))
	return all
}

// frame is what all the operators' pages have in common.
type frame struct {
	Title   string
	At      string // which of the navigation's links this is
	Demo    bool
	Refresh string // the address with which the page looks again by itself, "" when it does
}

func (a *Admin) frame(title, at string) frame { return frame{Title: title, At: at, Demo: a.Demo} }

// fail answers what the database's error or a missing row asks for.
func (a *Admin) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, store.ErrNotFound) {
		a.render(w, http.StatusNotFound, "nothing.html", a.frame("Nothing here", ""))
		return
	}
	a.Log.Error("a page cannot be made", "err", err)
	a.render(w, http.StatusServiceUnavailable, "nothing.html", a.frame("The database does not answer", ""))
}

type overviewView struct {
	frame
	Balance   *paymentsvc.Balance
	BalanceAt time.Time
	Paused    string
	Counts    []countsView
	Attention []store.Row
	More      bool // more than those need a person
	Files     []fileView
	Orders    []store.Row
	Told      []store.Told
}

type countsView struct {
	Table     store.Table
	States    []stateCount
	Total     int64
	Attention int64
}

type stateCount struct {
	State store.State
	N     int64
}

func (a *Admin) overview(w http.ResponseWriter, r *http.Request) {
	v := overviewView{frame: a.frame("Overview", "overview")}
	if r.URL.Query().Get("refresh") == "1" {
		w.Header().Set("Refresh", "5")
	} else {
		v.Refresh = "/?refresh=1"
	}
	if a.Paused != nil {
		v.Paused = a.Paused()
	}
	v.Balance, v.BalanceAt = a.Balance.Get(r.Context())
	if err := a.fill(r.Context(), &v); err != nil {
		a.fail(w, err)
		return
	}
	a.render(w, http.StatusOK, "overview.html", v)
}

// fill reads what the overview shows.
func (a *Admin) fill(ctx context.Context, v *overviewView) error {
	for _, table := range []store.Table{store.Orders, store.Payouts} {
		counts, err := a.Store.Counts(ctx, table)
		if err != nil {
			return err
		}
		v.Counts = append(v.Counts, viewCounts(table, counts))
		rows, next, err := a.Store.Rows(ctx, store.Filter{Table: table, Attention: true, Limit: 10})
		if err != nil {
			return err
		}
		v.Attention, v.More = append(v.Attention, rows...), v.More || next != ""
	}
	files, err := a.Store.Files(ctx, 5)
	if err != nil {
		return err
	}
	for _, file := range files {
		view, err := a.viewFile(ctx, file)
		if err != nil {
			return err
		}
		v.Files = append(v.Files, view)
	}
	if v.Orders, _, err = a.Store.Rows(ctx, store.Filter{Table: store.Orders, Limit: 8}); err != nil {
		return err
	}
	v.Told, _, err = a.Store.Notifications(ctx, "", "", 8)
	return err
}

func viewCounts(t store.Table, c store.Counts) countsView {
	v := countsView{Table: t, Total: c.Total(), Attention: c.Attention}
	for _, state := range store.States() {
		v.States = append(v.States, stateCount{state, c.States[state]})
	}
	return v
}

// fileView is a file with how far its payouts are.
type fileView struct {
	store.PayoutFile
	Total     int64 // its payouts, and those of its rows that another file brought first
	Done      int64 // nothing is left to be done for these but to wait for the service or a person
	Attention int64
}

func (a *Admin) viewFile(ctx context.Context, f store.PayoutFile) (fileView, error) {
	counts, err := a.Store.FileCounts(ctx, f.ID)
	return fileView{
		PayoutFile: f, Total: counts.Total(), Done: counts.Total() - counts.Open(), Attention: counts.Attention,
	}, err
}

type rowsView struct {
	frame
	Table     store.Table
	Rows      []store.Row
	States    []store.State
	State     store.State
	Attention bool
	File      string
	Next      string // the address of the next page, "" when there is none
	First     bool
}

func (a *Admin) rows(t store.Table) http.HandlerFunc {
	title := map[store.Table]string{store.Orders: "Orders", store.Payouts: "Payouts"}[t]
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		v := rowsView{
			frame: a.frame(title, string(t)), Table: t, States: store.States(), State: store.State(query.Get("state")),
			Attention: query.Get("attention") == "1", File: query.Get("file"), First: query.Get("after") == "",
		}
		rows, next, err := a.Store.Rows(r.Context(), store.Filter{
			Table: t, State: v.State, Attention: v.Attention, FileID: v.File, After: query.Get("after"), Limit: rowsPerPage,
		})
		if err != nil {
			a.fail(w, err)
			return
		}
		if v.Rows = rows; next != "" {
			query.Set("after", next)
			v.Next = "/" + string(t) + "?" + query.Encode()
		}
		a.render(w, http.StatusOK, "rows.html", v)
	}
}

type rowView struct {
	frame
	store.Row
	Note, Bad string // what a form has done, and what was wrong with it
	Choices   []choice
	Told      []store.Told
	Decisions []store.Decision
}

func (a *Admin) row(t store.Table) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		note := ""
		if done := store.DecisionKind(r.URL.Query().Get("done")); done != "" {
			note = doneText(done)
		}
		a.showRow(w, r, t, http.StatusOK, note, "")
	}
}

func (a *Admin) showRow(w http.ResponseWriter, r *http.Request, t store.Table, status int, note, bad string) {
	ctx := r.Context()
	row, err := a.Store.Row(ctx, t, r.PathValue("user_data"))
	if err != nil {
		a.fail(w, err)
		return
	}
	title := map[store.Table]string{store.Orders: "Order", store.Payouts: "Payout"}[t]
	v := rowView{
		frame: a.frame(title, string(t)), Row: row,
		Note: note, Bad: bad, Choices: choices(row),
	}
	if v.Told, err = a.Store.NotificationsOf(ctx, row); err == nil {
		v.Decisions, err = a.Store.Decisions(ctx, t, row.UserData)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	a.render(w, status, "row.html", v)
}

func (a *Admin) file(w http.ResponseWriter, r *http.Request) {
	type view struct {
		frame
		fileView
		Rows []store.RefusedRow
		Most int
	}
	v := view{frame: a.frame("File", "payouts"), Most: 200}
	file, err := a.Store.PayoutFile(r.Context(), r.PathValue("id"))
	if err == nil {
		v.fileView, err = a.viewFile(r.Context(), file)
	}
	if err == nil {
		v.Rows, err = a.Store.RefusedRows(r.Context(), file.ID, v.Most)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	a.render(w, http.StatusOK, "file.html", v)
}

func (a *Admin) notifications(w http.ResponseWriter, r *http.Request) {
	type view struct {
		frame
		Told   []store.Told
		Events []paymentsvc.EventType
		Event  string
		Next   string
		First  bool
	}
	query := r.URL.Query()
	v := view{
		frame: a.frame("Notifications", "notifications"), Event: query.Get("event"), First: query.Get("after") == "",
		Events: []paymentsvc.EventType{
			paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged, paymentsvc.EventRefundStatusChanged,
		},
	}
	told, next, err := a.Store.Notifications(r.Context(), v.Event, query.Get("after"), rowsPerPage)
	if err != nil {
		a.fail(w, err)
		return
	}
	if v.Told = told; next != "" {
		query.Set("after", next)
		v.Next = "/notifications?" + query.Encode()
	}
	a.render(w, http.StatusOK, "notifications.html", v)
}
