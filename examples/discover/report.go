package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

// report prints results, as text or as JSON.
type report struct {
	w    io.Writer
	json bool
}

func (r report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.w, format, args...) }

func (r report) found(all []found, set *settings) {
	if r.json {
		r.foundJSON(all, set)
		return
	}
	for _, s := range set.samples {
		if s.note != "" {
			r.printf("%s: %s.\n", s.file, s.note)
		}
	}
	if set.demo != nil {
		r.printf("A demo: its secret, its samples and the way they are signed are made up; the service's own way is not shown.\n\n")
		for _, s := range set.samples {
			r.printf("%s:\n%s\n", s.file, indent(set.demo.raw[s.file]))
		}
	}
	for _, f := range all {
		r.one(f)
	}
	if len(all) == 2 && all[0].fits() && all[1].fits() {
		r.printf("Requests and notifications share no scheme. canonical.ByKind joins two canonical strings of one encoding")
		if both := pair(all[0].result.Matches[0].Text, all[1].result.Matches[0].Text); both != "" {
			r.printf(":\n\n    %s\n\n", both)
		} else {
			r.printf(".\n")
		}
	}
	if set.demo != nil {
		r.printf("Hidden was: %s\n", set.demo.hidden)
	}
}

func (r report) one(f found) {
	if !f.fits() {
		r.nothing(f)
		return
	}
	best := f.result.Matches[0]
	r.printf("Found for %s, in %v after %d compositions.\n\n", f.about, f.result.Elapsed.Round(time.Millisecond), f.result.Tried)
	r.printf("    %s\n\n%s\n\n", best.Text, best.Description)
	r.printf("%s\n", indent(code(best)))
	r.warnings(best)
	if len(f.result.Undecided) > 0 {
		r.printf("What these samples cannot tell apart, and what would:\n\n")
	}
	for _, u := range f.result.Undecided {
		r.printf("    %s\n", u.Chosen)
		for _, other := range u.Others {
			r.printf("      or %s\n         %s\n", other.Expr, other.Needs)
		}
	}
	if len(f.result.Undecided) > 0 {
		r.printf("\n")
	}
	if others := len(f.result.Matches) - 1 + f.result.More; others > 0 {
		r.printf("%d other compositions fit; -json lists them.\n\n", others)
	}
}

// pair returns the scheme of requests and notifications, or "" if there is none because their encodings or keys differ.
func pair(request, notification string) string {
	scheme, clauses := cutClauses(request)
	other, otherClauses := cutClauses(notification)
	text := fmt.Sprintf("request %s, notification %s%s", scheme, other, clauses)
	if _, err := canonical.GoCode(text); err != nil || clauses != otherClauses {
		return ""
	}
	return text
}

// cutClauses cuts a scheme behind its last bracket. What follows has no quotes.
func cutClauses(text string) (scheme, clauses string) {
	end := strings.LastIndexByte(text, ')') + 1
	return text[:end], text[end:]
}

func (r report) warnings(m discover.Match) {
	for _, warning := range m.Warnings {
		r.printf("Warning: %s.\n", warning)
	}
	if len(m.Warnings) > 0 {
		r.printf("\n")
	}
}

func (r report) nothing(f found) {
	r.printf("Nothing found for %s: %v.\n", f.about, f.err)
	for _, p := range f.result.Partial {
		r.printf("\nThis explains %s only:\n\n    %s\n\n%s\n", strings.Join(p.Samples, ", "), p.Text, indent(code(p)))
		r.warnings(p)
	}
	if len(f.result.Hints) > 0 {
		r.printf("\nWhat to look at, in this order:\n\n")
	}
	for _, hint := range f.result.Hints {
		r.printf("  - %s\n", inFlags(hint))
	}
	r.printf("\nTried: %d compositions of %d families in %v; -json lists them.\n",
		f.result.Tried, len(f.result.Covered), f.result.Elapsed.Round(time.Millisecond))
	for _, c := range f.result.Covered {
		switch {
		case c.MaxParts == 0:
			r.printf("Not tried, since it is more than -effort allows: %s\n", c.What)
		case !c.Done:
			r.printf("Not tried, or not all of it: %s\n", c.What)
		}
	}
}

// inFlags replaces the names of options by those of flags.
func inFlags(hint string) string {
	return strings.NewReplacer("Options.Words", "-word", "Options.Effort", "-effort").Replace(hint)
}

