package sim

import (
	"cmp"
	"slices"
	"time"

	"loadstar/actors/policy"
)

// simulation is one run: a workload through a router to workers.
type simulation struct {
	settings *Settings
	router   *router
	workers  []*worker
	agenda   agenda
	token    time.Duration
	done     func(*job)      // is told of each job when its prompt is prefilled
	parked   [][]*job        // by worker
	stillAt  []time.Duration // when a worker last answered, or was sent something parked
	nudges   []int           // how many it was sent since then only because it was still
}

// simulate sends all requests through a router with this rule and tells done of
// each.
func (s *Settings) simulate(rule Rule, seed uint64, requests []request, done func(*job)) (*simulation, error) {
	r, err := newRouter(s, rule, seed)
	if err != nil {
		return nil, err
	}
	m := s.simulation(r, done)
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

func (s *Settings) simulation(r *router, done func(*job)) *simulation {
	m := &simulation{
		settings: s, router: r, token: seconds(s.TokenTime / 1000), done: done,
		parked: make([][]*job, s.Workers), stillAt: make([]time.Duration, s.Workers), nudges: make([]int, s.Workers),
	}
	for i := range s.Workers {
		m.workers = append(m.workers, s.worker(i))
	}
	return m
}

func (m *simulation) arrive(q *request, number int) {
	j := &job{request: q, number: number, lease: m.router.grant(q, q.at)}
	if !j.lease.parked {
		m.send(j, q.at)
		return
	}
	w := j.lease.worker
	if m.parked[w] = append(m.parked[w], j); len(m.parked[w]) == 1 {
		m.nudges[w] = 0
		m.stay(w, q.at)
	}
	m.agenda.plan(event{at: q.at + time.Duration(policy.LongestPark), what: parkedLongest, worker: w, job: j})
}

// send gives a job to its worker.
func (m *simulation) send(j *job, now time.Duration) {
	if m.settings.GiveBack == AtHead {
		m.router.begun(&j.lease)
	}
	if m.workers[j.lease.worker].add(j) {
		m.begin(j.lease.worker, now)
	}
}

// patience is for how long a worker may be still that was sent n more since it answered.
func patience(n int) time.Duration { return time.Duration(policy.Patience(policy.FirstPatience, n)) }

// stay notes that a worker isn't still, and when it will have been.
func (m *simulation) stay(worker int, now time.Duration) {
	m.stillAt[worker] = now
	m.agenda.plan(event{at: now + patience(m.nudges[worker]), what: still, worker: worker})
}

// start sends a parked job on.
func (m *simulation) start(j *job, now time.Duration) {
	w := j.lease.worker
	m.parked[w] = slices.DeleteFunc(m.parked[w], func(other *job) bool { return other == j })
	m.stay(w, now)
	m.router.start(&j.lease)
	m.send(j, now)
}

// next is who goes first of those parked at a worker.
func (m *simulation) next(worker int, now time.Duration) *job {
	return slices.MaxFunc(m.parked[worker], func(a, b *job) int {
		urgency := func(j *job) float64 { return policy.Urgency(int64(now-j.request.at), j.lease.pending) }
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), b.number-a.number)
	})
}

// sendOn starts what is parked at a worker that has less to do.
func (m *simulation) sendOn(worker int, now time.Duration) {
	for len(m.parked[worker]) > 0 && !m.router.isFed(worker) {
		m.start(m.next(worker, now), now)
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
		if len(m.parked[e.worker]) > 0 {
			m.nudges[e.worker] = 0
			m.stay(e.worker, e.at)
		}
		m.sendOn(e.worker, e.at)
		m.agenda.plan(event{at: e.at + time.Duration(j.request.output-1)*m.token, what: finished, job: j})
		m.done(j)
	case finished:
		m.router.release(&e.job.lease, len(e.job.request.chain), e.job.hits)
		m.sendOn(e.job.lease.worker, e.at)
	case still:
		if len(m.parked[e.worker]) > 0 && e.at-m.stillAt[e.worker] >= patience(m.nudges[e.worker]) {
			m.nudges[e.worker]++
			m.start(m.next(e.worker, e.at), e.at)
		}
	case parkedLongest:
		if e.job.lease.parked {
			m.start(e.job, e.at)
		}
	case restarted:
		m.workers[e.worker].cache.Clear()
	}
}
