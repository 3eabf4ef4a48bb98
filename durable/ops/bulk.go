package ops

import (
	"context"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// action is a decision about many rows, or a release.
type action struct {
	choice choice
	filter durable.Filter
	fields url.Values // of the confirmation
	back   string
	by     string
}

func (p *page) readAction(r *http.Request) (a action, bad string, err error) {
	a = action{filter: filterOf(r), by: by(r)}
	back := query(a.filter)
	if isByLine(r) {
		back.Set("order", "line")
	}
	a.back = p.location("/rows", back)
	narrow := a.filter
	narrow.Kind, narrow.OldestFirst = "", false
	all := false
	switch r.PostFormValue("scope") {
	case "all":
		if all = true; len(query(narrow)) == 0 {
			return a, "Choose a state, an error code, an age or a file first, because the filter selects every row.", nil
		}
	case "list":
		a.filter = durable.Filter{Held: a.filter.Held}
		if a.filter.UserData, bad, err = p.listed(r.Context(), r.PostFormValue("list")); bad != "" || err != nil {
			return a, bad, err
		}
	default:
		if a.filter.UserData = r.PostForm["user_data"]; len(a.filter.UserData) == 0 {
			return a, "Select rows first.", nil
		}
	}
	if a.fields = query(a.filter); all {
		a.fields.Set("scope", "all")
	} else {
		a.fields["user_data"] = a.filter.UserData
	}
	var known bool
	if a.choice, known = find(bulkChoices(a.filter), durable.DecisionKind(r.PostFormValue("decision"))); !known {
		return a, "Choose what to do.", nil
	}
	a.fields.Set("decision", string(a.choice.Kind))
	return a, "", nil
}

// fits reports whether the action changes a row.
func (a action) fits(row durable.Row) bool {
	return a.choice.Kind.Allowed(row) || a.choice.Kind == release && row.Held
}

type bulkView struct {
	frame
	Choice choice
	Fields url.Values
	Back   string
	N      int
	Sum    string
	Rows   []durable.Row // the first of the rows, by line
	Listed bool          // Rows has a list
	Bad    string
}

// bulk shows a preview of an action. It applies the action after a confirmation, if the preview is still true.
func (p *page) bulk(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	a, bad, err := p.readAction(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if bad != "" {
		p.reject(w, r, bad)
		return
	}
	n, sum, err := p.do(ctx, a, true)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := bulkView{Choice: a.choice, Fields: a.fields, Back: a.back, N: n, Sum: sum.String()}
	status := http.StatusOK
	if r.PostFormValue("confirm") == "yes" {
		switch {
		case r.PostFormValue("n") != strconv.Itoa(n) || r.PostFormValue("sum") != sum.String():
			status, v.Bad = http.StatusConflict,
				"The rows have changed meanwhile, so the decision was not applied. These are the numbers now."
		case a.choice.Sure != "" && r.PostFormValue("sure") != "yes":
			status, v.Bad = http.StatusUnprocessableEntity, "Confirm the statement of the service first."
		default:
			p.apply(w, r, a)
			return
		}
	}
	if v.Rows, _, v.Listed, err = p.byLine(ctx, a.filter, a.fits, "", maxListed); err == nil {
		v.frame, err = p.frame(r, "Review the changes", "")
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.views.show(w, status, "bulk.html", v)
}

func (p *page) apply(w http.ResponseWriter, r *http.Request, a action) {
	n, _, err := p.do(r.Context(), a, false)
	if err != nil {
		p.Log.Error("ops: not all decided", "decision", a.choice.Kind, "by", a.by, "rows", n, "err", err)
		if n == 0 {
			p.fail(w, r, err)
			return
		}
		p.views.show(w, http.StatusServiceUnavailable, "message.html", message{frame{Title: "Not all decided", Who: by(r)},
			"Rows decided before the error: " + strconv.Itoa(n) + ". Look at the rows again, and decide the others."})
		return
	}
	p.Log.Info("ops: decided", "decision", a.choice.Kind, "by", a.by, "rows", n)
	done := query(a.filter)
	done.Set("done", string(a.choice.Kind))
	done.Set("n", strconv.Itoa(n))
	http.Redirect(w, r, p.location("/rows", done), http.StatusSeeOther)
}

// do returns the number and the sum of an action's rows. It applies the action, except for a preview.
func (p *page) do(ctx context.Context, a action, preview bool) (n int, sum paymentsvc.Amount, err error) {
	if a.choice.Kind != release {
		return p.store.DecideMany(ctx, a.filter, durable.Decision{Kind: a.choice.Kind, By: a.by}, preview)
	}
	if !preview {
		n, err = p.store.Release(ctx, a.by, a.filter)
		return n, paymentsvc.Amount{}, err
	}
	total, scale := new(big.Rat), 0
	for row, err := range p.store.Rows(ctx, a.filter) {
		if err != nil {
			return 0, paymentsvc.Amount{}, err
		}
		n++
		if amount, ok := new(big.Rat).SetString(row.Amount.String()); ok {
			total.Add(total, amount)
		}
		_, decimals, _ := strings.Cut(row.Amount.String(), ".")
		scale = max(scale, len(decimals))
	}
	sum, err = paymentsvc.ParseAmount(total.FloatString(scale))
	return n, sum, err
}

// bulkNote returns the effect of an action, for the page after its redirect.
func bulkNote(r *http.Request) string {
	c, known := find(bulkChoices(durable.Filter{Held: true}), durable.DecisionKind(r.FormValue("done")))
	n, err := strconv.Atoi(r.FormValue("n"))
	if !known || err != nil {
		return ""
	}
	return c.Effect + " Rows: " + strconv.Itoa(n) + "."
}

// control pauses and resumes, and holds payouts.
func (p *page) control(w http.ResponseWriter, r *http.Request) {
	ctx, name, reason := r.Context(), by(r), strings.TrimSpace(r.PostFormValue("reason"))
	do := r.PostFormValue("do")
	if reason == "" && (do == "pause" || do == "hold") {
		p.reject(w, r, "Enter a reason for the other operators.")
		return
	}
	if do == "end-hold" && r.PostFormValue("sure") != "yes" {
		p.reject(w, r, "Confirm first that all payouts since the backup are imported or queued again.")
		return
	}
	var err error
	switch do {
	case "pause":
		err = p.store.Pause(ctx, name, reason)
	case "resume":
		err = p.store.Resume(ctx, name)
	case "hold":
		_, err = p.store.HoldPayouts(ctx, name, reason)
	case "end-hold":
		err = p.store.EndHold(ctx, name)
	default:
		p.reject(w, r, "Choose what to do.")
		return
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.Log.Info("ops: control", "do", do, "by", name)
	http.Redirect(w, r, p.location("/", nil), http.StatusSeeOther)
}

// reject shows the error of a form.
func (p *page) reject(w http.ResponseWriter, r *http.Request, text string) {
	f, err := p.frame(r, "Not applied", "")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.views.show(w, http.StatusUnprocessableEntity, "message.html", message{f, text})
}
