package docs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Every text block of the pages is something that the SDK says, and is made here anew. made holds them by the
// situation that they come from; nothing else may stand in a text block.
func made() map[string]func(t *testing.T) string {
	all := map[string]func(t *testing.T) string{}
	for name, f := range refusedConfigurations() {
		all["configuration: "+name] = said(f)
	}
	for name, f := range failedCalls() {
		all["call: "+name] = said(f)
	}
	for name, f := range amounts() {
		all["amount: "+name] = said(f)
	}
	for name, f := range refusedNotifications() {
		all["notification: "+name] = said(f)
	}
	for name, f := range failedTests() {
		all["test: "+name] = f
	}
	return all
}

// said gives the text of an error.
func said(f func(t *testing.T) error) func(t *testing.T) string {
	return func(t *testing.T) string {
		err := f(t)
		require.Error(t, err)
		return err.Error()
	}
}

func TestEveryTextOnThePagesIsWhatTheSDKSays(t *testing.T) {
	quoted := map[string]string{} // by text: where it stands
	for _, page := range pages(t) {
		for _, block := range page.blocks {
			if block.Lang == "text" {
				quoted[oneLine(block.Text)] = page.at(block)
			}
		}
	}
	require.NotEmpty(t, quoted)
	found := map[string]bool{}
	for name, f := range made() {
		t.Run(name, func(t *testing.T) {
			text := oneLine(steady(f(t)))
			if quoted[text] == "" {
				t.Errorf("no page quotes it in a text block: %s", text)
			}
			found[text] = true
		})
	}
	if t.Failed() {
		return
	}
	for text, where := range quoted {
		if !found[text] {
			t.Errorf("%s: nothing here makes this text: %s", where, text)
		}
	}
}

// oneLine undoes the line breaks that keep a page within its width.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// steady replaces the loopback addresses of a test by the service's, and Windows' words for a refusal by Unix's.
func steady(text string) string {
	const windows = "connectex: No connection could be made because the target machine actively refused it."
	text = strings.ReplaceAll(text, windows, "connect: connection refused")
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "203.0.113.10:443")
}

const (
	secret  paymentsvc.Secret = "project-secret-key-of-these-tests"
	partner int64             = 7
	project int64             = 42
)

// scheme is these tests' choice; the document shows none.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

func signer(s paymentsvc.Scheme) paymentsvc.Signer {
	made, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: s, Secret: secret})
	if err != nil {
		panic(err)
	}
	return made
}

func config(change ...func(*paymentsvc.Config)) paymentsvc.Config {
	cfg := paymentsvc.Config{
		BaseURL: "https://pay.example.com", PartnerID: partner, ProjectID: project, Signer: signer(scheme()),
		Retry: paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func newClient(t *testing.T, cfg paymentsvc.Config) *paymentsvc.Client {
	t.Helper()
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// fake gives the service of package paymentsvctest and the configuration of a client for it.
func fake(t *testing.T) (*paymentsvctest.Server, paymentsvc.Config) {
	t.Helper()
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: partner,
		Projects:  []paymentsvctest.Project{{ID: project, Secret: secret}},
		Scheme:    scheme(),
	})
	cfg := srv.ClientConfig(project)
	cfg.Retry = config().Retry
	return srv, cfg
}

func pay(c *paymentsvc.Client) error {
	_, err := c.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
	})
	return err
}

func payOut(c *paymentsvc.Client) error {
	_, err := c.InitPayout(context.Background(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
	})
	return err
}

func balance(c *paymentsvc.Client) error {
	_, err := c.GetBalance(context.Background())
	return err
}

