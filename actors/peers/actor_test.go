package peers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loadstar/actors"
)

// Four routers hear of each other's requests, soon, and of their end; what one runs is
// never told to itself.
func TestRoutersHearEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		var all []*router
		for i := range 4 {
			r := join(t, b, fmt.Sprint("r", i), 1)
			r.fleet.run(at("a", 1), at(fmt.Sprint("w", i), 2))
			all = append(all, r)
		}
		after(2 * idleEvery)
		wantHears(t, all[0], "[a=3/30 w1=2/20 w2=2/20 w3=2/20]")
		wantHears(t, all[3], "[a=3/30 w0=2/20 w1=2/20 w2=2/20]")
		all[1].fleet.run(at("a", 5))
		after(2 * idleEvery)
		wantHears(t, all[0], "[a=7/70 w2=2/20 w3=2/20]")
		wantHears(t, all[1], "[a=3/30 w0=2/20 w2=2/20 w3=2/20]")
		after(time.Minute) // nothing changes, and all counts on
		wantHears(t, all[0], "[a=7/70 w2=2/20 w3=2/20]")
		all[1].Close()
		after(idleEvery)
		wantHears(t, all[0], "[a=2/20 w2=2/20 w3=2/20]")
		wantHears(t, all[1], "[]")
		v, ok := all[0].View()
		if !ok || len(v.Peers) != 3 || v.Link.Server != "bus" || v.Name != "r0" || v.Staleness() > fullEvery+2*idleEvery {
			t.Errorf("view %+v, %v", v, ok)
		}
		for _, d := range Drops() {
			if v.Dropped[d] > 0 {
				t.Errorf("%d dropped as %v, want 0", v.Dropped[d], d)
			}
		}
		if n := all[0].told(PeerCame); n != 3 {
			t.Errorf("%d routers have come, want 3", n)
		}
		if _, ok := all[1].View(); ok {
			t.Error("a router that was closed has a view")
		}
		all[1].Close() // again
	})
}

// A router that dies without a word is forgotten within a second, whole.
func TestDeadRouterLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, dying := join(t, b, "r", 1), join(t, b, "dying", 1)
		dying.fleet.run(at("a", 9), at("b", 1))
		after(time.Second)
		wantHears(t, r, "[a=9/90 b=1/10]")
		dying.link.cut()
		after(600 * time.Millisecond)
		wantHears(t, r, "[a=9/90 b=1/10]")
		after(400 * time.Millisecond)
		wantHears(t, r, "[]")
		if v, _ := r.View(); len(v.Peers) != 0 || r.told(PeerGone) != 1 {
			t.Errorf("%d routers known and %d gone, want 0 and 1", len(v.Peers), r.told(PeerGone))
		}
	})
}

// A router that was started again under its name takes the place of what was there
// before, at once.
func TestRestartedRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, before := join(t, b, "r", 1), join(t, b, "again", 1)
		before.fleet.run(at("a", 9), at("b", 1))
		after(time.Second)
		before.link.cut()
		join(t, b, "again", 2).fleet.run(at("a", 1))
		after(3 * idleEvery)
		wantHears(t, r, "[a=1/10]")
		after(time.Minute)
		wantHears(t, r, "[a=1/10]")
	})
}

// Without a connection a router goes on alone, and says so once; with one again it
// hears and is heard.
func TestConnectionLostAndFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, other := join(t, b, "r", 1), join(t, b, "other", 1)
		r.fleet.run(at("a", 1))
		other.fleet.run(at("b", 2))
		after(time.Second)
		r.link.drop()
		after(time.Second)
		wantHears(t, r, "[]")
		wantHears(t, other, "[]")
		if v, _ := r.View(); v.Link.Up || v.Link.Err == nil || v.Dropped[Unsent] > 0 {
			t.Errorf("link %+v and %d unsent, want it down and nothing tried", v.Link, v.Dropped[Unsent])
		}
		after(time.Minute)
		r.link.restore()
		after(fullEvery + 2*idleEvery)
		wantHears(t, r, "[b=2/20]")
		wantHears(t, other, "[a=1/10]")
		if r.told(LinkLost) != 1 || r.told(LinkUp) != 2 {
			t.Errorf("lost %d and found %d, want 1 and 2", r.told(LinkLost), r.told(LinkUp))
		}
	})
}

