package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/PaddleHQ/paddle-go-sdk/v4"
	"github.com/go-resty/resty/v2"
	"github.com/stripe/stripe-go/v82"

	"github.com/paymentsvc/paymentsvc"
)

// responseFor returns the service's response to a library's client. All responses have the same length.
func responseFor(who string) []byte {
	const size = 220
	switch who {
	case "stripe-go":
		return padded(
			`{"id":"`+orderID+`","object":"payment_intent","amount":1050,"currency":"eur","description":"%s"}`, size,
		)
	case "paddle":
		return padded(`{"data":{"id":"`+orderID+`","status":"active","email":"payer@example.com","name":"%s"}}`, size)
	default:
		return padded(
			`{"order_id":"`+orderID+`","status":0,"status_code":0,"redirect_url":"https://pay.example.com/%s"}`, size,
		)
	}
}

// client is a library for the tables of calls.
type client struct {
	name, who string
	// connect returns a call to the service at base. If h is nil, the library uses its default http.Client.
	connect func(base string, h *http.Client) call
}

// call makes a call and returns the id in the response.
type call func(ctx context.Context) (id string, err error)

// clients send a POST and read the response into a struct.
var clients = []client{
	{"by hand: `net/http`, `encoding/json`", byHand, connectByHand},
	{"paymentsvc: `InitPayment`", ours, connectOurs},
	{"stripe-go: `V1PaymentIntents.Create`", "stripe-go", connectStripe},
	{"paddle: `CreateCustomer`", "paddle", connectPaddle},
	{"resty: `Post`, signed by hand", "resty", connectResty},
}

func connectOurs(base string, h *http.Client) call {
	signer := must(paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret}))
	c := must(paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: base, PartnerID: 1, ProjectID: 2, Signer: signer, HTTPClient: h,
	}))
	return func(ctx context.Context) (string, error) {
		p, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
			Amount:   paymentsvc.MustParseAmount("10.50"),
			UserData: "order-1",
		})
		if err != nil {
			return "", err
		}
		return p.OrderID, nil
	}
}

type paymentRequest struct {
	PartnerID int64       `json:"partner_id"`
	ProjectID int64       `json:"project_id"`
	Amount    json.Number `json:"amount"`
	UserData  string      `json:"user_data"`
}

type payment struct {
	OrderID     string `json:"order_id"`
	Status      int64  `json:"status"`
	StatusCode  int64  `json:"status_code"`
	RedirectURL string `json:"redirect_url"`
}

// connectByHand returns a call without the SDK. The call sends the same bytes and limits the time and the response, but
// has no outcomes, retries or strict reading.
func connectByHand(base string, h *http.Client) call {
	if h == nil {
		h = &http.Client{Timeout: 30 * time.Second}
	}
	return func(ctx context.Context) (string, error) {
		body, err := json.Marshal(paymentRequest{1, 2, "10.50", "order-1"})
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/init_payment/card", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		timestamp, signature := signByHand(body)
		req.Header.Set("Timestamp", timestamp)
		req.Header.Set("Signature", signature)
		resp, err := h.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		received, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("HTTP %d", resp.StatusCode)
		}
		p := new(payment)
		err = json.Unmarshal(received, p)
		return p.OrderID, err
	}
}

func signByHand(body []byte) (timestamp, signature string) {
	timestamp = strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, timestamp+"\n")
	mac.Write(body)
	return timestamp, hex.EncodeToString(mac.Sum(nil))
}

func connectResty(base string, h *http.Client) call {
	c := resty.New()
	if h != nil {
		c = resty.NewWithClient(h)
	}
	c.SetTimeout(30 * time.Second)
	return func(ctx context.Context) (string, error) {
		body, err := json.Marshal(paymentRequest{1, 2, "10.50", "order-1"}) // signed and sent bytes must be equal
		if err != nil {
			return "", err
		}
		timestamp, signature := signByHand(body)
		p := new(payment)
		resp, err := c.R().SetContext(ctx).
			SetHeader("Content-Type", "application/json").
			SetHeader("Timestamp", timestamp).
			SetHeader("Signature", signature).
			SetBody(body).SetResult(p).
			Post(base + "/init_payment/card")
		if err != nil {
			return "", err
		}
		if resp.IsError() {
			return "", fmt.Errorf("HTTP %d", resp.StatusCode())
		}
		return p.OrderID, nil
	}
}

