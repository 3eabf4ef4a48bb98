package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing/iotest"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mock"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func triggerCommand() cli.Command {
	flags := []cli.Flag{
		cli.NewFlag("to", cli.Address, "URL", "address of the receiver").Checked(isReceiver),
		cli.Shared("timeout")[0].With("30s"),
		cli.NewFlag("status", cli.Text, "NAME", "status_description").
			With(string(paymentsvc.StatusSuccess)).Among("PENDING", "SUCCESS", "FAILURE").OnLine(),
		cli.NewFlag("amount", cli.Text, "AMOUNT", "amount").With("10.00").Checked(cli.Amount).OnLine(),
		cli.NewFlag("order-id", cli.Text, "ID", "order_id (default: a new UUID)").OnLine(),
		cli.NewFlag("user-data", cli.Text, "TEXT", "user_data (default: none)").OnLine(),
		cli.NewFlag("set", cli.List, "NAME=VALUE", "value of a field, except event").OnLine(),
		cli.NewFlag("body", cli.Text, "FILE", "send the bytes of FILE instead of an EVENT; - is standard input").OnLine(),
		cli.NewFlag("replay", cli.Text, "FILE", "send a captured message again, with a new timestamp and signature").OnLine(),
		cli.NewFlag("as-sent", cli.Bool, "", "with -replay, send the old timestamp and signature").OnLine(),
		cli.NewFlag("fault", cli.Text, "TEXT", strings.Join(faultNames(), ", ")+"; such as 'late 5m'").
			Among(faultNames()...).Checked(isFault).OnLine(),
	}
	return cli.Command{
		Name:    "trigger",
		Summary: "Send a signed notification to your program, or a forgery",
		Usage:   "[EVENT]",
		Values:  mock.Events(),
		MaxArgs: 1,
		Flags: slices.Concat(flags,
			cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "cacert", "http2", "v")),
		Notes: "EVENT is " + strings.Join(mock.Events(), ", ") + ".\n" +
			"This command chooses the numbers of each status. -set status=N -set status_code=N changes them.\n" +
			"Exit code 0: the receiver accepted a genuine message with a 2xx, or rejected a bad message with a 4xx except\n" +
			"404, 405, 408 and 429, or did not respond to a cut body. 1: otherwise.",
		Examples: []string{
			"paymentsvc trigger payment.status_changed -order-id o-1 -to http://127.0.0.1:3000/hook",
			"paymentsvc trigger payment.status_changed -fault forged -to http://127.0.0.1:3000/hook",
			"paymentsvc trigger -replay failed/0003.http -to http://127.0.0.1:3000/hook",
		},
		Run: runTrigger,
	}
}

// delivery is a message to send.
type delivery struct {
	message    *paymentsvc.Message
	keys       []cli.Key // their secrets are hidden in printed responses; nil for -as-sent without key settings
	what       string    // describes the message in the output
	asSent     bool      // keeps the old timestamp and signature
	fault      fault
	faultValue string // such as "5m" in "late 5m"; may be ""
	times      int
	cut        int // the length of a cut body, or -1
	transport  *http.Transport
}

