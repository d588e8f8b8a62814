package policy

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// The values are written down because other routers, and this one before a
// restart, place by them.
func TestHashIsFixed(t *testing.T) {
	tests := map[string]uint64{
		"":                        0xefd01f60ba992926,
		"a":                       0x82a2a958a9bece5b,
		"http://10.0.0.1:8000":    0x8829ae9de4d53dc2,
		"http://10.0.0.1:8000@3":  0x91a442a6718ad001,
		"https://worker.test:443": 0xefb244a692420f4e,
	}
	for s, want := range tests {
		if got := Hash(s); got != want {
			t.Errorf("Hash(%q) = %#x, want %#x", s, got, want)
		}
		if got := hashOf([]byte(s)); got != want {
			t.Errorf("hash of the bytes of %q = %#x, want %#x", s, got, want)
		}
		plain := fnv.New64a()
		plain.Write([]byte(s))
		if got := mix(plain.Sum64()); got != want {
			t.Errorf("finalised FNV-1a of %q = %#x, want %#x", s, got, want)
		}
	}
}

// Changing one bit of a URL must change each bit of the hash half of the time.
func TestHashAvalanche(t *testing.T) {
	const samples = 4000
	draws := rand.New(rand.NewPCG(7, 8))
	var flips [64]int
	for range samples {
		s := []byte("http://10.0.0.1:8000")
		for i := range s {
			s[i] ^= byte(draws.UintN(256))
		}
		before := hashOf(s)
		s[draws.IntN(len(s))] ^= 1 << draws.IntN(8)
		changed := before ^ hashOf(s)
		for bit := range flips {
			flips[bit] += int(changed >> bit & 1)
		}
	}
	for bit, n := range flips {
		if share := float64(n) / samples; share < .46 || share > .54 {
			t.Errorf("bit %d flips in %.3f of cases, want about .5", bit, share)
		}
	}
}

// The score must rank any set of workers evenly: each first equally often, and
// the second independent of the first.
func TestAffinityIsFair(t *testing.T) {
	const keys = 60_000
	for _, workers := range []int{2, 3, 5, 8} {
		c := fleet(workers)
		wins := make([]int, workers)
		pairs := make([]int, workers*workers)
		for key := range uint64(keys) {
			first, second := -1, -1
			k := spread(key)
			for i := range c {
				score := affinity(k, c[i].Hash)
				switch {
				case first < 0 || score > affinity(k, c[first].Hash):
					first, second = i, first
				case second < 0 || score > affinity(k, c[second].Hash):
					second = i
				}
			}
			wins[first]++
			pairs[first*workers+second]++
		}
		for i, n := range wins {
			if ratio := float64(n) * float64(workers) / keys; ratio < .96 || ratio > 1.04 {
				t.Errorf("%d workers: worker %d is first %.3f times its share, want about 1", workers, i, ratio)
			}
		}
		for i, n := range pairs {
			if i/workers == i%workers {
				continue
			}
			if ratio := float64(n) * float64(workers*(workers-1)) / keys; ratio < .85 || ratio > 1.15 {
				t.Errorf("%d workers: %d then %d is %.3f times its share, want about 1", workers, i/workers, i%workers, ratio)
			}
		}
	}
}

func TestDrawsAreUniform(t *testing.T) {
	const draws, n = 70_000, 7
	r := rng{state: 1}
	var got [n]int
	for range draws {
		got[r.below(n)]++
	}
	for i, k := range got {
		if k < draws/n*95/100 || k > draws/n*105/100 {
			t.Errorf("%d was drawn %d times, want about %d", i, k, draws/n)
		}
	}
}

// Equal hashes must not bring the order of candidates back in.
func TestEqualHashesGoByURL(t *testing.T) {
	c := fleet(3)
	for i := range c {
		c[i].Hash = 42
	}
	c[0], c[1] = c[1], c[0]
	for key := range uint64(20) {
		for name, got := range map[string]int{"closest": closest(key, c), "leastLoaded": leastLoaded(key, 0, c)} {
			if got != 1 {
				t.Errorf("%s(%d) = %s, want the lowest URL %s", name, key, c[got].URL, c[1].URL)
			}
		}
	}
}
