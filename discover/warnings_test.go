package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Warnings depend only on the structure. TestAlteredMessages shows that schemes without a warning are safe.
func TestWarningsFollowTheStructure(t *testing.T) {
	c := alteredCatalogue()
	fields := []string{"order_id", "status"}
	const stale = "the timestamp is not signed, so an old message can be replayed with a new timestamp"
	for name, tt := range map[string]struct {
		sep   string
		texts []string
		want  []string
	}{
		"a timestamp is digits, and a body begins with a brace": {"", []string{"timestamp", "body"}, nil},
		"no body is the end of another one":                     {"", []string{"timestamp", "method", "uri", "body"}, nil},
		"a digest stays in its place": {
			"", []string{"method", "timestamp", "hex(sha256(body))", "uri"}, nil,
		},
		"an escaped path has no line's end": {"\n", []string{"path", "timestamp", "body"}, nil},
		"a header has no line's end":        {"\n", []string{`header("X-Request-Id")`, "timestamp", "body"}, nil},
		"a header may have a colon, and a timestamp has none": {
			":", []string{"timestamp", `header("X-Request-Id")`, "body"}, nil,
		},
		"the body says what the field is": {"", []string{"timestamp", `field("status")`, "hex(sha256(body))"}, nil},
		"two fields": {"", []string{`field("order_id")`, `field("status")`}, []string{
			`the canonical string is ambiguous: field order_id and field status are not clearly separated, so a recorded ` +
				`signature can fit another message, such as order "12" instead of order "1" with status 2`, stale,
		}},
		"a number ends before a bar": {"|", []string{`field("status")`, "timestamp", `field("order_id")`}, nil},
		"an integer may be written with a full stop": {".", []string{
			`field("status")`, "timestamp", `field("order_id")`,
		}, []string{
			"the canonical string is ambiguous: field status, timestamp and field order_id are not clearly separated, " +
				"so a recorded signature can fit another message",
		}},
		"an amount has a full stop": {".", []string{`field("amount")`, `field("status")`, `field("order_id")`}, []string{
			"the canonical string is ambiguous: field amount, field status and field order_id are not clearly separated, " +
				"so a recorded signature can fit another message", stale,
		}},
		"one header after the other": {".", []string{`header("X-Request-Id")`, "query", "timestamp", "body"}, []string{
			"the canonical string is ambiguous: header X-Request-Id and query are not clearly separated, so the end of " +
				"one part can be read as the start of the next part",
		}},
		"all values, nothing between": {".", []string{"timestamp", "fields(sorted, unseparated)"}, []string{
			`the canonical string is ambiguous: the values of the fields are not clearly separated, so a recorded ` +
				`signature can fit another message, such as order "12" instead of order "1" with status 2`,
		}},
		"one field left out": {".", []string{"timestamp", `fields(sorted, "=", "&", omit("status"))`}, []string{
			`the canonical string is ambiguous: a value can contain "&", so a recorded signature can fit ` +
				`another message`, "unsigned fields can be changed: status",
		}},
		"no field of the body": {
			".", []string{"timestamp", "path"}, []string{"the body is not signed, so it can be changed"},
		},
		"a digest of values that run together": {".", []string{
			"timestamp", "hex(md5(fields(sorted, unseparated)))",
		}, []string{
			`the canonical string is ambiguous: the values of the fields are not clearly separated, so a recorded ` +
				`signature can fit another message, such as order "12" instead of order "1" with status 2`,
		}},
		"an object inside the body": {".", []string{"timestamp", `within("user", fields(sorted, "|"))`}, []string{
			`the canonical string is ambiguous: the names of the fields are not signed, and a value can contain "|", ` +
				`so a recorded signature can fit another message`,
			"unsigned fields can be changed: order_id and status",
		}},
		"one field of two": {
			".", []string{"timestamp", `field("status")`},
			[]string{"unsigned fields can be changed: order_id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, c.composition(t, tt.sep, tt.texts...).warnings(fields))
		})
	}
}

