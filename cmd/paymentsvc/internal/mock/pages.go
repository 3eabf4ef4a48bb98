package mock

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

//go:embed page.html page.js style.css icon.svg
var files embed.FS // an embedded file needs a package variable

const maxForm = 64 << 10

// pagesHandler serves the testers' page below /ui/ and the payment page below /pay/. A valid form below /ui/ gets a
// redirect to the testers' page. A valid form below /pay/ gets the result. The pages need no script.
func (m *Mock) pagesHandler() http.Handler {
	p := &pages{template: template.Must(template.ParseFS(files, "page.html"))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.home)
	mux.HandleFunc("GET /ui", p.home)
	mux.HandleFunc("GET /ui/{$}", p.show)
	mux.Handle("GET /ui/style.css", file("style.css"))
	mux.Handle("GET /ui/page.js", file("page.js"))
	mux.Handle("GET /ui/icon.svg", file("icon.svg"))
	mux.Handle("GET /favicon.ico", file("icon.svg"))
	mux.Handle("POST /ui/orders/{order}/settle", p.action(inOrders, settleForm))
	mux.Handle("POST /ui/orders/{order}/notify", p.action(inOrders, notifyForm))
	mux.Handle("POST /ui/orders/{order}/refund", p.action(inOrders, refundForm))
	mux.Handle("POST /ui/deliver", p.action(inMessages, deliverForm))
	mux.Handle("POST /ui/faults", p.action(inFaults, faultForm))
	mux.Handle("POST /ui/faults/clear", p.action(inFaults, clearForm))
	mux.Handle("POST /ui/faults/{fault}/remove", p.action(inFaults, removeForm))
	mux.HandleFunc("GET /pay/{kind}/{order}", func(w http.ResponseWriter, r *http.Request) {
		p.renderPay(w, http.StatusOK, p.payment(r))
	})
	mux.HandleFunc("POST /pay/{kind}/{order}", p.paid)
	inner := http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxForm))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header() // forbids frames and foreign content; the only script is page.js
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "+
			"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := m.checkHost(r.Host); err != nil {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func file(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
}

type pages struct{ template *template.Template }

func (p *pages) home(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, epochOf(r).prefix+"/ui/", http.StatusFound)
}

func (p *pages) show(w http.ResponseWriter, r *http.Request) {
	p.render(w, http.StatusOK, "page.html", newView(r, doneNote(r.URL.Query())))
}

func (p *pages) render(w http.ResponseWriter, status int, name string, v any) {
	var buf bytes.Buffer
	if err := p.template.ExecuteTemplate(&buf, name, v); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	respond(w, status, "text/html; charset=utf-8", buf.Bytes())
}

// action processes a form and redirects to the page, or shows the error on the page. The function do returns a key for
// [doneNote].
func (p *pages) action(section string, do func(*http.Request, *epoch) (string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := epochOf(r)
		var word string
		err := r.ParseForm()
		if err != nil {
			err = errors.New("the form cannot be read")
		} else {
			word, err = do(r, e)
		}
		o, _ := e.fake.Order(r.PathValue("order"))
		if err != nil {
			text := trimmed(err)
			p.render(w, http.StatusUnprocessableEntity, "page.html",
				newView(r, note{Section: section, Order: o.Number, Text: strings.ToUpper(text[:1]) + text[1:] + ".", Bad: true}))
			return
		}
		query, fragment := kept(r.URL.Query()), section
		query.Set("done", word)
		if o.Number > 0 {
			fragment = "order-" + strconv.Itoa(o.Number)
			query.Set("order", strconv.Itoa(o.Number))
		}
		http.Redirect(w, r, e.prefix+"/ui/?"+query.Encode()+"#"+fragment, http.StatusSeeOther)
	})
}

// kept returns the parameters that remain after an action.
func kept(query url.Values) url.Values {
	keep := url.Values{}
	for _, name := range []string{"q", inOrders, inMessages} {
		if query.Get(name) != "" {
			keep.Set(name, query.Get(name))
		}
	}
	return keep
}

func settleForm(r *http.Request, e *epoch) (string, error) {
	to, err := statusName(r.PostFormValue("status"))
	if err != nil {
		return "", err
	}
	_, err = e.notified(sending(r), r.PathValue("order"), e.settling(r.PathValue("order"), to, true))
	return "settled", err
}

