package sim

import (
	"time"
)

// simulation is one run: a workload through a router to workers.
type simulation struct {
	settings *Settings
	router   *router
	workers  []*worker
	agenda   agenda
	token    time.Duration
	done     func(*job) // is told of each job when its prompt is prefilled
}

// simulate sends all requests through a router with this rule and tells done of
// each.
func (s *Settings) simulate(rule Rule, seed uint64, requests []request, done func(*job)) (*simulation, error) {
	r, err := newRouter(s, rule, seed)
	if err != nil {
		return nil, err
	}
	m := &simulation{settings: s, router: r, token: seconds(s.TokenTime / 1000), done: done}
	for i := range s.Workers {
		m.workers = append(m.workers, s.worker(i))
	}
	if s.Restart.Worker > 0 {
		m.agenda.plan(event{at: seconds(s.Restart.Seconds / s.Speed), what: restarted, worker: s.Restart.Worker - 1})
	}
	for i := range requests {
		for m.agenda.before(requests[i].at) {
			m.happen(m.agenda.next())
		}
		m.arrive(&requests[i], i)
	}
	for len(m.agenda.events) > 0 {
		m.happen(m.agenda.next())
	}
	return m, nil
}

func (m *simulation) arrive(q *request, number int) {
	j := &job{request: q, number: number, lease: m.router.grant(q, q.at)}
	if m.settings.GiveBack == AtHead {
		m.router.begun(&j.lease)
	}
	if m.workers[j.lease.worker].add(j) {
		m.begin(j.lease.worker, q.at)
	}
}

func (m *simulation) begin(worker int, now time.Duration) {
	m.agenda.plan(event{at: now + m.workers[worker].begin(), what: prefilled, worker: worker})
}

func (m *simulation) happen(e event) {
	switch e.what {
	case prefilled:
		j, next := m.workers[e.worker].end()
		j.first = e.at
		if next {
			m.begin(e.worker, e.at)
		}
		if m.settings.GiveBack == AtFirst {
			m.router.begun(&j.lease)
		}
		m.agenda.plan(event{at: e.at + time.Duration(j.request.output-1)*m.token, what: finished, job: j})
		m.done(j)
	case finished:
		m.router.release(&e.job.lease, len(e.job.request.chain), e.job.hits)
	case restarted:
		m.workers[e.worker].cache.Clear()
	}
}
