package actors

import (
	"errors"
	"sync"

	"loadstar/actors/learn"
	"loadstar/prefixtree"
)

// treeInboxSize is how many messages may wait for the tree. It is short on
// purpose: a hint that has to queue is not worth its wait.
const treeInboxSize = 256

// How many entries of a worker are forgotten at a time, so that forgetting a big
// worker delays nobody.
const (
	forgetStep  = 64 // while no message waits
	forgetShare = 8  // after each message, so that forgetting ends however busy the tree is
)

// Tree remembers which worker has seen the prefix of a prompt. What it says is
// a hint: it may be stale, late or missing, and routing must work without it.
//
// It passes requests on to its registry, so it must end before the registry
// does, and the registry soon after; Router sees to that.
type Tree struct {
	inbox    chan treeMessage
	done     chan struct{}
	registry *Registry
	sights   sync.Pool     // of *sighting
	longs    sync.Pool     // of those with a long key
	long     chan struct{} // holds a token for each long key on its way
}

// A key of more than longKey blocks is long. At most longKeys of them are on
// their way at a time: a copy may take a megabyte.
const (
	longKey  = 1024
	longKeys = 8
)

type treeKind uint8

const (
	treeRoute treeKind = iota
	treePair
	treeInsert
	treeLearn
	treeHint
	treePlaced
	treeForget
	treeStats
	treeHalt
)

type treeMessage struct {
	kind    treeKind
	worker  WorkerID           // treeInsert, treeHint, treeForget
	ticket  ticket             // treeLearn: of the lease
	usage   learn.Usage        // treeLearn
	request *Request           // treeRoute, treePair; lent until the registry's reply
	reply   chan<- struct{}    // that of the request
	sight   *sighting          // treeInsert, treeHint; given away
	stats   chan<- TreeStats   // treeStats; capacity one
	placed  chan<- *placements // treePlaced; capacity one
}

// sighting is a prompt on its way to be inserted: copies, which are used again.
type sighting struct {
	key    []uint64
	model  []byte
	ticket ticket // of the lease, if it will be told of its usage
}

// TreeStats are the sizes of the tree.
type TreeStats struct {
	Bytes   int // memory held
	Nodes   int
	Entries int    // (node, worker) pairs
	Evicted uint64 // entries evicted to stay within the limit, since the start
	Hints   uint64 // entries of other routers that were learnt, since the start
	Dropped uint64 // requests that the tree looked up and found no room for at the registry

	learn.Stats
}

// newTree starts a tree of at most limit bytes that passes requests on to r. It
// keeps what it is told for Router.Placed if keep says so. Call Stop to end it.
func newTree(r *Registry, limit int, keep bool) *Tree {
	t := &Tree{inbox: make(chan treeMessage, treeInboxSize), done: make(chan struct{}), registry: r, long: make(chan struct{}, longKeys)}
	tree, kept := prefixtree.New(limit), (*placements)(nil)
	learner := learn.New(tree, FitModelName)
	if keep {
		kept = newPlacements()
	}
	go t.loop(tree, learner, kept)
	return t
}

// AcquireFor looks up the request's key and passes it on to the registry, which
// answers; see Registry.AcquireFor. A tree that is busy is left out.
func (t *Tree) AcquireFor(q *Request, c Client) (Lease, error) {
	if g, ok := t.route(treeRoute, q, c); ok {
		return t.registry.lease(g)
	}
	return t.registry.AcquireFor(q, c)
}

// AcquirePairFor is AcquireFor for a pair.
func (t *Tree) AcquirePairFor(q *Request, c Client) (prefill, decode Lease, err error) {
	if g, ok := t.route(treePair, q, c); ok {
		return t.registry.pair(g, q)
	}
	return t.registry.AcquirePairFor(q, c)
}

// route sends a request by way of the tree. It reports false if the tree, or the
// registry behind it, has no room.
func (t *Tree) route(k treeKind, q *Request, c Client) (g grant, ok bool) {
	q.ready()
	q.hits = q.hits[:0]
	select {
	case t.inbox <- treeMessage{kind: k, request: q, reply: q.reply}:
	default:
		q.hits = q.correct(q.hits)
		return grant{}, false
	}
	g = t.wait(q, c)
	return g, !errors.Is(g.err, errBusy)
}

