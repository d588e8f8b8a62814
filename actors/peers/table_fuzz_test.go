package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loadstar/actors"
)

// slowTable is a table that knows nothing of shards: for every router and worker it
// has the message with the highest number that was about the worker.
type slowTable struct {
	peers map[string]*slowPeer
}

type slowPeer struct {
	incarnation  uint64
	present      bool
	top, floor   uint64
	taken, heard int64
	synced       bool
	clock        int64
	at           map[string]slowWord // by worker
}

type slowWord struct {
	sequence uint64
	heard    int64
	e        actors.Elsewhere
	counts   bool
}

var universe = []string{"a", "b", "c", "d", "e"}

func (t *slowTable) expire(now int64) {
	for name, p := range t.peers {
		for u, w := range p.at {
			w.counts = w.counts && now-w.heard <= int64(silence)
			p.at[u] = w
		}
		p.synced = p.synced && now-p.heard <= int64(silence)
		if p.present && now-p.taken > int64(silence) {
			p.present, p.floor = false, p.top
		}
		if !p.present && (now-p.heard > int64(memory) || p.taken > 0 && now-p.taken > int64(memory)) {
			delete(t.peers, name)
		}
	}
}

func (t *slowTable) hear(m *figures, now int64) Drop {
	p := t.peers[m.name]
	switch {
	case p != nil && m.incarnation < p.incarnation:
		return Stale
	case p == nil || m.incarnation > p.incarnation:
		p = &slowPeer{incarnation: m.incarnation, at: map[string]slowWord{}}
		t.peers[m.name] = p
	}
	if !p.synced || now-m.sent < p.clock+(now-p.heard)>>drift {
		p.clock = now - m.sent
	} else {
		p.clock += (now - p.heard) >> drift
	}
	p.synced, p.heard = true, now
	if now-m.sent-p.clock > int64(silence) {
		return Late
	}
	news := false
	for i := range shards { // an empty shard is news as well
		if m.shards&(1<<i) != 0 && m.sequence > p.floor && m.sequence > p.at[fmt.Sprint("shard ", i)].sequence {
			news = true
			p.at[fmt.Sprint("shard ", i)] = slowWord{sequence: m.sequence}
		}
	}
	if !news {
		return Stale
	}
	p.present, p.taken, p.top = true, now, max(p.top, m.sequence)
	for _, u := range universe {
		if m.shards&(1<<shardOf(u)) == 0 || m.sequence <= p.floor || m.sequence <= p.at[u].sequence {
			continue
		}
		w := slowWord{sequence: m.sequence, heard: now}
		for _, e := range m.all {
			if e.URL == u {
				w.e, w.counts = e, true
			}
		}
		p.at[u] = w
	}
	return notDropped
}

func (t *slowTable) summed() string {
	var text []string
	for _, u := range universe {
		sum, any := actors.Elsewhere{}, false
		for _, p := range t.peers {
			if w := p.at[u]; w.counts {
				any = true
				sum.N, sum.Pending, sum.Decode = sum.N+w.e.N, sum.Pending+w.e.Pending, sum.Decode+w.e.Decode
			}
		}
		if any {
			text = append(text, fmt.Sprintf("%s=%d/%d/%d", u, sum.N, sum.Pending, sum.Decode))
		}
	}
	return strings.Join(text, " ")
}

// FuzzTable has routers speak, restart and fall silent, and the network lose, repeat,
// delay and reorder what they say. The table says what the slow one does.
func FuzzTable(f *testing.F) {
	f.Add(uint64(1), []byte("abcdefghijklmnopqrstuvwxyz"))
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		steps := make([]byte, 150)
		for i := range steps {
			steps[i] = byte(r.UintN(256))
		}
		f.Add(seed, steps)
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps []byte) {
		r := rand.New(rand.NewPCG(seed, 2))
		fast, slow := newTable(100), &slowTable{map[string]*slowPeer{}}
		sequence, incarnation := map[string]uint64{}, map[string]uint64{}
		var network []*figures
		now := int64(0)
		for i, op := range steps[:min(len(steps), 400)] {
			now += int64(r.IntN(60)) * ms
			if op > 250 {
				now += int64(r.IntN(15000)) * ms // a silence, sometimes of all
			}
			name := string('x' + rune(op%3))
			switch op >> 4 {
			case 0:
				incarnation[name]++ // a restart
				sequence[name] = 0
			case 1, 2, 3, 4, 5, 6, 7, 8:
				sequence[name]++
				m := said(name, incarnation[name], sequence[name], now)
				if op&8 != 0 {
					m.shards = r.Uint64()
				}
				for _, u := range universe {
					if m.shards&(1<<shardOf(u)) != 0 && r.IntN(2) == 0 {
						m.all = append(m.all, actors.Elsewhere{URL: u, N: r.IntN(9), Pending: r.IntN(9), Decode: r.IntN(9)})
					}
				}
				network = append(network, m)
			default:
				if len(network) == 0 {
					break
				}
				k := r.IntN(len(network)) // any, so late ones and in any order
				if op&1 != 0 {
					k = len(network) - 1
				}
				m := network[k]
				if op&6 != 0 { // else it will come again
					network = slices.Delete(network, k, k+1)
				}
				fast.expire(now, func(*peer) {})
				slow.expire(now)
				if got, want := fast.hear(m, now), slow.hear(m, now); got != want {
					t.Fatalf("step %d at %d ms: %+v is %q, want %q", i, now/ms, m, got, want)
				}
			}
			fast.expire(now, func(*peer) {})
			slow.expire(now)
			if got, want := summed(t, fast), slow.summed(); got != want {
				t.Fatalf("step %d at %d ms: sums %q, want %q", i, now/ms, got, want)
			}
		}
	})
}
