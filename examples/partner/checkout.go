package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

//go:embed pages.html style.css
var files embed.FS // a package variable, because embed needs it

// waitForService limits the wait of a checkout for the service. The call to the service may continue after this time.
const waitForService = 10 * time.Second

// shop serves the payers' pages and receives the service's notifications.
type shop struct {
	*program
	pages *template.Template
}

// handler serves the shop's pages, the service's notifications, and probes.
func (s *shop) handler(notifications http.Handler) http.Handler {
	s.pages = template.Must(template.ParseFS(files, "pages.html"))
	mux := http.NewServeMux()
	mux.HandleFunc(
		"GET /{$}", func(w http.ResponseWriter, _ *http.Request) { s.show(w, http.StatusOK, s.form("", uuid.New())) },
	)
	checkout := http.MaxBytesHandler(http.HandlerFunc(s.checkout), 16<<10)
	mux.Handle("POST /checkout", http.NewCrossOriginProtection().Handler(checkout))
	mux.HandleFunc("GET /orders/{user_data}", s.order)
	mux.Handle("/notifications", notifications) // the signature protects it
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "style.css")
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer") // the address of an order gives access to the order
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// ready reports whether this process should get requests. The reason is only logged, because the page is public.
func (s *shop) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.store.Ready(ctx); err != nil {
		s.log.Warn("not ready", "err", err)
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// view is a page of the shop.
type view struct {
	Title, Say string
	Types      []paymentsvc.PaymentType // the choices of the form
	Basket     string
	Row        *durable.Row // the payment of an order, or nil
	Order      string       // the address of the existing order of the basket, or ""
	Pay        string       // the address of the payment page, or "" to hide the link
	Refresh    int          // seconds until the page refreshes, or 0 for never
	Demo       bool
}

func (s *shop) form(problem string, basket uuid.UUID) view {
	return view{
		Title: "Checkout", Say: problem, Basket: basket.String(), Demo: s.fake != nil,
		Types: []paymentsvc.PaymentType{
			paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC,
		},
	}
}

func (s *shop) show(w http.ResponseWriter, status int, v view) {
	var page bytes.Buffer
	if err := s.pages.ExecuteTemplate(&page, "page", v); err != nil {
		s.log.Error("a page cannot be rendered", "err", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Refresh > 0 {
		w.Header().Set("Refresh", strconv.Itoa(v.Refresh))
	}
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// checkout starts the payment of a basket. Sending the form again never starts a second payment, even after a failure.
// In a real shop, take the amount from the basket and never from the form.
func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	amount, err := paymentsvc.ParseAmount(strings.TrimSpace(r.PostFormValue("amount")))
	by := paymentsvc.PaymentType(r.PostFormValue("type"))
	basket, invalid := uuid.Parse(r.PostFormValue("basket"))
	if invalid != nil {
		s.show(w, http.StatusUnprocessableEntity, s.form("This form has no valid basket. Here is a new one.", uuid.New()))
		return
	}
	if err != nil || amount.Sign() <= 0 || !by.Known() {
		s.show(w, http.StatusUnprocessableEntity, s.form("Enter an amount above 0, such as 10.50.", basket))
		return
	}
	if _, decimals, _ := strings.Cut(amount.String(), "."); len(decimals) > 2 {
		s.show(w, http.StatusUnprocessableEntity, s.form("Enter an amount with at most two decimals, such as 10.50.", basket))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), waitForService)
	defer cancel()
	row, err := s.store.Pay(ctx, durable.NewPayment{Key: basket.String(), Type: by, Amount: amount})
	switch {
	case errors.Is(err, durable.ErrConflict):
		s.conflict(w, r, basket)
	case err != nil:
		s.log.Error("an order cannot be stored", "err", err)
		s.show(w, http.StatusServiceUnavailable,
			s.form("Your order cannot be taken at the moment. The same button does not pay twice.", basket))
	default:
		w.Header().Set("Location", "/orders/"+row.UserData)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// conflict links to the order of a basket already being paid with another amount or type.
func (s *shop) conflict(w http.ResponseWriter, r *http.Request, basket uuid.UUID) {
	v := view{Title: "Checkout", Say: "This basket is being paid already, with another amount or way to pay."}
	for row, err := range s.store.Find(r.Context(), basket.String()) {
		if err == nil && row.Kind == durable.KindPayment && row.Reference == basket.String() {
			v.Order = "/orders/" + row.UserData
		}
	}
	s.show(w, http.StatusConflict, v)
}

// order serves the page of an order. The address contains the user_data, a hash of the basket. It cannot be guessed,
// because the baskets of the shop's form are random UUIDs.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	if _, err := uuid.Parse(r.PathValue("user_data")); err == nil {
		filter := durable.Filter{Kind: durable.KindPayment, UserData: []string{r.PathValue("user_data")}, Limit: 1}
		for row, err := range s.store.Rows(r.Context(), filter) {
			if err != nil {
				s.log.Error("an order cannot be read", "err", err)
				s.show(w, http.StatusServiceUnavailable,
					view{Title: "Please wait", Say: "Your order cannot be shown at the moment. Do not order again.", Refresh: 10})
				return
			}
			v := orderView(row, time.Now())
			v.Demo = s.fake != nil
			s.show(w, http.StatusOK, v)
			return
		}
	}
	s.show(w, http.StatusNotFound, view{Title: "No such order", Say: "There is nothing at this address."})
}

// orderView returns the payer's page of an order. It reports a failure only if the payment cannot have succeeded. The
// page of an older order refreshes less often.
func orderView(row durable.Row, now time.Time) view {
	age := int(now.Sub(row.CreatedAt).Seconds())
	v := view{Title: "Your order", Row: &row, Refresh: min(max(2, age/5), 60)}
	if row.ReviewReason != "" && (row.State == durable.StatePending || row.State.Final()) {
		row.State = durable.StateUnknown // until a review, for example of contradictory states or an error of ship()
		v.Say = "We are looking into your payment and will tell you. Do not pay again."
		return v
	}
	switch row.State {
	case durable.StateCreated, durable.StateStarting:
		v.Say = "Your payment is being prepared. Do not order again."
	case durable.StatePending:
		v.Say = "Your payment is in progress. If you have paid already, do not pay again: this page shows the result."
		v.Pay = row.RedirectURL // a link instead of a redirect, because the payer may have paid already
		if v.Pay == "" {        // section 4.2 does not specify a redirect_url in a status response
			v.Say = "Your payment was started, but we do not know where you can pay. Ask us before you order again."
		}
	case durable.StateSucceeded:
		v.Say, v.Refresh = "Your payment has arrived. Thank you.", 0
	case durable.StateFailed:
		v.Say, v.Refresh = "Your payment did not go through. You can order again.", 0
	case durable.StateRejected:
		v.Say, v.Refresh = "Your payment could not be started, and nothing was paid. You can order again.", 0
	default:
		v.Say = "We are finding out whether your payment was started. Do not pay again."
	}
	return v
}
