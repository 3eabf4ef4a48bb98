package durable

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Gauge is a number of [Store.Gauges]. It does not contain data of a single row.
type Gauge struct {
	// Name follows OpenTelemetry, such as durable.rows.age. The name in Prometheus is durable_rows_age_seconds.
	Name string
	// Unit is "s" for an age, otherwise "".
	Unit string
	// Description is one sentence.
	Description string
	// Kind and State are labels. "" means that the gauge does not have the label.
	Kind  Kind
	State State
	Value float64
}

// Gauges returns the numbers and ages of [Counts] for each kind, and 1 for a pause or a hold, sorted by Name. Each call
// returns the same names and labels. It runs three statements that read at most [CountLimit] entries per index range.
func (s *Store) Gauges(ctx context.Context) ([]Gauge, error) {
	status, err := s.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("durable: gauges: %w", err)
	}
	kinds := []row.Kind{row.Payment, row.Payout}
	counted, err := s.ledger.Counts(ctx, s.c.PendingReview, CountLimit, kinds...)
	if err != nil {
		return nil, fmt.Errorf("durable: gauges: %w", err)
	}
	all := []Gauge{
		{Name: "durable.paused", Description: "1 during a pause.", Value: flag(status.Paused)},
		{Name: "durable.hold", Description: "1 while new payouts are held.", Value: flag(status.Hold)},
	}
	add := func(name, rows string, kind row.Kind, state State, c Count) {
		all = append(all,
			Gauge{name, "", "Number of " + rows + ", up to 10000.", Kind(kind), state, float64(c.Rows)},
			Gauge{name + ".age", "s", "Age of the oldest of the " + rows + ".", Kind(kind), state, c.Age.Seconds()})
	}
	for i, kind := range kinds {
		counts := publicCounts(counted[i])
		for _, state := range States() {
			add("durable.rows", "rows in a state", kind, state, counts.States[state])
		}
		add("durable.review", "rows that need review", kind, "", counts.Review)
		add("durable.overdue", "pending rows older than Config.PendingReview", kind, "", counts.Overdue)
		if kind == row.Payout {
			add("durable.held", "held payouts", kind, "", counts.Held)
			add("durable.unreadable", "genuine notifications with an unreadable body", "", "", counts.Unreadable)
			add("durable.unmatched", "final notifications without a row", "", "", counts.Unmatched)
		}
	}
	slices.SortStableFunc(all, func(a, b Gauge) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// ServeMetrics writes [Store.Gauges] in the text format of Prometheus. It responds with 503 if the database cannot be
// read. It has no password, so serve it at an address that only Prometheus reaches.
func (s *Store) ServeMetrics(w http.ResponseWriter, r *http.Request) {
	gauges, err := s.Gauges(r.Context())
	if err != nil {
		s.c.Log.WarnContext(r.Context(), "durable: no metrics", "error", err.Error())
		http.Error(w, "the database cannot be read", http.StatusServiceUnavailable)
		return
	}
	var text bytes.Buffer
	last := ""
	for _, g := range gauges {
		name := strings.ReplaceAll(g.Name, ".", "_")
		if g.Unit == "s" {
			name += "_seconds"
		}
		if name != last {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, g.Description)
			last = name
		}
		labels := ""
		switch {
		case g.State != "":
			labels = fmt.Sprintf("{kind=%q,state=%q}", g.Kind, g.State)
		case g.Kind != "":
			labels = fmt.Sprintf("{kind=%q}", g.Kind)
		}
		fmt.Fprintf(&text, "%s%s %s\n", name, labels, strconv.FormatFloat(g.Value, 'f', -1, 64))
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text.Bytes())
}
