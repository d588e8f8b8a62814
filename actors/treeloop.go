package actors

import (
	"errors"
	"slices"

	"loadstar/prefixtree"
)

// errBusy tells Tree.AcquireFor that the registry had no room for a request that
// the tree would have passed on: the handler can wait where the tree must not.
var errBusy = errors.New("the registry's inbox is full")

// loop owns the tree, and the learner if there is one. While workers are to be
// forgotten it works on that whenever no message waits, and a little after each
// message.
func (t *Tree) loop(tree *prefixtree.Tree, learner *learner) {
	var dropped uint64
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
			q.hits = leaving.hide(tree.Match(q.Key, q.hits))
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
			if learner != nil {
				learner.note(m.sight, uint32(m.worker), known)
			}
			t.inserted(m.sight)
		case treeLearn:
			if learner != nil {
				learner.hear(m.ticket, m.usage, leaving)
			}
		case treeForget:
			leaving[uint32(m.worker)] = everything
			if learner != nil {
				learner.forget(uint32(m.worker))
			}
		case treeStats:
			v := TreeStats{
				Bytes: tree.Bytes(), Nodes: tree.Nodes(), Entries: tree.Entries(), Evicted: tree.Evicted(), Dropped: dropped,
			}
			if learner != nil {
				learner.stats(&v)
			}
			m.stats <- v
		case treeHalt:
			close(t.done)
			t.sweep()
			return
		}
	}
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
