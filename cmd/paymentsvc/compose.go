package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// notificationBody composes the body of an event from the flags, its fields in the document's order (section 6).
func notificationBody(c *cli.Call, event string) ([]byte, error) {
	if !paymentsvc.EventType(event).Known() {
		return nil, cli.Usagef("no event %q%s", cli.Printable(event), cli.NearestOf(event, events()))
	}
	// The numbers are defaults of this command and of the fake, because the document specifies none (section 3).
	numbers := map[string][2]string{"PENDING": {"1", "10"}, "SUCCESS": {"2", "20"}, "FAILURE": {"3", "30"}}
	status := c.Text("status")
	values := map[string]string{
		"event": event, "order_id": cmp.Or(c.Text("order-id"), paymentsvc.NewUserData()), "status": numbers[status][0],
		"status_description": status, "status_code": numbers[status][1], "amount": c.Text("amount"), "user_data": c.Text("user-data"),
	}
	names := []string{"event", "order_id", "status", "status_description", "status_code", "amount", "user_data"}
	for _, pair := range c.List("set") {
		name, value, found := strings.Cut(pair, "=")
		switch {
		case !found:
			return nil, cli.Usagef("-set: want NAME=VALUE")
		case !slices.Contains(names[1:], name):
			return nil, cli.Usagef("-set: %s has no field %q%s", event, cli.Printable(name), cli.Nearest(name, names[1:]))
		}
		values[name] = value
	}
	if values["status"] == "" || values["status_code"] == "" {
		return nil, cli.Usagef("-status: %q needs -set status=N and -set status_code=N%s",
			cli.Printable(status), cli.Nearest(status, slices.Sorted(maps.Keys(numbers))))
	}
	var body bytes.Buffer
	for i, name := range names {
		if name == "user_data" && values[name] == "" {
			continue
		}
		text, err := fieldText(name, values[name])
		if err != nil {
			return nil, cli.Usagef("%s: %s", name, strings.TrimPrefix(err.Error(), "paymentsvc: amount: "))
		}
		fmt.Fprintf(&body, "%c%q:%s", "{,"[min(i, 1)], name, text)
	}
	return append(body.Bytes(), '}'), nil
}

// fieldText returns a value as JSON.
func fieldText(name, value string) (string, error) {
	switch name {
	case "status", "status_code":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return "", errors.New("not a whole number")
		}
		return strconv.FormatInt(n, 10), nil
	case "amount":
		amount, err := paymentsvc.ParseAmount(value)
		return amount.String(), err
	}
	if !utf8.ValidString(value) {
		return "", errors.New("not UTF-8")
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// fault is a deliberate fault of a delivery, in the words of [paymentsvctest.ParseNotificationFault].
type fault struct {
	name string
	// accepted describes the bad message in the output. "" is for a genuine message.
	accepted string
	shape    func(d *delivery, value string)
	sign     func(*delivery) error
	old      bool // signed with the old secret
}

var faults = []fault{
	{name: "forged", accepted: "a forgery", shape: words("forged on purpose"), sign: func(d *delivery) error {
		d.key.Secret = paymentsvc.Secret(rand.Text())
		return d.sign()
	}},
	{name: "unsigned", accepted: "a message without a signature", shape: words("unsigned on purpose"), sign: func(d *delivery) error {
		d.message.Header.Del("Signature")
		return nil
	}},
	{
		name: "altered", accepted: "a message changed after the signature", shape: words("altered on purpose"),
		sign: (*delivery).signAndAlter,
	},
	{name: "late", accepted: "a timestamp in the past", shape: shifted(-1), sign: (*delivery).sign},
	{name: "early", accepted: "a timestamp in the future", shape: shifted(1), sign: (*delivery).sign},
	{name: "cut", accepted: "a part of a body", shape: func(d *delivery, value string) {
		d.what, d.cut = "cut on purpose", len(d.message.Body)/2
		if n, err := strconv.Atoi(value); err == nil {
			d.cut = min(n, len(d.message.Body)-1)
		}
	}},
	{name: "repeated", shape: func(d *delivery, value string) {
		d.times = 2
		if n, err := strconv.Atoi(value); err == nil {
			d.times = n + 1
		}
	}},
	{name: "old-secret", old: true, sign: (*delivery).sign},
}

func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// setFault parses the text of -fault, such as "late" or "late 5m".
func (d *delivery) setFault(text string) error {
	name, value, _ := strings.Cut(text, " ")
	i := slices.Index(faultNames(), name)
	if i < 0 {
		return cli.Usagef("-fault: no fault %q%s", cli.Printable(name), cli.NearestOf(name, faultNames()))
	}
	if _, err := paymentsvctest.ParseNotificationFault(text); err != nil {
		return cli.Usagef("-fault: %s", strings.TrimPrefix(err.Error(), "paymentsvctest: "))
	}
	d.fault, d.faultValue = faults[i], value
	return nil
}

func words(text string) func(*delivery, string) { return func(d *delivery, _ string) { d.what = text } }

// shifted returns a function that shifts the timestamp by a duration, an hour by default.
func shifted(sign int64) func(*delivery, string) {
	return func(d *delivery, value string) {
		by, err := time.ParseDuration(value)
		if err != nil {
			by = time.Hour
		}
		d.what = fmt.Sprintf("%s %s on purpose", by, d.fault.name)
		seconds, _ := strconv.ParseInt(d.message.Timestamp, 10, 64) // newMessage wrote it
		d.message.Timestamp = strconv.FormatInt(seconds+sign*int64(by/time.Second), 10)
		d.message.Header.Set("Timestamp", d.message.Timestamp)
	}
}

// signAndAlter signs the message and then changes its body.
func (d *delivery) signAndAlter() error {
	if err := d.sign(); err != nil {
		return err
	}
	d.message.Body = altered(d.message.Body)
	if made, err := d.key.Scheme.Signature(d.key.Secret, d.message); err == nil && made == d.message.Header.Get("Signature") {
		return cli.Usagef("-fault altered: the scheme does not sign the last digit of the body")
	}
	return nil
}

// altered changes the last digit of a body, because some schemes do not sign white space.
func altered(body []byte) []byte {
	changed := bytes.Clone(body)
	at := bytes.LastIndexAny(changed, "0123456789")
	if at < 0 {
		return append(changed, '0')
	}
	changed[at] = '0' + (changed[at]-'0'+1)%10
	return changed
}
