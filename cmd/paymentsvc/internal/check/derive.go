package check

import (
	"cmp"
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
	Format   Format `json:"error_format"` // the zero value if unknown
	NotFound string `json:"not_found"`    // the code for an unknown payment, or "" if unknown
	Go       string `json:"go"`           // the generated file, or "" if Format is unknown
	Settings string `json:"settings"`     // JSON settings of the mock server, or "" if Format is unknown or has Success

	used, successes, failures []*Exchange // used contains the other two; after a lockout, it ends at the last balance
}

// Derive returns the findings of a run. stopped is the sign of a lockout, or "". After a lockout, Derive ignores the
// responses after the last balance, because the lockout may have caused them.
func Derive(seen []*Exchange, stopped string) Findings {
	d := Findings{Requests: len(seen), Stopped: stopped, used: seen}
	for stopped != "" && len(d.used) > 0 && d.used[len(d.used)-1].Balance == nil {
		d.used = d.used[:len(d.used)-1]
	}
	for _, x := range d.used {
		switch known := x.Kind == KnownOrder; {
		case known && (!x.Accepted || valueAt(x.Body, "order_id") == ""):
			d.open(1, "the service does not find the payment of -order-id")
		case known || x.Balance != nil:
			d.successes = append(d.successes, x)
		default:
			d.failures = append(d.failures, x)
		}
	}
	d.errorFormat()
	d.notFound()
	d.timestamps()
	d.others()
	if stopped != "" {
		d.open(len(seen), "the run ended early: %s; the last %d responses do not count", stopped, len(seen)-len(d.used))
	}
	d.Facts = append(d.rows(), d.Facts...)
	d.code()
	return d
}

func (d *Findings) add(name string, n int, value any, format string, args ...any) {
	d.Facts = append(d.Facts, Fact{Name: name, Text: fmt.Sprintf(format, args...), Value: value, Observations: n})
}

func (d *Findings) open(n int, format string, args ...any) {
	d.Facts = append(d.Facts, Fact{Name: "open", Text: fmt.Sprintf(format, args...), Observations: n, Open: true})
}

// errorFormat derives the error format from JSON errors without a 5xx status, because a gateway may have sent the
// others.
func (d *Findings) errorFormat() {
	var usable []*Exchange
	forms := map[string]int{}
	for _, x := range d.failures {
		if x.form() == "json" && x.StatusCode/100 != 5 {
			usable = append(usable, x)
		} else {
			forms[x.form()]++
		}
	}
	if n := forms["html"]; n > 0 {
		d.open(n, "errors in HTML, probably from a gateway or a proxy")
	}
	if n := forms["empty"] + forms["text"]; n > 0 {
		d.open(n, "errors with only an HTTP status or plain text, which no decoder can recognize")
	}
	f := chooseFormat(d.successes, usable)
	if f.Code == "" {
		d.open(len(usable), "error format: no field has a code only in errors; ask the service")
		return
	}
	n, foreign, kinds, codes := 0, 0, map[string]bool{}, map[string]bool{}
	for _, x := range d.failures {
		if e := f.decode(x.StatusCode, x.Body); e != nil {
			n++
			kinds[x.Kind], codes[e.Code] = true, true
		} else if x.form() == "json" && !x.Accepted {
			foreign++
		}
	}
	if foreign > 0 {
		d.open(foreign, "JSON errors without %s, perhaps from a gateway", f.Code)
	}
	if n < 3 || len(kinds) < 2 || n < 2*foreign || len(codes) == 1 {
		d.open(n, "error format: perhaps %s, but only from %d kinds of errors with %d codes", f.Code, len(kinds), len(codes))
		return
	}
	d.Format = f
	d.add("error format", n, f, "code %s, message %s, from %d kinds of errors",
		f.Code, cmp.Or(f.Message, "none"), len(kinds))
	if f.Success != "" {
		d.open(len(d.successes), "the code %s means success", f.Success)
	}
	d.open(0, "the run started no payment: compare the first rejected test payment with the error format")
}

