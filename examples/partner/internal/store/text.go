package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// code is what an error code may look like to be stored and shown: it is text of an answer, which may repeat anything.
var code = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// Refusal returns what to store of the error of a start: the service's error code if it looks like a code, otherwise the
// HTTP status, or "invalid request" for what was never sent. A card number looks like a code too.
func Refusal(err error) string {
	if reported, ok := errors.AsType[*paymentsvc.ServiceError](err); ok && code.MatchString(reported.Code) {
		return reported.Code
	}
	if failure, ok := errors.AsType[*paymentsvc.Error](err); ok && failure.HTTPStatus != 0 {
		return "HTTP " + strconv.Itoa(failure.HTTPStatus)
	}
	return "invalid request"
}

// storable gives a text that others have written as every database takes it: PostgreSQL takes neither NUL nor what is
// not UTF-8.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", `\u0000`)
}

// identifier gives an order_id or user_data that others have written as it is stored and looked for. The document shows
// no limit of its length (section 8), and PostgreSQL indexes some 2,700 bytes: the end of a long one is replaced by a
// hash of all of it.
func identifier(text string) string {
	const most = 1000
	if text = storable(text); len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:most-len(end)], "") + end
}

// shorten bounds a text of the service's, quoted if it holds anything but printable ASCII.
func shorten(text string) string {
	const most = 64
	if quoted := strconv.QuoteToASCII(text); quoted != `"`+text+`"` {
		text = quoted
	}
	return text[:min(len(text), most)]
}
