package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// Bounds of a trace.
const (
	maxLine    = 4 << 20 // bytes
	maxIDs     = 1 << 16 // of one request, which makes prompts of 4 MB
	maxTickIDs = 1 << 22 // of the requests of one tick
)

// trace reads requests line by line.
type trace struct {
	lines       *bufio.Scanner
	name        string
	line        int
	parse       func(line []byte) (Request, error) // known from the first line on
	blockTokens int
	begun       bool
	first, last time.Duration // as the trace has them
}

// openTrace opens a trace, which may be compressed with gzip: comma-separated
// values, or JSON if its first line begins with a brace.
func openTrace(file string, blockTokens int) (Source, io.Closer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	w, err := readTrace(f, file, blockTokens)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return w, f, nil
}

func readTrace(from io.Reader, name string, blockTokens int) (Source, error) {
	r := bufio.NewReader(from)
	var in io.Reader = r
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in = z
	}
	t := &trace{lines: bufio.NewScanner(in), name: name, blockTokens: blockTokens}
	t.lines.Buffer(nil, maxLine)
	return spread(t.next), nil
}

// next is the request of the next line that isn't empty.
func (t *trace) next() (Request, error) {
	for t.lines.Scan() {
		t.line++
		line := bytes.TrimSpace(t.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if t.parse == nil {
			t.parse = parseCSV
			if line[0] == '{' {
				t.parse = parseJSON
			}
		}
		r, err := t.parse(line)
		if err == nil {
			err = t.check(&r)
		}
		if err != nil {
			return Request{}, fmt.Errorf("%s, line %d: %w", t.name, t.line, err)
		}
		return r, nil
	}
	switch err := t.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Request{}, fmt.Errorf("%s, line %d: it has more than %d bytes", t.name, t.line+1, maxLine)
	case err != nil:
		return Request{}, fmt.Errorf("%s, behind line %d: %w", t.name, t.line, err)
	case !t.begun:
		return Request{}, fmt.Errorf("%s has no request", t.name)
	}
	return Request{}, io.EOF
}

// check looks at what both formats have, and makes the time one since the first
// request.
func (t *trace) check(r *Request) error {
	if n := len(r.Blocks); n == 0 || n > maxIDs {
		return fmt.Errorf("%d block ids: 1 to %d are understood", n, maxIDs)
	}
	if want := (r.Input + t.blockTokens - 1) / t.blockTokens; r.Input >= 0 && want != len(r.Blocks) {
		return fmt.Errorf("%d tokens are %d blocks of %d, and it has %d block ids: give the block size with --block-tokens", r.Input, want, t.blockTokens, len(r.Blocks))
	}
	if t.begun && r.At < t.last {
		return errors.New("its time is before that of the request above it: sort the trace by time")
	}
	if !t.begun {
		t.begun, t.first = true, r.At
	}
	t.last = r.At
	r.At -= t.first
	return nil
}

func milliseconds(n float64) (time.Duration, error) {
	if d := n * float64(time.Millisecond); d >= 0 && d < math.MaxInt64 {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("time %v: give one from 0 on", n)
}
