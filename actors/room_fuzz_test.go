package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// roomBooks are what must hold of the waiting room, each figure found by looking
// at everything: who may be served is asked of every worker, whoever waits.
type roomBooks struct {
	t        *testing.T
	s        *state
	room     RoomOptions
	specs    []Spec
	workers  map[string]*bookedWorker
	now      int64
	requests []*bookedRequest
	admitted []int64 // when each admission began, since the start
	stopped  bool
}

type bookedRequest struct {
	q          *Request
	pair       bool
	waits      bool
	leases     []*bookedPlace
	admission  ticket
	dismissed  bool
	came       int
	deadlineAt int64
}

type bookedPlace struct {
	url      string
	ticket   ticket
	reserved bool
	live     bool
}

func FuzzRoom(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range 48 {
		in := make([]byte, 60+20*i)
		for k := range in {
			in[k] = byte(rng.Uint32())
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 3 || len(in) > 2000 {
			t.Skip()
		}
		o := options([]string{"random", "power_of_two", "least_work", "round_robin", "sticky_least_loaded"}[in[0]%5])
		o.Breaker.Disabled = true
		o.Health.FailureThreshold, o.Health.SuccessThreshold = 1, 1
		o.Room = RoomOptions{
			MaxLive:       []int{0, 1, 4, 7}[in[0]>>3%4],
			MaxPerWorker:  []int{0, 1, 1, 2}[in[0]>>5%4],
			RatePerSecond: []float64{0, 0, 0.5}[in[1]%3],
			Burst:         int(in[1] >> 2 % 4),
			QueueSize:     []int{0, 2, 12, 50}[in[1]>>4%4],
			QueueTimeout:  20 * time.Second,
			Ageing:        time.Duration(1+in[1]>>6) * time.Second,
			Now:           func() int64 { return 0 },
		}
		s, err := newState(o, make(chan Event, 1))
		if err != nil {
			t.Fatal(err)
		}
		b := &roomBooks{t: t, s: s, room: o.Room, specs: bookedFleet(), workers: map[string]*bookedWorker{}}
		b.specs[1].Model = "m"
		for _, sp := range b.specs {
			b.workers[sp.URL] = &bookedWorker{spec: sp}
			b.join(sp)
			b.report(sp.Base, true)
		}
		for in = in[2:]; len(in) >= 2 && !b.stopped; in = in[2:] {
			b.now += int64(in[0]>>4) * int64(time.Second) / 4
			b.do(func() { s.tick(b.now) })
			b.collect()
			b.step(in[0]%16, int(in[1]))
			b.check()
		}
		b.finish()
	})
}

// do does what the loop does with one message.
func (b *roomBooks) do(f func()) {
	f()
	if b.s.room.queue.size > 0 {
		b.s.hear(b.now)
		b.s.callIn()
	}
	if s := b.s; len(s.room.ticks) > 0 { // what the clock does when it is asked
		<-s.room.ticks
	}
}

func (b *roomBooks) join(sp Spec) {
	b.do(func() {
		if _, err := b.s.add([]Spec{sp}); err == nil {
			w := b.workers[sp.URL]
			w.member, w.healthy = true, false
		}
	})
}

func (b *roomBooks) report(base string, ok bool) {
	reason := ""
	if !ok {
		reason = "down"
	}
	b.do(func() { b.s.reportHealth(base, reason) })
	for _, w := range b.workers {
		if w.member && w.spec.Base == base {
			w.healthy = ok
		}
	}
}

func (b *roomBooks) step(op byte, arg int) {
	switch op {
	case 0, 1, 2, 3, 4:
		b.ask(arg, false)
	case 5:
		b.ask(arg, true)
	case 6, 7, 8, 9: // a lease or an admission ends
		if live := b.live(); len(live) > 0 {
			b.end(live[arg%len(live)], arg/16%3)
		}
	case 10:
		if x := b.reserved(arg); x != nil {
			b.begin(x, arg%2 == 0)
		}
	case 11, 12:
		if waiting := b.waiting(); len(waiting) > 0 {
			b.leave(waiting[arg%len(waiting)])
		}
	case 13:
		b.report(base(arg%5), arg/5%3 > 0)
	case 14:
		sp := b.specs[arg%len(b.specs)]
		if arg/16%2 == 0 {
			b.join(sp)
			return
		}
		b.do(func() {
			if _, err := b.s.remove(sp.URL); err == nil {
				b.workers[sp.URL].member, b.workers[sp.URL].healthy = false, false
			}
		})
	default:
		if arg%16 == 0 {
			b.stopped = true
			b.do(func() { drain{make(chan struct{})}.apply(b.s) })
		} else if live := b.live(); len(live) > 0 {
			b.again(live[arg%len(live)], arg)
		}
	}
}

