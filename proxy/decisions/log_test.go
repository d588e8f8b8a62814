package decisions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// attempts are the attempts in a log's lines, which these tests count up.
func attempts(t *testing.T, text []byte) []int {
	t.Helper()
	got := []int{}
	for _, l := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		if len(l) == 0 {
			continue
		}
		var e line
		if err := json.Unmarshal(l, &e); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		got = append(got, e.Attempt)
	}
	return got
}

func keep(l *Log, n int) {
	e := l.Entry()
	e.At, e.Attempt = time.Unix(0, int64(n)), n
	l.Keep(e)
}

// The newest are kept, and shown newest first, also after they were read.
func TestLogKeepsTheNewest(t *testing.T) {
	for _, tt := range []struct {
		size, kept, most int
		want             []int
	}{
		{size: 4, kept: 0, most: 10, want: []int{}},
		{size: 4, kept: 3, most: 10, want: []int{3, 2, 1}},
		{size: 4, kept: 4, most: 10, want: []int{4, 3, 2, 1}},
		{size: 4, kept: 11, most: 10, want: []int{11, 10, 9, 8}},
		{size: 4, kept: 11, most: 2, want: []int{11, 10}},
		{size: 1, kept: 11, most: 2, want: []int{11}},
	} {
		t.Run(fmt.Sprintf("%d of %d", tt.kept, tt.size), func(t *testing.T) {
			l := New(tt.size)
			for n := range tt.kept {
				keep(l, n+1)
				l.AppendLines(nil, 1)
			}
			for range 2 {
				if got := attempts(t, l.AppendLines(nil, tt.most)); !slices.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
		})
	}
}

func TestLogOff(t *testing.T) {
	l := New(0)
	if e := l.Entry(); e != nil {
		t.Errorf("an entry, want none")
	}
	if got := l.AppendLines([]byte("x"), 5); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// What is used again shows nothing of the entry before, and what clients choose is cut.
func TestEntriesStartEmpty(t *testing.T) {
	l := New(1)
	for range 3 {
		e := l.Entry()
		e.At, e.HasUsage, e.Weighs, e.TTFT, e.Worker, e.Blocks, e.Prompt = time.Unix(1, 0), true, true, time.Second, "w", 4, 8
		e.Name([]byte(strings.Repeat("i", 1000)), []byte(strings.Repeat("m", 1000)))
		l.Keep(e)
	}
	var full line
	if err := json.Unmarshal(l.AppendLines(nil, 1), &full); err != nil {
		t.Fatal(err)
	}
	if len(full.ID) != shownID || len(full.Model) != shownModel || full.Prompt == nil || full.Lambda == nil || *full.TTFT != 1000 {
		t.Errorf("%+v", full)
	}
	keep(l, 1)
	keep(l, 2)
	want := `{"time":"1970-01-01T00:00:00.000000002Z","id":"","attempt":2,"policy":"","reason":"","blocks":0,"match":0,"best_match":0,"candidates":0,"load":0,"pending":0,"outcome":""}` + "\n"
	if got := string(l.AppendLines(nil, 5)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whoever keeps and reads at once, no entry is shown twice, none is torn, and the log
// holds no more than it may.
func TestLogUnderUse(t *testing.T) {
	const size, writers, each = 8, 4, 500
	l := New(size)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				keep(l, w*each+n+1)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range each {
				got := attempts(t, l.AppendLines(nil, 1<<20))
				slices.Sort(got)
				if len(got) > size || len(slices.Compact(slices.Clone(got))) != len(got) {
					t.Errorf("shown %v", got)
				}
			}
		})
	}
	all.Wait()
	if got := attempts(t, l.AppendLines(nil, 1<<20)); len(got) == 0 || len(got) > size {
		t.Errorf("%d entries in the end, want some and at most %d", len(got), size)
	}
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct{ some, blocks, prompt, want int }{
		{0, 10, 100, 0}, {5, 10, 100, 50}, {10, 10, 101, 101}, {1, 0, 100, 0},
	} {
		if got := Tokens(tt.some, tt.blocks, tt.prompt); got != tt.want {
			t.Errorf("Tokens(%d, %d, %d) = %d, want %d", tt.some, tt.blocks, tt.prompt, got, tt.want)
		}
	}
}

func BenchmarkKeep(b *testing.B) {
	l := New(256)
	b.ReportAllocs()
	for b.Loop() {
		e := l.Entry()
		e.Name([]byte("0123456789abcdef0123456789abcdef"), []byte("model"))
		l.Keep(e)
	}
}
