package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	Seen   string        // the hash of a selection
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
	chosen, err := p.choose(ctx, a)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := bulkView{
		Choice: a.choice, Fields: a.fields, Back: a.back, N: len(chosen.rows), Sum: chosen.sum, Seen: chosen.hash,
	}
	status := http.StatusOK
	if r.PostFormValue("confirm") == "yes" {
		switch {
		case r.PostFormValue("seen") != chosen.hash:
			status, v.Bad = http.StatusConflict,
				"The rows have changed meanwhile, so the decision was not applied. These are the rows now."
		case a.choice.Sure != "" && r.PostFormValue("sure") != "yes":
			status, v.Bad = http.StatusUnprocessableEntity, "Confirm the statement of the service first."
		default:
			p.apply(w, r, a, chosen.rows)
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

func (p *page) apply(w http.ResponseWriter, r *http.Request, a action, rows []durable.Decision) {
	n, err := p.do(r.Context(), a, rows)
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

// selection has the rows of an action. Its hash is another one after a change of a row, even if the number and the sum
// of the rows are the same. So an old confirmation cannot apply to later rows, or to a row sent meanwhile.
type selection struct {
	rows []durable.Decision
	sum  string
	hash string
}

func (p *page) choose(ctx context.Context, a action) (s selection, err error) {
	total, scale, hash := new(big.Rat), 0, sha256.New()
	for row, err := range p.store.Rows(ctx, a.filter) {
		if err != nil {
			return s, err
		}
		if !a.fits(row) {
			continue
		}
		s.rows = append(s.rows, durable.Decision{Kind: a.choice.Kind, UserData: row.UserData, Version: row.Version, By: a.by})
		_, _ = fmt.Fprintf(hash, "%q %d\n", row.UserData, row.Version)
		if amount, ok := new(big.Rat).SetString(row.Amount.String()); ok {
			total.Add(total, amount)
		}
		_, decimals, _ := strings.Cut(row.Amount.String(), ".")
		scale = max(scale, len(decimals))
	}
	s.sum, s.hash = total.FloatString(scale), hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

// do applies an action to its rows, and returns their number. It leaves out rows with a change since the selection.
func (p *page) do(ctx context.Context, a action, rows []durable.Decision) (n int, err error) {
	if a.choice.Kind == release {
		for part := range slices.Chunk(rows, maxListed) {
			f := durable.Filter{Held: true}
			for _, row := range part {
				f.UserData = append(f.UserData, row.UserData)
			}
			released, err := p.store.Release(ctx, a.by, f)
			if n += released; err != nil {
				return n, err
			}
		}
		return n, nil
	}
	for _, row := range rows {
		switch err := p.store.Decide(ctx, row); {
		case err == nil:
			n++
		case errors.Is(err, durable.ErrChanged), errors.Is(err, durable.ErrUndecidable), errors.Is(err, durable.ErrNotFound):
		default:
			return n, err
		}
	}
	return n, nil
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
	if do == "resume" || do == "end-hold" {
		status, err := p.store.Status(ctx)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		if r.PostFormValue("seen") != control(status) {
			p.reject(w, r, "The pause or the hold has changed meanwhile, so it was not ended. Look at its reason first.")
			return
		}
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

// control returns a text that differs between two holds and between two pauses, so that the form of an earlier pause or
// hold cannot end a later one.
func control(s durable.Status) string { return fmt.Sprintf("%d %q %q", s.Generation, s.By, s.Reason) }

// reject shows the error of a form.
func (p *page) reject(w http.ResponseWriter, r *http.Request, text string) {
	f, err := p.frame(r, "Not applied", "")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.views.show(w, http.StatusUnprocessableEntity, "message.html", message{f, text})
}
