package proxy

import (
	"strings"
	"testing"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
)

// prefillsAt is the prompt work that stands before a worker, in blocks, and the
// number of its prefills, those of all its ranks together.
func (r *router) prefillsAt(w *proxytest.Worker) (pending, leases int) {
	v := r.snapshot()
	for i := range v.Workers {
		if k := &v.Workers[i]; strings.HasPrefix(k.URL, w.URL()) {
			pending += k.Pending
			leases += k.InPhase[actors.Prefilling]
		}
	}
	return pending, leases
}

// answerInTwo answers with a JSON body, of which it holds back all but the head until
// the second release.
func answerInTwo(body string) proxytest.Script {
	return controlCalls(func(x *proxytest.Exchange) {
		if !x.Hold() {
			return
		}
		x.Head(200, jsonType, proxytest.H("Transfer-Encoding", "chunked"))
		if x.Hold() {
			x.Chunk(body)
			x.EndChunks()
		}
	})
}

// wantPendingUntilHead sends a request and wants its prompt to stand before the
// prefill worker, which holds, until that begins to answer, and the lease to last.
func wantPendingUntilHead(t *testing.T, r *router, p *proxytest.Worker) *proxytest.Client {
	t.Helper()
	n := len(generations(p))
	c := r.post(chat(strings.Repeat("a prompt that is long ", 40), false))
	nthGeneration(t, p, n)
	if pending, leases := r.prefillsAt(p); pending == 0 || leases != 1 {
		t.Errorf("%d blocks of %d prefills stand before the worker, want some of one", pending, leases)
	}
	p.Release()
	r.until("the prompt to be worked off", func() bool {
		pending, _ := r.prefillsAt(p)
		return pending == 0
	})
	if _, leases := r.prefillsAt(p); leases != 1 {
		t.Errorf("%d prefills run when the answer has begun, want the one", leases)
	}
	return c
}

// TestPrefillHeadEndsPending: a prompt stands before its prefill worker until the
// answer begins, whether the decode request waits for that or runs beside it.
func TestPrefillHeadEndsPending(t *testing.T) {
	t.Parallel()
	o := func() Options { return pdOptions("least_work") }
	eachBeside(t, o, func(t *testing.T, b *beside, _ bool) {
		answer := moonReply
		if b.push {
			answer = pushReply("e1")
		}
		b.p.SetScript(answerInTwo(answer))
		c := wantPendingUntilHead(t, b.r, b.p)
		b.p.Release()
		if got := finish(t, c); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
		b.r.waitIdle()
	})
	t.Run("one after the other", func(t *testing.T) {
		t.Parallel()
		p, d := proxytest.NewWorker(t, answerInTwo(nixlReply)), proxytest.NewWorker(t, decodeEither)
		r := startPD(t, o(), []*proxytest.Worker{p}, []*proxytest.Worker{d})
		c := wantPendingUntilHead(t, r, p)
		p.Release()
		if got := finish(t, c); got.Status != 200 {
			t.Errorf("answer %d %s, want 200", got.Status, got.Body)
		}
		r.waitIdle()
	})
}
