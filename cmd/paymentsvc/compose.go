package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// events returns the events of section 6.
func events() []string {
	return []string{
		string(paymentsvc.EventPaymentStatusChanged), string(paymentsvc.EventPayoutStatusChanged),
		string(paymentsvc.EventRefundStatusChanged),
	}
}

// notificationBody composes the body of an event from the flags.
func notificationBody(c *cli.Call, event string) ([]byte, error) {
	n := paymentsvctest.Notification{Event: paymentsvc.EventType(event)}
	if !n.Event.Known() {
		return nil, cli.Usagef("no event %q%s", cli.Printable(event), cli.Nearest(event, events()))
	}
	values := map[string]string{
		"status_description": c.Text("status"), "amount": c.Text("amount"), "user_data": c.Text("user-data"),
		"order_id": cmp.Or(c.Text("order-id"), paymentsvc.NewUserData()),
	}
	for _, pair := range c.List("set") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, cli.Usagef("-set: want NAME=VALUE")
		}
		values[name] = value
	}
	for name, value := range values {
		if err := setField(&n, name, value); err != nil {
			return nil, err
		}
	}
	if err := setNumbers(&n, values); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(n); err != nil {
		return nil, cli.Usagef("%s: %w", event, err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

func setField(n *paymentsvctest.Notification, name, value string) (err error) {
	if !utf8.ValidString(value) {
		return cli.Usagef("%s: not UTF-8", cli.Printable(name))
	}
	switch name {
	case "order_id":
		n.OrderID = value
	case "status":
		n.Status, err = strconv.ParseInt(value, 10, 64)
	case "status_description":
		n.StatusDescription = paymentsvc.StatusName(value)
	case "status_code":
		n.StatusCode, err = strconv.ParseInt(value, 10, 64)
	case "amount":
		n.Amount, err = paymentsvc.ParseAmount(value)
	case "user_data":
		n.UserData = value
	case "event":
		return cli.Usagef("-set: the event is the argument")
	default:
		known := []string{"order_id", "status", "status_description", "status_code", "amount", "user_data"}
		return cli.Usagef("-set: %s has no field %q%s", n.Event, cli.Printable(name), cli.Nearest(name, known))
	}
	if err != nil {
		return cli.Usagef("%s: not a number", name)
	}
	return nil
}

// setNumbers fills in the numbers of the status. They are this command's choice, and the fake's too: the document shows
// none (section 3).
func setNumbers(n *paymentsvctest.Notification, given map[string]string) error {
	numbers, known := map[paymentsvc.StatusName]paymentsvctest.Numbers{
		paymentsvc.StatusPending: {Status: 1, StatusCode: 10},
		paymentsvc.StatusSuccess: {Status: 2, StatusCode: 20},
		paymentsvc.StatusFailure: {Status: 3, StatusCode: 30},
	}[n.StatusDescription]
	_, hasStatus := given["status"]
	_, hasCode := given["status_code"]
	if !known && !(hasStatus && hasCode) {
		names := []string{string(paymentsvc.StatusPending), string(paymentsvc.StatusSuccess), string(paymentsvc.StatusFailure)}
		return cli.Usagef("-status: %q needs -set status=N and -set status_code=N%s",
			cli.Printable(string(n.StatusDescription)), cli.Nearest(string(n.StatusDescription), names))
	}
	if !hasStatus {
		n.Status = numbers.Status
	}
	if !hasCode {
		n.StatusCode = numbers.StatusCode
	}
	return nil
}

// fault is something wrong with a delivery, on purpose.
type fault struct {
	name string
	// accepted says what a receiver has accepted that answers with a 2xx; "" if it should.
	accepted string
	shape    func(*delivery)
	sign     func(*delivery) error
	old      bool // signed with the old secret
}

func faults() []fault {
	shifted := func(by time.Duration) func(*delivery) error {
		return func(d *delivery) error {
			seconds, _ := strconv.ParseInt(d.message.Timestamp, 10, 64) // newMessage wrote it
			d.message.Timestamp = strconv.FormatInt(seconds+int64(by/time.Second), 10)
			d.message.Header.Set("Timestamp", d.message.Timestamp)
			return d.sign()
		}
	}
	words := func(text string) func(*delivery) { return func(d *delivery) { d.what = text } }
	return []fault{
		{name: "forged", accepted: "a forgery", shape: words("forged on purpose"), sign: func(d *delivery) error {
			d.key.Secret = paymentsvc.Secret(rand.Text())
			return d.sign()
		}},
		{name: "unsigned", accepted: "a message without a signature", shape: words("unsigned on purpose"), sign: func(d *delivery) error {
			d.message.Header.Del("Signature")
			return nil
		}},
		{name: "altered", accepted: "a message that was changed after it was signed", shape: words("altered on purpose"), sign: func(d *delivery) error {
			err := d.sign()
			d.message.Body = altered(d.message.Body)
			return err
		}},
		{name: "late", accepted: "a timestamp of an hour ago", shape: words("an hour late on purpose"), sign: shifted(-time.Hour)},
		{name: "early", accepted: "a timestamp an hour ahead", shape: words("an hour early on purpose"), sign: shifted(time.Hour)},
		{name: "cut", accepted: "half of a body", shape: func(d *delivery) { d.what, d.cut = "cut on purpose", true }},
		{name: "repeated", shape: func(d *delivery) { d.times = 2 }},
		{name: "old-secret", old: true, sign: (*delivery).sign},
	}
}

func faultNames() (names []string) {
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

// altered changes the last digit of a body: not its white space, which some schemes do not sign.
func altered(body []byte) []byte {
	changed := bytes.Clone(body)
	at := bytes.LastIndexAny(changed, "0123456789")
	if at < 0 {
		return append(changed, '0')
	}
	changed[at] = '0' + (changed[at]-'0'+1)%10
	return changed
}
