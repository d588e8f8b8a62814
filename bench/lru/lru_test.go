package lru

import (
	"slices"
	"testing"
)

func TestCache(t *testing.T) {
	tests := []struct {
		name  string
		limit int
		adds  [][]uint64
		ask   []uint64
		want  int
	}{
		{"empty", 4, nil, []uint64{1}, 0},
		{"whole", 4, [][]uint64{{1, 2}}, []uint64{1, 2}, 2},
		{"longer question", 4, [][]uint64{{1, 2}}, []uint64{1, 2, 3}, 2},
		{"common start", 4, [][]uint64{{1, 2}}, []uint64{1, 3}, 1},
		{"a hole ends the match", 4, [][]uint64{{1}, {3}}, []uint64{1, 2, 3}, 1},
		{"the end is evicted before the start", 3, [][]uint64{{1, 2, 3}, {4}}, []uint64{1, 2, 3}, 2},
		{"oldest chain is evicted first", 3, [][]uint64{{1}, {2}, {3}, {4}}, []uint64{1}, 0},
		{"use keeps a chain", 3, [][]uint64{{1}, {2}, {3}, {1}, {4}}, []uint64{1}, 1},
		{"a chain above the limit keeps its start", 2, [][]uint64{{1, 2, 3}}, []uint64{1, 2, 3}, 2},
		{"no cache", 0, [][]uint64{{1}}, []uint64{1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(tt.limit)
			for _, chain := range tt.adds {
				c.Add(chain)
			}
			if got := c.Match(tt.ask); got != tt.want {
				t.Errorf("match(%v) = %d, want %d", tt.ask, got, tt.want)
			}
		})
	}
}

// slowCache is the same as a list of keys, newest first.
type slowCache struct {
	limit int
	keys  []uint64
}

func (c *slowCache) Add(chain []uint64) {
	for _, key := range slices.Backward(chain[:min(len(chain), c.limit)]) {
		c.keys = slices.DeleteFunc(c.keys, func(k uint64) bool { return k == key })
		c.keys = slices.Insert(c.keys, 0, key)
		c.keys = c.keys[:min(len(c.keys), c.limit)]
	}
}

func (c *slowCache) Match(chain []uint64) int {
	n := 0
	for n < len(chain) && slices.Contains(c.keys, chain[n]) {
		n++
	}
	c.Add(chain[:n])
	return n
}

// What was hit last is evicted last, also when nothing was added.
func TestCacheHitsCountAsUse(t *testing.T) {
	c := New(2)
	c.Add([]uint64{1})
	c.Add([]uint64{2})
	c.Match([]uint64{1})
	c.Add([]uint64{3})
	if got := c.Match([]uint64{1}); got != 1 {
		t.Errorf("the block that was hit is gone, the one that wasn't has stayed: match = %d, want 1", got)
	}
}

func FuzzCache(f *testing.F) {
	f.Add(uint8(3), []byte{1, 2, 3, 0, 1, 2, 0, 9, 8, 7, 6, 0, 1})
	f.Add(uint8(0), []byte{1, 2})
	f.Add(uint8(1), []byte{1, 2, 0, 255, 2, 2, 0})
	f.Add(uint8(4), []byte{0, 1, 2, 3, 4, 255, 0, 0, 0, 0, 0, 5, 6, 7, 8, 1, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, limit uint8, script []byte) {
		fast, slow := New(int(limit%16)), &slowCache{limit: int(limit % 16)}
		script = script[:min(len(script), 400)] // more of the same teaches nothing
		for part := range slices.Chunk(script, 5) {
			if part[0] == 255 {
				fast.Clear()
				slow.keys = nil
				continue
			}
			var chain []uint64
			for _, b := range part[1:] {
				if key := uint64(b % 32); !slices.Contains(chain, key) {
					chain = append(chain, key)
				}
			}
			if part[0]%2 == 0 {
				fast.Add(chain)
				slow.Add(chain)
			} else if got, want := fast.Match(chain), slow.Match(chain); got != want {
				t.Fatalf("match(%v) = %d, want %d", chain, got, want)
			}
			if got, want := fast.Keys(), slow.keys; !slices.Equal(got, want) || fast.Len() != len(want) {
				t.Fatalf("the cache holds %v (len %d), want %v", got, fast.Len(), want)
			}
		}
	})
}