// ask has a request come.
func (b *roomBooks) ask(arg int, pair bool) {
	q := &Request{
		Role: Role(arg % 4 % 3), Key: make([]uint64, arg%3), Short: arg / 3 % 3, Now: b.now,
		Class: uint8(arg / 8 % 3 * 3), Tenant: uint64(arg / 4 % 3), Model: []byte{"mn"[arg/64%2]},
		Beside: arg%5 < 2,
	}
	if arg > 200 {
		q.Exclude = []WorkerID{WorkerID(arg % 7)}
	}
	if arg%11 == 0 {
		q.Deadline = b.now + int64(arg%7)*second
	}
	if arg%13 == 0 {
		q.Pin = uint64(1 + arg%3)
	}
	b.send(&bookedRequest{q: q, pair: pair}, arg%17 == 0)
}

// again has a request that was admitted come again, as a retry does.
func (b *roomBooks) again(x *bookedRequest, arg int) {
	if x.dismissed || x.admission == (ticket{}) {
		return
	}
	q := x.q
	q.Now, q.Admission, q.Exclude = b.now, Admission{ticket: x.admission}, []WorkerID{WorkerID(arg % 7)}
	b.send(x, false)
}

func (b *roomBooks) send(x *bookedRequest, own bool) {
	q := x.q
	q.Own = own
	q.ready()
	x.came, x.deadlineAt = len(b.requests), b.now+int64(b.room.QueueTimeout)
	if q.Deadline != 0 {
		x.deadlineAt = min(x.deadlineAt, q.Deadline)
	}
	waited := b.waiting()
	full := len(waited) >= b.room.QueueSize
	var yields *bookedRequest
	if full {
		yields = b.outranked(q, waited)
	}
	b.requests = append(slices.DeleteFunc(b.requests, func(y *bookedRequest) bool { return y == x }), x)
	b.do(func() { b.s.arrive(q, q.reply, x.pair) })
	if len(q.reply) == 0 {
		b.t.Fatal("no answer came at once")
	}
	<-q.reply
	if q.queued && (own || full && yields == nil) {
		b.t.Fatalf("a request waits: own %v, queue full %v", own, full)
	}
	if !own && errors.Is(q.grant.err, ErrQueueFull) && (!full || yields != nil) {
		b.t.Fatalf("turned away: queue full %v, who gives way %v", full, yields)
	}
	for _, y := range waited {
		out := len(y.q.reply) > 0 && errors.Is(y.q.grant.err, ErrQueueFull)
		if want := q.queued && y == yields; out != want || out && y.q.RetryAfter() < 1 {
			b.t.Fatalf("pushed out %v, want %v; to come back after %d s", out, want, y.q.RetryAfter())
		}
	}
	if q.queued {
		x.waits = true
		return
	}
	b.answered(x)
}

