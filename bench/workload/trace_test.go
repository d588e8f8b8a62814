package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// all reads a workload to its end.
func all(t *testing.T, w Source) []Request {
	t.Helper()
	var rs []Request
	for {
		r, err := w()
		if errors.Is(err, io.EOF) {
			return rs
		}
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
}

func read(t *testing.T, text string, blockTokens int) []Request {
	t.Helper()
	w, err := readTrace(strings.NewReader(text), "trace", blockTokens)
	if err != nil {
		t.Fatal(err)
	}
	return all(t, w)
}

func text(rs []Request) string {
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "%v %v %d→%d\n", r.At, r.Blocks, r.Input, r.Output)
	}
	return b.String()
}

func TestTraceFormats(t *testing.T) {
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
		return b.String()
	}
	const csv = "6000,1030,500,0+1 7\n6000,512,3,0\n\n9000,20,0,9\n12000,513,2,9 8+0\n"
	const want = "0s [0 1 7] 1030→500\n1.5s [0] 512→3\n3s [9] 20→0\n6s [9 8] 513→2\n"
	tests := []struct{ name, text, want string }{
		{"csv", csv, want},
		{"csv, zipped", zipped(csv), want},
		{"csv, other line ends", strings.ReplaceAll(csv, "\n", "\r\n"), want},
		{"json", `{"timestamp": 6000, "input_length": 1030, "output_length": 500, "hash_ids": [0, 1, 7]}
{"timestamp":6000,"input_length":512,"output_length":3,"hash_ids":[0],"other":{"x":[1]}}

{"timestamp":9000,"input_length":20,"output_length":0,"hash_ids":[9]}
{"timestamp":12000,"input_length":513,"output_length":2,"hash_ids":[9,8]}`, want},
		{"json without lengths", `{"timestamp":1.5,"hash_ids":[18446744073709551615]}`, "0s [18446744073709551615] -1→-1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(read(t, tt.text, 512)); got != tt.want {
				t.Errorf("it is read as\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestTraceFaults(t *testing.T) {
	const good = "0,512,1,5\n"
	const goodJSON = `{"timestamp":0,"hash_ids":[1]}` + "\n"
	tests := []struct{ name, text, want string }{
		{"nothing", "", "trace has no request"},
		{"empty lines", "\n\n", "trace has no request"},
		{"fields", good + "1,2,3\n", "trace, line 2: 3 fields: give four, timestamp_ms,input_tokens,output_tokens,block ids"},
		{"a header", "timestamp,input,output,ids\n", `trace, line 1: time "timestamp": give milliseconds`},
		{"negative time", "-1,512,1,5\n", "trace, line 1: time -1: give one from 0 on"},
		{"no time", "NaN,512,1,5\n", "trace, line 1: time NaN: give one from 0 on"},
		{"input", good + "\n1,x,3,5\n", `trace, line 3: input tokens "x": give a whole number`},
		{"output", good + "1,512,-3,5\n", `trace, line 2: output tokens "-3": give a whole number`},
		{"no ids", good + "1,0,3,\n", "trace, line 2: 0 block ids: 1 to 65536 are understood"},
		{"ids", good + "1,512,3,5-6\n", `trace, line 2: block ids "5-6": give a number, or first+further ones`},
		{"ids that overflow", good + "1,512,3,18446744073709551615+1\n", `trace, line 2: block ids "18446744073709551615+1": give a number, or first+further ones`},
		{"too many ids", good + "1,512,3,5+99999999\n", `trace, line 2: block ids "5+99999999": a request may have 65536`},
		{"too many ids in runs", good + "1,512,3,5+65000 1+600\n", `trace, line 2: block ids "1+600": a request may have 65536`},
		{"block size", good + "1,513,3,5\n", "trace, line 2: 513 tokens are 2 blocks of 512, and it has 1 block ids: give the block size with --block-tokens"},
		{"order", "6,512,1,5\n9,512,1,5\n8,512,1,5\n", "trace, line 3: its time is before that of the request above it: sort the trace by time"},
		{"no json", goodJSON + "{\"timestamp\":\n", "trace, line 2: unexpected end of JSON input"},
		{"no timestamp", goodJSON + `{"hash_ids":[1]}`, "trace, line 2: timestamp is missing: give milliseconds"},
		{"no hash_ids", goodJSON + `{"timestamp":5}`, "trace, line 2: 0 block ids: 1 to 65536 are understood"},
		{"negative id", goodJSON + `{"timestamp":5,"hash_ids":[-1]}`, "trace, line 2: json: cannot unmarshal number -1 into Go struct field .hash_ids of type uint64"},
		{"csv in json", goodJSON + good, "trace, line 2: invalid character ',' after top-level value"},
		{"a long line", good + strings.Repeat("1", maxLine) + "\n", "trace, line 2: it has more than 4194304 bytes"},
		{"no gzip", "\x1f\x8bxxxxxxxxxxxxxxxx", "trace: gzip: invalid header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := readTrace(strings.NewReader(tt.text), "trace", 512)
			for err == nil {
				_, err = w()
			}
			if err.Error() != tt.want {
				t.Errorf("the error is\n%q, want\n%q", err, tt.want)
			}
		})
	}
}

// A file that ends within its gzip stream says after which line.
func TestTraceCut(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte("0,512,1,5\n"))
	_ = z.Flush()
	w, err := readTrace(&b, "trace", 512)
	for err == nil {
		_, err = w()
	}
	if got, want := err.Error(), "trace, behind line 1: unexpected EOF"; got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
}

