package prefixtree

import (
	"math/bits"
	"testing"
)

// FuzzTree does what the input says to a tree and to the obvious slow one and
// compares them after each step, for several limits and with keys that share
// prefixes of many lengths.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 0, 0x12, 3, 0x34, 0, 0x12, 3, 0x35, 9, 0x12, 3, 0x34})
	f.Add([]byte{0xff, 1, 0x9a, 2, 0x9b, 3, 0x4c, 5, 200, 0x11, 0x22, 7, 0x33, 0x44})
	seed := make([]byte, 4096)
	x := uint64(1)
	for i := range seed {
		x = x*6364136223846793005 + 1442695040888963407
		seed[i] = byte(x >> 56)
	}
	for how := range 64 {
		f.Add(append([]byte{byte(how)}, seed[how*60:][:150]...))
		f.Add(append([]byte{byte(how + 64)}, seed[how*60:][:150]...))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 1024 {
			return
		}
		newTrial(t, script).run()
	})
}

// trial is one run of a script against both trees.
type trial struct {
	t      *testing.T
	in     []byte
	fast   *Tree
	slow   slowTree
	told   map[uint32]map[uint64]bool // all blocks a worker was told to hold since it was forgotten
	lost   bool                       // something was evicted or cut short
	spread uint32                     // workers are multiples of this
	first  uint32                     // stamp of the slow tree's insert 0
}

func newTrial(t *testing.T, script []byte) *trial {
	tr := &trial{t: t, in: script, told: map[uint32]map[uint64]bool{}}
	how := tr.byte()
	cells := []int{0, 1, 2, 20, 100, 1000, 3000, 40_000}[how&7]
	tr.spread = []uint32{1, 3, 64, 61}[how>>3&3]
	tr.fast = newTree(cells)
	if how&32 != 0 {
		tr.fast.now -= 100 // wraps under way
	}
	tr.first = tr.fast.now
	if how&64 != 0 {
		tr.fast.TrackAges()
	}
	return tr
}

func (tr *trial) byte() byte {
	if len(tr.in) == 0 {
		return 0
	}
	b := tr.in[0]
	tr.in = tr.in[1:]
	return b
}

// key makes a key of one to four runs of blocks. Runs that start with the
// same choices make the same blocks.
func (tr *trial) key() []uint64 {
	var key []uint64
	h := uint64(0x9e3779b97f4a7c15)
	for n := tr.byte()%4 + 1; n > 0; n-- {
		b := tr.byte()
		length := []int{1, 2, 3, 4, 5, 14, 15, 17, 18, 33, 47, 100, 255, 1023, 1024, 1500}[b>>4]
		h += uint64(b & 3)
		for range length {
			hi, lo := bits.Mul64(h^0xd6e8feb86659fd93, 0xa0761d6478bd642f)
			h = hi ^ lo
			key = append(key, h)
		}
	}
	return key
}

func (tr *trial) worker() uint32 { return uint32(tr.byte()%64) * tr.spread }

func (tr *trial) run() {
	for len(tr.in) > 0 {
		switch op := tr.byte(); {
		case op < 160:
			tr.insert(tr.key(), tr.worker())
		case op < 180: // the same key at many workers
			key, n := tr.key(), tr.byte()%64
			for w := range n {
				tr.insert(key, uint32(w)*tr.spread)
			}
		case op < 220:
			tr.match(tr.key())
		case op < 240:
			tr.forget(tr.worker(), int(tr.byte()%16))
		case op < 245:
			tr.forgetUntil(tr.worker(), uint64(tr.byte()), int(tr.byte()%16))
		case op < 250 && tr.fast.tracks:
			tr.shrink(tr.worker(), int(tr.byte())*8, int(tr.byte()%16))
		default:
			tr.forget(tr.worker(), 1<<20)
		}
		sameHoldings(tr.t, check(tr.t, tr.fast), tr.slow.holdings())
	}
}

func (tr *trial) insert(key []uint64, worker uint32) {
	room, holders := tr.fast.room, tr.fast.entries
	blocks, before, distance := tr.slow.reuse(key, worker)
	tr.fast.now++
	r, known := tr.fast.learn(key, uint16(worker))
	if r.Blocks != blocks || blocks > 0 && r.Before != tr.stamp(before) || r.Now != tr.fast.now {
		tr.t.Fatalf("reuse %+v, want %d blocks used last at %d, and now %d", r, blocks, tr.stamp(before), tr.fast.now)
	}
	if tr.fast.tracks && blocks > 0 && 2*r.Distance+1 < distance || blocks == 0 && r.Distance != 0 {
		tr.t.Fatalf("reuse %+v, want a distance of at least half of %d", r, distance)
	}
	if known < len(key) {
		tr.lost = true
		if enough := workerCells + len(key)/lineHashes + (addCells+1)*(len(key)+1) + splitCells + 3*holders; room >= enough {
			tr.t.Fatalf("kept %d of %d blocks with %d cells free", known, len(key), room)
		}
	}
	tr.slow.insert(key[:known], worker)
	if tr.told[worker] == nil {
		tr.told[worker] = map[uint64]bool{}
	}
	for _, h := range key {
		tr.told[worker][h] = true
	}
	tr.matches(key)

	evicted := tr.fast.evicted
	tr.fast.trim()
	gone := int(tr.fast.evicted - evicted)
	if gone > 0 {
		tr.lost = true
		tr.slow.evict(gone, func(uint32) bool { return true })
	}
	if gone > evictSteps || gone < evictSteps && tr.fast.room < tr.fast.reserve && tr.fast.entries > 0 {
		tr.t.Fatalf("evicted %d entries, %d cells free of %d to keep", gone, tr.fast.room, tr.fast.reserve)
	}
}

