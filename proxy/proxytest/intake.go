package proxytest

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxAhead is how many bytes a client reads ahead of its test.
const maxAhead = 16 << 20

// An intake reads a client's connection as bytes come, so that each piece has
// the time at which it came and the end of the connection is seen at once.
type intake struct {
	link    *link
	rate    atomic.Int64  // bytes a second; below 0 as fast as can be, 0 not at all
	changed chan struct{} // capacity 1: pieces or end have changed
	resume  chan struct{} // capacity 1: rate has changed, or there is room again
	ended   chan struct{} // closed when nothing more will come

	mu     sync.Mutex
	pieces []piece
	size   int
	end    error // io.EOF, ErrReset, or that the connection was closed here
}

// A piece is what one read gave.
type piece struct {
	data []byte
	at   time.Time
}

func newIntake(l *link) *intake {
	in := &intake{
		link: l, changed: make(chan struct{}, 1), resume: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	in.rate.Store(-1)
	go in.run()
	return in
}

func (in *intake) run() {
	defer close(in.ended)
	buf := make([]byte, 32<<10)
	for in.allowed() {
		b := buf
		rate := in.rate.Load()
		if rate > 0 {
			b = buf[:min(int64(len(buf)), max(1, rate/20))]
		}
		n, err := in.link.read(b, func() { in.allowed() })
		in.put(b[:n], err)
		if err != nil {
			return
		}
		if rate > 0 {
			in.pause(time.Duration(int64(n) * int64(time.Second) / rate))
		}
	}
	// The connection was closed here while nothing was being read.
	_, err := in.link.read(buf[:1], func() {})
	in.put(nil, err)
}

// allowed waits until reading is allowed and says whether the connection is
// still there to be read.
func (in *intake) allowed() bool {
	for {
		in.mu.Lock()
		full := in.size >= maxAhead
		in.mu.Unlock()
		if in.rate.Load() != 0 && !full {
			return true
		}
		select {
		case <-in.resume:
		case <-in.link.shut:
			return false
		}
	}
}

func (in *intake) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-in.link.shut:
	}
}

func (in *intake) put(b []byte, err error) {
	in.mu.Lock()
	if len(b) > 0 {
		in.pieces = append(in.pieces, piece{append([]byte(nil), b...), time.Now()})
		in.size += len(b)
	}
	in.end = err
	in.mu.Unlock()
	signal(in.changed)
}

// take returns the next piece, waiting for it until the deadline. The error is
// that of the end of the connection, or ErrTimeout. One goroutine at a time may
// call it.
func (in *intake) take(deadline time.Time) (piece, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		in.mu.Lock()
		if len(in.pieces) > 0 {
			p := in.pieces[0]
			in.pieces[0] = piece{}
			in.pieces = in.pieces[1:]
			in.size -= len(p.data)
			in.mu.Unlock()
			signal(in.resume)
			return p, nil
		}
		end := in.end
		in.mu.Unlock()
		if end != nil {
			return piece{}, end
		}
		select {
		case <-in.changed:
		case <-timer.C:
			return piece{}, ErrTimeout
		}
	}
}

// setRate makes the intake read that many bytes a second.
func (in *intake) setRate(rate int64) {
	in.rate.Store(rate)
	signal(in.resume)
	in.link.rouse()
}

// signal wakes whoever waits on c, a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
