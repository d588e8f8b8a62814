package proxytest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// maxQueue is how many requests may wait on one connection, the one being
// answered included.
const maxQueue = 4096

// A conn is one connection of a worker. Its reader goroutine lives as long as
// the connection; a goroutine per script runs beside it.
type conn struct {
	w      *Worker
	link   *link
	number int

	// The rest is guarded by Worker.mu.
	queue  []*Exchange // arrived and not finished; the first is being answered
	seq    int
	open   bool // counted as open
	closed bool // ended by this side
	left   bool // ended by the peer; what had arrived is still answered
	spent  bool // nothing more will be read
	idle   *time.Timer
}

// read takes requests off the connection until either side ends it.
func (c *conn) read() {
	defer c.w.tasks.Done()
	buf := make([]byte, 32<<10)
	var rest []byte
	for {
		p := &parser{keep: true}
		var x *Exchange
		for p.phase != finished {
			if len(rest) == 0 {
				n, err := c.link.read(buf, func() {})
				if err != nil {
					c.readEnd(x, p)
					return
				}
				c.w.touch()
				rest = buf[:n]
			}
			n, err := p.feed(rest)
			rest = rest[n:]
			if err == nil && x == nil && p.phase != inHead {
				if x, err = c.arrived(p); err == nil {
					c.beforeBody(x)
				}
			}
			if err != nil {
				c.refuse(x, p, err)
				return
			}
		}
		c.bodyRead(x, p)
	}
}

// refuse answers a request that cannot be understood and ends the connection,
// as the bytes behind it mean nothing.
func (c *conn) refuse(x *Exchange, p *parser, err error) {
	c.w.fault(fmt.Errorf("connection %d: bad request: %w", c.number, err))
	if c.waiting() == 0 || x != nil && c.isFirst(x) {
		c.link.writing.Lock()
		_ = c.link.write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		c.link.writing.Unlock()
	}
	c.end(false)
	c.readEnd(x, p)
}

func (c *conn) waiting() int {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return len(c.queue)
}

func (c *conn) isFirst(x *Exchange) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return len(c.queue) > 0 && c.queue[0] == x
}

// arrived makes an exchange of a head.
func (c *conn) arrived(p *parser) (*Exchange, error) {
	x := newExchange(c, p)
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(c.queue) == maxQueue {
		return nil, fmt.Errorf("more than %d unanswered requests", maxQueue)
	}
	c.seq++
	x.Seq = c.seq
	switch {
	case c.closed:
		x.outcome, x.endedAt = Cut, x.ArrivedAt
	case c.left:
		x.outcome, x.endedAt = Abandoned, x.ArrivedAt
	}
	w.arrived(x)
	c.queue = append(c.queue, x)
	if len(c.queue) == 1 {
		close(x.turn)
	}
	return x, nil
}

// beforeBody runs what may happen between a head and its body: an early script
// and the 100 that a client expects. The reader stands still meanwhile.
func (c *conn) beforeBody(x *Exchange) {
	c.w.mu.Lock()
	early := c.w.early
	if x.health {
		early = nil
	}
	x.early = early != nil
	c.w.mu.Unlock()
	if early == nil && !x.expects {
		return
	}
	c.link.park(x.turn)
	if !c.isFirst(x) {
		return // the connection was closed before its turn came
	}
	if early != nil {
		c.w.tasks.Add(1)
		go c.runEarly(x, early)
		c.link.park(x.bodyWanted)
	}
	if x.expects {
		x.sayContinue()
	}
}

// bodyRead notes that x has arrived whole.
func (c *conn) bodyRead(x *Exchange, p *parser) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	x.setBody(p, true)
	c.startFirst()
}

// readEnd notes that nothing more will be read. x is what was being read, if
// its head had arrived.
func (c *conn) readEnd(x *Exchange, p *parser) {
	c.w.touch()
	c.w.mu.Lock()
	c.spent = true
	if x != nil {
		x.setBody(p, false)
		if !x.early {
			c.drop(x)
		}
	}
	idle := len(c.queue) == 0
	c.w.mu.Unlock()
	if idle {
		c.end(false)
	}
}

