package docs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestMain gives the process a proxy that rejects CONNECT, since net/http reads the environment once.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	for name, value := range map[string]string{"HTTPS_PROXY": proxy.URL, "NO_PROXY": "", "no_proxy": ""} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

// TestPagesQuoteTheErrorsOfTheSDK compares the error texts of the pages with errors of the SDK, in both directions.
// Long texts are on one line, so that a search finds them.
func TestPagesQuoteTheErrorsOfTheSDK(t *testing.T) {
	var said []string
	for _, err := range []func(*testing.T) []error{
		rejectedConfigurations, failedCalls, oddTransports, oddAnswers, amounts, notificationErrors,
	} {
		for _, err := range err(t) {
			if assert.Error(t, err) {
				said = append(said, steady(err.Error()))
			}
		}
	}
	said = append(said, failedAssertions(t)...)
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	quoted := textsOfTables(string(page))
	require.Greater(t, len(quoted), 40)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "text" {
				quoted = append(quoted, strings.Split(strings.TrimSpace(b.text), "\n\n")...)
			}
		}
	}
	for _, text := range quoted {
		assert.Contains(t, said, text, "the SDK does not say it")
	}
	for _, text := range said {
		assert.Contains(t, quoted, text, "no page quotes it")
	}
}

// textsOfTables returns the error texts in the tables of docs/troubleshooting.md. Each code span in the first column is
// a text. It follows the beginning in the table's head, unless it begins with the name of a package.
func textsOfTables(page string) (texts []string) {
	span, whole := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("^(paymentsvc|json): ")
	inTable, beginning := false, ""
	for line := range strings.Lines(page) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| "):
			inTable = false
		case !inTable:
			inTable, beginning = true, ""
			if head := span.FindStringSubmatch(cell); head != nil {
				beginning = head[1] + " "
			}
		default:
			for _, text := range span.FindAllStringSubmatch(cell, -1) {
				if whole.MatchString(text[1]) {
					texts = append(texts, text[1])
				} else {
					texts = append(texts, beginning+text[1])
				}
			}
		}
	}
	return texts
}

// TestSelfExplanatoryTextsAreTheSDKs compares the errors of constructors and requests that need no page.
// docs/troubleshooting.md promises that each names the field and the expected value.
func TestSelfExplanatoryTextsAreTheSDKs(t *testing.T) {
	var texts []string
	for _, err := range selfExplanatory(t) {
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		texts = append(texts, strings.Replace(err.Error(), ": invalid request", "", 1))
	}
	const unspecified = "not set; the interface document does not specify it, so "
	assert.Equal(t, []string{
		"paymentsvc: Config: Timeout: below one millisecond; write a unit, such as 5 * time.Second",
		"paymentsvc: Config: BaseURL: not set",
		"paymentsvc: Config: BaseURL: not a URL",
		"paymentsvc: Config: BaseURL: not an absolute https URL",
		"paymentsvc: Config: BaseURL: contains a user name",
		"paymentsvc: Config: BaseURL: contains a query or a fragment",
		"paymentsvc: HMACConfig: Scheme.Encoding: " + unspecified + "it has no default",
		"paymentsvc: WebhookConfig: Tolerance: " + unspecified + "choose one, or AnyAge",
		"paymentsvc: WebhookConfig: Tolerance: not whole seconds, which timestamps have; " +
			"write a unit, such as 5 * time.Minute",
		"paymentsvc: init_payment: not sent: PaymentType (type): not card, sbp, crypto or mc",
		"paymentsvc: status_payment: not sent: OrderID (order_id) and UserData (user_data): both set, want exactly one",
		"paymentsvc: get_balance: not sent: Client: nil or zero value: use NewClient",
	}, texts)
}

