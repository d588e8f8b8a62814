package proxy

import (
	"testing"
	"time"

	"loadstar/proxy/proxytest"
)

// TestRequestsThatMayNotRunTwice: a worker that takes a request up and dies without
// an answer looks like one whose connection was stale. What isn't generation may
// have done something by then, and so is sent once.
func TestRequestsThatMayNotRunTwice(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		want         int // requests that reach the worker
	}{
		{"POST", "/v1/files", 1},
		{"POST", "/v1/responses", 1},
		{"DELETE", "/v1/files/1", 1},
		{"GET", "/v1/files", 2},
		{"POST", chatPath, 2},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			r := startRouter(t, once(), w)
			if got := r.call("GET", "/warm", ""); got.Status != 200 {
				t.Fatalf("status %d", got.Status)
			}
			before := w.Requests()
			w.SetScript(func(x *proxytest.Exchange) {
				x.ReadBody()
				x.CloseFIN()
			})
			wantProblem(t, r.call(tc.method, tc.path, ""), 502, "upstream_closed")
			if got := w.Requests() - before; got != tc.want {
				t.Errorf("the worker got it %d times, want %d", got, tc.want)
			}
			w.SetScript(proxytest.JSON(200, "{}"))
			want200(t, r.call(tc.method, tc.path, ""), "{}")
		})
	}
}

// TestErrorThatDoesNotEnd: while another worker could answer, nobody waits for the
// rest of an error.
func TestErrorThatDoesNotEnd(t *testing.T) {
	bad := proxytest.NewWorker(t, func(x *proxytest.Exchange) {
		x.Head(503, jsonType, proxytest.H("Content-Length", "200"))
		x.Raw("{")
		x.Hold()
	})
	good := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"), bad, good)
	for range 2 { // one of them meets the bad one first
		got, err := proxytest.Try(r.addr, proxytest.Request{Method: "POST", Target: chatPath, Body: chat("hi", false)}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want200(t, got, "{}")
	}
	if bad.Requests() == 0 {
		t.Error("the bad worker got no request, so nothing was tested")
	}
}
