package actors

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// askBreaker asks a breaker as the registry does, and reports what it permits.
func askBreaker(b *breaker, o *BreakerOptions, now int64) bool {
	if b.due(o, now) {
		b.move(BreakerHalfOpen)
	}
	return b.permits(o)
}

// tellBreaker tells a breaker of a lease's end as the registry does, and reports if its
// state has changed.
func tellBreaker(b *breaker, o *BreakerOptions, v verdict, trial bool, now int64) bool {
	to := b.record(o, v, trial, now)
	if to == b.state {
		return false
	}
	b.move(to)
	return true
}

func TestBreaker(t *testing.T) {
	const (
		closed, open, half = BreakerClosed, BreakerOpen, BreakerHalfOpen
		s                  = second
	)
	// Failures that open it: 3, none older than 10 s. Open for 30 s. Then 2
	// successes close it.
	usual := BreakerOptions{FailureThreshold: 3, SuccessThreshold: 2, Window: 10 * time.Second, Timeout: 30 * time.Second}
	with := func(set func(o *BreakerOptions)) BreakerOptions {
		o := usual
		set(&o)
		return o
	}
	type step struct {
		at      int64
		do      string // good, bad, neutral or ask
		want    BreakerState
		moved   bool // record's answer; what may be asked at all is permits
		permits bool // permits' answer, for ask
	}
	works := func(at int64, want BreakerState) step { return step{at: at, do: "good", want: want} }
	fails := func(at int64, want BreakerState) step { return step{at: at, do: "bad", want: want} }
	neither := func(at int64, want BreakerState) step { return step{at: at, do: "neutral", want: want} }
	moves := func(x step) step { x.moved = true; return x }
	asks := func(at int64, want BreakerState, permits bool) step {
		return step{at: at, do: "ask", want: want, permits: permits}
	}
	tripped := []step{fails(0, closed), fails(0, closed), moves(fails(0, open))}

	for _, tc := range []struct {
		name  string
		o     BreakerOptions
		steps []step
	}{
		{"closed permits", usual, []step{asks(0, closed, true)}},
		{"opens at the threshold", usual, []step{fails(0, closed), fails(1*s, closed), asks(1*s, closed, true), moves(fails(2*s, open)), asks(2*s, open, false)}},
		{"a success starts the count anew", usual, []step{fails(0, closed), fails(0, closed), works(0, closed), works(0, closed), works(0, closed), works(0, closed), works(0, closed), fails(0, closed), fails(0, closed), moves(fails(0, open))}},
		{"opens when half of the outcomes are failures", usual, []step{works(0, closed), fails(0, closed), works(0, closed), fails(0, closed), works(0, closed), moves(fails(0, open))}},
		{"neutral outcomes hide no failures", usual, []step{fails(0, closed), neither(0, closed), works(0, closed), neither(0, closed), fails(0, closed), works(0, closed), neither(0, closed), moves(fails(0, open))}},
		{"fewer than half are borne", usual, []step{works(0, closed), works(0, closed), fails(0, closed), works(0, closed), fails(0, closed), works(0, closed), fails(0, closed), works(0, closed), works(0, closed), fails(0, closed)}},
		{"half, but fewer than the threshold, are borne", usual, []step{fails(0, closed), works(0, closed), fails(0, closed), works(0, closed), works(0, closed)}},
		{"outcomes older than the window are in no share", usual, []step{fails(0, closed), works(0, closed), fails(0, closed), works(0, closed), fails(11*s, closed), works(11*s, closed), fails(11*s, closed), works(11*s, closed), moves(fails(11*s, open))}},
		{"old successes hide no failures", usual, []step{works(0, closed), works(0, closed), works(0, closed), works(0, closed), works(0, closed), works(0, closed), fails(11*s, closed), works(11*s, closed), fails(11*s, closed), works(11*s, closed), moves(fails(11*s, open))}},
		{"no window forgets no share", with(func(o *BreakerOptions) { o.Window = 0 }), []step{fails(0, closed), works(0, closed), fails(3600*s, closed), works(7200*s, closed), moves(fails(9999*s, open))}},
		{"neutral counts as nothing", usual, []step{fails(0, closed), neither(0, closed), fails(0, closed), neither(0, closed), moves(fails(0, open))}},
		{"failures older than the window are forgotten", usual, []step{fails(0, closed), fails(1*s, closed), fails(11*s, closed), fails(12*s, closed), moves(fails(13*s, open))}},
		{"the window's edge still counts", usual, []step{fails(0, closed), fails(5*s, closed), moves(fails(10*s, open))}},
		{"no window forgets nothing", with(func(o *BreakerOptions) { o.Window = 0 }), []step{fails(0, closed), fails(3600*s, closed), moves(fails(7200*s, open))}},
		{"one failure is enough", with(func(o *BreakerOptions) { o.FailureThreshold = 1 }), []step{moves(fails(0, open))}},
		{"open until its time is over", usual, append(slices.Clone(tripped), asks(1, open, false), asks(30*s-1, open, false), asks(30*s, half, true))},
		{"open learns nothing", usual, append(slices.Clone(tripped), works(1*s, open), works(1*s, open), fails(29*s, open), asks(30*s, half, true))},
		{"half open closes after the successes", usual, append(slices.Clone(tripped), asks(30*s, half, true), works(31*s, half), neither(31*s, half), moves(works(32*s, closed)), asks(32*s, closed, true))},
		{"half open opens at the first failure, for the whole time", usual, append(slices.Clone(tripped), asks(30*s, half, true), works(31*s, half), moves(fails(32*s, open)), asks(61*s, open, false), asks(62*s, half, true), works(62*s, half), moves(works(62*s, closed)))},
		{"closed again counts failures from zero", usual, append(slices.Clone(tripped), asks(30*s, half, true), works(30*s, half), moves(works(30*s, closed)), fails(30*s, closed), fails(30*s, closed), moves(fails(30*s, open)))},
		{"disabled never opens", with(func(o *BreakerOptions) { o.Disabled = true }), []step{fails(0, closed), fails(0, closed), fails(0, closed), fails(0, closed), asks(0, closed, true)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b breaker
			var counted [2]uint64
			verdicts := map[string]verdict{"good": good, "bad": bad, "neutral": neutral}
			for i, x := range tc.steps {
				if x.do == "ask" {
					if got := askBreaker(&b, &tc.o, x.at); got != x.permits {
						t.Errorf("step %d: permits = %v, want %v", i, got, x.permits)
					}
				} else {
					v := verdicts[x.do]
					if got := tellBreaker(&b, &tc.o, v, true, x.at); got != x.moved {
						t.Errorf("step %d: record(%s) = %v, want %v", i, x.do, got, x.moved)
					}
					if v != neutral {
						counted[v-good]++
					}
				}
				if b.state != x.want {
					t.Fatalf("step %d (%s): state = %v, want %v", i, x.do, b.state, x.want)
				}
			}
			if b.outcomes != counted {
				t.Errorf("outcomes = %v, want %v: all but neutral ones, in every state", b.outcomes, counted)
			}
		})
	}
}

