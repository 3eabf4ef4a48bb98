// Package vectors compares the table of package canonical with the output of PHP, Python, Node and Java, and the
// signatures of the root's tests with openssl. -vectors.update writes the table.
package vectors

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("vectors.update", false, "write the table with the output of the installed languages")

const table = "../../../canonical/testdata/vectors.tsv"

// bodies has the requests of the table, one per line.
const bodies = `{"partner_id":17,"project_id":42}
{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"order/1 é"}
{"user_data":"a b+c~d*e!f'(g)","amount":100.00,"ok":true,"no":false,"note":null,"text":""}
{"amount":7.0,"big":12000000.0,"small":0.0001,"tiny":0.00001,"large":1000000000000000.0,"whole":12345678901}
{"z":1,"payer":{"name":"Ann <Lee> & Co","email":"a@example.com","tags":["x","y/z"]},"a":"€ 😀"}
{"amount":7.0,"payout_balance":12000000.0,"expected_balance":0.0001,"count":12345678901}
`

// TestVectorsFitEachLanguage runs the program of each installed language, and compares its lines with the table.
func TestVectorsFitEachLanguage(t *testing.T) {
	kept, err := os.ReadFile(table)
	require.NoError(t, err)
	all := slices.Collect(strings.Lines(string(kept)))
	for language, source := range map[string]string{
		"php": "vectors.php", "python3": "vectors.py", "node": "vectors.js", "java": "Vectors.java",
	} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(language); err != nil {
				t.Skipf("%s is not installed: its lines of the table are not compared", language)
			}
			run := exec.CommandContext(t.Context(), language, source)
			run.Stdin, run.Stderr = strings.NewReader(bodies), os.Stderr
			out, err := run.Output()
			require.NoError(t, err)
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
			require.Equal(t, want, got, "the table differs: run go test ./vectors -vectors.update")
		})
	}
	if *update {
		slices.Sort(all)
		require.NoError(t, os.WriteFile(table, []byte(strings.Join(all, "")), 0o644))
	}
}

func TestVectorsFitOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed, so the signatures are not compared")
	}
	want, err := os.ReadFile("../../../testdata/vectors.json")
	require.NoError(t, err)
	script := exec.CommandContext(t.Context(), "sh", "../../../testdata/make-vectors.sh")
	script.Stderr = os.Stderr
	got, err := script.Output()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "vectors.json and the output of testdata/make-vectors.sh")
}
