package proxy

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"loadstar/actors"
	"loadstar/proxy/statuspage"
)

// statusEvery is how often the status page is told anew.
const statusEvery = time.Second

// answerBegan notes that the answer has begun, whose head was taken. Of events the
// stream tells: engines send the head of those before they look at the prompt.
func (x *exchange) answerBegan(lease *actors.Lease) {
	if t := x.record.trace; t != nil {
		t.Answered(x.answer.Status)
	}
	if x.record.first = 0; !x.sse {
		x.p.began(&x.record, lease)
	}
}

// began notes that the first byte of an answer has come.
func (p *Proxy) began(r *record, lease *actors.Lease) {
	r.firstByte()
	if p.viewers.Watched() {
		p.viewers.Answered(lease.URL, r.first)
	}
}

// shownID is how much is shown of a request's id, which may be as long as a head.
const shownID = 64

// showDecision tells those who watch how a worker was chosen.
func (p *Proxy) showDecision(x *exchange, l *actors.Lease) {
	d := &l.Decision
	p.viewers.Decided(statuspage.Decision{
		Time: time.Now().UnixMilli(), ID: string(x.id[:min(len(x.id), shownID)]), Path: x.record.class.String(), Worker: l.URL,
		Reason: d.Reason.String(), Match: d.Match, Blocks: d.Blocks, Candidates: d.Candidates,
	})
}

// statusFrame is what the status page shows now; nil once the router has ended.
func (p *Proxy) statusFrame(seen *statuspage.Observed) []byte {
	v, err := p.router.Snapshot(p.now())
	if err != nil {
		return nil
	}
	f := statuspage.Frame{
		Time: time.Now().UnixMilli(), Started: p.start.UnixMilli(), Version: p.opts.Version, Policy: p.policies(),
		State: p.stateName(), Sections: p.statusSections(&v), Decisions: seen.Decisions(),
		Workers: make([]statuspage.Worker, 0, min(len(v.Workers), statuspage.MaxWorkers)),
	}
	for i := range v.Workers {
		w := &v.Workers[i]
		if w.Member {
			f.Members++
		}
		if w.Usable() {
			f.Usable++
		}
	}
	f.Hidden = max(len(v.Workers)-statuspage.MaxWorkers, 0)
	add := func(fits func(*actors.WorkerView) bool) {
		for i := range v.Workers {
			if w := &v.Workers[i]; fits(w) && len(f.Workers) < statuspage.MaxWorkers {
				f.Workers = append(f.Workers, statusWorker(w, seen))
			}
		}
	}
	if f.Hidden == 0 {
		add(func(*actors.WorkerView) bool { return true })
	} else { // those that something is wrong with are looked for
		add(func(w *actors.WorkerView) bool { return !w.Usable() })
		add((*actors.WorkerView).Usable)
	}
	return f.Event()
}

// stateName is what /readiness says, in words.
func (p *Proxy) stateName() string {
	h := p.router.Health(p.now())
	switch {
	case p.stopping():
		return "shutting down"
	case p.serves(&h):
		return "ready"
	default:
		return "not ready"
	}
}

func statusWorker(w *actors.WorkerView, seen *statuspage.Observed) statuspage.Worker {
	return statuspage.Worker{
		Admin: mustJSON(workerToJSON(w)), URL: w.URL, Usable: w.Usable(), Wedged: w.Wedged, Slow: w.Slow, Pending: w.Pending, Seen: seen.Of(w.URL),
	}
}

// statusSections are the figures that are not of one worker.
func (p *Proxy) statusSections(v *actors.Snapshot) []statuspage.Section {
	count := func(name string, n uint64) statuspage.Fact {
		return statuspage.Fact{Name: name, Value: strconv.FormatUint(n, 10)}
	}
	bad := func(name string, n uint64) statuspage.Fact {
		f := count(name, n)
		f.Bad = n > 0
		return f
	}
	took := func(name string, d time.Duration) statuspage.Fact {
		return statuspage.Fact{Name: name, Value: d.Round(100 * time.Millisecond).String()}
	}
	waiting := 0
	for _, n := range v.Room.Waiting {
		waiting += n
	}
	queue := []statuspage.Fact{count("waiting", uint64(waiting)), took("oldest wait", v.Room.OldestWait), count("admitted", uint64(v.Room.Admitted)), count("had to wait", v.Room.Waits)}
	for i, r := range actors.Refusals() {
		if n := v.Room.Refusals[i]; n > 0 {
			queue = append(queue, count("refused: "+r.String(), n))
		}
	}
	cache := []statuspage.Fact{{Name: "blocks found", Value: share(p.metrics.matched.Get(), p.metrics.prompt.Get())}}
	if t, ok := p.router.TreeStats(); ok {
		cache = append(cache, statuspage.Fact{Name: "tree", Value: fmt.Sprintf("%.1f MiB", float64(t.Bytes)/(1<<20))}, count("entries", uint64(t.Entries)))
	}
	cache = append(cache, count("sessions", uint64(v.Sessions)))
	foreign := 0
	for i := range v.Workers {
		foreign += v.Workers[i].Foreign
	}
	return []statuspage.Section{
		{Name: "Leases", Facts: []statuspage.Fact{
			count("in flight", uint64(v.Live)), count("granted", v.Granted), count("returned", v.Returned), bad("refused", v.Refused), took("oldest", v.OldestLease),
		}},
		{Name: "Queue", Facts: queue},
		{Name: "Prompts", Facts: cache},
		{Name: "Router", Facts: []statuspage.Fact{
			count("requests", uint64(p.metrics.inFlight.Get())), count("of others", uint64(foreign)), count("retries refused", v.RetryRefused),
			bad("panics", p.metrics.panics.Get()), count("goroutines", uint64(runtime.NumGoroutine())),
		}},
	}
}

// share is a part of a whole in words.
func share(part, whole uint64) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}
