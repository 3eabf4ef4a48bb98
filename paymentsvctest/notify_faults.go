package paymentsvctest

import (
	"fmt"
	"strconv"
	"time"
)

// NotificationFault is one thing that goes wrong with a notification. Its zero value is none.
type NotificationFault struct {
	text  string
	apply func(*deliveryEffects)
}

// String returns the fault as ParseNotificationFault reads it.
func (f NotificationFault) String() string { return f.text }

// deliveryEffects is what the faults of one notification come to.
type deliveryEffects struct {
	lost      bool
	delay     int
	reorder   bool
	forge     bool
	oldSecret bool
	skew      time.Duration
	cut       *int
	repeat    int
}

func combineNotified(faults []NotificationFault) *deliveryEffects {
	e := &deliveryEffects{}
	for _, f := range faults {
		if f.apply != nil {
			f.apply(e)
		}
	}
	return e
}

// Lost does not send the notification; it counts as an attempt that failed.
func Lost() NotificationFault {
	return NotificationFault{"lost", func(e *deliveryEffects) { e.lost = true }}
}

// RepeatedBy sends it n times more, with the same body.
func RepeatedBy(n int) NotificationFault {
	return NotificationFault{"repeated " + strconv.Itoa(n), func(e *deliveryEffects) { e.repeat = n }}
}

// Reordered sends it behind the one that follows it; where none follows, with the next Deliver.
func Reordered() NotificationFault {
	return NotificationFault{"reordered", func(e *deliveryEffects) { e.reorder = true }}
}

// Delayed leaves it in the outbox for n calls of Deliver.
func Delayed(n int) NotificationFault {
	return NotificationFault{"delayed " + strconv.Itoa(n), func(e *deliveryEffects) { e.delay = n }}
}

// Forged sends another one first, which claims SUCCESS, or FAILURE instead of SUCCESS, and is signed with a key
// that is nobody's.
func Forged() NotificationFault {
	return NotificationFault{"forged", func(e *deliveryEffects) { e.forge = true }}
}

// SignedWithOldSecret signs it with Project.OldSecret. Without one nothing is sent, and the Delivery says so.
func SignedWithOldSecret() NotificationFault {
	return NotificationFault{"old-secret", func(e *deliveryEffects) { e.oldSecret = true }}
}

// Skewed puts its timestamp off by skew, and signs that.
func Skewed(skew time.Duration) NotificationFault {
	return NotificationFault{"skewed " + skew.String(), func(e *deliveryEffects) { e.skew = skew }}
}

// CutAt breaks the connection behind n bytes of the body.
func CutAt(n int) NotificationFault {
	return NotificationFault{"cut " + strconv.Itoa(n), func(e *deliveryEffects) { at := max(n, 0); e.cut = &at }}
}

// AllNotificationFaults returns one of each with moderate values, but for SignedWithOldSecret, which needs an
// OldSecret.
func AllNotificationFaults() []NotificationFault {
	return []NotificationFault{
		Lost(), RepeatedBy(2), Reordered(), Delayed(1), Forged(), Skewed(-time.Hour), Skewed(time.Hour), CutAt(20),
	}
}

// ParseNotificationFault reads a fault as NotificationFault.String writes it, such as "repeated 2" or
// "skewed -1h". Anything else is an error.
func ParseNotificationFault(text string) (NotificationFault, error) {
	p := parser{left: text}
	var f NotificationFault
	switch name := p.word(); name {
	case "lost":
		f = Lost()
	case "repeated":
		f = RepeatedBy(p.number())
	case "reordered":
		f = Reordered()
	case "delayed":
		f = Delayed(p.number())
	case "forged":
		f = Forged()
	case "old-secret":
		f = SignedWithOldSecret()
	case "skewed":
		f = Skewed(p.duration())
	case "cut":
		f = CutAt(p.number())
	default:
		return NotificationFault{}, fmt.Errorf("%w: %q", errSyntax, name)
	}
	return f, p.end(text)
}
