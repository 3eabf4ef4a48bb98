// Package vectors makes the table of package canonical that has what PHP, Python, Node and Java write of bodies.
package vectors

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("vectors.update", false, "write the table anew, with the languages that are at hand")

const table = "../../canonical/testdata/vectors.tsv"

// TestVectorsAreWhatTheLanguagesWrite runs each program that is at hand, and compares its lines with the table.
func TestVectorsAreWhatTheLanguagesWrite(t *testing.T) {
	bodies, err := os.ReadFile("bodies.txt")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(strings.Lines(string(kept)))
	for language, source := range map[string]string{"php": "vectors.php", "python3": "vectors.py", "node": "vectors.js", "java": "Vectors.java"} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(language); err != nil {
				t.Skipf("%s is not installed, so its part of the table is not made anew", language)
			}
			run := exec.CommandContext(t.Context(), language, source)
			run.Stdin, run.Stderr = bytes.NewReader(bodies), os.Stderr
			out, err := run.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(out)) {
				got = append(got, language+"\t"+line)
			}
			of := func(line string) bool { return strings.HasPrefix(line, language+"\t") }
			want := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !of(line) })
			if *update {
				all = append(slices.DeleteFunc(all, of), got...)
				return
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s no longer writes what the table has: run go test . -vectors.update\ngot\n%s\nwant\n%s", language, strings.Join(got, ""), strings.Join(want, ""))
			}
		})
	}
	if *update {
		slices.Sort(all)
		if err := os.WriteFile(table, []byte(strings.Join(all, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
