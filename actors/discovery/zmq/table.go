package zmq

import "loadstar/actors"

// none is the registration of nobody.
var none Registration

// table is what is known of workers. It belongs to the loop and reads no clock.
//
// It keeps what each worker says beside what the fleet was told of it, and owes
// the fleet the difference.
type table struct {
	max     int  // entries, those included that the fleet has yet to forget
	limit   int  // whole ticks that a registration outlives its last ping
	mode    Mode // of the first worker taken; it stays for good
	entries map[identity]*entry
	owed    []identity // entries that may differ from what the fleet knows, each once at most
}

type identity struct {
	role    actors.Role
	address string
}

func (r *Registration) identity() identity { return identity{r.Role, r.HTTPAddress} }

type entry struct {
	said   Registration // what the worker says
	rival  Registration // what was said last for the same identity, if that is something else
	known  Registration // what the fleet was told
	age    int          // ticks since the last ping
	gone   bool         // the pings stayed away
	queued bool         // in owed, or with the fleet
	failed bool         // the fleet refused, and is asked again at the next tick
}

// task is one call to the fleet: a worker is added if old is none, removed if
// changed is none, replaced if neither is.
type task struct{ old, changed Registration }

func (k *task) identity() identity {
	if k.changed == none {
		return k.old.identity()
	}
	return k.changed.identity()
}

// ping takes what a worker says. It returns noteNothing for a renewal.
//
// What is said differently for a known identity counts from its second time in
// a row. A worker that was started again says it every few seconds, long before
// it serves. Two processes that claim one identity take turns, and would have
// the fleet replace one by the other for ever.
func (t *table) ping(r Registration) note {
	e := t.entries[r.identity()]
	switch {
	case t.mode != NoMode && r.Mode != t.mode:
		return noteOtherMode
	case e == nil && len(t.entries) >= t.max:
		return noteTableFull
	case e == nil:
		e = &entry{said: r}
		t.entries[r.identity()] = e
		t.mode = r.Mode
		t.owe(e)
		return noteNothing
	}
	e.age = 0
	contested := e.rival != none
	switch {
	case e.gone:
		e.said, e.rival, e.gone = r, none, false
		t.owe(e)
	case r == e.said:
		e.rival = none
		if contested {
			return noteContested
		}
	case r == e.rival:
		e.said, e.rival = r, none
		t.owe(e)
		return noteChanged
	default:
		e.rival = r
	}
	return noteNothing
}

// tick lets a tick pass. It calls expired for each worker whose pings have
// stayed away for too long. The first tick after a ping may come at once, so that
// limit ticks are whole only when one more has passed.
func (t *table) tick(expired func(Registration)) {
	for _, e := range t.entries {
		e.age++
		if !e.gone && e.age > t.limit {
			e.gone = true
			t.owe(e)
			expired(e.said)
		}
		if e.failed {
			e.failed = false
			t.owe(e)
		}
	}
}

// owe notes that the fleet may have to be told of e.
func (t *table) owe(e *entry) {
	if !e.queued {
		e.queued = true
		t.owed = append(t.owed, e.said.identity())
	}
}

// next returns the call to the fleet that is due, the longest owed first. Its
// entry waits until settle is called.
func (t *table) next() (k task, due bool) {
	for len(t.owed) > 0 {
		id := t.owed[0]
		t.owed = t.owed[1:]
		e := t.entries[id]
		switch {
		case !e.gone && e.known != e.said:
			return task{e.known, e.said}, true
		case e.gone && e.known != none:
			return task{e.known, none}, true
		case e.gone:
			delete(t.entries, id)
		default:
			e.queued = false
		}
	}
	return task{}, false
}

// settle takes the answer to a call.
func (t *table) settle(k task, err error) {
	e := t.entries[k.identity()]
	e.queued = false
	if err != nil {
		e.failed = true
		return
	}
	e.known = k.changed
	t.owe(e) // it may have changed meanwhile
}

// count returns the live workers of a role.
func (t *table) count(role actors.Role) int {
	n := 0
	for id, e := range t.entries {
		if id.role == role && !e.gone {
			n++
		}
	}
	return n
}
