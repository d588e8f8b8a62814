package peers

import (
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"loadstar/actors"
)

// Bounds of messages.
const (
	MaxMessage = 64 << 10 // bytes
	MaxName    = 64       // bytes of a router's name
	maxURL     = 512      // bytes of a worker's
	maxCount   = 1 << 17  // requests of one router at one worker
	maxBlocks  = 1 << 32  // of prompt, pending for one router at one worker
	maxSent    = 1 << 60  // nanoseconds, some 36 years
)

// The kinds of messages. The first byte is one of them and the second the version.
const (
	kindFigures byte = 'F'
	kindPlaced  byte = 'P'
	version     byte = 1
)

// errMessage is the error of every message that breaks the format.
var errMessage = errors.New("it is no message of a router of this version")

// head is what every message begins with.
type head struct {
	name        string // of the router
	incarnation uint64 // of two processes of that name the later has the higher
	sequence    uint64 // of its messages, from 1
	sent        int64  // by the sender's clock, nanoseconds
}

// figures is all that a router has to say of some shards of the workers.
type figures struct {
	head
	shards uint64 // set of those that it is about
	all    []actors.Elsewhere
}

// shards is how many there are. Every router has to agree on that.
const shards = 64

// shardOf is the shard of a worker.
func shardOf(url string) int { return int(xxhash.Sum64String(url) >> 58) }

func appendHead(b []byte, kind byte, h *head) []byte {
	b = append(b, kind, version, byte(len(h.name)))
	b = append(b, h.name...)
	b = binary.LittleEndian.AppendUint64(b, h.incarnation)
	b = binary.LittleEndian.AppendUint64(b, h.sequence)
	return binary.LittleEndian.AppendUint64(b, uint64(h.sent))
}

// appendFigures returns a message; entries are those of its shards, as appendEntry
// writes them.
func appendFigures(h *head, set uint64, entries []byte) []byte {
	b := appendHead(nil, kindFigures, h)
	b = binary.LittleEndian.AppendUint64(b, set)
	return append(b, entries...)
}

func appendEntry(b []byte, e *actors.Elsewhere) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.URL)))
	b = append(b, e.URL...)
	b = binary.AppendUvarint(b, uint64(min(e.N, maxCount)))
	b = binary.AppendUvarint(b, uint64(min(e.Pending, maxBlocks)))
	return binary.AppendUvarint(b, uint64(min(e.Decode, maxCount)))
}

// parseFigures reads a message of kindFigures, of which it keeps nothing.
func parseFigures(b []byte) (m figures, err error) {
	r := reader{rest: b}
	m.head = r.head(kindFigures)
	m.shards = r.word()
	known := make(map[string]bool)
	for len(r.rest) > 0 && !r.broken {
		e := actors.Elsewhere{URL: r.text(maxURL), N: r.number(maxCount), Pending: r.number(maxBlocks), Decode: r.number(maxCount)}
		if m.shards&(1<<shardOf(e.URL)) == 0 || known[e.URL] {
			return figures{}, errMessage
		}
		known[e.URL] = true
		m.all = append(m.all, e)
	}
	if r.broken {
		return figures{}, errMessage
	}
	return m, nil
}

// reader takes a message apart. Once something was missing, broken stays set and
// what it returns is worth nothing.
type reader struct {
	rest   []byte
	broken bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.broken, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) word() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// number reads a number up to most.
func (r *reader) number(most int) int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(most) {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

// text reads a length from 1 to most and as many bytes.
func (r *reader) text(most int) string {
	b := r.take(r.number(most))
	if len(b) == 0 {
		r.broken = true
	}
	return string(b)
}

func (r *reader) head(kind byte) (h head) {
	if b := r.take(2); b == nil || b[0] != kind || b[1] != version {
		r.broken = true
		return head{}
	}
	h.name = r.text(MaxName) // its length fits one byte
	h.incarnation, h.sequence, h.sent = r.word(), r.word(), int64(r.word())
	if !IsName(h.name) || h.sent < 0 || h.sent > maxSent {
		r.broken = true
	}
	return h
}

// IsName reports whether a router may have this name: 1 to 64 letters, digits and
// characters of ._:- are one.
func IsName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
