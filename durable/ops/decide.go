package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable"
)

// release is the action that releases held rows. It is not a decision of package durable.
const release durable.DecisionKind = "release"

// choice is a form with a decision.
type choice struct {
	Kind    durable.DecisionKind
	Title   string // the operator's finding
	Effect  string // shown before and after the decision
	OrderID string // whether the form has an order_id: "required", "optional" or "" for no
	Sure    string // the statement that the operator must confirm, or ""
	Button  string
	Risky   bool // whether the decision may pay twice
}

// choices are the decisions about a row.
var choices = []choice{
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
		Kind: durable.DecideAcknowledge, Title: "Reviewed, or still pending: leave it as it is", Button: "Mark as reviewed",
		Effect: "It keeps its state, and its review is done. If it stays pending, its next review is due after a while.",
	},
}

// bulkChoices returns the actions on many rows. It omits a decision that needs the order_id of a single row.
func bulkChoices(f durable.Filter) (list []choice) {
	for _, c := range choices {
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

// effect returns the effect of the form sent before this page, or "". It ignores a link on a foreign site, because such
// a link does not prove that a form was sent.
func effect(r *http.Request, list []choice) string {
	c, _ := find(list, durable.DecisionKind(r.FormValue("done")))
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return ""
	}
	return c.Effect
}

// decide applies the form of a row's page. The form contains the version of the row that the operator saw.
func (p *page) decide(w http.ResponseWriter, r *http.Request) error {
	d := durable.Decision{
		Kind: durable.DecisionKind(r.PostFormValue("decision")), UserData: r.PathValue("user_data"),
		OrderID: strings.TrimSpace(r.PostFormValue("order_id")), By: by(r),
	}
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	d.Version = version
	c, known := find(choices, d.Kind)
	switch {
	case err != nil || !known:
		return p.showRow(w, r, http.StatusUnprocessableEntity, rowView{Bad: "The form is not complete."})
	case c.Sure != "" && r.PostFormValue("sure") != "yes":
		return p.showRow(w, r, http.StatusUnprocessableEntity, rowView{Bad: unconfirmed})
	}
	err = p.store.Decide(r.Context(), d)
	log := p.Log.With("user_data", d.UserData, "decision", d.Kind, "by", d.By)
	switch {
	case err == nil:
		log.Info("ops: decided")
		done := p.location("/row/"+url.PathEscape(d.UserData), url.Values{"done": {string(d.Kind)}})
		http.Redirect(w, r, done, http.StatusSeeOther)
		return nil
	case errors.Is(err, durable.ErrChanged):
		return p.showRow(w, r, http.StatusConflict, rowView{
			Bad: "The row has changed meanwhile, or payouts are held again, so the decision was not applied. " +
				"This is its state now."})
	case errors.Is(err, durable.ErrUndecidable):
		return p.showRow(w, r, http.StatusConflict, rowView{
			Bad: "The decision does not fit the row, so it was not applied. The row's last request, or a request " +
				"before a hold, may still arrive, a notification is not applied yet, or the service has the row under " +
				"another row's order_id."})
	case errors.Is(err, durable.ErrOrderID), errors.Is(err, durable.ErrInvalid):
		return p.showRow(w, r, http.StatusUnprocessableEntity, rowView{
			Bad: "The order_id is missing, belongs to another row, or differs from the known order_id."})
	}
	log.Error("ops: not decided", "err", err)
	return err
}

const unconfirmed = "Confirm the statement of the service first."

func find(list []choice, kind durable.DecisionKind) (choice, bool) {
	i := slices.IndexFunc(list, func(c choice) bool { return c.Kind == kind })
	if i < 0 {
		return choice{}, false
	}
	return list[i], true
}

// control begins or ends a pause or a hold.
func (p *page) control(w http.ResponseWriter, r *http.Request) error {
	ctx, name, reason := r.Context(), by(r), strings.TrimSpace(r.PostFormValue("reason"))
	do := r.PostFormValue("do")
	status, err := p.store.Status(ctx)
	if err != nil {
		return err
	}
	switch {
	case reason == "" && (do == "pause" || do == "hold"):
		return rejection("Enter a reason for the other operators.")
	case do == "pause" && status.Paused && status.Until.IsZero(), do == "hold" && status.Hold:
		return rejection("The pause or the hold exists already, and keeps its reason.")
	case (do == "resume" || do == "end-hold") && r.PostFormValue("seen") != controlHash(status):
		return errHoldChanged
	case do == "end-hold" && r.PostFormValue("sure") != "yes":
		return rejection("Confirm first that all payouts since the backup are imported or queued again.")
	}
	switch do {
	case "pause":
		err = p.store.Pause(ctx, name, reason)
	case "resume":
		err = p.store.Resume(ctx, name)
	case "hold":
		_, err = p.store.HoldPayouts(ctx, name, reason)
	case "end-hold":
		err = p.store.EndHold(ctx, name, status.Generation)
	default:
		return rejection("Choose what to do.")
	}
	switch {
	case errors.Is(err, durable.ErrChanged):
		return errHoldChanged
	case errors.Is(err, durable.ErrUndecidable):
		return errHoldYoung
	case err != nil:
		return err
	}
	p.Log.Info("ops: control", "do", do, "by", name)
	http.Redirect(w, r, p.location("/", nil), http.StatusSeeOther)
	return nil
}

const (
	errHoldChanged = rejection("The pause or the hold has changed meanwhile, so it was not ended. " +
		"Look at its reason first.")
	errHoldYoung = rejection("A request from before the hold may still pay. " +
		"The overview has the time from which you can release payouts and end the hold.")
)

// controlHash returns a hash that differs between two holds, and between two pauses without an automatic end. So the
// form of an earlier pause or hold cannot end a later pause or hold that the operator has not seen. The hash
// distinguishes timed pauses only by author and reason, because each failed probe changes the end.
func controlHash(s durable.Status) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %q %q", s.Generation, s.PausedAt.UnixMilli(), s.By, s.Reason))
	return hex.EncodeToString(sum[:])
}
