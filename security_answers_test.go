package paymentsvc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// TestAnswersAreBounded is about bodies. These are the other ways in which an answer can go on for ever: the client
// ends each of them itself, long before its patience would.
func TestAHeaderWithoutEndIsGivenUp(t *testing.T) {
	repeated := func(first, piece string) func(*net.TCPConn, *atomic.Int64) {
		return func(c *net.TCPConn, sent *atomic.Int64) {
			write(c, first)
			for chunk := strings.Repeat(piece, 1+(32<<10)/len(piece)); ; {
				n, err := io.WriteString(c, chunk)
				sent.Add(int64(n))
				if err != nil || sent.Load() > 256<<20 { // or a client that reads on would fill this machine
					return
				}
			}
		}
	}
	for name, answer := range map[string]func(*net.TCPConn, *atomic.Int64){
		"a status line":         repeated("HTTP/1.1 200 O", "K"),
		"one header":            repeated("HTTP/1.1 200 OK\r\nX-Long: ", "a"),
		"many headers":          repeated("HTTP/1.1 200 OK\r\n", "X-Many: a\r\n"),
		"a continued header":    repeated("HTTP/1.1 200 OK\r\nX-Folded: a\r\n", " a\r\n"),
		"100 Continue":          repeated("", "HTTP/1.1 100 Continue\r\n\r\n"),
		"103 Early Hints":       repeated("", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"),
		"empty lines":           repeated("", "\r\n"),
		"zeros":                 repeated("", "\x00"),
		"trailers of an answer": repeated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-Many: a\r\n"),
		"a chunk's extension":   repeated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a"),
		"chunks of one byte":    repeated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{}, 3) // one an attempt, of which there should be one
			s := newRawServer(t, func(c *net.TCPConn, _ int) bool {
				answer(c, &sent)
				ended <- struct{}{}
				return false
			})
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.Timeout = time.Hour })
			response, err := pay(t.Context(), c)
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, 1, e.Attempts)
			assert.EqualValues(t, 1, s.taken.Load())
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			<-ended
			assert.Less(t, sent.Load(), int64(64<<20), "what a client takes and the network holds")
		})
	}
}

// An answer that comes ever so slowly ends with the attempt.
func TestAnAnswerThatStallsEndsWithItsAttempt(t *testing.T) {
	for name, first := range map[string]string{
		"at once":             "",
		"in the status line":  "HTTP/1.1 2",
		"after a 100":         "HTTP/1.1 100 Continue\r\n\r\n",
		"in a header":         "HTTP/1.1 200 OK\r\nContent-Le",
		"between the headers": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
		"before the body":     fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(paymentAnswer)),
		"in the body":         fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(paymentAnswer), paymentAnswer[:50]),
		"before a last chunk": fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(paymentAnswer), paymentAnswer),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport, taken := stalling(t, first)
				response, err := pay(t.Context(), newClient(t, "http://127.0.0.1", over(transport)))
				failed(t, response, err, paymentsvc.OutcomeUnknown)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.EqualValues(t, 1, taken.Load())
			})
		})
	}
}

// 16 MiB that are packed into 16 KiB, and those again into less than 1 KiB. The client unpacks once, and only as far as
// it reads.
func TestABombInABombIsUnpackedOnceAndNotToItsEnd(t *testing.T) {
	pack := func(fill func(io.Writer)) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		fill(z)
		require.NoError(t, z.Close())
		return out.Bytes()
	}
	inner := pack(func(w io.Writer) {
		block := make([]byte, 1<<20)
		for range 16 {
			_, _ = w.Write(block)
		}
	})
	outer := pack(func(w io.Writer) { _, _ = w.Write(inner) })
	for name, test := range map[string]struct {
		encoding string
		body     []byte
		want     error
	}{
		"one":                        {"gzip", inner, paymentsvc.ErrResponseTooLarge},
		"one in another":             {"gzip", outer, paymentsvc.ErrUnexpectedResponse},
		"a list of encodings":        {"gzip, gzip", outer, paymentsvc.ErrUnexpectedResponse},
		"an encoding nobody offered": {"br", inner, paymentsvc.ErrUnexpectedResponse},
		"no gzip at all":             {"gzip", []byte(paymentAnswer), nil},
		"half of one":                {"gzip", inner[:len(inner)/2], paymentsvc.ErrResponseTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			base := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", test.encoding)
				_, _ = w.Write(test.body)
			}))
			response, err := pay(t.Context(), newClient(t, base))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			assert.LessOrEqual(t, len(e.Body), 1<<20)
		})
	}
}