// refusedConfigurations are errors of the constructors.
func refusedConfigurations() map[string]func(t *testing.T) error {
	client := func(change func(*paymentsvc.Config)) func(*testing.T) error {
		return func(*testing.T) error {
			_, err := paymentsvc.NewClient(config(change))
			return err
		}
	}
	hmac := func(c paymentsvc.HMACConfig) func(*testing.T) error {
		return func(*testing.T) error {
			_, err := paymentsvc.NewHMACSigner(c)
			return err
		}
	}
	return map[string]func(t *testing.T) error{
		"http":         client(func(c *paymentsvc.Config) { c.BaseURL = "http://pay.example.com" }),
		"no canonical": hmac(paymentsvc.HMACConfig{Scheme: paymentsvc.Scheme{Encoding: paymentsvc.Hex}, Secret: secret}),
		"empty secret": hmac(paymentsvc.HMACConfig{Scheme: scheme()}),
		"a secret that was written as text": func(t *testing.T) error {
			written, err := secret.MarshalText()
			require.NoError(t, err)
			return hmac(paymentsvc.HMACConfig{Scheme: scheme(), Secret: paymentsvc.Secret(written)})(t)
		},
		"no tolerance": func(*testing.T) error {
			_, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}})
			return err
		},
	}
}

// struck makes a call whose every attempt goes wrong with the faults.
func struck(endpoint string, call func(*paymentsvc.Client) error, faults ...paymentsvctest.Fault) func(*testing.T) error {
	return func(t *testing.T) error {
		srv, cfg := fake(t)
		srv.Fault(endpoint, paymentsvctest.Every(), faults...)
		return call(newClient(t, cfg))
	}
}

// undecoded is struck for a client that knows nothing of the service's error fields.
func undecoded(call func(*paymentsvc.Client) error, faults ...paymentsvctest.Fault) func(*testing.T) error {
	return func(t *testing.T) error {
		srv, cfg := fake(t)
		cfg.DecodeError = nil
		srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), faults...)
		return call(newClient(t, cfg))
	}
}

func answered(call func(*paymentsvc.Client) error, status int, body string) func(*testing.T) error {
	return undecoded(call, paymentsvctest.Answer(paymentsvctest.BeforeCommit, status, "text/html", body))
}

// signed makes a payment that is signed with another scheme than the service's.
func signed(s paymentsvc.CanonicalFunc) func(*testing.T) error {
	return func(t *testing.T) error {
		_, cfg := fake(t)
		cfg.Signer = signer(paymentsvc.Scheme{Canonical: s, Encoding: paymentsvc.Hex})
		return pay(newClient(t, cfg))
	}
}

// over makes a call through a transport.
func over(rt http.RoundTripper, call func(*paymentsvc.Client) error) func(*testing.T) error {
	return func(t *testing.T) error {
		return call(newClient(t, config(func(c *paymentsvc.Config) { c.HTTPClient = &http.Client{Transport: rt} })))
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// nobody is an address of this machine at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// asProcess makes TestMain pay, with the environment that the client's own transport reads once in a process.
const asProcess = "PAYMENTSVC_DOCS_PAYS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	client, err := paymentsvc.NewClient(config())
	if err == nil {
		err = pay(client)
	}
	fmt.Print(err)
}

// inProcess gives the error of a payment that a process of its own tries to make.
func inProcess(t *testing.T, env ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, asProcess+"=1")...)
	output, err := cmd.Output()
	require.NoError(t, err)
	return errors.New(string(output))
}

