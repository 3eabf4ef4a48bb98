package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/PaddleHQ/paddle-go-sdk/v4"
	"github.com/PaddleHQ/paddle-go-sdk/v4/pkg/paddlenotification"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const (
	secret    = "a secret for benchmarks"
	tolerance = 5 * time.Minute // the peers' default
	orderID   = "6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11"
)

// These are notifications of three services, with a place for padding. The first has the form of section 6.
const (
	notificationForm = `{"event":"payment.status_changed","order_id":"` + orderID + `","status":1,` +
		`"status_description":"SUCCESS","status_code":2,"amount":10.50,"user_data":"order-1%s"}`
	stripeForm = `{"id":"` + orderID + `","object":"event","api_version":"` + stripe.APIVersion + `",` +
		`"type":"charge.succeeded","data":{"object":{"amount":1050,"description":"order-1%s"}}}`
	paddleForm = `{"event_id":"evt_1","event_type":"transaction.completed","data":{"id":"` + orderID + `",` +
		`"status":"completed","currency_code":"EUR","origin":"web","invoice_number":"order-1%s"}}`
)

// padded fills form up to size bytes.
func padded(form string, size int) []byte {
	return fmt.Appendf(nil, form, strings.Repeat("-", size-len(fmt.Sprintf(form, ""))))
}

// delivery changes a signed body in transit. Benchmarks use the function untouched.
type delivery func(body []byte) []byte

func untouched(body []byte) []byte { return body }

// webhooks returns the candidates by the titles of the tables. They check the signature and age of a notification of
// size bytes with usual headers, and in "Verify and parse" also read the body. The bounds do not read the clock.
// stripe-go and paddle get an event in their own format. For peers that only verify, encoding/json reads the body.
func webhooks(size int, deliver delivery) map[string][]candidate {
	now := time.Now()
	body, stripeBody, paddleBody := padded(notificationForm, size), padded(stripeForm, size), padded(paddleForm, size)
	arrived, stripeArrived := deliver(body), deliver(stripeBody)
	bare := pooledHMAC{&sync.Pool{New: func() any { return &hmacState{mac: hmac.New(sha256.New, []byte(secret))} }}}
	own := ownHeader(now, body)
	sdk := must(paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: tolerance,
	}))
	stripeSignature := fmt.Sprintf("t=%d,v1=%x", now.Unix(), webhook.ComputeSignature(now, stripeBody, secret))
	standard := must(standardwebhooks.NewWebhookRaw([]byte(secret)))
	svixWebhook := must(svix.NewWebhookRaw([]byte(secret)))
	standardHeader, svixHeader := idHeader("Webhook-", now, body), idHeader("Svix-", now, body)
	paddleVerify := newPaddle(now, paddleBody, deliver(paddleBody))

	verify := append(make([]candidate, 0, 8), []candidate{
		{name: "SHA-256 of the body", bound: true, run: func() (string, error) {
			if sha256.Sum256(arrived) == [sha256.Size]byte{} {
				return "", errMismatch
			}
			return "", nil
		}},
		{name: pooledHMACName, bound: true, run: func() (string, error) { return "", bare.check(own, arrived) }},
	}...)
	parse := slices.Clone(verify[1:])
	for _, peer := range []struct {
		who, verifies, parses string
		verify                func() error
		parse                 func() (string, error)
	}{
		{byHand, "by hand: pooled HMAC, age", "by hand: pooled HMAC, age, `encoding/json`",
			func() error { return bare.verify(own, arrived) }, nil},
		{ours, "paymentsvc: `Verify`", "paymentsvc: `Parse`", func() error { return sdk.Verify(own, arrived) },
			func() (string, error) { return idOf(sdk.Parse(own, arrived)) }},
		{"stripe-go", "stripe-go: `ValidatePayload`", "stripe-go: `ConstructEvent`",
			func() error { return webhook.ValidatePayload(stripeArrived, stripeSignature, secret) },
			func() (string, error) {
				event, err := webhook.ConstructEvent(stripeArrived, stripeSignature, secret)
				return event.ID, err
			}},
		{"standard-webhooks", "standard-webhooks: `Verify`", "standard-webhooks: `Verify`, `encoding/json`",
			func() error { return standard.Verify(arrived, standardHeader) }, nil},
		{"svix", "svix: `Verify`", "svix: `Verify`, `encoding/json`",
			func() error { return svixWebhook.Verify(arrived, svixHeader) }, nil},
		{"paddle", "paddle: `Verify`", "paddle: `Verify`, `encoding/json` into its types",
			func() error { _, err := paddleVerify(); return err },
			func() (string, error) { return parsePaddle(paddleVerify()) }},
	} {
		if peer.parse == nil {
			peer.parse = func() (string, error) { return parseByHand(peer.verify(), arrived) }
		}
		verify = append(verify, candidate{name: peer.verifies, who: peer.who, run: func() (string, error) {
			return "", peer.verify()
		}})
		parse = append(parse, candidate{name: peer.parses, who: peer.who, run: peer.parse})
	}
	return map[string][]candidate{"Verify": verify, "Verify and parse": parse}
}

