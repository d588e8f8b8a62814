package actors

import (
	"testing"
	"time"
)

// book enters a lease that was granted.
func (b *books) book(l Lease, p Phase, pending int) {
	b.leases = append(b.leases, &bookedLease{lease: l, url: l.URL, phase: p, pending: pending, live: true, member: b.workers[l.URL]})
}

// current reports whether a lease's worker is still a member, as it was then.
func (b *books) current(l *bookedLease) bool { return l.member.member && b.workers[l.url] == l.member }

// sign notes a sign of life of a lease's worker.
func (b *books) sign(l *bookedLease) {
	if b.current(l) {
		l.member.stirred = true
	}
}

// learn notes what the breaker of a lease's worker learns.
func (b *books) learn(l *bookedLease, c Cause) {
	switch {
	case !b.current(l):
	case c.verdict() == good:
		l.member.good++
	case c.verdict() == bad:
		l.member.bad++
	}
}

// compareOut checks what keeps workers out: never more of a role than the floor
// allows, and silence none that gave a sign of life of late.
func (b *books) compareOut(t *testing.T, r *Registry, o Options, now int64, after string) {
	t.Helper()
	s := snap(t, r)
	var proven, healthy, out [numRoles]int
	for i := range s.Workers {
		v := &s.Workers[i]
		w := b.workers[v.URL]
		if !v.Member {
			continue
		}
		if w.stirred || v.Load == 0 && !v.Wedged {
			w.signAt = now
		}
		if v.Wedged && (w.stirred || o.WedgedAfter == 0 || !v.Healthy || now-w.signAt < int64(o.WedgedAfter)) {
			t.Fatalf("after %s: %s is wedged %v after a sign of life, healthy = %v", after, v.URL, time.Duration(now-w.signAt), v.Healthy)
		}
		w.stirred = false
		for role := range numRoles {
			if !v.Roles.Has(role) {
				continue
			}
			if v.Proven {
				proven[role]++
			}
			if v.Healthy {
				healthy[role]++
			}
			if v.Healthy && (v.Wedged || v.Breaker != BreakerClosed) {
				out[role]++
			}
		}
	}
	for role := range numRoles {
		most := max(0, min(healthy[role]/2, healthy[role]-1))
		if proven[role] == 1 {
			most = 1
		}
		if out[role] > most {
			t.Fatalf("after %s: %d of %d healthy members for %v are out, want at most %d", after, out[role], healthy[role], role, most)
		}
	}
}

// end books that a lease was given back.
func (b *books) end(l *bookedLease, c Cause, unjudged bool) {
	if !l.live {
		b.refused++
		return
	}
	l.live, l.open = false, unjudged
	if c.answered() {
		b.sign(l)
	}
	if !unjudged {
		b.learn(l, c)
	}
}

// account enters an attempt in the books of the retry budget.
func (b *books) account(now int64, retry bool, err error) {
	e := budgetEvent{now: now}
	switch {
	case b.drained || err != nil && !retry:
		return
	case err != nil:
	case retry:
		e.cost = retryToken
	default:
		e.fed = 1
	}
	b.budget.events = append(b.budget.events, e)
}