func (tr *trial) match(key []uint64) { tr.matches(key) }

// matches compares what the two trees say about a key, and both with what
// the workers were told.
func (tr *trial) matches(key []uint64) {
	got := hitMap(tr.t, tr.fast.Match(key, nil))
	want := tr.slow.match(key)
	for w, n := range got {
		if want[w] != n {
			tr.t.Fatalf("match says %d blocks at worker %d, want %d", n, w, want[w])
		}
	}
	for w, n := range want {
		if got[w] != n {
			tr.t.Fatalf("match says %d blocks at worker %d, want %d", got[w], w, n)
		}
	}
	for w, told := range tr.told {
		n := 0
		for n < len(key) && told[key[n]] {
			n++
		}
		if got[w] > n || got[w] < n && !tr.lost {
			tr.t.Fatalf("match says %d blocks at worker %d that was told %d", got[w], w, n)
		}
	}
}

func (tr *trial) forget(worker uint32, steps int) {
	before := tr.fast.entries
	done := tr.fast.Forget(worker, steps)
	if gone := before - tr.fast.entries; gone > steps {
		tr.t.Fatalf("forgot %d entries in %d steps", gone, steps)
	}
	tr.slow.evict(steps, func(w uint32) bool { return w == worker })
	left := false
	for _, e := range tr.slow.all() {
		left = left || e.worker == worker
	}
	if done == left {
		tr.t.Fatalf("Forget(%d, %d) = %v, entries left: %v", worker, steps, done, left)
	}
	if done {
		delete(tr.told, worker)
	} else {
		tr.lost = true
	}
}

// stamp is that of an insert which the slow tree numbers.
func (tr *trial) stamp(insert uint64) uint32 { return tr.first + uint32(insert) }

func (tr *trial) forgetUntil(worker uint32, ago uint64, steps int) {
	until := tr.slow.now - min(ago, tr.slow.now)
	done := tr.fast.ForgetUntil(worker, tr.stamp(until), steps)
	tr.dropped(worker, steps, done, func(e slowEntry, _ int) bool { return e.node.touched[worker] <= until })
}

func (tr *trial) shrink(worker uint32, blocks, steps int) {
	done := tr.fast.Shrink(worker, blocks, steps)
	tr.dropped(worker, steps, done, func(e slowEntry, held int) bool { return held-len(e.node.blocks) >= blocks })
}

// dropped drops entries of the slow tree as the other one should have.
func (tr *trial) dropped(worker uint32, steps int, done bool, goes func(e slowEntry, held int) bool) {
	for {
		e, held := tr.slow.oldest(worker)
		over := e.node == nil || !goes(e, held)
		if steps == 0 || over {
			if done != over {
				tr.t.Fatalf("dropped what is to go of worker %d: %v, want %v", worker, done, over)
			}
			return
		}
		tr.slow.evict(1, func(w uint32) bool { return w == worker })
		tr.lost = true
		steps--
	}
}

func hitMap(t *testing.T, hits []Hit) map[uint32]int {
	t.Helper()
	m := map[uint32]int{}
	for _, h := range hits {
		if _, ok := m[h.Worker]; ok || h.Blocks == 0 {
			t.Fatalf("worker %d has two hits or one of %d blocks in %v", h.Worker, h.Blocks, hits)
		}
		m[h.Worker] = int(h.Blocks)
	}
	return m
}

// Keys that break the chain, as colliding hashes do, may get wrong answers
// but leave the tree whole.
func FuzzUnchained(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("\x00a\x00a\x01a\x00b\x00a\x00\x00\x03ababbababbbabababab"))
	f.Fuzz(func(t *testing.T, script []byte) {
		tree := newTree(600)
		for len(script) > 3 {
			n := min(int(script[1])%60+1, len(script)-2)
			key := make([]uint64, n)
			for i, b := range script[2 : 2+n] {
				key[i] = uint64(b % 3)
			}
			switch w := uint32(script[0] % 5); script[0] >> 6 {
			case 0:
				tree.Forget(w, int(script[1]%4))
			case 1:
				tree.Match(key, nil)
			default:
				tree.Insert(key, w)
			}
			check(t, tree)
			script = script[1+n/3:]
		}
	})
}