func TestBreakerCountsMoves(t *testing.T) {
	o := BreakerOptions{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second}
	var b breaker
	for i := range int64(3) {
		tellBreaker(&b, &o, bad, false, i*10*second)
		askBreaker(&b, &o, i*10*second+second)
		tellBreaker(&b, &o, good, true, i*10*second+second)
	}
	var want [numBreakerStates][numBreakerStates]uint64
	want[BreakerClosed][BreakerOpen] = 3
	want[BreakerOpen][BreakerHalfOpen] = 3
	want[BreakerHalfOpen][BreakerClosed] = 3
	if b.moves != want {
		t.Errorf("moves = %v, want %v", b.moves, want)
	}
}

// While it is half open, only trial requests decide.
func TestLateOutcomesDecideNothing(t *testing.T) {
	o := BreakerOptions{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second}
	var b breaker
	tellBreaker(&b, &o, bad, false, 0)
	askBreaker(&b, &o, second)
	for _, v := range []verdict{good, bad} {
		if tellBreaker(&b, &o, v, false, second) || b.state != BreakerHalfOpen {
			t.Errorf("verdict %v of a lease granted before: state = %v, want half_open", v, b.state)
		}
	}
	if !tellBreaker(&b, &o, good, true, second) || b.state != BreakerClosed {
		t.Errorf("a trial that went well: state = %v, want closed", b.state)
	}
}

