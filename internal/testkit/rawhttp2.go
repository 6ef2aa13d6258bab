package testkit

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// RawReply is what a RawServer does with a stream.
type RawReply int

const (
	// RawOK answers a unary call with the server's name.
	RawOK RawReply = iota
	// RawRefuse resets the stream with REFUSED_STREAM, which says that the
	// server has not looked at it.
	RawRefuse
	// RawReset resets the stream with INTERNAL_ERROR.
	RawReset
	// RawGoAway sends a GOAWAY that leaves the stream out of those that the
	// server has looked at.
	RawGoAway
	// RawClose closes the connection.
	RawClose
	// RawBadGateway answers with HTTP status 502 and a page, as proxies do.
	RawBadGateway
	// RawSilence never answers.
	RawSilence
)

// RawServer is an HTTP/2 server made of frames that are written by hand, for
// what no gRPC server can be made to do. It does not read headers: a stream is a
// call. Its methods are safe for concurrent use.
type RawServer struct {
	Name string
	Addr string

	lis       net.Listener
	accepting sync.WaitGroup
	serving   sync.WaitGroup
	conns     []net.Conn // written while accepting, read when that is over

	script  []RawReply
	streams atomic.Int32
}

// StartRaw starts a server with replies to its streams, of all connections
// together; past the end of the script the last one repeats. It is stopped when
// the test ends.
func StartRaw(t testing.TB, name string, script ...RawReply) *RawServer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("server %s: %v", name, err)
	}
	s := &RawServer{Name: name, Addr: lis.Addr().String(), lis: lis, script: script}
	s.accepting.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

// Target is a gRPC target for the server.
func (s *RawServer) Target() string { return "passthrough:///" + s.Addr }

// Streams is how many streams the server has seen.
func (s *RawServer) Streams() int { return int(s.streams.Load()) }

func (s *RawServer) accept() {
	for {
		conn, err := s.lis.Accept()
		if err != nil {
			return
		}
		s.conns = append(s.conns, conn)
		s.serving.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = s.serve(conn) // the client has gone, or the script says so
		})
	}
}

func (s *RawServer) stop() {
	_ = s.lis.Close()
	s.accepting.Wait()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.serving.Wait()
}

func (s *RawServer) next() RawReply {
	n := int(s.streams.Add(1))
	return s.script[min(n, len(s.script))-1]
}

// serve speaks HTTP/2 on one connection until it ends.
func (s *RawServer) serve(conn net.Conn) error {
	r := bufio.NewReader(conn)
	if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return err
	}
	if err := writeFrames(conn, rawFrame{kind: frameSettings}); err != nil {
		return err
	}
	replies := make(map[uint32]RawReply) // to streams that have begun
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
			reply := s.next()
			if reply == RawClose {
				return nil
			}
			replies[f.stream] = reply
			out = reply.atHeaders(f.stream)
		}
		if f.endsStream() {
			out = append(out, replies[f.stream].atEnd(f.stream, s.Name)...)
		}
		if err := writeFrames(conn, out...); err != nil {
			return err
		}
	}
}

// atHeaders is what the server says when it has the headers of a request.
func (r RawReply) atHeaders(stream uint32) []rawFrame {
	const refusedStream, internalError = 7, 2
	switch r {
	case RawRefuse:
		return []rawFrame{{kind: frameReset, stream: stream, payload: uint32s(refusedStream)}}
	case RawReset:
		return []rawFrame{{kind: frameReset, stream: stream, payload: uint32s(internalError)}}
	case RawGoAway:
		last := max(stream, 2) - 2 // the client's stream before this one, or none
		return []rawFrame{{kind: frameGoAway, payload: uint32s(last, 0)}}
	default:
		return nil
	}
}

// atEnd is what the server says when it has all of a request.
func (r RawReply) atEnd(stream uint32, name string) []rawFrame {
	switch r {
	case RawOK:
		return []rawFrame{
			{kind: frameHeaders, flags: flagEndHeaders, stream: stream, payload: headers(":status", "200", "content-type", "application/grpc")},
			{kind: frameData, stream: stream, payload: message(name)},
			{kind: frameHeaders, flags: flagEndHeaders | flagEndStream, stream: stream, payload: headers("grpc-status", "0")},
		}
	case RawBadGateway:
		return []rawFrame{
			{kind: frameHeaders, flags: flagEndHeaders, stream: stream, payload: headers(":status", "502", "content-type", "text/html")},
			{kind: frameData, flags: flagEndStream, stream: stream, payload: []byte("<h1>Bad Gateway</h1>")},
		}
	default:
		return nil
	}
}

// Frame types and flags of RFC 9113, section 6.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7

	flagAck        = 1 // of SETTINGS and PING
	flagEndStream  = 1 // of DATA and HEADERS
	flagEndHeaders = 4
)

// rawFrame is an HTTP/2 frame.
type rawFrame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f rawFrame) endsStream() bool {
	return (f.kind == frameData || f.kind == frameHeaders) && f.flags&flagEndStream != 0
}

func readFrame(r io.Reader) (rawFrame, error) {
	var head [9]byte // 24 bits of length, type, flags, stream
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return rawFrame{}, err
	}
	f := rawFrame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

// writeFrames writes frames at once, so that the client sees all or none.
func writeFrames(w io.Writer, frames ...rawFrame) error {
	var out []byte
	for _, f := range frames {
		size := uint32(len(f.payload)) //nolint:gosec // a test's own frame
		out = append(out, uint32s(size<<8|uint32(f.kind))...)
		out = append(out, f.flags)
		out = append(out, uint32s(f.stream)...)
		out = append(out, f.payload...)
	}
	if len(out) == 0 {
		return nil
	}
	_, err := w.Write(out)
	return err
}

func uint32s(values ...uint32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}

// headers encodes names and values by HPACK, each as a literal that is not
// indexed (RFC 7541, section 6.2.2).
func headers(pairs ...string) []byte {
	var out []byte
	for i, text := range pairs {
		if i%2 == 0 {
			out = append(out, 0)
		}
		out = append(out, byte(len(text))) //nolint:gosec // below 127, as all are here
		out = append(out, text...)
	}
	return out
}

// message is the response to a unary call, with gRPC's prefix of five bytes.
func message(hostname string) []byte {
	body, err := proto.Marshal(&testpb.SimpleResponse{Hostname: hostname})
	if err != nil {
		panic(err) // cannot happen
	}
	size := uint32(len(body)) //nolint:gosec // a name
	return append(append([]byte{0}, uint32s(size)...), body...)
}