func idOf(n *paymentsvc.Notification, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return n.OrderID, nil
}

func parsePaddle(r *http.Request, err error) (string, error) {
	if err != nil {
		return "", err
	}
	verified, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	var event paddlenotification.TransactionCompleted
	err = json.Unmarshal(verified, &event)
	return event.Data.ID, err
}

// scheme is the choice of these benchmarks. The interface document does not specify a scheme.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

// usualHeader returns the headers of a notification without the signature.
func usualHeader(body []byte) http.Header {
	return http.Header{
		"Accept-Encoding": {"gzip"},
		"Content-Length":  {strconv.Itoa(len(body))},
		"Content-Type":    {"application/json"},
		"User-Agent":      {"service/1.0"},
	}
}

func ownHeader(at time.Time, body []byte) http.Header {
	h := usualHeader(body)
	h["Timestamp"] = []string{strconv.FormatInt(at.Unix(), 10)}
	h["Signature"] = []string{must(scheme().Signature(secret, &paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Timestamp: h.Get("Timestamp"), Body: body,
	}))}
	return h
}

// idHeader returns the headers of standard-webhooks and svix.
func idHeader(prefix string, at time.Time, body []byte) http.Header {
	h := usualHeader(body)
	h.Set(prefix+"Id", "msg_1")
	h.Set(prefix+"Timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set(prefix+"Signature", must(must(standardwebhooks.NewWebhookRaw([]byte(secret))).Sign("msg_1", at, body)))
	return h
}

// newPaddle returns a function that verifies the same request in each call. Because Verify reads and replaces the body,
// the function first rewinds the body, without an allocation.
func newPaddle(at time.Time, body, arrived []byte) func() (*http.Request, error) {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d:%s", at.Unix(), body)
	r := &http.Request{Method: http.MethodPost, Header: usualHeader(body)}
	r.Header.Set("Paddle-Signature", fmt.Sprintf("ts=%d;h1=%x", at.Unix(), mac.Sum(nil)))
	reader := new(rereadable)
	verifier := paddle.NewWebhookVerifier(secret, paddle.VerifierWithTimestampTolerance(tolerance))
	return func() (*http.Request, error) {
		reader.Reset(arrived)
		r.Body = reader
		ok, err := verifier.Verify(r)
		if err == nil && !ok {
			err = errMismatch
		}
		return r, err
	}
}

type rereadable struct{ bytes.Reader }

func (*rereadable) Close() error { return nil }

const pooledHMACName = "pooled HMAC and comparison"

// pooledHMAC checks signatures by hand, with pooled HMAC states and a comparison in constant time.
type pooledHMAC struct{ pool *sync.Pool }

type hmacState struct {
	mac       hash.Hash
	canonical []byte
	sum       [sha256.Size]byte
	hex       [2 * sha256.Size]byte
}

var (
	errMismatch = errors.New("mismatch")
	errAge      = errors.New("too old or too new")
)

// check compares the signature only.
func (p pooledHMAC) check(h http.Header, body []byte) error {
	s := p.pool.Get().(*hmacState)
	defer p.pool.Put(s)
	s.mac.Reset()
	s.canonical = append(append(s.canonical[:0], h.Get("Timestamp")...), '\n')
	s.mac.Write(s.canonical)
	s.mac.Write(body)
	hex.Encode(s.hex[:], s.mac.Sum(s.sum[:0]))
	if !hmac.Equal(s.hex[:], []byte(h.Get("Signature"))) {
		return errMismatch
	}
	return nil
}

// verify compares the signature and the age.
func (p pooledHMAC) verify(h http.Header, body []byte) error {
	if err := p.check(h, body); err != nil {
		return err
	}
	timestamp, err := strconv.ParseInt(h.Get("Timestamp"), 10, 64)
	if err != nil {
		return err
	}
	if time.Since(time.Unix(timestamp, 0)).Abs() > tolerance {
		return errAge
	}
	return nil
}

// notification has the fields of section 6.
type notification struct {
	Event             string      `json:"event"`
	OrderID           string      `json:"order_id"`
	Status            int64       `json:"status"`
	StatusDescription string      `json:"status_description"`
	StatusCode        int64       `json:"status_code"`
	Amount            json.Number `json:"amount"`
	UserData          string      `json:"user_data"`
}

// parseByHand returns the id in a body, or the error of its verification.
func parseByHand(verified error, body []byte) (string, error) {
	if verified != nil {
		return "", verified
	}
	n := new(notification)
	err := json.Unmarshal(body, n)
	return n.OrderID, err
}
