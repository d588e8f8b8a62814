package worker

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// newEngines starts an engine for each data-parallel rank. Their ids are new each
// time, as a restarted worker's are.
func newEngines(cfg Config) []*engine {
	id := fmt.Sprintf("sim-%016x", rand.Uint64())
	engines := make([]*engine, 0, max(cfg.Ranks, 1))
	for rank := range max(cfg.Ranks, 1) {
		e := newEngine(cfg)
		e.id = id
		if cfg.Ranks > 1 {
			e.id = fmt.Sprintf("%s_dp%d", id, rank)
		}
		e.announce()
		engines = append(engines, e)
	}
	return engines
}

// pick is the engine that a request is meant for, or the next in turn if it names
// no rank. The rank is −1 if it names none. A rank that doesn't exist is an error
// for rank 0 to tell, unless no number of ranks is configured.
func (w *Worker) pick(r *http.Request) (*engine, int, error) {
	rank, err := strconv.Atoi(r.Header.Get("X-Data-Parallel-Rank"))
	switch {
	case err != nil: // none, or not a number: vLLM ignores it
		return w.engines[w.turn.Add(1)%uint64(len(w.engines))], -1, nil
	case w.cfg.Ranks == 0:
		return w.engines[0], rank, nil
	case rank < 0 || rank >= w.cfg.Ranks:
		return w.engines[0], -1, badRequest("", "X-data-parallel-rank is %d, not from 0 to %d", rank, w.cfg.Ranks-1)
	}
	return w.engines[rank], rank, nil
}

// stats is what each rank has seen.
func (w *Worker) stats() []Stats {
	all := make([]Stats, 0, len(w.engines))
	for _, e := range w.engines {
		all = append(all, e.stats())
	}
	return all
}
