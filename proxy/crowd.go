package proxy

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
)

// crowd counts the connections of clients that are open at one server. fasthttp
// would refuse those above its limit with an answer of its own.
type crowd struct {
	places chan struct{} // holds one for each open connection
	told   chan struct{} // holds one for each refused connection that is still being told why
	await  time.Duration // for its question, before it is told
	plain  []byte        // what it is told
	turned *metrics.Counter
	log    *slog.Logger
}

// Bounds of telling a refused client why.
const (
	toldAtATime   = 64 // well within the descriptors that are spared
	toldBytes     = 256 << 10
	awaitQuestion = 500 * time.Millisecond
	awaitFarewell = time.Second
	toldAtOnce    = 100 * time.Millisecond // a fresh socket takes the answer without waiting
)

// newCrowd bounds the connections of a server to its Concurrency, which then is
// fasthttp's no more.
func (p *Proxy) newCrowd(s *fasthttp.Server) *crowd {
	c := &crowd{
		places: make(chan struct{}, s.Concurrency),
		told:   make(chan struct{}, toldAtATime),
		await:  p.opts.short(awaitQuestion),
		plain:  p.rawAnswer(tooManyConnections(s.Concurrency)),
		turned: p.metrics.turnedAway,
		log:    p.log,
	}
	// Its workers outlast their connections by a moment.
	s.Concurrency = noLimit
	s.ConnState = c.connState
	return c
}

// noLimit is more connections than a process can have.
const noLimit = 1 << 30

func tooManyConnections(limit int) *problem {
	return &problem{
		fasthttp.StatusServiceUnavailable, kindUnavailable, "too_many_connections",
		fmt.Sprintf("The router serves no more than %d connections at a time, the limit set by --max-connections or by the system's on open files.", limit), 1,
	}
}

// rawAnswer is e as it goes to a client whose request nobody reads.
func (p *Proxy) rawAnswer(e *problem) []byte {
	contentType, body := "application/json", e.body()
	if p.opts.Compat {
		contentType, body = plainText, []byte(e.message)
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n%s",
		e.status, fasthttp.StatusMessage(e.status), contentType, len(body), e.retryAfter, body)
}

// connState gives a place back when its connection has ended.
func (c *crowd) connState(_ net.Conn, s fasthttp.ConnState) {
	if s == fasthttp.StateClosed || s == fasthttp.StateHijacked {
		<-c.places
	}
}

// boundedListener accepts connections while there are places, and turns the
// others away.
type boundedListener struct {
	net.Listener
	crowd *crowd
	mute  bool // TLS is spoken: a client turned away is told nothing, which would take a handshake

	logged time.Time // when clients turned away were last logged; for Accept, which is called by one goroutine
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.crowd.places <- struct{}{}:
			return c, nil
		default:
			l.turnAway(c)
		}
	}
}

// turnAway ends a connection that there is no place for. It doesn't wait for the
// client: what takes waiting is done elsewhere, for so many at a time, and the
// others may lose the answer to a reset if they have sent their request already.
func (l *boundedListener) turnAway(c net.Conn) {
	l.crowd.turned.Inc()
	if now := time.Now(); now.Sub(l.logged) >= acceptLogEvery {
		l.logged = now
		l.crowd.log.Warn("clients are turned away: as many are connected as may be; raise --max-connections, and the limit on open files",
			"connections", cap(l.crowd.places), "turned_away", l.crowd.turned.Get())
	}
	if l.mute {
		_ = c.Close() // there is nobody to tell
		return
	}
	select {
	case l.crowd.told <- struct{}{}:
		go l.crowd.tell(c)
	default:
		c.SetDeadline(time.Now().Add(toldAtOnce))
		_, _ = c.Write(l.crowd.plain)
		_ = c.Close()
	}
}

// tell answers a refused client's first request, which it waits for: some clients
// take an answer that comes before their question for a fault. Then it takes what
// the client still sends, since closing with bytes unread would lose the answer.
func (c *crowd) tell(conn net.Conn) {
	defer func() {
		_ = conn.Close() // whatever came of it
		<-c.told
	}()
	b := make([]byte, 4<<10)
	conn.SetDeadline(time.Now().Add(c.await))
	if _, err := conn.Read(b); err != nil && !isTimeout(err) {
		return // it has left
	}
	conn.SetDeadline(time.Now().Add(awaitFarewell))
	if _, err := conn.Write(c.plain); err != nil {
		return
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	for n := 0; n < toldBytes; {
		m, err := conn.Read(b)
		if err != nil {
			return
		}
		n += m
	}
}
