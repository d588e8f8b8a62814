package proxy

import (
	"errors"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"

	"golang.org/x/sys/unix"
)

// TestOutOfDescriptors: a worker that can't be reached for want of a descriptor
// here is not to blame: not to its breaker, and not to its check. The client is
// told, and its next request is served when there are some again.
func TestOutOfDescriptors(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.Timeouts.PoolIdle = 0 // each request dials
	o.Router.Breaker.FailureThreshold = 1
	r := startRouter(t, o, w)
	c := proxytest.Dial(t, r.addr)
	post := func() *proxytest.Response {
		t.Helper()
		if err := c.Post(chatPath, chat("hi", false), jsonType); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want200(t, post(), "{}")

	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: was.Max} // those that are open stay open
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer restore()
	for range 3 {
		got := post()
		wantProblem(t, got, 503, "router_exhausted")
		if got.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q, want 1", got.Get("Retry-After"))
		}
	}
	check := r.checkOf(&server{site: newSite(w.URL()), sized: true})
	if err := check(t.Context()); !errors.Is(err, actors.ErrNoVerdict) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("a check ends with %v, want %v and %v", err, actors.ErrNoVerdict, unix.EMFILE)
	}
	restore()
	want200(t, post(), "{}")
	if n := r.outcome(actors.RouterExhausted); n != 3 {
		t.Errorf("%d leases ended as %v, want 3: it is not tried again", n, actors.RouterExhausted)
	}
}
