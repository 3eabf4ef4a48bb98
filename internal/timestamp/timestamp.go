// Package timestamp parses the timestamp header of requests and notifications (section 5).
package timestamp

import (
	"errors"
	"time"
)

// last is the last second of the year 9999.
const last = 253402300799

// The errors of [Parse].
var (
	errDigits  = errors.New("not digits, want Unix time in seconds")
	errZero    = errors.New("0, want Unix time in seconds")
	errLeading = errors.New("leading zeros, want Unix time in seconds")
	errMillis  = errors.New("in milliseconds, want Unix time in seconds")
	errMicros  = errors.New("in microseconds, want Unix time in seconds")
	errNanos   = errors.New("in nanoseconds, want Unix time in seconds")
	errLarge   = errors.New("too large for Unix time in seconds")
)

// Parse parses a positive number of Unix seconds in ASCII digits, up to the end of the year 9999. Its error identifies
// the mistake, such as another unit, and does not contain the text.
func Parse(text string) (time.Time, error) {
	var seconds int64
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return time.Time{}, errDigits
		}
		if seconds <= last { // a larger value is already an error
			seconds = seconds*10 + int64(text[i]-'0')
		}
	}
	switch {
	case text == "":
		return time.Time{}, errDigits
	case text == "0":
		return time.Time{}, errZero
	case text[0] == '0':
		return time.Time{}, errLeading
	case seconds > last:
		return time.Time{}, otherUnit(len(text))
	}
	return time.Unix(seconds, 0), nil
}

// otherUnit returns the error for a number above [last] with this many digits.
func otherUnit(digits int) error {
	switch {
	case digits == len("1764310000000"):
		return errMillis
	case digits == len("1764310000000000"):
		return errMicros
	case digits == len("1764310000000000000"):
		return errNanos
	}
	return errLarge
}

// Distance returns the time from a to b as text for an error, also beyond the 292 years of a time.Duration.
func Distance(a, b time.Time) string {
	d := b.Sub(a)
	if !a.Add(d).Equal(b) {
		return "more than 292 years"
	}
	return d.String()
}
