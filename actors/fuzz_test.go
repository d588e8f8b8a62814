package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// books is what the registry must think, kept in the plainest way: each lease
// on its own, and every figure counted from them when it is asked for.
type books struct {
	leases  []*bookedLease
	workers map[string]*bookedWorker
	budget  bookedBudget
	refused uint64
	denied  uint64 // retries beyond the budget
	drained bool
	foreign map[string][]Elsewhere // by origin
	idle    chan struct{}          // what the first drain closes
	long    int                    // blocks of prompt for each that a script has
}

type bookedLease struct {
	lease   Lease
	url     string
	phase   Phase
	pending int
	held    int
	tells   bool // its first byte ends its share, and time doesn't
	live    bool
	member  *bookedWorker // its worker in the membership of that time
	open    bool          // released, and yet to be judged
}

type bookedWorker struct {
	spec    Spec
	member  bool
	healthy bool
	proven  bool
	streak  int  // checks in a row that contradict healthy
	drains  bool // gets nothing, and goes with its last lease
	said    int  // requests beyond the registry's own that it said it has

	good, bad uint64 // what its breaker has learnt
	signAt    int64  // its last sign of life, or when it held nothing for the last time
	stirred   bool   // a sign came in this step
	wedged    bool   // it was, by the registry's own account of the step before; see compareOut
}

// bookedFleet is who may be a member: four of one rank, in all roles, and one
// address with two ranks.
func bookedFleet() []Spec {
	all := []Spec{spec(base(0)), spec(base(1)), spec(base(2)), spec(base(3))}
	all[2].Roles, all[3].Roles = RolesOf(Prefill), RolesOf(Decode)
	return append(all, Expand(Spec{Base: base(4)}, 2)...)
}

// report is the model of a health check.
func (w *bookedWorker) report(o HealthOptions, ok bool) {
	if ok == w.healthy {
		w.streak = 0
		return
	}
	w.streak++
	need := o.FailureThreshold
	if ok {
		need = o.SuccessThreshold
		if !w.proven {
			need = 1
		}
	}
	if w.streak >= need {
		w.healthy, w.proven, w.streak = ok, w.proven || ok, 0
	}
}

// open reports whether a worker may get a request of a role.
func (w *bookedWorker) open(r Role) bool {
	return w != nil && w.member && w.healthy && !w.drains && w.spec.Roles.Has(r)
}

// live is how many leases are live at a worker, in one phase or in all.
func (b *books) live(url string, p Phase) int {
	n := 0
	for _, l := range b.leases {
		if l.live && (url == "" || l.url == url) && (p == numPhases || l.phase == p) {
			n++
		}
	}
	return n
}

func (b *books) pending(url string) (pending, held int) {
	for _, l := range b.leases {
		if l.live && l.url == url {
			pending += l.pending
			held += l.held
		}
	}
	return pending, held
}

// eligible reports whether anyone may get a request of a role.
func (b *books) eligible(r Role) bool {
	for _, w := range b.workers {
		if w.open(r) {
			return true
		}
	}
	return false
}

