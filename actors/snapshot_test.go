package actors

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A snapshot is a copy: what is done to it, or later to the registry, doesn't
// reach the other.
func TestSnapshotIsACopy(t *testing.T) {
	r := fleet(t, "round_robin", 2)
	l := acquire(t, r, Request{})
	before := snap(t, r)
	for i := range before.Workers {
		w := &before.Workers[i]
		w.Load, w.InPhase[Plain], w.Member, w.Healthy = 99, 99, false, false
	}
	l.Release(Completed, 0)
	if got := before.Live; got != 1 {
		t.Errorf("live in the earlier snapshot = %d, want 1", got)
	}
	for _, w := range snap(t, r).Workers {
		if w.Load != 0 || w.InPhase[Plain] != 0 || !w.Member || !w.Healthy {
			t.Errorf("%s = %+v, want an idle healthy member", w.URL, w)
		}
	}
}

// Looking doesn't change who may get requests: an open breaker whose time is
// over shows as half open, as the next request will find it.
func TestSnapshotShowsBreakerAsItIs(t *testing.T) {
	o := options("round_robin")
	r := start(t, o)
	join(t, r, spec(base(0)))
	trip(t, r, o, base(0))
	for _, tc := range []struct {
		now    time.Duration
		want   BreakerState
		usable bool
	}{
		{0, BreakerOpen, false},
		{o.Breaker.Timeout - 1, BreakerOpen, false},
		{o.Breaker.Timeout, BreakerHalfOpen, true},
	} {
		s, err := r.Snapshot(int64(tc.now))
		if err != nil {
			t.Fatalf("Snapshot: %v", err)
		}
		if w := &s.Workers[0]; w.Breaker != tc.want || w.Usable() != tc.usable {
			t.Errorf("after %v: breaker = %v, usable = %v, want %v, %v", tc.now, w.Breaker, w.Usable(), tc.want, tc.usable)
		}
	}
}

// What a snapshot tells of a worker is what it was added with.
func TestSnapshotTellsTheSpec(t *testing.T) {
	r := start(t, options("round_robin"))
	added := Spec{
		URL: base(0), Base: base(0), Rank: NoRank, Model: "m", Priority: 3, Cost: 2.5,
		Labels: map[string]string{"zone": "a"}, Handle: 7,
	}
	add(t, r, added)
	if got := view(t, r, base(0)).Spec; fmt.Sprint(got) != fmt.Sprint(added) {
		t.Errorf("spec = %v, want %v", got, added)
	}
	add(t, r, spec(base(1)))
	if got := view(t, r, base(1)); got.Cost != 1 || got.Model != AnyModel || got.Reason != "not checked yet" {
		t.Errorf("defaults: cost = %v, model = %q, reason = %q, want 1, %q, not checked yet", got.Cost, got.Model, got.Reason, AnyModel)
	}
}

// The names are labels of metrics and fields of the admin API.
func TestNames(t *testing.T) {
	for _, tc := range []struct {
		got  fmt.Stringer
		want string
	}{
		{Plain, "plain"},
		{Reserved, "reserved"},
		{Prefilling, "prefill"},
		{Decoding, "decode"},
		{Regular, "regular"},
		{Prefill, "prefill"},
		{Decode, "decode"},
		{BreakerClosed, "closed"},
		{BreakerOpen, "open"},
		{BreakerHalfOpen, "half_open"},
	} {
		if got := tc.got.String(); got != tc.want {
			t.Errorf("name = %q, want %q", got, tc.want)
		}
	}
}

// A snapshot into memory that is large enough uses it, and nothing of what was there
// is left.
func TestSnapshotInto(t *testing.T) {
	r := fleet(t, "round_robin", 3)
	acquireN(t, r, 4)
	want := snap(t, r)
	memory := make([]WorkerView, 5)
	for i := range memory {
		memory[i] = WorkerView{Spec: Spec{URL: "old", Labels: map[string]string{"old": "yes"}}, Reason: "old", Granted: 99, Load: 99, Wedged: true}
	}
	for _, into := range [][]WorkerView{memory, memory[:0], make([]WorkerView, 2), nil} {
		got, err := r.SnapshotInto(into, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Workers, want.Workers) {
			t.Errorf("the workers are %+v, want %+v", got.Workers, want.Workers)
		}
		if uses := cap(into) > 0 && &got.Workers[0] == &into[:1][0]; uses != (cap(into) >= 3) {
			t.Errorf("memory for %d is used: %v, want it used if it holds 3", cap(into), uses)
		}
	}
}
