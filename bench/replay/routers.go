package replay

import (
	"context"
	"fmt"
	"slices"

	"loadstar/bench/compare"
	"loadstar/bench/nats"
	"loadstar/bench/worker"
)

// routerBacklog is Loadstar's default of --worker-backlog-tokens.
const routerBacklog = 8192

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
	if s.BlockTokens > 0 && compare.IsLoadstar(name) {
		// A block of a trace is sent as one of 16 tokens, and what counts tokens shrinks with it.
		backlog := max(1, routerBacklog*worker.BlockTokens/s.BlockTokens)
		l.Args = append(slices.Clone(l.Args), fmt.Sprintf("--worker-backlog-tokens=%d", backlog))
	}
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
