package paymentsvc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// EventType says what a notification is about (section 6).
type EventType string

// The events of section 6.
const (
	EventPaymentStatusChanged EventType = "payment.status_changed"
	EventPayoutStatusChanged  EventType = "payout.status_changed"
	EventRefundStatusChanged  EventType = "refund.status_changed"
)

// Known reports whether e is an event that the document shows. Others are parsed too.
func (e EventType) Known() bool {
	return e == EventPaymentStatusChanged || e == EventPayoutStatusChanged || e == EventRefundStatusChanged
}

// Notification is what the service reports of a payment, payout or refund (section 6). The document says nothing of order
// and repetition, so expect duplicates, and an older state after a newer one: see [Notification.Key] and
// [Notification.Final].
type Notification struct {
	// Event says what changed. Look at it first: a refund carries the order_id of its payment, and its SUCCESS is money
	// that went back. It may be one that the document does not show.
	Event EventType
	// OrderID is never empty.
	OrderID string
	// Status is a number whose values are not shown (section 3).
	Status int64
	// StatusDescription is the status by name. It may be one that the document does not show.
	StatusDescription StatusName
	// StatusCode is a number like Status.
	StatusCode int64
	// Amount is always set.
	Amount Amount
	// UserData is the partner's own identifier, "" if the service sends none.
	UserData string
	// Timestamp is the timestamp header. The signature covers it if the [Scheme] does.
	Timestamp time.Time
	// SecretIndex is the index in [WebhookConfig].Secrets of the secret that matched.
	SecretIndex int
	// Raw is the whole body, byte for byte. encoding/json compacts it when it encodes a Notification: to verify it again
	// behind a queue, put header and body into the queue instead. Key stays the same.
	Raw json.RawMessage
}

func (n *Notification) fields() []jsonobject.Field {
	return []jsonobject.Field{
		{Name: "event", Into: (*string)(&n.Event), Need: jsonobject.Filled},
		{Name: "order_id", Into: &n.OrderID, Need: jsonobject.Filled},
		{Name: "status", Into: &n.Status, Need: jsonobject.Required},
		{Name: "status_description", Into: (*string)(&n.StatusDescription), Need: jsonobject.Filled},
		{Name: "status_code", Into: &n.StatusCode, Need: jsonobject.Required},
		{Name: "amount", Into: &n.Amount, Need: jsonobject.Required},
		{Name: "user_data", Into: &n.UserData},
	}
}

// Final reports whether n is the last word on a payment: its event is [EventPaymentStatusChanged] and its status is
// final. A later notification with an earlier state must not overwrite it. It is false for every payout and refund, whose
// states the document does not list (section 3); a refund carries the order_id of its payment.
func (n *Notification) Final() bool {
	return n.Event == EventPaymentStatusChanged && n.StatusDescription.Final()
}

// Key identifies the state that a notification reports, for deduplication: the same for a duplicate, however late and
// whatever its timestamp, and another for another event, order, status, amount or user_data. It is 64 hexadecimal
// characters, fit for a unique index, and stays the same in all releases of this major version.
//
// The document gives a refund no identifier of its own, so the Key of a refund, and of an event that the document does
// not show, includes a digest of the whole body, Raw. Two refunds of one order are told apart if any member of theirs
// differs. White space, the order of members, empty ones, and whether a value is written as a number or as a string do not
// count: under a [Scheme] that signs the text of fields, whoever replays a notification can change these.
func (n *Notification) Key() string {
	amount := n.Amount.String()
	if strings.Contains(amount, ".") {
		amount = strings.TrimRight(strings.TrimRight(amount, "0"), ".")
	}
	// %+q writes ASCII only, so that no release of Go with newer tables of letters makes another key.
	state := fmt.Appendf(nil, "%+q %+q %d %+q %d %s %+q",
		n.Event, n.OrderID, n.Status, n.StatusDescription, n.StatusCode, amount, n.UserData)
	if n.Event != EventPaymentStatusChanged && n.Event != EventPayoutStatusChanged {
		state = append(state, textsOf(n.Raw)...)
	}
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:])
}

// textsOf returns the texts of all members of raw with the names that lead to them, sorted, or raw itself where it is no
// JSON.
func textsOf(raw json.RawMessage) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // every digit counts
	var value any
	if decoder.Decode(&value) != nil {
		return raw
	}
	texts := appendTexts(nil, "", value)
	slices.Sort(texts)
	return []byte(strings.Join(texts, ""))
}

func appendTexts(texts []string, path string, value any) []string {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for name, member := range value {
			texts = appendTexts(texts, fmt.Sprintf("%s %+q", path, name), member)
		}
	case []any:
		for i, element := range value {
			texts = appendTexts(texts, fmt.Sprintf("%s %d", path, i), element)
		}
	default:
		if text := fmt.Sprint(value); text != "" {
			texts = append(texts, fmt.Sprintf("%s=%+q\n", path, text))
		}
	}
	return texts
}

// NotificationError is a body with a correct signature that is not what section 6 shows: the service sent it, so it is no
// forgery. errors.Is finds [ErrMalformedNotification].
type NotificationError struct {
	// Raw is the body.
	Raw []byte
	// Err names the field and what is wrong with it.
	Err error
}

// Error returns a text that contains nothing of the body.
func (e *NotificationError) Error() string {
	return fmt.Sprintf("paymentsvc: %v: %v", ErrMalformedNotification, e.Err)
}

// Unwrap returns [ErrMalformedNotification] and Err.
func (e *NotificationError) Unwrap() []error { return []error{ErrMalformedNotification, e.Err} }

// Format writes the text of Error under every verb: %#v and %x would otherwise spell out Raw.
func (e NotificationError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers that look for no other method of a copied error.
func (e NotificationError) String() string { return e.Error() }

// MarshalJSON writes the text of Error and not Raw.
func (e NotificationError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error()})
}