// compare checks everything that the registry tells against the books.
func (b *books) compare(t *testing.T, r *Registry, after string) {
	t.Helper()
	b.seeShares(t, r, after)
	s := snap(t, r)
	total := b.live("", numPhases)
	if s.Live != total || s.Granted-s.Returned != uint64(total) || s.Granted != uint64(len(b.leases)) {
		t.Fatalf("after %s: live = %d, granted = %d, returned = %d, want %d live of %d granted", after, s.Live, s.Granted, s.Returned, total, len(b.leases))
	}
	if s.RetryRefused != b.denied {
		t.Fatalf("after %s: %d retries refused, want %d", after, s.RetryRefused, b.denied)
	}
	if s.Refused != b.refused {
		t.Fatalf("after %s: refused = %d, want %d", after, s.Refused, b.refused)
	}
	if s.Draining != b.drained {
		t.Fatalf("after %s: draining = %v, want %v", after, s.Draining, b.drained)
	}
	seen, ids := map[string]bool{}, map[WorkerID]bool{}
	for i := range s.Workers {
		v := &s.Workers[i]
		w := b.workers[v.URL]
		if w == nil || seen[v.URL] || ids[v.ID] {
			t.Fatalf("after %s: worker %s with number %d is unknown or there twice", after, v.URL, v.ID)
		}
		seen[v.URL], ids[v.ID] = true, true
		load := 0
		for p := range numPhases {
			want := b.live(v.URL, p)
			if v.InPhase[p] != want {
				t.Fatalf("after %s: %s has %d leases in phase %v, want %d", after, v.URL, v.InPhase[p], p, want)
			}
			if p != Reserved {
				load += want
			}
		}
		if v.Load != load {
			t.Fatalf("after %s: load of %s = %d, want %d", after, v.URL, v.Load, load)
		}
		if pending, held := b.pending(v.URL); v.Pending != pending || v.Held != held {
			t.Fatalf("after %s: %s has %d blocks pending and holds %d, want %d and %d", after, v.URL, v.Pending, v.Held, pending, held)
		}
		w.wedged = v.Wedged
		if v.Draining != (w.member && w.drains) {
			t.Fatalf("after %s: %s draining = %v, want %v", after, v.URL, v.Draining, w.drains)
		}
		if n, pending := b.elsewhere(v.URL, ""); v.Foreign != max(n, w.said) || v.ForeignPending != pending {
			t.Fatalf("after %s: foreign load of %s = %d with %d blocks pending, want %d with %d", after, v.URL, v.Foreign, v.ForeignPending, max(n, w.said), pending)
		}
		if w.member && (v.CBGood != w.good || v.CBBad != w.bad) {
			t.Fatalf("after %s: the breaker of %s has learnt of %d successes and %d failures, want %d and %d", after, v.URL, v.CBGood, v.CBBad, w.good, w.bad)
		}
		if v.Member != w.member || w.member && (v.Healthy != w.healthy || v.Proven != w.proven) {
			t.Fatalf("after %s: %s member = %v, healthy = %v, proven = %v, want %v, %v, %v", after, v.URL, v.Member, v.Healthy, v.Proven, w.member, w.healthy, w.proven)
		}
	}
	for url, w := range b.workers {
		if want := w.member || b.live(url, numPhases) > 0; seen[url] != want {
			t.Fatalf("after %s: %s known = %v, want %v: a worker goes when it is removed and idle", after, url, seen[url], want)
		}
	}
	all, _ := r.Running(nil)
	told := map[string]Elsewhere{}
	for _, e := range all {
		told[e.URL] = e
	}
	for url := range seen {
		n, pending := b.elsewhere(url, Peers)
		own, _ := b.pending(url)
		want := Elsewhere{URL: url, N: n + b.live(url, numPhases), Pending: pending + own, Decode: b.live(url, Decoding)}
		if want.N == 0 && want.Pending == 0 {
			want = Elsewhere{}
		}
		if told[url] != want {
			t.Fatalf("after %s: running at %s is %+v, want %+v", after, url, told[url], want)
		}
	}
	views, err := r.Leases(0)
	if err != nil || len(views) != total {
		t.Fatalf("after %s: %d leases listed, %v, want %d", after, len(views), err, total)
	}
	select {
	case <-b.idle:
		if !b.drained || total > 0 {
			t.Fatalf("after %s: drained with %d leases live", after, total)
		}
	default:
		if b.drained && total == 0 {
			t.Fatalf("after %s: no lease is live and the drain isn't over", after)
		}
	}
}

// The registry keeps its books right whatever happens in whatever order, each
// step compared with a model that counts leases one by one.
func FuzzBooks(f *testing.F) {
	draws := rand.New(rand.NewPCG(3, 7))
	for _, n := range []int{8, 40, 200, 800} {
		for _, seed := range []byte{0, 1, 2, 3, 4, 5, 32, 16 + 5, 16 + 128 + 1, 16 + 64 + 32 + 5, 64 + 2, 64 + 32, 64 + 32 + 1, 128 + 64 + 32 + 2} {
			in := make([]byte, n)
			for i := range in {
				in[i] = byte(draws.Uint32())
			}
			in[0] = seed
			f.Add(in)
		}
	}
	f.Add([]byte{
		1, 0, 0, 0, 3, 2, 2, 2, 5, 3, 2, // acquire, acquire, reserve, reserve, advance
		10, 0, 4, 3, 9, 0, 8, 5, // remove, release twice, add, check
		5, 1, 11, 0, 6, 2, 4, 3, 4, 0, // release, drain, release the rest
	})
	f.Fuzz(keepBooks)
}

