package actors

import (
	"testing"
	"time"
)

// withAffinity has kv_aware keep sessions.
func withAffinity() Options {
	o := options("kv_aware")
	o.PolicyOptions.AffinityTTL = int64(time.Hour)
	return o
}

// A session stays at its worker until it is idle for too long or finished; what has
// only a session key of other policies doesn't.
func TestAffinity(t *testing.T) {
	r := start(t, withAffinity())
	for i := range 4 {
		join(t, r, spec(base(i)))
	}
	s := Request{Affinity: []byte("s")}
	first := acquire(t, r, s)
	for range 10 { // by cost each of these would go elsewhere
		if l := acquire(t, r, s); l.URL != first.URL {
			t.Fatalf("chosen %s by %v, want %s, where the session is", l.URL, l.Decision.Reason, first.URL)
		}
	}
	if l := acquire(t, r, Request{Session: s.Affinity}); l.URL == first.URL {
		t.Errorf("chosen %s for a request without an identity, want another: that one is busy", l.URL)
	}
	if got := snap(t, r).Sessions; got != 1 {
		t.Errorf("%d sessions, want 1", got)
	}
	s.Now = int64(2 * time.Hour)
	if l := acquire(t, r, s); l.URL == first.URL {
		t.Errorf("chosen %s two hours later, want another: that one is busy", l.URL)
	}
	if !r.FinishSession(s.Affinity) || r.FinishSession(s.Affinity) || snap(t, r).Sessions != 0 {
		t.Error("the session was there when it should not, or not when it should")
	}
}

// Of a pair a session keeps the decode worker alone, while that has no more requests
// than its share.
func TestAffinityOfPairs(t *testing.T) {
	r := start(t, withAffinity())
	join(t, r, roleSpec(p0, Prefill), roleSpec(p1, Prefill), roleSpec(d0, Decode), roleSpec(d1, Decode))
	session := []byte("s")
	home, prefills := "", map[string]int{}
	for i := range 32 {
		p, d := acquirePair(t, r, Request{Affinity: session, Head: uint64(i) * 0x9e3779b97f4a7c15})
		if home == "" {
			home = d.URL
		}
		if d.URL != home {
			t.Fatalf("request %d decodes at %s by %v, want %s", i, d.URL, d.Decision.Reason, home)
		}
		prefills[p.URL]++
		p.Release(Completed, 0)
		d.Release(Completed, 0)
	}
	wantOnly(t, prefills, p0, p1)

	_, d := acquirePair(t, r, Request{Affinity: session})
	_, other := acquirePair(t, r, Request{Affinity: session})
	if d.URL != home || other.URL == home {
		t.Errorf("two at a time decode at %s and %s, want the first at %s and the second elsewhere", d.URL, other.URL, home)
	}
}

func TestWhoNeedsAffinity(t *testing.T) {
	mixed := withAffinity()
	mixed.Policy = [numRoles]string{Regular: "least_work", Prefill: "kv_aware", Decode: "kv_aware"}
	for _, tc := range []struct {
		name string
		o    Options
		want [numRoles]bool
	}{
		{"no lifetime", options("kv_aware"), [numRoles]bool{}},
		{"kv_aware", withAffinity(), [numRoles]bool{Regular: true, Decode: true}},
		{"kv_aware for pairs only", mixed, [numRoles]bool{Decode: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := NewRouter(RouterOptions{Options: tc.o, TreeBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Halt()
			for role, want := range tc.want {
				if got := r.NeedsAffinity(Role(role)); got != want {
					t.Errorf("%v: %v, want %v", Role(role), got, want)
				}
			}
		})
	}
}