func runTrigger(ctx context.Context, c *cli.Call) error {
	if c.Text("to") == "" {
		return cli.Usagef("-to: not set; want the address of the receiver")
	}
	d, err := newDelivery(c)
	if err != nil {
		return err
	}
	d.transport, err = clientTransport(c)
	if err != nil {
		return err
	}
	if err := d.prepare(c); err != nil {
		return err
	}
	for range d.times {
		if err := d.send(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// newDelivery composes the message from the flags. Without -as-sent, the message has no signature yet.
func newDelivery(c *cli.Call) (*delivery, error) {
	d := &delivery{times: 1, cut: -1, asSent: c.Bool("as-sent")}
	name, value, _ := strings.Cut(c.Text("fault"), " ")
	if i := slices.Index(faultNames(), name); i >= 0 {
		d.fault, d.faultValue = faults[i], value
	}
	fields := []string{"status", "amount", "order-id", "user-data", "set"}
	extra := slices.IndexFunc(fields, c.Set)
	event, body, replay := len(c.Args) > 0, c.Set("body"), c.Set("replay")
	switch {
	case event && body, event && replay, body && replay, !event && !body && !replay:
		return nil, cli.Usagef("want one of EVENT, -body and -replay")
	case extra >= 0 && !event:
		return nil, cli.Usagef("-%s: allowed only with an EVENT", fields[extra])
	case d.asSent && !replay:
		return nil, cli.Usagef("-as-sent: allowed only with -replay")
	case d.asSent && d.fault.signs:
		return nil, cli.Usagef("-fault: %s needs a new signature, but -as-sent keeps the old signature", d.fault.name)
	}
	m, err := d.source(c)
	if err != nil {
		return nil, err
	}
	d.message = newMessage(paymentsvc.KindNotification, http.MethodPost, c.Address("to"), c.Now().Unix(), m.Body)
	for name, values := range m.Header {
		if d.asSent || name != "Timestamp" && name != "Signature" {
			d.message.Header[name] = values
		}
	}
	return d, nil
}

// source sets d.what, and returns the body. For -replay, it also returns the header fields, except those that describe
// the connection.
func (d *delivery) source(c *cli.Call) (m capture.Message, err error) {
	switch file := c.Text("replay"); {
	case file != "":
		d.what = file + " with a new timestamp and signature"
		if d.asSent {
			d.what = file + " unchanged"
		}
		m, err = readCapture(c, file, capture.Options{})
		for _, name := range []string{ // these headers describe the captured connection
			"Connection", "Content-Length", "Expect", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		} {
			m.Header.Del(name)
		}
	case c.Set("body"):
		m.Body, err = c.ReadInput(c.Text("body"), c.Text("body"))
		d.what = fmt.Sprintf("%d bytes", len(m.Body))
	default:
		m.Body, err = notificationBody(c, c.Args[0])
		d.what = fmt.Sprintf("%s, %d bytes", summaryOf(m.Body), len(m.Body))
	}
	return m, err
}

// fault is a deliberate fault of a delivery. [paymentsvctest.ParseNotificationFault] defines the names.
type fault struct {
	name  string
	bad   string // describes the bad message in the output; "" for a genuine message
	signs bool   // needs a new signature
}

var faults = []fault{
	{"forged", "a forgery", true},
	{"unsigned", "a message without a signature", true},
	{"altered", "a message changed after signing", true},
	{"late", "a timestamp in the past", true},
	{"early", "a timestamp in the future", true},
	{"cut", "a part of a body", false},
	{"repeated", "", false},
	{"old-secret", "", true},
}

func faultNames() []string { return cli.Mapped(faults, func(f fault) string { return f.name }) }

// isFault accepts the text of a fault, such as "late" or "late 5m".
func isFault(text string) error {
	name, _, _ := strings.Cut(text, " ")
	if !slices.Contains(faultNames(), name) {
		return fmt.Errorf("no fault %q%s", cli.Printable(name), cli.NearestOf(name, faultNames()))
	}
	if _, err := paymentsvctest.ParseNotificationFault(text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "paymentsvctest: "))
	}
	return nil
}

// prepare applies the fault and signs the message. With -as-sent, it only applies the fault and reads the keys, if any.
func (d *delivery) prepare(c *cli.Call) error {
	if d.fault.bad != "" {
		d.what = d.fault.name + " on purpose"
	}
	number, err := strconv.Atoi(d.faultValue)
	switch isNumber := err == nil; d.fault.name {
	case "late", "early":
		d.shift()
	case "cut":
		d.cut = len(d.message.Body) / 2
		if isNumber {
			d.cut = min(number, max(len(d.message.Body)-1, 0))
		}
	case "repeated":
		d.times = 2
		if isNumber {
			d.times = number + 1
		}
	}
	hasKeys := c.Set("secret-file") && (c.Set("scheme") || c.Set("scheme-file"))
	if d.asSent && !hasKeys {
		return nil // no secret to mask
	}
	d.keys, err = c.Keys()
	if err != nil || d.asSent {
		return err
	}
	return d.sign()
}

// shift shifts the timestamp by the value of the fault, or by an hour.
func (d *delivery) shift() {
	by, err := time.ParseDuration(d.faultValue)
	if err != nil {
		by = time.Hour
	}
	d.what = fmt.Sprintf("%s %s", by, d.what)
	if d.fault.name == "late" {
		by = -by
	}
	seconds, _ := strconv.ParseInt(d.message.Timestamp, 10, 64) // newMessage wrote it
	d.message.Timestamp = strconv.FormatInt(seconds+int64(by/time.Second), 10)
	d.message.Header.Set("Timestamp", d.message.Timestamp)
}

// sign signs the message with the current key, unless the fault requires another key or no signature.
func (d *delivery) sign() error {
	key := d.keys[0]
	switch {
	case d.fault.name == "forged":
		key.Secret = paymentsvc.Secret(rand.Text())
	case d.fault.name == "old-secret" && len(d.keys) < 2:
		return cli.Usagef("-fault %s: needs -old-secret-file", d.fault.name)
	case d.fault.name == "old-secret":
		key = d.keys[1]
	}
	if err := signMessage(key, d.message); err != nil {
		return err
	}
	switch d.fault.name {
	case "unsigned":
		d.message.Header.Del("Signature")
	case "altered":
		d.message.Body = altered(d.message.Body)
		made, err := key.Scheme.Signature(key.Secret, d.message)
		if err == nil && made == d.message.Header.Get("Signature") {
			return cli.Usagef("-fault altered: the scheme does not sign the last digit of the body")
		}
	}
	return nil
}

// altered changes the last digit of a body, or appends a digit if there is no digit. It does not add white space,
// because some schemes do not sign white space.
func altered(body []byte) []byte {
	changed := bytes.Clone(body)
	at := bytes.LastIndexAny(changed, "0123456789")
	if at < 0 {
		return append(changed, '0')
	}
	changed[at] = '0' + (changed[at]-'0'+1)%10
	return changed
}

var errCut = errors.New("cut on purpose")

// send sends the message once and prints the result. Unexpected behaviour of the receiver is an error.
func (d *delivery) send(ctx context.Context, c *cli.Call) error {
	body := io.Reader(bytes.NewReader(d.message.Body))
	if d.cut >= 0 {
		body = io.MultiReader(bytes.NewReader(d.message.Body[:d.cut]), iotest.ErrReader(errCut))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.message.URL.String(), io.NopCloser(body))
	if err != nil {
		return cli.Usagef("-to: the address is invalid")
	}
	req.ContentLength = int64(len(d.message.Body))
	req.Header = d.message.Header
	began := time.Now()
	resp, err := d.transport.RoundTrip(req)
	result := sent{summary: summaryOf(d.message.Body), Fault: d.fault.name, Millis: cli.Millis(time.Since(began))}
	var head []byte
	switch {
	case err == nil:
		result.Status = resp.StatusCode
		head, _ = io.ReadAll(io.LimitReader(resp.Body, maxMasked)) // an incomplete response is enough
		_ = resp.Body.Close()
	case ctx.Err() != nil:
		return cli.Ended(ctx)
	case !errors.Is(err, errCut):
		if failed, ok := errors.AsType[*net.OpError](err); ok && isLoopback(failed.Addr) {
			c.Note("in a container, localhost is the container itself")
		}
		return fmt.Errorf("-to: %s", reason(err))
	}
	d.judge(&result)
	lines := []string{"sent   " + d.what + ", " + result.Result}
	if c.Bool("v") {
		result.Response = shownResponse(d.keys, head, d.message.Header.Get("Signature"))
		lines = append(lines, indented(result.Response)...)
	}
	c.Print("sent", result, lines...)
	if !result.OK {
		return cli.No()
	}
	if d.fault.bad != "" && result.Status > 0 {
		c.Note("a receiver that rejects every message passes too: also send a genuine message")
	}
	return nil
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// sent is the result of a delivery.
type sent struct {
	summary
	Fault    string `json:"fault"`
	Status   int    `json:"status"` // 0 without a response
	Millis   int64  `json:"ms"`
	OK       bool   `json:"ok"`
	Result   string `json:"result"`
	Response string `json:"response"`
}

// judge sets OK and Result. Status 0 is as expected, because send calls judge without a response only for a cut body.
func (d *delivery) judge(s *sent) {
	answer := fmt.Sprintf("HTTP %d", s.Status)
	switch {
	case s.Status == 0:
		s.OK, s.Result = true, "no response, as expected"
	case d.fault.bad == "":
		s.OK, s.Result = accepted(s.Status), fmt.Sprintf("%s in %dms", answer, s.Millis)
	case accepted(s.Status):
		s.Result = answer + ": the receiver accepted " + d.fault.bad
	case paymentsvctest.Delivery{HTTPStatus: s.Status}.Rejected():
		s.OK, s.Result = true, answer+": rejected, as expected"
	default:
		s.Result = answer + ": does not prove that the receiver checked the message"
	}
}
