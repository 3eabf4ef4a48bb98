package paymentsvctest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newAnswer(status int, contentType string, body []byte) answer {
	return answer{status, http.Header{"Content-Type": {contentType}}, body}
}

func jsonAnswer(status int, v any) answer {
	return newAnswer(status, "application/json", encode(v))
}

// encode returns v as JSON without HTML escapes. The types used by its callers always encode.
func encode(v any) []byte {
	text, _ := jsonobject.Encode(v)
	return text
}

func quote(text string) json.RawMessage { return encode(text) }

// errorAnswer returns an error with code and message in the configured fields.
func (c *Config) errorAnswer(status int, code json.RawMessage, message string) answer {
	body := nested{}
	body.set(c.ErrorCode, code)
	body.set(c.ErrorMessage, quote(message))
	body.makeLists()
	return c.formatted(true, jsonAnswer(status, body))
}

// formatted applies Config.Format to a response of the server itself.
func (c *Config) formatted(failed bool, a answer) answer {
	if c.Format != nil {
		a.status, a.body = c.Format(failed, a.status, a.header, a.body)
	}
	return a
}

// nested is a JSON object. Each value is another nested, a json.RawMessage, or a list with one of these.
type nested map[string]any

// set sets the value at a dotted name, and creates the missing objects around the value.
func (n nested) set(name string, value json.RawMessage) {
	parent, below, dotted := strings.Cut(name, ".")
	if !dotted {
		n[name] = value
		return
	}
	child, ok := n[parent].(nested)
	if !ok {
		child = nested{}
		n[parent] = child
	}
	child.set(below, value)
}

// makeLists replaces each object inside n whose only name is "0" by a list with the value of "0".
func (n nested) makeLists() {
	for name, value := range n {
		child, ok := value.(nested)
		if !ok {
			continue
		}
		child.makeLists()
		if first, ok := child["0"]; ok && len(child) == 1 {
			n[name] = []any{first}
		}
	}
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.abandon(w, false)
		return
	}
	defer s.leave()
	endpoint := s.endpointOf(r.URL.Path)
	n, e := s.arriving(endpoint, r)
	if e.reset {
		s.markApplied(&e.pendingFaults, "reset")
		s.markApplied(&e.pendingFaults, "refuse")
		s.abandon(w, true)
		return
	}
	body, err := ReadBody(r)
	if err != nil || s.ends(r.Context(), e, BeforeCommit) { // the client has left after an error
		s.abandon(w, false)
		return
	}
	a, slot := s.replacement(e, BeforeCommit)
	carriedOut := false
	if slot == "" {
		a, carriedOut = s.answer(r, endpoint, n, body, e)
	}
	if !carriedOut {
		e.after, e.unseen = stage{}, nil
	}
	if s.ends(r.Context(), e, AfterCommit) {
		s.abandon(w, false)
		return
	}
	if e.unseen != nil && kindOf(endpoint) != "" {
		s.markApplied(&e.pendingFaults, "late-commit")
		s.abandon(w, false)
		return
	}
	if other, replaced := s.replacement(e, AfterCommit); replaced != "" {
		a, slot = other, replaced
	}
	s.markApplied(&e.pendingFaults, slot)
	s.write(w, r, s.distort(a, e), e)
}

// wholeBody is the body of a request after [ReadBody].
type wholeBody struct {
	bytes.Reader
	whole []byte
	err   error
}

func (*wholeBody) Close() error { return nil }

