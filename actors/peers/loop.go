package peers

import "loadstar/actors"

// inboxSize evens out bursts. Readers wait when it is full.
const inboxSize = 256

// event is all that the loop understands. It runs on the loop's goroutine.
type event interface{ apply(s *state) }

// state belongs to the loop.
type state struct {
	table   table
	teller  teller
	link    LinkState
	in, out [NumKinds]uint64
	dropped [numDrops]uint64
	hints   chan<- hints    // only tried
	changed chan<- struct{} // likewise: the sums would say something else than before
	news    []Event         // for the next tick to take along
	halted  bool
}

// loop owns s until it is halted.
func (a *Actor) loop(s *state) {
	defer close(a.done)
	for !s.halted {
		e := <-a.inbox
		e.apply(s)
		if s.table.changed {
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	}
}

// heardFigures is a message that has come.
type heardFigures struct {
	message figures
	now     int64
}

func (e heardFigures) apply(s *state) {
	known := s.table.present()
	switch d := s.table.hear(&e.message, e.now); d {
	case notDropped:
		if e.message.name != s.table.own.name {
			s.in[Figures]++
		}
	default:
		s.drop(d, 1)
	}
	if s.table.present() > known {
		s.tell(Event{Kind: PeerCame, Name: e.message.name})
	}
}

// heardPlaced is another one.
type heardPlaced struct {
	head  head
	hints hints
}

func (e heardPlaced) apply(s *state) {
	p, d := s.table.find(&e.head)
	switch {
	case d != notDropped:
		s.drop(d, 1)
	case p != nil:
		s.in[Placed]++
		select {
		case s.hints <- e.hints:
		default:
			s.drop(Surplus, uint64(len(e.hints.all)))
		}
	}
}

// dropped is what counts for nothing for a reason that was known before.
type dropped struct {
	why Drop
	n   uint64
}

func (e dropped) apply(s *state) { s.drop(e.why, e.n) }

func (s *state) drop(why Drop, n uint64) {
	if why == Namesake && s.dropped[why] == 0 {
		s.tell(Event{Kind: NamesakeHeard, Name: s.table.own.name})
	}
	s.dropped[why] += n
}

// linkChanged says how the connection is from now on. What was sent into one that
// broke may be lost, and is told again with everything else.
type linkChanged struct{ state LinkState }

func (e linkChanged) apply(s *state) {
	kind := LinkLost
	if e.state.Up {
		kind = LinkUp
	}
	s.tell(Event{Kind: kind, Name: e.state.Server, Err: e.state.Err})
	s.link = e.state
}

// sent is what became of messages of this router.
type sent struct {
	kind       Kind
	ok, failed uint64
}

func (e sent) apply(s *state) {
	s.out[e.kind] += e.ok
	s.drop(Unsent, e.failed)
}

// tick lets time pass, with what this router runs and has placed at that time.
type tick struct {
	now    int64
	all    []actors.Elsewhere // lent
	placed []actors.Placement // given away
	reply  chan<- due
}

// due is what there is to be done after a tick.
type due struct {
	figures [][]byte
	placed  [][]byte
	news    []Event
}

func (e tick) apply(s *state) {
	var d due
	s.table.expire(e.now, func(p *peer) { s.tell(Event{Kind: PeerGone, Name: p.name}) })
	if s.link.Up {
		var oversized int
		d.figures, oversized = s.teller.write(e.all, e.now)
		s.drop(Oversized, uint64(oversized))
		writePlaced(e.placed, func() head { return s.teller.nextHead(e.now) }, func(b []byte) { d.placed = append(d.placed, b) })
	}
	d.news, s.news = s.news, nil
	e.reply <- d
}

// sumsRequest asks for what the others run, all together.
type sumsRequest struct{ reply chan<- []actors.Elsewhere }

func (e sumsRequest) apply(s *state) {
	all, crowded := s.table.sums()
	s.table.changed = false
	s.drop(Crowded, uint64(crowded))
	e.reply <- all
}

// maxNews bounds what waits for the next tick.
const maxNews = 2 * MaxPeers

func (s *state) tell(e Event) {
	if len(s.news) < maxNews {
		s.news = append(s.news, e)
	}
}

// viewRequest asks for a View.
type viewRequest struct {
	now   int64
	reply chan<- View
}

func (e viewRequest) apply(s *state) {
	v := View{Name: s.table.own.name, Link: s.link, In: s.in, Out: s.out, Dropped: s.dropped}
	for _, p := range s.table.peers {
		if p.present {
			v.Peers = append(v.Peers, p.view(e.now))
		}
	}
	e.reply <- v
}

// halt ends the loop. The reply is a last message.
type halt struct {
	now   int64
	reply chan<- []byte
}

func (e halt) apply(s *state) {
	s.halted = true
	e.reply <- s.teller.nothing(e.now)
}
