package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// TestParked: of streams that their worker can't begin yet the short ones are sent
// first, whoever leaves meanwhile was never at the worker, and none of them is load
// until it is sent.
func TestParked(t *testing.T) {
	t.Parallel()
	w := proxytest.NewWorker(t, controlCalls(func(x *proxytest.Exchange) {
		x.ReadBody()
		if x.SSEHead() && x.Hold() && x.Event(`{"choices":[]}`) && x.Hold() {
			x.Done()
		}
	}))
	o := testOptions("least_work")
	o.Router.Backlog = actors.BacklogOptions{Blocks: 4, Requests: 1, Patience: time.Hour}
	r := startRouter(t, o, w)
	parked := func(n int) {
		t.Helper()
		r.wait(fmt.Sprint("a load of 1 and ", n, " parked"), func(v *actors.Snapshot) bool {
			return v.Room.Parked == n && v.Workers[0].Load == 1
		})
	}
	r.post(chat(strings.Repeat("first ", 200), true))
	first := nthGeneration(t, w, 0)
	long := r.post(chat(strings.Repeat("long ", 400), true))
	parked(1)
	leaves := r.post(chat("leaves", true))
	parked(2)
	r.post(chat(strings.Repeat("short ", 60), true))
	parked(3)
	if got := r.scrape()["loadstar_parked_requests"]; got != 3 {
		t.Errorf("the metric tells of %v parked, want 3", got)
	}
	leaves.CloseFIN()
	parked(2)
	r.waitOutcome(actors.ClientGone, 1)

	first.Release() // its first byte
	short := nthGeneration(t, w, 1)
	if got := string(short.Body()); !strings.Contains(got, "short") {
		t.Fatalf("sent next: %.80q, want the short one", got)
	}
	first.Release()
	parked(1)
	long.CloseFIN()
	parked(0)
	short.Release()
	short.Release()
	r.waitLoad(w, 0)
	if got := len(generations(w)); got != 2 {
		t.Errorf("%d requests at the worker, want those two that were answered", got)
	}
}
