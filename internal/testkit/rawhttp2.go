package testkit

import (
	"encoding/binary"
	"io"
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

// RawServer is a RawBackend with a script. Its methods are safe for concurrent use.
type RawServer struct {
	*RawBackend

	script  []RawReply
	streams atomic.Int32
}

// StartRaw starts a server with replies to its streams, of all connections
// together; past the end of the script the last one repeats. It is stopped when
// the test ends.
func StartRaw(t testing.TB, name string, script ...RawReply) *RawServer {
	t.Helper()
	s := &RawServer{script: script}
	s.RawBackend = StartRawBackend(t, name, s.next)
	return s
}

// Target is a gRPC target for the server.
func (s *RawServer) Target() string { return "passthrough:///" + s.Addr }

// Streams is how many streams the server has seen.
func (s *RawServer) Streams() int { return int(s.streams.Load()) }

func (s *RawServer) next() (reply RawReply, early bool) {
	n := int(s.streams.Add(1))
	return s.script[min(n, len(s.script))-1], true
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