// wait waits for the answer to q, which is on its way through the tree.
//
// As in Registry.wait, one look at done is enough. When it is closed, the
// registry may have the request and grant a lease, or nobody may have it: which
// one is known at the latest when the registry ends too.
func (t *Tree) wait(q *Request, c Client) grant {
	select {
	case <-t.done:
		select {
		case <-q.reply:
			t.registry.await(q, c)
			return q.grant
		case <-t.registry.done:
			return t.registry.wait(q, c)
		}
	default:
	}
	<-q.reply
	if l := &q.placed; q.queued && l.ticket.gen != 0 {
		// Others with this prompt should follow it, not meet it there by chance.
		q.learnt = t.insert(treeInsert, q.Key, l.worker, q.Model, l.ticket, cap(t.inbox))
	}
	t.registry.await(q, c)
	return q.grant
}

// Insert records that w is seeing the prompt with this key. It copies key, and
// reports false when the tree is too busy to take it.
func (t *Tree) Insert(key []uint64, w WorkerID) bool {
	return t.insert(treeInsert, key, w, nil, ticket{}, cap(t.inbox))
}

// hint records that w is seeing a prompt, as another router says. It is Insert, but
// for a tree that has little to do.
func (t *Tree) hint(key []uint64, w WorkerID) bool {
	return t.insert(treeHint, key, w, nil, ticket{}, cap(t.inbox)/4)
}

// insert is Insert, or hint, if less than room messages wait. For a lease that will
// be told of its usage the tree remembers what it has predicted; the zero
// ticket is no lease.
func (t *Tree) insert(kind treeKind, key []uint64, w WorkerID, model []byte, lease ticket, room int) bool {
	if len(key) == 0 || len(t.inbox) >= room {
		return len(key) == 0 // do not copy what would be dropped
	}
	sights := &t.sights
	if len(key) > longKey {
		select {
		case t.long <- struct{}{}:
			sights = &t.longs
		default:
			return false
		}
	}
	s, ok := sights.Get().(*sighting)
	if !ok {
		s = new(sighting)
	}
	s.key, s.ticket = append(s.key[:0], key...), lease
	s.model = append(s.model[:0], model[:min(len(model), MaxModelName)]...)
	select {
	case t.inbox <- treeMessage{kind: kind, sight: s, worker: w}:
		return true
	default:
		t.inserted(s)
		return false
	}
}

// inserted takes back the copies.
func (t *Tree) inserted(s *sighting) {
	if len(s.key) > longKey {
		<-t.long
		t.longs.Put(s)
		return
	}
	t.sights.Put(s)
}

// learn tells what a worker has told of the prompt of a lease. A tree that is busy
// doesn't hear of it.
func (t *Tree) learn(lease ticket, u learn.Usage) {
	select {
	case t.inbox <- treeMessage{kind: treeLearn, ticket: lease, usage: u}:
	default:
	}
}

// Forget drops what is known of w, for when its cache is gone. From the next
// request on there is no hint of it.
func (t *Tree) Forget(w WorkerID) { t.send(treeMessage{kind: treeForget, worker: w}) }

// Stats returns the tree's sizes; they are zero once it has stopped.
func (t *Tree) Stats() TreeStats {
	reply := make(chan TreeStats, 1)
	v, _ := askTree(t, treeMessage{kind: treeStats, stats: reply}, reply)
	return v
}

// placed returns what was kept since the last call.
func (t *Tree) placed() (*placements, bool) {
	reply := make(chan *placements, 1)
	return askTree(t, treeMessage{kind: treePlaced, placed: reply}, reply)
}

// askTree sends a rare message and waits for its answer. It reports false once the
// loop has ended.
func askTree[T any](t *Tree, m treeMessage, reply <-chan T) (v T, ok bool) {
	if !t.send(m) {
		return v, false
	}
	select {
	case v = <-reply:
		return v, true
	case <-t.done:
		return v, false
	}
}

// Stop ends the loop and waits for it.
func (t *Tree) Stop() {
	t.send(treeMessage{kind: treeHalt})
	<-t.done
}

func (t *Tree) send(m treeMessage) bool {
	select {
	case t.inbox <- m:
		return true
	case <-t.done:
		return false
	}
}