func TestWrappingThatLosesTextHasAWarning(t *testing.T) {
	c := alteredCatalogue()
	for _, w := range wrappings {
		whole := c.composition(t, ".", "timestamp", "body")
		hashed := c.composition(t, ".", "timestamp", "hex(sha256(body))")
		whole.wrap, hashed.wrap = w, w
		require.Empty(t, hashed.warnings(nil), w.desc)
		require.Equal(t, w.loses != "", len(whole.warnings(nil)) > 0, w.desc)
	}
}

func TestPathBytesAreThoseOfNetURL(t *testing.T) {
	for c := range 256 {
		u := url.URL{Path: "/" + string([]byte{byte(c)}), RawPath: "/" + string([]byte{byte(c)})}
		kept := len(u.EscapedPath()) == 2
		if c != '%' { // which begins every escape
			require.Equal(t, kept, isPathByte(byte(c)), "%q", c)
		}
		require.Equal(
			t, len(url.QueryEscape(string([]byte{byte(c)}))) == 1 && c != ' ' || c == '%' || c == '+',
			isFormText(byte(c)), "%q", c,
		)
	}
}

var (
	alteredPerPlan = flag.Int("discover.altered", 1, "compositions of each plan that TestAlteredMessages draws")
	alteredSeed    = flag.Uint64("discover.altered.seed", 1, "seed of these compositions")
)

const alteredSecret paymentsvc.Secret = "sk-altered-77f0"

// note is a notification to alter: its fields in their order, with JSON values, and the other parts to sign.
type note struct {
	fields []noteField
	around [5]string // see aroundNames
}

// aroundNames returns the names of the parts around the body that can be signed. The sender chooses their texts.
func aroundNames() [5]string { return [5]string{"timestamp", "x-request-id", "path", "query", "host"} }

type noteField struct{ name, value string }

func (n note) clone() note { n.fields = slices.Clone(n.fields); return n }

func (n note) body() string {
	text := make([]byte, 0, 256)
	for _, f := range n.fields {
		text = append(append(append(append(text, `,"`...), f.name...), `":`...), f.value...)
	}
	return "{" + string(text[1:]) + "}"
}

func (n note) message() paymentsvc.Message { return n.messageWith(n.body()) }

func (n note) messageWith(body string) paymentsvc.Message {
	return paymentsvc.Message{
		Kind: paymentsvc.KindNotification, Method: http.MethodPost, Timestamp: n.around[0], Body: []byte(body),
		URL:    &url.URL{Scheme: "https", Host: n.around[4], Path: n.around[2], RawQuery: n.around[3]},
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {n.around[1]}},
	}
}

// canBeSent reports whether net/http's server accepts a message and passes it on unchanged.
func canBeSent(m paymentsvc.Message) bool {
	control := func(text string) bool {
		return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
	}
	address, err := url.ParseRequestURI(m.URL.String())
	return err == nil && address.EscapedPath() == m.URL.Path && address.RawQuery == m.URL.RawQuery &&
		address.Host == m.URL.Host &&
		!control(m.URL.RawQuery) && !strings.ContainsAny(m.URL.RawQuery, " ") && !control(m.Header.Get("X-Request-Id"))
}

// items returns the number of items between which alterations move text: the fields, then the parts around the body.
func (n note) items() int { return len(n.fields) + len(n.around) }

func (n note) name(i int) string {
	if i < len(n.fields) {
		return n.fields[i].name
	}
	return aroundNames()[i-len(n.fields)]
}

// text returns an item as Field writes it.
func (n note) text(i int) string {
	if i >= len(n.fields) {
		return n.around[i-len(n.fields)]
	}
	var text string
	if json.Unmarshal([]byte(n.fields[i].value), &text) == nil {
		return text
	}
	return n.fields[i].value
}

