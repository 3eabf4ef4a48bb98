package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// delivery is a notification that the in-process server, or somebody who claims to be it, sends.
type delivery struct {
	label  string
	event  paymentsvc.EventType
	order  order
	number int // of the status
	name   paymentsvc.StatusName
	age    time.Duration
	forged bool
	want   int // the HTTP status that it should be answered with
}

// deliveries tell of the first payment and the first payout. A service may well repeat a notification, or
// deliver two in the wrong order: the interface document promises neither that it does nor that it does not.
func (s *service) deliveries() []delivery {
	const (
		aboutPayment = paymentsvc.EventPaymentStatusChanged
		aboutPayout  = paymentsvc.EventPayoutStatusChanged
		aboutRefund  = paymentsvc.EventRefundStatusChanged
	)
	payment, payout := s.first("payment"), s.first("payout")
	return []delivery{
		{label: "payment SUCCESS", event: aboutPayment, order: payment, number: statusSuccess, name: paymentsvc.StatusSuccess, want: 200},
		{label: "payment SUCCESS, repeated", event: aboutPayment, order: payment, number: statusSuccess, name: paymentsvc.StatusSuccess, want: 200},
		{label: "payment PENDING, late", event: aboutPayment, order: payment, number: statusPending, name: paymentsvc.StatusPending, want: 200},
		{label: "payment FAILURE, forged", event: aboutPayment, order: payment, number: statusFailure, name: paymentsvc.StatusFailure, forged: true, want: 401},
		{label: "payout PENDING, an hour old", event: aboutPayout, order: payout, number: statusPending, name: paymentsvc.StatusPending, age: time.Hour, want: 401},
		{label: "payout SUCCESS", event: aboutPayout, order: payout, number: statusSuccess, name: paymentsvc.StatusSuccess, want: 200},
		{label: "refund SUCCESS", event: aboutRefund, order: payment, number: statusSuccess, name: paymentsvc.StatusSuccess, want: 200},
	}
}

func (s *service) first(kind string) order {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.kind == kind {
			return o
		}
	}
	return order{}
}

// deliver posts d to address and gives the HTTP status of the answer.
func (s *service) deliver(ctx context.Context, client *http.Client, address string, d delivery) (int, error) {
	body, err := json.Marshal(fields{
		"event":              d.event,
		"order_id":           d.order.orderID,
		"status":             d.number,
		"status_description": d.name,
		"status_code":        statusCodeNone,
		"amount":             d.order.amount,
		"user_data":          d.order.userData,
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Timestamp", strconv.FormatInt(time.Now().Add(-d.age).Unix(), 10))
	sign := s.sign
	if d.forged {
		sign = s.forge
	}
	signature, err := sign(&paymentsvc.Message{
		Kind:      paymentsvc.KindNotification,
		Method:    r.Method,
		URL:       r.URL,
		Header:    r.Header,
		Timestamp: r.Header.Get("Timestamp"),
		Body:      body,
	})
	if err != nil {
		return 0, err
	}
	r.Header.Set("Signature", signature)

	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection serves the next one
	return answer.StatusCode, answer.Body.Close()
}
