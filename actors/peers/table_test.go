package peers

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
)

const ms = int64(time.Millisecond)

// said is a message about all shards.
func said(name string, incarnation, sequence uint64, sent int64, all ...actors.Elsewhere) *figures {
	return &figures{head{name, incarnation, sequence, sent}, ^uint64(0), all}
}

// summed is what a table adds up to, as text.
func summed(t *testing.T, tb *table) string {
	t.Helper()
	all, crowded := tb.sums()
	var text []string
	for _, e := range all {
		text = append(text, fmt.Sprintf("%s=%d/%d/%d", e.URL, e.N, e.Pending, e.Decode))
	}
	slices.Sort(text)
	if crowded > 0 {
		text = append(text, fmt.Sprint("crowded ", crowded))
	}
	return strings.Join(text, " ")
}

func newTable(workers int) *table {
	return &table{own: head{name: "own", incarnation: 5}, workers: workers}
}

// What counts of what is heard, in the order of a table of steps. Times are in
// milliseconds, and the others' clocks are 1000 ahead.
func TestTable(t *testing.T) {
	a := func(n int) actors.Elsewhere { return actors.Elsewhere{URL: "a", N: n, Pending: 10 * n, Decode: 1} }
	b := func(n int) actors.Elsewhere { return actors.Elsewhere{URL: "b", N: n} }
	type step struct {
		at   int64 // ms
		say  *figures
		want Drop
		sums string // afterwards
		gone string // who falls silent at this time
	}
	only := func(m *figures, urls ...string) *figures {
		m.shards = 0
		for _, u := range urls {
			m.shards |= 1 << shardOf(u)
		}
		return m
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"the last word counts", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1), b(2)), sums: "a=1/10/1 b=2/0/0"},
			{at: 100, say: said("x", 1, 2, 1100, a(3)), sums: "a=3/30/1"},
			{at: 200, say: said("x", 1, 3, 1200), sums: ""},
		}},
		{"routers add up", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1)), sums: "a=1/10/1"},
			{at: 0, say: said("y", 1, 1, 1000, a(2), b(1)), sums: "a=3/30/2 b=1/0/0"},
			{at: 100, say: said("x", 1, 2, 1100), sums: "a=2/20/1 b=1/0/0"},
		}},
		{"overtaken and repeated", []step{
			{at: 0, say: said("x", 1, 5, 1000, a(5)), sums: "a=5/50/1"},
			{at: 10, say: said("x", 1, 4, 990, a(4)), want: Stale, sums: "a=5/50/1"},
			{at: 20, say: said("x", 1, 5, 1000, a(5)), want: Stale, sums: "a=5/50/1"},
			{at: 30, say: said("x", 1, 6, 1030, a(6)), sums: "a=6/60/1"},
		}},
		{"a shard each", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1), b(1)), sums: "a=1/10/1 b=1/0/0"},
			{at: 10, say: only(said("x", 1, 3, 1010, a(3)), "a"), sums: "a=3/30/1 b=1/0/0"},
			{at: 20, say: said("x", 1, 2, 1005, a(2), b(2)), sums: "a=3/30/1 b=2/0/0"},
			{at: 30, say: only(said("x", 1, 4, 1030), "b"), sums: "a=3/30/1"},
		}},
		{"about nothing", []step{
			{at: 0, say: only(said("x", 1, 1, 1000)), want: Stale},
		}},
		{"silence", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1)), sums: "a=1/10/1"},
			{at: 500, say: said("y", 1, 1, 1500, a(2)), sums: "a=3/30/2"},
			{at: 900, sums: "a=3/30/2"},
			{at: 901, sums: "a=2/20/1", gone: "x"},
			{at: 1401, sums: "", gone: "y"},
			{at: 1500, say: said("x", 1, 2, 2500, a(7)), sums: "a=7/70/1"},
		}},
		{"a shard that is not heard of any more", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1), b(1)), sums: "a=1/10/1 b=1/0/0"},
			{at: 500, say: only(said("x", 1, 2, 1500, b(2)), "b"), sums: "a=1/10/1 b=2/0/0"},
			{at: 901, sums: "b=2/0/0"},
		}},
		{"a straggler behind a silence", []step{
			{at: 0, say: only(said("x", 1, 3, 1000, a(1)), "a"), sums: "a=1/10/1"},
			{at: 1000, gone: "x"},
			{at: 1100, say: said("x", 1, 2, 990, b(1)), want: Stale, sums: ""},
			{at: 1200, say: said("x", 1, 4, 2200, b(2)), sums: "b=2/0/0"},
		}},
		{"a new incarnation", []step{
			{at: 0, say: said("x", 1, 9, 1000, a(1), b(1)), sums: "a=1/10/1 b=1/0/0"},
			{at: 100, say: only(said("x", 2, 1, 3, a(2)), "a"), sums: "a=2/20/1"},
			{at: 200, say: said("x", 1, 10, 1200, a(1), b(1)), want: Stale, sums: "a=2/20/1"},
		}},
		{"an old incarnation behind a silence", []step{
			{at: 0, say: said("x", 2, 1, 1000, a(1)), sums: "a=1/10/1"},
			{at: 1000, gone: "x"},
			{at: 2000, say: said("x", 1, 9, 3000, a(9)), want: Stale, sums: ""},
		}},
		{"late", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1)), sums: "a=1/10/1"},
			{at: 800, say: said("x", 1, 2, 1800, a(2)), sums: "a=2/20/1"},
			{at: 1600, say: said("x", 1, 3, 1600, a(3)), want: Late, sums: "a=2/20/1"},
			{at: 1800, say: said("x", 1, 4, 1800, a(4)), want: Late, sums: "", gone: "x"},
			{at: 2500, say: said("x", 1, 5, 2500, a(5)), want: Late, sums: ""},
			{at: 2600, say: said("x", 1, 6, 3500, a(6)), sums: "a=6/60/1"},
		}},
		{"a clock that was suspended", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1)), sums: "a=1/10/1"},
			{at: 5000, gone: "x"},
			{at: 5010, say: said("x", 1, 2, 1010, a(2)), sums: "a=2/20/1"},
		}},
		{"this router's own name", []step{
			{at: 0, say: said("own", 5, 1, 0, a(1)), sums: ""},
			{at: 0, say: said("own", 6, 1, 0, a(1)), want: Namesake, sums: ""},
			{at: 0, say: said("own", 4, 1, 0, a(1)), want: Namesake, sums: ""},
		}},
		{"more workers than there may be", []step{
			{at: 0, say: said("x", 1, 1, 1000, a(1), b(1)), sums: "a=1/10/1 b=1/0/0"},
			{at: 10, say: said("y", 1, 1, 1000, a(1), actors.Elsewhere{URL: "c", N: 1}, actors.Elsewhere{URL: "d", N: 1}, actors.Elsewhere{URL: "e", N: 1}), want: Crowded, sums: "a=1/10/1 b=1/0/0"},
			{at: 20, say: said("y", 1, 2, 1010, actors.Elsewhere{URL: "c", N: 1}, actors.Elsewhere{URL: "d", N: 1}), sums: "a=1/10/1 b=1/0/0 d=1/0/0 crowded 1"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tb := newTable(3)
			for i, s := range tc.steps {
				gone := ""
				tb.expire(s.at*ms, func(p *peer) { gone += p.name })
				if s.say != nil {
					s.say.sent *= ms
					if got := tb.hear(s.say, s.at*ms); got != s.want {
						t.Errorf("step %d: %q, want %q", i, got, s.want)
					}
				}
				if got := summed(t, tb); got != s.sums {
					t.Errorf("step %d: sums %q, want %q", i, got, s.sums)
				}
				if gone != s.gone {
					t.Errorf("step %d: gone %q, want %q", i, gone, s.gone)
				}
			}
		})
	}
}

