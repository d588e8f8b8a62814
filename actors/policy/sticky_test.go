package policy

import (
	"fmt"
	"testing"
)

const second = int64(1_000_000_000)

func newSticky(t testing.TB, c []Candidate, change func(*Options)) *stickyLeastLoaded {
	t.Helper()
	o := DefaultOptions()
	if change != nil {
		change(&o)
	}
	return build(t, "sticky_least_loaded", o, c).(*stickyLeastLoaded)
}

// ask is one request of a session; it gives the ID that was chosen and why.
func ask(p *stickyLeastLoaded, session string, now int64, c []Candidate) (uint32, Reason) {
	got := p.Choose(&Request{Key: 1, Blocks: 10, Session: []byte(session), Now: now}, c)
	return c[got.Index].ID, got.Reason
}

func wantAsk(t *testing.T, p *stickyLeastLoaded, session string, now int64, c []Candidate, wantID uint32, wantReason Reason) {
	t.Helper()
	if id, reason := ask(p, session, now, c); id != wantID || reason != wantReason {
		t.Errorf("%s at %d s: worker %d by %v, want %d by %v", session, now/second, id, reason, wantID, wantReason)
	}
}

func TestStickyPlacesNewSessions(t *testing.T) {
	c := loaded(2, 1, 1)
	p := newSticky(t, c, nil)
	first, reason := ask(p, "user:a", 0, c)
	if first == 0 || reason != SessionNew {
		t.Fatalf("worker %d by %v, want 1 or 2 by session_new", first, reason)
	}
	// Load is equal, so the one with fewer sessions gets the next.
	wantAsk(t, p, "user:b", 0, c, 3-first, SessionNew)
	// Least load comes before fewest sessions.
	c[0].Load = 3
	c[first].Load = 0
	wantAsk(t, p, "user:c", 0, c, first, SessionNew)
	// And all stay where they are, whatever the load, while it is balanced.
	c[first].Load = 30
	wantAsk(t, p, "user:a", 0, c, first, SessionKept)
	wantAsk(t, p, "user:b", 0, c, 3-first, SessionKept)
	wantAsk(t, p, "user:c", 0, c, first, SessionKept)
	if got := p.Sessions(); got != 3 {
		t.Errorf("Sessions() = %d, want 3", got)
	}
}

func TestStickyKeepsCountsEven(t *testing.T) {
	c := fleet(4)
	p := newSticky(t, c, nil)
	for i := range 400 {
		ask(p, fmt.Sprint("user:", i), 0, c)
	}
	for id := range uint32(4) {
		if got := p.table.residents.count(id); got != 100 {
			t.Errorf("worker %d has %d sessions, want 100", id, got)
		}
	}
}

func TestStickyYields(t *testing.T) {
	tests := []struct {
		name       string
		loads      []int // worker 0 is the session's
		want       uint32
		wantReason Reason
		imbalanced bool
	}{
		{"balanced", []int{60, 0, 5}, 0, SessionKept, false},
		{"at the absolute threshold", []int{64, 0, 5}, 0, SessionKept, false},
		{"beyond it", []int{65, 0, 5}, 1, LoadImbalance, true},
		{"at the relative threshold", []int{300, 250, 200}, 0, SessionKept, false},
		{"beyond it too", []int{301, 250, 200}, 2, LoadImbalance, true},
		{"another worker is the busy one", []int{10, 500, 5}, 0, SessionKept, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := loaded(0, 1, 1)
			p := newSticky(t, c, nil)
			wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
			for i := range c {
				c[i].Load = tt.loads[i]
			}
			got := p.Choose(&Request{Session: []byte("user:a")}, c)
			high, low := max(tt.loads[0], tt.loads[1], tt.loads[2]), min(tt.loads[0], tt.loads[1], tt.loads[2])
			if want := (Choice{int(tt.want), tt.wantReason, high, low, tt.imbalanced}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			// It lives where it was served.
			for i := range c {
				c[i].Load = 0
			}
			wantAsk(t, p, "user:a", 0, c, tt.want, SessionKept)
			if got := p.Sessions(); got != 1 {
				t.Errorf("Sessions() = %d, want 1", got)
			}
		})
	}
}

func TestStickyLifetimeSlides(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, c, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
	c[0].Load, c[1].Load = 1, 0
	wantAsk(t, p, "user:a", 7200*second, c, 0, SessionKept)
	wantAsk(t, p, "user:a", 14400*second, c, 0, SessionKept)
	wantAsk(t, p, "user:a", 21600*second+1, c, 1, SessionNew)
}

// An expired session that has not been cleared away is a new one all the same.
func TestStickyExpiredButNotCleared(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, c, nil)
	for _, s := range []string{"user:a", "user:b", "user:c", "user:d"} {
		wantAsk(t, p, s, 0, c, 0, SessionNew)
	}
	c[0].Load, c[1].Load = 1, 0
	wantAsk(t, p, "user:d", 7200*second+1, c, 1, SessionNew)
	if a, b := p.table.residents.count(0), p.table.residents.count(1); a != 1 || b != 1 {
		t.Errorf("sessions at 0 and 1: %d and %d, want 1 and 1", a, b)
	}
}

