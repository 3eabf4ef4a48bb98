package paymentsvctest

import "slices"

// pendingFaults are the faults of one request or notification before they take effect, by their slot.
type pendingFaults map[string][]pendingFault

// pendingFault is a fault of a rule.
type pendingFault struct {
	text string
	rule *Rule
	left *int // faults of the rule that have not taken effect yet
}

// addAll adds the faults of a rule. r may be nil. apply applies one fault and returns its slot, or "" for the zero
// value. A fault replaces different faults in its slot.
func addAll[F any](s pendingFaults, r *Rule, faults []F, apply func(F) (slot, text string)) {
	left := 0
	for _, f := range faults {
		slot, text := apply(f)
		if slot == "" {
			continue
		}
		left++
		same := slices.DeleteFunc(s[slot], func(other pendingFault) bool { return other.text != text })
		s[slot] = append(same, pendingFault{text, r, &left})
	}
	if left == 0 && r != nil {
		r.hits++ // a rule without faults counts its requests
	}
}

// markApplied counts the faults in a slot. A rule hits when all of its faults took effect. Call markApplied before
// the client can see the effect and call [Rule.Hits].
func (s *Server) markApplied(faults pendingFaults, slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults.markApplied(slot)
}

func (s pendingFaults) markApplied(slot string) {
	for _, f := range s[slot] {
		if *f.left--; *f.left == 0 && f.rule != nil {
			f.rule.hits++
		}
	}
	delete(s, slot)
}
