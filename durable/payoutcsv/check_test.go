package payoutcsv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestCheckCountsRowsAndSumsPayouts(t *testing.T) {
	report, err := Check(strings.NewReader(header+"a,10.5,x\nb,0.75,x\na,10.50,x\nc,nothing,x\nd,3,x\n"), Options{})
	require.NoError(t, err)
	assert.Equal(t, "14.25", report.Total.String())
	assert.EqualValues(t, 5, report.Rows)
	assert.EqualValues(t, 3, report.Payouts)
	assert.EqualValues(t, 2, report.Rejected)
	assert.EqualValues(t, 1, report.Duplicates)
	require.Len(t, report.Rejections, 2)
	assert.EqualValues(t, 4, report.Rejections[0].Line)

	report, err = Check(strings.NewReader(header), Options{})
	require.NoError(t, err)
	assert.Equal(t, "0", report.Total.String())
	report, err = Check(strings.NewReader(header+"a,3,x\nb,10,x\n"), Options{Scale: -1})
	require.NoError(t, err)
	assert.Equal(t, "13", report.Total.String())
	report, err = Check(strings.NewReader(header+"a,0.001,x\n"+strings.Repeat("b\n", 2*keptRejections)), Options{Scale: 3})
	require.NoError(t, err)
	assert.Equal(t, "0.001", report.Total.String())
	assert.EqualValues(t, 2*keptRejections, report.Rejected)
	assert.Len(t, report.Rejections, keptRejections)
}

func TestCheckComparesRowsAndTotalWithTheSender(t *testing.T) {
	amount := paymentsvc.MustParseAmount
	for _, c := range []struct {
		content, total string
		rows           int64
		problem        string
	}{
		{"a,1,x\nb,2.5,x\n", "3.50", 2, ""},
		{"a,1,x\nb,2.5,x\n", "3.5", 0, ""},
		{"a,1,x\nb,2.5,x\n", "", 2, ""},
		{"a,1,x\nb,2.5,x\n", "3.50", 3, "2 payouts, want 3; 0 rows are rejected"},
		{"a,1,x\nb,2.5,x\n", "3.49", 2, "a total of 3.50, want 3.49; 0 rows are rejected"},
		{"a,1,x\nb,2.5,\n", "3.5", 2, "1 payout, want 2; 1 row is rejected"},
		{"a,1,x\nb,10", "1001", 2, "1 payout, want 2; 1 row is rejected"},
		{"a,1,x\nb,1000,41", "1001", 2, "1 payout, want 2; 1 row is rejected"},
	} {
		o := Options{ExpectRows: c.rows}
		if c.total != "" {
			o.ExpectTotal = amount(c.total)
		}
		report, err := Check(strings.NewReader(header+c.content), o)
		assert.EqualValues(t, 2, report.Rows)
		if c.problem == "" {
			assert.NoError(t, err, c.content)
			continue
		}
		require.ErrorIs(t, err, ErrUnexpected)
		assert.ErrorContains(t, err, c.problem)
	}
	largest := strings.Repeat("9", 64)
	report, err := Check(strings.NewReader(header+"a,"+largest+",x\nb,1,x\n"), Options{ExpectTotal: amount(largest)})
	require.ErrorIs(t, err, ErrUnexpected)
	assert.False(t, report.Total.IsSet())
}

func TestCheckStopsAtAContradiction(t *testing.T) {
	for content, n := range map[string]int64{
		"a,1,x\na,2,x\n": 1, "a,1,x\na,1,y\nb,1,x\nb,3,x\n": 2, "a,1,x\na,1.00,x\n": 0, "a,none,x\na,2,x\n": 0,
	} {
		report, err := Check(strings.NewReader(header+content), Options{})
		assert.Equal(t, n, report.Contradictions, content)
		assert.NotEmpty(t, report.Rejections)
		if n == 0 {
			assert.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrContradiction)
		assert.Equal(t, "line 3: lines 2 and 3 have one reference with different amounts or destinations",
			report.Rejections[0].String())
	}
}

