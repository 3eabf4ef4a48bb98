package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

// The objects that -json prints.
type (
	resultJSON struct {
		About            string          `json:"about"`
		Body             string          `json:"body"` // the signed form of a compressed body
		Found            bool            `json:"found"`
		Error            string          `json:"error"`
		Samples          []string        `json:"samples"`
		Matches          []matchJSON     `json:"matches"`
		More             int             `json:"more_matches"`
		Undecided        []undecidedJSON `json:"undecided"`
		Partial          []matchJSON     `json:"partial"`
		Tried            int64           `json:"tried"`
		Seconds          float64         `json:"seconds"`
		MillionPerSecond float64         `json:"million_per_second"`
		Hints            []string        `json:"hints"`
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
		Warnings    []string `json:"warnings"`
		Samples     []string `json:"samples"`
	}
	undecidedJSON struct {
		Chosen string            `json:"chosen"`
		Others map[string]string `json:"others"` // alternative expressions, and the deciding sample for each
	}
)

// report prints results and the next steps. Its error sets the exit code of the command.
func (d *discovery) report(ctx context.Context, results []found) error {
	for _, f := range results {
		d.printResult(f)
	}
	if allFit(results) {
		return d.next(results)
	}
	if err := cli.Ended(ctx); err != nil {
		return err
	}
	return cli.No()
}

func (d *discovery) printResult(f found) {
	o := resultJSON{
		About: f.about, Body: f.body, Found: f.fits(), More: f.result.More, Tried: f.result.Tried,
		Seconds: f.result.Elapsed.Seconds(), MillionPerSecond: perSecond(f.result.Tried, f.result.Elapsed),
		Samples: cli.Mapped(f.samples, func(s sample) string { return s.Name }),
		Matches: cli.Mapped(f.result.Matches, newMatchJSON), Partial: cli.Mapped(f.result.Partial, newMatchJSON),
		Undecided: cli.Mapped(f.result.Undecided, newUndecidedJSON), Hints: cli.Mapped(f.result.Hints, inFlags),
		Covered: cli.Mapped(f.result.Covered, func(c discover.Coverage) coverageJSON { return coverageJSON(c) }),
	}
	if f.fits() {
		d.Print("found", o, d.foundLines(f)...)
		return
	}
	o.Error = f.err.Error()
	d.Print("not_found", o, notFoundLines(f)...)
}

func newMatchJSON(m discover.Match) matchJSON {
	warnings := append([]string{}, m.Warnings...)
	return matchJSON{m.Text, m.Description, m.Expr, m.SecretExpr, m.Imports, warnings, m.Samples}
}

func newUndecidedJSON(u discover.Undecided) undecidedJSON {
	others := map[string]string{}
	for _, other := range u.Others {
		others[other.Expr] = other.Needs
	}
	return undecidedJSON{u.Chosen, others}
}

func (d *discovery) foundLines(f found) []string {
	best := f.result.Matches[0]
	lines := []string{
		"found  " + best.Text,
		fmt.Sprintf("       for %s, in %v after %d compositions",
			f.about, f.result.Elapsed.Round(time.Millisecond), f.result.Tried),
		"key    the secret as " + best.SecretForm.String(),
		"code   " + best.Description,
	}
	if f.body != "" {
		lines = append(lines, "body   the scheme fits the "+f.body+" body")
	}
	for line := range strings.Lines(goCode(best.Text)) {
		lines = append(lines, strings.TrimRight("       "+line, " \n"))
	}
	lines = append(lines, warnings(best)...)
	for _, u := range f.result.Undecided {
		lines = append(lines, "open   instead of "+u.Chosen+", the samples also fit:")
		for _, other := range u.Others {
			lines = append(lines, "       "+other.Expr, "         decided by: "+other.Needs)
		}
	}
	if others := len(f.result.Matches) - 1 + f.result.More; others > 0 {
		lines = append(lines, fmt.Sprintf("more   %d other compositions fit; -json lists at most 20 matches", others))
	}
	return lines
}

func warnings(m discover.Match) []string {
	return cli.Mapped(m.Warnings, func(warning string) string { return "warn   " + warning })
}

func notFoundLines(f found) []string {
	lines := []string{fmt.Sprintf("none   for %s: %v", f.about, f.err)}
	for _, p := range f.result.Partial {
		lines = append(lines, fmt.Sprintf("part   this fits %s only: %s", strings.Join(p.Samples, ", "), p.Text))
		lines = append(lines, warnings(p)...)
	}
	for _, hint := range f.result.Hints {
		lines = append(lines, "check  "+inFlags(hint))
	}
	lines = append(lines, fmt.Sprintf("tried  %d compositions of %d families in %v; -json lists the families",
		f.result.Tried, len(f.result.Covered), f.result.Elapsed.Round(time.Millisecond)))
	for _, c := range f.result.Covered {
		switch {
		case c.MaxParts == 0:
			lines = append(lines, "       not tried, because -effort is too low: "+c.What)
		case !c.Done:
			lines = append(lines, "       not tried completely: "+c.What)
		}
	}
	return lines
}

// inFlags replaces the names of options with the names of flags.
func inFlags(hint string) string {
	return strings.NewReplacer("Options.Words", "-word", "Options.Effort", "-effort").Replace(hint)
}
