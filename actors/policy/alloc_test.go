//go:build !race

package policy

import (
	"fmt"
	"testing"
)

func TestChoicesDoNotAllocate(t *testing.T) {
	for _, name := range Names() {
		for _, withSession := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/session %v", name, withSession), func(t *testing.T) {
				c := fleet(64)
				p := build(t, name, DefaultOptions(), c)
				var sessions [][]byte
				for i := range 100 {
					sessions = append(sessions, fmt.Appendf(nil, "header:x-session-id:%d", i))
				}
				req := Request{Blocks: 10}
				choose := func() {
					req.Key++
					if withSession {
						req.Session = sessions[req.Key%100]
					}
					c[p.Choose(&req, c).Index].Load = int(req.Key % 100)
				}
				for range 200 {
					choose()
				}
				if got := testing.AllocsPerRun(1000, choose); got != 0 {
					t.Errorf("%v allocations per choice, want 0", got)
				}
			})
		}
	}
}

// What kv_aware does beyond least_work costs no memory either, whether it draws, keeps
// sessions or both.
func TestKVAwareDoesNotAllocate(t *testing.T) {
	for _, temperature := range []float64{0, 800} {
		for _, ttl := range []int64{0, second} {
			t.Run(fmt.Sprintf("%v/%d", temperature, ttl), func(t *testing.T) {
				c := fleet(512)
				o := DefaultOptions()
				o.Temperature, o.AffinityTTL, o.SessionCap = temperature, ttl, 100
				p := build(t, kvAware, o, c)
				req, session := Request{Blocks: 10}, make([]byte, 8)
				choose := func() {
					req.Key++
					req.Now += second / 10
					session[0], session[1] = byte(req.Key), byte(req.Key>>8)
					req.Affinity, req.Decode = session[:req.Key%3*4], req.Key%5 == 0
					c[p.Choose(&req, c).Index].Load = int(req.Key % 100)
				}
				for range 1000 {
					choose()
				}
				if got := testing.AllocsPerRun(1000, choose); got != 0 {
					t.Errorf("%v allocations per choice, want 0", got)
				}
			})
		}
	}
}

// A full session table under new sessions only is where it would allocate.
func TestFullSessionTableDoesNotAllocate(t *testing.T) {
	const limit = 5000
	c := fleet(4)
	p := newSticky(t, c, func(o *Options) { o.SessionCap = limit })
	var req Request
	session := make([]byte, 8)
	choose := func() {
		req.Key++
		for i := range session {
			session[i] = byte(req.Key >> (8 * i))
		}
		req.Session = session
		p.Choose(&req, c)
	}
	for range 20 * limit {
		choose()
	}
	if got := testing.AllocsPerRun(20*limit, choose); got != 0 {
		t.Errorf("%v allocations per choice, want 0", got)
	}
	if got := p.Sessions(); got != limit {
		t.Errorf("Sessions() = %d, want %d", got, limit)
	}
}
