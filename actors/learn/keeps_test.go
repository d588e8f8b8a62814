package learn

import "testing"

// report is a prediction, as a test writes it, and whether it came true.
type report struct {
	hit      bool
	before   uint32 // the insert that used it last
	now      uint32
	distance int
}

// takeIn has k take in reports, and counts the restarts that it finds.
func takeIn(k *keeps, all ...report) (restarts int) {
	for _, r := range all {
		e := &expectation{before: r.before, now: r.now, distance: r.distance}
		if r.hit {
			k.hit(e)
		} else if k.miss(e) {
			restarts++
		}
	}
	return restarts
}

// row is n reports that are alike but for their inserts, which follow each other.
func row(n int, r report) (all []report) {
	for range n {
		all = append(all, r)
		r.before++
		r.now++
	}
	return all
}

// A restart is told by near predictions that all fail, and by nothing that was used
// before the newest of what was lost being there.
func TestKeepsRestart(t *testing.T) {
	near := report{before: 1000, now: 2000, distance: 500}
	for _, tc := range []struct {
		name string
		do   func(k *keeps) int
		want int
	}{
		{"eight", func(k *keeps) int { return takeIn(k, row(8, near)...) }, 1},
		{"seven", func(k *keeps) int { return takeIn(k, row(7, near)...) }, 0},
		{"far", func(k *keeps) int { return takeIn(k, row(50, report{before: 1000, now: 2000, distance: 5000})...) }, 0},
		{"not so near", func(k *keeps) int { return takeIn(k, row(50, report{before: 1000, now: 2000, distance: 3900})...) }, 0},
		{"what is older is there", func(k *keeps) int {
			return takeIn(k, row(7, near)...) + takeIn(k, report{true, 990, 2010, 800}) + takeIn(k, row(7, near)...)
		}, 0},
		{"and then not", func(k *keeps) int {
			return takeIn(k, row(7, near)...) + takeIn(k, report{true, 990, 2010, 800}) + takeIn(k, row(8, near)...)
		}, 1},
		{"what is newer is there", func(k *keeps) int {
			return takeIn(k, row(7, near)...) + takeIn(k, report{true, 1900, 2010, 100}) + takeIn(k, near)
		}, 1},
		{"what is older was there before", func(k *keeps) int {
			return takeIn(k, row(7, near)...) + takeIn(k, report{true, 990, 1999, 800}) + takeIn(k, near)
		}, 1},
		{"known to be lost", func(k *keeps) int { return takeIn(k, row(8, near)...) + takeIn(k, row(100, near)...) }, 1},
		{"again", func(k *keeps) int {
			return takeIn(k, row(8, near)...) + takeIn(k, row(8, report{before: 2100, now: 3000, distance: 500})...)
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &keeps{}
			takeIn(k, row(20, report{true, 1, 500, 4000})...)
			if got := tc.do(k); got != tc.want {
				t.Errorf("%d restarts, want %d", got, tc.want)
			}
		})
	}
	t.Run("nothing was ever kept", func(t *testing.T) {
		if got := takeIn(&keeps{}, row(100, near)...); got != 0 {
			t.Errorf("%d restarts, want none", got)
		}
	})
	t.Run("what is forgotten", func(t *testing.T) {
		k := &keeps{}
		takeIn(k, row(20, report{true, 1, 500, 4000})...)
		takeIn(k, row(8, near)...)
		if k.forgot != 1999 {
			t.Errorf("forgotten up to %d, want 1999: what was used before the first one failed", k.forgot)
		}
	})
}

// The size lies where predictions begin to fail, is forgotten when they come true
// there, and counts don't run over.
func TestKeepsSize(t *testing.T) {
	k := &keeps{}
	takeIn(k, row(30, report{true, 1, 500, 1000})...)
	takeIn(k, row(7, report{false, 1, 500, 3000})...)
	if k.size != 0 {
		t.Errorf("a size of %d after seven misses, want none", k.size)
	}
	takeIn(k, report{false, 1, 500, 3000})
	if k.size < 3000 || k.size > 3000*5/4 {
		t.Errorf("a size of %d, want 3000 or a little more: nothing is known of what lies between", k.size)
	}
	takeIn(k, row(20, report{false, 1, 500, 2000})...)
	if k.size < 2000 || k.size > 2000*5/4 {
		t.Errorf("a size of %d, want 2000 or a little more", k.size)
	}
	takeIn(k, row(20, report{true, 1, 500, 2600})...)
	if k.size < 3000 || k.size > 3000*5/4 {
		t.Errorf("a size of %d, want 3000 or a little more again: 2600 are kept", k.size)
	}
	takeIn(k, row(100_000, report{true, 1, 500, 1000})...)
	if k.size < 3000 || k.size > 3000*5/4 {
		t.Errorf("a size of %d, want 3000 or a little more still: what comes is nearer", k.size)
	}
	if n := k.hits[ageOf(1000)]; n > 2*ageHalves {
		t.Errorf("%d hits are remembered, want the latest", n)
	}
	takeIn(k, report{true, 1, 500, 3000})
	if k.size != 0 {
		t.Errorf("a size of %d, want none when 3000 are kept", k.size)
	}
	tiny := &keeps{}
	takeIn(tiny, row(50, report{false, 1, 500, 10})...)
	if tiny.size != sizeLeast {
		t.Errorf("a size of %d where nothing is kept, want the least, %d", tiny.size, sizeLeast)
	}
}
