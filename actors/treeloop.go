package actors

import (
	"errors"
	"slices"

	"loadstar/prefixtree"
)

// errBusy tells Tree.AcquireFor that the registry had no room for a request that
// the tree would have passed on: the handler can wait where the tree must not.
var errBusy = errors.New("the registry's inbox is full")

// loop owns the tree. While workers are to be forgotten it works on that
// whenever no message waits, and a little after each message.
func (t *Tree) loop(tree *prefixtree.Tree) {
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
			tree.Insert(*m.key, uint32(m.worker))
			t.inserted(m.key)
		case treeForget:
			leaving[uint32(m.worker)] = true
		case treeStats:
			m.stats <- TreeStats{tree.Bytes(), tree.Nodes(), tree.Entries(), tree.Evicted(), dropped}
		case treeHalt:
			close(t.done)
			t.sweep()
			return
		}
	}
}

// leaving is the workers that are being forgotten. They are as good as forgotten:
// nothing is told of them, and what is learnt meanwhile goes with the rest.
type leaving map[uint32]bool

// forget drops up to steps entries of one of them.
func (l leaving) forget(tree *prefixtree.Tree, steps int) {
	for w := range l {
		if tree.Forget(w, steps) {
			delete(l, w)
		}
		return
	}
}

// hide takes them out of hits.
func (l leaving) hide(hits []prefixtree.Hit) []prefixtree.Hit {
	if len(l) == 0 {
		return hits
	}
	return slices.DeleteFunc(hits, func(h prefixtree.Hit) bool { return l[h.Worker] })
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
