package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiagramsAreWellFormed(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		for _, block := range p.blocks {
			if block.Lang != "mermaid" {
				continue
			}
			found++
			assert.Empty(t, diagramProblems(block.Text), p.at(block))
		}
	}
	require.NotZero(t, found)
}

// diagramProblems reads the part of Mermaid that the pages use. What it does not know it calls a problem, so that a
// diagram is not shown as an error on a repository's page.
func diagramProblems(text string) []string {
	first, rest, _ := strings.Cut(text, "\n")
	lines := strings.Split(strings.TrimRight(rest, "\n"), "\n")
	switch first {
	case "flowchart TD", "flowchart LR":
		return flowchartProblems(lines)
	case "sequenceDiagram":
		return sequenceProblems(lines)
	}
	return []string{"unknown diagram: " + first}
}

var (
	flowNode = `(\w+)(?:\["([^"]+)"\]|\{"([^"]+)"\})?`
	flowEdge = regexp.MustCompile(`^` + flowNode + ` -->(?:\|[^|"()\[\]{}]+\|)? ` + flowNode + `$`)
)

// flowchartProblems wants an edge a line, and for each node exactly one label.
func flowchartProblems(lines []string) []string {
	var problems []string
	labels, used := map[string]int{}, map[string]bool{}
	for _, line := range lines {
		edge := flowEdge.FindStringSubmatch(strings.TrimSpace(line))
		if edge == nil {
			problems = append(problems, "no edge: "+line)
			continue
		}
		for _, node := range [][]string{edge[1:4], edge[4:7]} {
			used[node[0]] = true
			if node[1]+node[2] != "" {
				labels[node[0]]++
			}
			if node[0] == "end" {
				problems = append(problems, "end is a word of Mermaid's own")
			}
		}
	}
	for node := range used {
		if labels[node] != 1 {
			problems = append(problems, fmt.Sprintf("%d labels of %s", labels[node], node))
		}
	}
	return problems
}

var (
	participant = regexp.MustCompile(`^participant (\w+) as [^;#]+$`)
	message     = regexp.MustCompile(`^(\w+)--?>>(\w+): [^;#]+$`)
	note        = regexp.MustCompile(`^Note over (\w+),(\w+): [^;#]+$`)
	opens       = regexp.MustCompile(`^(alt|opt|loop) [^;#]+$`)
	otherwise   = regexp.MustCompile(`^else [^;#]+$`)
)

// sequenceProblems wants messages between participants, and each block closed.
func sequenceProblems(lines []string) []string {
	var problems []string
	known, depth := map[string]bool{}, 0
	for _, line := range lines {
		line = strings.TrimSpace(line)
		match := message.FindStringSubmatch(line)
		if match == nil {
			match = note.FindStringSubmatch(line)
		}
		switch declared := participant.FindStringSubmatch(line); {
		case declared != nil:
			known[declared[1]] = true
		case match != nil:
			for _, name := range match[1:] {
				if !known[name] {
					problems = append(problems, "no participant: "+name)
				}
			}
		case opens.MatchString(line):
			depth++
		case otherwise.MatchString(line) && depth > 0:
		case line == "end" && depth > 0:
			depth--
		default:
			problems = append(problems, "no message: "+line)
		}
	}
	if depth != 0 {
		problems = append(problems, "a block is not closed")
	}
	return problems
}

func TestADiagramThatIsNotWellFormedIsFound(t *testing.T) {
	const flow, sequence = "flowchart TD\n", "sequenceDiagram\nparticipant A as a\nparticipant B as b\n"
	for _, text := range []string{flow + `a["A"] -->|yes| b{"B?"}` + "\nb --> a\n", sequence + "A->>B: x\nalt y\nB-->>A: z\nelse q\nend\n"} {
		assert.Empty(t, diagramProblems(text), text)
	}
	for _, text := range []string{
		"graph\n", flow + `a["A"] --> b`, flow + `a["A"] --> a["A"]`, flow + `a["A"] -> b["B"]`, flow + `a[A (1)] --> b["B"]`,
		flow + `a["A] --> b["B"]`, flow + `a["A"] -->|f(x)| b["B"]`, flow + `a["A"] --> end["E"]`,
		sequence + "A->>C: x", sequence + "alt x\n", sequence + "end", sequence + "else x", sequence + "A->>B", sequence + "A->>B: x; y",
	} {
		assert.NotEmpty(t, diagramProblems(text), text)
	}
}
