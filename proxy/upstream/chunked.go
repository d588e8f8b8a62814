package upstream

import (
	"bytes"
	"errors"
)

// ErrChunk says that a body isn't framed as chunks are.
var ErrChunk = errors.New("the body is not framed as valid chunks")

// maxChunkLine bounds the line that announces a chunk, extensions included, and
// each line of the trailer.
const maxChunkLine = 1024

const crlf = "\r\n"

// maxTrailerBytes bounds the trailer, which is dropped.
const maxTrailerBytes = 16 << 10

// Dechunker decodes a chunked body as it arrives (RFC 9112 §7.1). Its zero
// value is ready for the first byte of a body.
type Dechunker struct {
	state   chunkState
	left    uint64 // bytes of the present chunk still to come
	trailer int    // bytes of trailer seen
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd // the line end behind a chunk's data
	chunkTrailer
	chunkDone
)

// Decode takes what has arrived and not been taken yet. It returns the data in
// it, moved to the front of p, and how many bytes of p it has used; the rest
// must come again with what arrives next. done says that the body is complete.
// Errors: ErrChunk.
func (d *Dechunker) Decode(p []byte) (data []byte, used int, done bool, err error) {
	data = p[:0]
	for used < len(p) && d.state != chunkDone {
		rest := p[used:]
		switch d.state {
		case chunkData:
			n := len(rest)
			if uint64(n) > d.left {
				n = int(d.left)
			}
			data = append(data, rest[:n]...) // moves towards the front, never past what is read
			used += n
			if d.left -= uint64(n); d.left == 0 {
				d.state = chunkEnd
			}
			continue
		case chunkEnd:
			n := min(len(rest), len(crlf))
			if string(rest[:n]) != crlf[:n] {
				return data, used, false, ErrChunk
			}
			if n < len(crlf) {
				return data, used, false, nil
			}
			used += n
			d.state = chunkSize
			continue
		}
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			if len(rest) > maxChunkLine {
				return data, used, false, ErrChunk
			}
			break
		}
		if i == 0 || i > maxChunkLine || bytes.IndexByte(rest[:i], '\r') != i-1 {
			return data, used, false, ErrChunk
		}
		line := rest[:i-1]
		used += i + 1
		switch d.state {
		case chunkSize:
			if d.left, err = parseChunkSize(line); err != nil {
				return data, used, false, err
			}
			d.state = chunkData
			if d.left == 0 {
				d.state = chunkTrailer
			}
		case chunkTrailer:
			if d.trailer += i + 1; d.trailer > maxTrailerBytes {
				return data, used, false, ErrChunk
			}
			if len(line) == 0 {
				d.state = chunkDone
			}
		}
	}
	return data, used, d.state == chunkDone, nil
}

// parseChunkSize reads the size from a chunk's first line; extensions are
// ignored.
func parseChunkSize(line []byte) (uint64, error) {
	if i := bytes.IndexByte(line, ';'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || len(line) > 15 {
		return 0, ErrChunk
	}
	n := uint64(0)
	for _, c := range line {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, ErrChunk
		}
		n = n<<4 | uint64(c)
	}
	return n, nil
}
