package replay

import (
	"context"
	"slices"

	"loadstar/bench/compare"
	"loadstar/bench/nats"
)

// startRouters starts the copies of a router before workers, and returns what ends
// them.
func (s Settings) startRouters(ctx context.Context, dir, name string, workers []*simulated) (all []*compare.Started, end func(), err error) {
	var server *nats.Server
	end = func() {
		for _, r := range all {
			r.End()
		}
		if server != nil {
			server.Close()
		}
	}
	l := compare.Launch{Programs: s.Programs, Name: name, Args: s.RouterArgs, Dir: dir, Core: s.Core}
	for _, w := range workers {
		l.Workers = append(l.Workers, w.address)
	}
	if s.NATS {
		if server, err = nats.Start("127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		// Equals signs, so that what follows is no further value.
		l.Args = append(slices.Clone(l.Args), "--peers-nats="+server.URL())
	}
	for range max(s.Copies, 1) {
		r, err := compare.Start(ctx, l)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, r)
	}
	return all, end, nil
}
