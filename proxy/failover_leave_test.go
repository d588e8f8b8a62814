package proxy

import (
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestFailoverClientLeaves: wherever a stream stands between two workers, a client
// that leaves ends what is live, at once, and nothing stays counted.
func TestFailoverClientLeaves(t *testing.T) {
	t.Parallel()
	closes := func(x *proxytest.Exchange) bool { x.Hold(); x.CloseFIN(); return true }
	// begun is a stream whose first worker has died and whose second one has the
	// request for the rest, which script answers.
	begun := func(t *testing.T, script proxytest.Script) (*failoverPair, *proxytest.Client, *proxytest.Worker) {
		p := startFailover(t, failingOver(), 3, closes)
		c := p.post(failoverRequest(chatPath, ""))
		for range 4 {
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
		}
		first, second := p.order()
		second.SetScript(script)
		first.Release()
		second.WaitRequests(1, patience)
		return p, c, second
	}
	// wantLeft fails the test unless the second worker sees its peer leave and both
	// leases have ended as they should.
	wantLeft := func(t *testing.T, p *failoverPair, second *proxytest.Worker) {
		second.WaitInFlight(0, patience)
		if got := second.Seen()[0].Outcome(); got != proxytest.Abandoned {
			t.Errorf("the request ended as %v at the second worker, want abandoned", got)
		}
		p.waitOutcome(actors.UpstreamTruncated, 1)
		p.waitOutcome(actors.ClientGone, 1)
		p.wantIdle(2)
	}
	t.Run("while the second worker has not answered", func(t *testing.T) {
		t.Parallel()
		p, c, second := begun(t, proxytest.Silent)
		p.waitLoad(second, 1)
		c.CloseFIN()
		wantLeft(t, p, second)
	})
	t.Run("before the second worker sends anything new", func(t *testing.T) {
		t.Parallel()
		p, c, second := begun(t, func(x *proxytest.Exchange) { x.SSEHead(); x.Hold() })
		p.eventually("a continuation", func() bool { return p.failovers() == [2]uint64{1, 0} })
		c.Reset()
		wantLeft(t, p, second)
	})
	t.Run("while the second worker streams", func(t *testing.T) {
		t.Parallel()
		p, c, second := begun(t, (&talker{name: "X", hold: 5}).script)
		if _, err := c.ReadEvent(patience); err != nil {
			t.Fatal(err)
		}
		c.CloseFIN()
		wantLeft(t, p, second)
	})
	t.Run("with a full second worker, before another try", func(t *testing.T) {
		t.Parallel()
		o := failingOver()
		o.Retry.InitialBackoff, o.Retry.MaxBackoff = time.Hour, time.Hour
		p := startFailover(t, o, 3, closes)
		c := p.post(failoverRequest(chatPath, ""))
		for range 4 {
			if _, err := c.ReadEvent(patience); err != nil {
				t.Fatal(err)
			}
		}
		first, second := p.order()
		second.SetScript(proxytest.JSON(503, "{}"))
		first.Release()
		p.waitOutcome(actors.Busy, 1)
		p.wantIdle(2)
		if n := p.metrics.inFlight.Get(); n != 1 {
			t.Errorf("%v requests in flight, want 1", n)
		}
		c.CloseFIN()
		p.eventually("a request that is over", func() bool { return p.metrics.inFlight.Get() == 0 })
		p.wantIdle(2)
	})
}

// TestFailoverWaitsForRoom: a stream that is continued waits for room like a retry,
// keeps its admission, and a client that leaves meanwhile leaves the queue.
func TestFailoverWaitsForRoom(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		t.Run(map[bool]string{false: "stays", true: "leaves"}[leaves], func(t *testing.T) {
			t.Parallel()
			o := failingOver()
			o.Router.Room.MaxPerWorker, o.Router.Room.MaxLive = 1, 8
			o.Router.Room.QueueSize, o.Router.Room.QueueTimeout = 8, 20*time.Second
			script := func(x *proxytest.Exchange) {
				if strings.Contains(string(x.Body()), `"stalls"`) {
					stalledUntilReleased(x)
					return
				}
				k := talker{name: "A", at: 3, die: func(x *proxytest.Exchange) bool { x.Hold(); x.Reset(); return true }}
				k.script(x)
			}
			p := &failoverPair{a: proxytest.NewWorker(t, script), b: proxytest.NewWorker(t, script)}
			p.router = startRouter(t, o, p.a, p.b)
			body := failoverRequest(chatPath, "")
			c := p.post(body)
			for range 4 {
				if _, err := c.ReadEvent(patience); err != nil {
					t.Fatal(err)
				}
			}
			first, second := p.order()
			running := p.post(chat("stalls", false))
			second.WaitInFlight(1, patience)
			next := p.post(chat("stalls", false)) // gets the worker that dies, before the stream asks
			p.wait("a request that waits", func(v *actors.Snapshot) bool { return waiting(v) == 1 })
			first.Release()
			first.WaitRequests(2, patience)
			p.wait("a stream that waits", func(v *actors.Snapshot) bool { return waiting(v) == 1 && v.Room.Waits == 2 && v.Live == 2 })
			if leaves {
				c.CloseFIN()
				p.wait("an empty queue", func(v *actors.Snapshot) bool { return waiting(v) == 0 && v.Room.Admitted == 2 })
			}
			second.Release()
			if _, err := running.ReadResponse(patience); err != nil {
				t.Fatal(err)
			}
			if !leaves {
				got, err := c.ReadResponse(patience)
				if err != nil {
					t.Fatal(err)
				}
				wantBytes(t, "the stream", got.Body, whole(t, "A", chatPath, body))
			}
			first.Release()
			if _, err := next.ReadResponse(patience); err != nil {
				t.Fatal(err)
			}
			p.wait("idle workers", func(v *actors.Snapshot) bool { return v.Live == 0 && v.Room.Admitted == 0 })
		})
	}
}

// waiting is how many requests wait for room.
func waiting(v *actors.Snapshot) (n int) {
	for _, w := range v.Room.Waiting {
		n += w
	}
	return n
}

// stalledUntilReleased answers, but not before it is released.
func stalledUntilReleased(x *proxytest.Exchange) {
	if x.Hold() {
		proxytest.JSON(200, "{}")(x)
	}
}
