package actors

import (
	"errors"

	"loadstar/prefixtree"
)

// errBusy tells Tree.Acquire that the registry had no room for a request that
// the tree would have passed on: the handler can wait where the tree must not.
var errBusy = errors.New("the registry's inbox is full")

// loop owns the tree. While workers are to be forgotten it works on that
// whenever no message waits.
func (t *Tree) loop(tree *prefixtree.Tree) {
	var (
		forgetting []WorkerID
		dropped    uint64
	)
	for {
		var m treeMessage
		if len(forgetting) == 0 {
			m = <-t.inbox
		} else {
			select {
			case m = <-t.inbox:
			default:
				if tree.Forget(uint32(forgetting[0]), forgetStep) {
					forgetting = forgetting[1:]
				}
				continue
			}
		}
		switch m.kind {
		case treeRoute:
			q := m.request
			q.hits = tree.Match(q.Key, q.hits)
			if !t.registry.trySend(message{kind: kindAcquire, request: q, reply: m.reply}) {
				dropped++
				q.grant.err = errBusy
				m.reply <- struct{}{}
			}
		case treeInsert:
			tree.Insert(*m.key, uint32(m.worker))
			t.keys.Put(m.key)
		case treeForget:
			forgetting = append(forgetting, m.worker)
		case treeStats:
			m.stats <- TreeStats{tree.Bytes(), tree.Nodes(), tree.Entries(), tree.Evicted(), dropped}
		case treeHalt:
			close(t.done)
			t.sweep()
			return
		}
	}
}

// sweep answers what waited when the loop ended. As in Registry.loop it touches
// nothing of a request but the reply channel.
func (t *Tree) sweep() {
	for {
		select {
		case m := <-t.inbox:
			if m.kind == treeRoute {
				m.reply <- struct{}{}
			}
		default:
			return
		}
	}
}
