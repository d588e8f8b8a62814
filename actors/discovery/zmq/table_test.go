package zmq

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"loadstar/actors"
)

func newTable(size int) *table {
	return &table{max: size, limit: ticks, entries: make(map[identity]*entry)}
}

// worker gives the n-th prefill worker, as it is after so many restarts.
func worker(n, restarts int) Registration {
	return Registration{
		Role: actors.Prefill, HTTPAddress: fmt.Sprintf("192.0.2.1:%d", 8000+n),
		ZMQAddress: fmt.Sprintf("192.0.2.1:%d", 21000+restarts), TPSize: 1, DPSize: 1,
	}
}

// shadow is a fleet that does what a table asks.
type shadow map[identity]Registration

var errNo = errors.New("no")

// serve makes the calls that are due, of which refuse says which fail, and
// fails the test if one doesn't fit what the fleet has.
func (s shadow) serve(t *testing.T, table *table, refuse func() bool) (calls int) {
	t.Helper()
	for k, due := table.next(); due; k, due = table.next() {
		if calls++; calls > 10_000 {
			t.Fatal("the table asks for ever")
		}
		if got := s[k.identity()]; got != k.old || k.old == k.changed {
			t.Fatalf("asked to change %+v to %+v, the fleet has %+v", k.old, k.changed, got)
		}
		if k.changed != none && refuse() {
			table.settle(k, errNo)
			continue
		}
		if s[k.identity()] = k.changed; k.changed == none {
			delete(s, k.identity())
		}
		table.settle(k, nil)
	}
	return calls
}

func never() bool { return false }

func TestTablePing(t *testing.T) {
	a, b := worker(0, 0), worker(0, 1)
	decode := a
	decode.Role = actors.Decode
	read, write := worker(1, 0), worker(2, 0)
	read.Mode, write.Mode = Read, Write
	tests := []struct {
		name  string
		max   int
		pings []Registration
		want  []note // of each ping
		fleet []Registration
	}{
		{"renewal", 9, []Registration{a, a, a}, []note{0, 0, 0}, []Registration{a}},
		{"both roles", 9, []Registration{a, decode}, []note{0, 0}, []Registration{a, decode}},
		{"a change counts from its second time", 9, []Registration{a, b}, []note{0, 0}, []Registration{a}},
		{"a change", 9, []Registration{a, b, b, b}, []note{0, 0, noteChanged, 0}, []Registration{b}},
		{"two that take turns", 9, []Registration{a, b, a, b, a}, []note{0, 0, noteContested, 0, noteContested}, []Registration{a}},
		{"no room", 1, []Registration{a, worker(1, 0), a}, []note{0, noteTableFull, 0}, []Registration{a}},
		{"the first mode holds", 9, []Registration{write, read, write}, []note{0, noteOtherMode, 0}, []Registration{write}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, fleet := newTable(tt.max), shadow{}
			for i, r := range tt.pings {
				if got := table.ping(r); got != tt.want[i] {
					t.Errorf("ping %d gave %d, want %d", i, got, tt.want[i])
				}
				fleet.serve(t, table, never)
			}
			want := shadow{}
			for _, r := range tt.fleet {
				want[r.identity()] = r
			}
			if !maps.Equal(fleet, want) {
				t.Errorf("the fleet has %v, want %v", fleet, want)
			}
		})
	}
}

// A worker that was refused for want of room does not set the mode.
func TestTableModeOfTaken(t *testing.T) {
	table := newTable(1)
	p2p, write := worker(0, 0), worker(1, 0)
	write.Mode = Write
	table.ping(p2p)
	table.ping(write)
	if table.mode != NoMode {
		t.Errorf("the mode is %v, want %v", table.mode, NoMode)
	}
}

func TestTableExpiry(t *testing.T) {
	table, fleet := newTable(9), shadow{}
	var expired []Registration
	pass := func(n int) {
		for range n {
			table.tick(func(r Registration) { expired = append(expired, r) })
			fleet.serve(t, table, never)
		}
	}
	a, b := worker(0, 0), worker(1, 0)
	table.ping(a)
	table.ping(b)
	pass(ticks)
	table.ping(b)
	if len(expired) != 0 || len(fleet) != 2 {
		t.Fatalf("before the time %v expired, want none", expired)
	}
	pass(1)
	if len(expired) != 1 || expired[0] != a || len(fleet) != 1 || len(table.entries) != 1 {
		t.Fatalf("%v expired and %d entries are left, want %v and 1", expired, len(table.entries), a)
	}
	pass(ticks)
	if len(expired) != 2 || len(fleet) != 0 || len(table.entries) != 0 {
		t.Fatalf("%v expired and %d entries are left, want both and 0", expired, len(table.entries))
	}
	// One that comes back changed counts at once.
	table.ping(worker(0, 1))
	fleet.serve(t, table, never)
	if got := fleet[a.identity()]; got != worker(0, 1) {
		t.Errorf("the fleet has %+v, want %+v", got, worker(0, 1))
	}
}

