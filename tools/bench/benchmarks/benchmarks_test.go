package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCandidatesRejectAlteredBodies(t *testing.T) {
	for _, size := range sizes {
		forged := webhooks(size, func(body []byte) []byte { // alters a letter before the padding
			return bytes.Replace(body, []byte("order-1"), []byte("order-2"), 1)
		})
		for work, candidates := range webhooks(size, untouched) {
			for i, valid := range candidates {
				name := work + ", " + sizeName(size) + ", " + valid.name
				for range 2 { // the second run uses filled pools
					id, err := valid.run()
					assert.NoError(t, err, name)
					assert.Equal(t, !valid.bound && work == "Verify and parse", id == orderID, name)
					_, err = forged[work][i].run()
					if valid.name != "SHA-256 of the body" { // this bound compares no signature
						assert.Error(t, err, name)
					}
				}
			}
		}
	}
}

func TestClientsReadTheResponse(t *testing.T) {
	paths, bodies := map[string]string{}, map[string]string{}
	for _, c := range clients {
		assert.Len(t, responseFor(c.who), len(responseFor(ours)), c.name)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			paths[c.who], bodies[c.who] = r.Method+" "+r.URL.Path, string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(responseFor(c.who))
		}))
		for _, h := range []*http.Client{server.Client(), nil} {
			id, err := c.connect(server.URL, h)(t.Context())
			assert.NoError(t, err, c.name)
			assert.Equal(t, orderID, id, c.name)
		}
		server.Close()
	}
	for _, same := range []string{ours, "resty"} {
		assert.Equal(t, bodies[byHand], bodies[same], "the same bytes")
		assert.Equal(t, "POST /init_payment/card", paths[same])
	}
	assert.Contains(t, bodies["stripe-go"], "order-1")
	assert.Contains(t, bodies["paddle"], "order-1")
}

func TestRatiosAreMadeWithinARound(t *testing.T) {
	candidates := []candidate{{name: "bound", bound: true}, {name: "slow", who: byHand}, {name: "best", who: ours}}
	rows := summarise(candidates, [][]float64{
		{1, 10, 2},   // the machine is ten times slower in the second round
		{8, 80, 9},   // another program disturbs the third round
		{4, 40, 100}, // another program disturbs the last candidate
	}, byHand)
	assert.InDelta(t, 9, rows[1].time, 0)
	assert.InDelta(t, 0.5, rows[2].toReference, 0)
	const lines = "| *bound:* bound | 2ns | 0.12 | 0.12–0.22 | 0 | 0 |\n| **best** | 40ns |"
	assert.Contains(t, markdown("title", byHand, rows), lines)
}
