package paymentsvc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"expvar"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"text/template"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// Each row of the table in SECURITY.md names at least one test. Each named test exists.
func TestSecurityThreatModelNamesTestsThatExist(t *testing.T) {
	existing := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	tree := os.DirFS(".")
	require.NoError(t, fs.WalkDir(tree, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(tree, path)
		for _, test := range declared.FindAllSubmatch(source, -1) {
			existing[string(test[1])] = true
		}
		return err
	}))

	document, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, test := range named.FindAllSubmatch(document, -1) {
		assert.True(t, existing[string(test[1])], "SECURITY.md names %s, which does not exist", test[1])
	}
	_, table, _ := strings.Cut(string(document), "| --- |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	require.Greater(t, len(rows), 20, "the table was found")
	for _, row := range rows {
		assert.Regexp(t, named, row, "the row names no test")
	}
}

// holdsNothing asserts that text does not contain the canary.
func holdsNothing(t testing.TB, name, text string) {
	t.Helper()
	if shows(text) {
		t.Errorf("%s shows the canary: %.1000s", name, text)
	}
}

// shows reports whether text contains the canary or its digits: plain, as numbers in any base of fmt, or in base64.
func shows(text string) bool {
	plain := lettersAndDigits(byteUnderVerb.ReplaceAllString(text, "$1"))
	for _, spelled := range canarySpellings {
		if strings.Contains(plain, spelled) {
			return true
		}
	}
	return strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))[:24])
}

// lettersAndDigits removes the other characters, and the letter case.
func lettersAndDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// byteUnderVerb is the output of fmt for a byte under an unsuitable verb.
var byteUnderVerb = regexp.MustCompile(`%!.\((?:uint8|int32)=(\d+)\)`)

// canarySpellings has the beginning and the digits of the canary in each format of numbers, without separators.
var canarySpellings = func() (all []string) {
	for _, word := range []string{"CANARY-400", strings.TrimPrefix(canary, "CANARY-")} {
		for _, format := range []string{"%c", "%d", "%x", "0x%x", "%o", "0%o", "0o%o", "%b", "0b%b", "u%04x"} {
			var spelled strings.Builder
			for _, b := range []byte(word) {
				fmt.Fprintf(&spelled, format, b)
			}
			all = append(all, lettersAndDigits(spelled.String()))
		}
	}
	return all
}()

// keepers returns the values with access to the secret key. The signer and the webhook have used the key, so their
// pools are filled.
func keepers(t *testing.T) map[string]any {
	t.Helper()
	signer := newSigner(t, hookScheme(), canary)
	client := newClient(t, "https://pay.example.com", signedBy(signer))
	project, err := client.ForProject(3, signer)
	require.NoError(t, err)
	webhook := newHook(t, withSecrets(canary, canary+"2"))
	require.NoError(t, signer.Sign(hookRequest(hookBody), []byte(hookBody)))
	require.Error(t, webhook.Verify(hookHeader(hookClockShown, hookBody), []byte(hookBody)))
	config := paymentsvc.Config{BaseURL: "https://pay.example.com", PartnerID: 1, ProjectID: 2, Signer: signer}
	return map[string]any{
		"*HMACSigner": signer, "HMACSigner": *signer, "*Webhook": webhook, "Webhook": *webhook, "*Client": client,
		"Client": *client, "ForProject": project, "Config": config, "*Config": &config,
	}
}

// reachable returns the text and bytes that reflection finds from v, also in unexported fields.
func reachable(v any) string {
	var found strings.Builder
	seen := map[[2]any]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			found.WriteString(v.String() + "\n")
		case reflect.Pointer, reflect.Map:
			if place := [2]any{v.Pointer(), v.Type()}; v.IsNil() || seen[place] {
				return
			} else {
				seen[place] = true
			}
			if v.Kind() == reflect.Pointer {
				walk(v.Elem())
				return
			}
			for members := v.MapRange(); members.Next(); {
				walk(members.Key())
				walk(members.Value())
			}
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				if v.Type().Elem().Kind() == reflect.Uint8 {
					found.WriteByte(byte(v.Index(i).Uint()))
				} else {
					walk(v.Index(i))
				}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		default: // no text, or a function
		}
	}
	walk(reflect.ValueOf(v))
	return found.String()
}

// Verbs of fmt. allVerbs lacks %p and %T, because they call no methods. errorVerbs suit an error.
const (
	allVerbs   = "vtbcdoOqxXUeEfFgGs"
	errorVerbs = "vsqxX"
)