// set changes an item. An invalid number becomes a JSON string, which the webhook rejects.
func (n *note) set(i int, text string) {
	if i >= len(n.fields) {
		n.around[i-len(n.fields)] = text
		return
	}
	isText := n.fields[i].value[0] == '"'
	n.fields[i].value = text
	if isText || !json.Valid([]byte(text)) {
		n.fields[i].value = jsonText(text)
	}
}

func jsonText(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())
}

// notes returns notifications whose texts contain a separator, alone and with a label, as a payer's texts can.
func notes(sep, equals string) []note {
	header := "r-1" + sep + "2"
	if strings.ContainsAny(sep, "\x00\r\n") {
		header = "r-1"
	}
	with := func(order, description, user string, more ...noteField) note {
		fields := []noteField{
			{"event", jsonText("payment.status_changed")}, {"order_id", jsonText(order)}, {"status", "2"},
			{"status_description", jsonText(description)}, {"status_code", "20"}, {"amount", "10.50"},
			{"user_data", jsonText(user)},
		}
		around := [5]string{"1700000000", header, "/hooks/7", "a=1", "shop.example:84"}
		return note{append(fields, more...), around}
	}
	return []note{
		with("o-12"+sep+"7", "SUCCESS"+sep+"x", "order"+sep+"8"),
		with("1", "SUCCESS", "u"+sep+"order_id"+equals+"5"),
		with("o-1", "SUCCESS", "4"+sep+"timestamp"+equals+"1800000000", noteField{"note", `"n"`}),
		with("o-1", "SUCCESS", "u", noteField{"user", `{"data":"nested","_data":"x"}`}),
	}
}

// alteredNotes returns the alterations of a note and of its body, for a separator and for the sign after a label.
func alteredNotes(n note, sep, equals string) (list []note, bodies []string) {
	add := func(change func(*note)) {
		altered := n.clone()
		change(&altered)
		list = append(list, altered)
	}
	for i := range n.items() {
		for j := range n.items() {
			if i == j {
				continue
			}
			for _, joint := range []string{sep, sep + n.name(j) + equals} {
				for _, cut := range recut(n.text(i)+joint+n.text(j), joint, 2) {
					add(func(m *note) { m.set(i, cut[0]); m.set(j, cut[1]) })
				}
				if i < len(n.fields) && j < len(n.fields) { // i swallows j
					add(func(m *note) {
						m.set(i, n.text(i)+joint+n.text(j))
						m.fields = slices.Delete(m.fields, j, j+1)
					})
				}
			}
			if i < len(n.fields) && j < i {
				add(func(m *note) { m.fields[i].name, m.fields[j].name = n.fields[j].name, n.fields[i].name })
				add(func(m *note) { m.fields[i].value, m.fields[j].value = n.fields[j].value, n.fields[i].value })
			}
			for k := 0; sep != "" && k < n.items(); k++ {
				if k == i || k == j || !strings.Contains(n.text(i)+n.text(j)+n.text(k), sep) {
					continue
				}
				for _, cut := range recut(n.text(i)+sep+n.text(j)+sep+n.text(k), sep, 3) {
					add(func(m *note) { m.set(i, cut[0]); m.set(j, cut[1]); m.set(k, cut[2]) })
				}
			}
		}
		text := n.text(i)
		for _, other := range []string{
			text + "1", "9" + text, strings.ToUpper(text), strings.ToLower(text), text + "0000000000000000001",
		} {
			add(func(m *note) { m.set(i, other) })
		}
	}
	for i, f := range n.fields {
		for at := range f.name { // the field as a field of an inner object
			for _, path := range []string{"", "_", ".", ":"} {
				if inner, ok := strings.CutPrefix(f.name[at:], path); ok && at > 0 && inner != "" {
					add(func(m *note) { m.fields[i] = noteField{f.name[:at], fmt.Sprintf("{%q:%s}", inner, f.value)} })
				}
			}
		}
		rotated := append(slices.Clone(n.fields[i:]), n.fields[:i]...)
		add(func(m *note) { m.fields = rotated })
		add(func(m *note) { m.fields = slices.Insert(m.fields, i, noteField{f.name, `"9"`}) }) // a duplicate
		add(func(m *note) { m.fields = append(m.fields, noteField{f.name, "9"}) })
		add(func(m *note) { m.fields = slices.Insert(m.fields, i, noteField{"zz", `"9"`}) })
	}
	body := n.body()
	for i := range body {
		if strings.IndexByte("{}:,", body[i]) >= 0 {
			bodies = append(bodies, body[:i+1]+" "+body[i+1:], body[:i]+"\n"+body[i:]) // between tokens, or in a text
		}
	}
	return list, bodies
}