// notifyForm sends one notification, or a forgery and the genuine notification, directly, without the outbox.
func notifyForm(r *http.Request, e *epoch) (string, error) {
	status, faults := "", []string(nil)
	switch r.PostFormValue("what") {
	case "again":
	case "late":
		status = string(paymentsvc.StatusPending)
	case "forged":
		faults = []string{"forged"}
	case "old":
		faults = []string{"late"}
	default:
		return "", errors.New("there is no such notification")
	}
	n, parsed, err := e.composed(r.PathValue("order"), status, "", faults)
	if err != nil {
		return "", err
	}
	if to, _ := e.settings(); to.of(n.ProjectID, string(n.Event)) == "" {
		return "", errors.New("the notification has no receiver: start the mock server with -notify")
	}
	e.send(sending(r), n, parsed...)
	return "sent", nil
}

func refundForm(r *http.Request, e *epoch) (string, error) {
	to, err := statusName(r.PostFormValue("status"))
	if err != nil {
		return "", err
	}
	a, err := paymentsvc.ParseAmount(strings.TrimSpace(r.PostFormValue("amount")))
	if err != nil {
		return "", errors.New("the amount is not a decimal number")
	}
	_, err = e.notified(sending(r), r.PathValue("order"), e.refunding(r.PathValue("order"), a, to))
	return "refunded", err
}

func deliverForm(r *http.Request, e *epoch) (string, error) {
	e.deliver(sending(r))
	if len(e.fake.Outbox()) > 0 {
		return "waiting", nil
	}
	return "delivered", nil
}

func faultForm(r *http.Request, e *epoch) (string, error) {
	given := faultIn{On: r.PostFormValue("on"), Which: r.PostFormValue("which")}
	given.Fault = strings.TrimSpace(r.PostFormValue("fault") + " " + strings.TrimSpace(r.PostFormValue("arguments")))
	if given.Which != "every" {
		n, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("n")))
		if err != nil || n < 1 {
			return "", errors.New("n is not a number from 1 on")
		}
		given.N = n
	}
	if userData := r.PostFormValue("user_data"); userData != "" {
		given.Where.UserData = &userData
	}
	_, err := e.addFault(given)
	return "fault-set", err
}

func clearForm(_ *http.Request, e *epoch) (string, error) {
	e.clearFaults()
	return "faults-cleared", nil
}

func removeForm(r *http.Request, e *epoch) (string, error) {
	id, _ := strconv.Atoi(r.PathValue("fault")) // 0 is no fault
	f, err := e.faultByID(id)
	if err == nil {
		e.removeFault(f)
	}
	return "fault-removed", err
}

// payment is the payment page of an order.
type payment struct {
	Prefix, Action string
	Order          order
	Found, Open    bool
	Said           string
}

func (p *pages) payment(r *http.Request) payment {
	e := epochOf(r)
	o, found := e.fake.Order(r.PathValue("order"))
	found = found && string(o.Kind) == r.PathValue("kind") && o.Kind != paymentsvctest.KindPayout
	v := payment{Prefix: e.prefix, Action: e.prefix + r.URL.Path, Found: found}
	if found {
		v.Order, v.Open = orderOut(o), !o.Status.Final()
		v.Order.UserData = e.hide(o.UserData)
	}
	return v
}

func (p *pages) renderPay(w http.ResponseWriter, status int, v payment) {
	if !v.Found {
		status = http.StatusNotFound
	}
	p.render(w, status, "pay.html", v)
}

// paid settles the order by the payer's decision, and shows the result.
func (p *pages) paid(w http.ResponseWriter, r *http.Request) {
	e, v := epochOf(r), p.payment(r)
	buttons := map[string]paymentsvc.StatusName{"pay": paymentsvc.StatusSuccess, "decline": paymentsvc.StatusFailure}
	to := buttons[r.PostFormValue("button")]
	if !v.Open || to == "" {
		p.renderPay(w, http.StatusConflict, v)
		return
	}
	answer, err := e.notified(sending(r), r.PathValue("order"), e.settling(r.PathValue("order"), to, true))
	v = p.payment(r)
	if err != nil {
		p.renderPay(w, http.StatusConflict, v)
		return
	}
	v.Said = "The notification waits in the outbox."
	if to, _ := e.settings(); to.of(v.Order.ProjectID, answer.Notification.Event) == "" {
		v.Said = "No notification was sent, because it has no receiver."
	} else if len(answer.Deliveries) > 0 {
		v.Said = "The shop did not accept the notification."
	}
	for _, d := range answer.Deliveries {
		if d.Accepted && !d.Forged {
			v.Said = "The shop has been notified."
		}
	}
	p.renderPay(w, http.StatusOK, v)
}
