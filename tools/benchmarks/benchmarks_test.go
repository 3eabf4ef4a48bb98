package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// altered changes one letter in what a form was padded with, so that the JSON stays JSON.
func altered(body []byte) []byte {
	return bytes.Replace(body, []byte("order-1"), []byte("order-2"), 1)
}

func TestEveryCandidateVerifiesWhatIsValidAndRefusesWhatIsAltered(t *testing.T) {
	for _, size := range sizes() {
		for work, made := range map[string]func(int, delivery) []candidate{"verify": verifiers, "parse": parsers} {
			wanted := map[string]string{"verify": "", "parse": orderID}[work]
			forged := made(size, altered)
			for i, valid := range made(size, untouched) {
				name := work + ", " + sizeName(size) + ", " + valid.name
				for range 2 { // the second goes through pools that are filled
					id, err := valid.run()
					assert.NoError(t, err, name)
					if !valid.bound {
						assert.Equal(t, wanted, id, name)
					}
				}
				if valid.name == "SHA-256 of the body" {
					continue // the bound that checks nothing
				}
				for range 2 {
					_, err := forged[i].run()
					assert.Error(t, err, name)
				}
			}
		}
	}
}

func TestBodiesAreOfEqualSize(t *testing.T) {
	for _, size := range sizes() {
		for _, form := range []string{notificationForm, stripeForm, paddleForm} {
			body := padded(form, size)
			assert.Len(t, body, size)
			assert.NotEqual(t, body, altered(body))
		}
	}
	for _, c := range clients() {
		assert.Len(t, answer(c.who), len(answer(ours)), c.name)
	}
}

func TestEveryClientPostsItsRequestAndReadsTheAnswer(t *testing.T) {
	paths := map[string]string{
		ours: "/init_payment/card", byHand: "/init_payment/card", "resty": "/init_payment/card",
		"stripe-go": "/v1/payment_intents", "paddle": "/customers",
	}
	bodies := map[string]string{}
	for _, c := range clients() {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, http.MethodPost, r.Method, c.name)
			assert.Equal(t, paths[c.who], r.URL.Path, c.name)
			bodies[c.who] = string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer(c.who))
		}))
		for _, h := range []*http.Client{server.Client(), nil} {
			id, err := c.connect(server.URL, h)(t.Context())
			assert.NoError(t, err, c.name)
			assert.Equal(t, orderID, id, c.name)
		}
		server.Close()
	}
	assert.Equal(t, bodies[byHand], bodies[ours], "the same bytes")
	assert.Equal(t, bodies[byHand], bodies["resty"], "the same bytes")
	assert.Contains(t, bodies["stripe-go"], "order-1")
	assert.Contains(t, bodies["paddle"], "order-1")
}

func TestTheBareServiceUnderstandsEveryClient(t *testing.T) {
	candidates, end := callers(t.Context())
	defer end()
	for _, c := range candidates {
		for range 3 { // what is left over from one request would spoil the next
			id, err := c.run()
			assert.NoError(t, err, c.name)
			assert.Equal(t, orderID, id, c.name)
		}
	}
}

func TestRatiosAreMadeWithinARound(t *testing.T) {
	candidates := []candidate{{name: "bound", bound: true}, {name: "slow", who: byHand}, {name: "best", who: ours}}
	rows := summarise(candidates, [][]float64{
		{1, 10, 2},   // the machine is ten times slower in the second round
		{8, 80, 9},   // and the third is disturbed
		{4, 40, 100}, // for this one
	}, byHand)
	require.Len(t, rows, 3)
	assert.InDelta(t, 2, rows[0].time, 0)
	assert.InDelta(t, 9, rows[1].time, 0)
	assert.InDelta(t, 2, rows[1].toBest, 0)
	assert.InDelta(t, 1, rows[2].toBest, 0)
	assert.InDelta(t, 0.25, rows[0].toBest, 0, "a bound is no best")
	assert.InDelta(t, 0.5, rows[2].toReference, 0)
}