// outranked is the one of those who wait, in the order they came, that gives way to
// q, or nil. Which lane each is in is not looked into here.
func (b *roomBooks) outranked(q *Request, waiting []*bookedRequest) (least *bookedRequest) {
	of := func(tenant uint64) (n int) {
		for _, x := range waiting {
			if x.q.Tenant == tenant {
				n++
			}
		}
		return n
	}
	first := func(class uint8, x *bookedRequest) bool {
		i := slices.IndexFunc(waiting, func(y *bookedRequest) bool { return y.q.Class == class })
		return i < 0 || waiting[i] == x
	}
	risen := func(class uint8, turn int64) int64 { return int64(class) + (b.now-turn)/int64(b.room.Ageing) }
	queue, rank := &b.s.room.queue, int64(0)
	for _, x := range waiting {
		k, w := int64(x.q.Class), queue.find(x.q.turn)
		if w == w.lane.head {
			k = risen(x.q.Class, w.lane.turn)
		}
		if first(x.q.Class, x) {
			k = max(k, risen(x.q.Class, queue.turns[x.q.Class]))
		}
		if w.admitted {
			continue
		}
		if least == nil || k < rank || k == rank && of(x.q.Tenant) >= of(least.q.Tenant) {
			least, rank = x, k
		}
	}
	own := int64(q.Class)
	if first(q.Class, nil) {
		own = risen(q.Class, queue.turns[q.Class])
	}
	if least != nil && (own > rank || own == rank && of(q.Tenant)+1 < of(least.q.Tenant)) {
		return least
	}
	return nil
}

// answered reads the last answer to a request.
func (b *roomBooks) answered(x *bookedRequest) {
	q := x.q
	x.waits = false
	if q.grant.err != nil {
		if q.pass != (ticket{}) {
			b.t.Fatalf("refused (%v) and admitted", q.grant.err)
		}
		return
	}
	if q.pass != (ticket{}) {
		if x.admission != (ticket{}) && !x.dismissed {
			b.t.Fatal("admitted a second time")
		}
		x.admission, x.dismissed = q.pass, false
		b.admitted = append(b.admitted, b.now)
	}
	switch {
	case !x.pair:
		x.leases = append(x.leases, &bookedPlace{q.grant.url, q.grant.ticket, false, true})
	case q.grant.ticket.gen == 0:
		x.leases = append(x.leases, &bookedPlace{q.second.url, q.second.ticket, false, true})
	default:
		x.leases = append(x.leases, &bookedPlace{q.grant.url, q.grant.ticket, false, true}, &bookedPlace{q.second.url, q.second.ticket, true, true})
	}
	if q.Pin != 0 {
		l := x.leases[len(x.leases)-1]
		b.do(func() { b.s.pin(l.ticket, q.Pin) })
	}
}

func (b *roomBooks) waiting() []*bookedRequest {
	var all []*bookedRequest
	for _, x := range b.requests {
		if x.waits {
			all = append(all, x)
		}
	}
	return all
}

// live are requests that aren't waiting and hold something.
func (b *roomBooks) live() []*bookedRequest {
	var all []*bookedRequest
	for _, x := range b.requests {
		if !x.waits && (x.place() != nil || x.admission != (ticket{}) && !x.dismissed) {
			all = append(all, x)
		}
	}
	return all
}

func (x *bookedRequest) place() *bookedPlace {
	for _, l := range x.leases {
		if l.live {
			return l
		}
	}
	return nil
}

