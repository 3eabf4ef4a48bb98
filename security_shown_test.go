package paymentsvc_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"expvar"
	"fmt"
	htmltemplate "html/template"
	"log"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// keepers are the values that keep the secret key, for as long as a program runs. The signer and the webhook have used
// it, so that whatever they keep for next time is there.
func keepers(t *testing.T) map[string]any {
	t.Helper()
	signer := canarySigner(t, hookScheme())
	client := newClient(t, "https://pay.example.com", func(cfg *paymentsvc.Config) { cfg.Signer = signer })
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

// reachable collects all text and bytes that lead from v through pointers, interfaces, containers and fields, exported
// or not, as a debugger or a printer that asks nobody finds them.
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
		default: // no text, or a function, into which reflection does not look
		}
	}
	walk(reflect.ValueOf(v))
	return found.String()
}

func TestNoFieldLeadsToTheSecret(t *testing.T) {
	for name, v := range keepers(t) {
		holdsNothing(t, name, reachable(v))
	}
	// What is found where there is something to be found.
	for name, v := range map[string]any{
		"a Secret": paymentsvc.Secret(canary), "an HMACConfig": &paymentsvc.HMACConfig{Secret: canary},
		"bytes":    struct{ in []any }{[]any{map[string]*[]byte{"a": new([]byte(canary))}}},
		"an array": struct{ key [len(canary)]byte }{[len(canary)]byte([]byte(canary))},
	} {
		assert.Contains(t, reachable(v), canary, name)
	}
}

// failure records what an assertion would print.
type failure struct{ strings.Builder }

func (f *failure) Errorf(format string, args ...any) { fmt.Fprintf(f, format, args...) }

// The differences that testify prints come from a printer that asks no value for its own text and looks into unexported
// fields.
func TestAFailedAssertionShowsNoSecret(t *testing.T) {
	for name, v := range keepers(t) {
		other := reflect.Zero(reflect.TypeOf(v)).Interface()
		if of := reflect.TypeOf(v); of.Kind() == reflect.Pointer {
			other = reflect.New(of.Elem()).Interface()
		}
		var printed failure
		assert.Equal(&printed, other, v)
		assert.EqualExportedValues(&printed, []any{other}, []any{v})
		assert.ElementsMatch(&printed, []any{other}, []any{v})
		assert.Contains(&printed, []any{v}, other)
		assert.Nil(&printed, v)
		assert.Empty(&printed, v)
		assert.IsType(&printed, 0, v)
		require.Contains(t, printed.String(), "Error:")
		holdsNothing(t, name, printed.String())
	}
}

func TestOtherFormatsShowNoSecret(t *testing.T) {
	all := keepers(t)
	all["Secret"], all["[]Secret"] = paymentsvc.Secret(canary), []paymentsvc.Secret{canary}
	all["a struct with a Secret"] = struct{ Key paymentsvc.Secret }{canary}
	all["an attribute"] = struct {
		Key paymentsvc.Secret `xml:"key,attr"`
	}{canary}
	var out bytes.Buffer
	printed := func(name string, err error) {
		if err != nil {
			out.WriteString(err.Error())
		}
		holdsNothing(t, name, out.String())
		out.Reset()
	}
	for name, v := range all {
		printed(name+" in XML", xml.NewEncoder(&out).Encode(v))
		log.New(&out, "", 0).Printf("%v %+v %#v %s %x %q", v, v, v, v, v, v)
		printed(name+" in a log", nil)
		out.WriteString(expvar.Func(func() any { return v }).String())
		printed(name+" in expvar", nil)
		for _, page := range []string{
			`{{.}} {{print .}} {{printf "%s %x" . .}} {{html .}} {{js .}} {{urlquery .}}`,
			`<a title="{{.}}" href="/?q={{.}}" onclick="f({{.}})" style="color: {{.}}">{{.}}</a><script>f({{.}})</script>`,
		} {
			printed(name+" in a template", template.Must(template.New("").Parse(page)).Execute(&out, v))
			printed(name+" in a page", htmltemplate.Must(htmltemplate.New("").Parse(page)).Execute(&out, v))
		}
	}
	for name, v := range keepers(t) { // a Secret alone is text for what stores values, as string(secret) is
		printed(name+" in gob", gob.NewEncoder(&out).Encode(v))
		for _, format := range []string{"%w", "%!", "%[2]v", "%z"} { // what does not fit is printed past all methods
			fmt.Fprintf(&out, format, v)
			printed(name+" under "+format, nil)
		}
	}
}

// A request that was queued in a struct of the partner's, an attempt and an error that are logged whole.
func TestWhatALogGetsOfACallShowsNothing(t *testing.T) {
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
		showsNothing(t, "an attempt", a, errorVerbs, true)
		showsNothing(t, "a pointer to one", &a, errorVerbs, true)
		data, err := json.Marshal(map[string]any{"attempt": a, "took": time.Second})
		require.NoError(t, err)
		holdsNothing(t, "an attempt in JSON", string(data))
	}
}

// An idle connection still holds in its buffer what was sent over it last: a signature and a card number.
func TestNoFieldLeadsToWhatWasSentLast(t *testing.T) {
	base := newServer(t, answering(http.StatusOK, paymentAnswer))
	c := newClient(t, base)
	_, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, canaryPayment())
	require.NoError(t, err)
	for name, v := range map[string]any{"*Client": c, "Client": *c} {
		holdsNothing(t, name, reachable(v))
		var printed failure
		assert.ElementsMatch(&printed, []any{v}, []any{nil})
		require.Contains(t, printed.String(), "Error:")
		holdsNothing(t, "testify's "+name, printed.String())
	}
}