// code returns a match as Go code to paste.
func code(m discover.Match) string {
	var b strings.Builder
	b.WriteString("import (\n")
	for i, path := range m.Imports {
		if i > 0 && strings.Contains(path, ".") && !strings.Contains(m.Imports[i-1], ".") {
			b.WriteString("\n") // the standard library is a group of its own
		}
		fmt.Fprintf(&b, "\t%q\n", path)
	}
	b.WriteString(")\n\n")
	if m.SecretForm != canonical.SecretText {
		fmt.Fprintf(&b, "key, err := %s // sign with key, not with secret\n", m.SecretExpr)
	}
	fmt.Fprintf(&b, "scheme := %s\n", m.Expr)
	return b.String()
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func (r report) checked(list []checked) {
	if r.json {
		r.encode(list)
		return
	}
	for _, c := range list {
		if c.Error != "" {
			r.printf("%s: %s.\n", c.Sample, c.Error)
			continue
		}
		verdict := "does not fit the signature"
		if c.Fits {
			verdict = "fits the signature"
		}
		r.printf("%s: %s. The canonical string, of %d bytes:\n\n", c.Sample, verdict, c.Bytes)
		for i, line := range c.Lines {
			r.printf("  %4d  %s\n", i+1, line)
		}
		r.printf("\n")
	}
}

// The JSON that -json writes.
type (
	foundJSON struct {
		About            string          `json:"about"`
		Found            bool            `json:"found"`
		Error            string          `json:"error,omitempty"`
		Matches          []matchJSON     `json:"matches"`
		More             int             `json:"more_matches"`
		Undecided        []undecidedJSON `json:"undecided"`
		Partial          []matchJSON     `json:"partial,omitempty"`
		Tried            int64           `json:"tried"`
		Seconds          float64         `json:"seconds"`
		MillionPerSecond float64         `json:"million_per_second"`
		Hints            []string        `json:"hints,omitempty"`
		Covered          []coverageJSON  `json:"covered"`
	}
	coverageJSON struct {
		What         string `json:"what"`
		MaxParts     int    `json:"max_parts"`
		Compositions int64  `json:"compositions"`
		Done         bool   `json:"done"`
	}
	matchJSON struct {
		Text        string   `json:"text"`
		Description string   `json:"description"`
		Scheme      string   `json:"scheme"`
		Secret      string   `json:"secret"`
		Imports     []string `json:"imports"`
		Warnings    []string `json:"warnings,omitempty"`
		Samples     []string `json:"samples"`
	}
	undecidedJSON struct {
		Chosen string            `json:"chosen"`
		Others map[string]string `json:"others"` // expression to what would decide
	}
)

func (r report) foundJSON(all []found, set *settings) {
	list := make([]foundJSON, 0, len(all))
	for _, f := range all {
		out := foundJSON{
			About: f.about, Found: f.fits(), More: f.result.More, Tried: f.result.Tried,
			Seconds: f.result.Elapsed.Seconds(), MillionPerSecond: perSecond(f.result.Tried, f.result.Elapsed),
			Matches: matchesJSON(f.result.Matches), Partial: matchesJSON(f.result.Partial), Undecided: []undecidedJSON{},
		}
		if !f.fits() {
			out.Error = f.err.Error()
		}
		for _, hint := range f.result.Hints {
			out.Hints = append(out.Hints, inFlags(hint))
		}
		for _, c := range f.result.Covered {
			out.Covered = append(out.Covered, coverageJSON(c))
		}
		for _, u := range f.result.Undecided {
			others := map[string]string{}
			for _, other := range u.Others {
				others[other.Expr] = other.Needs
			}
			out.Undecided = append(out.Undecided, undecidedJSON{u.Chosen, others})
		}
		list = append(list, out)
	}
	if set.demo == nil {
		r.encode(list)
		return
	}
	r.encode(struct {
		Demo   string      `json:"demo"`
		Hidden string      `json:"hidden"`
		Found  []foundJSON `json:"found"`
	}{"the secret, the samples and the way they are signed are made up", set.demo.hidden, list})
}

func matchesJSON(matches []discover.Match) []matchJSON {
	list := make([]matchJSON, 0, len(matches))
	for _, m := range matches {
		list = append(list, matchJSON{m.Text, m.Description, m.Expr, m.SecretExpr, m.Imports, m.Warnings, m.Samples})
	}
	return list
}

func (r report) encode(value any) {
	e := json.NewEncoder(r.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(value)
}
