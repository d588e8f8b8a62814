package statuspage

import (
	"errors"
	"time"
)

// Errors of Join.
var (
	ErrFull = errors.New("as many watch the status page as may")
	ErrOver = errors.New("the router is shutting down")
)

// Bounds of a hub. What is observed while its channel is full is lost: it is for
// looking at, and no request waits for it.
const (
	MaxViewers  = 32
	maxObserved = 1024
)

// Hub tells every viewer the same, once in a while, and nobody anything while
// nobody looks. One goroutine owns the viewers and what is observed for them.
type Hub struct {
	frame func(*Observed) []byte // called by that goroutine; nil is no frame this time
	every time.Duration

	inbox    chan message     // unbuffered: who joins waits for the answer anyway
	observed chan observation // capacity maxObserved
	watched  chan struct{}    // capacity one; holds one while somebody looks
	done     chan struct{}    // closed when the loop has ended
}

// NewHub starts a hub. Call End to end it.
func NewHub(every time.Duration, frame func(*Observed) []byte) *Hub {
	h := &Hub{
		frame: frame, every: every, inbox: make(chan message),
		observed: make(chan observation, maxObserved), watched: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go h.loop()
	return h
}

// Viewer is one who watches. It gets the newest frame there is, and misses those
// that it was too slow for.
type Viewer struct {
	hub    *Hub
	frames chan []byte // capacity one; closed by the hub when it ends
}

type op uint8

const (
	opJoin op = iota
	opLeave
	opEnd
)

type message struct {
	op     op
	viewer *Viewer
	reply  chan<- error // opJoin
}

// Join begins to watch. The first frame comes at once. Errors: ErrFull, ErrOver.
func (h *Hub) Join() (*Viewer, error) {
	v, reply := &Viewer{h, make(chan []byte, 1)}, make(chan error, 1)
	if !h.send(message{opJoin, v, reply}) {
		return nil, ErrOver
	}
	return v, <-reply
}

// Frames gives the frames, and is closed when there will be no more.
func (v *Viewer) Frames() <-chan []byte { return v.frames }

// Leave ends the watching.
func (v *Viewer) Leave() { v.hub.send(message{op: opLeave, viewer: v}) }

// End ends the hub and all watching, and waits for that. Any but the first call
// does nothing.
func (h *Hub) End() {
	h.send(message{op: opEnd})
	<-h.done
}

func (h *Hub) send(m message) bool {
	select {
	case h.inbox <- m:
		return true
	case <-h.done:
		return false
	}
}

// Watched reports whether anybody looks. Nothing needs to be observed otherwise.
func (h *Hub) Watched() bool { return len(h.watched) > 0 }

// loop owns the viewers.
func (h *Hub) loop() {
	defer close(h.done)
	viewers := make(map[*Viewer]bool)
	var (
		seen  Observed
		last  []byte
		ticks *time.Ticker
		tick  <-chan time.Time
	)
	rest := func() {
		if len(viewers) > 0 || tick == nil {
			return
		}
		ticks.Stop()
		tick, last = nil, nil
		<-h.watched
		seen = Observed{}
	}
	for {
		select {
		case m := <-h.inbox:
			switch {
			case m.op == opEnd:
				for v := range viewers {
					close(v.frames)
				}
				clear(viewers)
				rest()
				return
			case m.op == opLeave:
				delete(viewers, m.viewer)
				rest()
				continue
			case len(viewers) == MaxViewers:
				m.reply <- ErrFull
				continue
			}
			if len(viewers) == 0 {
				h.forget()
				ticks = time.NewTicker(h.every)
				tick, last = ticks.C, h.frame(&seen)
				h.watched <- struct{}{}
			}
			viewers[m.viewer] = true
			m.viewer.show(last)
			m.reply <- nil
		case o := <-h.observed:
			if len(viewers) > 0 {
				seen.note(&o)
			}
		case <-tick:
			last = h.frame(&seen)
			seen.next()
			for v := range viewers {
				v.show(last)
			}
		}
	}
}

// forget drops what was observed for viewers that have left since.
func (h *Hub) forget() {
	for range len(h.observed) {
		<-h.observed
	}
}

// show makes a frame the next that the viewer gets. Only the hub calls it, so that
// the place that it frees stays free.
func (v *Viewer) show(frame []byte) {
	if frame == nil {
		return
	}
	select {
	case <-v.frames:
	default:
	}
	v.frames <- frame
}