// recut returns the ways to cut a text at its joints into a number of parts.
func recut(text, joint string, parts int) (cuts [][]string) {
	var pieces []string
	if joint == "" {
		for _, c := range text {
			pieces = append(pieces, string(c))
		}
	} else {
		pieces = strings.Split(text, joint)
	}
	for a := 1; a < len(pieces); a++ {
		if parts == 2 {
			cuts = append(cuts, []string{strings.Join(pieces[:a], joint), strings.Join(pieces[a:], joint)})
			continue
		}
		for b := a + 1; b < len(pieces); b++ {
			cuts = append(cuts, []string{
				strings.Join(pieces[:a], joint), strings.Join(pieces[a:b], joint), strings.Join(pieces[b:], joint),
			})
		}
	}
	return cuts
}

// recorded is a signed notification and the messages that a receiver would take for other notifications.
type recorded struct {
	message paymentsvc.Message
	other   []paymentsvc.Message
}

// alterer makes recorded notifications, once for each separator and each text after a label, such as "=".
type alterer struct {
	t     *testing.T
	known map[[2]string][]recorded
	tried map[string]int
}

func (a *alterer) recorded(sep, equals string) []recorded {
	id := [2]string{sep, equals}
	if a.known[id] == nil {
		for _, n := range notes(sep, equals) {
			a.known[id] = append(a.known[id], a.record(n, sep, equals))
		}
	}
	return a.known[id]
}

// record keeps the altered messages that ParseRequest accepts as other or newer notifications, under a scheme that
// signs no part. No note has the user_data null or "null", because Field writes both alike.
func (a *alterer) record(n note, sep, equals string) recorded {
	open := newReceiver(a.t, canonical.Literal("x"))
	r := recorded{message: n.message()}
	first, err := open.parse(r.message)
	require.NoError(a.t, err)
	list, bodies := alteredNotes(n, sep, equals)
	type sent struct {
		around [5]string
		body   string
	}
	seen := map[sent]bool{}
	for i := range len(list) + len(bodies) {
		altered := n
		var body string
		if i < len(list) {
			altered = list[i]
			body = altered.body()
		} else {
			body = bodies[i-len(list)]
		}
		if id := (sent{altered.around, body}); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		m := altered.messageWith(body)
		if altered.around != n.around && !canBeSent(m) {
			a.tried["not to be sent"]++
			continue
		}
		got, err := open.parse(m)
		switch {
		case err != nil:
			a.tried["rejected"]++
		case got.Key() == first.Key() && !got.Timestamp.After(first.Timestamp):
			a.tried["the same notification"]++
		default:
			a.tried["another notification"]++
			r.other = append(r.other, m)
		}
	}
	return r
}

// receiver is a webhook and the scheme of its service.
type receiver struct {
	scheme  paymentsvc.Scheme
	webhook *paymentsvc.Webhook
}

func newReceiver(t *testing.T, part paymentsvc.CanonicalFunc) receiver {
	t.Helper()
	scheme := paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex}
	webhook, err := paymentsvc.NewWebhook(
		paymentsvc.WebhookConfig{Scheme: scheme, Secrets: []paymentsvc.Secret{alteredSecret}, Tolerance: paymentsvc.AnyAge},
	)
	require.NoError(t, err)
	return receiver{scheme, webhook}
}