// showsNothing asserts that fmt with these verbs, log/slog and encoding/json do not print the canary.
func showsNothing(t *testing.T, name string, v any, verbs string) {
	t.Helper()
	holdsNothing(t, name, printed(v, verbs))
}

// printed returns the output of fmt with these verbs, of log/slog and of encoding/json.
func printed(v any, verbs string) string {
	var out bytes.Buffer
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "# ", "20.10", ".3"} {
			fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", v)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).With("with", v).Info("message", "value", v, slog.Group("group", "value", v))
	}
	data, err := json.Marshal(v)
	fmt.Fprint(&out, string(data), err)
	return out.String()
}

// errorShowsNothing examines an error, a copy of it, and the errors of this module inside it.
func errorShowsNothing(t *testing.T, name string, v any) {
	t.Helper()
	showsNothing(t, name, v, allVerbs)
	err, ok := v.(error)
	if !ok {
		return // a copy, whose type has no Error method
	}
	// fmt calls no methods of an unexported field, or of an error inside another error under an unsuitable verb.
	showsNothing(t, name+", wrapped", fmt.Errorf("wrapped: %w", err), errorVerbs)
	showsNothing(t, name+", in a struct", struct{ Err error }{err}, errorVerbs)
	showsNothing(t, name+", in an unexported field", struct {
		err  error
		errs []error
	}{err, []error{err}}, "v")
	if e, ok := errors.AsType[*paymentsvc.Error](err); ok {
		showsNothing(t, name+", copied", *e, allVerbs)
		showsNothing(t, name+", its reason", e.Err.Error(), errorVerbs)
	}
	if service, ok := errors.AsType[*paymentsvc.ServiceError](err); ok {
		showsNothing(t, name+", reported", service, allVerbs)
		showsNothing(t, name+", reported and copied", *service, allVerbs)
	}
}

func TestSecuritySearchFindsTheCanary(t *testing.T) {
	for _, verb := range allVerbs {
		for _, v := range []any{canary, []byte(canary), []rune(canary)} {
			require.True(t, shows(fmt.Sprintf("%"+string(verb), v)), "%%%c %T", verb, v)
			require.True(t, shows(printed(v, string(verb))), "%%%c %T", verb, v)
		}
	}
	require.False(t, shows("CANARD-400005665566555"))
}

func TestSecurityNoFormatterShowsASecret(t *testing.T) {
	all := keepers(t)
	signer, webhook := all["*HMACSigner"].(*paymentsvc.HMACSigner), all["*Webhook"].(*paymentsvc.Webhook)
	client, project := all["*Client"].(*paymentsvc.Client), all["ForProject"].(*paymentsvc.Client)
	config, secret := all["Config"].(paymentsvc.Config), paymentsvc.Secret(canary)
	hmacConfig := paymentsvc.HMACConfig{Scheme: testScheme(), Secret: secret}
	webhookConfig := paymentsvc.WebhookConfig{
		Scheme: testScheme(), Secrets: []paymentsvc.Secret{canary, canary + "2"}, Tolerance: time.Minute,
	}

	maps.Copy(all, map[string]any{
		"Secret": secret, "*Secret": &secret, "[]Secret": []paymentsvc.Secret{secret},
		"[]Config":   []paymentsvc.Config{config},
		"HMACConfig": hmacConfig, "*HMACConfig": &hmacConfig, "WebhookConfig": webhookConfig,
		"*WebhookConfig": &webhookConfig,
		"Handler":        webhook.Handler(nil),
		"in exported fields": struct {
			Secret  paymentsvc.Secret
			Pointer *paymentsvc.Secret
			Any     any
			Config  paymentsvc.Config
			Client  *paymentsvc.Client
			Signer  paymentsvc.Signer
			Webhook *paymentsvc.Webhook
		}{secret, &secret, secret, config, client, signer, webhook},
		"in unexported fields, where fmt calls no method": struct {
			config    paymentsvc.Config
			pointer   *paymentsvc.Config
			client    paymentsvc.Client
			clients   []*paymentsvc.Client
			signer    paymentsvc.HMACSigner
			signers   []paymentsvc.Signer
			webhook   paymentsvc.Webhook
			byPointer *paymentsvc.Webhook
			any       []any
		}{
			config, &config, *client, []*paymentsvc.Client{client, project},
			*signer, []paymentsvc.Signer{signer}, *webhook, webhook,
			[]any{client, *client, signer, *signer, webhook, *webhook, config},
		},
	})
	for name, v := range all {
		showsNothing(t, name, v, allVerbs)
	}
	for want, v := range map[string]any{
		"Client{PartnerID: 11, ProjectID: 22}": client,
		"HMACSigner{[redacted]}":               signer, "Webhook{[redacted]}": webhook,
		"HMACConfig{[redacted]}": hmacConfig, "WebhookConfig{[redacted]}": &webhookConfig,
		"<nil>": (*paymentsvc.Client)(nil),
	} {
		assert.Equal(t, want, fmt.Sprint(v))
	}
}