// A ping between expiry and the fleet's being told of it keeps the worker.
func TestTableReprieve(t *testing.T) {
	table, fleet := newTable(9), shadow{}
	table.ping(worker(0, 0))
	fleet.serve(t, table, never)
	for range ticks + 1 {
		table.tick(func(Registration) {})
	}
	if got := table.count(actors.Prefill); got != 0 {
		t.Errorf("%d workers are live, want 0", got)
	}
	table.ping(worker(0, 0))
	if got := table.count(actors.Prefill); got != 1 {
		t.Errorf("%d workers are live, want 1", got)
	}
	if calls := fleet.serve(t, table, never); calls != 0 || len(fleet) != 1 {
		t.Errorf("%d calls were made and %d workers are left, want 0 and 1", calls, len(fleet))
	}
}

// What the fleet refuses is asked again once a tick, and given up with the
// worker.
func TestTableRefused(t *testing.T) {
	table, fleet := newTable(9), shadow{}
	always := func() bool { return true }
	table.ping(worker(0, 0))
	if got := fleet.serve(t, table, always); got != 1 {
		t.Errorf("%d calls at first, want 1", got)
	}
	table.ping(worker(0, 0))
	if got := fleet.serve(t, table, always); got != 0 {
		t.Errorf("%d calls after a renewal, want 0", got)
	}
	for i := range ticks + 1 {
		if i == 1 {
			table.ping(worker(0, 0))
		}
		table.tick(func(Registration) { t.Fatal("expired, want alive") })
		if got := fleet.serve(t, table, always); got != 1 {
			t.Errorf("%d calls after a tick, want 1", got)
		}
	}
	table.tick(func(Registration) {})
	if fleet.serve(t, table, always); len(table.entries) != 0 {
		t.Errorf("%d entries are left, want 0", len(table.entries))
	}
}

// history is the pings that a table may take, and what follows from them read
// from the first to the last, for every worker anew.
type history struct {
	now   int // ticks
	mode  Mode
	pings []struct {
		at int
		r  Registration
	}
}

func (h *history) ping(r Registration) {
	if h.mode == NoMode {
		h.mode = r.Mode
	}
	if r.Mode == h.mode {
		h.pings = append(h.pings, struct {
			at int
			r  Registration
		}{h.now, r})
	}
}

// fresh returns the worker of an identity, or none if its pings stayed away.
func (h *history) fresh(id identity) (said Registration) {
	last, at := none, 0
	for _, p := range h.pings {
		if p.r.identity() != id {
			continue
		}
		if said == none || p.at-at > ticks || p.r == last {
			said = p.r
		}
		last, at = p.r, p.at
	}
	if h.now-at > ticks {
		return none
	}
	return said
}

// Whatever happens in whatever order, with calls to the fleet that fail or are
// under way meanwhile, in the end the fleet has the workers whose pings are
// fresh, as they say they are. If there is no room for all workers it has some
// of them.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 0x41, 0x41, 0x80, 0xFF, 0xC0, 2, 0x82}, false)
	f.Add([]byte{0, 0xC0, 0x40, 0x40, 0xE0, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81}, true)
	f.Add([]byte{0, 5, 0x90, 0, 5}, false) // what was said before it went is forgotten
	f.Add([]byte{0, 5, 10, 5, 5, 0xC0, 0x90, 0, 0x82, 0xC1, 5, 0, 5, 0x90, 0xC0, 0}, false)
	f.Fuzz(func(t *testing.T, ops []byte, crowded bool) {
		const workers = 5
		size := workers
		if crowded {
			size = 3
		}
		if len(ops) > 1000 {
			return // the history is slow
		}
		table, fleet, past := newTable(size), shadow{}, history{}
		tick := func() {
			past.now++
			table.tick(func(Registration) {})
		}
		var held task
		holding := false
		release := func(err error) {
			if holding = false; err == nil {
				if fleet[held.identity()] = held.changed; held.changed == none {
					delete(fleet, held.identity())
				}
			}
			table.settle(held, err)
		}
		for i, op := range ops {
			switch arg := int(op & 0x3F); op >> 6 {
			case 0, 1:
				r := worker(arg%workers, arg/workers%2)
				r.Mode = []Mode{Read, Write}[arg/workers/2%2]
				past.ping(r)
				table.ping(r)
			case 2:
				for range arg % (ticks + 2) {
					tick()
				}
			case 3:
				switch {
				case !holding:
					held, holding = table.next()
				case arg%2 == 0 && held.changed != none:
					release(errNo)
				default:
					release(nil)
				}
			}
			if len(table.entries) > size || len(table.owed) > size {
				t.Fatalf("after %d steps %d entries and %d owed, want at most %d", i, len(table.entries), len(table.owed), size)
			}
		}
		if holding {
			release(nil)
		}
		tick() // what was refused is asked again
		fleet.serve(t, table, never)
		want := shadow{}
		for n := range workers {
			w := worker(n, 0)
			id := w.identity()
			if r := past.fresh(id); r != none {
				want[id] = r
			}
		}
		if crowded { // who was refused depends on when the fleet forgot others
			clear(want)
			for id, e := range table.entries {
				want[id] = e.said
			}
		}
		if !maps.Equal(fleet, want) || len(table.entries) != len(want) {
			t.Fatalf("the fleet has %v, want %v", fleet, want)
		}
	})
}
