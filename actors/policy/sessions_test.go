package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowSessions is the table as one plain list, oldest use first.
type slowSessions struct {
	ttl     int64
	limit   int
	list    []slowSession
	members [5]string // by ID
}

type slowSession struct {
	key  uint64
	url  string
	id   uint32
	life int // which joining of the ID it belongs to
	used int64
}

func (m *slowSessions) find(key uint64, now int64) int {
	return slices.IndexFunc(m.list, func(s slowSession) bool { return s.key == key && now-s.used <= m.ttl })
}

func (m *slowSessions) remove(key uint64) bool {
	before := len(m.list)
	m.list = slices.DeleteFunc(m.list, func(s slowSession) bool { return s.key == key })
	return len(m.list) < before
}

func (m *slowSessions) put(s slowSession) {
	m.remove(s.key)
	m.list = append(m.list, s)
	if len(m.list) > m.limit {
		m.list = m.list[1:]
	}
}

func (m *slowSessions) expire(now int64) {
	for range 2 {
		if len(m.list) > 0 && now-m.list[0].used > m.ttl {
			m.list = m.list[1:]
		}
	}
}

// FuzzSessions compares the table with the slow one after each of a series of
// uses, finishes, waits and changes of membership.
func FuzzSessions(f *testing.F) {
	f.Add(uint8(3), []byte{0x00, 0x01, 0x02, 0x03, 0x01, 0x80, 0x02, 0x91})
	f.Add(uint8(1), []byte{0x00, 0x10, 0x00, 0xc0, 0x00, 0xc0, 0xc0, 0x00})
	f.Add(uint8(8), []byte{0x00, 0x01, 0x02, 0xf0, 0x03, 0x01, 0xf1, 0x02, 0xe3, 0xe3, 0x05, 0x41, 0x42})
	for seed := range uint64(20) {
		draws := rand.New(rand.NewPCG(seed, 3))
		steps := make([]byte, 400)
		for i := range steps {
			steps[i] = byte(draws.UintN(256))
		}
		f.Add(uint8(seed), steps)
	}
	f.Fuzz(func(t *testing.T, limit uint8, steps []byte) {
		const ttl = 10
		model := slowSessions{ttl: ttl, limit: int(limit%8) + 1}
		table := newSessions(model.limit, ttl)
		var lives [len(model.members)]int
		var now int64
		join := func(id int, url string) {
			model.members[id] = url
			lives[id]++
			var m []Member
			for id, url := range model.members {
				if url != "" {
					m = append(m, Member{uint32(id), url})
				}
			}
			table.residents.set(m)
		}
		join(0, "http://w0")
		join(1, "http://w1")
		for step, b := range steps {
			key, op := uint64(b%16), b>>4
			id := int(b) % len(model.members)
			switch {
			case op < 8: // use, at worker id if new
				table.expire(now)
				model.expire(now)
				at := model.find(key, now)
				entry, known := table.find(key, now)
				if known != (at >= 0) {
					t.Fatalf("step %d: session %d known: %v, want %v", step, key, known, at >= 0)
				}
				if known {
					want := model.list[at]
					lives := lives[want.id] == want.life && model.members[want.id] == want.url
					address := table.entry(entry).home
					if address.id != want.id || table.residents.current(address) != lives {
						t.Fatalf("step %d: session %d at %+v, current %v, want worker %d, current %v",
							step, key, address, table.residents.current(address), want.id, lives)
					}
					if lives {
						table.touch(entry, now)
						want.used = now
						model.put(want)
						break
					}
				}
				if url := model.members[id]; url != "" {
					table.put(key, table.residents.settle(uint32(id), url), now)
					model.put(slowSession{key, url, uint32(id), lives[id], now})
				}
			case op < 10: // finish
				if got, want := table.remove(key), model.remove(key); got != want {
					t.Fatalf("step %d: remove(%d) = %v, want %v", step, key, got, want)
				}
			case op < 14: // wait
				now += int64(b % 16)
			case model.members[id] != "":
				join(id, "")
			default:
				join(id, fmt.Sprintf("http://w%d", b))
			}
			checkSessions(t, step, table, &model, lives[:])
		}
	})
}

func checkSessions(t *testing.T, step int, table *sessions, model *slowSessions, lives []int) {
	t.Helper()
	var got, want []uint64
	for i := table.entry(0).newer; i != 0; i = table.entry(i).newer {
		got = append(got, table.entry(i).key)
		if older := table.entry(table.entry(i).older).newer; older != i {
			t.Fatalf("step %d: the list is broken at entry %d", step, i)
		}
	}
	counts := make([]int, len(lives))
	for _, s := range model.list {
		want = append(want, s.key)
		if lives[s.id] == s.life && model.members[s.id] != "" {
			counts[s.id]++
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("step %d: sessions by last use %v, want %v", step, got, want)
	}
	if table.len() != len(want) || table.len() > model.limit {
		t.Fatalf("step %d: %d sessions, want %d and at most %d", step, table.len(), len(want), model.limit)
	}
	for id, n := range counts {
		if got := table.residents.count(uint32(id)); got != n {
			t.Fatalf("step %d: worker %d has %d sessions, want %d", step, id, got, n)
		}
	}
	if int(table.made) > model.limit+1 {
		t.Fatalf("step %d: %d entries were made, want at most %d", step, table.made, model.limit+1)
	}
}

// Entries beyond the first chunk, and their reuse.
func TestSessionsGrowByChunks(t *testing.T) {
	const limit = 3<<chunkBits - 7
	table := newSessions(limit, 10)
	home := table.residents.settle(0, "http://w0")
	for key := range uint64(2 * limit) {
		table.put(key, home, 0)
	}
	if table.len() != limit || len(table.chunks) != 3 {
		t.Errorf("%d sessions in %d chunks, want %d in 3", table.len(), len(table.chunks), limit)
	}
	for key := range uint64(2 * limit) {
		if _, known := table.find(key, 0); known != (key >= limit) {
			t.Fatalf("session %d known: %v, want %v", key, known, key >= limit)
		}
	}
	if got := table.residents.count(0); got != limit {
		t.Errorf("worker 0 has %d sessions, want %d", got, limit)
	}
}