// TestSelfExplanatoryRejectionsAreTheSDKs compares the errors of Handler that need no page.
func TestSelfExplanatoryRejectionsAreTheSDKs(t *testing.T) {
	const sent = `{"event":"payment.status_changed"`
	for want, r := range map[string]*http.Request{
		"method not allowed": httptest.NewRequest(http.MethodGet, "/notifications", http.NoBody),
		"the body cannot be read: unexpected EOF": httptest.NewRequest(http.MethodPost, "/notifications",
			io.MultiReader(strings.NewReader(sent), iotest.ErrReader(io.ErrUnexpectedEOF))),
		"body too large": httptest.NewRequest(http.MethodPost, "/notifications",
			strings.NewReader(strings.Repeat(" ", 64<<10+1))),
	} {
		r.Header = http.Header{"Timestamp": {"1700000000"}, "Signature": {"00"}}
		assert.EqualError(t, handled(t, r), "paymentsvc: notification: "+want)
	}
}

// handled returns the error of a request that Handler rejects.
func handled(t *testing.T, r *http.Request) (rejected error) {
	t.Helper()
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
		OnError: func(_ *http.Request, err error) { rejected = err },
	})
	require.NoError(t, err)
	handler := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { return nil })
	handler.ServeHTTP(httptest.NewRecorder(), r)
	return rejected
}

// steady replaces the loopback addresses of a test, and Windows' words for a refused connection.
func steady(text string) string {
	const windows = "connectex: No connection could be made because the target machine actively refused it."
	text = strings.ReplaceAll(text, windows, "connect: connection refused")
	return loopback.ReplaceAllString(text, "203.0.113.10:443")
}

var loopback = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func signer(canonical paymentsvc.CanonicalFunc, key paymentsvc.Secret) paymentsvc.Signer {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: canonical, Encoding: paymentsvc.Hex},
		Secret: key, SecretEndsInLineBreak: true, // only failedAssertions' does
		Now: func() time.Time { return time.Unix(1_700_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	return signer
}

type call func(*paymentsvc.Client) error

func startPayment(c *paymentsvc.Client) error {
	_, err := c.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
	})
	return err
}

func startPayout(c *paymentsvc.Client) error {
	_, err := c.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
	})
	return err
}

func readBalance(c *paymentsvc.Client) error {
	_, err := c.GetBalance(context.Background())
	return err
}

// calling makes a call with a configuration that change has changed.
func calling(t *testing.T, call call, change func(*paymentsvc.Config)) error {
	t.Helper()
	cfg := paymentsvc.Config{
		BaseURL: "https://pay.example.com", PartnerID: 7, ProjectID: 42, Signer: signer(scheme.Canonical, secret),
		Retry: paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
	}
	change(&cfg)
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return call(client)
}

// atService makes a call to the fake, every answer of which has the faults.
func atService(t *testing.T, call call, change func(*paymentsvc.Config), faults ...paymentsvctest.Fault) error {
	t.Helper()
	srv := paymentsvctest.Start(t, paymentsvctest.Config{ // where foreign transports reach it
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: secret}}, Scheme: scheme,
	})
	if len(faults) > 0 {
		srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), faults...)
	}
	return calling(t, call, func(c *paymentsvc.Config) {
		retry := c.Retry
		*c = srv.ClientConfig(42)
		c.Retry = retry
		change(c)
	})
}

func asItIs(*paymentsvc.Config) {}

func withoutDecoder(c *paymentsvc.Config) { c.DecodeError = nil }

func signedOver(canonical paymentsvc.CanonicalFunc) func(*paymentsvc.Config) {
	return func(c *paymentsvc.Config) { c.Signer = signer(canonical, secret) }
}

