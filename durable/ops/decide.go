package ops

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable"
)

// release is an action on many rows.
const release durable.DecisionKind = "release"

// choice is a form with a decision.
type choice struct {
	Kind    durable.DecisionKind
	Title   string // the operator's finding
	Effect  string
	OrderID string // "required", "optional" or ""
	Sure    string // the statement to confirm, "" without one
	Button  string
	Risky   bool
}

func choices() []choice {
	return []choice{
		{
			Kind: durable.DecidePoll, Title: "Poll the service now", Effect: "The service is polled now.", Button: "Poll now",
		},
		{
			Kind: durable.DecideFound, Title: "The service has it, under an order_id", OrderID: "required",
			Effect: "It is pending, until its notification arrives.", Button: "Wait for the notification",
		},
		{
			Kind: durable.DecidePaid, Title: "It was paid", OrderID: "optional",
			Sure:   "The service has confirmed that it was paid.",
			Effect: "It is marked as succeeded.", Button: "Mark as succeeded",
		},
		{
			Kind: durable.DecideUnpaid, Title: "It was not paid and will not be",
			Sure:   "The service has confirmed that it was not paid.",
			Effect: "It is marked as failed. Nothing is sent.", Button: "Mark as failed",
		},
		{
			Kind: durable.DecideResend, Title: "The service does not have it: send it again", Risky: true,
			Sure:   "The service has confirmed that it does not have this user_data. Otherwise this may pay twice.",
			Effect: "It is sent again, with the same user_data.", Button: "Send again",
		},
		{
			Kind: durable.DecideAcknowledge, Title: "Reviewed: leave it as it is", Button: "Mark as reviewed",
			Effect: "It keeps its state, and its review is done.",
		},
	}
}

// bulkChoices returns the actions on many rows. They have no order_id, because an order_id belongs to one row.
func bulkChoices(f durable.Filter) (list []choice) {
	for _, c := range choices() {
		if c.OrderID != "required" {
			list = append(list, c)
		}
	}
	if f.Held {
		list = append(list, choice{
			Kind: release, Title: "The service does not have them: release", Risky: true, Button: "Release",
			Sure:   "The service's list was compared, and contains no row of these. Otherwise this may pay twice.",
			Effect: "Released: they are sent.",
		})
	}
	return list
}

// decide applies the form of a row's page. The form contains the row's version, as the operator saw it.
func (p *page) decide(w http.ResponseWriter, r *http.Request) {
	d := durable.Decision{
		Kind: durable.DecisionKind(r.PostFormValue("decision")), UserData: r.PathValue("user_data"),
		OrderID: strings.TrimSpace(r.PostFormValue("order_id")), By: by(r),
	}
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	d.Version = version
	c, known := find(choices(), d.Kind)
	switch {
	case err != nil || !known:
		p.showRow(w, r, http.StatusUnprocessableEntity, "", "The form is not complete.")
		return
	case c.Sure != "" && r.PostFormValue("sure") != "yes":
		p.showRow(w, r, http.StatusUnprocessableEntity, "", "Confirm the statement of the service first.")
		return
	}
	err = p.store.Decide(r.Context(), d)
	log := p.Log.With("user_data", d.UserData, "decision", d.Kind, "by", d.By)
	switch {
	case err == nil:
		log.Info("ops: decided")
		done := p.location("/row/"+url.PathEscape(d.UserData), url.Values{"done": {string(d.Kind)}})
		http.Redirect(w, r, done, http.StatusSeeOther)
	case errors.Is(err, durable.ErrChanged), errors.Is(err, durable.ErrUndecidable):
		p.showRow(w, r, http.StatusConflict, "",
			"The row has changed meanwhile, or its last request may still arrive in the next minutes. "+
				"So the decision was not applied. This is its state now.")
	case errors.Is(err, durable.ErrOrderID), errors.Is(err, durable.ErrInvalid):
		p.showRow(w, r, http.StatusUnprocessableEntity, "",
			"The order_id is missing, belongs to another row, or differs from the known order_id.")
	default:
		log.Error("ops: not decided", "err", err)
		p.fail(w, r, err)
	}
}

func find(list []choice, kind durable.DecisionKind) (choice, bool) {
	for _, c := range list {
		if c.Kind == kind {
			return c, true
		}
	}
	return choice{}, false
}