// parse sends m with its own signature.
func (r receiver) parse(m paymentsvc.Message) (*paymentsvc.Notification, error) {
	signature, err := r.scheme.Signature(alteredSecret, &m)
	if err != nil {
		return nil, err
	}
	return r.send(m, signature)
}

func (r receiver) send(m paymentsvc.Message, signature string) (*paymentsvc.Notification, error) {
	header := m.Header.Clone()
	header.Set("Timestamp", m.Timestamp)
	header.Set("Signature", signature)
	return r.webhook.ParseRequest(&http.Request{
		Method: m.Method, URL: &url.URL{Path: m.URL.Path, RawQuery: m.URL.RawQuery}, Host: m.URL.Host, Header: header,
		Body: io.NopCloser(bytes.NewReader(m.Body)), ContentLength: int64(len(m.Body)), RequestURI: m.URL.String(),
	})
}

// accepts returns an altered message that passes with the signature of the recorded message, or "". If single fields
// are ambiguous, the altered message must differ in such a field, and not only in unsigned parts.
func (a *alterer) accepts(c *composition) (how string, signed int) {
	part, expr := c.parsed(a.t)
	for _, id := range separatorsOf(c) {
		for _, r := range a.recorded(id[0], id[1]) {
			text, err := part(nil, &r.message)
			if err != nil {
				continue // the note lacks a field
			}
			signed++
			var buf []byte
			for _, m := range r.other {
				got, err := part(buf[:0], &m)
				buf = got
				if err != nil || !bytes.Equal(text, got) {
					continue
				}
				if !c.moves(&r.message, &m) {
					continue
				}
				receiver := newReceiver(a.t, part)
				signature, err := receiver.scheme.Signature(alteredSecret, &r.message)
				require.NoError(a.t, err)
				_, err = receiver.send(m, signature)
				require.NoError(a.t, err, expr)
				return fmt.Sprintf("%s %s as %s %s", r.message.Timestamp, r.message.Body, m.Timestamp, m.Body), signed
			}
		}
	}
	return "", signed
}

// moves reports whether an ambiguous field differs between two messages, or no field is ambiguous.
func (c *composition) moves(a, b *paymentsvc.Message) bool {
	single := false
	for _, r := range slices.Concat(c.ambiguities()...) {
		if r.kind == ofField {
			single = true
			of, _ := r.part(nil, a)
			other, _ := r.part(nil, b)
			if !bytes.Equal(of, other) {
				return true
			}
		}
	}
	return !single
}