func over(transport http.RoundTripper) func(*paymentsvc.Config) {
	return func(c *paymentsvc.Config) { c.HTTPClient = &http.Client{Transport: transport} }
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func rejectedConfigurations(t *testing.T) []error {
	written, err := secret.MarshalText()
	require.NoError(t, err)
	list := []error{
		calling(t, startPayment, func(c *paymentsvc.Config) { c.BaseURL = "http://pay.example.com" }),
	}
	for _, c := range []paymentsvc.HMACConfig{
		{Scheme: paymentsvc.Scheme{Encoding: paymentsvc.Hex}, Secret: secret},
		{Scheme: scheme},
		{Scheme: scheme, Secret: " \n"},
		{Scheme: scheme, Secret: secret + "\n"},
		{Scheme: scheme, Secret: "\ufeff" + secret},
		{Scheme: scheme, Secret: paymentsvc.Secret(written)},
	} {
		_, err := paymentsvc.NewHMACSigner(c)
		list = append(list, err)
	}
	_, err = canonical.ParseScheme(`hex(timestamp "." bdy)`)
	return append(list, err)
}

// selfExplanatory are errors of constructors and requests with a text that needs no page.
func selfExplanatory(t *testing.T) []error {
	list := []error{calling(t, startPayment, func(c *paymentsvc.Config) { c.Timeout = 30 })}
	for _, address := range []string{
		"", "https://pay.example.com:port", "pay.example.com", "https://me@pay.example.com", "https://pay.example.com/?v=1",
	} {
		list = append(list, calling(t, startPayment, func(c *paymentsvc.Config) { c.BaseURL = address }))
	}
	_, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: scheme.Canonical}, Secret: secret,
	})
	list = append(list, err)
	for _, tolerance := range []time.Duration{0, 5} {
		_, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: tolerance,
		})
		list = append(list, err)
	}
	return append(list,
		calling(t, func(c *paymentsvc.Client) error {
			_, err := c.InitPayment(t.Context(), "cash", paymentsvc.PaymentRequest{})
			return err
		}, asItIs),
		calling(t, func(c *paymentsvc.Client) error {
			_, err := c.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "o-1", UserData: "order-1"})
			return err
		}, asItIs),
		readBalance(new(paymentsvc.Client)),
	)
}

// failedCalls are errors of calls that get no answer, or are not sent.
func failedCalls(t *testing.T) []error {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer stranger.Close()
	notFound := func(context.Context, string, string) (net.Conn, error) {
		unknown := &net.DNSError{Err: "no such host", Name: "pay.example.com", IsNotFound: true}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: unknown}
	}
	onlyV4 := func(context.Context, string, string) (net.Conn, error) {
		refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}, Err: refused}
	}
	otherName := func(context.Context, string, string) (net.Conn, error) {
		certificate := &x509.Certificate{DNSNames: []string{"www.example.net"}}
		wrong := x509.HostnameError{Certificate: certificate, Host: "pay.example.com"}
		return nil, &tls.CertificateVerificationError{Err: wrong}
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	silent := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	var late error
	synctest.Test(t, func(t *testing.T) { late = calling(t, startPayment, over(silent)) })
	return []error{
		late,
		calling(t, startPayment, func(c *paymentsvc.Config) { c.BaseURL = gone.URL }),
		calling(t, startPayout, func(c *paymentsvc.Config) {
			over(roundTrip(http.DefaultTransport.RoundTrip))(c)
			c.BaseURL = gone.URL
		}),
		calling(t, startPayment, over(&http.Transport{DialContext: notFound})),
		calling(t, startPayment, over(&http.Transport{DialContext: onlyV4})),
		calling(t, startPayment, func(c *paymentsvc.Config) {
			// With roots of its own, Go verifies by itself on every system, and words the error itself.
			over(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}})(c)
			c.BaseURL = stranger.URL
		}),
		calling(t, startPayment, over(&http.Transport{DialTLSContext: otherName})),
		calling(t, startPayment, func(c *paymentsvc.Config) { c.BaseURL = strings.Replace(plain.URL, "http:", "https:", 1) }),
		calling(t, startPayment, func(c *paymentsvc.Config) {
			c.BaseURL = strings.Replace(stranger.URL, "https:", "http:", 1)
		}),
		calling(t, startPayment, asItIs), // through TestMain's proxy
		atService(t, startPayment, asItIs, paymentsvctest.Drop(paymentsvctest.AfterCommit)),
		atService(t, startPayment, signedOver(canonical.Field("merchant"))),
		calling(t, func(c *paymentsvc.Client) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
				Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
			})
			return err
		}, asItIs),
		calling(t, func(c *paymentsvc.Client) error {
			_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{UserData: "order-1"})
			return err
		}, asItIs),
		calling(t, func(c *paymentsvc.Client) error {
			_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
				Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1", CardData: `{"number":"4111111111111111"}`,
			})
			return err
		}, asItIs),
		func() error {
			_, err := json.Marshal(paymentsvc.PaymentRequest{})
			return err
		}(),
	}
}