func TestSpread(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name     string
		at, want []time.Duration
	}{
		{"different times stay", []time.Duration{0, 1, 5}, []time.Duration{0, 1, 5}},
		{"even distances", []time.Duration{0, 0, 0, 3 * s, 3 * s, 6 * s}, []time.Duration{0, s, 2 * s, 3 * s, 4500 * time.Millisecond, 6 * s}},
		{"a pause remains", []time.Duration{0, 3 * s, 3 * s, 60 * s}, []time.Duration{0, 3 * s, 4500 * time.Millisecond, 60 * s}},
		{"the last tick is like others", []time.Duration{0, 2 * s, 2 * s}, []time.Duration{0, 2 * s, 3 * s}},
		{"one tick only", []time.Duration{0, 0}, []time.Duration{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			var got []time.Duration
			for _, r := range all(t, spread(func() (Request, error) {
				if n == len(tt.at) {
					return Request{}, io.EOF
				}
				n++
				return Request{At: tt.at[n-1], Blocks: []uint64{1}}, nil
			})) {
				got = append(got, r.At)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the times are %v, want %v", got, tt.want)
			}
		})
	}
}

// A tick that holds too much is an error, not a heap.
func TestSpreadIsBounded(t *testing.T) {
	blocks := make([]uint64, maxIDs)
	read := 0
	w := spread(func() (Request, error) {
		read++
		return Request{Blocks: blocks}, nil
	})
	_, err := w()
	if want := "the requests at 0s have more than 4194304 block ids together"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %q", err, want)
	}
	if most := maxTickIDs/maxIDs + 1; read > most {
		t.Errorf("%d requests were read, want at most %d", read, most)
	}
}

// FuzzTrace holds that what is read is in order and within its bounds, and that a
// line reads the same when its runs are written out.
func FuzzTrace(f *testing.F) {
	f.Add([]byte("0,512,1,5\n3,1024,1,5 9\n3,1536,2,5+2\n"))
	f.Add([]byte(`{"timestamp":0,"hash_ids":[1]}` + "\n" + `{"timestamp":10,"input_length":3,"hash_ids":[1]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		w, err := readTrace(bytes.NewReader(in), "trace", 512)
		if err != nil {
			return
		}
		last := time.Duration(0)
		for {
			r, err := w()
			if err != nil {
				return
			}
			if r.At < last || len(r.Blocks) == 0 || len(r.Blocks) > maxIDs {
				t.Fatalf("a request at %v after one at %v, with %d blocks", r.At, last, len(r.Blocks))
			}
			last = r.At
			if len(r.Blocks) > 100 {
				continue
			}
			line := fmt.Sprintf("0,1,1,%s", strings.Trim(fmt.Sprint(r.Blocks), "[]"))
			again, err := parseCSV([]byte(line))
			if err != nil || !slices.Equal(again.Blocks, r.Blocks) {
				t.Fatalf("%s reads as %v, %v", line, again.Blocks, err)
			}
		}
	})
}