// trip opens a worker's breaker at time 0.
func trip(t *testing.T, r *Registry, o Options, url string) {
	t.Helper()
	for range o.Breaker.FailureThreshold {
		l := acquire(t, r, Request{})
		l.Release(ConnectFailed, 0)
	}
	if got := view(t, r, url).Breaker; got != BreakerOpen {
		t.Fatalf("breaker of %s = %v after %d failures, want open", url, got, o.Breaker.FailureThreshold)
	}
}

// A half-open worker has no more trial requests at a time than successes it
// needs. They are counted by their leases, so that one which ends in whatever
// way makes room, and one that is never returned holds its place.
func TestHalfOpenTrials(t *testing.T) {
	o := options("round_robin")
	o.Breaker.SuccessThreshold = 3
	r := start(t, o)
	url := base(0)
	join(t, r, spec(url))
	trip(t, r, o, url)
	now := int64(o.Breaker.Timeout)
	refused := func(when string) {
		t.Helper()
		if _, err := r.Acquire(&Request{Now: now}); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Acquire %s: %v, want %v", when, err, ErrNoWorker)
		}
	}
	now--
	refused("before the timeout")
	now++
	var trials []Lease
	for range 3 {
		trials = append(trials, acquire(t, r, Request{Now: now}))
	}
	refused("beyond the trial limit")
	now += 3600 * second
	refused("an hour later: no timer gives a trial's place away")

	trials[0].Release(ClientGone, now) // neither good nor bad
	trials[0] = acquire(t, r, Request{Now: now})
	refused("beyond the trial limit again")
	trials[0].Release(ClientGone, now)
	trials[0].Release(ClientGone, now) // refused: frees no second place
	trials[0] = acquire(t, r, Request{Now: now})
	refused("after a release that was refused")

	trials[0].Release(Completed, now)
	trials[1].Release(Completed, now)
	if got := view(t, r, url).Breaker; got != BreakerHalfOpen {
		t.Errorf("breaker = %v after 2 successes of 3, want half_open", got)
	}
	trials[2].Release(Completed, now)
	if got := view(t, r, url).Breaker; got != BreakerClosed {
		t.Errorf("breaker = %v after 3 successes, want closed", got)
	}
	leases := acquireN(t, r, 10) // no limit any more
	for i := range leases {
		leases[i].Release(Completed, now)
	}
	wantLoad(t, r, url, 0)
}

// Trials that are still out when the breaker opens again hold their places in
// the next half-open time too.
func TestTrialsOutliveReopening(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	url := base(0)
	join(t, r, spec(url))
	trip(t, r, o, url)
	now := int64(o.Breaker.Timeout)
	slow, quick := acquire(t, r, Request{Now: now}), acquire(t, r, Request{Now: now})
	quick.Release(UpstreamReset, now)
	if got := view(t, r, url).Breaker; got != BreakerOpen {
		t.Fatalf("breaker = %v after a failed trial, want open", got)
	}
	now += int64(o.Breaker.Timeout)
	next := acquire(t, r, Request{Now: now})
	if _, err := r.Acquire(&Request{Now: now}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("Acquire with one old and one new trial out: %v, want %v", err, ErrNoWorker)
	}
	slow.Release(ClientGone, now)
	last := acquire(t, r, Request{Now: now})
	next.Release(Completed, now)
	last.Release(Completed, now)
	if got := view(t, r, url).Breaker; got != BreakerClosed {
		t.Errorf("breaker = %v, want closed", got)
	}
	wantLoad(t, r, url, 0)
}

// An open breaker keeps a worker out while others exist, touches no load, and
// its moves are told.
func TestOpenBreakerKeepsWorkerOut(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	join(t, r, spec(base(0)))
	held := acquire(t, r, Request{})
	drainEvents(r)
	trip(t, r, o, base(0))
	join(t, r, spec(base(1)))
	wantOnly(t, chosen(t, r, Request{}, 8), base(1))
	wantLoad(t, r, base(0), 1)
	if v := view(t, r, base(0)); v.Usable() {
		t.Error("a worker with an open breaker is usable, want not")
	}
	want := Event{Kind: BreakerMoved, URL: base(0), Detail: "open", Load: 1, InRow: 5, Failures: 5}
	if events := drainEvents(r); !slices.Contains(events, want) {
		t.Errorf("events = %v, want %v among them", events, want)
	}
	held.Release(Completed, 0)
	wantLoad(t, r, base(0), 0)
}

