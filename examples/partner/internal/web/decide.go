package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// choice is a decision that a person may make of a row.
type choice struct {
	Kind    store.DecisionKind
	Title   string // what the person has found out
	Effect  string
	OrderID string // "required", "optional" or ""
	Sure    string // what has to be confirmed, "" where nothing has
	Button  string
	Risky   bool
}

// choices are the decisions that fit a row.
func choices(r store.Row) (list []choice) {
	for _, c := range []choice{
		{
			Kind: store.DecideAsk, Title: "The service has not said",
			Effect: "It is asked for this order by user_data, now.", Button: "Ask now",
		},
		{
			Kind: store.DecideFound, Title: "The service has it, under an order_id", OrderID: "required",
			Effect: "It counts as under way, and a notification ends it.", Button: "Wait for the notification",
		},
		{
			Kind: store.DecidePaid, Title: "It was paid", OrderID: "optional", Sure: "The service has confirmed that it was paid.",
			Effect: "It counts as paid.", Button: "Mark as paid",
		},
		{
			Kind: store.DecideUnpaid, Title: "It was not paid, and will not be", Sure: "The service has confirmed that it was not paid.",
			Effect: "It counts as failed. Nothing is sent.", Button: "Mark as failed",
		},
		{
			Kind: store.DecideAgain, Title: "It was not paid: send it again", Risky: true,
			Sure:   "The service has confirmed that it does not have this user_data. If it has, this may pay twice.",
			Effect: "It is sent again, with the same user_data.", Button: "Send again",
		},
		{
			Kind: store.DecideSeen, Title: "Nothing has to be done", Effect: "It stays as it is, and needs nobody any more.", Button: "Done",
		},
	} {
		if !r.Allows(c.Kind) {
			continue
		}
		if c.OrderID == "optional" && r.OrderID != "" {
			c.OrderID = ""
		}
		list = append(list, c)
	}
	return list
}

func doneText(k store.DecisionKind) string {
	return map[store.DecisionKind]string{
		store.DecideAsk:    "The service is being asked.",
		store.DecideFound:  "It counts as under way.",
		store.DecidePaid:   "It counts as paid.",
		store.DecideUnpaid: "It counts as failed.",
		store.DecideAgain:  "It is sent again.",
		store.DecideSeen:   "It needs nobody any more.",
	}[k]
}

// decide does what a form on a row's page says. The form carries what the person saw, so that a decision about something
// that has changed meanwhile is refused.
func (a *Admin) decide(t store.Table) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, bad := a.readDecision(r, t)
		if bad != "" {
			a.showRow(w, r, t, http.StatusUnprocessableEntity, "", bad)
			return
		}
		err := a.Store.Decide(r.Context(), d, a.Enqueue)
		log := a.Log.With("of", t, "user_data", d.UserData, "decision", d.Kind, "by", d.By)
		switch {
		case err == nil:
			log.Info("decided")
			http.Redirect(w, r, "/"+string(t)+"/"+url.PathEscape(d.UserData)+"?done="+string(d.Kind), http.StatusSeeOther)
		case errors.Is(err, store.ErrChanged), errors.Is(err, store.ErrUndecidable):
			a.showRow(w, r, t, http.StatusConflict, "", "It has changed meanwhile, and nothing was decided. This is how it stands now.")
		case errors.Is(err, store.ErrOrderID):
			a.showRow(w, r, t, http.StatusUnprocessableEntity, "", "This order_id is another row's, or not the one that is known, or does not belong here.")
		default:
			log.Error("not decided", "err", err)
			a.fail(w, err)
		}
	}
}

// readDecision reads the form, or says what is wrong with it.
func (a *Admin) readDecision(r *http.Request, t store.Table) (d store.Decision, bad string) {
	if err := r.ParseForm(); err != nil {
		return d, "The form cannot be read."
	}
	d = store.Decision{
		Table: t, UserData: r.PathValue("user_data"), Kind: store.DecisionKind(r.PostFormValue("decision")),
		OrderID: strings.TrimSpace(r.PostFormValue("order_id")),
	}
	if a.UserHeader != "" {
		d.By = r.Header.Get(a.UserHeader)
	}
	if d.Seen = r.PostFormValue("seen"); d.Seen == "" {
		return d, "The form is not complete."
	}
	switch d.Kind {
	case store.DecidePaid, store.DecideUnpaid, store.DecideAgain:
		if r.PostFormValue("sure") != "yes" {
			return d, "Confirm first what the service has said."
		}
	case store.DecideFound:
		if d.OrderID == "" {
			return d, "Give the order_id that the service has told you."
		}
	}
	return d, ""
}
