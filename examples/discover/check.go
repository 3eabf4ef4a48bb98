package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// checked is what a scheme makes of a sample.
type checked struct {
	Sample string   `json:"sample"`
	Lines  []string `json:"canonical_string,omitempty"` // quoted, so that invisible characters show
	Bytes  int      `json:"bytes"`
	Fits   bool     `json:"fits"`
	Error  string   `json:"error,omitempty"`
}

// check prints what the scheme makes of each sample, and whether that fits its signature.
func check(set *settings, out report, stderr io.Writer) int {
	scheme, key, err := canonical.ParseSchemeWith(set.check, set.secret)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "discover: -check:", strings.TrimPrefix(err.Error(), "scheme: "))
		return 2
	}
	// The printed text is made with a placeholder for the secret, so hashes of the secret differ in it. Whether the
	// scheme fits is decided with the secret itself.
	shown, _, err := canonical.ParseSchemeWith(withoutKey(set.check), standIn)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "discover: -check:", err)
		return 2
	}
	code := 0
	var list []checked
	for _, s := range set.samples {
		c := checked{Sample: s.file}
		text, err := shown.Canonical(nil, &s.message)
		if err != nil {
			c.Error = err.Error()
		} else {
			signature, err := scheme.Signature(key, &s.message)
			c.Bytes = len(text)
			c.Lines = visible(hide(string(text), set.secret))
			c.Fits = err == nil && signature == s.message.Header.Get("Signature")
		}
		if !c.Fits {
			code = 1
		}
		list = append(list, c)
	}
	out.checked(list)
	return code
}

const standIn paymentsvc.Secret = "«secret»"

// withoutKey returns a scheme without the form of its key, which the stand-in is not in.
func withoutKey(text string) string {
	scheme, clauses := cutClauses(text)
	return scheme + regexp.MustCompile(`,\s*key\s+[\w-]+`).ReplaceAllString(clauses, "")
}

// hide replaces the secret and card numbers in what is printed.
func hide(text string, secret paymentsvc.Secret) string {
	text = strings.ReplaceAll(text, string(secret), string(standIn))
	digits := regexp.MustCompile(`[0-9](?:[ -]?[0-9]){13,18}`)
	return digits.ReplaceAllStringFunc(text, func(number string) string {
		if isCardNumber(number) {
			return "«card number»"
		}
		return number
	})
}

// isCardNumber checks the last digit by Luhn's formula, so that most other long numbers stay readable.
func isCardNumber(number string) bool {
	number = strings.NewReplacer(" ", "", "-", "").Replace(number)
	sum := 0
	for i := range number {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if digit *= 2; digit > 9 {
				digit -= 9
			}
		}
		sum += digit
	}
	return sum%10 == 0
}

// visible quotes a text line by line, so that white space at an end and control characters show.
func visible(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strconv.Quote(line))
	}
	if len(lines) == 0 {
		return []string{`""`}
	}
	return lines
}