func keepBooks(t *testing.T, in []byte) {
	if len(in) == 0 || len(in) > 1000 {
		t.Skip()
	}
	names := []string{"random", "round_robin", "power_of_two", "least_work", "cache_aware", "sticky_least_loaded"}
	o := options(names[int(in[0])%len(names)])
	o.Health.FailureThreshold = 2
	o.Breaker.Disabled = in[0]&64 == 0
	o.Breaker.FailureThreshold = 2
	o.Retries = RetryOptions{Ratio: 0.5}
	if in[0]&32 > 0 {
		o.SlowStart, o.WedgedAfter = 10*time.Second, 8*time.Second
	}
	r := start(t, o)
	specs := bookedFleet()
	b := &books{workers: map[string]*bookedWorker{}, foreign: map[string][]Elsewhere{}, idle: make(chan struct{}), budget: bookedBudget{o: o.Retries}}
	for _, s := range specs {
		b.workers[s.URL] = &bookedWorker{spec: s, member: true, healthy: true, proven: true}
	}
	join(t, r, specs...)
	b.long = 1 + int(in[0]&16)*2
	b.compare(t, r, "the start")
	var now int64
	for in = in[1:]; len(in) >= 2; in = in[2:] {
		now += second
		did := b.step(t, r, o, specs, in[0], int(in[1]), now)
		b.compare(t, r, did)
		b.compareOut(t, r, o, now, did)
	}
	for _, l := range b.leases {
		if l.live {
			l.lease.Release(Completed, now)
			b.end(l, Completed, false)
		}
	}
	b.compare(t, r, "the end of all leases")
	if err := r.Halt(); err != nil {
		t.Fatalf("Halt: %v", err)
	}
}

