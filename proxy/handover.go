package proxy

import (
	"context"
	"net"
	"syscall"
	"time"

	"loadstar/actors"
)

// Adopt makes a listening socket that another process has opened with Listen fit
// to be used as one of this process.
func Adopt(ln net.Listener, patience time.Duration) (net.Listener, error) {
	if c, ok := ln.(syscall.Conn); ok {
		raw, err := c.SyscallConn()
		if err == nil {
			err = listenOptions(patience)("tcp", "", raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return adopted{ln}, nil
}

// adopted gives its connections what a socket of this process would have given.
type adopted struct{ net.Listener }

// Accept implements net.Listener.
func (a adopted) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(clientKeepAlive) // a connection that refuses it has ended
	}
	return c, err
}

// SyscallConn implements syscall.Conn, for the socket to be handed on.
func (a adopted) SyscallConn() (syscall.RawConn, error) {
	c, ok := a.Listener.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	return c.SyscallConn()
}

// HandOver has this process accept no more connections: its sockets are another
// process's. The connections that are there are served, each with Connection:
// close, and who watches is sent on. It is called once.
func (p *Proxy) HandOver() {
	close(p.handedOver)
	p.viewers.End()
}

// closeOnHandOver closes a listener when its socket is another process's, and when
// the proxy has ended: a Serve that came behind Shutdown would accept for ever.
func (p *Proxy) closeOnHandOver(ln *patientListener) *patientListener {
	go func() {
		select {
		case <-p.handedOver:
			_ = ln.Close() // only this process's descriptor
		case <-p.over.Done():
			_ = ln.Close()
		case <-ln.closed:
		}
	}()
	return ln
}

// closing reports whether a connection should carry no further request.
func (p *Proxy) closing() bool {
	select {
	case <-p.handedOver:
		return true
	default:
		return p.stopping()
	}
}

// AwaitQuiet waits, after HandOver, until no connection is left, or no request has
// been under way for linger, or ctx ends. Until then connections are left open: a
// client may be about to use one, and Shutdown would close it under its hands.
func (p *Proxy) AwaitQuiet(ctx context.Context, linger time.Duration) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for busy := time.Now(); ; {
		if p.metrics.inFlight.Get() > 0 {
			busy = time.Now()
		}
		// One less than there are, once nothing is listened to.
		none := p.server.GetOpenConnectionsCount() < 0 && p.adminServer.GetOpenConnectionsCount() < 0
		if none || time.Since(busy) >= linger {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Running tells what runs at each worker; see Registry.Running.
func (p *Proxy) Running() (all []actors.Elsewhere, ok bool) { return p.router.Running(nil) }

// SetForeign takes what another process runs at workers; see Registry.SetForeign.
func (p *Proxy) SetForeign(origin string, all []actors.Elsewhere) error {
	return p.router.SetForeign(origin, all)
}
