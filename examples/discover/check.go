package main

import (
	"encoding/base64"
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
	Fits   string   `json:"fits,omitempty"` // how the secret and the encoding have to be for it
	Error  string   `json:"error,omitempty"`
}

// check prints what the expression makes of each sample, and whether that fits its signature.
func check(set *settings, out report, stderr io.Writer) int {
	scheme, err := evaluate(set.check, set.secret)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "discover: -check:", err)
		return 2
	}
	// The printed text is made with a placeholder for the secret, so hashes of the secret differ in it. Whether the
	// scheme fits is decided with the secret itself.
	shown, err := evaluate(set.check, standIn)
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
			c.Bytes = len(text)
			c.Lines = visible(hide(string(text), set.secret))
			c.Fits = fits(scheme, set.secret, &s.message)
		}
		if c.Fits == "" {
			code = 1
		}
		list = append(list, c)
	}
	out.checked(list)
	return code
}

const standIn paymentsvc.Secret = "«secret»"

// fits says how a scheme fits the signature of a sample: with which reading of the secret and, if the scheme leaves it
// open, in which encoding. It returns "" if it does not fit.
func fits(scheme paymentsvc.Scheme, secret paymentsvc.Secret, m *paymentsvc.Message) string {
	encodings := []struct {
		encoding paymentsvc.Encoding
		name     string
	}{{scheme.Encoding, ""}}
	if scheme.Encoding == nil {
		encodings[0].encoding, encodings[0].name = paymentsvc.Hex, ", in paymentsvc.Hex"
		for name, encoding := range map[string]paymentsvc.Encoding{
			"paymentsvc.HexUpper": paymentsvc.HexUpper, "base64.StdEncoding": base64.StdEncoding, "base64.RawStdEncoding": base64.RawStdEncoding,
			"base64.URLEncoding": base64.URLEncoding, "base64.RawURLEncoding": base64.RawURLEncoding,
		} {
			encodings = append(encodings, struct {
				encoding paymentsvc.Encoding
				name     string
			}{encoding, ", in " + name})
		}
	}
	for form := canonical.SecretText; form <= canonical.SecretSHA256Hex; form++ {
		key, err := form.Read(secret)
		if err != nil {
			continue
		}
		for _, e := range encodings {
			scheme.Encoding = e.encoding
			signature, err := scheme.Signature(key, m)
			if err == nil && signature == m.Header.Get("Signature") {
				return fmt.Sprintf("with the secret as %s%s", form, e.name)
			}
		}
	}
	return ""
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
