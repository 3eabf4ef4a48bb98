package paymentsvc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// EventType is the subject of a notification (section 6).
type EventType string

// The events of section 6.
const (
	EventPaymentStatusChanged EventType = "payment.status_changed"
	EventPayoutStatusChanged  EventType = "payout.status_changed"
	EventRefundStatusChanged  EventType = "refund.status_changed"
)

// Known reports whether the document lists e. Other events are parsed too.
func (e EventType) Known() bool {
	return e == EventPaymentStatusChanged || e == EventPayoutStatusChanged || e == EventRefundStatusChanged
}

// Notification reports the state of a payment, payout or refund (section 6). The document does not specify order and
// repetition. Expect duplicates, and an older state after a newer one: see [Notification.Key] and [Notification.Final].
type Notification struct {
	// Event is the subject. Check it first, because a refund carries the order_id of its payment, and SUCCESS of a
	// refund means that money went back. Event may be an event that the document does not list.
	Event EventType
	// OrderID is never empty.
	OrderID string
	// Status is a number. Its values are not specified (section 3).
	Status int64
	// StatusDescription is the status by name. It may be a name that the document does not list.
	StatusDescription StatusName
	// StatusCode is a number like Status.
	StatusCode int64
	// Amount is always set.
	Amount Amount
	// UserData is the partner's identifier, or "" if it is absent.
	UserData string
	// Timestamp is the timestamp header. The signature covers it if the [Scheme] does.
	Timestamp time.Time
	// SecretIndex is the index in [WebhookConfig].Secrets of the secret that matched.
	SecretIndex int
	// Malformed lists the optional fields with unreadable values. These fields have their zero value.
	Malformed []string
	// Raw is the complete body, byte for byte. encoding/json compacts Raw when it encodes a Notification, so the
	// signature no longer matches, but Key stays the same. To verify a notification again after a queue, queue header
	// and body instead.
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

// Final reports whether n has the final status of a payment. A later notification with an earlier state must not
// overwrite it. Final is false for every other event, because the document does not list all states of payouts and
// refunds (section 3).
func (n *Notification) Final() bool {
	return n.Event == EventPaymentStatusChanged && n.StatusDescription.Final()
}

// Key identifies the reported state, for deduplication. A late duplicate with a new timestamp has the same Key. A
// different event, order, status, amount or user_data has a different Key. Key returns 64 hexadecimal characters for a
// unique index, and stays the same in all releases of this major version.
//
// The document gives a refund no id. So the Key of a refund, and of an event that the document does not list, includes
// a digest of the members of Raw. Two refunds of one order have different keys if any member differs. White space, the
// order of members, empty values (null, "", {} and []), and quotes around a number or a boolean do not count, because a
// [Scheme] that signs the text of fields does not protect them from changes. If Raw has invalid UTF-8, half a surrogate
// pair, or two members of one name in an object, the digest covers the bytes of Raw instead, without white space.
func (n *Notification) Key() string {
	amount := n.Amount.String()
	if strings.Contains(amount, ".") {
		amount = strings.TrimRight(strings.TrimRight(amount, "0"), ".")
	}
	// %+q writes ASCII only. The output of %q could change, because newer releases of Go print more letters.
	state := fmt.Appendf(nil, "%+q %+q %d %+q %d %s %+q",
		n.Event, n.OrderID, n.Status, n.StatusDescription, n.StatusCode, amount, n.UserData)
	if n.Event != EventPaymentStatusChanged && n.Event != EventPayoutStatusChanged {
		state = append(state, contentOf(n.Raw)...)
	}
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:])
}

// contentOf returns the sorted members of raw. If the text of the members would lose information, it returns raw as
// encoding/json would write it, so a key is the same before and after a queue. If raw is not JSON, it returns raw.
func contentOf(raw json.RawMessage) []byte {
	if lines, ok := jsonobject.Texts(raw); ok {
		return []byte(strings.Join(lines, ""))
	}
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return raw
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}

// NotificationError is a correctly signed body that section 6 does not allow. The body is not a forgery, because the
// service signed it. errors.Is finds [ErrMalformedNotification].
type NotificationError struct {
	// Raw is the body. Encoders that call MarshalJSON, MarshalText or MarshalBinary do not write it.
	Raw []byte
	// Err names the field and its fault, or the fault of the whole body.
	Err error
}

// Error returns a text without bytes of the body.
func (e *NotificationError) Error() string {
	if e == nil {
		return "paymentsvc: a nil *NotificationError"
	}
	return fmt.Sprintf("paymentsvc: %v: %v", ErrMalformedNotification, e.Err)
}

// Unwrap returns [ErrMalformedNotification] and Err.
func (e *NotificationError) Unwrap() []error {
	if e == nil {
		return nil
	}
	return []error{ErrMalformedNotification, e.Err}
}

// Format writes the text of Error under every verb, because %#v and %x would print Raw.
func (e NotificationError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers of a copy, because only a pointer has the method Error.
func (e NotificationError) String() string { return e.Error() }

// MarshalJSON writes the text of Error without Raw.
func (e NotificationError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error()})
}

// MarshalText returns the text of Error, for YAML, XML and similar encoders. The error is always nil.
func (e NotificationError) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// MarshalBinary returns the text of Error, for encoding/gob, CBOR and MessagePack. The error is always nil.
func (e NotificationError) MarshalBinary() ([]byte, error) { return []byte(e.Error()), nil }

// isContentCoding reports whether coding is registered for HTTP. Error texts contain only registered codings, because
// anybody can send a header.
func isContentCoding(coding string) bool {
	switch strings.TrimSpace(coding) {
	case "aes128gcm", "br", "compress", "dcb", "dcz", "deflate", "exi", "gzip", "identity", "pack200-gzip",
		"x-compress", "x-gzip", "zstd":
		return true
	}
	return false
}

// inEncoding adds the Content-Encoding of a notification to err, because a compressed body is then the usual cause of
// the error.
func inEncoding(err error, h http.Header) error {
	for name, values := range h {
		coding := strings.ToLower(strings.TrimSpace(strings.Join(values, ", ")))
		if !strings.EqualFold(name, "Content-Encoding") || coding == "" || coding == "identity" {
			continue
		}
		unregistered := func(coding string) bool { return !isContentCoding(coding) }
		if all := strings.Split(coding, ","); len(all) > 3 || slices.ContainsFunc(all, unregistered) {
			coding = "unregistered"
		}
		return fmt.Errorf("%w (Content-Encoding: %s, want a decompressed body)", err, coding)
	}
	return err
}
