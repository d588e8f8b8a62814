package workload

import (
	"slices"
	"testing"
	"time"
)

// first takes n requests.
func first(t *testing.T, w Source, n int) []Request {
	t.Helper()
	rs := make([]Request, n)
	for i := range rs {
		var err error
		if rs[i], err = w(); err != nil {
			t.Fatal(err)
		}
	}
	return rs
}

// A seed gives the same requests each time, and another seed others.
func TestSyntheticSeeds(t *testing.T) {
	for _, s := range synthetics {
		t.Run(s.name, func(t *testing.T) {
			one, again, other := first(t, s.make(&Options{Rate: 50, Seed: 1}), 300), first(t, s.make(&Options{Rate: 50, Seed: 1}), 300), first(t, s.make(&Options{Rate: 50, Seed: 2}), 300)
			if text(one) != text(again) {
				t.Error("the same seed gives other requests")
			}
			if text(one) == text(other) {
				t.Error("another seed gives the same requests")
			}
		})
	}
}

// The shapes are those that routing was designed with, so a cache that forgets
// nothing hits as much as it did there.
func TestSyntheticShapes(t *testing.T) {
	tests := []struct {
		name          string
		least, most   int // blocks of a prompt
		hitLow, hitHi float64
	}{
		{"conversations", systemBlocks + 1, systemBlocks + maxTurns*maxUser + (maxTurns-1)*maxAnswer, .80, .92},
		{"hot", systemBlocks + 1, systemBlocks + maxTurns*maxUser + (maxTurns-1)*maxAnswer, .80, .92},
		{"unique", 1, maxUnique, 0, 0},
		{"mixed", systemBlocks + 1, maxLong, .60, .70},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := syntheticNamed(tt.name)
			const n, rate = 8000, 80
			rs := first(t, s.make(&Options{Rate: rate, Seed: 3, Rest: time.Second}), n)
			e, hits, blocks, last := NewEndless(), 0, 0, time.Duration(0)
			for _, r := range rs {
				if len(r.Blocks) < tt.least || len(r.Blocks) > tt.most || r.At < last || r.Output != OutputTokens {
					t.Fatalf("%d blocks at %v after %v, %d tokens of answer; want %d to %d blocks", len(r.Blocks), r.At, last, r.Output, tt.least, tt.most)
				}
				last = r.At
				h, err := e.Take(r.Blocks)
				if err != nil {
					t.Fatal(err)
				}
				hits, blocks = hits+h, blocks+len(r.Blocks)
			}
			if hit := float64(hits) / float64(blocks); hit < tt.hitLow || hit > tt.hitHi {
				t.Errorf("the hit ratio is %.3f, want %v to %v", hit, tt.hitLow, tt.hitHi)
			}
			if got := n / last.Seconds(); got < .95*rate || got > 1.05*rate {
				t.Errorf("%.1f requests come in a second, want %d", got, rate)
			}
		})
	}
}

// Of mixed requests a tenth are long, and share nothing with any other.
func TestMixed(t *testing.T) {
	rs := first(t, mixed(&Options{Rate: 60, Seed: 5, Rest: time.Second}), 5000)
	seen := make(map[uint64]bool)
	long := 0
	for _, r := range rs {
		if r.Blocks[0] < longIDs {
			continue
		}
		long++
		if n := len(r.Blocks); n < minLong || n > maxLong {
			t.Fatalf("a long prompt has %d blocks, want %d to %d", n, minLong, maxLong)
		}
		for _, b := range r.Blocks {
			if seen[b] {
				t.Fatalf("block %d comes twice", b)
			}
			seen[b] = true
		}
	}
	if long < 400 || long > 600 {
		t.Errorf("%d of 5000 prompts are long, want about 500", long)
	}
}

// Conversations rest between their requests, and their prompts go on with what was
// said before.
func TestConversationsGrow(t *testing.T) {
	const rest = time.Second
	rs := first(t, conversations(manyGroups, &Options{Rate: 80, Seed: 7, Rest: rest}), 4000)
	last := make(map[uint64]Request) // by the first block of a conversation's own
	grown := 0
	for _, r := range rs {
		own := r.Blocks[systemBlocks]
		if before, is := last[own]; is {
			if len(before.Blocks) >= len(r.Blocks) || !slices.Equal(before.Blocks, r.Blocks[:len(before.Blocks)]) {
				t.Fatalf("a prompt of %d blocks doesn't go on with that of %d before it", len(r.Blocks), len(before.Blocks))
			}
			if r.At-before.At < rest {
				t.Fatalf("a conversation's requests are %v apart, want %v", r.At-before.At, rest)
			}
			grown++
		}
		last[own] = r
	}
	if grown < len(rs)/2 {
		t.Errorf("%d of %d requests go on with a conversation, want more than half", grown, len(rs))
	}
}
