package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mock"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// maxMessage limits the bodies for the commands listen, verify, discover -listen and discover -proxy. The document
// specifies no limit.
const maxMessage = 1 << 20

// startEndpoints matches the paths of the start operations (section 4). Some servers ignore the letter case of a path.
var startEndpoints = regexp.MustCompile(`(?i)/init_(payment/[^/]+|payout|form|invoice)/*$`)

// isReceiver rejects the address of a start operation, because a replayed request could pay again there.
func isReceiver(text string) error {
	u, err := url.Parse(text)
	starts := err == nil && startEndpoints.MatchString(u.Path)
	return cli.Want(!starts, "starts an operation of the service; want the address of your program")
}

// kindFlag returns the flag that [kindOf] reads.
func kindFlag(usage string) cli.Flag {
	return cli.NewFlag("kind", cli.Choice, "KIND", usage).Among("request", "notification")
}

// kindOf returns the value of -kind. Without a value, a body with an event is a notification, and others are requests.
func kindOf(c *cli.Call, body []byte) paymentsvc.MessageKind {
	if kind := c.Text("kind"); kind == "notification" || kind == "" && summaryOf(body).Event != "" {
		return paymentsvc.KindNotification
	}
	return paymentsvc.KindRequest
}

func newMessage(
	kind paymentsvc.MessageKind, method string, address *url.URL, seconds int64, body []byte,
) *paymentsvc.Message {
	timestamp := strconv.FormatInt(seconds, 10)
	return &paymentsvc.Message{
		Kind: kind, Method: method, URL: address, Timestamp: timestamp, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Timestamp": {timestamp}},
	}
}

// signMessage sets the signature header of m.
func signMessage(key cli.Key, m *paymentsvc.Message) error {
	signature, err := key.Scheme.Signature(key.Secret, m)
	if err != nil {
		return cannotSign(key, m, err)
	}
	if strings.ContainsFunc(signature, unicode.IsControl) {
		return cli.Usagef("the scheme produces a signature with a control character, which is invalid in a header")
	}
	m.Header.Set("Signature", signature)
	return nil
}

// cannotSign returns the error of a scheme, with advice if only the address is missing.
func cannotSign(key cli.Key, m *paymentsvc.Message, err error) error {
	hint, addressed := "", *m
	addressed.URL = (&url.URL{Scheme: "https", Host: "pay.example.com", Path: "/"})
	if m.URL == nil {
		if _, failed := key.Scheme.Signature(key.Secret, &addressed); failed == nil {
			hint = ": give -url"
		}
	}
	return cli.Usagef("the scheme cannot sign this message: %s%s", key.Mask(err.Error()), hint)
}

// shownMessage returns m with placeholders for card data, personal data and destinations in the body, because a
// canonical string may contain these values without the field names. A placeholder also replaces a compressed body.
// Hashes of the body become hashes of the body with placeholders. A note reports the placeholders.
func shownMessage(c *cli.Call, m *paymentsvc.Message) *paymentsvc.Message {
	shown := *m
	switch body, hidden := mask.Body(m.Body); {
	case hidden:
		c.Note("placeholders replace card data and destinations, so a hash of the body differs from the signed hash")
		shown.Body = body
	case !json.Valid(m.Body) && m.Header.Get("Content-Encoding") != "":
		c.Note("a placeholder replaces the compressed body, because its bytes may contain card data and destinations")
		shown.Body = []byte("<compressed body>")
	}
	return &shown
}

// readCapture reads the signed message in a file, and prints the message's notes. An unknown URL is empty, not nil.
func readCapture(c *cli.Call, file string, o capture.Options) (capture.Message, error) {
	data, err := c.ReadInput(file, file)
	if err != nil {
		return capture.Message{}, err
	}
	o.Open = func(name string) ([]byte, error) { return c.ReadInput(name, name) }
	name := file
	if file == "-" {
		name = "standard input"
	}
	m, err := capture.Read(data, name, o)
	if err != nil {
		return capture.Message{}, cli.Usagef("%w", err)
	}
	for _, note := range m.Notes {
		c.Note("%s: %s", m.Source, note)
	}
	if m.URL == nil {
		m.URL = &url.URL{}
	}
	return m, nil
}

