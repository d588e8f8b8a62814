package proxy

import (
	"loadstar/actors"
	"loadstar/actors/discovery/zmq"
	"loadstar/actors/workerurl"
	"loadstar/proxy/pd"
)

// Discover starts to take registrations of prefill and decode workers over ZMQ at
// an address. It is called at most once, before Serve. The error says that the
// address cannot be used.
func (p *Proxy) Discover(addr string) error {
	o := p.opts.PD
	l, err := zmq.Listen(addr, &registered{p: p, at: make(map[string]*registrant)}, zmq.Options{
		Expiry: o.Expiry, MaxRegistrations: o.MaxRegistered, Log: p.log,
		MoRIIO: o.Connector == pd.MoRIRead || o.Connector == pd.MoRIWrite,
	})
	if err != nil {
		return err
	}
	p.discovery = l
	p.log.Info("waiting for workers to register", "address", l.Addr().String())
	return nil
}

// registered makes members of the workers that register themselves. One goroutine
// calls it, so its map needs no other owner.
type registered struct {
	p  *Proxy
	at map[string]*registrant // by canonical base URL
}

// registrant is one server that has registered.
type registrant struct {
	said   zmq.Registration // last; the role aside it holds for both roles
	roles  actors.Roles
	server *server // nil while it is no member
}

// Register implements zmq.Fleet.
func (f *registered) Register(r zmq.Registration) error {
	base, err := workerurl.Canonical("http://" + r.HTTPAddress)
	if err != nil {
		return err
	}
	g := f.at[base]
	if g == nil {
		g = &registrant{}
		f.at[base] = g
	}
	err = f.set(base, g, r, g.roles|actors.RolesOf(r.Role))
	if err == nil {
		f.p.log.Info("worker has registered", "worker", base, "role", r.Role.String(), "zmq", r.ZMQAddress, "mode", r.Mode.String(),
			"dp_size", r.DPSize, "tp_size", r.TPSize)
	}
	return err
}

// Replace implements zmq.Fleet.
func (f *registered) Replace(old, changed zmq.Registration) error {
	f.p.log.Info("worker was started again", "worker", old.HTTPAddress, "role", old.Role.String(), "zmq", changed.ZMQAddress)
	return f.Register(changed)
}

// Expire implements zmq.Fleet.
func (f *registered) Expire(r zmq.Registration) {
	base, err := workerurl.Canonical("http://" + r.HTTPAddress)
	g := f.at[base]
	if err != nil || g == nil {
		return
	}
	f.p.log.Warn("worker has stopped to register", "worker", base, "role", r.Role.String())
	left := g.roles &^ actors.RolesOf(r.Role)
	if left != 0 && f.set(base, g, g.said, left) == nil {
		return
	}
	f.drop(base, g)
	delete(f.at, base)
}

// set makes a server a member with these roles, as a new one if it has changed.
// Requests that run there stay counted.
func (f *registered) set(base string, g *registrant, r zmq.Registration, roles actors.Roles) error {
	r.Role = g.said.Role
	if g.server != nil && g.said == r {
		for i := range g.server.specs {
			if err := f.p.router.SetRoles(g.server.specs[i].URL, roles); err != nil {
				f.drop(base, g) // somebody removed it
				return err
			}
		}
		g.roles = roles
		return nil
	}
	f.drop(base, g)
	s := &server{name: base, site: newSite(base), sized: true}
	s.site.zmq, s.site.tpSize, s.site.connector = r.ZMQAddress, r.TPSize, connectorOf(r.Mode)
	s.setRanks(actors.Spec{Base: base, Priority: DefaultPriority, Cost: 1, Roles: roles, Source: sourceZMQ}, r.DPSize)
	if err := f.p.add([]*server{s}); err != nil {
		return err
	}
	g.said, g.roles, g.server = r, roles, s
	return nil
}

func (f *registered) drop(base string, g *registrant) {
	if g.server != nil {
		_ = f.p.RemoveWorker(base) // somebody may have removed it
		g.server = nil
	}
}

func connectorOf(m zmq.Mode) pd.Connector {
	switch m {
	case zmq.Read:
		return pd.MoRIRead
	case zmq.Write:
		return pd.MoRIWrite
	default:
		return pd.NIXL
	}
}
