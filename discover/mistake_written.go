package discover

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// written is a reading of a signature: its encoding, words for text around it, itself, and the encoded bytes.
type written struct {
	spelling
	around, bare string
	sum          []byte
}

// readings returns the readings of a signature with the size of a digest.
func readings(signature string) (list []written) {
	bare := strings.TrimSpace(signature)
	add := func(text, around string) {
		for _, at := range append([]int{0}, slices.Collect(labelsBefore(text))...) {
			for _, w := range decoded(text[at:], true) {
				if at > 0 {
					w.text = fmt.Sprintf("prefixed(%q, %s)", text[:at], w.text)
					w.desc += fmt.Sprintf(" behind %q", text[:at])
				}
				w.around, w.bare = around, text
				list = append(list, w)
			}
		}
	}
	add(signature, "")
	if len(list) > 0 {
		return list
	}
	add(bare, " with white space around the signature")
	add(strings.Trim(bare, "\"'`"), " with quotes around the signature")
	add(strings.Trim(bare, "<>[](){}"), " with brackets around the signature")
	add(strings.ReplaceAll(bare, " ", "+"), " with spaces in place of plus signs")
	if text, err := url.QueryUnescape(bare); err == nil {
		add(text, " with URL escapes in the signature")
	}
	return list
}

// decoded returns the readings of a text without a label. chained adds encodings of encodings.
func decoded(text string, chained bool) (list []written) {
	for _, e := range []struct {
		spelling
		encoding paymentsvc.Encoding
		decode   func(string) ([]byte, error)
	}{
		{spelling{"hex", "hexadecimal in lower case"}, paymentsvc.Hex, hex.DecodeString},
		{spelling{"HEX", "hexadecimal in upper case"}, paymentsvc.HexUpper, hex.DecodeString},
		{spelling{"base64", "base64"}, base64.StdEncoding, base64.StdEncoding.DecodeString},
		{spelling{"base64-raw", "base64 without padding"}, base64.RawStdEncoding, base64.RawStdEncoding.DecodeString},
		{spelling{"base64url", "base64 in the URL alphabet"}, base64.URLEncoding, base64.URLEncoding.DecodeString},
		{
			spelling{"base64url-raw", "base64 in the URL alphabet without padding"}, base64.RawURLEncoding,
			base64.RawURLEncoding.DecodeString,
		},
	} {
		sum, err := e.decode(text)
		if err != nil || string(e.encoding.AppendEncode(nil, sum)) != text {
			continue
		}
		if slices.Contains([]int{16, 20, 28, 32, 48, 64}, len(sum)) {
			list = append(list, written{spelling: e.spelling, sum: sum})
		}
		if !chained {
			continue
		}
		for _, inner := range decoded(string(sum), false) {
			inner.text = fmt.Sprintf("chain(%s, %s)", inner.text, e.text)
			inner.desc = e.desc + " of the " + inner.desc
			list = append(list, inner)
		}
	}
	return list
}
