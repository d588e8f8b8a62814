package proxy

import (
	"crypto/tls"
	"net"
)

// ServeAdmin serves the admin API to clients that connect to ln until Shutdown;
// certs is nil for plain HTTP. Options.AdminListener takes that API off the listener
// of Serve.
func (p *Proxy) ServeAdmin(ln net.Listener, certs *tls.Config) error {
	return p.adminServer.Serve(p.listener(ln, certs, p.adminCrowd))
}

// listener makes of a socket what a server accepts connections from.
func (p *Proxy) listener(ln net.Listener, certs *tls.Config, c *crowd) net.Listener {
	ln = p.closeOnHandOver(newPatientListener(ln, p.log))
	ln = &boundedListener{Listener: ln, crowd: c, mute: certs != nil}
	if stall := p.opts.Timeouts.ClientWrite; stall > 0 {
		ln = steadyListener{ln, stall, certs != nil}
	}
	if certs == nil {
		return ln
	}
	certs = certs.Clone()
	certs.NextProtos = []string{"http/1.1"}
	return tls.NewListener(ln, certs)
}
