package paymentsvctest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// signWrongly signs a message after change, and sends the unchanged message.
func signWrongly(
	t testing.TB, srv *paymentsvctest.Server, key paymentsvc.Secret, s paymentsvc.Scheme, change func(*paymentsvc.Message),
) {
	t.Helper()
	status, _ := send(t, srv, "/init_payout", payoutBody, func(r *http.Request) {
		address := *r.URL
		m := &paymentsvc.Message{
			Method: r.Method, URL: &address, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: []byte(payoutBody),
		}
		if change != nil {
			change(m)
		}
		signature, err := s.Signature(key, m)
		require.NoError(t, err)
		r.Header.Set("Signature", signature)
	})
	assert.Equal(t, http.StatusUnauthorized, status)
}

func TestSignatureFaultNamesTheMistake(t *testing.T) {
	const text = `hex(method '\n' path '\n' timestamp '\n' body)` // of scheme()
	sorted := func(m *paymentsvc.Message) {
		m.Body = []byte(`{"amount":10.50,"destination":"4111111111111111","partner_id":7,"project_id":42,` +
			`"user_data":"payout-1"}`)
	}
	for _, test := range []struct {
		name       string
		key        paymentsvc.Secret
		change     func(*paymentsvc.Message)
		schemeText string
		reason     string
		offset     int // of the difference, -1 for none
	}{
		{"the old secret", oldSecret, nil, "", "signed with the old secret", -1},
		{
			"another project's", "the secret of project 43", nil, text,
			"signed with the secret of project 43, want " + text, -1,
		},
		{
			"sorted fields", secret, sorted, text,
			`signed hex(method '\n' path '\n' timestamp '\n' body-sorted), want ` + text, 39,
		},
		{
			"a foreign key", "nobody's", nil, "", "no common mistake explains this signature " +
				"(the canonical string has 140 bytes): " +
				"the key is wrong, the message was altered, or the scheme is different", -1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
				c.Projects = append(c.Projects, paymentsvctest.Project{ID: 43, Secret: "the secret of project 43"})
				c.SchemeText = test.schemeText
			}))
			signWrongly(t, srv, test.key, scheme(), test.change)
			faults := srv.SignatureFaults()
			require.Len(t, faults, 1)
			assert.Equal(t, paymentsvctest.InitPayout, faults[0].Endpoint)
			assert.Equal(t, 1, faults[0].Number)
			assert.Equal(t, test.reason, faults[0].Reason)
			if test.offset < 0 {
				assert.Nil(t, faults[0].Difference)
			} else if assert.NotNil(t, faults[0].Difference) {
				assert.Equal(t, test.offset, faults[0].Difference.Offset, faults[0].String())
			}
			for _, hidden := range []string{string(secret), string(oldSecret), card, "4111"} {
				assert.NotContains(t, fmt.Sprintf("%v %+v", faults[0], faults[0].Difference), hidden)
			}
		})
	}
}

func TestWatchShowsTheFirstDifference(t *testing.T) {
	key := canonical.Literal(string(secret)) // some services sign it
	right := canonical.Join("|", key, canonical.Timestamp, canonical.Body)
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.Scheme.Canonical = right }))
	theirs := srv.Watch(paymentsvc.Scheme{
		Canonical: canonical.Join("|", key, canonical.Timestamp, canonical.Literal("x"), canonical.Body),
		Encoding:  paymentsvc.Hex,
	})
	for range 300 { // more than are kept
		signWrongly(t, srv, secret, theirs, nil)
	}
	faults := srv.SignatureFaults()
	require.Len(t, faults, 300)
	assert.Equal(t, `init_payout, request 300: the code under test makes another canonical string; `+
		`the canonical strings differ at byte 45: signed "|1764310000|x|{\"partner_", expected "|1764310000|{\"partner_id"`,
		faults[299].String())

	signWrongly(t, srv, "nobody's", srv.Watch(paymentsvc.Scheme{Canonical: right, Encoding: paymentsvc.Hex}), nil)
	assert.Equal(t, "the canonical string is right, so the secret or the encoding is wrong",
		srv.SignatureFaults()[300].Reason)

	incomplete := srv.Watch(paymentsvc.Scheme{Encoding: paymentsvc.Hex})
	assert.Nil(t, incomplete.Canonical, "the copy of an incomplete scheme is incomplete")
}