// ReadBody returns the body of a request, and restores the body for the server. It reads at most one byte more than the
// server accepts. Do not change the bytes, because the server reuses them. The server also gets and handles the error.
func ReadBody(r *http.Request) ([]byte, error) {
	if read, ok := r.Body.(*wholeBody); ok {
		return read.whole, read.err
	}
	if r.Body == nil { // a request made by a test, not received by a server
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	read := &wholeBody{whole: body, err: err}
	read.Reset(body)
	r.Body = read
	return body, err
}

// Verdict is the decision of the server itself on a request, see Config.OnChecked.
type Verdict struct {
	// Rejection is the reason for a rejection, or nil.
	Rejection *Rejection
	// Signature is the error of the timestamp or signature. It is nil if both are correct, or if the server rejected the
	// request before the check of the signature.
	Signature *SignatureFault
	// Signed reports that timestamp and signature are correct.
	Signed bool
}

// answer checks and processes the nth request at an endpoint, and returns the response without faults. It also reports
// whether the server processed the request. A status call for an unknown order counts as processed.
func (s *Server) answer(
	r *http.Request, endpoint string, n int, body []byte, e *effects,
) (a answer, carriedOut bool) {
	call, why := s.check(r, endpoint, body)
	if why == nil {
		a, why = s.perform(call, e)
	}
	verdict := Verdict{Signed: call != nil}
	if why != nil {
		verdict.Rejection, verdict.Signature = s.reject(r, endpoint, n, body, why), why.fault
	}
	if s.cfg.OnChecked != nil {
		s.cfg.OnChecked(r, verdict)
	}
	if why == nil {
		return s.cfg.formatted(false, a), true
	}
	message := why.message
	if s.cfg.ExplainSignatures && why.fault != nil && why.fault.Reason != message {
		message += ": " + why.fault.Reason
	}
	how := s.cfg.Errors[why.problem]
	return s.cfg.errorAnswer(how.HTTPStatus, how.Code, message), why.problem == ProblemNotFound
}

// ends applies the holds, hangs and drops of a stage, and reports whether they end the request.
func (s *Server) ends(ctx context.Context, e *effects, when When) bool {
	st := e.at(when)
	for _, h := range st.holds {
		select {
		case <-h.release: // already released, so the hold had no effect
			continue
		default:
		}
		s.markApplied(&e.pendingFaults, h.slot)
		if !s.released(ctx, h.release) {
			return true
		}
	}
	if st.hang {
		s.markApplied(&e.pendingFaults, "hang "+when.String())
		s.released(ctx, nil)
		return true
	}
	if st.drop {
		s.markApplied(&e.pendingFaults, "drop "+when.String())
	}
	return st.drop
}

// released waits, and reports whether release ended the wait.
func (s *Server) released(ctx context.Context, release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return false
}

// replacement returns the response of a fault that replaces the server's response, and the slot of the fault. The slot
// is "" without such a fault.
func (s *Server) replacement(e *effects, when When) (a answer, slot string) {
	if produce := e.at(when).answer; produce != nil {
		return produce(s.cfg), "answer " + when.String()
	}
	return answer{}, ""
}

// perform executes a valid request.
func (s *Server) perform(c *call, e *effects) (answer, *rejection) {
	if kind := kindOf(c.endpoint); kind != "" {
		return s.start(c, kind, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.endpoint == GetBalance {
		account := s.books.accounts[c.project]
		payout, expected, err := account.balances()
		if err != nil {
			return answer{}, reject(ProblemRefused, "the balance has more digits than an amount may have")
		}
		return jsonAnswer(http.StatusOK, struct {
			PayoutBalance   paymentsvc.Amount `json:"payout_balance"`
			ExpectedBalance paymentsvc.Amount `json:"expected_balance"`
			Currency        string            `json:"currency"`
		}{payout, expected, account.Currency}), nil
	}
	o := s.books.find(c.project, c.endpoint == StatusPayout, c.fields.text("order_id"), c.fields.text("user_data"))
	if o == nil {
		return answer{}, reject(ProblemNotFound, "no such order")
	}
	return jsonAnswer(http.StatusOK, struct {
		PartnerID   int64             `json:"partner_id"`
		ProjectID   int64             `json:"project_id"`
		Amount      paymentsvc.Amount `json:"amount"`
		Description string            `json:"description"`
		UserData    string            `json:"user_data"`
		OrderID     string            `json:"order_id"`
	}{s.cfg.PartnerID, o.ProjectID, o.Amount, string(o.Kind) + " of paymentsvctest", o.UserData, o.OrderID}), nil
}

// start commits a new order, or finds the order of a duplicate. It returns the response, or a rejection.
func (s *Server) start(c *call, kind Kind, e *effects) (answer, *rejection) {
	draft := order{Order: Order{
		Kind:        kind,
		ProjectID:   c.project,
		UserData:    c.fields.text("user_data"),
		Amount:      c.fields.amount("amount"),
		Destination: c.fields.text("destination"),
		CardData:    bytes.Clone(c.fields["card_data"]),
		Browser:     bytes.Clone(c.fields["browser"]),
		Payer:       bytes.Clone(c.fields["payer"]),
		Payee:       bytes.Clone(c.fields["payee"]),
		Status:      paymentsvc.StatusPending,
		Numbers:     s.cfg.Numbers[paymentsvc.StatusPending],
	}}
	if e.unseen != nil {
		draft.unseen = *e.unseen
	}
	if kind == KindPayment {
		draft.Type = paymentsvc.PaymentType(strings.TrimPrefix(c.endpoint, InitPayment+"/"))
	}
	if draft.Amount.Sign() <= 0 { // a negative payout would raise the balance
		return answer{}, reject(ProblemAmount, "the amount is not more than 0")
	}
	// Check runs without the lock, because it may call the server.
	if s.cfg.Check != nil {
		if err := s.cfg.Check(draft.Order); err != nil {
			return answer{}, reject(ProblemRefused, err.Error())
		}
	}
	s.mu.Lock()
	if s.closed() {
		s.mu.Unlock()
		return answer{}, reject(ProblemRefused, "the server is closed")
	}
	before := len(s.books.orders)
	o, why := s.books.start(draft, s.cfg.Repeated)
	if why != nil {
		s.mu.Unlock()
		return answer{}, why
	}
	started, isNew := o.Order, len(s.books.orders) > before
	s.mu.Unlock()
	if isNew && s.cfg.OnStart != nil {
		s.cfg.OnStart(started)
	}
	return startAnswer(started, s.cfg.Pages), nil
}

func startAnswer(o Order, pages string) answer {
	switch o.Kind {
	case KindForm:
		return jsonAnswer(http.StatusOK, struct {
			RedirectURL string `json:"redirect_url"`
		}{pages + "form/" + o.OrderID})
	case KindInvoice:
		return jsonAnswer(http.StatusOK, struct {
			InvoiceURL string `json:"invoice_url"`
			OrderID    string `json:"order_id"`
		}{pages + "invoice/" + o.OrderID, o.OrderID})
	}
	redirect := ""
	if o.Kind == KindPayment {
		redirect = pages + "payment/" + o.OrderID
	}
	return jsonAnswer(http.StatusOK, struct {
		OrderID     string `json:"order_id"`
		Status      int64  `json:"status"`
		StatusCode  int64  `json:"status_code"`
		RedirectURL string `json:"redirect_url,omitempty"`
	}{o.OrderID, o.Numbers.Status, o.Numbers.StatusCode, redirect})
}