// Two routers of one name don't hear each other, and each says so once.
func TestNamesakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, other := join(t, b, "r", 1), join(t, b, "r", 2)
		other.fleet.run(at("a", 1))
		after(10 * time.Second)
		wantHears(t, r, "[]")
		if r.told(NamesakeHeard) != 1 || other.told(NamesakeHeard) != 1 {
			t.Errorf("said %d and %d times, want once each", r.told(NamesakeHeard), other.told(NamesakeHeard))
		}
	})
}

// Where the registry doesn't take what others run, none of it counts.
func TestForeignRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, other := join(t, b, "r", 1), join(t, b, "other", 1)
		other.fleet.run(at("a", 1))
		after(time.Second)
		r.fleet.mu.Lock()
		r.fleet.err = errors.New("no")
		r.fleet.mu.Unlock()
		for n := range 5 {
			other.fleet.run(at("a", 2+n))
			after(time.Second)
		}
		wantHears(t, r, "[]")
		if r.told(ForeignRefused) != 1 {
			t.Errorf("said %d times, want once", r.told(ForeignRefused))
		}
	})
}

// What can't be read is counted and does no harm.
func TestNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r := join(t, b, "r", 1)
		noise := [][]byte{nil, []byte("hello"), make([]byte, MaxMessage+1), messageOf(head{name: "x"})[:20]}
		for _, m := range noise {
			r.Hear(Figures, m)
			r.Hear(Placed, m)
		}
		r.Hear(NumKinds, nil)
		r.Lost(3)
		after(idleEvery)
		v, _ := r.View()
		if want := uint64(2*len(noise) + 1); v.Dropped[Unreadable] != want || v.Dropped[Slow] != 3 {
			t.Errorf("%d unreadable and %d lost, want %d and 3", v.Dropped[Unreadable], v.Dropped[Slow], want)
		}
		wantHears(t, r, "[]")
	})
}

// What a router has placed is a hint to the others, once, and not to itself.
func TestPlacedBecomesHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		r, other := join(t, b, "r", 1), join(t, b, "other", 1)
		after(time.Second)
		want := placements(20)
		r.fleet.mu.Lock()
		r.fleet.places = placements(20)
		r.fleet.mu.Unlock()
		after(2 * gatherEvery)
		if len(r.fleet.hinted) != 0 || len(other.fleet.hinted) != len(want) {
			t.Fatalf("%d and %d hints, want 0 and %d", len(r.fleet.hinted), len(other.fleet.hinted), len(want))
		}
		for _, p := range want {
			found := false
			for _, h := range other.fleet.hinted {
				found = found || reflect.DeepEqual(h, p)
			}
			if !found {
				t.Errorf("%v did not get there", p)
			}
		}
		other.fleet.full = true
		r.fleet.mu.Lock()
		r.fleet.places = placements(5)
		r.fleet.mu.Unlock()
		after(2 * gatherEvery)
		if v, _ := other.View(); v.In[Placed] != 2 || v.Dropped[Surplus] != 5 {
			t.Errorf("%d messages and %d prompts dropped, want 2 and 5", v.In[Placed], v.Dropped[Surplus])
		}
	})
}

