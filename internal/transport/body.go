package transport

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// body is a revocable request body. After revoke, reads return no byte.
type body struct {
	own     bytes.Reader   // for an [http.Transport]
	foreign *revocableBody // for another transport, otherwise nil
}

// open returns a reader of data. An [http.Transport] recognizes the type of the reader and writes header and body in one
// system call. Other transports get a reader with a lock, because they may read after RoundTrip returned.
func (b *body) open(data []byte, foreign bool) io.ReadCloser {
	if foreign {
		b.foreign = &revocableBody{reader: bytes.NewReader(data)}
		return b.foreign
	}
	b.own.Reset(data)
	return io.NopCloser(&b.own)
}

// revoke reports whether the body is unread.
func (b *body) revoke() (unread bool) {
	if b.foreign != nil {
		return b.foreign.revoke()
	}
	unread = int64(b.own.Len()) == b.own.Size()
	_, _ = b.own.Seek(0, io.SeekEnd)
	return unread
}

type revocableBody struct {
	mu      sync.Mutex
	reader  *bytes.Reader
	touched bool
	revoked bool
}

var errRevoked = errors.New("the attempt has ended")

func (b *revocableBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revoked {
		return 0, errRevoked
	}
	b.touched = true
	return b.reader.Read(p)
}

func (*revocableBody) Close() error { return nil }

func (b *revocableBody) revoke() (unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked = true
	return !b.touched
}
