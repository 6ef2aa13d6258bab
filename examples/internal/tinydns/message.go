package tinydns

import (
	"encoding/binary"
	"errors"
	"strings"
)

// DNS messages, as in RFC 1035, section 4.

const (
	typeA   = 1
	typeTXT = 16
	classIN = 1

	headerSize = 12
	maxMessage = 1232 // what Go's resolver takes by UDP
	maxText    = 900  // leaves room for the rest of the message
	maxString  = 255  // a text is a row of strings, each with its length in a byte
)

// query is a question as a client sent it.
type query struct {
	id       []byte // two bytes
	question []byte // with name, type and class
	name     string // in lower case, without a dot at its end
	kind     uint16 // the type of record
}

var errQuery = errors.New("tinydns: not a query that this server knows")

// parseQuery reads a message with one question; what comes after it is left out.
func parseQuery(message []byte) (query, error) {
	if len(message) < headerSize || message[2]&0x80 != 0 || binary.BigEndian.Uint16(message[4:]) != 1 {
		return query{}, errQuery // too short, a reply, or not one question
	}
	var labels []string
	rest := message[headerSize:]
	for {
		if len(rest) == 0 || len(rest) <= int(rest[0]) {
			return query{}, errQuery
		}
		size := int(rest[0])
		label := rest[1 : 1+size]
		rest = rest[1+size:]
		if size == 0 {
			break
		}
		labels = append(labels, string(label))
	}
	if len(rest) < 4 || binary.BigEndian.Uint16(rest[2:]) != classIN {
		return query{}, errQuery
	}
	return query{
		id:       message[:2],
		question: message[headerSize : len(message)-len(rest)+4],
		name:     strings.ToLower(strings.Join(labels, ".")),
		kind:     binary.BigEndian.Uint16(rest),
	}, nil
}

// reply answers the query with one record, or none if data is nil.
func (q query) reply(data []byte, known bool) []byte {
	flags, records := uint16(0x8400), uint16(0) // a reply, by who is in charge of the name
	if !known {
		flags |= 3 // there is no such name
	}
	if data != nil {
		records = 1
	}
	out := append([]byte(nil), q.id...)
	for _, field := range []uint16{flags, 1 /* question */, records, 0, 0} {
		out = binary.BigEndian.AppendUint16(out, field)
	}
	out = append(out, q.question...)
	if data == nil {
		return out
	}
	out = append(out, 0xc0, headerSize) // the name is that of the question
	out = binary.BigEndian.AppendUint16(out, q.kind)
	out = binary.BigEndian.AppendUint16(out, classIN)
	out = binary.BigEndian.AppendUint32(out, 0)                 // seconds that it may be kept
	out = binary.BigEndian.AppendUint16(out, uint16(len(data))) //nolint:gosec // shorter than a message
	return append(out, data...)
}

// textData is a text as the data of a TXT record.
func textData(text string) []byte {
	data := []byte{}
	for len(text) > maxString {
		data = append(append(data, maxString), text[:maxString]...)
		text = text[maxString:]
	}
	return append(append(data, byte(len(text))), text...) //nolint:gosec // 255 at the most
}
