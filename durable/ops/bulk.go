package ops

import (
	"cmp"
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
	"unicode"

	"github.com/paymentsvc/paymentsvc/durable"
)

// action is a decision about many rows, or a release.
type action struct {
	choice choice
	filter durable.Filter
	fields url.Values // the hidden fields of the confirmation
	back   string
	by     string
}

func (p *page) readAction(r *http.Request) (a action, err error) {
	a = action{filter: filterOf(r), by: by(r)}
	a.back = p.location("/rows", listQuery(r, a.filter))
	narrow := a.filter
	narrow.Kind, narrow.OldestFirst = "", false
	scope := r.PostFormValue("scope")
	switch scope {
	case "all":
		if len(query(narrow)) == 0 {
			return a, rejection("Choose a state, an error code, an age, a file or a checkbox of the filter first. " +
				"The kind alone is not enough.")
		}
		a.filter.Current = true // Config.ReadDB may lack another hold, and the confirmation of an earlier hold would fit
	case "list":
		a.filter = durable.Filter{Held: a.filter.Held}
		a.filter.UserData, err = p.listed(r.Context(), r.PostFormValue("list"))
		if err != nil {
			return a, err
		}
	default:
		a.filter.UserData = r.PostForm["user_data"]
		if len(a.filter.UserData) == 0 {
			return a, rejection("Select rows first.")
		}
	}
	a.fields = listQuery(r, a.filter)
	if scope == "all" {
		a.fields.Set("scope", "all")
	} else {
		a.fields["user_data"] = a.filter.UserData
	}
	var known bool
	a.choice, known = find(bulkChoices(a.filter), durable.DecisionKind(r.PostFormValue("decision")))
	if !known {
		return a, rejection("Choose what to do.")
	}
	a.fields.Set("decision", string(a.choice.Kind))
	return a, nil
}

// fits reports whether the action is allowed for a row. [durable.Store.Decide] may still reject it.
func (a action) fits(row durable.Row) bool {
	return a.choice.Kind.Allowed(row) || a.choice.Kind == release && row.Held
}

type bulkView struct {
	frame
	Choice choice
	Fields url.Values
	Back   string
	N      int           // the number of rows that fit the action
	Sum    string        // the sum of their amounts
	Seen   string        // the hash of a selection
	Rows   []durable.Row // the first maxListed rows, by line
	Listed bool          // whether Rows is set; false if the action has more than maxSorted rows
	Bad    string        // the reason why a confirmed action was not applied, or ""
}

// bulk shows a preview of an action, or applies a confirmed action if its rows have not changed since the preview.
func (p *page) bulk(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	a, err := p.readAction(r)
	if err != nil {
		return err
	}
	chosen, err := p.choose(ctx, a)
	if err != nil {
		return err
	}
	v := bulkView{
		Choice: a.choice, Fields: a.fields, Back: a.back, N: len(chosen.rows), Sum: chosen.sum, Seen: chosen.hash,
	}
	status := http.StatusOK
	if r.PostFormValue("confirm") == "yes" {
		switch {
		case r.PostFormValue("seen") != chosen.hash:
			status, v.Bad = http.StatusConflict,
				"The rows have changed, or payouts are held again, so the decision was not applied. These are the rows now."
		case a.choice.Sure != "" && r.PostFormValue("sure") != "yes":
			status, v.Bad = http.StatusUnprocessableEntity, unconfirmed
		default:
			return p.apply(w, r, a, chosen)
		}
	}
	v.Listed = len(chosen.listed) <= maxSorted
	if v.Listed {
		sortByLine(chosen.listed)
		v.Rows = chosen.listed[:min(maxListed, len(chosen.listed))]
	}
	v.frame, err = p.frame(r, "Review the changes", "")
	if err != nil {
		return err
	}
	p.show(w, status, "bulk", v)
	return nil
}

func (p *page) apply(w http.ResponseWriter, r *http.Request, a action, chosen selection) error {
	n, err := p.do(r.Context(), a, chosen)
	if err != nil {
		p.Log.Error("ops: not all decided", "decision", a.choice.Kind, "by", a.by, "rows", n, "err", err)
		if n == 0 {
			return err
		}
		next := "Look at the rows again, and decide the others."
		if rejected, ok := errors.AsType[rejection](err); ok { // after another hold
			next = string(rejected)
		}
		p.show(w, http.StatusServiceUnavailable, "message", message{frame{Title: "Not all decided", Who: by(r)},
			"Rows decided before the error: " + strconv.Itoa(n) + ". " + next})
		return nil
	}
	p.Log.Info("ops: decided", "decision", a.choice.Kind, "by", a.by, "rows", n)
	done := listQuery(r, a.filter)
	done.Set("done", string(a.choice.Kind))
	done.Set("n", strconv.Itoa(n))
	if skipped := len(chosen.rows) - n; skipped > 0 {
		done.Set("skipped", strconv.Itoa(skipped))
	}
	http.Redirect(w, r, p.location("/rows", done), http.StatusSeeOther)
	return nil
}

// selection has the rows of an action. Its hash changes with each added, changed or removed row and after another hold,
// because a hold changes all versions. A confirmation of an earlier preview then fails.
type selection struct {
	rows       []durable.Decision
	listed     []durable.Row // the first maxSorted+1 rows
	sum        string
	hash       string
	generation int64 // the generation of the hold
}

