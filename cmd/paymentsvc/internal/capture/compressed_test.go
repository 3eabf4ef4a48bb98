package capture

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecompressed(t *testing.T) {
	compress := func(to func(io.Writer) io.WriteCloser, text []byte) []byte {
		var b bytes.Buffer
		w := to(&b)
		_, _ = w.Write(text)
		_ = w.Close()
		return b.Bytes()
	}
	zipped := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	deflated := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	raw := func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, flate.BestSpeed)
		return f
	}
	long := bytes.Repeat([]byte("0"), 1<<20)
	for name, tt := range map[string]struct {
		encoding string
		body     []byte
		want     bool
	}{
		"gzip":           {"GZIP", compress(zipped, []byte(body)), true},
		"deflate":        {"deflate", compress(deflated, []byte(body)), true},
		"without header": {"deflate", compress(raw, []byte(body)), true},
		"not compressed": {"gzip", []byte(body), false},
		"cut":            {"gzip", compress(zipped, []byte(body))[:30], false},
		"another":        {"br", []byte(body), false},
		"a bomb":         {"gzip", compress(zipped, long), false},
	} {
		got, ok := Decompressed(http.Header{"Content-Encoding": {tt.encoding}}, tt.body, 1<<10)
		require.Equal(t, tt.want, ok, name)
		require.True(t, !ok || string(got) == body, name)
	}
}
