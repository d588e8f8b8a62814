package actors

// life is what signs a worker gives that it works on what it holds: a first
// byte, progress of a stream, an answer that has ended. Health checks are none:
// an engine that hangs may still answer them.
//
// Signs cost a flag; the times are those of the looks at it, of which there are
// lookParts in WedgedAfter. So a worker may be found wedged that much too late,
// and never too early.
type life struct {
	stirred  bool  // gave a sign since the last look
	held     bool  // held requests at the last look, and has ever since
	signed   bool  // gave a sign ever
	signAt   int64 // the look that saw the last sign
	silentAt int64 // the look since which it holds requests and gives no sign
	wedged   bool
	wedgedAt int64
}

const lookParts = 8

// enliven notes a sign of life of a live lease's worker.
func (s *state) enliven(sl *slot) {
	if w := &s.workers[sl.worker]; w.member && sl.epoch == w.epoch {
		s.stir(w)
	}
}

// stir notes a sign of life of a worker.
func (s *state) stir(w *worker) {
	w.life.stirred = true
	if w.life.wedged {
		s.unwedge(w)
	}
}

func (s *state) unwedge(w *worker) {
	w.life = life{stirred: true}
	s.slowDown(w)
	s.disturb(w)
	s.emit(Event{Kind: WorkerStirred, URL: w.spec.URL, Load: w.load()})
}

// progress notes that the worker of a live lease sends on.
func (s *state) progress(t ticket, now int64) {
	if sl := s.find(t); sl != nil {
		s.enliven(sl)
	}
	s.lookIfDue(now)
}

// lookIfDue looks for wedged workers, if they are looked for and it is time.
func (s *state) lookIfDue(now int64) {
	if now >= s.lookAt {
		s.look(now)
	}
}

// look, which is due at lookAt, finds the workers that have held requests without a sign of life for
// WedgedAfter, while another one of their role gave one in the later half of it.
func (s *state) look(now int64) {
	after := int64(s.opts.WedgedAfter)
	s.lookAt = now + max(1, after/lookParts)
	var lively [numRoles]bool
	for i := range s.workers {
		w := &s.workers[i]
		if !w.member {
			continue
		}
		l := &w.life
		holds := w.load() > 0
		if l.stirred {
			l.signed, l.signAt = true, now
		}
		if l.stirred || !l.held {
			l.silentAt = now
		}
		l.held, l.stirred = holds, false
		for r := range numRoles {
			lively[r] = lively[r] || l.signed && now-l.signAt <= after/2 && w.spec.Roles.Has(r)
		}
	}
	for i := range s.workers {
		w := &s.workers[i]
		if !w.member || w.out() || !w.health.healthy || !w.life.held || now-w.life.silentAt < after {
			continue
		}
		for r := range numRoles {
			if lively[r] && w.spec.Roles.Has(r) && s.mayLeave(w, false) {
				s.wedge(w, now)
				break
			}
		}
	}
}

func (s *state) wedge(w *worker, now int64) {
	w.life.wedged, w.life.wedgedAt = true, now
	s.disturb(w)
	s.emit(Event{Kind: WorkerWedged, URL: w.spec.URL, Load: w.load()})
}

// shut reports whether a worker gets no request because it is wedged. One that
// holds nothing any more can give no sign of life: after a breaker's Timeout it
// gets one request at a time to give one with, so that its return is seen at once.
func (w *worker) shut(o *BreakerOptions, now int64) bool {
	return w.life.wedged && (w.leases() > 0 || now-w.life.wedgedAt < int64(o.Timeout))
}

// known reports whether a lease's end says nothing new of its worker: that a wedged
// one is silent is known. To its breaker it would be a failure for each request that
// was there, and for each trial, and keep the worker out when it is well again.
func (w *worker) known(c Cause) bool { return w.life.wedged && c == UpstreamTimeout }