func TestStickyMovesOffAWorkerThatIsNoCandidate(t *testing.T) {
	c := loaded(0, 1, 2)
	p := newSticky(t, c, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
	wantAsk(t, p, "user:a", 0, c[1:], 1, SessionMoved)
	// It does not go back when the first is a candidate again.
	wantAsk(t, p, "user:a", 0, c, 1, SessionKept)
	if a, b := p.table.residents.count(0), p.table.residents.count(1); a != 0 || b != 1 {
		t.Errorf("sessions at 0 and 1: %d and %d, want 0 and 1", a, b)
	}
}

// The registry gives a number to the next worker when one leaves; sessions of the
// first must not go to the second.
func TestStickyReusedID(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, c, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)

	other := loaded(1, 0)
	other[0].URL = "http://10.9.9.9:8000"
	p.SetMembers(members(other))
	if got := p.table.residents.count(0); got != 0 {
		t.Errorf("the new worker 0 starts with %d sessions, want 0", got)
	}
	// A session of the new worker 0 is not counted out by one of the old moving.
	wantAsk(t, p, "user:b", 0, loadedAs(other, 0, 1), 0, SessionNew)
	wantAsk(t, p, "user:a", 0, loadedAs(other, 1, 0), 1, SessionMoved)
	if a, b := p.table.residents.count(0), p.table.residents.count(1); a != 1 || b != 1 {
		t.Errorf("sessions at 0 and 1: %d and %d, want 1 and 1", a, b)
	}

	// Leaving and coming back under the same URL is a new life as well.
	p.SetMembers(members(other)[:1])
	p.SetMembers(members(other))
	wantAsk(t, p, "user:a", 0, loadedAs(other, 0, 1), 0, SessionMoved)
}

// loadedAs is the same workers under other loads.
func loadedAs(c []Candidate, loads ...int) []Candidate {
	for i := range c {
		c[i].Load = loads[i]
	}
	return c
}

// Health changes do not go through SetMembers, and other members must not suffer
// from one that leaves.
func TestStickyMembersWhoStayKeepSessions(t *testing.T) {
	c := loaded(0, 1, 2)
	p := newSticky(t, c, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
	p.SetMembers(members(c[:2]))
	p.SetMembers(members(c))
	c[0].Load = 9
	wantAsk(t, p, "user:a", 0, c, 0, SessionKept)
}

func TestStickyBeforeMembersAreKnown(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, nil, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
	c[0].Load = 9
	wantAsk(t, p, "user:a", 0, c, 0, SessionKept)
	c[0].URL = "http://10.9.9.9:8000"
	wantAsk(t, p, "user:a", 0, c, 1, SessionMoved)
}

func TestStickyForgetsTheLongestIdle(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, c, func(o *Options) { o.SessionCap = 3 })
	for i, s := range []string{"user:a", "user:b", "user:c"} {
		wantAsk(t, p, s, int64(i), c, 0, SessionNew)
	}
	wantAsk(t, p, "user:a", 3, c, 0, SessionKept)
	wantAsk(t, p, "user:d", 4, c, 0, SessionNew) // takes the place of b
	if got := p.Sessions(); got != 3 {
		t.Errorf("Sessions() = %d, want 3", got)
	}
	wantAsk(t, p, "user:a", 5, c, 0, SessionKept)
	wantAsk(t, p, "user:c", 6, c, 0, SessionKept)
	wantAsk(t, p, "user:d", 7, c, 0, SessionKept)
	wantAsk(t, p, "user:b", 8, c, 0, SessionNew)
	if got := p.table.residents.count(0); got != 3 {
		t.Errorf("worker 0 has %d sessions, want 3", got)
	}
}

func TestStickyFinishSession(t *testing.T) {
	c := loaded(0, 1)
	p := newSticky(t, c, nil)
	wantAsk(t, p, "user:a", 0, c, 0, SessionNew)
	if p.FinishSession([]byte("user:b")) {
		t.Error("FinishSession of an unknown session = true, want false")
	}
	if !p.FinishSession([]byte("user:a")) {
		t.Error("FinishSession of a known session = false, want true")
	}
	if p.FinishSession([]byte("user:a")) {
		t.Error("FinishSession for the second time = true, want false")
	}
	if got := p.Sessions(); got != 0 {
		t.Errorf("Sessions() = %d, want 0", got)
	}
	c[0].Load = 2
	wantAsk(t, p, "user:a", 0, c, 1, SessionNew)
}

func TestStickyWithoutSession(t *testing.T) {
	c := loaded(2, 1, 1)
	p := newSticky(t, c, nil)
	chosen := map[int]bool{}
	for key := range uint64(64) {
		got := p.Choose(&Request{Key: key}, c)
		chosen[got.Index] = true
		if want := (Choice{got.Index, LeastLoad, 2, 1, false}); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	if chosen[0] || !chosen[1] || !chosen[2] {
		t.Errorf("chosen %v, want workers 1 and 2", chosen)
	}
	if got := p.Sessions(); got != 0 {
		t.Errorf("Sessions() = %d, want 0", got)
	}
}

// Expired sessions go a few at a time, with the requests.
func TestStickyClearsExpiredSessionsInSmallSteps(t *testing.T) {
	c := fleet(2)
	p := newSticky(t, c, nil)
	for i := range 10 {
		ask(p, fmt.Sprint("user:", i), 0, c)
	}
	for want := 8; want >= 0; want -= 2 {
		p.Choose(&Request{Now: 7200*second + 1}, c)
		if got := p.Sessions(); got != want {
			t.Errorf("Sessions() = %d, want %d", got, want)
		}
	}
}