func (b *roomBooks) reserved(arg int) *bookedPlace {
	var all []*bookedPlace
	for _, x := range b.requests {
		for _, l := range x.leases {
			if l.live && l.reserved {
				all = append(all, l)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[arg%len(all)]
}

func (b *roomBooks) begin(l *bookedPlace, movable bool) {
	q := &Request{Movable: movable, Now: b.now}
	q.ready()
	b.do(func() { b.s.begin(l.ticket, q) })
	if q.grant.err == nil {
		l.url, l.ticket, l.reserved = q.grant.url, q.grant.ticket, false
	}
}

// end ends a lease, or everything if there is none or all is to end.
func (b *roomBooks) end(x *bookedRequest, how int) {
	for l := x.place(); l != nil; l = x.place() {
		l.live = false
		b.do(func() { b.s.giveBack(l.ticket, Completed, b.now) })
		if how == 0 {
			return
		}
	}
	if x.admission != (ticket{}) && !x.dismissed {
		x.dismissed = true
		b.do(func() { b.s.dismiss(x.admission, b.now) })
	}
}

func (b *roomBooks) leave(x *bookedRequest) {
	b.do(func() { b.s.leave(x.q.turn) })
	if len(x.q.reply) != 1 || !errors.Is(x.q.grant.err, ErrClientLeft) {
		b.t.Fatalf("whose client left got %d answers, %v, want %v", len(x.q.reply), x.q.grant.err, ErrClientLeft)
	}
	<-x.q.reply
	b.answered(x)
	b.do(func() { b.s.leave(x.q.turn) }) // again: nothing comes of it
	if len(x.q.reply) != 0 {
		b.t.Fatal("answered twice")
	}
}

// collect takes the answers that have come.
func (b *roomBooks) collect() {
	for more := true; more; {
		more = false
		for _, x := range b.waiting() {
			if len(x.q.reply) > 0 {
				<-x.q.reply
				b.answered(x)
				more = true
			}
		}
	}
}

// check looks whether all is as it must be.
func (b *roomBooks) check() {
	t, s := b.t, b.s
	b.collect()
	waiting := b.waiting()
	held := 0
	for _, x := range b.requests {
		if len(x.q.reply) > 0 {
			t.Fatal("answered twice")
		}
		if x.admission != (ticket{}) && !x.dismissed {
			held++
		}
	}
	if v := s.room.view(b.now); v.Admitted != held || v.Admissions-v.Dismissed != uint64(held) || v.Admissions != uint64(len(b.admitted)) {
		t.Fatalf("admitted %d of %d, want %d of %d", v.Admitted, v.Admissions, held, len(b.admitted))
	}
	if s.room.queue.size != len(waiting) || len(waiting) > b.room.QueueSize {
		t.Fatalf("%d wait, want %d, at most %d", s.room.queue.size, len(waiting), b.room.QueueSize)
	}
	if b.room.MaxLive > 0 && held > b.room.MaxLive {
		t.Fatalf("%d admitted, want at most %d", held, b.room.MaxLive)
	}
	b.checkRate()
	for url := range b.workers {
		if n := b.leasesAt(url); b.room.MaxPerWorker > 0 && n > b.room.MaxPerWorker {
			t.Fatalf("%d leases at %s, want at most %d", n, url, b.room.MaxPerWorker)
		}
	}
	for _, x := range waiting {
		if x.deadlineAt <= b.now {
			t.Fatalf("a request waits until %d at %d", x.deadlineAt, b.now)
		}
		if why := b.servable(x, held); why != "" {
			t.Fatalf("a request waits for what is there: %s", why)
		}
		if !b.possible(x) {
			t.Fatalf("nobody can serve what waits: pair %v, role %v, exclude %v, model %s, unsettled %v, key %d, short %d", x.pair, x.q.Role, x.q.Exclude, x.q.Model, s.room.unsettled, len(x.q.Key), x.q.Short)
		}
		for _, y := range waiting {
			if y.came < x.came && y.q.turn == x.q.turn {
				t.Fatal("two wait with one ticket")
			}
		}
	}
}

// checkRate looks at every span of admissions.
func (b *roomBooks) checkRate() {
	if b.room.RatePerSecond == 0 {
		return
	}
	burst := float64(b.room.Burst)
	if burst == 0 {
		burst = 1
	}
	for i, from := range b.admitted {
		if n := float64(len(b.admitted) - i); n > burst+b.room.RatePerSecond*float64(b.now-from)/1e9+1e-6 {
			b.t.Fatalf("%v admitted since %d at %d, want at most %v and %v a second", n, from, b.now, burst, b.room.RatePerSecond)
		}
	}
}

func (b *roomBooks) leasesAt(url string) int {
	n := 0
	for _, x := range b.requests {
		for _, l := range x.leases {
			if l.live && l.url == url {
				n++
			}
		}
	}
	return n
}

// choices are the workers that may serve a request in a role, and those of them
// that have room.
func (b *roomBooks) choices(q *Request, role Role) (able, free []string) {
	asked := "" // of workers that it isn't known of what they serve
	for _, w := range b.workers {
		if w.member && w.spec.Model == string(q.Model) {
			asked = string(q.Model)
		}
	}
	all := func(obey bool) (able, free []string) {
		for url, w := range b.workers {
			if !w.member || !w.healthy || !w.spec.Roles.Has(role) || w.spec.Model != asked ||
				obey && slices.Contains(q.Exclude, b.s.byURL[url]) {
				continue
			}
			able = append(able, url)
			if b.room.MaxPerWorker == 0 || b.leasesAt(url) < b.room.MaxPerWorker {
				free = append(free, url)
			}
		}
		return able, free
	}
	if able, free = all(true); len(able) == 0 {
		able, free = all(false)
	}
	if pinned := b.pinnedAt(q); slices.Contains(able, pinned) && !slices.Contains(free, pinned) {
		free = nil
	}
	return able, free
}

// pinnedAt is the worker that has what a request goes on from, or "".
func (b *roomBooks) pinnedAt(q *Request) string {
	if to, ok := b.s.pins.at[q.Pin]; ok && q.Pin != 0 && b.s.workers[to.worker].epoch == to.epoch {
		return b.s.workers[to.worker].spec.URL
	}
	return ""
}

// waitsForPin reports whether a request waits for the worker that has what it goes on
// from, of those with a role.
func (b *roomBooks) waitsForPin(q *Request, role Role) bool {
	able, free := b.choices(q, role)
	return len(free) == 0 && slices.Contains(able, b.pinnedAt(q))
}

// servable says how a request that waits could be served, if it could.
func (b *roomBooks) servable(x *bookedRequest, held int) string {
	q := x.q
	if x.admission == (ticket{}) || x.dismissed {
		if b.room.MaxLive > 0 && held >= b.room.MaxLive || !b.s.room.rate.has() {
			return ""
		}
	}
	if !q.Beside {
		return b.servableAs(x)
	}
	roles := []Role{q.Role}
	if x.pair {
		roles = []Role{Decode, Prefill}
	}
	if !slices.Contains(roles, Regular) && b.waitsForPin(q, Regular) {
		return ""
	}
	if why := b.servableAs(x); why != "" {
		return why
	}
	for _, role := range roles {
		if b.waitsForPin(q, role) {
			return ""
		}
	}
	if _, free := b.choices(q, Regular); len(free) > 0 {
		return fmt.Sprintf("%v beside", free)
	}
	return ""
}

// servableAs is servable by those of the request's role, or by a pair.
func (b *roomBooks) servableAs(x *bookedRequest) string {
	q := x.q
	if !x.pair {
		if _, free := b.choices(q, q.Role); len(free) > 0 {
			return fmt.Sprintf("%v for %v", free, q.Role)
		}
		return ""
	}
	_, decode := b.choices(q, Decode)
	if len(decode) == 0 {
		return ""
	}
	if len(q.Key) < q.Short {
		return fmt.Sprintf("%v for the whole", decode)
	}
	if _, prefill := b.choices(q, Prefill); len(prefill) > 0 {
		return fmt.Sprintf("%v for prefill and %v for decode", prefill, decode)
	}
	return ""
}

func (b *roomBooks) possible(x *bookedRequest) bool {
	if able, _ := b.choices(x.q, Regular); x.q.Beside && len(able) > 0 {
		return true
	}
	role := x.q.Role
	if x.pair {
		role = Decode
		if able, _ := b.choices(x.q, Prefill); len(x.q.Key) >= x.q.Short && len(able) == 0 {
			return false
		}
	}
	able, _ := b.choices(x.q, role)
	return len(able) > 0
}

// finish sees everything end.
func (b *roomBooks) finish() {
	if b.stopped {
		for _, x := range b.waiting() {
			b.t.Fatalf("a request still waits after the drain: %+v", x.q)
		}
	}
	for range 10_000 {
		live := b.live()
		if len(live) == 0 {
			break
		}
		b.end(live[0], 1)
		b.check()
	}
	b.now += 3600 * second
	b.do(func() { b.s.tick(b.now) })
	b.collect()
	b.check()
	if n := len(b.waiting()); n > 0 {
		b.t.Fatalf("%d still wait when all time is over", n)
	}
	for _, x := range b.live() {
		b.end(x, 1)
	}
	if b.s.room.admitted != 0 || b.s.live != 0 || b.s.refused != 0 {
		b.t.Fatalf("in the end %d admitted, %d leases live, %d refused, want none", b.s.room.admitted, b.s.live, b.s.refused)
	}
}
