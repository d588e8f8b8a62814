package proxy

import (
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"
)

// longestDrain is for how long a worker that was discovered, and is gone, stays a
// member for the sake of its running requests. Those that last longer go on, and count,
// without it.
const longestDrain = time.Hour

// Sources starts to take workers from sources, which are added to what it returns. It
// is called at most once, before Serve; Close ends it.
func (p *Proxy) Sources() *discovery.Reconciler {
	p.sources = discovery.New(discovered{p}, discovery.Options{MaxWorkers: p.opts.Router.MaxWorkers, Log: p.log})
	return p.sources
}

// discovered makes members of the workers that sources know. It keeps nothing: what
// it has to know of a worker is in the registry.
type discovered struct{ p *Proxy }

// Bring implements discovery.Fleet.
func (f discovered) Bring(w discovery.Worker) error {
	members := f.membersAt(w.URL)
	if len(members) > 0 {
		switch {
		case !isDiscovered(members):
			return discovery.ErrTaken
		case isSame(members, &w) && f.amend(members, &w):
			return nil
		}
		_ = f.p.RemoveWorker(w.URL) // its last request may have ended just now
	}
	return f.p.AddWorkers([]WorkerSpec{specOf(&w)})
}

// amend has members be as w says and get requests. It reports false if one of them
// has left meanwhile.
func (f discovered) amend(members []actors.WorkerAt, w *discovery.Worker) bool {
	specs := make([]actors.Spec, len(members))
	for i := range members {
		specs[i] = actors.Spec{
			URL: members[i].URL, Roles: w.Roles, Model: w.Model, Models: w.Models, Priority: w.Priority, Cost: w.Cost, Labels: w.Labels,
			Source: w.Source, Process: w.Process,
		}
	}
	return f.p.router.Amend(specs) == nil && f.p.router.UndrainWorkers(w.URL) == nil && len(f.membersAt(w.URL)) == len(members)
}

// isSame reports whether what a source says now can be said of the members that are
// there: not if it is another process, if its bootstrap server is elsewhere, or if
// some of its ranks have left.
func isSame(members []actors.WorkerAt, w *discovery.Worker) bool {
	base, rank := splitRank(w.URL)
	bootstrap := ""
	if w.Bootstrap != 0 {
		bootstrap = bootstrapURL(base, w.Bootstrap)
	}
	m := &members[0]
	s := m.Handle.(*backend).site
	return (m.Process == "" || w.Process == "" || m.Process == w.Process) && s.bootstrap == bootstrap &&
		(rank != actors.NoRank || len(members) == s.dpSize)
}

// Drain implements discovery.Fleet.
func (f discovered) Drain(w discovery.Worker) {
	if members := f.membersAt(w.URL); len(members) > 0 && isDiscovered(members) {
		_, _ = f.p.DrainWorker(w.URL, longestDrain) // somebody may have removed it
	}
}

// membersAt lists the members that a URL names: one, or all ranks at it.
func (f discovered) membersAt(name string) (members []actors.WorkerAt) {
	base, _ := splitRank(name)
	for _, w := range f.p.router.At(base) {
		if w.Member && (w.URL == name || base == name) {
			members = append(members, w)
		}
	}
	return members
}

// isDiscovered reports whether all members were brought by sources.
func isDiscovered(members []actors.WorkerAt) bool {
	for i := range members {
		switch members[i].Source {
		case "", SourceFlags, sourceAPI, sourceZMQ:
			return false
		}
	}
	return true
}

// specOf is a worker as AddWorkers takes it.
func specOf(w *discovery.Worker) WorkerSpec {
	return WorkerSpec{
		URL: w.URL, Model: w.Model, Models: w.Models, Priority: w.Priority, Cost: w.Cost, Labels: w.Labels, Roles: w.Roles, Bootstrap: w.Bootstrap,
		Source: w.Source, Process: w.Process,
	}
}
