package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// waitForService is how long a buyer waits for the service's answer before the order's page says that it is not there
// yet. The call goes on.
const waitForService = 10 * time.Second

// AnswerTime is the longest that a page takes for an answer: see Server. It leaves a checkout time to read the order that
// the service did not answer for.
const AnswerTime = waitForService + 5*time.Second

// Checkout stores an order and starts its payment; *checkout.Checkout does.
type Checkout interface {
	Start(ctx context.Context, t paymentsvc.PaymentType, amount paymentsvc.Amount) (store.Order, error)
}

// Public is what the pages for buyers and the service need. All is required.
type Public struct {
	Store    *store.Store
	Checkout Checkout
	// Notifications is paymentsvc.Webhook.Handler.
	Notifications http.Handler
	// Ready says why the process should get no requests, nil when it should.
	Ready func(context.Context) error
	// Demo says on the pages that the service is a fake.
	Demo bool
	Log  *slog.Logger

	*pages
}

// Handler serves /, /checkout, /orders/{user_data}, /notifications, /healthz and /readyz.
func (p *Public) Handler() http.Handler {
	p.pages = newPages(p.Log)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.shop)
	mux.Handle("GET /orders/{user_data}", onlyText(http.HandlerFunc(p.order)))
	mux.Handle("GET /style.css", asset("style.css"))
	mux.Handle("GET /favicon.ico", asset("icon.svg"))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", p.readiness)
	// The service is no browser, and its signature is what protects this one.
	mux.Handle("/notifications", p.Notifications)
	// A foreign site's form must not make orders in a buyer's name.
	mux.Handle("POST /checkout", http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(http.HandlerFunc(p.checkout), maxForm)))
	return secure(safely(mux, p.Log))
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

func (p *Public) readiness(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		p.Log.Warn("not ready", "err", err)
		plain(w, http.StatusServiceUnavailable, "not ready") // why is nobody else's business
		return
	}
	plain(w, http.StatusOK, "ready")
}

type shopView struct {
	Title   string
	Demo    bool
	Types   []paymentsvc.PaymentType
	Type    string
	Amount  string
	Problem string
}

func paymentTypes() []paymentsvc.PaymentType {
	return []paymentsvc.PaymentType{
		paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC,
	}
}

func (p *Public) shop(w http.ResponseWriter, r *http.Request) {
	p.render(w, http.StatusOK, "shop.html", shopView{Title: "Checkout", Demo: p.Demo, Types: paymentTypes(), Type: "card", Amount: "10.50"})
}

// checkout makes an order of a form. In a shop of yours the amount comes from the buyer's cart and never from the form.
func (p *Public) checkout(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		plain(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	amount, err := paymentsvc.ParseAmount(strings.TrimSpace(r.PostFormValue("amount")))
	payBy := paymentsvc.PaymentType(r.PostFormValue("type"))
	if err != nil || amount.Sign() <= 0 || !slices.Contains(paymentTypes(), payBy) {
		p.refuse(w, r, http.StatusUnprocessableEntity,
			"The amount has to be a number above 0, such as 10.50, and the way to pay one of those listed.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), waitForService)
	defer cancel()
	order, err := p.Checkout.Start(ctx, payBy, amount)
	if order.UserData == "" { // it was not even stored
		p.Log.Error("an order cannot be made", "err", err)
		p.refuse(w, r, http.StatusServiceUnavailable, "No order was made, and nothing is paid. Please try again later.")
		return
	}
	w.Header().Set("Location", "/orders/"+order.UserData)
	if wantsJSON(r) {
		writeJSON(w, http.StatusCreated, p.view(order))
		return
	}
	w.WriteHeader(http.StatusSeeOther)
}

func (p *Public) refuse(w http.ResponseWriter, r *http.Request, status int, problem string) {
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"problem": problem})
		return
	}
	p.render(w, status, "shop.html", shopView{
		Title: "Checkout", Demo: p.Demo, Types: paymentTypes(), Type: r.PostFormValue("type"), Amount: r.PostFormValue("amount"), Problem: problem,
	})
}

// order shows a buyer's order. Its address holds the user_data, which nobody can guess: whoever has it may see the page.
func (p *Public) order(w http.ResponseWriter, r *http.Request) {
	order, err := p.Store.Order(r.Context(), r.PathValue("user_data"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		p.render(w, http.StatusNotFound, "missing.html", orderView{Title: "No such order"})
	case err != nil:
		p.Log.Error("an order cannot be read", "err", err)
		w.Header().Set("Refresh", "5")
		p.render(w, http.StatusServiceUnavailable, "later.html", orderView{Title: "Please wait"})
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, p.view(order))
	default:
		view := p.view(order)
		if view.Refresh > 0 {
			w.Header().Set("Refresh", strconv.Itoa(view.Refresh))
		}
		p.render(w, http.StatusOK, "order.html", view)
	}
}

type orderView struct {
	Title   string
	Order   store.Order // as a buyer may know it
	Say     string      // what the state means to a buyer
	Pay     string      // where the buyer pays, "" where that is not to be
	Refresh int         // in seconds, 0 for never
	Demo    bool
}

// view tells a buyer where the order stands. Nothing that may have gone through is called failed.
func (p *Public) view(o store.Order) orderView {
	v := orderView{Title: "Your order", Order: o, Demo: p.Demo, Refresh: 2}
	if o.Attention != "" && (o.State == store.StatePending || o.State.Final()) {
		// What the service says does not fit together, so it may have been paid.
		v.Order.State, v.Refresh = store.StateUnknown, 30
		v.Say = "We are looking into your payment, and will tell you. Please do not pay again."
		return v
	}
	switch o.State {
	case store.StateCreated, store.StateStarting:
		v.Say = "Your payment is being prepared. Please do not order again."
	case store.StateUnknown:
		v.Say = "We are finding out whether your payment has been started. Please do not pay again."
		v.Refresh = 5
	case store.StatePending:
		v.Say, v.Pay = "Your payment is under way.", o.RedirectURL
		if v.Pay == "" {
			// Its first answer was lost: neither a notification nor the answer to a question by user_data holds an address
			// (sections 4.2 and 6).
			v.Say = "Your payment has been started, but we do not know where you can pay. " +
				"If you have not paid yet, please ask us before you order again."
		}
	case store.StateSucceeded:
		v.Say, v.Refresh = "Your payment has arrived. Thank you.", 0
	case store.StateFailed:
		v.Say, v.Refresh = "Your payment has not gone through. You can order again.", 0
	case store.StateRejected:
		v.Say, v.Refresh = "Your payment could not be started, and nothing is paid. You can order again.", 0
	}
	return v
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// writeJSON writes what the page says.
func writeJSON(w http.ResponseWriter, status int, v orderView) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		UserData    string            `json:"user_data"`
		Amount      paymentsvc.Amount `json:"amount"`
		State       store.State       `json:"state"`
		Final       bool              `json:"final"`
		RedirectURL string            `json:"redirect_url,omitempty"`
	}{v.Order.UserData, v.Order.Amount, v.Order.State, v.Order.State.Final(), v.Pay})
}
