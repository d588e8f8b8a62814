package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// Bounds of names' addresses.
const (
	maxAddresses = 256
	askEvery     = 5 * time.Second
	askAgain     = time.Second     // where the last answer was none
	askLimit     = 3 * time.Second // for one answer
	tellFailures = 5               // in a row are told of
	keepFor      = 10 * time.Minute
)

// Route is where another router's server listens.
type Route struct {
	Host string // an address, or a name with any number of them
	Port int
}

// Resolver is the part of net.Resolver that is used.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// routes is where other routers' servers are, as far as it is known.
type routes struct {
	names  []Route          // whose host is asked for
	fixed  []netip.AddrPort // of the others
	known  map[address]time.Time
	failed []int // answers in a row that failed, by name
}

// address is one of a name. The value beside it is since when answers are without it:
// zero if the last one had it.
type address struct {
	name int
	at   netip.AddrPort
}

func newRoutes(all []Route) *routes {
	r := &routes{known: make(map[address]time.Time)}
	for _, one := range all {
		if a, err := netip.ParseAddr(one.Host); err == nil {
			r.fixed = append(r.fixed, netip.AddrPortFrom(a, uint16(one.Port)))
			continue
		}
		r.names = append(r.names, one)
	}
	r.failed = make([]int, len(r.names))
	return r
}

// answer takes the addresses of a name.
func (r *routes) answer(name int, addrs []netip.Addr, now time.Time) {
	for a, since := range r.known {
		switch {
		case a.name != name || slices.Contains(addrs, a.at.Addr()):
		case since.IsZero():
			r.known[a] = now
		case now.Sub(since) > keepFor:
			delete(r.known, a)
		}
	}
	for _, a := range addrs {
		r.known[address{name, netip.AddrPortFrom(a, uint16(r.names[name].Port))}] = time.Time{}
	}
	if n := len(r.known) - maxAddresses; n > 0 {
		for _, a := range slices.SortedFunc(maps.Keys(r.known), r.leastWanted)[:n] {
			delete(r.known, a)
		}
	}
}

// leastWanted orders addresses: those that are missing for longest come first.
func (r *routes) leastWanted(a, b address) int {
	x, y := r.known[a], r.known[b]
	if x.IsZero() != y.IsZero() {
		if y.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(x.Compare(y), b.at.Compare(a.at))
}

// addresses is all of them, in order.
func (r *routes) addresses() []netip.AddrPort {
	all := slices.Clone(r.fixed)
	for a := range r.known {
		all = append(all, a.at)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// urls is all of them as the library wants them.
func (o *Options) urls(all []netip.AddrPort) []*url.URL {
	urls := make([]*url.URL, len(all))
	for i, a := range all {
		urls[i] = &url.URL{Scheme: "nats-route", Host: a.String()}
		if o.User != "" {
			urls[i].User = url.UserPassword(o.User, o.Password)
		}
	}
	return urls
}

// found is what the resolver says of one name.
type found struct {
	name  int
	addrs []netip.Addr
	err   error
}

// ask asks for every name, one after the other.
func (r *routes) ask(ctx context.Context, by Resolver) []found {
	var all []found
	for i, n := range r.names {
		one, cancel := context.WithTimeout(ctx, askLimit)
		addrs, err := by.LookupNetIP(one, "ip", n.Host)
		cancel()
		for j := range addrs {
			addrs[j] = addrs[j].Unmap()
		}
		all = append(all, found{i, addrs, err})
	}
	return all
}

// follow keeps the routes of a server and tells what happens, until Close.
func (s *Server) follow(n *natsd.Server, r *routes) {
	answers := make(chan []found, 1) // of one question at a time
	next := time.NewTimer(0)
	defer next.Stop()
	limit := limiter{left: burst, at: time.Now()}
	had := r.addresses()
	for {
		select {
		case e := <-s.events:
			if limit.pass(&e, time.Now()) {
				s.opts.Tell(e)
			}
		case <-next.C:
			if len(r.names) > 0 {
				go func() { answers <- r.ask(s.ctx, s.opts.Resolver) }()
			}
		case all := <-answers:
			next.Reset(s.learn(r, all))
			if has := r.addresses(); !slices.Equal(has, had) {
				had = has
				if err := n.ReloadOptions(s.opts.library(s.opts.urls(has))); err != nil {
					s.opts.Tell(Event{Level: Warning, Text: "new addresses of other routers' NATS servers can't be used", Err: err})
				}
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// learn takes answers and returns when to ask again.
func (s *Server) learn(r *routes, all []found) time.Duration {
	again := s.every
	for _, f := range all {
		if f.err == nil {
			r.failed[f.name] = 0
			r.answer(f.name, f.addrs, time.Now())
			continue
		}
		again = min(askAgain, s.every)
		if r.failed[f.name]++; r.failed[f.name] == tellFailures && s.ctx.Err() == nil {
			host := net.JoinHostPort(r.names[f.name].Host, strconv.Itoa(r.names[f.name].Port))
			s.opts.Tell(Event{Level: Warning, Text: fmt.Sprintf("other routers' NATS servers are not found at %s: trying again", host), Err: f.err})
		}
	}
	return again
}
