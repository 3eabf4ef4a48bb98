package canonical_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// The table has the encodings of bodies by PHP, Python, Node and Java.
func TestVectorsOfOtherLanguagesMatch(t *testing.T) {
	file, err := os.Open("testdata/vectors.tsv")
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
		require.Len(t, cells, 4)
		var want string
		require.NoError(t, json.Unmarshal([]byte(cells[3]), &want))
		scheme, err := canonical.ParseScheme("hex(" + cells[1] + ")")
		require.NoError(t, err, cells[1])
		got, err := scheme.Canonical(nil, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte(cells[2])})
		require.NoError(t, err, cells)
		require.Equal(t, want, string(got), cells)
	}
}
