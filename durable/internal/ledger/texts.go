package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Storable returns a text of the service or an operator as both databases store it: PostgreSQL accepts neither NUL nor
// invalid UTF-8.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", `\u0000`)
}

// Identifier returns an order_id or user_data of the service as it is stored and looked up. The document specifies no
// limit of its length (section 8), and PostgreSQL indexes some 2,700 bytes, so the end of a long one becomes a hash.
func Identifier(text string) string {
	const longest = 1000
	if text = Storable(text); len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:longest-len(end)], "") + end
}
