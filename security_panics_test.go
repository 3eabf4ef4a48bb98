package paymentsvc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// childVariable says to a test which this binary runs in a process of its own what to do there.
const childVariable = "PAYMENTSVC_TEST_CHILD"

// runChild runs the test of this name alone in a process of its own, where childVariable is task, and gives what it
// prints and how it ends.
func runChild(t *testing.T, task string, environment ...string) (string, error) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=1m")
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			child.Env = append(child.Env, variable)
		}
	}
	child.Env = append(child.Env, childVariable+"="+task, "GORACE=atexit_sleep_ms=0") // or each would take a second
	child.Env = append(child.Env, environment...)
	output, err := child.CombinedOutput()
	return string(output), err
}

// holdsNothing searches text for the canary as it stands, in hexadecimal, in base64 and as a list of numbers.
func holdsNothing(t testing.TB, name, text string) {
	t.Helper()
	number := strings.TrimPrefix(canary, "CANARY-")
	spelled := []string{canary, number, base64.RawStdEncoding.EncodeToString([]byte(canary))[:28]}
	for _, s := range []string{canary, number} {
		numbers := strings.Trim(fmt.Sprintf("%d", []byte(s)), "[]")
		spelled = append(spelled, numbers, hex.EncodeToString([]byte(s)), fmt.Sprintf("% x", s))
	}
	for _, s := range spelled {
		if at := strings.Index(strings.ToLower(text), strings.ToLower(s)); at >= 0 {
			t.Errorf("%s shows the canary as %q: …%s", name, s, text[max(0, at-200):min(len(text), at+100)])
			return
		}
	}
}

// panicking is a card that panics as it is encoded.
type panicking struct{ Number string }

func (panicking) MarshalJSON() ([]byte, error) { panic("MarshalJSON") }

// panics are the places where code that is not this package's runs inside a call or a notification. Each panics with
// its own name, while the secret and the card number are in memory.
func panics(t *testing.T) map[string]func() {
	t.Helper()
	base := newServer(t, answering(http.StatusOK, paymentAnswer))
	good := canarySigner(t, testScheme())
	call := func(option func(*paymentsvc.Config)) func() {
		return func() {
			c := newClient(t, base, func(cfg *paymentsvc.Config) { cfg.Signer = good }, option)
			_, _ = c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
			_, _ = c.InitPayout(t.Context(), canaryPayout())
		}
	}
	deliver := func(option func(*paymentsvc.WebhookConfig)) func() {
		return func() {
			body := strings.Replace(hookBody, "order-1", canary, 1)
			webhook := newHook(t, option, withSecrets(canary))
			header := http.Header{"Timestamp": {hookClockShown}, "Signature": {plainSignature(canary, hookClockShown, body)}}
			r := hookRequest(body)
			r.Header = header
			answerOf(webhook.Handler(func(context.Context, *paymentsvc.Notification) error { panic("webhook function") }), r)
		}
	}
	broken := func(place string) paymentsvc.CanonicalFunc {
		return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
			_ = append(dst, m.Body...)
			panic(place)
		}
	}
	return map[string]func(){
		"CanonicalFunc": call(func(cfg *paymentsvc.Config) {
			scheme := testScheme()
			scheme.Canonical = broken("CanonicalFunc")
			cfg.Signer = canarySigner(t, scheme)
		}),
		"Encoding": call(func(cfg *paymentsvc.Config) {
			scheme := testScheme()
			scheme.Encoding = encodingFunc(func([]byte, []byte) []byte { panic("Encoding") })
			cfg.Signer = canarySigner(t, scheme)
		}),
		"Signer": call(func(cfg *paymentsvc.Config) {
			cfg.Signer = paymentsvc.SignerFunc(func(*http.Request, []byte) error { panic("Signer") })
		}),
		"RoundTripper": call(over(roundTripFunc(func(*http.Request) (*http.Response, error) { panic("RoundTripper") }))),
		"DecodeError": call(func(cfg *paymentsvc.Config) {
			cfg.DecodeError = func(int, []byte) *paymentsvc.ServiceError { panic("DecodeError") }
		}),
		"OnAttempt": call(func(cfg *paymentsvc.Config) {
			cfg.OnAttempt = func(context.Context, paymentsvc.Attempt) { panic("OnAttempt") }
		}),
		"MarshalJSON": func() {
			r := canaryPayment()
			r.CardData = panicking{canary}
			_, _ = newClient(t, base).InitPayment(t.Context(), paymentsvc.PaymentTypeCard, r)
		},
		"CanonicalFunc of a notification": deliver(func(c *paymentsvc.WebhookConfig) {
			c.Scheme.Canonical = broken("CanonicalFunc of a notification")
		}),
		"webhook function": deliver(func(*paymentsvc.WebhookConfig) {}),
	}
}

