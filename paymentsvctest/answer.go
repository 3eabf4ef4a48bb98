package paymentsvctest

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// answer is what goes back.
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

// encode writes v, of a type that cannot fail, as JSON without HTML escapes.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func quote(text string) json.RawMessage { return encode(text) }

// errorAnswer puts code and message into the fields that the configuration names.
func (c *Config) errorAnswer(status int, code json.RawMessage, message string) answer {
	body := nested{}
	body.set(c.ErrorCode, code)
	body.set(c.ErrorMessage, quote(message))
	return jsonAnswer(status, body)
}

// nested is a JSON object whose values are nested or json.RawMessage.
type nested map[string]any

// set follows a dotted name, making objects on the way.
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

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.abandon(w, false)
		return
	}
	defer s.leave()
	endpoint := s.endpointOf(r.URL.Path)
	n, e := s.arriving(endpoint, r.RemoteAddr)
	if e.reset {
		s.abandon(w, true)
		return
	}
	body, err := readBody(r)
	if err != nil {
		s.abandon(w, false) // the client left half-way
		return
	}
	if s.ends(r.Context(), e.before) {
		s.abandon(w, false)
		return
	}
	a, replaced := s.replacement(e.before)
	if !replaced {
		a = s.answer(r, endpoint, n, body)
	}
	if s.ends(r.Context(), e.after) {
		s.abandon(w, false)
		return
	}
	if other, replaced := s.replacement(e.after); replaced {
		a = other
	}
	s.write(w, r, s.distort(a, e), e)
}

// readBody reads a body, and no more of one that is too long than shows it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil { // a request that no server has read
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(r.Body, maxBody+1))
}

// answer is what the service itself answers to the nth request at an endpoint.
func (s *Server) answer(r *http.Request, endpoint string, n int, body []byte) answer {
	call, why := s.check(r, endpoint, body)
	var a answer
	if why == nil {
		a, why = s.perform(call)
	}
	if why == nil {
		return a
	}
	s.reject(r, endpoint, n, body, why)
	how := s.cfg.Errors[why.problem]
	return s.cfg.errorAnswer(how.HTTPStatus, how.Code, why.message)
}

// ends says whether a request gets no further than a stage, once it has waited as the stage wants.
func (s *Server) ends(ctx context.Context, st stage) bool {
	for _, release := range st.holds {
		if !s.released(ctx, release) {
			return true
		}
	}
	if st.hang {
		return !s.released(ctx, nil)
	}
	return st.drop
}

// released waits, and says whether it was release that ended the wait.
func (s *Server) released(ctx context.Context, release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return false
}

func (s *Server) replacement(st stage) (answer, bool) {
	if st.answer == nil {
		return answer{}, false
	}
	return st.answer(s.cfg), true
}