func connectStripe(base string, h *http.Client) call {
	c := stripe.NewClient("key", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:           new(base),
		HTTPClient:    h,
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
	return func(ctx context.Context) (string, error) {
		p, err := c.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
			Amount:      new(int64(1050)),
			Currency:    new("eur"),
			Description: new("order-1"),
		})
		if err != nil {
			return "", err
		}
		return p.ID, nil
	}
}

func connectPaddle(base string, h *http.Client) call {
	options := []paddle.Option{paddle.WithBaseURL(base)}
	if h != nil {
		options = append(options, paddle.WithClient(h))
	}
	c := must(paddle.New("key", options...))
	return func(ctx context.Context) (string, error) {
		customer, err := c.CreateCustomer(
			ctx, &paddle.CreateCustomerRequest{Email: "payer@example.com", Name: new("order-1")},
		)
		if err != nil {
			return "", err
		}
		return customer.ID, nil
	}
}

// calling returns a candidate for each client, with a shared transport, and a function that closes the connections.
func calling(ctx context.Context) (made []candidate, end func()) {
	transport := &http.Transport{MaxIdleConns: 1000, MaxIdleConnsPerHost: 100}
	services := make([]*bareService, 0, 5)
	for _, c := range clients {
		service := newBareService(responseFor(c.who))
		services = append(services, service)
		call := c.connect(service.base, &http.Client{Transport: transport, Timeout: 30 * time.Second})
		made = append(made, candidate{name: c.name, who: c.who, run: func() (string, error) { return call(ctx) }})
	}
	return made, func() {
		transport.CloseIdleConnections()
		for _, service := range services {
			service.close()
		}
	}
}

// countConnections returns a table of the connections that each client opens by default. Each round has new clients.
func countConnections(ctx context.Context, rounds, callers, calls int) (string, error) {
	type count struct {
		*candidate
		opened int64
	}
	var counts []count
	for _, c := range clients {
		var opened []int64
		for range rounds {
			service := newBareService(responseFor(c.who))
			call := c.connect(service.base, nil)
			err := spread(callers, callers*calls, func() (string, error) { return call(ctx) })
			opened = append(opened, service.opened.Load())
			service.close()
			if err != nil {
				return "", fmt.Errorf("%s: %w", c.name, err)
			}
		}
		counts = append(counts, count{&candidate{name: c.name, who: c.who}, median(opened)})
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Compare(a.opened, b.opened) })
	text := fmt.Sprintf("## Connections that %d callers open, %d calls each, with default settings\n\n"+
		"| | connections | × fewest |\n|---|--:|--:|\n", callers, calls)
	for _, c := range counts {
		text += fmt.Sprintf("| %s | %d | %.1f |\n", c.title(), c.opened, float64(c.opened)/float64(counts[0].opened))
	}
	return text, nil
}

// bareService sends the same response to every request. It does not allocate, so the table counts the client only.
type bareService struct {
	base     string
	opened   atomic.Int64
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	serving  sync.WaitGroup
}

func newBareService(body []byte) *bareService {
	s := &bareService{listener: must(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))}
	s.base = "http://" + s.listener.Addr().String()
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	s.serving.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.opened.Add(1)
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.serving.Go(func() {
				defer func() { _ = conn.Close() }()
				r := bufio.NewReader(conn)
				for skipRequest(r) == nil {
					if _, err := conn.Write(response); err != nil {
						return
					}
				}
			})
		}
	})
	return s
}

// close closes the listener and the connections, because some clients cannot close their connections.
func (s *bareService) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// skipRequest reads to the end of one request.
func skipRequest(r *bufio.Reader) error {
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
		chunked = chunked || bytes.Equal(line, []byte("Transfer-Encoding: chunked\r\n"))
		if len(line) > len("\r\n") {
			continue
		}
		for chunked {
			line, err = r.ReadSlice('\n')
			if err != nil {
				return err
			}
			chunked = !bytes.Equal(line, []byte("0\r\n")) // the last chunk
			length = len("\r\n")
		}
		_, err = r.Discard(length)
		return err
	}
}