func TestDifferenceHidesDigitsAndSecrets(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Scheme.Canonical = canonical.Join("", canonical.Body, canonical.Literal(string(secret)))
	}))
	key := canonical.Literal(string(secret))
	theirs := func(parts ...paymentsvc.CanonicalFunc) paymentsvc.Scheme {
		return srv.Watch(paymentsvc.Scheme{Canonical: canonical.Join("", parts...), Encoding: paymentsvc.Hex})
	}
	signWrongly(t, srv, secret, theirs(canonical.Body, canonical.Literal("+"), key), nil)
	other := strings.Replace(payoutBody, card, "4111111121111111", 1)
	signWrongly(t, srv, secret, theirs(canonical.Literal(other), key), nil)
	faults := srv.SignatureFaults()
	require.Len(t, faults, 2)
	assert.Equal(t, len(payoutBody), faults[0].Difference.Offset)
	assert.Equal(t, `:"payout-#"}+***********`, faults[0].Difference.Signed)
	assert.Equal(t, `:"payout-#"}************`, faults[0].Difference.Expected)
	assert.Equal(t, strings.Index(payoutBody, card)+8, faults[1].Difference.Offset)
	assert.Equal(t, `n":"################","u`, faults[1].Difference.Signed)
	assert.Equal(t, faults[1].Difference.Expected, faults[1].Difference.Signed, "only the place shows the difference")
	signWrongly(t, srv, secret, theirs(canonical.Body, canonical.Literal(string(oldSecret))), nil)
	assert.Equal(t, `:"payout-#"}************`, srv.SignatureFaults()[2].Difference.Signed)
	assert.Equal(t, "#x", paymentsvctest.NewDifference([]byte("4x"), []byte("4y"), "4").Signed, "a timestamp is longer")
	overlapping := paymentsvctest.NewDifference([]byte("ababab"), nil, "", "abab")
	assert.Equal(t, "******", overlapping.Signed)
}

func TestSignatureFaultOfASchemeThatFails(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Scheme.Canonical = func([]byte, *paymentsvc.Message) ([]byte, error) { return nil, errors.New("no way") }
	}))
	signWrongly(t, srv, secret, scheme(), nil)
	assert.Equal(t, "the scheme rejects this message: no way", srv.SignatureFaults()[0].Reason)
}

// spy records the errors of a test without a failure.
type spy struct {
	testing.TB
	errors []string
}

func (s *spy) Helper() {}

func (s *spy) Errorf(format string, args ...any) {
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

func TestAssertMessages(t *testing.T) {
	srv, client := startFake(t, everyStartCounts)
	pay(t, client, "order-1")
	pay(t, client, "order-1")
	test := &spy{TB: t}
	srv.AssertStarted(test, "order-1", 2)
	srv.AssertStarted(test, "order-2", 0)
	srv.AssertAllSigned(test)
	srv.AssertNoneRejected(test)
	require.Empty(t, test.errors)

	srv.AssertStarted(test, "order-1", 1)
	assert.Equal(t, `paymentsvctest: 2 orders were started for user_data "order-1", want 1`, test.errors[0])

	signWrongly(t, srv, oldSecret, scheme(), nil)
	srv.AssertAllSigned(test)
	assert.Equal(t, `paymentsvctest: 1 requests have a wrong signature
  init_payout, request 1: signed with the old secret`, test.errors[1])
	srv.AssertNoneRejected(test)
	assert.Equal(t, `paymentsvctest: 1 requests were rejected
  init_payout, request 1, user_data "payout-1": signature: the signature is not that of this request`, test.errors[2])

	n, err := srv.Compose(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	require.NoError(t, err)
	srv.SetReceiver(paymentsvctest.ToHandler(http.NotFoundHandler(), "/"))
	srv.Send(t.Context(), n, paymentsvctest.Forged())
	srv.AssertForgeriesRefused(test)
	require.Len(t, test.errors, 4)
	assert.Equal(t, `paymentsvctest: a forged notification was not rejected: forged payment.status_changed `+
		`00000000-0000-4000-8000-000000000001 10.50 for user_data "order-1", FAILURE (forged): HTTP 404`,
		test.errors[3])
	for status, want := range map[int]bool{
		200: false, 302: false, 404: false, 405: false, 408: false, 429: false, 500: false, 400: true, 401: true, 403: true,
	} {
		require.Equal(t, want, paymentsvctest.Delivery{HTTPStatus: status}.Rejected(), status)
	}
	n.StatusDescription = paymentsvc.StatusFailure
	forged := srv.Send(t.Context(), n, paymentsvctest.Forged())
	assert.Equal(t, paymentsvc.StatusSuccess, forged[0].Notification.StatusDescription,
		"a forgery claims another status")
}
