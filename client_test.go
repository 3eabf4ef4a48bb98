package paymentsvc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestNewClientNamesTheFieldThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name, field string
		change      func(*paymentsvc.Config)
	}{
		{"no address", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "" }},
		{"a relative address", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "/api" }},
		{"an address without scheme", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "pay.example.com/api" }},
		{"an address without host", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https:///api" }},
		{"an address with nothing but a port", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://:443" }},
		{"an opaque address", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https:pay.example.com" }},
		{"another scheme", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "ftp://pay.example.com" }},
		{"http to a host that is not loopback", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "http://pay.example.com" }},
		{"http to a host that begins like loopback", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "http://127.0.0.1.example.com" }},
		{"http to a host that ends like loopback", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "http://localhost.example.com" }},
		{"a user in the address", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://u:canary@pay.example.com" }},
		{"a password that breaks the address", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://u:canary/x@pay.example.com" }},
		{"a query", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://pay.example.com/api?a=1" }},
		{"an empty query", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://pay.example.com/api?" }},
		{"a fragment", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://pay.example.com/#a" }},
		{"an empty fragment", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://pay.example.com/#" }},
		{"a line end", "BaseURL", func(c *paymentsvc.Config) { c.BaseURL = "https://pay.example.com/\n" }},
		{"no partner", "PartnerID", func(c *paymentsvc.Config) { c.PartnerID = 0 }},
		{"no project", "ProjectID", func(c *paymentsvc.Config) { c.ProjectID = 0 }},
		{"no signer", "Signer", func(c *paymentsvc.Config) { c.Signer = nil }},
		{"a nil *HMACSigner", "Signer", func(c *paymentsvc.Config) { c.Signer = (*paymentsvc.HMACSigner)(nil) }},
		{"a nil SignerFunc", "Signer", func(c *paymentsvc.Config) { c.Signer = paymentsvc.SignerFunc(nil) }},
		{"a nil *http.Transport", "HTTPClient.Transport", func(c *paymentsvc.Config) {
			c.HTTPClient = &http.Client{Transport: (*http.Transport)(nil)}
		}},
		{"a negative Timeout", "Timeout", func(c *paymentsvc.Config) { c.Timeout = -1 }},
		{"a negative MaxAttempts", "Retry.MaxAttempts", func(c *paymentsvc.Config) { c.Retry.MaxAttempts = -1 }},
		{"a negative BaseDelay", "Retry.BaseDelay", func(c *paymentsvc.Config) { c.Retry.BaseDelay = -1 }},
		{"a negative MaxDelay", "Retry.MaxDelay", func(c *paymentsvc.Config) { c.Retry.MaxDelay = -1 }},
		{"a negative MaxResponseBytes", "MaxResponseBytes", func(c *paymentsvc.Config) { c.MaxResponseBytes = -1 }},
		{"a header in the UserAgent", "UserAgent", func(c *paymentsvc.Config) { c.UserAgent = "a\r\nX-Other: 1" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := paymentsvc.Config{
				BaseURL: "https://pay.example.com/api", PartnerID: testPartner, ProjectID: testProject, Signer: testSigner(t),
			}
			test.change(&cfg)
			c, err := paymentsvc.NewClient(cfg)
			assert.Nil(t, c)
			require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
			assert.Contains(t, err.Error(), test.field+":")
			assert.NotContains(t, err.Error(), "canary", "an address may hold a password by mistake")
		})
	}
}

func TestNewClientTakesTheseAddresses(t *testing.T) {
	for _, base := range []string{
		"https://pay.example.com", "https://pay.example.com/", "https://pay.example.com:8443/a/b//", "HTTPS://pay.example.com",
		"http://127.0.0.1:8080", "http://localhost", "http://[::1]:1", "http://127.9.9.9/x",
	} {
		cfg := paymentsvc.Config{BaseURL: base, PartnerID: -1, ProjectID: 1, Signer: testSigner(t)}
		_, err := paymentsvc.NewClient(cfg)
		require.NoError(t, err, base)
	}
	plain := paymentsvc.Config{BaseURL: "http://pay.internal", PartnerID: 1, ProjectID: 1, Signer: testSigner(t), AllowPlainHTTP: true}
	_, err := paymentsvc.NewClient(plain)
	require.NoError(t, err)
}

func TestEndpointsAreBelowTheBasePath(t *testing.T) {
	for base, want := range map[string]string{
		"":              "/get_balance",
		"/":             "/get_balance",
		"/api":          "/api/get_balance",
		"/api/v1//":     "/api/v1/get_balance",
		"/a%2Fb":        "/a%2Fb/get_balance",
		"/with%20space": "/with%20space/get_balance",
	} {
		var asked string
		c := newClient(t, "http://127.0.0.1"+base, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.RequestURI()
			return balanced(), nil
		})))
		_, err := c.GetBalance(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, asked)
	}
}

func TestUserAgentNamesTheSDKUnlessTheCallerNamesItself(t *testing.T) {
	for given, want := range map[string]string{"": "paymentsvc-go/" + paymentsvc.InterfaceVersion, "shop/2": "shop/2"} {
		s := newService(t, answering(http.StatusOK, balanceAnswer))
		c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.UserAgent = given })
		_, err := c.GetBalance(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, s.received()[0].Header.Get("User-Agent"))
	}
}

