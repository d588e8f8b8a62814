package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	api "go.opentelemetry.io/otel/trace"
)

// flags of a trace context. Others are not passed on, as version 00 asks for.
const (
	sampled  = byte(api.FlagsSampled)
	flagBits = sampled | 2 // the second says that the trace id is random
)

// The layout of a traceparent: version, trace id, parent id and flags, in hex.
const (
	traceFrom   = 3
	parentFrom  = traceFrom + 32 + 1
	flagsFrom   = parentFrom + 16 + 1
	parentWidth = flagsFrom + 2
)

// Parent is what a traceparent says. The zero Parent is none.
type Parent struct {
	Trace api.TraceID
	Span  api.SpanID
	Flags byte
}

// Valid reports whether there is a parent.
func (p *Parent) Valid() bool { return p.Trace.IsValid() && p.Span.IsValid() }

// ParseParent reads a traceparent. It reports false for what the standard (W3C Trace
// Context, level 2) calls invalid. A later version may have more fields behind those
// that are known.
func ParseParent(v []byte) (p Parent, ok bool) {
	if len(v) < parentWidth || v[traceFrom-1] != '-' || v[parentFrom-1] != '-' || v[flagsFrom-1] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	ok = unhex(version[:], v[:traceFrom-1]) && unhex(p.Trace[:], v[traceFrom:parentFrom-1]) &&
		unhex(p.Span[:], v[parentFrom:flagsFrom-1]) && unhex(flags[:], v[flagsFrom:parentWidth])
	switch rest := v[parentWidth:]; {
	case !ok, version[0] == 0xff, !p.Valid(), len(rest) > 0 && (version[0] == 0 || rest[0] != '-'):
		return Parent{}, false
	}
	p.Flags = flags[0] & flagBits
	return p, true
}

// unhex reads digits, which the standard has in lower case only.
func unhex(dst, src []byte) bool {
	for _, c := range src {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, src)
	return err == nil
}

// AppendParent appends p as a traceparent of version 00.
func (p *Parent) AppendParent(dst []byte) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, p.Trace[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, p.Span[:])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, []byte{p.Flags})
}

// PutSpan writes another parent's id over that in a traceparent.
func PutSpan(traceparent []byte, id api.SpanID) {
	hex.Encode(traceparent[parentFrom:], id[:])
}

// newTrace is a parent of the router's own for a request that has none, with ids that
// are not zero.
func newTrace() Parent {
	var p Parent
	for !p.Valid() {
		binary.NativeEndian.PutUint64(p.Trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(p.Trace[8:], rand.Uint64())
		binary.NativeEndian.PutUint64(p.Span[:], rand.Uint64())
	}
	return p
}

// ratio is the share of traces that are sampled, in terms of their ids: those whose
// last 63 bits are below it, as the SDKs have it.
type ratio uint64

func ratioOf(share float64) ratio { return ratio(share * (1 << 63)) }

func (r ratio) samples(id api.TraceID) bool {
	return binary.BigEndian.Uint64(id[8:])>>1 < uint64(r)
}
