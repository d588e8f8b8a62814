package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"loadstar/proxy/proxytest"
)

var chaosPaths = []string{
	"/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize", "/v1/unknown?x=1",
}

// chaosRequest is one request of the driver.
type chaosRequest struct {
	proxytest.Request
	kind    string // of answer
	id      string
	endless bool
}

// pick chooses what a request is like. In a calm round its worker is well.
func (c *chaos) pick(rng *rand.Rand) *chaosRequest {
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	q := &chaosRequest{id: fmt.Sprintf("%016x", rng.Uint64()), endless: rng.IntN(4) == 0}
	sound := append(slices.Clone(chaosPulls), chaosPushes...)
	if c.calm {
		sound = chaosPulls
		if c.push {
			sound = chaosPushes
		}
	}
	prefill := pick(chaosPrefills)
	switch {
	case q.endless:
		q.kind = pick(chaosEndless)
		if prefill = pick(sound); rng.IntN(5) == 0 { // else the kind is reached
			prefill = "silent"
		}
	case c.calm:
		q.kind = pick(chaosSound)
		prefill = pick(sound)
	case rng.IntN(2) == 0:
		q.kind = pick(chaosSound)
	default:
		q.kind = pick(chaosUnsound)
	}
	q.Request = proxytest.Request{
		Target:  pick(chaosPaths),
		Headers: []proxytest.Header{jsonType, proxytest.H("X-Chaos", q.kind), proxytest.H("X-Chaos-Id", q.id)},
		Body:    chat(fmt.Sprint("prompt ", rng.IntN(50), strings.Repeat(" word", rng.IntN(3000))), rng.IntN(2) == 0),
	}
	if c.phases {
		q.Headers = append(q.Headers, proxytest.H("X-Chaos-Prefill", prefill))
	}
	switch rng.IntN(12) {
	case 0:
		q.Proto = "HTTP/1.0"
	case 1:
		q.ChunkSizes = []int{1 + rng.IntN(5000)}
	case 2:
		q.Method, q.Target, q.Body = "GET", "/v1/things", ""
	}
	return q
}

// request makes one request and ends it in some way, or leaves it open.
func (c *chaos) request(rng *rand.Rand) {
	q := c.pick(rng)
	cl, err := proxytest.Connect(c.r.addr, nil)
	if err != nil {
		c.t.Errorf("cannot connect: %v", err)
		return
	}
	defer func() {
		if cl != nil {
			c.trap.clear(cl)
			cl.Close()
		}
	}()
	c.begin()
	leave := func() {
		c.count(&c.tally.departures)
		switch rng.IntN(3) {
		case 0:
			cl.CloseFIN()
		case 1:
			cl.Reset()
		case 2:
			cl.HalfClose()
			// What stays open now is the router's to end.
			_, _ = cl.ReadResponse(chaosPatience)
		}
		c.finish(false)
	}
	trapped := !q.endless && rng.IntN(8) == 0
	if !trapped {
		q.Headers = append(q.Headers, proxytest.H("X-Request-Id", q.id))
	} else {
		q.Headers = append(q.Headers, c.trap.set(cl, trapPoints[rng.IntN(len(trapPoints))]))
	}
	if rng.IntN(12) == 0 { // it leaves while it sends
		_ = cl.Send(q.Head(c.r.addr) + q.Body[:rng.IntN(len(q.Body)+1)])
		leave()
		return
	}
	if err := cl.SendRequest(q.Request); err != nil {
		c.finish(false)
		return
	}
	how := rng.IntN(4)
	if q.kind == "flowing" {
		how %= 2
	}
	switch how {
	case 0: // it leaves at some moment
		time.Sleep(time.Duration(rng.IntN(6000)) * time.Microsecond)
		leave()
		return
	case 1: // it leaves behind the head, or some events
		if _, err := cl.ReadHead(50 * time.Millisecond); err == nil && rng.IntN(2) == 0 {
			_, _ = cl.ReadEvent(5 * time.Millisecond)
		}
		leave()
		return
	}
	if q.endless {
		c.mu.Lock()
		c.held = append(c.held, cl)
		c.mu.Unlock()
		cl = nil
		return
	}
	got, err := cl.ReadResponse(2 * chaosPatience)
	c.judge(q, got, err, trapped)
	c.finish(err == nil)
}

func (c *chaos) count(n *int) {
	c.mu.Lock()
	*n++
	c.mu.Unlock()
}

// judge looks at what a client got who has stayed to the end.
func (c *chaos) judge(q *chaosRequest, got *proxytest.Response, err error, trapped bool) {
	what := fmt.Sprintf("%s, %s %s %s, barrier %d", q.kind, q.Method, q.Target, q.Proto, c.tally.barriers)
	if got == nil {
		if !errors.Is(err, proxytest.ErrNoAnswer) && !errors.Is(err, proxytest.ErrReset) {
			c.t.Errorf("%s: no answer: %v", what, err)
		}
		if c.calm && !trapped {
			c.t.Errorf("%s: no answer while all is well: %v; the log: %s", what, err, c.trap.said(q.id))
		}
		return
	}
	body := string(got.Body)
	if strings.Contains(body, unasked) {
		c.t.Errorf("%s: the client got what it hasn't asked for: %.200q", what, body)
	}
	sound := got.Status == 200 || got.Status == 204
	if c.calm && !trapped && (err != nil || !sound) {
		c.t.Errorf("%s: while all is well: status %d %.300q, %v; the log: %s", what, got.Status, body, err, c.trap.said(q.id))
	}
	if err != nil || !sound {
		return
	}
	c.count(&c.tally.compared)
	if c.calm {
		c.count(&c.tally.calm)
	}
	if !strings.Contains(body, q.id) && got.Status != 204 {
		c.t.Errorf("%s: the answer is not that of %s: %.200q", what, q.id, body)
	}
	if !isSound[q.kind] {
		return
	}
	if want := wantChaos(q.kind, q.id); body != want {
		c.t.Errorf("%s: the body is %.200q (%d bytes), want %.200q (%d bytes)", what, body, len(body), want, len(want))
	}
}