// Of a flood of prompts no more reach the tree than its budget has.
func TestFloodOfHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := join(t, newBus(), "r", 1)
		const each, sent = maxExpanded / actors.MaxPlacementBlocks, 12
		var all []actors.Placement
		for i := range each {
			all = append(all, actors.Placement{Worker: fmt.Sprint("w", i), Key: make([]uint64, actors.MaxPlacementBlocks)})
		}
		for range sent {
			writePlaced(slices.Clone(all), func() head { return head{name: "x", sequence: 1} }, func(b []byte) { r.Hear(Placed, b) })
		}
		synctest.Wait()
		want := maxHintBlocks / maxExpanded * each
		if v, _ := r.View(); len(r.fleet.hinted) != want || v.In[Placed] != sent || int(v.Dropped[Surplus]) != sent*each-want {
			t.Errorf("%d hints of %d messages, and %d dropped; want %d of %d and %d", len(r.fleet.hinted), v.In[Placed], v.Dropped[Surplus], want, sent, sent*each-want)
		}
	})
}

// Hints are bounded by the blocks that they bring in a second.
func TestHintBudget(t *testing.T) {
	b := hintBudget{left: maxHintBlocks}
	spent := func(until time.Duration) int {
		n := 0
		for n <= 2*maxHintBlocks && b.spend(1024, int64(until)) {
			n += 1024
		}
		return n
	}
	for _, tc := range []struct {
		at   time.Duration
		want int
	}{{0, maxHintBlocks}, {0, 0}, {time.Second / 4, maxHintBlocks / 4}, {time.Hour, maxHintBlocks}} {
		if got := spent(tc.at); got != tc.want {
			t.Errorf("at %v: %d blocks, want %d", tc.at, got, tc.want)
		}
	}
}

// Many workers are told of in several messages, of which each is within bounds, and
// changes in few.
func TestManyWorkers(t *testing.T) {
	tl := teller{head: head{name: "r", incarnation: 1}, full: -int64(fullEvery)}
	tb := table{own: head{name: "own"}, workers: 8192}
	var all []actors.Elsewhere
	for i := range 8000 {
		all = append(all, actors.Elsewhere{URL: fmt.Sprintf("http://worker-%d.of.a.large.fleet:8000/with/a/path@%d", i, i%8), N: i % 50, Pending: i})
	}
	tell := func(now int64) int {
		t.Helper()
		messages, oversized := tl.write(all, now)
		for _, m := range messages {
			f, err := parseFigures(m)
			if err != nil || len(m) > MaxMessage {
				t.Fatalf("a message of %d bytes: %v", len(m), err)
			}
			if d := tb.hear(&f, now); d != notDropped {
				t.Fatalf("dropped as %v", d)
			}
		}
		sums, crowded := tb.sums()
		got := map[string]actors.Elsewhere{}
		for _, e := range sums {
			got[e.URL] = e
		}
		if len(got) != len(all) || crowded > 0 || oversized > 0 {
			t.Fatalf("%d workers heard of, %d too many, %d left out; want %d", len(got), crowded, oversized, len(all))
		}
		for _, e := range all {
			if got[e.URL] != e {
				t.Fatalf("%+v was heard as %+v", e, got[e.URL])
			}
		}
		return len(messages)
	}
	if n := tell(0); n < 8 {
		t.Errorf("everything in %d messages, want some more", n)
	}
	all[17].N++
	if n := tell(10 * ms); n != 1 {
		t.Errorf("a change in %d messages, want 1", n)
	}
	if n := tell(20 * ms); n != 0 {
		t.Errorf("no change in %d messages, want 0", n)
	}
	if n := tell(int64(fullEvery)); n < 8 {
		t.Errorf("everything again in %d messages, want some more", n)
	}
	if _, oversized := tl.write([]actors.Elsewhere{{URL: string(make([]byte, maxURL+1)), N: 1}}, 3*int64(fullEvery)); oversized != 1 {
		t.Errorf("%d left out, want 1", oversized)
	}
}

// Under loss, repetition, delay and reordering, what a router hears of another is
// something that was so a moment ago, and once the network is well again it is the
// truth.
func TestChaos(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}
