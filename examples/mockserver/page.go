package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

//go:embed page.html style.css icon.svg
var files embed.FS // what go:embed fills must be a variable of the package

const (
	// maxForm bounds what a form may send.
	maxForm = 64 << 10
	// sendTimeout bounds what one press of a button may take for the notifications that it sends.
	sendTimeout = 30 * time.Second
	// pageTimeout bounds the answer to a request to the page.
	pageTimeout = time.Minute
)

// page is the web page of the mock: forms that POST and redirect, without scripts.
type page struct {
	set      *settings
	mock     *paymentsvctest.Server
	log      *slog.Logger
	template *template.Template
}

func newPage(set *settings, mock *paymentsvctest.Server, log *slog.Logger) *page {
	return &page{
		set:      set,
		mock:     mock,
		log:      log,
		template: template.Must(template.ParseFS(files, "page.html")),
	}
}

// handler serves the page below /ui/. At a loopback address it accepts only names of the loopback: any other name that
// resolves to it would let a foreign site send same-origin requests.
func (p *page) handler(loopback bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	mux.Handle("GET /ui", http.RedirectHandler("/ui/", http.StatusFound))
	mux.HandleFunc("GET /ui/{$}", p.show)
	mux.Handle("GET /ui/style.css", file("style.css"))
	mux.Handle("GET /ui/icon.svg", file("icon.svg"))
	mux.Handle("GET /favicon.ico", file("icon.svg")) // or else it would count as a request to the interface
	mux.Handle("POST /ui/orders/{order}/settle", p.action(inOrders, p.settle))
	mux.Handle("POST /ui/orders/{order}/notify", p.action(inOrders, p.notify))
	mux.Handle("POST /ui/orders/{order}/refund", p.action(inOrders, p.refund))
	mux.Handle("POST /ui/deliver", p.action(inNotifications, p.deliver))
	mux.Handle("POST /ui/faults/requests", p.action(inFaults, p.faultRequests))
	mux.Handle("POST /ui/faults/notifications", p.action(inFaults, p.faultNotifications))
	mux.Handle("POST /ui/faults/clear", p.action(inFaults, p.clearFaults))
	mux.Handle("POST /ui/faults/{rule}/remove", p.action(inFaults, p.removeFault))
	sameOrigin := http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxForm))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if loopback && !isLoopbackHost(r.Host) {
			http.Error(w, "the page answers to localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout)) // fails where no server is
		sameOrigin.ServeHTTP(w, r)
	})
}

// secure forbids scripts, frames, and everything from elsewhere.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

func file(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
}

func (p *page) show(w http.ResponseWriter, r *http.Request) {
	p.render(w, r, http.StatusOK, doneNote(r.URL.Query()))
}

func (p *page) render(w http.ResponseWriter, r *http.Request, status int, said note) {
	var buf bytes.Buffer
	if err := p.template.Execute(&buf, p.view(r, said)); err != nil {
		p.log.Error("page", "err", err)
		http.Error(w, "the page could not be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a reader that has left is not told
}

// done is what a form has done, as a word in the address, and the number of the order that it is about.
type done struct {
	word  string
	order int
}

// action does what a form asks, and goes back to the page; what can't be done is shown on the page at once.
func (p *page) action(section string, do func(*http.Request) (done, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var d done
		err := r.ParseForm()
		if err != nil {
			err = errors.New("the form can't be read")
		} else {
			d, err = do(r)
		}
		if err != nil {
			p.log.Info("page", "action", r.Pattern, "outcome", "refused")
			o, _ := p.mock.Order(r.PathValue("order"))
			p.render(w, r, http.StatusUnprocessableEntity, note{Section: section, Order: o.Number, Text: sentence(err), Bad: true})
			return
		}
		p.log.Info("page", "action", r.Pattern, "outcome", d.word)
		query, fragment := kept(r.URL.Query()), section
		query.Set("done", d.word)
		if d.order > 0 {
			fragment = "order-" + strconv.Itoa(d.order)
			query.Set("order", strconv.Itoa(d.order))
		}
		http.Redirect(w, r, "/ui/?"+query.Encode()+"#"+fragment, http.StatusSeeOther)
	})
}

// sentence takes off an error what a reader of the page has no use for.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "paymentsvctest: ", "")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// kept are the parts of the page's address that stay when a button is pressed.
func kept(query url.Values) url.Values {
	keep := url.Values{}
	for _, name := range []string{"all", "auto"} {
		if query.Get(name) == "1" {
			keep.Set(name, "1")
		}
	}
	return keep
}

var (
	errNoOrder    = errors.New("there is no such order")
	errStatus     = errors.New("the status is none of PENDING, SUCCESS and FAILURE")
	errNoReceiver = errors.New("nobody receives notifications: start the mock with -notify")
)

func (p *page) order(r *http.Request) (paymentsvctest.Order, error) {
	o, ok := p.mock.Order(r.PathValue("order"))
	if !ok {
		return o, errNoOrder
	}
	return o, nil
}

func status(r *http.Request) (paymentsvc.StatusName, error) {
	s := paymentsvc.StatusName(r.PostFormValue("status"))
	if !s.Known() {
		return "", errStatus
	}
	return s, nil
}

func (p *page) settle(r *http.Request) (done, error) {
	o, err := p.order(r)
	if err != nil {
		return done{}, err
	}
	to, err := status(r)
	if err != nil {
		return done{}, err
	}
	if _, err := p.mock.Settle(o.OrderID, to); err != nil {
		return done{}, err
	}
	p.deliverAll(r)
	return done{"settled", o.Number}, nil
}

// notify sends one notification past the outbox.
func (p *page) notify(r *http.Request) (done, error) {
	o, err := p.order(r)
	if err != nil {
		return done{}, err
	}
	if p.set.Notify == "" {
		return done{}, errNoReceiver
	}
	as := o.Status
	var faults []paymentsvctest.NotificationFault
	switch r.PostFormValue("what") {
	case "again":
	case "late":
		as = paymentsvc.StatusPending
	case "forged":
		faults = append(faults, paymentsvctest.Forged())
	case "old":
		faults = append(faults, paymentsvctest.Skewed(-time.Hour))
	default:
		return done{}, errors.New("there is no such notification")
	}
	n, err := p.mock.Compose(o.OrderID, as)
	if err != nil {
		return done{}, err
	}
	ctx, cancel := sending(r)
	defer cancel()
	p.logDeliveries(p.mock.Send(ctx, n, faults...))
	return done{"sent", o.Number}, nil
}

func (p *page) refund(r *http.Request) (done, error) {
	o, err := p.order(r)
	if err != nil {
		return done{}, err
	}
	to, err := status(r)
	if err != nil {
		return done{}, err
	}
	amount, err := paymentsvc.ParseAmount(strings.TrimSpace(r.PostFormValue("amount")))
	if err != nil {
		return done{}, errors.New("the amount is not a decimal number")
	}
	if _, err := p.mock.Refund(o.OrderID, amount, to); err != nil {
		return done{}, err
	}
	p.deliverAll(r)
	return done{"refunded", o.Number}, nil
}

func (p *page) deliver(r *http.Request) (done, error) {
	if p.set.Notify == "" {
		return done{}, errNoReceiver
	}
	p.deliverAll(r)
	return done{word: "delivered"}, nil
}

func (p *page) deliverAll(r *http.Request) {
	ctx, cancel := sending(r)
	defer cancel()
	p.logDeliveries(p.mock.Deliver(ctx))
}

// sending goes on when the browser leaves: a notification that is half sent is nobody's wish.
func sending(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), sendTimeout)
}

