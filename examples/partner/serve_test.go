package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/web"
)

// pipes is a listener in memory, which a synctest bubble can see through.
type pipes struct {
	dialled, closed chan struct{}
	once            sync.Once
	server, client  net.Conn // of the one connection
}

func newPipes() *pipes {
	p := &pipes{dialled: make(chan struct{}, 1), closed: make(chan struct{})}
	p.server, p.client = net.Pipe()
	return p
}

func (p *pipes) dial() net.Conn {
	p.dialled <- struct{}{}
	return p.client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case <-p.dialled:
		return p.server, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// stage is a program with one worker, and one handler at the public address, while it is being stopped.
type stage struct {
	call    chan struct{} // is closed when the worker's call under way is recorded
	request chan struct{} // is closed when the request is to be answered
	told    chan struct{} // is closed when the worker is told to end
	ended   chan struct{} // is closed when the program has ended
	client  net.Conn
	stop    context.CancelFunc
}

func (s *stage) is(state chan struct{}) bool {
	select {
	case <-state:
		return true
	default:
		return false
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s := &stage{call: make(chan struct{}), request: make(chan struct{}), told: make(chan struct{}), ended: make(chan struct{})}
	p := &serving{program: &program{set: &settings{CallTimeout: 40 * time.Second}, log: log}}
	p.workers = []worker{{"calls", func(ctx context.Context) error {
		<-ctx.Done()
		close(s.told)
		<-s.call
		return nil
	}}}
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-s.request
		w.WriteHeader(http.StatusNoContent)
	})
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	public, admin := newPipes(), newPipes()
	go func() {
		assert.NoError(t, p.until(ctx, []site{
			{"public", public, web.Server(answers, web.AnswerTime, log)},
			{"admin", admin, web.Server(answers, web.AnswerTime, log)},
		}, io.Discard))
		close(s.ended)
	}()
	s.client = public.dial()
	return s
}

func TestStoppingCutsOffNeitherRequestsNorCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		_, err := io.WriteString(s.client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		s.stop()
		time.Sleep(web.AnswerTime - time.Second)
		require.False(t, s.is(s.told), "the request may need it")
		close(s.request)
		answer, err := http.ReadResponse(bufio.NewReader(s.client), nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusNoContent, answer.StatusCode)
		time.Sleep(35 * time.Second)
		require.True(t, s.is(s.told))
		require.False(t, s.is(s.ended), "a call is under way, and the database has to be open for what it comes to")
		close(s.call)
		synctest.Wait()
		require.True(t, s.is(s.ended))
	})
}

func TestStoppingWaitsForNothingForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		_, err := io.WriteString(s.client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait()
		s.stop()
		time.Sleep(web.AnswerTime + 40*time.Second + 11*time.Second)
		require.True(t, s.is(s.ended))
		close(s.request)
		close(s.call)
	})
}