// codeOf returns the code of an error, "(hidden)" for a code that the output may not contain, or "" without a code.
func (d *Findings) codeOf(x *Exchange) string {
	if d.Format.Code != "" {
		if e := d.Format.decode(x.StatusCode, x.Body); e != nil {
			if !x.isCode(e.Code) {
				return hidden
			}
			return e.Code
		}
	}
	return ""
}

// notFound derives the code for an unknown payment. Package durable may start a payment again after this code, so all
// observations, at least 4, must have the same code and status. Other problems, except an unknown payout, must have
// other codes.
func (d *Findings) notFound() {
	found, others, n := map[string]bool{}, map[string]bool{}, 0
	for _, x := range d.failures {
		switch code := d.codeOf(x); {
		case x.Kind == UnknownOrder || x.Kind == UnknownData:
			n++
			found[fmt.Sprintf("%s with HTTP %d", code, x.StatusCode)] = true
			d.NotFound = code
		case x.Kind != UnknownOut:
			others[code] = true
		}
	}
	texts := strings.Join(slices.Sorted(maps.Keys(found)), " and ")
	switch {
	case d.Format.Code == "":
		d.open(n, "not found: unknown, because the error format is unknown")
	case n < 4 || len(found) != 1 || d.NotFound == hidden:
		d.open(n, "not found: by order_id and user_data the service replied with codes %s", texts)
	case d.NotFound == "":
		d.open(n, "not found: an unknown payment has no error, so NotFound cannot recognize it")
	case others[d.NotFound]:
		d.open(n, "not found: another problem also has the code %s", texts)
	default:
		d.add("not found", n, d.NotFound, "code %s, by order_id and by user_data", texts)
		d.open(0, "the run did not observe how long a new payment stays unknown")
		return
	}
	d.NotFound = ""
}

func (d *Findings) timestamps() {
	limits, rejected, n := map[string]int{"accepted_from": 0, "accepted_to": 0}, "", 0
	for _, x := range d.used {
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

// others derives facts about a replay, wrongly accepted probes, and fields outside the document.
func (d *Findings) others() {
	extra := map[string]int{}
	for _, x := range d.used {
		if x.Kind == Repeated {
			text := map[bool]string{true: "accepted", false: "rejected"}[x.Accepted]
			d.add("replay", 1, x.Accepted, "a second request with the same signature was %s", text)
		}
		if (x.Kind == WrongKey || x.Kind == OtherProject) && x.Accepted && d.codeOf(x) == "" {
			d.open(1, "contradiction: the service accepted a request with the %s", x.Kind)
		}
	}
	for _, x := range d.successes {
		listed := documented()[10:]
		if x.Kind == KnownOrder {
			listed = documented()[:6]
		}
		for _, name := range fieldsOf(x) {
			if !slices.Contains(listed, name) {
				extra[x.Endpoint+": "+name]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		d.add("extra field", extra[name], nil, "%s", name)
	}
	if !slices.ContainsFunc(d.successes, func(x *Exchange) bool { return x.Kind == KnownOrder }) {
		d.open(0, "the fields of a status response are unknown: run again with -order-id of a test payment")
	}
}

// rows returns a fact for each kind of probe, in the order of the probes.
func (d *Findings) rows() (rows []Fact) {
	accepted, replies := map[string]int{}, map[string][]string{}
	for _, x := range d.used {
		i := slices.IndexFunc(rows, func(f Fact) bool { return f.Name == x.Kind })
		if i < 0 {
			i, rows = len(rows), append(rows, Fact{Name: x.Kind})
		}
		rows[i].Observations++
		code := d.codeOf(x)
		if x.Accepted && code == "" {
			accepted[x.Kind]++
		}
		reply := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", x.StatusCode, code))
		if form := x.form(); form != "json" {
			reply += " " + form
		}
		if !slices.Contains(replies[x.Kind], reply) {
			replies[x.Kind] = append(replies[x.Kind], reply)
		}
	}
	for i, f := range rows {
		rows[i].Value = replies[f.Name]
		rows[i].Text = fmt.Sprintf("%d accepted; %s", accepted[f.Name], strings.Join(replies[f.Name], ", "))
	}
	return rows
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