// oddTransports are errors of calls over an http.Client that is not the SDK's.
func oddTransports(t *testing.T) []error {
	again := roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		for range 2 {
			r.Body = io.NopCloser(bytes.NewReader(body))
			var resp *http.Response
			resp, err = http.DefaultTransport.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
		}
		return nil, err
	})
	broken := roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no token for 4111111111111111")
	})
	goAway := roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown " +
			"GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error")
	})
	http2Only := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		_, _ = conn.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // SETTINGS, the first frame of a server
		_ = conn.Close()
	}))
	defer http2Only.Close()
	return []error{
		calling(t, startPayout, over(goAway)),
		calling(t, startPayout, func(c *paymentsvc.Config) { c.BaseURL = http2Only.URL }),
		atService(t, startPayout, over(again)),
		calling(t, startPayout, over(broken)),
	}
}

// answered makes a call that is answered after a while of fake time.
func answered(
	t *testing.T, call call, after time.Duration, change func(*paymentsvc.Config), status int, body string,
) (err error) {
	synctest.Test(t, func(t *testing.T) {
		err = calling(t, call, func(c *paymentsvc.Config) {
			c.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				time.Sleep(after)
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})}
			change(c)
		})
	})
	return err
}

func withDecoder(c *paymentsvc.Config) {
	c.DecodeError = paymentsvc.ErrorFields("error_code", "error_message")
}

// oddAnswers are errors of calls that the service, or something before it, answers.
func oddAnswers(t *testing.T) []error {
	const reported, page = `{"error_code":"E17","error_message":"limit"}`, "<h1>denied</h1>"
	var behind error
	synctest.Test(t, func(t *testing.T) {
		behind = calling(t, startPayment, func(c *paymentsvc.Config) {
			withDecoder(c)
			over(roundTrip(func(*http.Request) (*http.Response, error) {
				date := time.Now().Add(7 * time.Minute).UTC().Format(http.TimeFormat)
				body := io.NopCloser(strings.NewReader(reported))
				return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Date": {date}}, Body: body}, nil
			}))(c)
		})
	})
	return []error{
		behind,
		answered(t, startPayment, 0, asItIs, 401, ""),
		answered(t, startPayment, 20*time.Second, withDecoder, 401, reported),
		answered(t, startPayment, 0, withDecoder, 401, reported),
		answered(t, startPayment, 0, asItIs, 403, page),
		answered(t, startPayment, 0, withDecoder, 403, page),
		answered(t, startPayment, 0, asItIs, 409, ""),
		answered(t, startPayment, 0, asItIs, 429, ""),
		answered(t, startPayment, 0, withDecoder, 429, reported),
		answered(t, readBalance, 0, asItIs, 502, page),
		answered(t, startPayment, 0, withDecoder, 200, reported),
		answered(t, startPayment, 0, withDecoder, 200, `{"order_id":"o-1","status":1,"status_code":10,"error_code":"00"}`),
		answered(t, startPayment, 0, asItIs, 200, "<p>please log in</p>"),
		answered(t, startPayment, 0, asItIs, 200, ""),
		answered(t, startPayment, 0, asItIs, 200, `{"order_id":"o-1","order_id":"o-2","status":1,"status_code":10}`),
		answered(t, startPayment, 0, asItIs, 200, `{"status":1,"status_code":10}`),
		answered(t, startPayment, 0, asItIs, 200, `{"order_id":"o-1","status":"OK","status_code":10}`),
		atService(t, startPayment, withoutDecoder, paymentsvctest.Cut(10)),
		atService(t, startPayment, withoutDecoder, paymentsvctest.Oversized(2<<20)),
		atService(t, startPayment, withoutDecoder,
			paymentsvctest.Redirect(paymentsvctest.BeforeCommit, "https://elsewhere.example")),
	}
}

