package main

import (
	"context"
	"net"
	"net/url"
	"time"
)

// proxy delays the packets between programs and the server. It does not limit the data in transit.
type proxy struct {
	listener net.Listener
}

func newProxy(ctx context.Context, socket string, delay time.Duration) (*proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			program, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				_ = program.Close()
				continue
			}
			go deliver(program, server, delay)
			go deliver(server, program, delay)
		}
	}()
	return &proxy{listener}, nil
}

func (p *proxy) close() { _ = p.listener.Close() }

// address returns the URL of a database behind the proxy.
func (p *proxy) address(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return database
	}
	u.Host, u.RawQuery = p.listener.Addr().String(), "sslmode=disable"
	return u.String()
}

type packet struct {
	due  time.Time
	data []byte
}

// deliver forwards data after the delay, until one side closes.
func deliver(from, to net.Conn, delay time.Duration) {
	packets := make(chan packet, 10_000)
	go func() {
		for p := range packets {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
		_ = to.Close()
	}()
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			close(packets)
			return
		}
		packets <- packet{time.Now().Add(delay), data[:n]}
	}
}