// All the causes, and what a breaker learns of each.
func TestCauses(t *testing.T) {
	want := map[Cause]struct {
		name string
		v    verdict
	}{
		Aborted:           {"aborted", neutral},
		Completed:         {"completed", good},
		ClientError:       {"client_error", neutral},
		Busy:              {"busy", neutral},
		ServerError:       {"server_error", bad},
		ClientGone:        {"client_gone", neutral},
		ConnectFailed:     {"connect_failed", bad},
		RouterExhausted:   {"router_exhausted", neutral},
		UpstreamReset:     {"upstream_reset", bad},
		UpstreamTimeout:   {"upstream_timeout", bad},
		UpstreamInvalid:   {"upstream_invalid", bad},
		UpstreamTruncated: {"upstream_truncated", bad},
		StreamFailed:      {"stream_failed", bad},
		Moved:             {"moved", neutral},
	}
	all := Causes()
	if len(all) != len(want) {
		t.Errorf("%d causes, want %d", len(all), len(want))
	}
	o := options("round_robin")
	for _, c := range all {
		w := want[c]
		if got := c.String(); got != w.name {
			t.Errorf("cause %d is %q, want %q", c, got, w.name)
		}
		if got := c.verdict(); got != w.v {
			t.Errorf("verdict of %v = %d, want %d", c, got, w.v)
		}
		r := start(t, o)
		join(t, r, spec(base(0)))
		for range 2 * o.Breaker.FailureThreshold {
			if l, err := r.Acquire(&Request{}); err == nil {
				l.Release(c, 0)
			}
		}
		v := view(t, r, base(0))
		if got := v.Breaker == BreakerOpen; got != (w.v == bad) {
			t.Errorf("breaker open after many times %v = %v, want %v", c, got, w.v == bad)
		}
		wantLoad(t, r, base(0), 0)
	}
}

func TestCauseOf(t *testing.T) {
	for status, want := range map[int]Cause{
		200: Completed, 204: Completed, 304: Completed, 399: Completed,
		400: ClientError, 404: ClientError, 428: ClientError, 430: ClientError, 499: ClientError,
		429: Busy, 503: Busy,
		500: ServerError, 502: ServerError, 504: ServerError, 599: ServerError,
	} {
		if got := CauseOf(status); got != want {
			t.Errorf("CauseOf(%d) = %v, want %v", status, got, want)
		}
	}
}

func TestDisabledBreaker(t *testing.T) {
	o := options("round_robin")
	o.Breaker.Disabled = true
	r := start(t, o)
	join(t, r, spec(base(0)))
	for range 50 {
		l := acquire(t, r, Request{})
		l.Release(ServerError, 0)
	}
	v := view(t, r, base(0))
	if v.Breaker != BreakerClosed || v.CBBad != 50 || v.CBGood != 0 {
		t.Errorf("breaker = %v after %d failures and %d successes, want closed after 50 and 0", v.Breaker, v.CBBad, v.CBGood)
	}
}

// The events of a breaker say what moved it.
func TestBreakerEventsCount(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	join(t, r, spec(base(0)))
	end := func(c Cause, now int64) {
		t.Helper()
		l := acquire(t, r, Request{Now: now})
		l.Release(c, now)
	}
	for range 4 {
		end(Completed, 0)
		end(UpstreamReset, 0)
		end(ClientError, 0)
	}
	drainEvents(r)
	end(ServerError, 0)
	now := int64(o.Breaker.Timeout)
	end(Completed, now)
	end(ServerError, now)
	now *= 2
	end(Completed, now)
	end(Completed, now)
	move := func(to BreakerState) Event { return Event{Kind: BreakerMoved, URL: base(0), Detail: to.String()} }
	opened, failed, closed := move(BreakerOpen), move(BreakerOpen), move(BreakerClosed)
	opened.InRow, opened.Failures, opened.Successes = 2, 5, 4
	failed.InRow, failed.Failures, failed.Successes = 1, 1, 1
	closed.Successes = 2
	half := move(BreakerHalfOpen)
	want := []Event{opened, half, failed, half, closed}
	view(t, r, base(0)) // all of it has happened
	if got := drainEvents(r); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
}
