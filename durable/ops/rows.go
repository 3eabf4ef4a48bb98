package ops

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/durable"
)

// collect returns up to n rows, and reports whether more rows follow.
func (p *page) collect(ctx context.Context, f durable.Filter, n int) (rows []durable.Row, more bool, err error) {
	f.Limit = n + 1
	for row, err := range p.store.Rows(ctx, f) {
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
	}
	return rows[:min(n, len(rows))], len(rows) > n, nil
}

// filterOf returns the filter in a request. It ignores an invalid age.
func filterOf(r *http.Request) durable.Filter {
	minAge, _ := time.ParseDuration(r.FormValue("age"))
	return durable.Filter{
		Kind: durable.Kind(r.FormValue("kind")), State: durable.State(r.FormValue("state")),
		Batch: r.FormValue("batch"), ErrorCode: strings.TrimSpace(r.FormValue("code")), MinAge: max(0, minAge),
		Review: r.FormValue("review") == "1", Held: r.FormValue("held") == "1", OldestFirst: r.FormValue("order") == "oldest",
	}
}

// isByLine reports whether a request lists the payouts of a file by line.
func isByLine(r *http.Request) bool {
	return r.FormValue("order") == "line" && r.FormValue("batch") != ""
}

// query is the inverse of filterOf.
func query(f durable.Filter) url.Values {
	values := url.Values{}
	set := func(name, value string, unless bool) {
		if !unless {
			values.Set(name, value)
		}
	}
	set("kind", string(f.Kind), f.Kind == "")
	set("state", string(f.State), f.State == "")
	set("batch", f.Batch, f.Batch == "")
	set("code", f.ErrorCode, f.ErrorCode == "")
	set("age", f.MinAge.String(), f.MinAge == 0)
	set("review", "1", !f.Review)
	set("held", "1", !f.Held)
	set("order", "oldest", !f.OldestFirst)
	return values
}

// listQuery returns the query of a list with the filter f and the order in the request.
func listQuery(r *http.Request, f durable.Filter) url.Values {
	values := query(f)
	if isByLine(r) {
		values.Set("order", "line")
	}
	return values
}

// ages are the choices of a minimum age.
var ages = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

type rowsView struct {
	frame
	Filter  durable.Filter
	Fields  url.Values // of the filter
	File    string     // the name of the filter's file, or ""
	Note    string     // the effect of the action before this page, or ""
	ByLine  bool       // whether the rows are sorted by line
	Rows    []durable.Row
	States  []durable.State
	Ages    []time.Duration // the choices of a minimum age
	Choices []choice
	First   string // the address of the first page, or "" on the first page
	Next    string // the address of the next page, or "" on the last page
}

func (p *page) rows(w http.ResponseWriter, r *http.Request) error {
	f := filterOf(r)
	title, at := "Payments and payouts", "rows"
	switch f.Kind {
	case durable.KindPayment:
		title, at = "Payments", "payment"
	case durable.KindPayout:
		title, at = "Payouts", "payout"
	}
	head, err := p.frame(r, title, at)
	if err != nil {
		return err
	}
	v := rowsView{
		frame: head, Filter: f, Fields: listQuery(r, f), States: durable.States(), Ages: ages, Choices: bulkChoices(f),
		Note: bulkNote(r),
	}
	if f.MinAge > 0 && !slices.Contains(ages, f.MinAge) {
		v.Ages = append([]time.Duration{f.MinAge}, ages...)
	}
	var more bool
	after := r.FormValue("after")
	v.ByLine = isByLine(r)
	if v.ByLine {
		v.Rows, more, err = p.byLine(r.Context(), f, after, rowsPerPage)
	} else {
		f.After = after
		v.Rows, more, err = p.collect(r.Context(), f, rowsPerPage)
	}
	if err == nil {
		v.File, err = p.fileName(r.Context(), f.Batch)
	}
	if err != nil {
		return err
	}
	if after != "" {
		v.First = p.location("/rows", v.Fields)
	}
	if more {
		next := maps.Clone(v.Fields)
		last := v.Rows[len(v.Rows)-1]
		next.Set("after", last.Cursor())
		if v.ByLine {
			next.Set("after", linePlace(last))
		}
		v.Next = p.location("/rows", next)
	}
	p.show(w, http.StatusOK, "list", v)
	return nil
}

// fileName returns the name of a batch, or "" if id is unknown or "".
func (p *page) fileName(ctx context.Context, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	batch, err := p.store.Batch(ctx, id)
	if errors.Is(err, durable.ErrNotFound) {
		err = nil
	}
	return batch.Name, err
}

// find shows the rows whose user_data, order_id or reference is the searched text. For a single row it redirects to the
// row's page.
func (p *page) find(w http.ResponseWriter, r *http.Request) error {
	v := struct {
		frame
		Text    string
		Rows    []durable.Row
		Pruned  bool
		Notices []durable.Notice
	}{Text: strings.TrimSpace(r.FormValue("q"))}
	if v.Text != "" {
		for row, err := range p.store.Find(r.Context(), v.Text) {
			v.Pruned = errors.Is(err, durable.ErrPruned)
			if v.Pruned {
				break
			}
			if err != nil {
				return err
			}
			v.Rows = append(v.Rows, row)
		}
	}
	if len(v.Rows) == 1 {
		http.Redirect(w, r, p.location("/row/"+url.PathEscape(v.Rows[0].UserData), nil), http.StatusSeeOther)
		return nil
	}
	var err error
	v.Notices, err = p.store.Notices(r.Context(), durable.Row{UserData: v.Text, OrderID: v.Text})
	if err != nil {
		return err
	}
	v.frame, err = p.frame(r, "Search", "")
	if err != nil {
		return err
	}
	p.show(w, http.StatusOK, "find", v)
	return nil
}

type rowView struct {
	frame
	Row       durable.Row
	File      string // the name of the row's file, or ""
	Note, Bad string // the effect of a form, or its error
	Choices   []choice
	Notices   []durable.Notice
	Decisions []durable.Decision
}

func (p *page) row(w http.ResponseWriter, r *http.Request) error {
	return p.showRow(w, r, http.StatusOK, rowView{Note: effect(r, choices)})
}

// showRow completes v with the row in the path of the request, and shows it.
func (p *page) showRow(w http.ResponseWriter, r *http.Request, status int, v rowView) error {
	ctx := r.Context()
	rows, _, err := p.collect(ctx, durable.Filter{UserData: []string{r.PathValue("user_data")}}, 1)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return durable.ErrNotFound
	}
	v.Row = rows[0]
	title := map[durable.Kind]string{durable.KindPayment: "Payment", durable.KindPayout: "Payout"}[v.Row.Kind]
	v.frame, err = p.frame(r, title, string(v.Row.Kind))
	if err == nil {
		v.Notices, err = p.store.Notices(ctx, v.Row)
	}
	if err == nil {
		v.Decisions, err = p.store.Decisions(ctx, v.Row.UserData)
	}
	if err == nil {
		v.File, err = p.fileName(ctx, v.Row.Batch)
	}
	if err != nil {
		return err
	}
	for _, c := range choices {
		if c.Kind.Allowed(v.Row) {
			if c.OrderID == "optional" && v.Row.OrderID != "" {
				c.OrderID = ""
			}
			v.Choices = append(v.Choices, c)
		}
	}
	p.show(w, status, "row", v)
	return nil
}
