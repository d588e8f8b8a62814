package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// slowPins is the same as a list in no order, looked through every unit of time.
type slowPins struct {
	cfg  Config
	list []slowPin
	open []slowClaim

	sent, dropped, expired int64
}

type slowPin struct {
	key    string
	print  uint64
	blocks int
	left   time.Duration
	sent   bool
}

type slowClaim struct {
	claim
	id int
}

func (s *slowPins) tick() {
	s.list = slices.DeleteFunc(s.list, func(p slowPin) bool {
		if p.left > unit {
			return false
		}
		if p.sent {
			s.sent++
		} else {
			s.expired++
		}
		return true
	})
	for i := range s.list {
		s.list[i].left -= unit
	}
}

func (s *slowPins) find(key string) int {
	return slices.IndexFunc(s.list, func(p slowPin) bool { return p.key == key && !p.sent })
}

// settle frees at once what takes no time to send.
func (s *slowPins) settle() {
	s.list = slices.DeleteFunc(s.list, func(p slowPin) bool {
		if p.left == 0 {
			s.sent++
		}
		return p.left == 0
	})
}

func (s *slowPins) pin(key string, print uint64, blocks int) string {
	s.release(key, false)
	s.list = append(s.list, slowPin{key, print, blocks, s.cfg.KVLease, false})
	i := slices.IndexFunc(s.open, func(c slowClaim) bool { return c.Key == key })
	if i < 0 {
		return ""
	}
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	return fmt.Sprintf("%d:%t ", c.id, s.send(c.claim))
}

func (s *slowPins) take(c claim, id int) string {
	waits := slices.ContainsFunc(s.open, func(o slowClaim) bool { return o.Key == c.Key })
	if s.find(c.Key) < 0 && c.Wait && !waits {
		s.open = append(s.open, slowClaim{c, id})
		return ""
	}
	return fmt.Sprintf("%d:%t ", id, s.send(c))
}

func (s *slowPins) send(c claim) bool {
	i := s.find(c.Key)
	if i < 0 || s.list[i].print != c.Print {
		return false
	}
	s.list[i].sent, s.list[i].left = true, time.Duration(c.Blocks)*unit
	return true
}

func (s *slowPins) release(key string, claims bool) {
	if i := s.find(key); i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
		s.dropped++
	}
	if claims {
		s.open = slices.DeleteFunc(s.open, func(c slowClaim) bool { return c.Key == key })
	}
}

// FuzzPins plays prefills' ends, claims, renewals, releases and time to the state
// and to the slow model, and compares what is pinned and how claims are answered.
func FuzzPins(f *testing.F) {
	f.Add([]byte{0, 1, 4, 3, 1, 1, 4, 9})
	f.Add([]byte{1, 129, 4, 2, 0, 1, 4, 9})
	f.Add([]byte{0, 1, 0, 1, 2, 1, 3, 1, 4, 15})
	f.Add([]byte{0, 1, 1, 65, 4, 3, 2, 1, 4, 3, 1, 1, 4, 3, 0, 2, 1, 130, 1, 130})
	f.Fuzz(func(t *testing.T, script []byte) {
		cfg := testConfig()
		cfg.KVLease, cfg.TransferPerBlock = 5*unit, unit
		s, slow := newState(cfg), &slowPins{cfg: cfg}
		now := time.Unix(0, 0)
		var replies []chan grant
		script = script[:min(len(script), 400)] // more of the same teaches nothing
		for pair := range slices.Chunk(script, 2) {
			if len(pair) < 2 {
				break
			}
			key, arg := fmt.Sprint(pair[1]%4), int(pair[1])
			want := ""
			switch pair[0] % 5 {
			case 0:
				j := newJob([]prompt{exactly(1+arg/4%3, byte(arg/64%2))}, 1, 1)
				j.keep = key
				s.advance(now)
				s.pin(j, now)
				want = slow.pin(key, j.prompts[0].print, j.promptBlocks())
			case 1:
				c := claim{Key: key, Print: exactly(1+arg/4%3, byte(arg/64%2)).print, Blocks: arg / 16 % 4, Wait: arg >= 128}
				reply := make(chan grant, 1)
				replies = append(replies, reply)
				s.take(c, reply, now)
				want = slow.take(c, len(replies)-1)
			case 2:
				s.renew(key, now)
				if i := slow.find(key); i >= 0 {
					slow.list[i].left = cfg.KVLease
				}
			case 3:
				s.release(key, now)
				slow.release(key, true)
			case 4:
				for range arg % 16 {
					now = now.Add(unit)
					slow.tick()
				}
			}
			slow.settle()
			comparePins(t, s, slow, replies, want, now)
		}
	})
}

func comparePins(t *testing.T, s *state, slow *slowPins, replies []chan grant, want string, now time.Time) {
	t.Helper()
	n := s.snapshot(now)
	got := ""
	for i, reply := range replies {
		select {
		case g := <-reply:
			got += fmt.Sprintf("%d:%t ", i, g.OK)
		default:
		}
	}
	if got != want {
		t.Fatalf("claims answered: %q, want %q", got, want)
	}
	blocks := 0
	for _, p := range slow.list {
		blocks += p.blocks
	}
	if n.PinnedBlocks != blocks || n.PinnedRequests != len(slow.list) || len(s.pins.claims) != len(slow.open) {
		t.Fatalf("%d blocks of %d requests pinned, %d claims open, want %d, %d and %d",
			n.PinnedBlocks, n.PinnedRequests, len(s.pins.claims), blocks, len(slow.list), len(slow.open))
	}
	if n.KVSent != slow.sent || n.KVDropped != slow.dropped || n.KVExpired != slow.expired ||
		n.Pinned != n.KVSent+n.KVDropped+n.KVExpired+int64(n.PinnedRequests) {
		t.Fatalf("the books say %+v, want %d sent, %d dropped, %d expired", n, slow.sent, slow.dropped, slow.expired)
	}
	if !slices.IsSortedFunc(s.pins.order, func(a, b *pin) int { return a.until.Compare(b.until) }) {
		t.Fatal("the pins are out of order")
	}
}

// Neither the claims that wait nor what is pinned without a cache size grows
// without bound.
func TestPinsAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.CacheBlocks = 0
	s := newState(cfg)
	now := time.Unix(0, 0)
	for i := range maxClaims {
		s.take(claim{Key: fmt.Sprint(i), Wait: true}, nil, now)
	}
	reply := make(chan grant, 1)
	s.take(claim{Key: "one more", Wait: true}, reply, now)
	if g := <-reply; g.OK || len(s.pins.claims) != maxClaims {
		t.Errorf("the answer is %+v with %d claims open, want none granted and %d", g, len(s.pins.claims), maxClaims)
	}
	s.pins.blocks = maxPinned
	if j := newJob([]prompt{exactly(1, 'a')}, 1, 1); s.fits(j) {
		t.Errorf("a request fits beside %d pinned blocks", maxPinned)
	}
}
