package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/paymentsvc/paymentsvc"
)

// What the interface document does not show and a service must have all the same. The choice is this example's:
// the real service's may be anything.
const (
	statusPending  = 1
	statusSuccess  = 2
	statusFailure  = 3
	statusCodeNone = 0
	clockTolerance = 5 * time.Minute
	maxBody        = 64 << 10
)

// service answers the seven endpoints, and refuses a request that is not what the interface document shows.
type service struct {
	url                  string // its own address
	partnerID, projectID int64
	sign                 func(*paymentsvc.Message) (string, error)
	forge                func(*paymentsvc.Message) (string, error) // without knowing the secret
	stop                 func()

	mu     sync.Mutex
	orders []order
}

// order is whatever has been started. Its lists are short enough to be searched from end to end.
type order struct {
	kind, orderID, userData string
	amount                  json.RawMessage
}

// startService listens on a free port of the loopback interface.
func startService(ctx context.Context, set *settings) (*service, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("in-process server: %w", err)
	}
	s := &service{
		url:       "http://" + listener.Addr().String(),
		partnerID: set.PartnerID,
		projectID: set.ProjectID,
		sign: func(m *paymentsvc.Message) (string, error) {
			return set.Scheme.Signature(set.Secret, m)
		},
		forge: func(m *paymentsvc.Message) (string, error) {
			return set.Scheme.Signature("a guess at it", m)
		},
	}
	s.stop = serve(listener, s.routes())
	return s, nil
}

// serve serves h until stop is called, which waits for the end of it.
func serve(listener net.Listener, h http.Handler) (stop func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it always ends with an error, http.ErrServerClosed after stop
	}()
	return func() {
		_ = server.Close()
		<-ended
	}
}

// routes refuses every other method and path with 405 and 404.
func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /init_payment/{type}", endpoint(s, s.initPayment))
	mux.Handle("POST /init_form", endpoint(s, s.initForm))
	mux.Handle("POST /init_invoice", endpoint(s, s.initInvoice))
	mux.Handle("POST /init_payout", endpoint(s, s.initPayout))
	mux.Handle("POST /status_payment", endpoint(s, s.statusPayment))
	mux.Handle("POST /status_payout", endpoint(s, s.statusPayout))
	mux.Handle("POST /get_balance", endpoint(s, s.getBalance))
	return mux
}

// refusal is an answer that is an error.
type refusal struct {
	httpStatus    int
	code, message string
}

func refuse(httpStatus int, code, message string) *refusal {
	return &refusal{httpStatus, code, message}
}

// fields are an answer's JSON object.
type fields map[string]any

// requestBody is one of the four below.
type requestBody interface {
	caller() ids
	missing() string // the first required field that is not there
}

// endpoint does what all seven have in common.
func endpoint[B requestBody](s *service, answer func(*http.Request, B) (fields, *refusal)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body B
		refused := s.read(r, &body)
		if refused == nil {
			refused = s.admit(body)
		}
		var out fields
		if refused == nil {
			out, refused = answer(r, body)
		}
		httpStatus := http.StatusOK
		if refused != nil {
			httpStatus = refused.httpStatus
			out = fields{"error_code": refused.code, "error_message": refused.message}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(httpStatus)
		_ = json.NewEncoder(w).Encode(out) // a caller that has gone away is told nothing
	})
}

// read checks everything about a request but its fields, which it reads into body.
func (s *service) read(r *http.Request, body any) *refusal {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content_type", "Content-Type is not application/json")
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "body", "the body cannot be read")
	case len(data) > maxBody:
		return refuse(http.StatusRequestEntityTooLarge, "body", "the body is too large")
	}
	if refused := s.checkSignature(r, data); refused != nil {
		return refused
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(body) != nil {
		return refuse(http.StatusBadRequest, "body", "the body is not a JSON object with this endpoint's fields")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "body", "something follows the JSON object")
	}
	return nil
}

func (s *service) checkSignature(r *http.Request, body []byte) *refusal {
	timestamps, signatures := r.Header.Values("Timestamp"), r.Header.Values("Signature")
	if len(timestamps) != 1 || len(signatures) != 1 {
		return refuse(http.StatusUnauthorized, "headers", "timestamp and signature must each be there once")
	}
	seconds, err := strconv.ParseUint(timestamps[0], 10, 62)
	if err != nil {
		return refuse(http.StatusUnauthorized, "timestamp", "timestamp is not Unix time in seconds")
	}
	want, err := s.sign(&paymentsvc.Message{
		Kind:      paymentsvc.KindRequest,
		Method:    r.Method,
		URL:       r.URL,
		Header:    r.Header,
		Timestamp: timestamps[0],
		Body:      body,
	})
	if err != nil || !hmac.Equal([]byte(want), []byte(signatures[0])) {
		return refuse(http.StatusUnauthorized, "signature", "signature is not that of this request")
	}
	if time.Since(time.Unix(int64(seconds), 0)).Abs() > clockTolerance {
		return refuse(http.StatusUnauthorized, "timestamp", "timestamp is too far from the server's time")
	}
	return nil
}