func TestTheCallersHTTPClientIsNotChanged(t *testing.T) {
	transport := &http.Transport{}
	given := http.Client{Transport: transport, Timeout: time.Minute}
	copied := given
	c := newClient(t, "https://pay.example.com", func(cfg *paymentsvc.Config) { cfg.HTTPClient = &given })
	assert.Equal(t, copied, given)
	assert.Nil(t, transport.TLSNextProto, "nor is its transport set up before it is used")
	assert.NotNil(t, c)
}

func TestForProjectSignsForTheOtherProjectOverTheSameConnections(t *testing.T) {
	conns := map[string]bool{}
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		bodies = append(bodies, string(body)+r.Header.Get("Signature"))
		_, _ = io.WriteString(w, balanceAnswer)
	}))
	defer server.Close()
	signed := func(as string) paymentsvc.Signer {
		return paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
			r.Header.Set("Signature", as)
			return nil
		})
	}
	first := newClient(t, server.URL, func(cfg *paymentsvc.Config) { cfg.Signer = signed("first") })
	second, err := first.ForProject(33, signed("second"))
	require.NoError(t, err)
	for _, c := range []*paymentsvc.Client{first, second, first} {
		_, err := c.GetBalance(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, []string{
		`{"partner_id":11,"project_id":22}first`,
		`{"partner_id":11,"project_id":33}second`,
		`{"partner_id":11,"project_id":22}first`,
	}, bodies)
	assert.Len(t, conns, 1)
}

func TestForProjectNamesTheArgumentThatIsWrong(t *testing.T) {
	c := newClient(t, "https://pay.example.com")
	for name, make := range map[string]func() (*paymentsvc.Client, error){
		"projectID": func() (*paymentsvc.Client, error) { return c.ForProject(0, testSigner(t)) },
		"signer":    func() (*paymentsvc.Client, error) { return c.ForProject(1, nil) },
		"Client":    func() (*paymentsvc.Client, error) { return new(paymentsvc.Client).ForProject(1, testSigner(t)) },
	} {
		other, err := make()
		assert.Nil(t, other)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		assert.Contains(t, err.Error(), name)
	}
}

func TestErrorTextTellsWhetherMoneyMayHaveMoved(t *testing.T) {
	for _, test := range []struct {
		name string
		err  paymentsvc.Error
		want string
	}{
		{"unknown start", paymentsvc.Error{Endpoint: "init_payout", Attempts: 1, HTTPStatus: 502, Err: io.ErrUnexpectedEOF},
			"paymentsvc: init_payout: outcome unknown, the request may have been carried out: HTTP 502: unexpected EOF"},
		{"unknown read", paymentsvc.Error{Endpoint: "get_balance", Attempts: 3, Err: io.ErrUnexpectedEOF},
			"paymentsvc: get_balance: unexpected EOF (after 3 attempts)"},
		{"not sent", paymentsvc.Error{Endpoint: "init_payment/card", Outcome: paymentsvc.OutcomeNotSent, Err: io.EOF},
			"paymentsvc: init_payment/card: not sent: EOF"},
		{"rejected", paymentsvc.Error{Endpoint: "init_form", Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 200, Attempts: 1, Err: io.EOF},
			"paymentsvc: init_form: rejected: HTTP 200: EOF"},
		{"the zero value", paymentsvc.Error{}, "paymentsvc: : "},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.err.Error())
			assert.Equal(t, test.want, fmt.Sprintf("%v", test.err), "a copy reads like the pointer")
		})
	}
	assert.Equal(t, "unknown, not sent, rejected", strings.Join([]string{
		paymentsvc.OutcomeUnknown.String(), paymentsvc.OutcomeNotSent.String(), paymentsvc.OutcomeRejected.String(),
	}, ", "))
}

func TestErrorOfARejectedSignatureNamesTheClocks(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		date   time.Duration // of the service's clock, less the local one
		waits  time.Duration // before the request leaves, for a connection or a rate limiter
		want   string
	}{
		{"the clock is right", 401, 0, 0, "unauthorized; the timestamp was 0s old when the answer came"},
		{"the clock is behind", 401, 90 * time.Second, 0,
			"unauthorized; the timestamp was 0s old when the answer came; the local clock is 1m30s behind the service's"},
		{"the clock is ahead", 403, -time.Hour, 0, "forbidden: without Config.DecodeError this may be a proxy's answer" +
			"; the timestamp was 0s old when the answer came; the local clock is 1h0m0s ahead of the service's"},
		{"the request left late", 401, 0, 20 * time.Second, "unauthorized; the timestamp was 20s old when the answer came"},
		{"not about a signature", 404, 0, 0, "not found: without Config.DecodeError this may be a proxy's answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, "http://127.0.0.1", over(roundTripFunc(func(*http.Request) (*http.Response, error) {
					time.Sleep(test.waits)
					date := time.Now().Add(test.date).UTC().Format(http.TimeFormat)
					return canned(test.status, http.Header{"Date": {date}}, ""), nil
				})))
				_, err := c.GetBalance(t.Context())
				require.EqualError(t, err, fmt.Sprintf("paymentsvc: get_balance: %sHTTP %d: %s",
					map[bool]string{true: "rejected: "}[test.status == 401], test.status, test.want))
			})
		})
	}
}
