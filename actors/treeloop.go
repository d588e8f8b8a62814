package actors

import (
	"errors"
	"slices"

	"loadstar/actors/learn"
	"loadstar/prefixtree"
)

// errBusy tells Tree.AcquireFor that the registry had no room for a request that
// the tree would have passed on: the handler can wait where the tree must not.
var errBusy = errors.New("the registry's inbox is full")

// loop owns the tree, the learner and kept, which may be nil. While workers are to
// be forgotten it works on that whenever no message waits, and a little after each
// message.
func (t *Tree) loop(tree *prefixtree.Tree, learner *learn.Learner, kept *placements) {
	var dropped uint64
	var hints hints
	leaving := leaving{}
	for {
		var m treeMessage
		if len(leaving) == 0 {
			m = <-t.inbox
		} else {
			select {
			case m = <-t.inbox:
				leaving.forget(tree, forgetShare)
			default:
				leaving.forget(tree, forgetStep)
				continue
			}
		}
		switch m.kind {
		case treeRoute, treePair:
			q := m.request
			q.hits = q.correct(leaving.hide(tree.Match(q.Key, q.hits)))
			k := kindAcquire
			if m.kind == treePair {
				k = kindPair
			}
			if !t.registry.trySend(message{kind: k, request: q, reply: m.reply}) {
				dropped++
				q.grant.err = errBusy
				m.reply <- struct{}{}
			}
		case treeInsert:
			known := tree.Insert(m.sight.key, uint32(m.worker))
			hints.earn()
			learner.Note(m.sight.ticket.lease(), m.sight.key, m.sight.model, uint32(m.worker), known)
			if kept != nil {
				kept.add(m.sight.key, m.worker)
			}
			t.inserted(m.sight)
		case treeHint:
			if hints.may(tree.Evicted() > 0) {
				tree.Insert(m.sight.key, uint32(m.worker))
			}
			t.inserted(m.sight)
		case treePlaced:
			p := kept
			if p == nil || len(p.all) == 0 {
				p = newPlacements()
			} else {
				kept = newPlacements()
			}
			m.placed <- p
		case treeLearn:
			if worker, until, restarted := learner.Hear(m.ticket.lease(), m.usage); restarted {
				leaving.restarted(worker, until)
			}
		case treeForget:
			leaving[uint32(m.worker)] = everything
			learner.Forget(uint32(m.worker))
		case treeStats:
			m.stats <- TreeStats{
				Bytes: tree.Bytes(), Nodes: tree.Nodes(), Entries: tree.Entries(), Evicted: tree.Evicted(), Hints: hints.taken, Dropped: dropped,
				Stats: learner.Stats(),
			}
		case treeHalt:
			close(t.done)
			t.sweep()
			return
		}
	}
}

// maxHintCredit is how many hints in a row a full tree may take.
const maxHintCredit = 64

// hints counts those of other routers. Once the tree has had to evict, each needs
// something that was learnt here: what others say takes at most every second place,
// and without anything to do here nothing that was learnt here is lost to it.
type hints struct {
	taken  uint64
	credit int
}

func (h *hints) earn() { h.credit = min(h.credit+1, maxHintCredit) }

// may reports whether the next one is taken, and counts it if so.
func (h *hints) may(full bool) bool {
	if full {
		if h.credit == 0 {
			return false
		}
		h.credit--
	}
	h.taken++
	return true
}

// leaving is the workers that are being forgotten, and of which inserts. Those of
// which everything goes are as good as forgotten: nothing is told of them, and what
// is learnt meanwhile goes with the rest.
type leaving map[uint32]extent

// extent is how much of a worker is being forgotten.
type extent struct {
	all   bool
	until uint32 // else what it used last up to this insert
}

var everything = extent{all: true}

// forget drops up to steps entries of one of them.
func (l leaving) forget(tree *prefixtree.Tree, steps int) {
	for w, x := range l {
		if x.all && tree.Forget(w, steps) || !x.all && tree.ForgetUntil(w, x.until, steps) {
			delete(l, w)
		}
		return
	}
}

// restarted has what a worker used up to an insert be forgotten.
func (l leaving) restarted(worker, until uint32) {
	if !l[worker].all {
		l[worker] = extent{until: until}
	}
}

// hide takes those of which everything goes out of hits.
func (l leaving) hide(hits []prefixtree.Hit) []prefixtree.Hit {
	if len(l) == 0 {
		return hits
	}
	return slices.DeleteFunc(hits, func(h prefixtree.Hit) bool { return l[h.Worker].all })
}

// sweep answers what waited when the loop ended. As in Registry.loop it touches
// nothing of a request but the reply channel.
func (t *Tree) sweep() {
	for {
		select {
		case m := <-t.inbox:
			if m.request != nil {
				m.reply <- struct{}{}
			}
		default:
			return
		}
	}
}