type encodingFunc func(dst, src []byte) []byte

func (f encodingFunc) AppendEncode(dst, src []byte) []byte { return f(dst, src) }

func canarySigner(t testing.TB, scheme paymentsvc.Scheme) *paymentsvc.HMACSigner {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: canary})
	require.NoError(t, err)
	return signer
}

// A process that dies of a panic prints the panic's value and, with GOTRACEBACK=all, the stacks of all goroutines with
// the words of their arguments. What is printed must hold neither the secret nor the card number, also not of a call
// that waits for its answer meanwhile.
func TestACrashInForeignCodeShowsNothing(t *testing.T) {
	if place := os.Getenv(childVariable); place != "" {
		asked, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		base := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(asked)
			<-release
		}))
		c := newClient(t, base, func(cfg *paymentsvc.Config) { cfg.Signer = canarySigner(t, testScheme()) })
		go func() { _, _ = c.InitPayout(t.Context(), canaryPayout()) }()
		<-asked
		dies := panics(t)[place]
		survived := make(chan struct{})
		go func() { // not in the test's own goroutine, whose deferred functions would end the call that waits
			dies()
			close(survived)
		}()
		<-survived
		return
	}
	for place := range panics(t) {
		t.Run(place, func(t *testing.T) {
			output, err := runChild(t, place, "GOTRACEBACK=all")
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the process dies: %s", output)
			assert.Contains(t, output, "panic: "+place, "of this panic")
			assert.Contains(t, output, "paymentsvc.(*Client).InitPayout", "the stack of the call that waits is there")
			holdsNothing(t, place, output)
		})
	}
}

// canaryCalls has a payment and a payout wait for their answers, their card numbers in memory, until release is called.
func canaryCalls(t *testing.T) (release func()) {
	t.Helper()
	asked, answer := make(chan struct{}), make(chan struct{})
	base := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		answering(http.StatusOK, paymentAnswer)(w, r)
	}))
	c := newClient(t, base, func(cfg *paymentsvc.Config) { cfg.Signer = canarySigner(t, testScheme()) })
	done := make(chan error)
	go func() {
		_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
		done <- err
	}()
	go func() {
		_, err := c.InitPayout(t.Context(), canaryPayout())
		done <- err
	}()
	<-asked
	<-asked
	return func() {
		close(answer)
		require.NoError(t, errors.Join(<-done, <-done))
	}
}

func TestProfilesOfCallsUnderWayShowNothingAndHaveNoLabels(t *testing.T) {
	release := canaryCalls(t)
	defer release()
	for _, profile := range pprof.Profiles() {
		for debug := range 3 {
			var out bytes.Buffer
			require.NoError(t, profile.WriteTo(&out, debug))
			text := out.String()
			if debug == 0 {
				z, err := gzip.NewReader(&out)
				require.NoError(t, err)
				data, err := io.ReadAll(z)
				require.NoError(t, err)
				text = string(data)
			}
			holdsNothing(t, fmt.Sprintf("profile %s, debug=%d", profile.Name(), debug), text)
			if profile.Name() == "goroutine" {
				assert.Contains(t, text, "InitPayout", "the calls are in the profile")
				assert.NotContains(t, text, "labels:", "the SDK sets no labels")
			}
		}
	}
}

// The runtime prints a panic's value without package fmt.
func TestAPanicWithASecretAsItsValueShowsNothing(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		panic(paymentsvc.Secret(canary))
	}
	output, err := runChild(t, "panic")
	require.Error(t, err)
	assert.Contains(t, output, "panic: ")
	holdsNothing(t, "a panic", output)
}