// failedCalls are errors of a Client's calls.
func failedCalls() map[string]func(t *testing.T) error {
	refusing := func(change func(*paymentsvc.Config), call func(*paymentsvc.Client) error) func(*testing.T) error {
		return func(t *testing.T) error {
			return call(newClient(t, config(change, func(c *paymentsvc.Config) { c.BaseURL = nobody(t) })))
		}
	}
	return map[string]func(t *testing.T) error{
		"a signature refused":               undecoded(pay, paymentsvctest.Answer(paymentsvctest.BeforeCommit, 401, "text/plain", "")),
		"a signature refused, by a decoder": signed(canonical.Body),
		"a signature refused, by a clock that is behind": func(t *testing.T) (err error) {
			synctest.Test(t, func(t *testing.T) {
				err = over(roundTripFunc(func(*http.Request) (*http.Response, error) {
					date := time.Now().Add(7 * time.Minute).UTC().Format(http.TimeFormat)
					return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
				}), pay)(t)
			})
			return err
		},
		"the canonical string cannot be made": signed(canonical.Field("merchant")),

		"nobody listens": refusing(func(*paymentsvc.Config) {}, pay),
		"nobody listens, behind a foreign RoundTripper": refusing(func(c *paymentsvc.Config) {
			c.HTTPClient = &http.Client{Transport: roundTripFunc(http.DefaultTransport.RoundTrip)}
		}, payOut),
		"no such host": over(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "pay.example.com", IsNotFound: true}}
		}}, pay),
		"a certificate that nobody vouches for": func(t *testing.T) error {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = quiet()
			s.StartTLS()
			defer s.Close()
			// Roots of one's own are looked at by Go on every system, which says it in Go's words.
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}}
			return pay(newClient(t, config(func(c *paymentsvc.Config) {
				c.BaseURL, c.HTTPClient = s.URL, &http.Client{Transport: transport}
			})))
		},
		"a proxy that refuses": func(t *testing.T) error {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusProxyAuthRequired)
			}))
			defer proxy.Close()
			return inProcess(t, "HTTPS_PROXY="+proxy.URL)
		},
		"the connection is lost": struck(paymentsvctest.InitPayment, pay, paymentsvctest.Drop(paymentsvctest.AfterCommit)),
		"no answer in time": func(t *testing.T) (err error) {
			synctest.Test(t, func(t *testing.T) {
				err = over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}), pay)(t)
			})
			return err
		},
		"ended before it began": func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := newClient(t, config()).GetBalance(ctx)
			return err
		},

		"a page instead of an answer":        answered(pay, 200, "<p>please log in</p>"),
		"an answer without a field":          answered(pay, 200, `{"status":1,"status_code":10}`),
		"an answer of the wrong type":        answered(pay, 200, `{"order_id":"o-1","status":"OK","status_code":10}`),
		"an answer that was cut off":         undecoded(pay, paymentsvctest.Cut(10)),
		"an answer that is too large":        undecoded(balance, paymentsvctest.Oversized(2<<20)),
		"a redirect":                         undecoded(pay, paymentsvctest.Redirect(paymentsvctest.BeforeCommit, "https://elsewhere.example")),
		"too many requests":                  undecoded(payOut, paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, time.Second)),
		"a conflict":                         answered(pay, 409, ""),
		"a gateway that failed":              undecoded(balance, paymentsvctest.BadGateway(paymentsvctest.BeforeCommit)),
		"an error that the service reported": struck(paymentsvctest.InitPayment, pay, paymentsvctest.Reject(200, "E17", "limit")),

		"a payment without an amount": func(t *testing.T) error {
			_, err := newClient(t, config()).InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{UserData: "order-1"})
			return err
		},
		"card data that is text": func(t *testing.T) error {
			_, err := newClient(t, config()).InitForm(t.Context(), paymentsvc.PaymentRequest{
				Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1", CardData: `{"number":"4111111111111111"}`,
			})
			return err
		},
		"a status request with both identifiers": func(t *testing.T) error {
			_, err := newClient(t, config()).StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "o-1", UserData: "order-1"})
			return err
		},
		"a Client that no constructor made": func(*testing.T) error { return balance(new(paymentsvc.Client)) },
	}
}

// amounts are errors of Amount.
func amounts() map[string]func(t *testing.T) error {
	return map[string]func(t *testing.T) error{
		"from a float column": func(*testing.T) error { return new(paymentsvc.Amount).Scan(10.5) },
		"with a comma": func(*testing.T) error {
			_, err := paymentsvc.ParseAmount("10,50")
			return err
		},
		"with more decimals than the scale": func(*testing.T) error {
			_, err := paymentsvc.MustParseAmount("10.505").Minor(2)
			return err
		},
	}
}

// quiet is a log that is not written.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
