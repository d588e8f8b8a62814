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
