package actors

import (
	"errors"
	"testing"
	"time"
)

// book enters a lease that was granted.
func (b *books) book(l Lease, p Phase, k work) {
	b.leases = append(b.leases, &bookedLease{
		lease: l, url: l.URL, phase: p, pending: k.pending, held: k.held, tells: k.tells, live: true, member: b.workers[l.URL],
	})
}

// seeShares notes which shares of pending work have ended by their time, and checks
// that no other has, and that all that are to end so stand in their worker's line.
func (b *books) seeShares(t *testing.T, r *Registry, after string) {
	t.Helper()
	onLoop(t, r, func(s *state) {
		due := 0
		for _, l := range b.leases {
			sl := s.find(l.lease.ticket)
			if (sl != nil) != l.live {
				t.Fatalf("after %s: a lease at %s is found %v, want %v", after, l.url, sl != nil, l.live)
			}
			if sl == nil {
				continue
			}
			if sl.due != 0 {
				due++
			}
			if sl.pending == 0 && l.pending > 0 && !l.tells {
				l.pending = 0 // at the time of the last request
			}
			if sl.pending != l.pending || sl.due != 0 && (sl.pending == 0 || l.tells || sl.due < sl.since) {
				t.Fatalf("after %s: a share at %s is of %d blocks, due at %d, and tells %v; want %d blocks", after, l.url, sl.pending, sl.due, l.tells, l.pending)
			}
		}
		for i := range s.workers {
			w, before := &s.workers[i], uint32(0)
			for n := w.dues.first; n != 0; before, n = n, s.slots[n-1].nextShare {
				sl := &s.slots[n-1]
				if due--; due < 0 || !sl.live || int(sl.worker) != i || sl.prevShare != before {
					t.Fatalf("after %s: worker %d has slot %d behind %d in its line: %+v", after, i, n, before, *sl)
				}
			}
			if w.dues.last != before {
				t.Fatalf("after %s: the line of worker %d ends with %d, want %d", after, i, w.dues.last, before)
			}
		}
		if due != 0 {
			t.Fatalf("after %s: %d shares are due and in no line", after, due)
		}
	})
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
		if w.drains {
			continue // nobody counts on it
		}
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
	if !unjudged && (c != UpstreamTimeout || !l.member.wedged) {
		b.learn(l, c)
	}
	b.vacate(l.url)
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

// vacate ends the membership of a worker that drains and holds nothing.
func (b *books) vacate(url string) {
	if w := b.workers[url]; w.member && w.drains && b.live(url, numPhases) == 0 {
		w.member, w.healthy, w.drains = false, false, false
	}
}

func (b *books) drain(t *testing.T, r *Registry, specs []Spec, arg int) string {
	t.Helper()
	batch, name := bookedBatch(specs, arg)
	n := 0
	for _, s := range batch {
		if w := b.workers[s.URL]; w.member {
			n++
			w.drains = true
		}
	}
	drains, err := r.DrainWorkers(name)
	if len(drains) != n || (n == 0) != errors.Is(err, ErrUnknownWorker) {
		t.Fatalf("DrainWorkers(%s) = %d drains, %v, want %d", name, len(drains), err, n)
	}
	for i := range drains {
		w, want := b.workers[drains[i].URL], b.live(drains[i].URL, numPhases)
		if drains[i].Leases != want {
			t.Fatalf("DrainWorkers(%s) tells of %d leases, want %d", name, drains[i].Leases, want)
		}
		b.vacate(drains[i].URL)
		if arg%16 == 15 { // its time is over at once
			if got := r.EndDrain(&drains[i]); got != w.member {
				t.Fatalf("EndDrain(%s) = %v, want %v", drains[i].URL, got, w.member)
			}
			w.member, w.healthy, w.drains = false, false, false
		}
	}
	return "drain " + name
}

func (b *books) undrain(t *testing.T, r *Registry, specs []Spec, arg int) string {
	t.Helper()
	batch, name := bookedBatch(specs, arg)
	n := 0
	for _, s := range batch {
		if w := b.workers[s.URL]; w.member {
			n++
			w.drains = false
		}
	}
	if err := r.UndrainWorkers(name); (n == 0) != errors.Is(err, ErrUnknownWorker) {
		t.Fatalf("UndrainWorkers(%s): %v, with %d members", name, err, n)
	}
	return "undrain " + name
}

// tell has an origin tell of foreign load, of an unknown worker too.
func (b *books) tell(t *testing.T, r *Registry, specs []Spec, arg int) string {
	t.Helper()
	origin := []string{"origin", "another", Peers}[arg%3]
	var all []Elsewhere
	for i := range arg / 3 % 4 {
		all = append(all, Elsewhere{URL: specs[(arg+i)%len(specs)].URL, N: arg >> i % 8, Pending: arg * i})
	}
	if len(all) > 0 {
		all = append(all, Elsewhere{URL: "http://nobody:1", N: arg})
	}
	if err := r.SetForeign(origin, all); err != nil {
		t.Fatalf("SetForeign(%s, %v): %v", origin, all, err)
	}
	b.foreign[origin] = all
	return "tell of foreign load"
}

// elsewhere is the foreign load of a worker, and its pending blocks, without those
// that one origin has told.
func (b *books) elsewhere(url, without string) (n, pending int) {
	for origin, all := range b.foreign {
		told := Elsewhere{}
		for _, e := range all {
			if e.URL == url && origin != without {
				told = e
			}
		}
		n, pending = n+told.N, pending+told.Pending
	}
	return n, pending
}

// says has a worker say how many requests it has, which counts for longer than any
// script lasts.
func (b *books) says(r *Registry, specs []Spec, arg int) string {
	url, n := specs[arg%len(specs)].URL, arg/len(specs)
	id := WorkerID(len(specs)) // of nobody
	all, _ := r.Snapshot(0)
	for i := range all.Workers {
		if v := &all.Workers[i]; v.URL == url {
			id = v.ID
		}
	}
	r.WorkerSays(id, n, 1<<60)
	if w := b.workers[url]; w.member && w.spec.Rank == NoRank {
		w.said = max(0, n-(b.live(url, numPhases)-b.live(url, Reserved)))
	}
	return "word of " + url
}