// separatorsOf returns the possible separators of two values, each with the sign after a label.
func separatorsOf(c *composition) [][2]string {
	equals := "="
	seen := map[[2]string]bool{}
	for _, p := range c.pieces {
		if p.shelf == colon {
			equals = ":"
		}
		if l := p.shape.list; l != nil {
			seen[[2]string{l.Between, l.Equals}] = true
		}
	}
	for _, gap := range c.gaps {
		seen[[2]string{gap, equals}] = true
	}
	if len(seen) == 0 {
		seen[[2]string{"", equals}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
}

// alteredCatalogue is the catalogue of a notification.
var alteredCatalogue = sync.OnceValue(func() *catalogue {
	n := notes("", "=")[2]
	n.fields = append(n.fields, noteField{"user", `{"data":"a b"}`})
	return newCatalogue(context.Background(), []*sample{{message: n.message()}}, alteredSecret, []string{"word"})
})

// parsed returns the function parsed from the text form of a composition, and the text form.
func (c *composition) parsed(t *testing.T) (paymentsvc.CanonicalFunc, string) {
	t.Helper()
	scheme, _, err := canonical.ParseSchemeWith(c.id(), alteredSecret)
	require.NoError(t, err, c.id())
	return scheme.Canonical, c.id()
}

func (c *catalogue) composition(t *testing.T, sep string, texts ...string) *composition {
	t.Helper()
	made := &composition{}
	for i, text := range texts {
		at := slices.IndexFunc(c.pieces, func(p *piece) bool { return p.text == text })
		require.GreaterOrEqual(t, at, 0, text)
		made.pieces = append(made.pieces, c.pieces[at])
		if i > 0 {
			made.gaps = append(made.gaps, sep)
		}
	}
	return made
}

// family is an example of similar compositions, with the expected warning, or "" if they are safe.
type family struct {
	name, sep string
	texts     []string
	why       string
}

// families returns examples of every kind of part and plan, and of every warning.
func families() []family {
	const (
		cut       = " are not clearly separated, so a recorded signature can fit another message"
		unnamed   = "the names of the fields are not signed"
		notSigned = "unsigned fields can be changed: "
	)
	return []family{
		{"timestamp and body", ".", []string{"timestamp", "body"}, ""},
		{"timestamp and body, nothing between", "", []string{"timestamp", "body"}, ""},
		{"body and timestamp, nothing between", "", []string{"body-compact", "timestamp"}, ""},
		{"timestamp, method, path, body, nothing between", "", []string{"timestamp", "method", "path", "body"}, ""},
		{"path with the query and body, nothing between", "", []string{"timestamp", "uri", "body"}, ""},
		{"a digest of the body", "", []string{"method", "timestamp", "path", "hex(sha256(body))"}, ""},
		{"a digest between others", "", []string{"timestamp", "hex(sha256(body))", `header("X-Request-Id")`}, ""},
		{"the digest of timestamp and body", "", []string{"hex(sha256(timestamp body))"}, ""},
		{"the body in base64", "", []string{"timestamp", "base64(body)"}, ""},
		{"the body written anew", "\n", []string{"timestamp", "json(sorted, spaces)"}, ""},
		{"one header before timestamp and body", ".", []string{`header("X-Request-Id")`, "timestamp", "body"}, ""},
		{"a field before the body", "", []string{`field("order_id")`, "body", "timestamp"}, ""},
		{
			"fields beside the body, nothing between", "",
			[]string{`field("order_id")`, `field("user_data")`, "timestamp", "hex(sha256(body))"}, "",
		},
		{"the secret before the body", "", []string{"secret", "timestamp", "body"}, ""},
		{"name=value, escaped", "&", []string{`fields(sorted, "=", "&", flat("."), escape-form)`, "timestamp"}, ""},

		{"the body alone", "", []string{"body"}, "the timestamp is not signed"},
		{"the path alone", "\n", []string{"timestamp", "path"}, "the body is not signed"},
		{
			"path and timestamp, nothing between", "", []string{"path", "timestamp", "body"},
			"path and timestamp are not clearly separated, so the end",
		},
		{
			"header and timestamp, nothing between", "", []string{`header("X-Request-Id")`, "timestamp", "body"},
			"header X-Request-Id and timestamp are not clearly separated, so the end",
		},
		{"the body in lower case", ".", []string{"timestamp", "lower(body)"}, "the case of letters is not signed"},
		{"numbers as float64", ".", []string{"timestamp", "json(short-numbers)"}, "numbers are signed as float64"},
		{
			"values, nothing between", "", []string{"fields(sorted, unseparated)", "timestamp"},
			"the values of the fields are not clearly separated",
		},
		{"values with a separator", "|", []string{`fields(sorted, "|")`, "timestamp"}, unnamed},
		{"values in the order of the body", "|", []string{`fields(as-sent, "|")`, "timestamp"}, unnamed},
		{
			"names and values, nothing between", "", []string{`fields(sorted, "", "")`, "timestamp"},
			"the names and values of the fields are not clearly separated",
		},
		{"name=value, not escaped", "&", []string{`fields(sorted, "=", "&")`, "timestamp"}, `a value can contain "&"`},
		{"name=value on lines", "\n", []string{`fields(sorted, "=", "\n")`, "timestamp"}, `a value can contain "\n"`},
		{
			"name=value, escaped, nested ones without a mark", "&",
			[]string{`fields(sorted, "=", "&", flat("_"), escape-form)`, "timestamp"},
			"a nested field is written like a field",
		},
		{
			"single fields, nothing between", "", []string{`field("order_id")`, `field("status")`, "timestamp"},
			"field order_id, field status and timestamp" + cut,
		},
		{
			"single fields with full stops", ".",
			[]string{`field("order_id")`, `field("status")`, `field("amount")`, "timestamp"},
			"field order_id, field status and field amount" + cut,
		},
		{
			"single fields as name=value", "&",
			[]string{`"user_data=" field("user_data")`, `"order_id=" field("order_id")`, "timestamp"},
			"field user_data and field order_id" + cut,
		},
		{"one field", ".", []string{"timestamp", `field("order_id")`}, notSigned + "event, status, status_description"},
	}
}

// TestAlteredMessages requires that a scheme without a warning does not accept another or newer notification with the
// signature of a recorded notification. Each family with a warning must accept at least one such notification.
func TestAlteredMessages(t *testing.T) {
	c := alteredCatalogue()
	fields := c.fieldNames()
	a := &alterer{t, map[[2]string][]recorded{}, map[string]int{}}
	t.Run("families", func(t *testing.T) {
		for _, f := range families() {
			composition := c.composition(t, f.sep, f.texts...)
			warnings := composition.warnings(fields)
			how, signed := a.accepts(composition)
			require.Positive(t, signed, f.name)
			if f.why == "" {
				assert.Empty(t, warnings, f.name)
				assert.Empty(t, how, "%s is called safe, and accepts another message", f.name)
				continue
			}
			t.Logf("unsafe: %s: %s\n%s", f.name, strings.Join(warnings, "; "), how)
			assert.Contains(t, strings.Join(warnings, "; "), f.why, f.name)
			assert.NotEmpty(t, how, "%s is called unsafe, and no altered message shows it", f.name)
		}
	})
	t.Run("plans", func(t *testing.T) {
		r := rand.New(rand.NewPCG(*alteredSeed, 0))
		for i, st := range c.stages(0, newKeys(alteredSecret), 1) {
			if *alteredPerPlan == 1 && i%5 != 0 { // the default: a few plans
				continue
			}
			count := map[string]int{}
			for range *alteredPerPlan {
				drawn := drawComposition(r, st)
				expr := drawn.id()
				warnings := drawn.warnings(fields)
				how, _ := a.accepts(drawn)
				switch {
				case len(warnings) == 0:
					count["safe"]++
					assert.Empty(t, how, "%s has no warning, and accepts another message", expr)
				case how == "":
					count["not shown"]++
				default:
					count["unsafe"]++
				}
			}
			t.Logf("%s: %v", st.what, count)
		}
	})
	t.Logf("altered messages: %v", a.tried)
}

// drawComposition returns a random composition of a stage, with one of the first separators.
func drawComposition(r *rand.Rand, st *stage) *composition {
	few := st.gaps[:min(len(st.gaps), len(fewSeparators))]
	gap := few[r.IntN(len(few))]
	edges := st.ends.edges(gap)
	e := edges[r.IntN(len(edges))]
	c := &composition{lead: e.lead, trail: e.trails[r.IntN(len(e.trails))], wrap: st.wrap}
	length, extras := st.min+r.IntN(max(1, min(st.max, 5)-st.min+1)), 0
	for _, at := range r.Perm(len(st.groups)) {
		g := st.groups[at]
		if len(c.pieces) == length || !g.kind.core() && extras == st.extras || g.kind == ofNothing && gap == "" {
			continue
		}
		if !g.kind.core() {
			extras++
		}
		if len(c.pieces) > 0 {
			if st.mixed {
				gap = few[r.IntN(len(few))]
			}
			c.gaps = append(c.gaps, gap)
		}
		c.pieces = append(c.pieces, g.pieces[r.IntN(len(g.pieces))])
	}
	return c.expanded()
}