// step does one thing to the registry and to the books, and says what.
func (b *books) step(t *testing.T, r *Registry, o Options, specs []Spec, op byte, arg int, now int64) string {
	t.Helper()
	pick := func() *bookedLease { return b.leases[arg%len(b.leases)] }
	switch op % 22 {
	case 0, 1:
		return b.acquire(t, r, o, arg, now, false)
	case 14:
		return b.acquire(t, r, o, arg, now, true)
	case 2: // reserve, which only a pair of prefill and decode does
		url := specs[arg%len(specs)].URL
		var tk ticket
		onLoop(t, r, func(s *state) {
			if id, ok := s.byURL[url]; ok && s.workers[id].member && len(s.draining) == 0 {
				tk = s.grant(id, Reserved, work{pending: arg % 7, held: arg % 3, tells: true}, now)
			}
		})
		if tk != (ticket{}) {
			b.book(Lease{URL: url, ticket: tk, registry: r}, Reserved, work{pending: arg % 7, held: arg % 3, tells: true})
		}
		return "reserve at " + url
	case 3: // advance
		if len(b.leases) == 0 {
			return "nothing"
		}
		l := pick()
		want := l.live && l.phase == Reserved
		got := false
		onLoop(t, r, func(s *state) { got = s.advance(l.lease.ticket, Reserved, Decoding) })
		if got != want {
			t.Fatalf("advance of a lease in phase %v, live %v = %v, want %v", l.phase, l.live, got, want)
		}
		if want {
			l.phase = Decoding
		}
		return "advance"
	case 4, 5, 6: // release, now and then twice
		if len(b.leases) == 0 {
			return "nothing"
		}
		l := pick()
		for range 1 + arg%4/3 {
			c := Cause(arg) % numCauses
			l.lease.Release(c, now)
			b.end(l, c, false)
		}
		return "release"
	case 15: // release for a later judgement, now and then twice
		if len(b.leases) == 0 {
			return "nothing"
		}
		l := pick()
		for range 1 + arg%4/3 {
			c := Cause(arg) % numCauses
			l.lease.ReleaseUnjudged(c, now)
			b.end(l, c, true)
		}
		return "release unjudged"
	case 16:
		if len(b.leases) == 0 {
			return "nothing"
		}
		l, c := pick(), Cause(arg/2)%numCauses
		l.lease.Judge(c, now)
		if l.open {
			b.learn(l, c)
			l.open = false
		}
		return "judge"
	case 17:
		if len(b.leases) == 0 {
			return "nothing"
		}
		l := pick()
		l.lease.Progress(now)
		if l.live {
			b.sign(l)
		}
		return "progress"
	case 18:
		return b.drain(t, r, specs, arg)
	case 19:
		return b.undrain(t, r, specs, arg)
	case 20:
		return b.tell(t, r, specs, arg)
	case 21:
		return b.says(r, specs, arg)
	case 7:
		if len(b.leases) == 0 {
			return "nothing"
		}
		l := pick()
		l.lease.FirstByte(now)
		if l.live {
			l.pending = 0
			b.sign(l)
		}
		return "first byte"
	case 8:
		return b.check(t, r, o, base(arg%5), arg/5%3 > 0)
	case 9:
		return b.add(t, r, specs, arg)
	case 10:
		return b.remove(t, r, specs, arg)
	case 11:
		return b.acquirePair(t, r, o, arg, now)
	case 12:
		if len(b.leases) == 0 {
			return "nothing"
		}
		return b.begin(t, o, pick(), arg, now)
	default:
		if arg%32 > 0 {
			return "nothing" // draining ends most of what there is to test
		}
		idle := make(chan struct{})
		if !b.drained {
			b.idle = idle
		}
		b.drained = true
		r.send(message{kind: kindControl, control: drain{idle}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Drain(ctx)
		return "drain"
	}
}

func (b *books) acquire(t *testing.T, r *Registry, o Options, arg int, now int64, retry bool) string {
	t.Helper()
	q := Request{
		Retry: retry,
		Role:  Role(arg) % numRoles, Key: make([]uint64, arg%9*b.long), Head: uint64(arg) << 40, Now: now, Stream: arg%2 == 0,
		Session: fmt.Appendf(nil, "header:s:%d", arg%5),
	}
	if arg > 100 {
		q.Exclude = []WorkerID{WorkerID(arg % 6)}
	}
	l, err := r.Acquire(&q)
	beyond := retry && b.budget.tokens(now) < retryToken
	b.account(now, retry, err)
	switch {
	case b.drained:
		if !errors.Is(err, ErrStopped) {
			t.Fatalf("Acquire after drain: %v, want %v", err, ErrStopped)
		}
	case beyond:
		b.denied++
		if !errors.Is(err, ErrRetryBudget) {
			t.Fatalf("Acquire of a retry beyond the budget: %v, want %v", err, ErrRetryBudget)
		}
	case !b.eligible(q.Role):
		if !errors.Is(err, ErrNoWorker) {
			t.Fatalf("Acquire for %v without anyone eligible: %v, want %v", q.Role, err, ErrNoWorker)
		}
	case err != nil && o.Breaker.Disabled:
		t.Fatalf("Acquire for %v: %v, want a lease", q.Role, err)
	}
	if err != nil {
		return "acquire in vain"
	}
	w := b.workers[l.URL]
	if !w.open(q.Role) {
		t.Fatalf("acquired for %v at %s, which is not eligible: %+v", q.Role, l.URL, w)
	}
	k := work{pending: len(q.Key), tells: q.Stream || q.Role == Prefill}
	if q.Role == Decode {
		k.held = len(q.Key)
	}
	b.book(l, phaseOf[q.Role], k)
	if v := view(t, r, l.URL); v.ID != l.Worker {
		t.Fatalf("lease names worker %d, want %d", l.Worker, v.ID)
	}
	return "acquire at " + l.URL
}

// acquirePair takes both leases of a pair, or one for the whole request.
func (b *books) acquirePair(t *testing.T, r *Registry, o Options, arg int, now int64) string {
	t.Helper()
	q := Request{Key: make([]uint64, arg%9*b.long), Head: uint64(arg) << 40, Now: now, Short: arg % 3, Stream: arg%2 == 0}
	p, d, err := r.AcquirePair(&q)
	var want error
	switch {
	case b.drained:
		want = ErrStopped
	case !b.eligible(Decode):
		want = ErrNoDecode
	case len(q.Key) >= q.Short && !b.eligible(Prefill):
		want = ErrNoPrefill
	}
	if b.drained || o.Breaker.Disabled {
		if !errors.Is(err, want) {
			t.Fatalf("AcquirePair: %v, want %v", err, want)
		}
	} else if want != nil && !errors.Is(err, ErrNoWorker) { // a lone worker's breaker may be open too
		t.Fatalf("AcquirePair: %v, want %v", err, ErrNoWorker)
	}
	if err != nil {
		return "acquire a pair in vain"
	}
	b.account(now, false, nil)
	if len(q.Key) < q.Short {
		if p.registry != nil {
			t.Fatalf("a prefill lease at %s for a short prompt", p.URL)
		}
		b.book(d, Plain, work{len(q.Key), len(q.Key), q.Stream})
		return "acquire the whole at " + d.URL
	}
	b.book(p, Prefilling, work{pending: len(q.Key), tells: true})
	b.book(d, Reserved, work{held: len(q.Key)})
	return "acquire a pair at " + p.URL + " and " + d.URL
}

func (b *books) begin(t *testing.T, o Options, l *bookedLease, arg int, now int64) string {
	t.Helper()
	q := Request{Now: now, Movable: arg%2 == 0}
	got, err := l.lease.Begin(&q)
	switch {
	case !l.live || l.phase != Reserved:
		b.refused++
		if !errors.Is(err, ErrLeaseEnded) {
			t.Fatalf("Begin of a lease in phase %v, live %v: %v, want %v", l.phase, l.live, err, ErrLeaseEnded)
		}
	case err != nil && (!q.Movable || !errors.Is(err, ErrNoDecode)):
		t.Fatalf("Begin: %v", err)
	case err != nil:
	case got.ticket == l.lease.ticket:
		l.phase = Decoding
	case b.current(l) && l.member.drains && l.member.healthy && o.Breaker.Disabled && o.WedgedAfter == 0:
		t.Fatalf("Begin moved a lease from %s, which drains and keeps what it has", l.url)
	default: // moved
		l.live = false
		if !q.Movable {
			t.Fatalf("Begin moved a lease that may not move from %s to %s", l.url, got.URL)
		}
		if w := b.workers[got.URL]; !w.open(Decode) {
			t.Fatalf("Begin moved to %s, which is not eligible: %+v", got.URL, w)
		}
		b.vacate(l.url)
		b.book(got, Decoding, work{held: l.held})
	}
	return "begin"
}

func (b *books) check(t *testing.T, r *Registry, o Options, base string, ok bool) string {
	t.Helper()
	var result error
	if !ok {
		result = errDown
	}
	want := false
	for _, w := range b.workers {
		if w.member && w.spec.Base == base {
			w.report(o.Health, ok)
			want = want || w.healthy
		}
	}
	if got := r.ReportHealth(base, result); got != want {
		t.Fatalf("ReportHealth(%s, %v) = %v, want %v", base, result, got, want)
	}
	return fmt.Sprintf("check of %s, good %v", base, ok)
}

// bookedBatch is what one call adds or removes: one worker, or all ranks of the
// last address.
func bookedBatch(specs []Spec, arg int) (batch []Spec, name string) {
	if i := arg % 5; i < 4 {
		return specs[i : i+1], specs[i].URL
	}
	return specs[4:], specs[4].Base
}

func (b *books) add(t *testing.T, r *Registry, specs []Spec, arg int) string {
	t.Helper()
	batch, name := bookedBatch(specs, arg)
	var want error
	for _, s := range batch {
		if b.workers[s.URL].member {
			want = ErrDuplicate
		}
	}
	if _, err := r.Add(batch); !errors.Is(err, want) {
		t.Fatalf("Add(%s): %v, want %v", name, err, want)
	}
	if want == nil {
		for _, s := range batch {
			b.workers[s.URL] = &bookedWorker{spec: s, member: true}
		}
	}
	return "add " + name
}

func (b *books) remove(t *testing.T, r *Registry, specs []Spec, arg int) string {
	t.Helper()
	batch, name := bookedBatch(specs, arg)
	if arg > 200 && len(batch) > 1 {
		batch, name = batch[:1], batch[0].URL
	}
	n := 0
	for _, s := range batch {
		if w := b.workers[s.URL]; w.member {
			w.member, w.healthy, w.drains = false, false, false
			n++
		}
	}
	removed, err := r.Remove(name)
	if len(removed) != n || (n == 0) != errors.Is(err, ErrUnknownWorker) {
		t.Fatalf("Remove(%s) removed %d, %v, want %d", name, len(removed), err, n)
	}
	for _, x := range removed {
		if want := b.live(x.URL, numPhases); x.Leases != want {
			t.Fatalf("Remove(%s) tells of %d leases at %s, want %d", name, x.Leases, x.URL, want)
		}
	}
	return "remove " + name
}
