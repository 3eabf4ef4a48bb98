package store

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

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
