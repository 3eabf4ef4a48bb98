package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// table is one comparison.
type table struct {
	title     string
	reference string // what the second ratio compares with
	rows      []row
}

// markdown returns the table, bounds first and then the best first. Every time is beside its ratio.
func (t table) markdown() string {
	counted := slices.ContainsFunc(t.rows, func(r row) bool { return r.connections > 0 })
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", t.title)
	if counted {
		b.WriteString("| | time | × best | × by hand | connections | × fewest |\n|---|--:|--:|--:|--:|--:|\n")
	} else {
		fmt.Fprintf(&b, "| | time | × best | × %s | allocations | bytes |\n|---|--:|--:|--:|--:|--:|\n", t.reference)
	}
	rows := slices.Clone(t.rows)
	slices.SortStableFunc(rows, func(x, y row) int {
		switch {
		case x.bound == y.bound:
			return cmp.Compare(x.toBest, y.toBest)
		case x.bound:
			return -1
		default:
			return 1
		}
	})
	fewest := rows[0].connections
	for _, r := range rows {
		fewest = min(fewest, r.connections)
	}
	for _, r := range rows {
		name := r.name
		switch {
		case r.bound:
			name = "*bound:* " + name
		case r.who == ours:
			name = "**" + name + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f ", name, duration(r.time), r.toBest, r.toReference)
		if counted {
			fmt.Fprintf(&b, "| %d | %.1f |\n", r.connections, float64(r.connections)/float64(fewest))
		} else {
			fmt.Fprintf(&b, "| %.0f | %.0f |\n", r.allocs, r.bytes)
		}
	}
	return b.String() + "\n"
}

// builtMarkdown returns the table of hello programs of one kind.
func builtMarkdown(title string, all []built) string {
	smallest, quickest, least := all[0], all[0], all[0]
	for _, b := range all {
		if b.size < smallest.size {
			smallest = b
		}
		if b.wall < quickest.wall {
			quickest = b
		}
		if b.cpu < least.cpu {
			least = b
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", title)
	b.WriteString("| imports | binary | × smallest | cold build | × quickest | processor time | × least |\n" +
		"|---|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range all {
		name := map[string]string{
			"byhand": "the standard library only", "paymentsvc": "**paymentsvc**", "stripe": "stripe-go",
			"paddle": "paddle-go-sdk", "standardwebhooks": "standard-webhooks", "svix": "svix-webhooks",
		}[p.name]
		fmt.Fprintf(&b, "| %s | %.1f MB | %.2f | %.0f s | %.2f | %.0f s | %.2f |\n", cmp.Or(name, p.name),
			float64(p.size)/1e6, float64(p.size)/float64(smallest.size),
			p.wall.Seconds(), p.wall.Seconds()/quickest.wall.Seconds(),
			p.cpu.Seconds(), p.cpu.Seconds()/least.cpu.Seconds())
	}
	return b.String() + "\n"
}

// duration returns nanoseconds with three digits that count.
func duration(nanoseconds float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e6, "ms"}, {1e3, "µs"}, {1, "ns"}} {
		value := nanoseconds / unit.size
		switch {
		case value < 1 && unit.size > 1:
		case value < 10:
			return fmt.Sprintf("%.2f %s", value, unit.name)
		case value < 100:
			return fmt.Sprintf("%.1f %s", value, unit.name)
		default:
			return fmt.Sprintf("%.0f %s", value, unit.name)
		}
	}
	return "0 ns"
}

// machine describes where and when the run is made, in words.
func machine(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Run on %s with %s, on %d processors", now.UTC().Format("2 January 2006"), runtime.Version(), runtime.NumCPU())
	if model := fieldOf("/proc/cpuinfo", "model name"); model != "" {
		fmt.Fprintf(&b, " (%s)", model)
	}
	fmt.Fprintf(&b, " under %s/%s", runtime.GOOS, runtime.GOARCH)
	if flags := fieldOf("/proc/cpuinfo", "flags"); flags != "" {
		instructions := "without"
		if slices.Contains(strings.Fields(flags), "sha_ni") {
			instructions = "with"
		}
		fmt.Fprintf(&b, ", %s the SHA-256 instructions", instructions)
		if slices.Contains(strings.Fields(flags), "hypervisor") {
			b.WriteString(", a virtual machine")
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&b, ". The load average at its start was %s, where an idle machine has 0", strings.Fields(string(load))[0])
	}
	return b.String() + ".\n"
}

// fieldOf returns the first value under name in a file of lines "name : value".
func fieldOf(file, name string) string {
	f, err := os.Open(file) //nolint:gosec // a constant path
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, found := strings.Cut(lines.Text(), ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// versions lists the peers as they were built into this program.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	peers := []string{
		"github.com/stripe/stripe-go/v82", "github.com/standard-webhooks/standard-webhooks/libraries",
		"github.com/svix/svix-webhooks", "github.com/PaddleHQ/paddle-go-sdk/v4", "github.com/go-resty/resty/v2",
	}
	var found []string
	for _, m := range info.Deps {
		if slices.Contains(peers, m.Path) {
			found = append(found, m.Path+" "+m.Version)
		}
	}
	return "Peers: " + strings.Join(found, ", ") + ".\n"
}

var errNoMarkers = errors.New("the document has no such pair of markers")

// replaceBetween puts text between the two markers of that name in document.
func replaceBetween(document, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, found := strings.Cut(document, begin)
	if !found {
		return "", fmt.Errorf("%w: %s", errNoMarkers, name)
	}
	_, tail, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("%w: %s", errNoMarkers, name)
	}
	return head + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + tail, nil
}
