package paymentsvctest

import (
	"strconv"
	"strings"
	"time"
)

// NotificationFault is a fault of a notification. The zero value has no effect.
type NotificationFault struct {
	text  string
	apply func(*deliveryEffects)
}

// String returns the text that [ParseNotificationFault] reads.
func (f NotificationFault) String() string { return f.text }

// deliveryEffects is the combination of the faults of one notification.
type deliveryEffects struct {
	pendingFaults
	lost      bool
	delay     int
	reorder   bool
	forge     bool
	oldSecret bool
	unsigned  bool
	altered   bool
	skew      time.Duration
	cut       func(size int) int // nil for whole notifications
	repeat    int
}

// add adds the faults of a rule. r is nil for Chaos and Send. The last fault of a kind applies.
func (e *deliveryEffects) add(r *Rule, faults []NotificationFault) {
	addAll(e.pendingFaults, r, faults, func(f NotificationFault) (kind, text string) {
		if f.apply != nil {
			f.apply(e)
		}
		kind, _, _ = strings.Cut(f.text, " ")
		if kind == "late" || kind == "early" {
			kind = "skewed" // the two exclude each other
		}
		return kind, f.text
	})
}

// Lost does not send the notification. It counts as a failed attempt. A forgery is sent nevertheless.
func Lost() NotificationFault {
	return NotificationFault{"lost", func(e *deliveryEffects) { e.lost = true }}
}

// RepeatedBy sends the notification and n duplicates with the same body.
func RepeatedBy(n int) NotificationFault {
	return NotificationFault{"repeated " + strconv.Itoa(n), func(e *deliveryEffects) { e.repeat = n }}
}

// Reordered sends it after the next notification. The last notification waits for the next Deliver.
func Reordered() NotificationFault {
	return NotificationFault{"reordered", func(e *deliveryEffects) { e.reorder = true }}
}

// Delayed keeps it in the outbox for n calls of Deliver.
func Delayed(n int) NotificationFault {
	return NotificationFault{"delayed " + strconv.Itoa(n), func(e *deliveryEffects) { e.delay = n }}
}

// Forged first sends a forgery, and then the genuine notification. The forgery claims SUCCESS, or FAILURE instead of
// SUCCESS. Its key is unknown. Other faults do not affect it.
func Forged() NotificationFault {
	return NotificationFault{"forged", func(e *deliveryEffects) { e.forge = true }}
}

// SignedWithOldSecret signs it with Project.OldSecret. Without an OldSecret, the [Delivery] has an error.
func SignedWithOldSecret() NotificationFault {
	return NotificationFault{"old-secret", func(e *deliveryEffects) { e.oldSecret = true }}
}

// Unsigned sends it without a signature header.
func Unsigned() NotificationFault {
	return NotificationFault{"unsigned", func(e *deliveryEffects) { e.unsigned = true }}
}

// Altered changes the last digit of its body after signing. If the scheme does not sign that digit, the [Delivery]
// has an error instead.
func Altered() NotificationFault {
	return NotificationFault{"altered", func(e *deliveryEffects) { e.altered = true }}
}

// Late signs it with a timestamp in the past.
func Late(by time.Duration) NotificationFault {
	return NotificationFault{"late " + by.String(), func(e *deliveryEffects) { e.skew = -by }}
}

// Early signs it with a timestamp in the future.
func Early(by time.Duration) NotificationFault {
	return NotificationFault{"early " + by.String(), func(e *deliveryEffects) { e.skew = by }}
}

// CutAt closes the connection after n bytes of the body.
func CutAt(n int) NotificationFault {
	return NotificationFault{"cut " + strconv.Itoa(n), func(e *deliveryEffects) {
		e.cut = func(int) int { return max(n, 0) }
	}}
}

// cutInHalf is the fault "cut" without a number.
func cutInHalf() NotificationFault {
	return NotificationFault{"cut", func(e *deliveryEffects) { e.cut = func(size int) int { return size / 2 } }}
}

// AllNotificationFaults returns every fault with moderate values, except SignedWithOldSecret, because it needs an
// OldSecret.
func AllNotificationFaults() []NotificationFault {
	return []NotificationFault{
		Lost(), RepeatedBy(2), Reordered(), Delayed(1), Forged(), Unsigned(), Altered(), Late(time.Hour), Early(time.Hour),
		CutAt(20),
	}
}

// ParseNotificationFault parses the text of [NotificationFault.String], such as "repeated 2" or "late 5m". The value may be
// missing: "late" and "early" are an hour, "repeated" sends one duplicate, and "cut" sends half of the body.
func ParseNotificationFault(text string) (NotificationFault, error) {
	p := parser{left: text}
	return parse(&p, map[string]func() NotificationFault{
		"lost":       Lost,
		"repeated":   func() NotificationFault { return RepeatedBy(optional(&p, 1, p.number)) },
		"reordered":  Reordered,
		"delayed":    func() NotificationFault { return Delayed(p.number()) },
		"forged":     Forged,
		"unsigned":   Unsigned,
		"altered":    Altered,
		"old-secret": SignedWithOldSecret,
		"late":       func() NotificationFault { return Late(optional(&p, time.Hour, p.positive)) },
		"early":      func() NotificationFault { return Early(optional(&p, time.Hour, p.positive)) },
		"cut": func() NotificationFault {
			if p.ended() {
				return cutInHalf()
			}
			return CutAt(p.number())
		},
	})
}

// optional returns the value that read parses, or absent at the end of the text.
func optional[V any](p *parser, absent V, read func() V) V {
	if p.ended() {
		return absent
	}
	return read()
}
