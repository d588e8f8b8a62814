package peers

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// chaos has three routers tell each other of one worker each through a bad network.
func chaos(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	b := &bus{random: rand.New(rand.NewPCG(seed, 4)), loss: 0.3, twice: 0.3, delay: 150 * time.Millisecond}
	type value struct {
		n     int
		until time.Time
	}
	var all []*router
	history := make([][]value, 3) // what each has run, oldest first
	now := make([]int, 3)
	for i := range 3 {
		all = append(all, join(t, b, fmt.Sprint("r", i), 1))
	}
	// What is heard is at most as old as this: silence, the delay and some ticks.
	const oldest = silence + 150*time.Millisecond + 4*idleEvery
	for range 600 {
		i := random.IntN(3)
		history[i] = append(history[i], value{now[i], time.Now()})
		now[i] = random.IntN(50)
		all[i].fleet.run(at(fmt.Sprint("w", i), now[i]))
		after(time.Duration(random.IntN(40)) * time.Millisecond)
		for to, r := range all {
			r.fleet.mu.Lock()
			for from := range all {
				e := r.fleet.foreign[fmt.Sprint("w", from)]
				was := from != to && e.N == now[from] || e.N == 0
				for _, v := range history[from] {
					was = was || from != to && e.N == v.n && time.Since(v.until) <= oldest
				}
				if !was || e.Pending != 10*e.N {
					t.Errorf("r%d hears that r%d runs %+v, and it runs %d", to, from, e, now[from])
				}
			}
			r.fleet.mu.Unlock()
		}
	}
	b.mu.Lock()
	b.loss, b.twice, b.delay = 0, 0, 0
	b.mu.Unlock()
	after(fullEvery + 150*time.Millisecond + 2*idleEvery)
	for to, r := range all {
		want := []string{}
		for from := range all {
			if from != to && now[from] > 0 {
				want = append(want, fmt.Sprintf("w%d=%d/%d", from, now[from], 10*now[from]))
			}
		}
		wantHears(t, r, fmt.Sprint(want))
	}
	v, _ := all[0].View()
	if v.Dropped[Stale] == 0 {
		t.Error("no message was overtaken or repeated, so this test tries nothing")
	}
}