func (p *page) logDeliveries(list []paymentsvctest.Delivery) {
	for _, d := range list {
		outcome := slog.Int("http_status", d.HTTPStatus)
		if d.Err != nil {
			outcome = slog.String("outcome", withoutAddress(d.Err))
		}
		n := d.Notification
		p.log.Info("notification", "event", n.Event, "status", n.StatusDescription, "order_id", n.OrderID, "forged", d.Forged, outcome)
	}
}

// withoutAddress says what went wrong with a request, and leaves out where it went, which may hold a token.
func withoutAddress(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

func (p *page) faultRequests(r *http.Request) (done, error) {
	on := r.PostFormValue("on")
	if !isOneOf(endpointOptions(), on) {
		return done{}, errors.New("there is no such endpoint")
	}
	which, fault, err := ruleOf(r, paymentsvctest.ParseFault)
	if err != nil {
		return done{}, err
	}
	p.mock.Fault(on, which, fault)
	return done{word: "fault-set"}, nil
}

func (p *page) faultNotifications(r *http.Request) (done, error) {
	on := r.PostFormValue("on")
	if !isOneOf(eventOptions(), on) {
		return done{}, errors.New("there is no such event")
	}
	which, fault, err := ruleOf(r, paymentsvctest.ParseNotificationFault)
	if err != nil {
		return done{}, err
	}
	p.mock.FaultNotifications(paymentsvc.EventType(on), which, fault)
	return done{word: "fault-set"}, nil
}

// ruleOf reads what both forms for faults have in common.
func ruleOf[F any](r *http.Request, parse func(string) (F, error)) (which paymentsvctest.Which, fault F, err error) {
	if which, err = whichOf(r); err != nil {
		return which, fault, err
	}
	fault, err = parse(faultText(r))
	return which, fault, err
}

// faultText is the fault as text, or where there is none the usual one that is selected.
func faultText(r *http.Request) string {
	if text := strings.TrimSpace(r.PostFormValue("text")); text != "" {
		return text
	}
	return r.PostFormValue("usual")
}

func whichOf(r *http.Request) (paymentsvctest.Which, error) {
	which := r.PostFormValue("which")
	if which == "every" {
		return paymentsvctest.Every(), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("n")))
	switch {
	case err != nil || n < 1:
		return paymentsvctest.Which{}, errors.New("n is not a number from 1 on")
	case which == "first":
		return paymentsvctest.First(n), nil
	case which == "nth":
		return paymentsvctest.Nth(n), nil
	}
	return paymentsvctest.Which{}, errors.New("which requests go wrong is not said")
}

func (p *page) clearFaults(*http.Request) (done, error) {
	p.mock.ClearFaults()
	return done{word: "faults-cleared"}, nil
}

func (p *page) removeFault(r *http.Request) (done, error) {
	for _, rule := range p.mock.Rules() {
		if r.PathValue("rule") == strconv.Itoa(rule.ID) {
			rule.Remove()
			return done{word: "fault-removed"}, nil
		}
	}
	return done{}, errors.New("there is no such rule any more")
}
