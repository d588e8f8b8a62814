package proxy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// The tests named TestCaseB… answer one kind of public fault report each, by
// its number in the list of kinds. They test the kind on this router, not the
// report.

const chatPath = "/v1/chat/completions"

// ask sends one POST on a connection of its own. The answer must end as it
// promised.
func ask(t testing.TB, r *router, path, body string, headers ...proxytest.Header) *proxytest.Response {
	t.Helper()
	return proxytest.Do(t, r.addr, proxytest.Request{Method: "POST", Target: path, Body: body, Headers: append([]proxytest.Header{jsonType}, headers...)})
}

// want200 fails the test unless resp is a 200 with this body.
func want200(t testing.TB, resp *proxytest.Response, body string) {
	t.Helper()
	if resp.Status != 200 || string(resp.Body) != body {
		t.Errorf("answer %d %.200q, want 200 %.200q", resp.Status, resp.Body, body)
	}
}

// theRequest is the only request that the worker has seen.
func theRequest(t testing.TB, w *proxytest.Worker) *proxytest.Exchange {
	t.Helper()
	seen := w.Seen()
	if len(seen) != 1 {
		t.Fatalf("the worker saw %d requests, want 1", len(seen))
	}
	return seen[0]
}

// wantBytes fails the test unless got is want, and says where they part.
func wantBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-20)
	t.Errorf("%s differs at byte %d of %d: %.60q, want %.60q of %d bytes", what, i, len(got), got[from:], want[from:], len(want))
}

// wantValues fails the test unless a message has a header exactly these times.
func wantValues(t testing.TB, hs interface{ Values(string) []string }, name string, want ...string) {
	t.Helper()
	if got := hs.Values(name); !slices.Equal(got, want) {
		t.Errorf("%s: %.200q, want %.200q", name, got, want)
	}
}

// lines are header lines as they stand in a message, without those called drop
// in any case.
func lines(hs []proxytest.Header, drop ...string) []string {
	var all []string
	for _, h := range hs {
		if !slices.ContainsFunc(drop, func(d string) bool { return strings.EqualFold(d, h.Name) }) {
			all = append(all, h.Name+": "+h.Value)
		}
	}
	return all
}

// framing is how a message says where its body ends, "" if by nothing.
func framing(hs []proxytest.Header) string {
	var all []string
	for _, h := range hs {
		if strings.EqualFold(h.Name, "Content-Length") || strings.EqualFold(h.Name, "Transfer-Encoding") {
			all = append(all, h.Name+": "+h.Value)
		}
	}
	return strings.Join(all, ", ")
}

// wantLines fails the test unless the header lines are these, in this order.
func wantLines(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: headers\n  %.2000s\nwant\n  %.2000s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// once is testOptions with a policy and without retries.
func once() Options {
	o := testOptions("cache_aware")
	o.Retry.MaxAttempts = 1
	return o
}

// outcome is how many leases have ended with a cause, over all workers.
func (r *router) outcome(c actors.Cause) uint64 {
	v := r.snapshot()
	n := uint64(0)
	for i := range v.Workers {
		n += v.Workers[i].Outcomes[c]
	}
	return n
}

// together runs f(0) to f(n-1) at once and waits for all.
func together(n int, f func(i int)) {
	done := make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			f(i)
		}()
	}
	for range n {
		<-done
	}
}
