package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/workerurl"
)

// Resolver is the part of net.Resolver that is used.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options says how a name is asked for.
type Options struct {
	Roles    actors.Roles // of the workers
	Every    time.Duration
	Resolver Resolver // the system's if nil
}

const (
	patience = 3               // answers in a row without a worker that have it leave
	limit    = 5 * time.Second // for one answer
)

// Run says which workers there are by q until ctx ends. It is to be run as a source.
func Run(q Query, o Options) func(context.Context, *discovery.Source) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return func(ctx context.Context, s *discovery.Source) {
		tick := time.NewTicker(o.Every)
		defer tick.Stop()
		n := names{opts: &o, missing: make(map[string]int)}
		for {
			urls, err := q.ask(ctx, o.Resolver)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.Fail(fmt.Errorf("%s: %w", q, err))
			default:
				s.Say(n.answer(urls))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// ask asks once and returns the URLs of all workers, in order.
func (q Query) ask(ctx context.Context, r Resolver) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var urls []string
	add := func(host string, port int) error {
		u, err := workerurl.Canonical("http://" + net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			urls = append(urls, u)
		}
		return err
	}
	if q.Port == 0 {
		_, records, err := r.LookupSRV(ctx, "", "", q.Name)
		if err != nil {
			return nil, plain(err)
		}
		for _, rec := range records {
			target := strings.TrimSuffix(rec.Target, ".")
			if target == "" {
				continue // says that there is none
			}
			if !isName(target) {
				return nil, fmt.Errorf("a record points to %q, which is no name", rec.Target)
			}
			if err := add(target, int(rec.Port)); err != nil {
				return nil, err
			}
		}
	} else {
		addrs, err := r.LookupNetIP(ctx, "ip", q.Name)
		switch {
		case err != nil:
			return nil, plain(err)
		case len(addrs) == 0:
			return nil, errNotFound
		}
		for _, a := range addrs {
			if err := add(a.Unmap().String(), q.Port); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), nil
}

// names is the workers that were in the last answers.
type names struct {
	opts    *Options
	missing map[string]int // answers in a row that were without it, by URL
}

// answer takes an answer and returns the workers there are.
func (n *names) answer(urls []string) []discovery.Worker {
	for url := range n.missing {
		if n.missing[url]++; n.missing[url] >= patience && !slices.Contains(urls, url) {
			delete(n.missing, url)
		}
	}
	for _, url := range urls {
		n.missing[url] = 0
	}
	all := make([]discovery.Worker, 0, len(n.missing))
	for url := range n.missing {
		all = append(all, discovery.Worker{URL: url, Roles: n.opts.Roles, Priority: discovery.DefaultPriority, Cost: 1})
	}
	slices.SortFunc(all, func(a, b discovery.Worker) int { return strings.Compare(a.URL, b.URL) })
	return all
}