func (s *service) admit(body requestBody) *refusal {
	if name := body.missing(); name != "" {
		return refuse(http.StatusUnprocessableEntity, "field", name+" is missing or of the wrong type")
	}
	if body.caller() != (ids{s.partnerID, s.projectID}) {
		return refuse(http.StatusForbidden, "caller", "no such partner and project")
	}
	return nil
}

// The request bodies of section 4. Text must not be empty, so "" is as good as missing.

type ids struct {
	PartnerID int64 `json:"partner_id"`
	ProjectID int64 `json:"project_id"`
}

func (b ids) caller() ids { return b }

func (b ids) missing() string {
	switch {
	case b.PartnerID == 0:
		return "partner_id"
	case b.ProjectID == 0:
		return "project_id"
	}
	return ""
}

type paymentBody struct {
	ids
	Amount   json.RawMessage `json:"amount"`
	UserData string          `json:"user_data"`
	CardData map[string]any  `json:"card_data"`
	Browser  map[string]any  `json:"browser"`
	Payer    map[string]any  `json:"payer"`
	Payee    map[string]any  `json:"payee"`
}

func (b paymentBody) missing() string {
	switch {
	case !isNumber(b.Amount):
		return "amount"
	case b.UserData == "":
		return "user_data"
	}
	return b.ids.missing()
}

type payoutBody struct {
	ids
	Amount      json.RawMessage `json:"amount"`
	Destination string          `json:"destination"`
	UserData    string          `json:"user_data"`
}

func (b payoutBody) missing() string {
	switch {
	case !isNumber(b.Amount):
		return "amount"
	case b.Destination == "":
		return "destination"
	case b.UserData == "":
		return "user_data"
	}
	return b.ids.missing()
}

type statusPaymentBody struct {
	ids
	OrderID  string `json:"order_id"`
	UserData string `json:"user_data"`
}

func (b statusPaymentBody) missing() string {
	if (b.OrderID == "") == (b.UserData == "") {
		return "one of order_id and user_data"
	}
	return b.ids.missing()
}

type statusPayoutBody struct {
	ids
	OrderID string `json:"order_id"`
}

func (b statusPayoutBody) missing() string {
	if b.OrderID == "" {
		return "order_id"
	}
	return b.ids.missing()
}

// isNumber knows by its first byte that a valid JSON value is a number.
func isNumber(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9')
}

func (s *service) initPayment(r *http.Request, b paymentBody) (fields, *refusal) {
	switch paymentsvc.PaymentType(r.PathValue("type")) {
	case paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC:
	default:
		return nil, refuse(http.StatusNotFound, "type", "no such payment type")
	}
	orderID, refused := s.start("payment", b.UserData, b.Amount)
	return fields{
		"order_id":     orderID,
		"status":       statusPending,
		"status_code":  statusCodeNone,
		"redirect_url": s.url + "/pay/" + orderID,
	}, refused
}

func (s *service) initForm(_ *http.Request, b paymentBody) (fields, *refusal) {
	orderID, refused := s.start("form", b.UserData, b.Amount)
	return fields{"redirect_url": s.url + "/form/" + orderID}, refused
}

func (s *service) initInvoice(_ *http.Request, b paymentBody) (fields, *refusal) {
	orderID, refused := s.start("invoice", b.UserData, b.Amount)
	return fields{"invoice_url": s.url + "/invoice/" + orderID, "order_id": orderID}, refused
}

func (s *service) initPayout(_ *http.Request, b payoutBody) (fields, *refusal) {
	orderID, refused := s.start("payout", b.UserData, b.Amount)
	return fields{"order_id": orderID, "status": statusPending, "status_code": statusCodeNone}, refused
}

func (s *service) statusPayment(_ *http.Request, b statusPaymentBody) (fields, *refusal) {
	return s.status(func(o order) bool {
		return o.kind == "payment" && (o.orderID == b.OrderID || o.userData == b.UserData)
	})
}

func (s *service) statusPayout(_ *http.Request, b statusPayoutBody) (fields, *refusal) {
	return s.status(func(o order) bool { return o.kind == "payout" && o.orderID == b.OrderID })
}

func (s *service) getBalance(*http.Request, ids) (fields, *refusal) {
	return fields{
		"payout_balance":   json.RawMessage("1000.00"),
		"expected_balance": json.RawMessage("1200.00"),
		"currency":         "EUR",
	}, nil
}

// start keeps a new order, unless its user_data, unique on the partner's side, is already taken.
func (s *service) start(kind, userData string, amount json.RawMessage) (orderID string, refused *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.userData == userData {
			return "", refuse(http.StatusUnprocessableEntity, "user_data", "user_data is not unique")
		}
	}
	orderID = uuid.NewString()
	s.orders = append(s.orders, order{kind, orderID, userData, amount})
	return orderID, nil
}

func (s *service) status(wanted func(order) bool) (fields, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if wanted(o) {
			return fields{
				"partner_id":  s.partnerID,
				"project_id":  s.projectID,
				"amount":      o.amount,
				"description": o.kind + " of the quickstart",
				"user_data":   o.userData,
				"order_id":    o.orderID,
			}, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "order", "no such order")
}
