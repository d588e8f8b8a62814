package proxy

import (
	"time"

	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/watch"
)

// strand sees to blocks that were prefilled and that no decode worker came for.
// They would fill the prefill worker's cache until it gives up on them, which
// takes minutes.
func (x *exchange) strand() {
	s := &x.split
	if !s.pinned {
		return
	}
	s.pinned = false
	if !s.kept || !x.rescue() {
		x.p.metrics.pd.stranded.Inc()
	}
}

// rescue has a decode worker fetch, and so free, the blocks of the request, beside
// which it makes one token. It reports false if as many rescues as are allowed
// run already.
func (x *exchange) rescue() bool {
	p, s := x.p, &x.split
	select {
	case p.rescues <- struct{}{}:
	default:
		return false
	}
	q := actors.Request{Role: actors.Decode, Now: p.now(), Own: true}
	q.Model = append(q.Model, x.query.Model...)
	q.Exclude = append(q.Exclude, x.exclude...)
	lease, err := p.router.Acquire(&q)
	if err != nil {
		<-p.rescues
		return false
	}
	s.pair.Decode, _ = lease.Handle.(*backend).peer(lease.Rank)
	body, _ := pd.AppendRescue(nil, x.body, s.kind, s.kv)
	s.lines = x.appendDecodeHeaders(s.lines[:0])
	g := &leg{p: p, link: link{guard: (*watch.Watcher)(nil).NewGuard()}, patience: p.opts.PD.RescueTimeout}
	g.compose(x.ctx.Request.Header.Method(), poolOf(&lease), x.target, s.lines, lease.Rank, body, true)
	go g.rescue(lease)
	return true
}

// rescue sends the request of a rescue and reads its answer to the end.
func (g *leg) rescue(lease actors.Lease) {
	p, pool := g.p, poolOf(&lease)
	cause, reuse := actors.Aborted, false
	defer func() {
		if v := recover(); v != nil {
			p.panicked("rescue", v)
		}
		g.link.settle(pool, reuse)
		if cause == actors.Completed {
			p.metrics.pd.rescued.Inc()
		} else {
			p.metrics.pd.stranded.Inc()
		}
		lease.Release(cause, p.now())
		<-p.rescues
	}()
	by := time.Now().Add(g.patience)
	size, err := g.converse(pool, lease.Worker)
	if err != nil {
		return
	}
	status := g.answer.Status
	g.passHead(size)
	for !g.coming.ended {
		if _, err := g.coming.next(&g.link, max(time.Until(by), time.Nanosecond)); err != nil && !g.coming.ended {
			return
		}
	}
	g.coming.free(&g.link)
	cause, reuse = actors.CauseOf(status), g.answer.KeepAlive
}
