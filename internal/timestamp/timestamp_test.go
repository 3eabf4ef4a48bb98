package timestamp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/paymentsvc/paymentsvc/internal/timestamp"
)

func TestParseAcceptsUnixSecondsOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "1764310000": 1764310000, "253402300799": 253402300799} {
		at, err := timestamp.Parse(text)
		assert.NoError(t, err, text)
		assert.Equal(t, time.Unix(want, 0), at, text)
	}
	for text, want := range map[string]string{
		"":                                       "not digits, want Unix time in seconds",
		"-1":                                     "not digits, want Unix time in seconds",
		"+1764310000":                            "not digits, want Unix time in seconds",
		"1764310000.5":                           "not digits, want Unix time in seconds",
		"١٧٦٤":                                   "not digits, want Unix time in seconds",
		"0":                                      "0, want Unix time in seconds",
		"007":                                    "leading zeros, want Unix time in seconds",
		"01764310000":                            "leading zeros, want Unix time in seconds",
		"1795908604000":                          "in milliseconds, want Unix time in seconds",
		"1795908604000000":                       "in microseconds, want Unix time in seconds",
		"1795908604000000000":                    "in nanoseconds, want Unix time in seconds",
		"253402300800":                           "too large for Unix time in seconds",
		"99999999999999999999999999999999999999": "too large for Unix time in seconds",
		"18446744073709551617":                   "too large for Unix time in seconds", // 1 after an overflow
	} {
		_, err := timestamp.Parse(text)
		assert.EqualError(t, err, want, text)
	}
}

func TestDistanceDoesNotOverflow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1764310000, 0)
	assert.Equal(t, "1h0m1s", timestamp.Distance(now, now.Add(time.Hour+time.Second)))
	assert.Equal(t, "-1h0m0s", timestamp.Distance(now, now.Add(-time.Hour)))
	assert.Equal(t, "more than 292 years", timestamp.Distance(now, time.Unix(253402300799, 0)))
	assert.Equal(t, "more than 292 years", timestamp.Distance(time.Unix(253402300799, 0), now))
}