func (p *page) choose(ctx context.Context, a action) (s selection, err error) {
	status, err := p.store.Status(ctx)
	if err != nil {
		return s, err
	}
	total, scale, hash := new(big.Rat), 0, sha256.New()
	for row, err := range p.store.Rows(ctx, a.filter) {
		if err != nil {
			return s, err
		}
		if !a.fits(row) {
			continue
		}
		s.rows = append(s.rows, durable.Decision{Kind: a.choice.Kind, UserData: row.UserData, Version: row.Version, By: a.by})
		if len(s.listed) <= maxSorted {
			s.listed = append(s.listed, row)
		}
		_, _ = fmt.Fprintf(hash, "%q %d\n", row.UserData, row.Version)
		if amount, ok := new(big.Rat).SetString(row.Amount.String()); ok {
			total.Add(total, amount)
		}
		_, decimals, _ := strings.Cut(row.Amount.String(), ".")
		scale = max(scale, len(decimals))
	}
	s.sum, s.hash, s.generation = total.FloatString(scale), hex.EncodeToString(hash.Sum(nil)), status.Generation
	return s, nil
}

// release releases the rows of a selection, and returns their number. It stops after another hold, because an operator
// must compare the rows with the service again after that hold.
func (p *page) release(ctx context.Context, by string, chosen selection) (n int, err error) {
	for part := range slices.Chunk(chosen.rows, maxListed) {
		f := durable.Filter{Held: true}
		for _, row := range part {
			f.UserData = append(f.UserData, row.UserData)
		}
		released, err := p.store.Release(ctx, by, chosen.generation, f)
		n += released
		if errors.Is(err, durable.ErrChanged) {
			err = rejection("Payouts are held again. Compare them again before you release them.")
		}
		if errors.Is(err, durable.ErrUndecidable) {
			err = errHoldYoung
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// do applies an action, and returns the number of changed rows. It skips rows that others have changed since the
// selection, and rows for which [durable.Store.Decide] rejects the decision, for example during Config.Grace.
func (p *page) do(ctx context.Context, a action, chosen selection) (n int, err error) {
	if a.choice.Kind == release {
		return p.release(ctx, a.by, chosen)
	}
	for _, row := range chosen.rows {
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

// bulkNote returns the text about the action before this page, or "" if there was no action.
func bulkNote(r *http.Request) string {
	done := effect(r, bulkChoices(durable.Filter{Held: true}))
	n, err := strconv.Atoi(r.FormValue("n"))
	if done == "" || err != nil {
		return ""
	}
	note := done + " Rows: " + strconv.Itoa(n) + "."
	if skipped, err := strconv.Atoi(r.FormValue("skipped")); err == nil {
		note += " Skipped, because they have changed or must wait: " + strconv.Itoa(skipped) + "."
	}
	return note
}

const (
	// maxListed is the maximum number of user_data in a form. The confirmation form contains them again, and is within
	// maxForm if each user_data has at most 240 bytes as a form field.
	maxListed = 1000
	// maxSorted is the maximum number of rows that a page reads and sorts by line.
	maxSorted = 5_000
)

const errTooManyRows = rejection("Narrow the filter first, because a page sorts at most 5000 rows by line.")

// listed returns the user_data of a list, each once. White space, commas and semicolons separate them. It rejects a
// list with an unknown user_data. The error does not repeat an entry, because an entry may be a card number by mistake.
func (p *page) listed(ctx context.Context, text string) (list []string, err error) {
	entries := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || c == ',' || c == ';' })
	place := map[string]int{}
	for i, entry := range entries {
		if _, twice := place[entry]; twice {
			continue
		}
		place[entry] = i + 1
		list = append(list, entry)
	}
	switch {
	case len(list) == 0:
		return nil, rejection("Enter the user_data of the rows first.")
	case len(list) > maxListed:
		return nil, rejection(fmt.Sprintf("The list has %d user_data, want at most %d.", len(list), maxListed))
	}
	for row, err := range p.store.Rows(ctx, durable.Filter{UserData: list}) {
		if err != nil {
			return nil, err
		}
		delete(place, row.UserData)
	}
	if len(place) == 0 {
		return list, nil
	}
	first := len(entries)
	for _, n := range place {
		first = min(first, n)
	}
	return nil, rejection(fmt.Sprintf(
		"Entries of the list without a row: %d. The first is entry %d.", len(place), first))
}

// byLine returns up to n rows of f in the order of their files and lines. If after is not "", it is the linePlace of
// the last row to skip. The second result reports whether more rows follow. byLine returns errTooManyRows for more than
// maxSorted rows.
func (p *page) byLine(
	ctx context.Context, f durable.Filter, after string, n int,
) (rows []durable.Row, more bool, err error) {
	rows, tooMany, err := p.collect(ctx, f, maxSorted)
	if err == nil && tooMany {
		err = errTooManyRows
	}
	if err != nil {
		return nil, false, err
	}
	sortByLine(rows)
	rows = slices.DeleteFunc(rows, func(row durable.Row) bool { return linePlace(row) <= after })
	return rows[:min(n, len(rows))], len(rows) > n, nil
}

func sortByLine(rows []durable.Row) {
	slices.SortFunc(rows, func(a, b durable.Row) int { return cmp.Compare(linePlace(a), linePlace(b)) })
}

// linePlace returns a text that sorts by file, line and user_data. The number of digits precedes the line, because
// the text 10 sorts before the text 9.
func linePlace(row durable.Row) string {
	line := strconv.FormatInt(row.Line, 10)
	return fmt.Sprintf("%s %02d%s %s", row.Batch, len(line), line, row.UserData)
}
