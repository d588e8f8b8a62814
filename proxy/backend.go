package proxy

import (
	"loadstar/actors"
	"loadstar/proxy/pd"
	"loadstar/proxy/upstream"
)

// backend is what this package keeps of a worker; it is the Handle of its Spec.
type backend struct {
	pool *upstream.Pool
	site *site
}

func poolOf(l *actors.Lease) *upstream.Pool { return l.Handle.(*backend).pool }

// site is what is known of a server at one base URL, for the workers of a pair to
// find each other. All its ranks share it.
type site struct {
	base      string
	zmq       string       // address it registered; "" if it didn't
	connector pd.Connector // by which it hands blocks over
	dpSize    int
	tpSize    int
	bootstrap string        // base URL of its Mooncake bootstrap server; "" if it has none
	asking    chan struct{} // holds one while its bootstrap server is asked out of turn
	listing   chan struct{} // holds one while it is asked for its models
	learnt    chan learnt   // holds the value, but for a moment while somebody changes it
}

// learnt is what a server has told by itself. It holds for as long as its
// process lives.
type learnt struct {
	engines pd.Engines          // answer of its bootstrap server
	push    map[int]pd.Identity // by rank; see pd.Identity
}

func newSite(base string) *site {
	s := &site{base: base, learnt: make(chan learnt, 1), asking: make(chan struct{}, 1), listing: make(chan struct{}, 1)}
	s.learnt <- learnt{}
	return s
}

// copy is another site for the same server, of which nothing is learnt yet.
func (s *site) copy() *site {
	c := newSite(s.base)
	c.zmq, c.connector, c.dpSize, c.tpSize, c.bootstrap = s.zmq, s.connector, s.dpSize, s.tpSize, s.bootstrap
	return c
}

// change has f look at, or change, what was learnt of the server.
func (s *site) change(f func(*learnt)) {
	l := <-s.learnt
	f(&l)
	s.learnt <- l
}

// forget drops what was learnt of a process that may be gone.
func (s *site) forget() { s.change(func(l *learnt) { *l = learnt{} }) }

// learnPush takes, and returns, what a prefill worker's reply says of it. It is the
// zero Identity if that says nothing.
func (s *site) learnPush(rank int, r *pd.Reply) pd.Identity {
	id, ok := r.Identity()
	s.change(func(l *learnt) {
		switch {
		case ok && l.push == nil:
			l.push = map[int]pd.Identity{rank: id}
		case ok:
			l.push[rank] = id
		default:
			delete(l.push, rank)
		}
	})
	return id
}

// peer is the site as one of a pair's workers, the one with this rank.
func (b *backend) peer(rank int) (p pd.Peer, push pd.Identity) {
	s := b.site
	rank = max(rank, 0)
	p = pd.Peer{Base: s.base, ZMQ: s.zmq, Rank: rank, DPSize: s.dpSize, TPSize: s.tpSize, Bootstrap: s.bootstrap}
	s.change(func(l *learnt) { p.Engines, push = l.engines, l.push[rank] })
	return p, push
}
