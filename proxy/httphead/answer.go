package httphead

import (
	"bytes"
	"errors"
	"strconv"
)

// Lengths of an answer's body that aren't a number of bytes.
const (
	Chunked    = -1
	UntilClose = -2
)

// Errors of ParseAnswer, beside those of Lines.
var (
	ErrStatusLine = errors.New("the status line is not one of HTTP/1.1")
	ErrLength     = errors.New("the Content-Length is not a number, or there are several")
	ErrCoding     = errors.New("the Transfer-Encoding is not chunked")
)

// Answer is the head of a worker's answer. Its slices alias what was parsed.
type Answer struct {
	Status    int
	Reason    []byte
	Length    int64 // bytes of body, Chunked or UntilClose
	HasLength bool  // Content-Length was sent, as it may be in an answer without body
	KeepAlive bool  // the connection may carry another request
	Type      []byte
	Encoding  []byte // Content-Encoding
	Report    []byte // endpoint-load-metrics; see package orca
	Headers   []byte // all header lines

	HasCacheControl   bool
	HasAccelBuffering bool
	HasRetryAfter     bool

	named     Named
	encodings int // Content-Encoding headers
}

// HeadEnd returns where the head at the front of p ends, behind its empty line,
// or -1 while it isn't complete. A line feed without its carriage return ends it
// too: ParseAnswer refuses such a head, and whoever sent it may never send the
// end that is waited for. from is how much of p an earlier call has looked at in
// vain.
func HeadEnd(p []byte, from int) int {
	for {
		i := bytes.IndexByte(p[from:], '\n')
		if i < 0 {
			return -1
		}
		from += i + 1
		if from < 2 || p[from-2] != '\r' || bytes.HasSuffix(p[:from], crlf2) {
			return from
		}
	}
}

var crlf2 = []byte("\r\n\r\n")

// ParseAnswer reads a complete head, up to its empty line. Errors:
// ErrStatusLine, ErrLength, ErrCoding, ErrNamed, those of Lines.
func (a *Answer) ParseAnswer(head []byte) error {
	*a = Answer{Length: UntilClose}
	end := bytes.IndexByte(head, '\n')
	if end <= 0 || head[end-1] != '\r' {
		return ErrStatusLine
	}
	line := head[:end-1]
	// HTTP/1.x SP 3DIGIT [SP reason]
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' {
		return ErrStatusLine
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return ErrStatusLine
		}
		a.Status = a.Status*10 + int(c-'0')
	}
	if a.Status < 100 || len(line) > 12 && line[12] != ' ' {
		return ErrStatusLine
	}
	if len(line) > 13 {
		a.Reason = line[13:]
		for _, c := range a.Reason {
			if c < ' ' && c != '\t' || c == 0x7f {
				return ErrStatusLine
			}
		}
	}
	a.Headers = head[end+1:]
	return a.parseHeaders(line[7] == '0')
}

func (a *Answer) parseHeaders(http10 bool) error {
	l := LinesOf(a.Headers)
	chunked, closes, keeps := false, false, !http10
	for l.Next() {
		switch len(l.Name) {
		case 10:
			if Is(l.Name, "connection") {
				closes = closes || HasOption(l.Value, "close")
				keeps = keeps || HasOption(l.Value, "keep-alive")
				if err := a.named.Add(l.Value); err != nil {
					return err
				}
			}
		case 11:
			a.HasRetryAfter = a.HasRetryAfter || Is(l.Name, "retry-after")
		case 12:
			if Is(l.Name, "content-type") {
				a.Type = l.Value
			}
		case 13:
			a.HasCacheControl = a.HasCacheControl || Is(l.Name, "cache-control")
		case 14:
			if Is(l.Name, "content-length") {
				n, err := strconv.ParseUint(string(l.Value), 10, 62)
				if err != nil || a.HasLength {
					return ErrLength
				}
				a.HasLength, a.Length = true, int64(n)
			}
		case 16:
			if Is(l.Name, "content-encoding") {
				a.Encoding = l.Value
				a.encodings++
			}
		case 17:
			switch {
			case Is(l.Name, "x-accel-buffering"):
				a.HasAccelBuffering = true
			case Is(l.Name, "transfer-encoding"):
				if chunked || http10 || !Is(l.Value, "chunked") {
					return ErrCoding
				}
				chunked = true
			}
		case 21:
			if Is(l.Name, "endpoint-load-metrics") {
				a.Report = l.Value
			}
		}
	}
	if chunked {
		// Both framings at once: chunks win, and what follows isn't trusted
		// (RFC 9112 §6.3).
		closes = closes || a.HasLength
		a.HasLength, a.Length = false, Chunked
	}
	// A body that ends with its connection leaves none for another request. The
	// answer to a HEAD is taken for such a one: what was asked isn't known here.
	ends := a.Length == UntilClose && a.mayHaveBody()
	a.KeepAlive = keeps && !closes && !ends
	return l.Err()
}

// HasBody reports whether a body follows the head, given whether the request
// was a HEAD (RFC 9112 §6.3).
func (a *Answer) HasBody(head bool) bool {
	return !head && a.mayHaveBody() && a.Length != 0
}

// mayHaveBody reports whether an answer of this status may have a body.
func (a *Answer) mayHaveBody() bool {
	return a.Status >= 200 && a.Status != 204 && a.Status != 304
}

// EventStream reports whether the body is an unencoded stream of server-sent
// events.
func (a *Answer) EventStream() bool {
	const sse = "text/event-stream"
	t := a.Type
	if len(t) < len(sse) || !Is(t[:len(sse)], sse) {
		return false
	}
	if len(t) > len(sse) && t[len(sse)] != ';' && t[len(sse)] != ' ' && t[len(sse)] != '\t' {
		return false
	}
	return a.encodings <= 1 && (len(a.Encoding) == 0 || Is(a.Encoding, "identity"))
}

// AppendLines appends to dst, for the client, every header line that concerns
// more than one hop, but for those named drop, in lower case. The framing is
// the caller's: Content-Length is left out too.
func (a *Answer) AppendLines(dst []byte, drop ...string) []byte {
	l := LinesOf(a.Headers)
	for l.Next() {
		if IsHop(l.Name) || Is(l.Name, "content-length") || isOf(l.Name, drop) || a.named.Has(l.Name) {
			continue
		}
		dst = AppendLine(dst, l.Name, l.Value)
	}
	return dst
}

func isOf(name []byte, names []string) bool {
	for _, n := range names {
		if Is(name, n) {
			return true
		}
	}
	return false
}

// AppendLine appends one header line.
func AppendLine[N, V []byte | string](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