// perform does what a checked request asks for.
func (s *Server) perform(c *call) (answer, *refusal) {
	if kind := c.kind(); kind != "" {
		return s.start(c, kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.endpoint == GetBalance {
		account := s.books.accounts[c.project]
		payout, expected, err := account.balances()
		if err != nil {
			return answer{}, refuse(ProblemRefused, "the balance has more digits than an amount may have")
		}
		return jsonAnswer(http.StatusOK, struct {
			PayoutBalance   paymentsvc.Amount `json:"payout_balance"`
			ExpectedBalance paymentsvc.Amount `json:"expected_balance"`
			Currency        string            `json:"currency"`
		}{payout, expected, account.Currency}), nil
	}
	o := s.books.find(c.project, c.endpoint == StatusPayout, c.fields.text("order_id"), c.fields.text("user_data"))
	if o == nil {
		return answer{}, refuse(ProblemNotFound, "no such order")
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

// start commits an order.
func (s *Server) start(c *call, kind Kind) (answer, *refusal) {
	draft := order{Order: Order{
		Kind:        kind,
		ProjectID:   c.project,
		UserData:    c.fields.text("user_data"),
		Amount:      c.fields.amount("amount"),
		Destination: c.fields.text("destination"),
		CardData:    c.fields["card_data"],
		Browser:     c.fields["browser"],
		Payer:       c.fields["payer"],
		Payee:       c.fields["payee"],
		Status:      paymentsvc.StatusPending,
		Numbers:     s.cfg.Numbers[paymentsvc.StatusPending],
	}}
	if kind == KindPayment {
		draft.Type = paymentsvc.PaymentType(strings.TrimPrefix(c.endpoint, InitPayment+"/"))
	}
	// The configuration's functions are called without the lock, so that they may ask the server.
	if s.cfg.Check != nil {
		if err := s.cfg.Check(draft.Order); err != nil {
			return answer{}, refuse(ProblemRefused, err.Error())
		}
	}
	if s.cfg.Script != nil {
		draft.script = s.cfg.Script(draft.Order)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, why := s.books.start(draft, s.cfg.Repeated, s.cfg.RefuseOverdraft)
	if why != nil {
		return answer{}, why
	}
	return startAnswer(o), nil
}

// pages is where the addresses of forms and invoices lead: nowhere, for .example is nobody's.
const pages = "https://pay.example/"

func startAnswer(o *order) answer {
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

// distort does to an answer what the faults say.
func (s *Server) distort(a answer, e *effects) answer {
	date := s.cfg.Now()
	if e.date != nil {
		date = date.Add(*e.date)
	}
	a.header.Set("Date", date.UTC().Format(http.TimeFormat))
	if e.wrongShape {
		a.body = misshapen(a.body)
	}
	if missing := e.size - len(a.body); missing > 0 {
		a.body = append(bytes.Clone(a.body), bytes.Repeat([]byte(" "), missing)...)
	}
	if e.bomb > 0 {
		a.body = bomb(a.body, e.bomb)
		a.header.Set("Content-Encoding", "gzip")
	}
	return a
}

// bomb gives body and then spaces, size bytes in all, in the gzip format of RFC 1952. Only one piece of the spaces
// is ever compressed, or held in memory: the rest are copies of it.
func bomb(body []byte, size int) []byte {
	spaces := bytes.Repeat([]byte(" "), 64<<10)
	piece := deflated(spaces)
	out := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, deflated(body)...)
	sum := crc32.ChecksumIEEE(body)
	missing := max(size-len(body), 0)
	for ; missing >= len(spaces); missing -= len(spaces) {
		out = append(out, piece...)
		sum = crc32.Update(sum, crc32.IEEETable, spaces)
	}
	out = append(out, deflated(spaces[:missing])...)
	sum = crc32.Update(sum, crc32.IEEETable, spaces[:missing])
	out = append(out, 0x01, 0x00, 0x00, 0xff, 0xff) // the last block of RFC 1951, with nothing in it
	out = binary.LittleEndian.AppendUint32(out, sum)
	return binary.LittleEndian.AppendUint32(out, uint32(max(size, len(body)))) //nolint:gosec // modulo 2^32, by the format
}

// deflated compresses data into blocks that end with a whole byte and refer to nothing before them.
func deflated(data []byte) []byte {
	var buf bytes.Buffer
	w, _ := flate.NewWriter(&buf, flate.DefaultCompression) // fails for levels that do not exist
	_, _ = w.Write(data)                                    // a buffer takes everything
	_ = w.Flush()
	return buf.Bytes()
}

// misshapen gives every value of an object another type, and leaves what is no object as it is.
func misshapen(body []byte) []byte {
	fields, err := parseObject(body)
	if err != nil {
		return body
	}
	for name, value := range fields {
		if value[0] == '"' {
			fields[name] = json.RawMessage("17")
		} else {
			fields[name] = json.RawMessage(`"wrong"`)
		}
	}
	return encode(fields)
}

// abandon ends the connection without an answer, hard or with a farewell.
func (s *Server) abandon(w http.ResponseWriter, hard bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: net/http then ends the stream
	}
	if hard {
		if tcp, ok := plain(conn).(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // or else it is closed the soft way
		}
	}
	s.hangUp(conn)
}

// plain gives what is below TLS.
func plain(conn net.Conn) net.Conn {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return conn
}

// hangUp closes a connection that was hijacked.
func (s *Server) hangUp(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	s.notice()
}

// write sends an answer, or as much of it as the faults leave.
func (s *Server) write(w http.ResponseWriter, r *http.Request, a answer, e *effects) {
	if e.cut.framing == withoutLength || e.cut.framing == inHeader {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			s.writeRaw(conn, a, e)
			return
		}
		if e.cut.framing == inHeader {
			panic(http.ErrAbortHandler)
		}
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	body, isCut := a.body, false
	if e.cut.framing != whole && e.cut.at < len(body) {
		body, isCut = body[:e.cut.at], true
	}
	if e.cut.framing != chunked {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	flush := func() { _ = http.NewResponseController(w).Flush() } // a client that left is not told
	s.writeBody(r.Context(), w, flush, body, e.slow)
	if isCut || e.cut.framing == chunked {
		flush()
		panic(http.ErrAbortHandler) // net/http then closes the connection
	}
}

// writeRaw sends an answer whose end is the end of the connection, and which may end in its header.
func (s *Server) writeRaw(conn net.Conn, a answer, e *effects) {
	defer s.hangUp(conn)
	var head bytes.Buffer
	_, _ = fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = a.header.Write(&head)
	if e.cut.framing == inHeader {
		_, _ = fmt.Fprintf(&head, "Content-Length: %d\r\n\r\n", len(a.body))
		_, _ = conn.Write(head.Bytes()[:min(e.cut.at, head.Len()-1)])
		return
	}
	_, _ = head.WriteString("Connection: close\r\n\r\n")
	if _, err := conn.Write(head.Bytes()); err != nil {
		return
	}
	s.writeBody(context.Background(), conn, func() {}, a.body[:min(e.cut.at, len(a.body))], e.slow)
}

// writeBody sends a body, as slowly as asked, until the client leaves or the server closes.
func (s *Server) writeBody(ctx context.Context, w io.Writer, flush func(), body []byte, pause time.Duration) {
	if pause <= 0 {
		_, _ = w.Write(body) // a client that left is not told
		return
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i := range body {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-s.life.Done():
			return
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		flush()
	}
}
