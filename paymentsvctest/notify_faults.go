package paymentsvctest

import (
	"strconv"
	"strings"
	"time"
)

// NotificationFault is a fault of a notification. Its zero value is none.
type NotificationFault struct {
	text  string
	apply func(*deliveryEffects)
}

// String returns the text that [ParseNotificationFault] reads.
func (f NotificationFault) String() string { return f.text }

// deliveryEffects is the combination of the faults of one notification.
type deliveryEffects struct {
	strikes
	lost      bool
	delay     int
	reorder   bool
	forge     bool
	oldSecret bool
	skew      time.Duration
	cut       *int
	repeat    int
}

// add adds the faults of a rule, nil for those of Chaos and of Send; of two of one kind the later one counts.
func (e *deliveryEffects) add(r *Rule, faults []NotificationFault) {
	addAll(e.strikes, r, faults, func(f NotificationFault) (kind, text string) {
		if f.apply != nil {
			f.apply(e)
		}
		kind, _, _ = strings.Cut(f.text, " ")
		return kind, f.text
	})
}

// Lost does not send the notification, although a forgery of it. It counts as a failed attempt.
func Lost() NotificationFault {
	return NotificationFault{"lost", func(e *deliveryEffects) { e.lost = true }}
}

// RepeatedBy sends n duplicates of it, with the same body.
func RepeatedBy(n int) NotificationFault {
	return NotificationFault{"repeated " + strconv.Itoa(n), func(e *deliveryEffects) { e.repeat = n }}
}

// Reordered sends it after the next one; the last one waits for the next Deliver, for one that comes by then.
func Reordered() NotificationFault {
	return NotificationFault{"reordered", func(e *deliveryEffects) { e.reorder = true }}
}

// Delayed keeps it in the outbox for n calls of Deliver.
func Delayed(n int) NotificationFault {
	return NotificationFault{"delayed " + strconv.Itoa(n), func(e *deliveryEffects) { e.delay = n }}
}

// Forged first sends a forgery, which claims SUCCESS, or FAILURE instead of SUCCESS, and is signed with an unknown key.
// Nothing else goes wrong with the forgery.
func Forged() NotificationFault {
	return NotificationFault{"forged", func(e *deliveryEffects) { e.forge = true }}
}

// SignedWithOldSecret signs it with Project.OldSecret. Without one nothing is sent, and the [Delivery] says so.
func SignedWithOldSecret() NotificationFault {
	return NotificationFault{"old-secret", func(e *deliveryEffects) { e.oldSecret = true }}
}

// Skewed shifts its timestamp by skew, and signs the shifted timestamp.
func Skewed(skew time.Duration) NotificationFault {
	return NotificationFault{"skewed " + skew.String(), func(e *deliveryEffects) { e.skew = skew }}
}

// CutAt closes the connection after n bytes of the body.
func CutAt(n int) NotificationFault {
	return NotificationFault{"cut " + strconv.Itoa(n), func(e *deliveryEffects) { at := max(n, 0); e.cut = &at }}
}

// AllNotificationFaults returns one of each with moderate values, except SignedWithOldSecret, which needs an OldSecret.
func AllNotificationFaults() []NotificationFault {
	return []NotificationFault{
		Lost(), RepeatedBy(2), Reordered(), Delayed(1), Forged(), Skewed(-time.Hour), Skewed(time.Hour), CutAt(20),
	}
}

// ParseNotificationFault reads the text of [NotificationFault.String], such as "repeated 2" or "skewed -1h". Anything
// else is an error.
func ParseNotificationFault(text string) (NotificationFault, error) {
	p := parser{left: text}
	return parse(&p, map[string]func() NotificationFault{
		"lost":       Lost,
		"repeated":   func() NotificationFault { return RepeatedBy(p.number()) },
		"reordered":  Reordered,
		"delayed":    func() NotificationFault { return Delayed(p.number()) },
		"forged":     Forged,
		"old-secret": SignedWithOldSecret,
		"skewed":     func() NotificationFault { return Skewed(p.duration()) },
		"cut":        func() NotificationFault { return CutAt(p.number()) },
	})
}