func TestSecurityRequestsShowNoCardData(t *testing.T) {
	payment, payout := canaryPayment(), canaryPayout()
	for name, v := range map[string]any{
		"PaymentRequest": payment, "*PaymentRequest": &payment,
		"[]PaymentRequest": []paymentsvc.PaymentRequest{payment},
		"PayoutRequest":    payout, "*PayoutRequest": &payout,
		"[]*PayoutRequest": map[string]paymentsvc.PayoutRequest{"a": payout},
		"in exported fields": struct {
			Payment paymentsvc.PaymentRequest
			Payout  paymentsvc.PayoutRequest
			Any     any
		}{payment, payout, payout},
	} {
		showsNothing(t, name, v, allVerbs)
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("message", "payment", payment, "payout", &payout)
	assert.Contains(t, out.String(), `"card_data":"[redacted]"`)
	assert.Contains(t, out.String(), `"destination":"[redacted]"`, "slog marks the hidden destination")
	assert.Equal(t, fmt.Sprint(payment), payment.String())
	assert.Equal(t, fmt.Sprint(payout), payout.String())

	assert.Equal(t, `PaymentRequest{Amount: 10.50, UserData: "order-1", `+
		`CardData: none, Browser: none, Payer: none, Payee: none}`,
		fmt.Sprint(paymentRequest()))
	assert.Equal(
		t, `PayoutRequest{Amount: 10.50, Destination: [redacted], UserData: "payout-1"}`, fmt.Sprint(payoutRequest()),
	)
}

// complainer is a json.Marshaler with card data in its error.
type complainer struct{}

func (complainer) MarshalJSON() ([]byte, error) { return nil, errComplaint }

var errComplaint = errors.New("bad card " + canary)

func TestSecurityErrorsShowNothingOfRequestsAndResponses(t *testing.T) {
	echo := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"code":"`+canary+`","message":"`+canary+`","order_id":"`+canary+`"}`)
		}
	}
	raw := func(answer string) string {
		return newRawServer(t, func(c *net.TCPConn, _ int) bool { write(c, answer); return false }).base()
	}
	decodes := decoding(paymentsvc.ErrorFields("code", "message"))
	short := func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = 40 }

	type fault struct {
		base   string
		option func(*paymentsvc.Config)
	}
	none := func(*paymentsvc.Config) {}
	for name, f := range map[string]fault{
		"200 of another shape":       {newServer(t, echo(200)), none},
		"400":                        {newServer(t, echo(400)), none},
		"401":                        {newServer(t, echo(401)), none},
		"500":                        {newServer(t, echo(500)), none},
		"a reported error":           {newServer(t, echo(200)), decodes},
		"an oversized answer":        {newServer(t, echo(200)), short},
		"a redirect":                 {newServer(t, echo(307, "Location", "https://"+canary+".example/"+canary)), none},
		"a redirect to nowhere":      {newServer(t, echo(307, "Location", "::"+canary)), none},
		"a refused connection":       {refusingPort(t), none},
		"an answer that is not HTTP": {raw(canary + " " + canary + "\r\n\r\n"), none},
		"a status that is none":      {raw("HTTP/1.1 " + canary + "\r\n\r\n"), none},
		"a header that is none":      {raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), none},
		"a length that is none":      {raw("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n"), none},
		"an encoding that is none":   {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n"), none},
		"an echo cut off":            {raw("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + canary), none},
		"a signer's error": {
			"http://127.0.0.1",
			signedBy(paymentsvc.SignerFunc(func(*http.Request, []byte) error { return errors.New("no key") })),
		},
	} {
		c := newClient(t, f.base, f.option)
		_, payment := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
		_, payout := c.InitPayout(t.Context(), canaryPayout())
		_, form := c.InitForm(t.Context(), canaryPayment())
		_, invoice := c.InitInvoice(t.Context(), canaryPayment())
		_, status := c.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "o"})
		for _, err := range []error{payment, payout, form, invoice, status} {
			if err == nil {
				assert.Equal(t, "200 of another shape", name, "any object answers a status call")
				continue
			}
			errorShowsNothing(t, name, err)
		}
	}
}

func TestSecurityValidationErrorsShowNothing(t *testing.T) {
	c := newClient(t, "http://127.0.0.1")
	endless := map[string]any{"text": "\uFFFD"}
	endless["self"] = endless
	for name, card := range map[string]any{
		"an object in itself":          endless,
		"a channel":                    map[string]any{canary: make(chan int)},
		"a number that is not one":     map[string]any{canary: math.NaN()},
		"no bytes of JSON":             json.RawMessage{},
		"two objects":                  json.RawMessage(`{}{}`),
		"text":                         canary,
		"a list":                       []string{canary},
		"text that is not UTF-8":       map[string]any{"holder": canary + "\xff"},
		"a number that is none":        map[string]any{"number": json.Number(canary)},
		"JSON that is none":            json.RawMessage(`{"number":` + canary + `}`),
		"a marshaler that complains":   complainer{},
		"something that has no JSON":   map[string]any{canary: func() {}},
		"a field that has no JSON":     struct{ CANARY func() }{},
		"text of a marshaler, invalid": map[string]any{"a": json.RawMessage("\"" + canary + "\xff\"")},
	} {
		r := canaryPayment()
		r.CardData = card
		_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, r)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, name)
		assert.Equal(t, card == any(complainer{}), errors.Is(err, errComplaint), name)
		_, encoding := json.Marshal(card)
		assert.Equal(t, encoding != nil, strings.HasSuffix(err.Error(), "does not encode as JSON"), name)
		errorShowsNothing(t, name, err)
	}
	payout := canaryPayout()
	payout.UserData = canary + "\xff"
	_, err := c.InitPayout(t.Context(), payout)
	errorShowsNothing(t, "user_data", err)
	_, err = c.InitPayment(t.Context(), canary, canaryPayment())
	errorShowsNothing(t, "a payment type", err)
	_, err = paymentsvc.ParseAmount(canary)
	errorShowsNothing(t, "an amount", err)
	var amount paymentsvc.Amount
	errorShowsNothing(t, "an amount in JSON", amount.UnmarshalJSON([]byte(`"`+canary+`"`)))
	errorShowsNothing(t, "an amount in a column", amount.Scan(canary))
	var request paymentsvc.PaymentRequest
	errorShowsNothing(t, "a request in JSON", json.Unmarshal([]byte(`{"amount":"`+canary+`"}`), &request))
}

func TestSecurityNotificationErrorsShowNothing(t *testing.T) {
	webhook := newHook(t)
	for name, body := range map[string]string{
		"not JSON":     canary,
		"another type": `{"event":["` + canary + `"]}`,
		"another name": `{"` + canary + `":1}`,
		"an amount":    `{"amount":"` + canary + `"}`,
	} {
		_, err := webhook.Parse(hookHeader(hookClockShown, body), []byte(body))
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification, name)
		errorShowsNothing(t, name, err)
		var malformed *paymentsvc.NotificationError
		require.ErrorAs(t, err, &malformed)
		errorShowsNothing(t, name+", copied", *malformed)

		_, err = webhook.Parse(http.Header{"Timestamp": {canary}, "Signature": {canary}}, []byte(body))
		errorShowsNothing(t, name+", forged", err)
	}
}

func TestSecurityPanicReachesTheCaller(t *testing.T) {
	scheme := paymentsvc.Scheme{
		Canonical: func([]byte, *paymentsvc.Message) ([]byte, error) { panic("canonical") }, Encoding: paymentsvc.Hex,
	}
	defer func() { assert.Equal(t, "canonical", recover(), "the caller's own panic reaches the caller as it is") }()
	c := newClient(t, "http://127.0.0.1", signedBy(newSigner(t, scheme, canary)))
	_, _ = c.GetBalance(context.Background())
}

func TestSecurityFieldsLeadToNoSecret(t *testing.T) {
	for name, v := range keepers(t) {
		holdsNothing(t, name, reachable(v))
	}
	// The search finds these.
	for name, v := range map[string]any{
		"a Secret": paymentsvc.Secret(canary), "an HMACConfig": &paymentsvc.HMACConfig{Secret: canary},
		"bytes":    struct{ in []any }{[]any{map[string]*[]byte{"a": new([]byte(canary))}}},
		"an array": struct{ key [len(canary)]byte }{[len(canary)]byte([]byte(canary))},
	} {
		assert.Contains(t, reachable(v), canary, name)
	}
}

func TestSecurityOtherFormatsShowNoSecret(t *testing.T) {
	all := keepers(t)
	all["Secret"], all["[]Secret"] = paymentsvc.Secret(canary), []paymentsvc.Secret{canary}
	all["a struct with a Secret"] = struct{ Key paymentsvc.Secret }{canary}
	all["an attribute"] = struct {
		Key paymentsvc.Secret `xml:"key,attr"`
	}{canary}
	var out bytes.Buffer
	examine := func(name string, err error) {
		if err != nil {
			out.WriteString(err.Error())
		}
		holdsNothing(t, name, out.String())
		out.Reset()
	}
	for name, v := range all {
		examine(name+" in XML", xml.NewEncoder(&out).Encode(v))
		log.New(&out, "", 0).Printf("%v %+v %#v %s %x %q", v, v, v, v, v, v)
		examine(name+" in a log", nil)
		out.WriteString(expvar.Func(func() any { return v }).String())
		examine(name+" in expvar", nil)
		for _, page := range []string{
			`{{.}} {{print .}} {{printf "%s %x" . .}} {{html .}} {{js .}} {{urlquery .}}`,
			`<a title="{{.}}" href="/?q={{.}}" onclick="f({{.}})" style="color: {{.}}">{{.}}</a><script>f({{.}})</script>`,
		} {
			examine(name+" in a template", template.Must(template.New("").Parse(page)).Execute(&out, v))
			examine(name+" in a page", htmltemplate.Must(htmltemplate.New("").Parse(page)).Execute(&out, v))
		}
	}
	for name, v := range keepers(t) { // encoding/gob writes a Secret itself
		examine(name+" in gob", gob.NewEncoder(&out).Encode(v))
		for _, format := range []string{"%w", "%!", "%[2]v", "%z"} { // fmt calls no methods here
			fmt.Fprintf(&out, format, v)
			examine(name+" under "+format, nil)
		}
	}
}

func TestSecurityLogOfACallShowsNothing(t *testing.T) {
	var attempts []paymentsvc.Attempt
	echo := `{"error":"` + canary + `"}`
	for _, status := range []int{200, 302, 401, 500} {
		base := newServer(t, answering(status, echo))
		c := newClient(t, base, func(cfg *paymentsvc.Config) {
			cfg.DecodeError = paymentsvc.ErrorFields("error", "")
			cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) { attempts = append(attempts, a) })
		})
		_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
		require.Error(t, err)
		_, err = c.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "u"})
		require.Error(t, err)
	}
	require.GreaterOrEqual(t, len(attempts), 8)
	for _, a := range attempts {
		showsNothing(t, "an attempt", a, errorVerbs)
		showsNothing(t, "a pointer to one", &a, errorVerbs)
		data, err := json.Marshal(map[string]any{"attempt": a, "took": time.Second})
		require.NoError(t, err)
		holdsNothing(t, "an attempt in JSON", string(data))
	}
}

// The buffer of an idle connection still contains the last request.
func TestSecurityFieldsDoNotLeadToSentData(t *testing.T) {
	base := newServer(t, answering(http.StatusOK, paymentAnswer))
	c := newClient(t, base)
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
	require.NoError(t, err)
	for name, v := range map[string]any{"*Client": c, "Client": *c} {
		holdsNothing(t, name, reachable(v))
	}
}

// canaryCalls starts a payment and a payout. They wait for their responses until release is called.
func canaryCalls(t *testing.T) (release func()) {
	t.Helper()
	asked, answer := make(chan struct{}), make(chan struct{})
	base := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		answering(http.StatusOK, paymentAnswer)(w, r)
	}))
	c := newClient(t, base, signedBy(newSigner(t, testScheme(), canary)))
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

func TestSecurityProfilesShowNothing(t *testing.T) {
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

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

// issue returns a certificate for hosts.
func (a *authority) issue(t testing.TB, notAfter time.Time, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server of a test"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trustedBy makes the authority the only trusted root of transport.
func (a *authority) trustedBy(transport *http.Transport) *http.Transport {
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{}
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(a.certificate)
	return transport
}

// secureServer is a TLS server that counts its requests and records the last.
type secureServer struct {
	*httptest.Server
	requests atomic.Int64
	last     atomic.Pointer[request]
}

func newSecureServer(t testing.TB, config *tls.Config) *secureServer {
	t.Helper()
	s := &secureServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		s.last.Store(&request{r.URL.Path, r.Header.Clone(), string(body)})
		s.requests.Add(1)
		_, _ = io.WriteString(w, paymentAnswer)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // no log of failed handshakes
	s.TLS = config
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// versions returns a configuration with a range of TLS versions.
func versions(certificate tls.Certificate, least, most uint16) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: least, MaxVersion: most}
}

// payIn makes a payment over the SDK's transport and returns "paid" or the error. The address of a proxy may be "".
func payIn(t *testing.T, roots *authority, proxy, base string) string {
	t.Helper()
	transport := roots.trustedBy(paymentsvc.NewTransport())
	if proxy != "" {
		address, err := url.Parse(proxy)
		require.NoError(t, err)
		transport.Proxy = http.ProxyURL(address)
	}
	c := newClient(t, base, over(transport))
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
	if err == nil {
		return "paid"
	}
	e := failed(t, nil, err, paymentsvc.OutcomeOf(err))
	return fmt.Sprintf("%s after %d attempts: %v", e.Outcome, e.Attempts, err)
}

// After a failed handshake, the outcome is "not sent".
func TestSecurityTLS12AndNewerOnly(t *testing.T) {
	a := newAuthority(t)
	good := a.issue(t, time.Now().Add(time.Hour), "127.0.0.1", "localhost")
	stranger := newAuthority(t).issue(t, time.Now().Add(time.Hour), "127.0.0.1")
	for _, test := range []struct {
		name   string
		config *tls.Config
		want   string
	}{
		{"TLS 1.3", versions(good, tls.VersionTLS13, tls.VersionTLS13), "paid"},
		{"TLS 1.2", versions(good, tls.VersionTLS12, tls.VersionTLS12), "paid"},
		{"TLS 1.1", versions(good, tls.VersionTLS10, tls.VersionTLS11), "protocol version"},
		{"TLS 1.0", versions(good, tls.VersionTLS10, tls.VersionTLS10), "protocol version"},
		{
			"another host's certificate", versions(a.issue(t, time.Now().Add(time.Hour), "evil.example"), 0, 0),
			"certificate",
		},
		{"an expired certificate", versions(a.issue(t, time.Now().Add(-time.Hour), "127.0.0.1"), 0, 0), "expired"},
		{"a stranger's certificate", versions(stranger, 0, 0), "unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSecureServer(t, test.config)
			result := payIn(t, a, "", s.URL)
			if test.want == "paid" {
				assert.Equal(t, "paid", result)
				assert.EqualValues(t, 1, s.requests.Load())
				return
			}
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.Contains(t, result, test.want)
			assert.Zero(t, s.requests.Load())
			holdsNothing(t, "the error", result)
		})
	}
	t.Run("a caller's client may use an old version", func(t *testing.T) {
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
			s := newSecureServer(t, versions(good, version, version))
			given := a.trustedBy(&http.Transport{TLSClientConfig: &tls.Config{MinVersion: version}})
			_, err := pay(t.Context(), newClient(t, s.URL, over(given)))
			require.NoError(t, err)
			assert.EqualValues(t, 1, s.requests.Load())
		}
	})
}

// An attacker on the network can refuse, cut and stall the handshake.
func TestSecurityFailedHandshakeSendsNothing(t *testing.T) {
	stay := func(text string) func(*net.TCPConn) bool {
		return func(c *net.TCPConn) bool { write(c, text); return true }
	}
	for name, meddle := range map[string]func(*net.TCPConn) (stay bool){
		"closed":     func(*net.TCPConn) bool { return false },
		"reset":      func(c *net.TCPConn) bool { _ = c.SetLinger(0); return false },
		"cut":        func(c *net.TCPConn) bool { write(c, "\x16\x03\x03\x40\x00\x02"); return false },
		"plain HTTP": stay("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
		"an alert":   stay("\x15\x03\x03\x00\x02\x02\x28"),
		"noise":      stay(strings.Repeat("\x16\x03\x03\xff\xff", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			var seen tap
			s := newListener(t)
			s.serve(func(c *net.TCPConn) {
				hello := make([]byte, 4096)
				n, _ := c.Read(hello)
				_, _ = seen.Write(hello[:n])
				if meddle(c) {
					_, _ = io.Copy(&seen, c)
				}
			})
			c := newClient(t, "https://"+s.Addr().String())
			response, err := nilOr(c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment()))
			e := failed(t, response, err, paymentsvc.OutcomeNotSent)
			assert.Equal(t, 3, e.Attempts)
			holdsNothing(t, "the connection", seen.received())
			assert.NotContains(t, strings.ToLower(seen.received()), "signature:")
			assert.NotContains(t, seen.received(), "init_payment")
			assert.NotEmpty(t, seen.received(), "a handshake was begun")
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen tap
			silent := piped(t, func(conn net.Conn) { _, _ = io.Copy(&seen, conn) })
			response, err := pay(t.Context(), newClient(t, "https://127.0.0.1", over(silent)))
			e := failed(t, response, err, paymentsvc.OutcomeNotSent)
			assert.Equal(t, 3, e.Attempts)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotEmpty(t, seen.received(), "a handshake was begun")
		})
	})
	t.Run("the caller leaves during it", func(t *testing.T) {
		s := newListener(t)
		ctx, cancel := context.WithCancel(t.Context())
		s.serve(func(c *net.TCPConn) {
			cancel()
			_, _ = io.Copy(io.Discard, c)
		})
		response, err := pay(ctx, newClient(t, "https://"+s.Addr().String()))
		failed(t, response, err, paymentsvc.OutcomeNotSent)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// An attacker can present a certificate with line breaks in its names. Programs log the error.
func TestSecurityCertificateWritesNoLogLine(t *testing.T) {
	a := newAuthority(t)
	certificate := a.issue(t, time.Now().Add(time.Hour), "a\n2026-01-01 INFO order-1 is paid\r\x1b[2J\x7f")
	s := newSecureServer(t, versions(certificate, tls.VersionTLS12, 0))
	given := a.trustedBy(&http.Transport{TLSClientConfig: &tls.Config{ServerName: "b"}})
	response, err := pay(t.Context(), newClient(t, s.URL, over(given)))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	var wrongHost x509.HostnameError
	require.ErrorAs(t, err, &wrongHost, "for its names")
	assert.NotContains(t, err.Error(), "order-1 is paid")
	assert.Contains(t, err.Error(), "the certificate is not valid for b")
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	assert.Negative(t, strings.IndexFunc(err.Error(), unprintable), "%q", err.Error())
}

// connectProxy is a proxy that records the bytes received.
type connectProxy struct {
	*rawServer
	seen tap
}

// tunnel responds with 200, copies bytes in both directions, and records them.
func (p *connectProxy) tunnel(conn *net.TCPConn, in io.Reader, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	write(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.MultiWriter(conn, &p.seen), server)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(server, in)
	_ = server.(*net.TCPConn).CloseWrite()
	<-done
}

// proxying handles a connection and its CONNECT request.
type proxying = func(p *connectProxy, conn *net.TCPConn, in io.Reader, r *http.Request)

// newConnectProxy calls behave with every connection.
func newConnectProxy(t testing.TB, behave proxying) *connectProxy {
	t.Helper()
	p := &connectProxy{rawServer: newListener(t)}
	p.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(io.TeeReader(conn, &p.seen))
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		p.taken.Add(1)
		behave(p, conn, in, r)
	})
	return p
}

// serviceName is not a loopback name, because net/http uses no proxy for loopback. Only the proxy resolves it.
const serviceName = "pay.example.com"

// proxyPassword is the password in the address of the proxy.
const proxyPassword = "password-of-the-proxy"

// The proxy sees only the address of the service.
func TestSecurityProxySeesNoRequest(t *testing.T) {
	a := newAuthority(t)
	service := newSecureServer(t, versions(a.issue(t, time.Now().Add(time.Hour), serviceName), 0, 0))
	stranger := newSecureServer(t, versions(newAuthority(t).issue(t, time.Now().Add(time.Hour), serviceName), 0, 0))
	answers := func(head string) proxying {
		return func(_ *connectProxy, conn *net.TCPConn, in io.Reader, r *http.Request) {
			write(conn, strings.ReplaceAll(head, "ECHO", r.Header.Get("Proxy-Authorization")+" "+r.Host)+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, in) // a reset would change the error
		}
	}
	leadsTo := func(s *secureServer) proxying {
		return func(p *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			p.tunnel(conn, in, s.Listener.Addr().String())
		}
	}
	for _, test := range []struct {
		name   string
		behave proxying
		want   string
	}{
		{"it makes a tunnel", leadsTo(service), "paid"},
		{"its tunnel leads to a stranger", leadsTo(stranger), "unknown authority"},
		{
			"it wants to know who asks", answers("HTTP/1.1 407 ECHO\r\nContent-Length: 0"),
			"the proxy replied to CONNECT with HTTP 407",
		},
		{
			"it reaches nothing", answers("HTTP/1.1 502 ECHO\r\nContent-Length: 4\r\n\r\nECHO"),
			"the proxy replied to CONNECT with HTTP 502",
		},
		{"it sends elsewhere", answers("HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0"),
			"the proxy replied to CONNECT with HTTP 302"},
		{"it is no proxy", answers("SSH-2.0-ECHO"), "malformed HTTP"},
		{"it closes the tunnel", func(_ *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			write(conn, "HTTP/1.1 200 OK\r\n\r\n")
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, in)
		}, "EOF"},
		{"it answers in the service's place", func(_ *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			write(conn, "HTTP/1.1 200 OK\r\n\r\n")
			_, _ = in.Read(make([]byte, 1))
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			_, _ = io.Copy(io.Discard, in)
		}, "HTTP response to HTTPS client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := service.requests.Load()
			p := newConnectProxy(t, test.behave)
			proxy := "http://user:" + proxyPassword + "@" + p.Addr().String()
			result := payIn(t, a, proxy, "https://"+serviceName)

			seen := p.seen.received()
			assert.True(t, strings.HasPrefix(seen, "CONNECT "+serviceName+":443 HTTP/1.1\r\n"), "%.100q", seen)
			holdsNothing(t, "what the proxy saw", seen)
			for _, word := range []string{
				"init_payment", "signature", "timestamp:", "partner_id", "order_id", "application/json", "paid",
			} {
				assert.NotContains(t, strings.ToLower(seen), word)
			}
			assert.Zero(t, stranger.requests.Load())

			if test.want == "paid" {
				assert.Equal(t, "paid", result)
				assert.EqualValues(t, 1, p.taken.Load())
				assert.Equal(t, before+1, service.requests.Load())
				assert.Contains(t, service.last.Load().Body, canary, "the request passed through the proxy")
				assert.Contains(t, seen, "\x16\x03", "as a TLS handshake")
				return
			}
			assert.Equal(t, before, service.requests.Load())
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.Contains(t, result, test.want)
			assert.EqualValues(t, 3, p.taken.Load())
			for _, secret := range []string{proxyPassword, "dXNlcjpwYXNzd29yZ", "ECHO", serviceName, "evil.example"} {
				assert.NotContains(t, result, secret, "the error repeats nothing of the proxy's address or answer")
			}
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		closed := strings.TrimPrefix(refusingPort(t), "http://")
		for _, scheme := range []string{"http", "https", "socks5", "ftp"} {
			proxy := scheme + "://user:" + proxyPassword + "@" + closed
			result := payIn(t, a, proxy, "https://"+serviceName)
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.NotContains(t, result, proxyPassword)
		}
	})
}

// Without OnProxyConnectResponse, net/http puts the proxy's status line into its error.
func TestSecurityProxysWordsAreHiddenInACallersClient(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 407 %s", "HTTP/1.1 502 http: server closed idle connection %s", "%s HTTP/1.1",
	} {
		p := newConnectProxy(t, func(_ *connectProxy, conn *net.TCPConn, in io.Reader, r *http.Request) {
			echo := canary + " " + r.Header.Get("Proxy-Authorization")
			write(conn, fmt.Sprintf(head, echo)+"\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, in)
		})
		address, err := url.Parse("http://user:" + proxyPassword + "@" + p.Addr().String())
		require.NoError(t, err)
		c := newClient(t, "https://"+serviceName, over(&http.Transport{Proxy: http.ProxyURL(address)}))
		_, err = c.InitPayout(t.Context(), payoutRequest())
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
		for _, hidden := range []string{canary, proxyPassword, "dXNlcjpwYXNzd29yZ"} {
			assert.NotContains(t, err.Error(), hidden)
			assert.NotContains(t, fmt.Sprintf("%+v %#v", err, err), hidden)
		}
	}
}
