package policy

// sessions is a bounded table from session to worker. Its entries stand in a
// list by last use. The lifetime is the same for all, so the list's old end is
// both the first to expire and the first to go when the table is full, and no
// sweep is ever needed.
//
// A session is known by a 64-bit hash. Two with the same hash share a worker,
// which harms neither.
type sessions struct {
	ttl       int64
	limit     int
	residents residents
	index     map[uint64]uint32
	// Entries are kept in chunks so that growing copies nothing. Entry 0 is the
	// list's anchor: its newer is the oldest entry, its older the newest.
	chunks [][]session
	made   uint32 // entries that exist, with the anchor
	free   uint32 // first of the unused entries, linked by newer; 0 when none
}

type session struct {
	key          uint64
	used         int64 // time of the last use
	home         address
	older, newer uint32
}

// chunkBits makes a chunk of 1024 entries, 32 kB.
const chunkBits = 10

func newSessions(limit int, ttl int64) *sessions {
	return &sessions{
		ttl:    ttl,
		limit:  limit,
		index:  make(map[uint64]uint32),
		chunks: [][]session{make([]session, min(limit+1, 1<<chunkBits))},
		made:   1,
	}
}

// len is the number of entries, expired ones that are still there included.
func (t *sessions) len() int {
	return len(t.index)
}

// find is the number of the entry of a session that has not expired.
func (t *sessions) find(key uint64, now int64) (uint32, bool) {
	i, ok := t.index[key]
	return i, ok && !t.expired(i, now)
}

// touch marks the session of an entry as used.
func (t *sessions) touch(i uint32, now int64) {
	t.entry(i).used = now
	t.unlink(i)
	t.push(i)
}

// put moves a session, new or known, to an address that settle gave. A new one
// takes the place of the longest idle one when the table is full.
func (t *sessions) put(key uint64, a address, now int64) {
	i, ok := t.index[key]
	switch {
	case ok:
		t.residents.leave(t.entry(i).home)
		t.unlink(i)
	case len(t.index) >= t.limit:
		t.drop(t.entry(0).newer)
		i = t.take()
	default:
		i = t.take()
	}
	e := t.entry(i)
	e.key, e.used, e.home = key, now, a
	t.index[key] = i
	t.push(i)
	t.residents.enter(a)
}

// remove forgets a session and reports whether it was there.
func (t *sessions) remove(key uint64) bool {
	i, ok := t.index[key]
	if ok {
		t.drop(i)
	}
	return ok
}

// expire clears away at most two expired entries. A request adds at most one, so
// the table drains as long as requests come.
func (t *sessions) expire(now int64) {
	for range 2 {
		oldest := t.entry(0).newer
		if oldest == 0 || !t.expired(oldest, now) {
			return
		}
		t.drop(oldest)
	}
}

func (t *sessions) expired(i uint32, now int64) bool {
	return now-t.entry(i).used > t.ttl
}

func (t *sessions) entry(i uint32) *session {
	return &t.chunks[i>>chunkBits][i&(1<<chunkBits-1)]
}

// take is an unused entry.
func (t *sessions) take() uint32 {
	if i := t.free; i != 0 {
		t.free = t.entry(i).newer
		return i
	}
	i := t.made
	if int(i>>chunkBits) == len(t.chunks) {
		t.chunks = append(t.chunks, make([]session, 1<<chunkBits))
	}
	t.made++
	return i
}

// drop takes an entry out of the table.
func (t *sessions) drop(i uint32) {
	e := t.entry(i)
	delete(t.index, e.key)
	t.residents.leave(e.home)
	t.unlink(i)
	e.newer = t.free
	t.free = i
}

// push puts an entry at the new end of the list.
func (t *sessions) push(i uint32) {
	anchor, e := t.entry(0), t.entry(i)
	e.older, e.newer = anchor.older, 0
	t.entry(anchor.older).newer = i
	anchor.older = i
}

func (t *sessions) unlink(i uint32) {
	e := t.entry(i)
	t.entry(e.older).newer = e.newer
	t.entry(e.newer).older = e.older
}
