package testkit

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"
)

// RawBackend is an HTTP/2 server made of frames that are written by hand, for
// what no gRPC server can be made to do. It does not read headers: a stream is a
// call. A test decides what to do with a stream when it begins. Its methods are safe
// for concurrent use.
type RawBackend struct {
	Name string
	Addr string

	decide  func() (reply RawReply, early bool)
	lis     net.Listener
	serving sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// StartRawBackend starts a server that asks decide what to do with each stream,
// and whether to do early, when it has the headers of a request, what it can do
// without the rest. It is stopped when the test ends.
func StartRawBackend(t testing.TB, name string, decide func() (reply RawReply, early bool)) *RawBackend {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("server %s: %v", name, err)
	}
	b := &RawBackend{Name: name, Addr: lis.Addr().String(), decide: decide, lis: lis}
	b.serving.Go(b.accept)
	t.Cleanup(b.stop)
	return b
}

func (b *RawBackend) accept() {
	for {
		conn, err := b.lis.Accept()
		if err != nil || !b.keep(conn) {
			return
		}
		b.serving.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = b.serve(conn) // the client has gone, or the test says so
		})
	}
}

// keep has the connection closed when the server stops, which it may have.
func (b *RawBackend) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = conn.Close()
		return false
	}
	b.conns = append(b.conns, conn)
	return true
}

func (b *RawBackend) stop() {
	_ = b.lis.Close()
	b.mu.Lock()
	b.closed = true
	for _, conn := range b.conns {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.serving.Wait()
}

// serve speaks HTTP/2 on one connection until it ends.
func (b *RawBackend) serve(conn net.Conn) error {
	r := bufio.NewReader(conn)
	if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return err
	}
	if err := writeFrames(conn, rawFrame{kind: frameSettings}); err != nil {
		return err
	}
	replies := make(map[uint32]RawReply) // to streams that have begun
	late := make(map[uint32]bool)
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		var out []rawFrame
		switch {
		case f.kind == frameSettings && f.flags&flagAck == 0:
			out = append(out, rawFrame{kind: frameSettings, flags: flagAck})
		case f.kind == framePing && f.flags&flagAck == 0:
			out = append(out, rawFrame{kind: framePing, flags: flagAck, payload: f.payload})
		case f.kind == frameHeaders:
			reply, early := b.decide()
			if reply == RawClose {
				return nil
			}
			replies[f.stream], late[f.stream] = reply, !early
			if early {
				out = reply.atHeaders(f.stream)
			}
		}
		if f.endsStream() {
			if late[f.stream] {
				out = append(out, replies[f.stream].atHeaders(f.stream)...)
			}
			out = append(out, replies[f.stream].atEnd(f.stream, b.Name)...)
			delete(replies, f.stream)
			delete(late, f.stream)
		}
		if err := writeFrames(conn, out...); err != nil {
			return err
		}
	}
}
