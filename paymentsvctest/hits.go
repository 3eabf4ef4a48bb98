package paymentsvctest

import "slices"

// strikes are the faults of one request or notification that have not taken effect yet, by their slot.
type strikes map[string][]strike

// strike is a fault of a rule.
type strike struct {
	text string
	rule *Rule
	left *int // faults of the rule that have not taken effect yet
}

// addAll adds the faults of a rule, nil for none. apply applies one, and returns its slot, "" for no fault. A fault replaces
// those that exclude it: others in its slot that are not the same.
func addAll[F any](s strikes, r *Rule, faults []F, apply func(F) (slot, text string)) {
	left := 0
	for _, f := range faults {
		slot, text := apply(f)
		if slot == "" {
			continue
		}
		left++
		same := slices.DeleteFunc(s[slot], func(other strike) bool { return other.text != text })
		s[slot] = append(same, strike{text, r, &left})
	}
	if left == 0 && r != nil {
		r.hits++ // a rule without faults counts what it is about
	}
}

// struck counts that what is in a slot takes effect. A rule hits when all of its faults do. Call it before the client
// can see the effect and ask for Rule.Hits.
func (s *Server) struck(faults strikes, slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults.struck(slot)
}

func (s strikes) struck(slot string) {
	for _, f := range s[slot] {
		if *f.left--; *f.left == 0 && f.rule != nil {
			f.rule.hits++
		}
	}
	delete(s, slot)
}
