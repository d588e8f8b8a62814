package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A retry waits for another worker while there is one, though the worker that
// failed it is free.
func TestRetryWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 2, RoomOptions{MaxPerWorker: 1, QueueSize: 4, QueueTimeout: time.Minute})
		busy := r.call(&Request{})
		wantAnswer(t, busy, nil)
		failed := r.call(&Request{})
		wantAnswer(t, failed, nil)
		failed.lease.Release(ConnectFailed, 0)
		failed.q.Exclude = []WorkerID{failed.lease.Worker}
		again := r.call(failed.q)
		if !again.waits() {
			t.Fatalf("served at %s, which has just failed", again.lease.URL)
		}
		busy.lease.Release(Completed, 0)
		wantAnswer(t, again, nil)
		if again.lease.URL != busy.lease.URL {
			t.Errorf("served at %s, want %s", again.lease.URL, busy.lease.URL)
		}
	})
}

// When a worker comes that is for one model alone, requests that were alike are so
// no more, and none waits behind one that may not have what it may.
func TestNewModelPartsLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{MaxPerWorker: 1, QueueSize: 8, QueueTimeout: time.Minute})
		running := r.call(&Request{})
		first := r.call(&Request{Model: []byte("x")})
		second := r.call(&Request{Model: []byte("x")})
		other := r.call(&Request{Model: []byte("y")})
		onLoop(t, r, func(s *state) { // at once: while nobody is well who has the model, nobody has it
			if _, err := s.add([]Spec{{URL: base(1), Base: base(1), Rank: NoRank, Model: "x"}}); err != nil {
				t.Error(err)
			}
			s.reportHealth(base(1), "")
		})
		wantAnswer(t, first, nil)
		running.lease.Release(Completed, 0)
		wantAnswer(t, other, nil)
		if !second.waits() {
			t.Errorf("served at %s, want it to wait for the worker of its model", second.lease.URL)
		}
		first.lease.Release(Completed, 0)
		wantAnswer(t, second, nil)
	})
}

// When a worker tells that it serves another model, those who wait for that are
// served there, and those who waited for what it served are told.
func TestToldModelsReachThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 2, RoomOptions{MaxPerWorker: 1, QueueSize: 8, QueueTimeout: time.Minute})
		tellModels(t, r, base(0), true, "x")
		tellModels(t, r, base(1), true, "y")
		busy := r.call(&Request{Model: []byte("x")})
		waits, other := r.call(&Request{Model: []byte("x")}), r.call(&Request{Model: []byte("x")})
		if !waits.waits() || !other.waits() {
			t.Fatal("served at once, want both to wait for the only worker of their model")
		}
		tellModels(t, r, base(1), true, "y", "x")
		wantAnswer(t, waits, nil)
		if waits.lease.URL != base(1) {
			t.Errorf("served at %s, want %s", waits.lease.URL, base(1))
		}
		tellModels(t, r, base(0), true, "y")
		if !other.waits() {
			t.Fatal("told, want it to wait for the worker that is left")
		}
		tellModels(t, r, base(1), true, "y")
		wantAnswer(t, other, ErrNoModel)
		busy.lease.Release(Completed, 0)
		waits.lease.Release(Completed, 0)
	})
}

// Nobody waits behind one who waits for other workers: who asks for a model that one
// has told since, who asks for one that nobody has told, and who asks for none.
func TestToldModelsPartLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 2, RoomOptions{MaxPerWorker: 1, QueueSize: 8, QueueTimeout: time.Minute})
		a, b := r.call(&Request{}), r.call(&Request{})
		if a.lease.URL != base(1) {
			a, b = b, a
		}
		unknown, named := r.call(&Request{Model: []byte("q")}), r.call(&Request{Model: []byte("p")})
		tellModels(t, r, base(1), true, "p")
		none := r.call(&Request{})
		a.lease.Release(Completed, 0)
		wantAnswer(t, named, nil)
		if !unknown.waits() || !none.waits() || named.lease.URL != base(1) {
			t.Fatalf("served at %s, want %s, and the others to wait", named.lease.URL, base(1))
		}
		named.lease.Release(Completed, 0)
		wantAnswer(t, none, nil)
		if !unknown.waits() {
			t.Fatalf("served at %s, want it to wait for the worker that takes any model", unknown.lease.URL)
		}
		b.lease.Release(Completed, 0)
		wantAnswer(t, unknown, nil)
		none.lease.Release(Completed, 0)
		unknown.lease.Release(Completed, 0)
	})
}

// Who waits for a model that nobody serves any more is told so, though there be no
// room for anybody.
func TestToldModelsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomy(t, 1, RoomOptions{MaxLive: 1, QueueSize: 8, QueueTimeout: time.Minute})
		running, waits := r.call(&Request{}), r.call(&Request{Model: []byte("x")})
		tellModels(t, r, base(0), true, "y")
		wantAnswer(t, waits, ErrNoModel)
		running.end(0)
	})
}

// quietRoom is a registry's state whose clock never ticks: time is told by
// requests and returns alone.
func quietRoom(t *testing.T, room RoomOptions) (s *state, come func(now int64) *Request) {
	t.Helper()
	o := options("power_of_two")
	room.Now = func() int64 { return 0 }
	o.Room = room
	s, err := newState(o, make(chan Event, eventsSize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.add([]Spec{spec(base(0))}); err != nil {
		t.Fatal(err)
	}
	s.reportHealth(base(0), "")
	return s, func(now int64) *Request {
		q := &Request{Now: now}
		q.ready()
		s.arrive(q, q.reply, false)
		<-q.reply
		return q
	}
}

// Who comes when time has made room doesn't get it before who waits.
func TestArrivalDoesNotOvertake(t *testing.T) {
	const sec = int64(time.Second)
	_, come := quietRoom(t, RoomOptions{RatePerSecond: 1, Burst: 1, QueueSize: 4, QueueTimeout: time.Minute})
	come(0)
	second := come(1)
	third := come(2 * sec)
	if len(second.reply) != 1 || second.grant.err != nil {
		t.Errorf("who waited has %d answers, %v, want a lease", len(second.reply), second.grant.err)
	}
	if !third.queued || len(third.reply) > 0 {
		t.Error("who came last was served, want it to wait")
	}
}

// Nobody is served whose time is over, be the tick late.
func TestServesNobodyTooLate(t *testing.T) {
	const sec = int64(time.Second)
	s, come := quietRoom(t, RoomOptions{MaxLive: 1, QueueSize: 4, QueueTimeout: time.Second})
	first := come(0)
	second := come(1)
	now := 5 * sec
	s.giveBack(first.grant.ticket, Completed, now)
	s.dismiss(first.pass, now)
	s.callIn()
	if len(second.reply) != 1 || !errors.Is(second.grant.err, ErrQueueTimeout) {
		t.Errorf("%d answers, %v, want %v", len(second.reply), second.grant.err, ErrQueueTimeout)
	}
	if s.room.admitted != 0 {
		t.Errorf("%d admitted, want none", s.room.admitted)
	}
}