// peerLeft runs when the peer's FIN or RST is seen, before PeerClosed says so.
func (c *conn) peerLeft(at time.Time) {
	c.w.touch()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.left = true
	for _, x := range c.queue {
		c.w.end(x, Abandoned, at)
	}
	c.notOpen()
}

// notOpen stops counting the connection as open. The caller holds Worker.mu.
func (c *conn) notOpen() {
	if c.open {
		c.open = false
		c.w.counts.OpenConnections--
		c.w.changed()
	}
}

// end closes the connection from this side, by FIN or RST, after all that is
// on it has been taken out of flight.
func (c *conn) end(reset bool) {
	c.w.touch()
	c.w.mu.Lock()
	already := c.closed
	c.closed, c.link.ended = true, true
	if c.idle != nil {
		c.idle.Stop()
	}
	now := time.Now()
	for _, x := range c.queue {
		c.w.end(x, Cut, now)
	}
	c.notOpen()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	switch {
	case already:
	case reset:
		c.link.closeRST()
	default:
		c.link.closeFIN()
	}
}

// drop takes x out of the queue. The caller holds Worker.mu.
func (c *conn) drop(x *Exchange) {
	i := slices.Index(c.queue, x)
	if i < 0 {
		return
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	if i == 0 && len(c.queue) > 0 {
		close(c.queue[0].turn)
		c.link.rouse()
	}
}

// startFirst starts the script of the first request in the queue if it can run.
// The caller holds Worker.mu.
func (c *conn) startFirst() {
	if len(c.queue) == 0 || c.closed {
		return
	}
	x := c.queue[0]
	if x.started || x.early || !x.whole {
		return
	}
	x.started = true
	script := c.w.script
	if x.health {
		script = c.w.health
	}
	c.w.tasks.Add(1)
	go c.run(x, script)
}

func (c *conn) run(x *Exchange, s Script) {
	defer c.w.tasks.Done()
	// Deferred, so that a script may also end by a panic or by t.FailNow.
	defer c.after(x)
	defer c.recovered(x)
	s(x)
}

func (c *conn) runEarly(x *Exchange, s Script) {
	defer c.w.tasks.Done()
	defer c.afterEarly(x)
	defer c.recovered(x)
	s(x)
}

func (c *conn) recovered(x *Exchange) {
	if v := recover(); v != nil {
		c.w.fault(fmt.Errorf("script of %q panicked: %v\n%s", x.RequestLine, v, debug.Stack()))
		c.end(true)
	}
}

// afterEarly lets the reader go on behind an early script.
func (c *conn) afterEarly(x *Exchange) {
	c.link.writing.Lock()
	answered := x.final()
	c.link.writing.Unlock()
	c.w.mu.Lock()
	x.early = false
	over := answered || c.closed
	c.w.mu.Unlock()
	if over {
		c.after(x)
	} else {
		c.w.mu.Lock()
		c.startFirst()
		c.w.mu.Unlock()
	}
	x.wantBody()
}

// after ends x when its script has: the next request's turn, or the end of the
// connection.
func (c *conn) after(x *Exchange) {
	c.link.writing.Lock()
	keep, asPromised := x.verdict()
	c.link.writing.Unlock()
	c.w.mu.Lock()
	how := Cut
	if asPromised {
		how = Answered
	}
	c.w.end(x, how, time.Now())
	x.started = true
	c.drop(x)
	if c.spent && len(c.queue) == 0 {
		keep = false
	}
	if keep {
		c.startFirst()
		if len(c.queue) == 0 && x.closeIdle > 0 && !c.closed {
			c.idle = time.AfterFunc(x.closeIdle, func() { c.endIdle(x.Seq) })
		}
	}
	c.w.mu.Unlock()
	if !keep {
		c.end(false)
	}
}

// endIdle closes the connection if nothing has come since request seq.
func (c *conn) endIdle(seq int) {
	c.w.mu.Lock()
	idle := c.seq == seq
	c.w.mu.Unlock()
	if idle {
		c.end(false)
	}
}
