package paymentsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// An attacker who sees the partner's own requests, in a log say, has right signatures under the same key. Under a Scheme
// that ignores Message.Kind such a request verifies as a notification, and must still be none.
func TestTheClientsOwnRequestsAreNoNotifications(t *testing.T) {
	var requests []*http.Request
	var bodies []string
	c := newClient(t, "https://pay.example.com", func(cfg *paymentsvc.Config) {
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: hookScheme(), Secret: testSecret})
		require.NoError(t, err)
		cfg.Signer = signer
	}, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		requests, bodies = append(requests, r), append(bodies, string(body))
		return canned(http.StatusBadRequest, nil, ""), err
	})))
	for _, op := range operations() {
		_, err := op.call(t, c)
		require.Error(t, err)
	}
	// The most that a buyer can write into a request: text that looks like a notification.
	forged := paymentRequest()
	forged.UserData = hookBody
	forged.CardData, forged.Payer = map[string]any{"event": "payment.status_changed"}, map[string]any{"order_id": "o-1"}
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, forged)
	require.Error(t, err)

	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.Now = time.Now })
	require.Len(t, requests, len(operations())+1)
	for i, r := range requests {
		require.NoError(t, webhook.Verify(r.Header, []byte(bodies[i])), "the signature is right, so that only the body can tell")
		n, err := webhook.Parse(r.Header, []byte(bodies[i]))
		isOnly(t, err, paymentsvc.ErrMalformedNotification)
		assert.Nil(t, n)
	}
}

// An encoding that writes nothing, or always the same, makes every signature equal. Nobody can pass for that without
// knowing what it writes; with nothing, nobody can at all.
func TestAnEncodingThatWritesNothingAcceptsNothing(t *testing.T) {
	scheme := hookScheme()
	scheme.Encoding = encodingFunc(func(dst, _ []byte) []byte { return dst })
	webhook := newHook(t, withScheme(scheme))
	for _, signature := range []string{"", " ", "0", "\x00", plainSignature(testSecret, hookClockShown, hookBody)} {
		err := webhook.Verify(http.Header{"Timestamp": {hookClockShown}, "Signature": {signature}}, []byte(hookBody))
		require.Error(t, err, "%q", signature)
		assert.True(t, isRefusal(err), "%q: %v", signature, err)
	}
}

func TestHeadersThatAreHugeOrBrokenAreRefused(t *testing.T) {
	right := hookHeader(hookClockShown, hookBody)
	const mebibyte = 1 << 20
	for name, change := range map[string]func(http.Header){
		"a million digits":             func(h http.Header) { maps.Copy(h, hookHeader(strings.Repeat("9", mebibyte), hookBody)) },
		"a million zeros behind":       func(h http.Header) { maps.Copy(h, hookHeader(hookClockShown+strings.Repeat("0", mebibyte), hookBody)) },
		"a digit more than fits":       func(h http.Header) { maps.Copy(h, hookHeader("9223372036854775808", hookBody)) },
		"one that wraps to now":        func(h http.Header) { maps.Copy(h, hookHeader("18446744075409551616", hookBody)) }, // 2^64 + now
		"a signature of a mebibyte":    func(h http.Header) { h.Set("Signature", strings.Repeat("a", mebibyte)) },
		"the signature and a mebibyte": func(h http.Header) { h.Set("Signature", right.Get("Signature")+strings.Repeat("\x00", mebibyte)) },
		"zero bytes":                   func(h http.Header) { h.Set("Signature", strings.Repeat("\x00", 64)) },
		"a zero byte before":           func(h http.Header) { h.Set("Signature", "\x00"+right.Get("Signature")) },
		"a million values":             func(h http.Header) { h["Signature"] = make([]string, mebibyte) },
		"a list in one value":          func(h http.Header) { h.Set("Signature", right.Get("Signature")+", "+right.Get("Signature")) },
		"a long s for an s": func(h http.Header) {
			h["\u017fignature"] = h["Signature"]
			delete(h, "Signature")
		},
		"a name with a space behind": func(h http.Header) {
			h["Signature "] = h["Signature"]
			delete(h, "Signature")
		},
		"a name with a zero byte": func(h http.Header) {
			h["Timestamp\x00"] = h["Timestamp"]
			delete(h, "Timestamp")
		},
	} {
		t.Run(name, func(t *testing.T) {
			header := right.Clone()
			change(header)
			n, err := newHook(t).Parse(header, []byte(hookBody))
			require.Error(t, err)
			assert.True(t, isRefusal(err) || errors.Is(err, paymentsvc.ErrMissingHeader), "%v", err)
			assert.Nil(t, n)
			assert.Less(t, len(err.Error()), 300, "an error does not repeat what was sent")
		})
	}
}

