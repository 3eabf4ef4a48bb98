package capture

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// Decompressed returns the body without the Content-Encoding of its headers. It reports false for a body without an
// encoding, for an unknown encoding, for a body that is not in the encoding, and for a result of more than limit bytes.
func Decompressed(header http.Header, body []byte, limit int64) ([]byte, bool) {
	var reader io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		if reader, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
			reader, err = flate.NewReader(bytes.NewReader(body)), nil // some senders leave out the header of zlib
		}
	default:
		return nil, false
	}
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(reader, limit+1))
	return plain, err == nil && int64(len(plain)) <= limit
}
