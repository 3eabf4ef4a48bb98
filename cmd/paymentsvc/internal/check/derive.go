package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Findings is the evidence of a run.
type Findings struct {
	Requests int    `json:"requests"`
	Stopped  string `json:"stopped"` // the sign of a lockout, or "" after a complete run
	Facts    []Fact `json:"facts"`
}

// Derive returns the findings of a run. stopped is the sign of a lockout, or "". After a lockout, Derive uses only the
// responses up to the last balance, because the lockout may have caused the later responses.
func Derive(seen []*Exchange, stopped string) Findings {
	used := seen
	for stopped != "" && len(used) > 0 && used[len(used)-1].Balance == nil {
		used = used[:len(used)-1]
	}
	d := Findings{Requests: len(seen), Stopped: stopped, Facts: rows(used)}
	d.fields(used)
	d.timestamps(used)
	d.contradictions(used)
	if stopped != "" {
		d.open(len(seen), "the run ended early: %s; the last %d responses do not count", stopped, len(seen)-len(used))
	}
	return d
}

func (d *Findings) add(name string, n int, value any, format string, args ...any) {
	d.Facts = append(d.Facts, Fact{Name: name, Text: fmt.Sprintf(format, args...), Value: value, Observations: n})
}

func (d *Findings) open(n int, format string, args ...any) {
	d.Facts = append(d.Facts, Fact{Name: "open", Text: fmt.Sprintf(format, args...), Observations: n, Open: true})
}

// rows returns a fact for each kind of probe, in the order of the probes, with its statuses and codes.
func rows(used []*Exchange) (rows []Fact) {
	replies := map[string][]string{}
	for _, x := range used {
		i := slices.IndexFunc(rows, func(f Fact) bool { return f.Name == x.Kind })
		if i < 0 {
			i, rows = len(rows), append(rows, Fact{Name: x.Kind})
		}
		rows[i].Observations++
		reply := strings.Join(append([]string{fmt.Sprintf("HTTP %d", x.StatusCode)}, x.codes()...), " ")
		if form := x.form(); form != "json" {
			reply += " " + form
		}
		if !slices.Contains(replies[x.Kind], reply) {
			replies[x.Kind] = append(replies[x.Kind], reply)
		}
	}
	for i, f := range rows {
		rows[i].Value, rows[i].Text = replies[f.Name], strings.Join(replies[f.Name], ", ")
	}
	return rows
}

// fields adds the fields of JSON errors without a 5xx status, because a gateway may have sent other errors, and the
// fields of successes outside the document. A person chooses the error format, because a wrong format loses payments.
func (d *Findings) fields(used []*Exchange) {
	errors, extra, known := map[string]int{}, map[string]int{}, false
	for _, x := range used {
		listed := documented()[10:]
		switch {
		case x.Kind == KnownOrder && (!x.Accepted || valueAt(x.Body, "order_id") == ""):
			d.open(1, "the service does not find the payment of -order-id")
			continue
		case x.Kind == KnownOrder:
			listed, known = documented()[:6], true
		case x.Balance == nil && x.StatusCode/100 == 5:
			continue
		}
		for _, name := range fieldsOf(x) {
			switch {
			case x.Balance == nil && x.Kind != KnownOrder:
				errors[name]++
			case !slices.Contains(listed, name):
				extra[x.Endpoint+": "+name]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		d.add("error field", errors[name], nil, "%s", name)
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		d.add("extra field", extra[name], nil, "%s", name)
	}
	if len(errors) > 0 {
		d.open(0, "error format: choose the fields of the code and the message, for -error-fields and for "+
			"Config.DecodeError: paymentsvc.ErrorFields(CODE, MESSAGE)")
	} else {
		d.open(0, "error format: no error is JSON, so ask the service")
	}
	if !known {
		d.open(0, "the fields of a status response are unknown: run again with -order-id of a test payment")
	}
}

func (d *Findings) timestamps(used []*Exchange) {
	limits, rejected, n := map[string]int{"accepted_from": 0, "accepted_to": 0}, "", 0
	for _, x := range used {
		switch {
		case x.Seconds == 0:
			continue
		case !x.Accepted:
			limits["rejected_"+strings.Fields(x.Kind)[0]] = x.Seconds
			rejected += fmt.Sprintf("; rejected at %+d s with HTTP %d", x.Seconds, x.StatusCode)
		case x.Seconds < 0:
			limits["accepted_from"] = x.Seconds
		default:
			limits["accepted_to"] = x.Seconds
		}
		n++
	}
	if n == 0 {
		d.open(0, "timestamps: no observation")
		return
	}
	d.add("timestamps", n, limits, "accepted from %+d s to %+d s%s; the document does not specify a limit",
		limits["accepted_from"], limits["accepted_to"], rejected)
}

// contradictions adds the result of the replay, and wrongly accepted probes.
func (d *Findings) contradictions(used []*Exchange) {
	for _, x := range used {
		switch {
		case x.Kind == Repeated:
			text := map[bool]string{true: "accepted", false: "rejected"}[x.Accepted]
			d.add("replay", 1, x.Accepted, "the same signature again was %s", text)
		case (x.Kind == WrongKey || x.Kind == OtherProject) && x.Accepted:
			d.open(1, "contradiction: the service accepted a request with the %s", x.Kind)
		}
	}
}

// Fact is one line of a result.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Value is the fact for programs, or nil if programs need only Text.
	Value        any  `json:"value"`
	Observations int  `json:"observations"`
	Open         bool `json:"open"` // a contradiction, too few observations, or a limit of the evidence
}
