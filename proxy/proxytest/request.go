package proxytest

import "fmt"

// A Request is what a client sends. The zero value of a field means its usual
// value; nothing else is added.
type Request struct {
	Method  string // "GET", or "POST" if there is a body
	Target  string // "/"
	Proto   string // "HTTP/1.1"
	Headers []Header
	Body    string

	// ChunkSizes makes the body chunked: sizes in bytes, repeated as needed.
	ChunkSizes []int
	// Trailers follow a chunked body.
	Trailers []Header
	// NoHost leaves out the Host header, which is otherwise the first unless
	// Headers has one; it names the address dialled.
	NoHost bool
	// NoLength leaves out the Content-Length, which otherwise follows Headers if
	// there is a body that is not chunked and Headers frame nothing.
	NoLength bool
}

func (r Request) method() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body != "" || len(r.ChunkSizes) > 0:
		return "POST"
	default:
		return "GET"
	}
}

// Head returns the bytes of the head, for a request that a test sends in pieces
// of its own.
func (r Request) Head(host string) string {
	target, proto := r.Target, r.Proto
	if target == "" {
		target = "/"
	}
	if proto == "" {
		proto = "HTTP/1.1"
	}
	b := fmt.Appendf(nil, "%s %s %s\r\n", r.method(), target, proto)
	if !r.NoHost && !hasHeader(r.Headers, "Host") {
		b = fmt.Appendf(b, "Host: %s\r\n", host)
	}
	b = appendHeaders(b, r.Headers)
	framed := hasHeader(r.Headers, "Content-Length") || hasHeader(r.Headers, "Transfer-Encoding")
	switch {
	case framed:
	case len(r.ChunkSizes) > 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case (r.Body != "" || r.method() == "POST") && !r.NoLength:
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(r.Body))
	}
	return string(append(b, "\r\n"...))
}

// segments returns the writes that make up the request: one if it has a length,
// otherwise one per chunk, the head with the first and the end with the last.
func (r Request) segments(host string) [][]byte {
	head := []byte(r.Head(host))
	if len(r.ChunkSizes) == 0 {
		return [][]byte{append(head, r.Body...)}
	}
	var out [][]byte
	b := head
	rest := r.Body
	for i := 0; rest != ""; i++ {
		n := min(len(rest), max(1, r.ChunkSizes[i%len(r.ChunkSizes)]))
		b = fmt.Appendf(b, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
		if rest != "" {
			out = append(out, b)
			b = nil
		}
	}
	b = appendHeaders(append(b, "0\r\n"...), r.Trailers)
	return append(out, append(b, "\r\n"...))
}