func TestCheckRejectsATotalRow(t *testing.T) {
	amount := paymentsvc.MustParseAmount
	again := strings.Repeat("b,1,x\n", 2)
	for content, line := range map[string]int{
		"a,1,x\nb,2.5,x\ntotal,3.50,x\n":                              4,
		"a,1,x\n" + again + "total,3,x\n":                             5, // with the duplicate
		"a,1,x\n" + again + "total,2,x\n":                             5, // without it
		"a,1,x\nb,2,\ntotal,3,x\n":                                    4, // with the rejected row
		"a,1.255,x\nb,1.245,x\ntotal,2.50,x\n":                        4, // with too many decimals
		"a,\"1,5\",x\nb,\"1,5\",x\ntotal,3,x\n":                       4, // with a decimal comma
		"a,5,x\nb,-2,x\ntotal,3,x\n":                                  4,
		"a,1,x\nb,2,x\ntotal,3,x\n,,\nprinted on Monday,,\n":          4, // above a row that is rejected
		"a,0.1,x\nb,0.2,x\nc,0.3,x\ntotal,0.6,x\n":                    5,
		"a,1,x\nb,2,x\nsub,3,x\ntotal,3,x\n":                          5, // below a subtotal
		"a,1,x\nb,2,x\nsub,3,x\nc,4,x\nd,5,x\nsub2,9,x\ntotal,12,x\n": 8,
		"a,1,x\nb,1,x\nc,1,x\nd,1.5,x\n":                              0, // without a subtotal
		"a,-5,x\nb,-2,x\nc,7,x\n":                                     0,
		"a,1,x\ntotal,1,x\n":                                          0,
		"a,1,x\nb,2,x\n":                                              0,
		"a,1,x\nb,2,x\nc,3,x\nd,1,x\n":                                0,
		"a,1,x\nb,2,x\ntotal,3,\n":                                    0, // it is not paid
		"a,nothing,x\nb,nothing,x\ntotal,0.00,x\nc,1,x\n":             0,
		"a," + strings.Repeat("9", 64) + ",x\nb,1,x\nc,1,x\n":         0,
	} {
		report, err := Check(strings.NewReader(header+content), Options{})
		if line == 0 {
			assert.NoError(t, err, content)
			continue
		}
		require.ErrorIs(t, err, ErrTotalRow, content)
		assert.ErrorContains(t, err, fmt.Sprintf("remove line %d", line), content)
		assert.Positive(t, report.Payouts)
	}
	const content = header + "a,1,x\nb,2,x\nc,3,x\n"
	for _, o := range []Options{{ExpectRows: 3}, {ExpectTotal: amount("6")}, {ExpectRows: 3, ExpectTotal: amount("6")}} {
		_, err := Check(strings.NewReader(content), o)
		assert.NoError(t, err, "the row is expected")
	}
	for _, o := range []Options{{ExpectRows: 2}, {ExpectTotal: amount("3")}} {
		_, err := Check(strings.NewReader(content), o)
		require.ErrorIs(t, err, ErrUnexpected)
		assert.ErrorContains(t, err, "line 4 is the sum of the rows above")
	}
}

func TestCheckWarnsOfRoundedDestinations(t *testing.T) {
	for destinations, warnings := range map[string]int{
		"4111111111111110": 1,
		"4111111111111110 5555555555554440 +12025550100 123": 1, // short numbers are not rounded
		"4111111111111110000":                                1,
		"4111111111111110 4111111111111111":                  0,
		"4111111111111110001":                                0,
		"411111111111110":                                    0,
		"DE89370400440532013000":                             0, // text is not rounded
		"+411111111111111000":                                0,
	} {
		content := header
		for n, destination := range strings.Fields(destinations) {
			content += fmt.Sprintf("%d-ref,%d,%s\n", n, 100-n, destination)
		}
		report, err := Check(strings.NewReader(content), Options{})
		require.NoError(t, err)
		assert.Len(t, report.Warnings, warnings, destinations)
	}
	report, err := Check(strings.NewReader(header+"a,1,\nb,1,4111111111111110\nb,2,4111111111111111\n"), Options{})
	require.ErrorIs(t, err, ErrContradiction)
	assert.Len(t, report.Warnings, 1)
	assert.NotContains(t, report.Warnings[0], "4111")
}

// FuzzCheck requires of any file that errors and rejections contain no destination, the counts agree, and each payout
// is in the file.
func FuzzCheck(f *testing.F) {
	for _, content := range []string{
		"", header + "a,1,x\n", "sep=;\nreference;amount;destination\r\"a\";1,5;x\r", header + "a,1,\"x\n",
		"\xff\xfer\x00", "title\n" + header + "a,1,x\n", "," + header + "a,1,x\n", "\x00\x00\xfe\xff\x00\x00\x00r", "<p>",
		"\ufeff" + header + "a,1e2,=\"1\"\n,,\na,1,x",
	} {
		f.Add(content, true, false)
	}
	f.Fuzz(func(t *testing.T, content string, expect, comma bool) {
		const secret = "4242424242424242"
		content += "\nlast,1," + secret + "\nlast,1," + secret + "\nlast,nothing," + secret
		o := Options{DecimalComma: comma}
		if expect {
			o.ExpectRows, o.ExpectTotal = 1, paymentsvc.MustParseAmount("1")
		}
		report, err := Check(strings.NewReader(content), o)
		if err != nil {
			assert.NotContains(t, err.Error(), secret)
		}
		assert.NotContains(t, strings.Join(report.Warnings, " "), secret)
		assert.Equal(t, report.Rows, report.Payouts+report.Rejected)
		for _, row := range report.Rejections {
			assert.NotContains(t, row.Rejected, secret)
			assert.Empty(t, row.Reference+row.Destination+row.Amount.String())
		}
		payouts := int64(0)
		for row, err := range Rows(strings.NewReader(content), o) {
			if err != nil || row.Rejected != "" {
				continue
			}
			payouts++
			assert.Positive(t, row.Amount.Sign())
			if !strings.Contains(content, "\x00") && !strings.Contains(content, `"`) {
				assert.Contains(t, content, row.Reference)
				assert.Contains(t, content, row.Destination)
			}
		}
		assert.Equal(t, report.Payouts, payouts)
	})
}
