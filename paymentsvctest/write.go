package paymentsvctest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"
)

// distort applies the faults to a response, except Slow and the cuts. It only marks these; [Server.write] applies them.
func (s *Server) distort(a answer, e *effects) answer {
	now := s.cfg.Now().UTC()
	date := now.Format(http.TimeFormat)
	a.header.Set("Date", date)
	if e.date != nil {
		a.header.Set("Date", now.Add(*e.date).Format(http.TimeFormat))
		if a.header.Get("Date") != date {
			s.markApplied(&e.pendingFaults, "wrong-date")
		}
	}
	if e.wrongShape {
		if fields, err := parseObject(a.body); err == nil && len(fields) > 0 {
			s.markApplied(&e.pendingFaults, "wrong-shape")
			a.body = misshapen(fields)
		}
	}
	if missing := e.size - len(a.body); missing > 0 {
		s.markApplied(&e.pendingFaults, "oversized")
		padded := bytes.Repeat([]byte(" "), e.size)
		copy(padded, a.body)
		a.body = padded
	}
	if e.bomb > 0 {
		s.markApplied(&e.pendingFaults, "gzip-bomb")
		a.body = bomb(a.body, e.bomb)
		a.header.Set("Content-Encoding", "gzip")
	}
	if e.slow > 0 && len(a.body) > 0 {
		s.markApplied(&e.pendingFaults, "slow")
	}
	if e.cut.framing == inHeader || e.cut.framing == chunked || e.cut.framing != whole && e.cut.at < len(a.body) {
		s.markApplied(&e.pendingFaults, "cut")
	}
	return a
}

// bomb returns body, padded with spaces to size bytes, and compressed with gzip.
func bomb(body []byte, size int) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // neither the level nor a write to a buffer fails
	_, _ = w.Write(body)
	spaces := bytes.Repeat([]byte(" "), 64<<10)
	for missing := size - len(body); missing > 0; missing -= len(spaces) {
		_, _ = w.Write(spaces[:min(missing, len(spaces))])
	}
	_ = w.Close()
	return out.Bytes()
}

// misshapen replaces each value of an object by a value of another type.
func misshapen(fields object) []byte {
	for name, value := range fields {
		if value[0] == '"' {
			fields[name] = json.RawMessage("17")
		} else {
			fields[name] = json.RawMessage(`"wrong"`)
		}
	}
	return encode(fields)
}

// abandon closes or, if hard is set, resets the connection without a response.
func (s *Server) abandon(w http.ResponseWriter, hard bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: net/http then ends the stream
	}
	if hard {
		below := conn
		if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
			below = t.NetConn()
		}
		if socket, ok := below.(interface{ SetLinger(sec int) error }); ok {
			_ = socket.SetLinger(0) // so that closing resets the connection
		}
	}
	s.hangUp(conn)
}

// hangUp closes a hijacked connection.
func (s *Server) hangUp(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	s.notice()
}

// write sends a response, possibly cut by a fault.
func (s *Server) write(w http.ResponseWriter, r *http.Request, a answer, e *effects) {
	if e.cut.framing == withoutLength || e.cut.framing == inHeader {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			s.writeRaw(conn, a, e)
			return
		}
		if e.cut.framing == inHeader {
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(w.Header(), a.header)
	body, isCut := a.body, false
	if e.cut.framing != whole && e.cut.at < len(body) {
		body, isCut = body[:e.cut.at], true
	}
	if e.cut.framing != chunked {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	flush := func() { _ = http.NewResponseController(w).Flush() } // the client may have left
	s.writeBody(r.Context(), w, flush, body, e.slow)
	if isCut || e.cut.framing == chunked {
		flush()
		panic(http.ErrAbortHandler) // net/http then closes the connection
	}
}

// writeRaw sends a response without a Content-Length, or only a part of its header.
func (s *Server) writeRaw(conn net.Conn, a answer, e *effects) {
	defer s.hangUp(conn)
	var head bytes.Buffer
	_, _ = fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = a.header.Write(&head)
	if e.cut.framing == inHeader {
		_, _ = fmt.Fprintf(&head, "Content-Length: %d\r\n\r\n", len(a.body))
		_, _ = conn.Write(head.Bytes()[:min(e.cut.at, head.Len()-1)])
		return
	}
	_, _ = head.WriteString("Connection: close\r\n\r\n")
	if _, err := conn.Write(head.Bytes()); err != nil {
		return
	}
	s.writeBody(context.Background(), conn, func() {}, a.body[:min(e.cut.at, len(a.body))], e.slow)
}

// writeBody sends a body, slowly if pause is set, until the client leaves or the server closes.
func (s *Server) writeBody(ctx context.Context, w io.Writer, flush func(), body []byte, pause time.Duration) {
	if pause <= 0 {
		_, _ = w.Write(body) // the client may have left
		return
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i := range body {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-s.life.Done():
			return
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		flush()
	}
}