// What is not a request that every hop understands in the same way must not reach the function, or only as the one
// notification that was signed.
func TestOnTheWireNothingButOneSignedRequestIsHandled(t *testing.T) {
	length := "Content-Length: " + strconv.Itoa(len(hookBody))
	signature := plainSignature(testSecret, hookClockShown, hookBody)
	signed := "Timestamp: " + hookClockShown + "\r\nSignature: " + signature + "\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(hookBody), hookBody)
	for _, test := range []struct {
		name, head, body string
		handled          int64
	}{
		{"as it should be", signed + length, hookBody, 1},
		{"chunked", signed + "Transfer-Encoding: chunked", chunked + "\r\n", 1},
		{"chunked, and a length as well", signed + length + "\r\nTransfer-Encoding: chunked", chunked + "\r\n", 1}, // chunked wins
		{"two lengths that differ", signed + length + "\r\nContent-Length: 2", hookBody, 0},
		{"a list of lengths", signed + length + ", 2", hookBody, 0},
		{"a length with a sign", signed + "Content-Length: +" + strconv.Itoa(len(hookBody)), hookBody, 0},
		{"a length beyond 64 bits", signed + "Content-Length: 18446744073709551615", hookBody, 0},
		{"an unknown encoding", signed + "Transfer-Encoding: xchunked", chunked + "\r\n", 0},
		{"two encodings", signed + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", chunked + "\r\n", 0},
		{"headers behind the body", "Transfer-Encoding: chunked\r\nTrailer: Signature, Timestamp", chunked + signed + "\r\n", 0},
		{"a signature behind the body", "Timestamp: " + hookClockShown + "\r\nTransfer-Encoding: chunked\r\nTrailer: Signature",
			chunked + "Signature: " + signature + "\r\n\r\n", 0},
		{"a second signature behind the body", signed + "Transfer-Encoding: chunked\r\nTrailer: Signature",
			chunked + "Signature: " + signature + "\r\n\r\n", 1}, // a trailer is no header
		{"a space before the colon", "Timestamp: " + hookClockShown + "\r\nSignature : " + signature + "\r\n" + length, hookBody, 0},
		{"a folded signature", "Timestamp: " + hookClockShown + "\r\nSignature: " + signature[:32] + "\r\n " + signature[32:] + "\r\n" + length, hookBody, 0},
		{"a zero byte in a header", signed + "X-Zero: a\x00b\r\n" + length, hookBody, 0},
		{"a return within a header", signed + "X-Return: a\rSignature: b\r\n" + length, hookBody, 0},
		{"no length at all", signed + "X-None: a", hookBody, 0},
		{"another request in the body", signed + "Content-Length: " + strconv.Itoa(2*len(hookBody)),
			"0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\n" + signed + length + "\r\n\r\n" + hookBody, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var handled atomic.Int64
			server := newHookServer(t, newHook(t).Handler(func(_ context.Context, n *paymentsvc.Notification) error {
				handled.Add(1)
				assert.Equal(t, hookBody, string(n.Raw))
				return nil
			}))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)), "a server that gives no answer fails the test")
			write(conn, "POST / HTTP/1.1\r\nHost: partner.example\r\n"+test.head+"\r\n\r\n"+test.body)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			assert.Equal(t, test.handled == 1, answer.StatusCode == http.StatusOK, "answered %d", answer.StatusCode)
			_ = conn.Close()
			server.Close() // waits for whatever is still being handled
			assert.Equal(t, test.handled, handled.Load())
		})
	}
}

// A Message.Body that a Canonical extends must not be written behind: another notification may stand there.
func TestAMessageCannotWriteBehindItsBody(t *testing.T) {
	buffer := []byte(hookBody + "the next request in the same buffer")
	kept := bytes.Clone(buffer)
	scheme := hookScheme()
	canonical := scheme.Canonical
	scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		_ = append(m.Body, "written behind the body"...)
		return canonical(dst, m)
	}
	require.NoError(t, newHook(t, withScheme(scheme)).Verify(hookHeader(hookClockShown, hookBody), buffer[:len(hookBody)]))
	assert.Equal(t, string(kept), string(buffer))
}
