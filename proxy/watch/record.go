package watch

import "encoding/binary"

// TLS records begin with their type, two bytes of version, which is 3.1 to 3.3 for
// TLS 1.0 to 1.3, and the length of what follows (RFC 8446 §5.1, RFC 5246 §6.2.1).
const (
	recordHeader   = 5
	longestRecord  = 1<<14 + 2048
	firstRecord    = 20 // the types: change_cipher_spec, alert, handshake, application_data
	lastRecord     = 23
	recordAlert    = 21
	recordData     = 23
	alertLength    = 2
	sealedAlert    = alertLength + 1 + 16 // TLS 1.3: with the type within and the tag of any of its ciphers
	longestPadding = 256                  // TLS 1.2: what a cipher adds to an alert, at most
)

// peekSize is how much of what a client has sent is looked at.
const peekSize = 16 << 10

// departs reports whether records that a client has sent end its side of the
// connection, as far as can be told of what is encrypted: in TLS 1.2 and before any
// alert does, and in TLS 1.3, where an alert looks like data, a record of just its
// length. No request fits into that. What else a client sends ahead, such as
// further requests, is passed over; where it doesn't begin with a record, because
// the rest of that one was read already, nothing can be told.
func departs(b []byte) bool {
	for len(b) >= recordHeader {
		kind, length := b[0], int(binary.BigEndian.Uint16(b[3:]))
		switch {
		case kind < firstRecord || kind > lastRecord || b[1] != 3 || b[2] < 1 || b[2] > 3 || length > longestRecord:
			return false
		case kind == recordAlert && length <= alertLength+longestPadding, kind == recordData && length == sealedAlert:
			return true
		}
		b = b[min(recordHeader+length, len(b)):]
	}
	return false
}
