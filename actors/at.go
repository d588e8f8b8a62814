package actors

// WorkerAt is a worker at some base URL, as Registry.At tells of it.
type WorkerAt struct {
	Spec
	ID       WorkerID
	Member   bool // false: removed, with leases still live
	Healthy  bool
	Draining bool
}

// At lists the workers at a base URL, removed ones that have leases live included;
// none once the registry has ended. It can be asked with each health check: it costs
// the loop no look at every worker, but while one that was removed still has leases.
func (r *Registry) At(base string) []WorkerAt {
	reply := make(chan []WorkerAt, 1)
	all, _ := ask(r, atRequest{base, reply}, reply)
	return all
}

type atRequest struct {
	base  string
	reply chan<- []WorkerAt
}

func (m atRequest) apply(s *state) { m.reply <- s.at(m.base) }

func (s *state) at(base string) []WorkerAt {
	all := make([]WorkerAt, 0, len(s.byBase[base]))
	for _, id := range s.byBase[base] {
		all = append(all, s.workers[id].at(id))
	}
	if len(s.byURL) == s.members {
		return all // nobody has been removed
	}
	for i := range s.workers {
		if w := &s.workers[i]; w.used && !w.member && w.spec.Base == base {
			all = append(all, w.at(WorkerID(i)))
		}
	}
	return all
}

func (w *worker) at(id WorkerID) WorkerAt {
	return WorkerAt{Spec: w.spec, ID: id, Member: w.member, Healthy: w.health.healthy, Draining: w.emptying.on()}
}
