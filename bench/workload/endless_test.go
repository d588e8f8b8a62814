package workload

import (
	"slices"
	"strings"
	"testing"
)

// slowEndless compares a prompt with all before it.
type slowEndless [][]uint64

func (s *slowEndless) Take(blocks []uint64) int {
	hits := 0
	for _, old := range *s {
		n := 0
		for n < min(len(old), len(blocks)) && old[n] == blocks[n] {
			n++
		}
		hits = max(hits, n)
	}
	*s = append(*s, slices.Clone(blocks))
	return hits
}

// FuzzEndless holds the endless cache to the slow one; a byte is an id, and those
// from 0xf0 on end a prompt.
func FuzzEndless(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0xff, 1, 2, 3, 0xff, 1, 2, 4, 0xff, 2, 3, 0xff})
	f.Add([]byte{0, 0, 0, 0xff, 0, 0, 0xff, 0, 0, 0, 0, 0xff, 1, 0, 0xff, 0, 1})
	f.Fuzz(func(t *testing.T, prompts []byte) {
		fast, slow := NewEndless(), &slowEndless{}
		for i, p := range slices.Collect(split(prompts)) {
			got, err := fast.Take(p)
			if err != nil {
				t.Fatal(err)
			}
			if want := slow.Take(p); got != want {
				t.Fatalf("prompt %d, %v, begins with %d known blocks, want %d", i, p, got, want)
			}
		}
	})
}

func split(text []byte) func(func([]uint64) bool) {
	return func(yield func([]uint64) bool) {
		var p []uint64
		for _, c := range append(slices.Clone(text), 0xff) {
			if c < 0xf0 {
				p = append(p, uint64(c%8))
				continue
			}
			if !yield(p) {
				return
			}
			p = nil
		}
	}
}

func TestEndlessIsBounded(t *testing.T) {
	e := NewEndless()
	e.limit = 3
	if _, err := e.Take([]uint64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if hits, err := e.Take([]uint64{1, 2, 3}); err != nil || hits != 3 {
		t.Errorf("known blocks: %d hits, %v, want 3", hits, err)
	}
	_, err := e.Take([]uint64{1, 2, 4})
	if err == nil || !strings.HasPrefix(err.Error(), "the workload has more than 3 different blocks: ") {
		t.Errorf("a fourth block: the error is %v", err)
	}
}
