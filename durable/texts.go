package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/paymentsvc/paymentsvc"
)

const maxReference = 1000

func (p NewPayment) check() error {
	switch {
	case !p.Type.Known():
		return fmt.Errorf("%w: NewPayment.Type %q is unknown", ErrInvalid, p.Type)
	case p.Amount.Sign() <= 0:
		return fmt.Errorf("%w: NewPayment.Amount must be positive", ErrInvalid)
	case p.Key == "" || !plain(p.Key) || ambiguous(p.Key):
		return fmt.Errorf("%w: NewPayment.Key must be UTF-8 in NFC without invisible characters, and 1 to %d bytes",
			ErrInvalid, maxReference)
	}
	return nil
}

func (p NewPayout) check() error {
	switch {
	case p.Reference == "" || !plain(p.Reference) || ambiguous(p.Reference):
		return fmt.Errorf("%w: NewPayout.Reference must be UTF-8 in NFC without invisible characters, and 1 to %d bytes",
			ErrInvalid, maxReference)
	case p.Amount.Sign() <= 0:
		return fmt.Errorf("%w: NewPayout.Amount must be positive", ErrInvalid)
	case p.Destination == "" || !plain(p.Destination) || ambiguous(p.Destination):
		return fmt.Errorf("%w: NewPayout.Destination must be UTF-8 in NFC without invisible characters, and 1 to %d bytes",
			ErrInvalid, maxReference)
	case !plain(p.Batch):
		return fmt.Errorf("%w: NewPayout.Batch must be UTF-8 without NUL, and %d bytes or less", ErrInvalid, maxReference)
	}
	return nil
}

// plain reports whether a text has at most maxReference bytes and both databases store it unchanged.
func plain(text string) bool {
	return len(text) <= maxReference && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// ambiguous reports whether another spelling of a text may look the same, so that both would be paid. An ambiguous text
// is not in Unicode's form NFC, or contains an invisible character, such as a mark or a filler.
func ambiguous(text string) bool {
	const brailleBlank = '\u2800'
	return !norm.NFC.IsNormalString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r == brailleBlank || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Me, unicode.Zl, unicode.Zp,
			unicode.Other_Default_Ignorable_Code_Point)
	})
}

// derived returns the user_data for a reference. The user_data stays the same if a restored backup has lost the row.
func derived(project string, k Kind, reference string) string {
	sum := sha256.Sum256([]byte("paymentsvc/durable\x00" + project + "\x00" + string(k) + "\x00" + reference))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // UUID version 8, RFC 9562
	text := hex.EncodeToString(id)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// codePattern matches printable error codes. The text of a response could contain anything.
var codePattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// errorCode returns the code to store for an error. It is the service's code, if that matches codePattern and does not
// contain the destination. Otherwise it is the HTTP status, or "invalid request".
func errorCode(err error, destination string) string {
	text := "invalid request"
	if failure, _ := errors.AsType[*paymentsvc.Error](err); failure != nil && failure.HTTPStatus != 0 {
		text = "HTTP " + strconv.Itoa(failure.HTTPStatus)
	}
	reported, _ := errors.AsType[*paymentsvc.ServiceError](err)
	if reported == nil || !codePattern.MatchString(reported.Code) {
		return text
	}
	if d := lettersAndDigits(destination); d != "" && strings.Contains(lettersAndDigits(reported.Code), d) {
		return text
	}
	return reported.Code
}

// lettersAndDigits returns the letters and digits of a text in lower case, because a code may contain a destination in
// another spelling.
func lettersAndDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}