func amounts(*testing.T) []error {
	_, comma := paymentsvc.ParseAmount("10,50")
	_, inexact := paymentsvc.MustParseAmount("10.505").Minor(2)
	return []error{new(paymentsvc.Amount).Scan(10.5), comma, inexact}
}

// notificationErrors are errors of notifications with something wrong.
func notificationErrors(t *testing.T) (list []error) {
	const body = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50}`
	sent := time.Unix(1_700_000_000, 0)
	parse := func(now time.Time, canonical paymentsvc.CanonicalFunc, signed, body string, change func(http.Header)) {
		signature, err := scheme.Signature(secret, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte(signed)})
		require.NoError(t, err)
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme:  paymentsvc.Scheme{Canonical: canonical, Encoding: paymentsvc.Hex},
			Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute, Now: func() time.Time { return now },
		})
		require.NoError(t, err)
		header := http.Header{"Timestamp": {"1700000000"}, "Signature": {signature}}
		change(header)
		_, err = webhook.Parse(header, []byte(body))
		list = append(list, err)
	}
	for _, change := range []func(http.Header){
		func(h http.Header) { h.Del("Signature") },
		func(h http.Header) { h["signature"] = []string{"x"} },
		func(h http.Header) { h.Set("Timestamp", "2023-11-14T22:13:20Z") },
		func(h http.Header) { h.Set("Timestamp", "1700000000000") },
	} {
		parse(sent, scheme.Canonical, body, body, change)
	}
	parse(sent, scheme.Canonical, "compressed", body, func(h http.Header) { h.Set("Content-Encoding", "gzip") })
	parse(sent, scheme.Canonical, "\x1f\x8b", "\x1f\x8b", func(h http.Header) { h.Set("Content-Encoding", "gzip") })
	none := func(http.Header) {}
	parse(sent, scheme.Canonical, body, strings.ReplaceAll(body, ",", ", "), none)
	parse(sent.Add(10*time.Minute), scheme.Canonical, body, body, none)
	parse(sent.Add(-10*time.Minute), scheme.Canonical, body, body, none)
	parse(sent, canonical.Path, body, body, none)
	parse(sent, canonical.Header("X-Request-Id"), body, body, none)
	noAmount := strings.Replace(body, "amount", "sum", 1)
	parse(sent, scheme.Canonical, noAmount, noAmount, none)

	read := httptest.NewRequest(http.MethodPost, "/notifications", http.NoBody)
	read.Header = http.Header{"Timestamp": {"1700000000"}, "Signature": {"00"}}
	list = append(list, handled(t, read))
	below, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:  paymentsvc.Scheme{Canonical: canonical.PathBelow("/shop"), Encoding: paymentsvc.Hex},
		Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(body)) // a proxy has cut /shop off
	r.Header = http.Header{"Timestamp": {"1700000000"}, "Signature": {"00"}}
	_, err = below.ParseRequest(r)
	return append(list, err)
}

// recorder is a test that keeps what it is told instead of failing.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

// failedAssertions are the messages of assertions that fail.
func failedAssertions(t *testing.T) (list []string) {
	for _, wrong := range []paymentsvc.Signer{
		signer(scheme.Canonical, secret+"\n"),
		signer(canonical.Join("\n", canonical.Timestamp, canonical.BodySorted), secret),
	} {
		srv, client := service(t)
		client, err := client.ForProject(42, wrong)
		require.NoError(t, err)
		require.Error(t, startPayment(client))
		r := &recorder{TB: t}
		srv.AssertAllSigned(r)
		list = append(list, r.text)
	}
	srv, client := service(t)
	require.NoError(t, startPayment(client))
	require.NoError(t, startPayment(client))
	r := &recorder{TB: t}
	srv.AssertStarted(r, "order-1", 1)
	return append(list, r.text)
}