// saveCapture writes a message to a new file in the directory of -save, and returns the file's path.
func saveCapture(c *cli.Call, n int64, m capture.Message) (string, error) {
	name, err := capture.Save(c.Text("save"), n, m)
	if err != nil {
		return "", fmt.Errorf("-save: %w", err)
	}
	return path.Join(filepath.ToSlash(c.Value("save").Texts[0]), name), nil
}

// captured returns a message for package capture.
func captured(m *paymentsvc.Message) capture.Message {
	return capture.Message{Method: m.Method, URL: m.URL, Header: m.Header, Body: m.Body}
}

// notificationBody composes the body of an event from the flags.
func notificationBody(c *cli.Call, event string) ([]byte, error) {
	if !paymentsvc.EventType(event).Known() {
		return nil, cli.Usagef("no event %q%s", cli.Printable(event), cli.NearestOf(event, mock.Events()))
	}
	values, err := fieldValues(c, event)
	if err != nil {
		return nil, err
	}
	n := paymentsvctest.Notification{
		Event: paymentsvc.EventType(event), OrderID: values["order_id"],
		StatusDescription: paymentsvc.StatusName(values["status_description"]), UserData: values["user_data"],
	}
	for name, number := range map[string]*int64{"status": &n.Status, "status_code": &n.StatusCode} {
		*number, err = strconv.ParseInt(values[name], 10, 64)
		if err != nil {
			return nil, cli.Usagef("%s: not a whole number", name)
		}
	}
	n.Amount, err = paymentsvc.ParseAmount(values["amount"])
	if err != nil {
		return nil, cli.Usagef("%s", strings.TrimPrefix(err.Error(), "paymentsvc: "))
	}
	body, err := jsonobject.EncodeOpen(n)
	if err != nil {
		return nil, cli.Usagef("the notification %w", err)
	}
	return body, nil
}

// fieldValues returns the values of the fields, by their names in JSON.
func fieldValues(c *cli.Call, event string) (map[string]string, error) {
	// The numbers are defaults of this command and of the fake, because the document specifies none (section 3).
	numbers := map[string][2]string{"PENDING": {"1", "10"}, "SUCCESS": {"2", "20"}, "FAILURE": {"3", "30"}}
	status := c.Text("status")
	values := map[string]string{
		"order_id": cmp.Or(c.Text("order-id"), paymentsvc.NewUserData()), "status": numbers[status][0],
		"status_description": status, "status_code": numbers[status][1], "amount": c.Text("amount"),
		"user_data": c.Text("user-data"),
	}
	for _, pair := range c.List("set") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, cli.Usagef("-set: want NAME=VALUE")
		}
		if _, known := values[name]; !known {
			hint := cli.Nearest(name, slices.Sorted(maps.Keys(values)))
			return nil, cli.Usagef("-set: %s has no field %q%s", event, cli.Printable(name), hint)
		}
		values[name] = value
	}
	if values["status"] == "" || values["status_code"] == "" {
		return nil, cli.Usagef("-status: %q needs -set status=N and -set status_code=N%s",
			cli.Printable(status), cli.Nearest(status, slices.Sorted(maps.Keys(numbers))))
	}
	return values, nil
}

// summary is the printed part of a body. A body may be a forgery, so every field is optional.
type summary struct {
	Event             string `json:"event"`
	StatusDescription string `json:"status_description"`
	Amount            string `json:"amount"`
	OrderID           string `json:"order_id"`
	Bytes             int    `json:"bytes"`

	request string // method and path of a request
}

func summaryOf(body []byte) summary {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // a body other than an object has no fields
	text := func(name string) string {
		var text string
		if json.Unmarshal(fields[name], &text) != nil {
			text = string(fields[name])
		}
		const most = 64
		text = mask.Text(text) // before the cut, because mask does not recognize a part of a card number
		if short := []rune(text); len(short) > most {
			text = string(short[:most]) + "..."
		}
		return text
	}
	return summary{text("event"), text("status_description"), text("amount"), text("order_id"), len(body), ""}
}

// String returns the fields on one line.
func (s summary) String() string {
	switch {
	case s.request != "":
		return fmt.Sprintf("%s, %d bytes", s.request, s.Bytes)
	case s.Event == "":
		return fmt.Sprintf("%d bytes", s.Bytes)
	}
	return strings.Join(strings.Fields(fmt.Sprint(s.Event, " ", s.StatusDescription, " ", s.Amount, " ", s.OrderID)), " ")
}
