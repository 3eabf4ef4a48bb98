package ops

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable"
)

// collect returns at most n rows, and whether there are more.
func (p *page) collect(ctx context.Context, f durable.Filter, n int) (rows []durable.Row, more bool, err error) {
	f.Limit = n + 1
	for row, err := range p.store.Rows(ctx, f) {
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
	}
	if len(rows) > n {
		return rows[:n], true, nil
	}
	return rows, false, nil
}

// filterOf reads what a list shows from a request.
func filterOf(r *http.Request) durable.Filter {
	return durable.Filter{
		Kind: durable.Kind(r.FormValue("kind")), State: durable.State(r.FormValue("state")),
		Batch: r.FormValue("batch"), Refusal: strings.TrimSpace(r.FormValue("refusal")),
		Attention: r.FormValue("review") == "1", Held: r.FormValue("held") == "1",
	}
}

// query is the inverse of filterOf.
func query(f durable.Filter) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"kind": string(f.Kind), "state": string(f.State), "batch": f.Batch, "refusal": f.Refusal,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.Attention {
		values.Set("review", "1")
	}
	if f.Held {
		values.Set("held", "1")
	}
	return values
}

type rowsView struct {
	frame
	Filter  durable.Filter
	Fields  url.Values // of the filter
	File    string     // the name of the filter's file, "" without
	Note    string
	Rows    []durable.Row
	States  []durable.State
	Choices []choice
	First   string // the address of the first page, "" on it
	Next    string // the address of the next page, "" on the last
}

func (p *page) rows(w http.ResponseWriter, r *http.Request) {
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
		p.fail(w, r, err)
		return
	}
	v := rowsView{
		frame: head, Filter: f, Fields: query(f), States: durable.States(), Choices: bulkChoices(f), Note: bulkNote(r),
	}
	f.After = r.FormValue("after")
	rows, more, err := p.collect(r.Context(), f, rowsPerPage)
	if err == nil {
		v.File, err = p.fileName(r.Context(), f.Batch)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if v.Rows = rows; f.After != "" {
		v.First = p.location("/rows", query(f))
	}
	if more {
		next := query(f)
		next.Set("after", rows[len(rows)-1].Cursor())
		v.Next = p.location("/rows", next)
	}
	p.views.show(w, http.StatusOK, "rows.html", v)
}

// fileName returns the name of a batch, "" if there is none.
func (p *page) fileName(ctx context.Context, id string) (string, error) {
	for batch, err := range p.store.Batches(ctx) {
		if err != nil || id != "" && batch.ID == id {
			return batch.Name, err
		}
	}
	return "", nil
}

// find shows the rows with a user_data, an order_id or a reference.
func (p *page) find(w http.ResponseWriter, r *http.Request) {
	text := strings.TrimSpace(r.FormValue("q"))
	var rows []durable.Row
	if text != "" {
		for row, err := range p.store.Find(r.Context(), text) {
			if err != nil {
				p.fail(w, r, err)
				return
			}
			rows = append(rows, row)
		}
	}
	notices, err := p.store.Notices(r.Context(), durable.Row{UserData: text, OrderID: text})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if len(rows) == 1 {
		http.Redirect(w, r, p.location("/row/"+url.PathEscape(rows[0].UserData), nil), http.StatusSeeOther)
		return
	}
	head, err := p.frame(r, "Search", "")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.views.show(w, http.StatusOK, "find.html", struct {
		frame
		Text    string
		Rows    []durable.Row
		Notices []durable.Notice
	}{head, text, rows, notices})
}

type rowView struct {
	frame
	Row       durable.Row
	File      string // its name, "" without
	Note, Bad string // what a form has done, and what was wrong with it
	Choices   []choice
	Notices   []durable.Notice
	Decisions []durable.Decision
}

func (p *page) row(w http.ResponseWriter, r *http.Request) {
	note := ""
	for _, c := range choices() {
		if string(c.Kind) == r.FormValue("done") {
			note = c.Effect
		}
	}
	p.showRow(w, r, http.StatusOK, note, "")
}

func (p *page) showRow(w http.ResponseWriter, r *http.Request, status int, note, bad string) {
	ctx := r.Context()
	rows, _, err := p.collect(ctx, durable.Filter{UserData: []string{r.PathValue("user_data")}}, 1)
	if err == nil && len(rows) == 0 {
		err = durable.ErrNotFound
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := rowView{Row: rows[0], Note: note, Bad: bad}
	title := map[durable.Kind]string{durable.KindPayment: "Payment", durable.KindPayout: "Payout"}[v.Row.Kind]
	if v.frame, err = p.frame(r, title, string(v.Row.Kind)); err == nil {
		v.Notices, err = p.store.Notices(ctx, v.Row)
	}
	if err == nil {
		v.Decisions, err = p.store.Decisions(ctx, v.Row.UserData)
	}
	if err == nil {
		v.File, err = p.fileName(ctx, v.Row.Batch)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	for _, c := range choices() {
		if c.Kind.Allowed(v.Row) {
			if c.OrderID == "optional" && v.Row.OrderID != "" {
				c.OrderID = ""
			}
			v.Choices = append(v.Choices, c)
		}
	}
	p.views.show(w, status, "row.html", v)
}