// One message that is not true of its sender's clock, number or incarnation silences it
// for a while and no longer.
func TestOneWrongMessage(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wrong *figures
	}{
		{"clock", said("x", 1, 12, 1e18)},
		{"number", said("x", 1, math.MaxUint64, 11*int64(fullEvery))},
		{"incarnation", said("x", math.MaxUint64, 1, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tb := newTable(3)
			back := time.Duration(0)
			for i := int64(1); i < 100; i++ {
				now := i * int64(fullEvery)
				tb.expire(now, func(*peer) {})
				if i == 11 {
					tb.hear(tc.wrong, now)
				}
				counts := tb.hear(said("x", 1, uint64(i), now), now) == notDropped
				switch {
				case i < 11 && !counts:
					t.Fatalf("message %d doesn't count, want it to", i)
				case i > 11 && counts && back == 0:
					back = time.Duration(now - 11*int64(fullEvery))
				case back > 0 && !counts:
					t.Errorf("message %d counts no more", i)
				}
			}
			if most := memory + fullEvery; back == 0 || back > most {
				t.Errorf("it counts again after %v, want at most %v", back, most)
			}
		})
	}
}

// A clock that runs a little slower than this router's doesn't make what is said late.
func TestSlowClock(t *testing.T) {
	tb := newTable(3)
	for now := int64(0); now < int64(30*time.Minute); now += int64(fullEvery) {
		sent := now - now/200
		if d := tb.hear(said("x", 1, uint64(now+1), sent), now); d != notDropped {
			t.Fatalf("after %v a message is %v", time.Duration(now), d)
		}
	}
}

// However many routers speak, 64 of them count, and few more are remembered.
func TestTableIsBounded(t *testing.T) {
	tb := newTable(10)
	nobody := func(*peer) {}
	for round := range int64(5) {
		now := round * 2000 * ms
		tb.expire(now, nobody)
		taken := 0
		for i := range 3 * MaxPeers {
			if tb.hear(said(fmt.Sprintf("x%d-%d", round, i), 1, 1, now, actors.Elsewhere{URL: "a", N: 1}), now) == notDropped {
				taken++
			}
		}
		if taken != MaxPeers || len(tb.peers) > remembered {
			t.Errorf("round %d: %d counted and %d known, want %d and at most %d", round, taken, len(tb.peers), MaxPeers, remembered)
		}
		if got, want := summed(t, tb), fmt.Sprintf("a=%d/0/0", MaxPeers); got != want {
			t.Errorf("round %d: sums %q, want %q", round, got, want)
		}
	}
	now := 8000*ms + int64(memory) + 1
	tb.expire(now, nobody)
	tb.expire(now, nobody)
	if len(tb.peers) != 0 {
		t.Errorf("%d routers known long after the last word, want 0", len(tb.peers))
	}
}
