package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// Listen opens a listening socket for clients, which are given up when they take
// nothing for patience; zero waits for ever.
func Listen(addr string, patience time.Duration) (net.Listener, error) {
	lc := net.ListenConfig{
		Control:         listenOptions(patience),
		KeepAliveConfig: clientKeepAlive,
	}
	lc.SetMultipathTCP(false) // its sockets don't tell of departures in the same way
	return lc.Listen(context.Background(), "tcp", addr)
}

// clientKeepAlive finds clients that have vanished.
var clientKeepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Waits of a listener that can't accept for want of resources.
const (
	firstAcceptWait   = 5 * time.Millisecond
	longestAcceptWait = time.Second
	acceptLogEvery    = 10 * time.Second
)

// patientListener is a listener that outlives a shortage of descriptors or memory,
// which fasthttp takes for its end. Clients wait meanwhile in the kernel's queue.
type patientListener struct {
	net.Listener
	log    *slog.Logger
	closed <-chan struct{}
	close  context.CancelFunc

	logged time.Time // when a shortage was last logged; for Accept, which is called by one goroutine
}

func newPatientListener(ln net.Listener, log *slog.Logger) *patientListener {
	ctx, cancel := context.WithCancel(context.Background())
	return &patientListener{Listener: ln, log: log, closed: ctx.Done(), close: cancel}
}

// Accept implements net.Listener.
func (p *patientListener) Accept() (net.Conn, error) {
	for wait := firstAcceptWait; ; wait = min(2*wait, longestAcceptWait) {
		c, err := p.Listener.Accept()
		if err == nil || !exhausted(err) && !errors.Is(err, syscall.ECONNABORTED) {
			return c, err
		}
		if now := time.Now(); now.Sub(p.logged) >= acceptLogEvery {
			p.logged = now
			p.log.Warn("clients can't be accepted and wait; raise the limit on open files, or lower --max-connections", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-p.closed:
		}
	}
}

// Close implements net.Listener. Any but the first call does nothing.
func (p *patientListener) Close() error {
	p.close()
	if err := p.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
