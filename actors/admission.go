package actors

// Admission is a request's place in the router: it lasts from when the request
// is given a worker to the end of its answer's body, whatever becomes of its
// leases. It is a value: copy it freely. The zero Admission is none.
type Admission struct {
	ticket   ticket
	registry *Registry
}

// Release ends the admission; now is in monotonic nanoseconds. As with a lease
// the first call counts, and any other is refused and counted. The zero
// Admission releases nothing.
func (a *Admission) Release(now int64) {
	if a.registry != nil {
		a.registry.send(message{kind: kindDismiss, ticket: a.ticket, now: now})
	}
}

// pass is the registry's memory of one admission.
type pass struct {
	gen  uint64
	live bool
}

// admit makes one more request an admitted one. It and dismiss are the only
// places that write a counter of admissions.
func (s *state) admit(now int64) ticket {
	m := &s.room
	if m.admitted == 0 {
		m.pace.began = now
	}
	m.admitted++
	m.admissions++
	m.rate.take()
	var n uint32
	if k := len(m.freePasses); k > 0 {
		n = m.freePasses[k-1]
		m.freePasses = m.freePasses[:k-1]
	} else {
		n = uint32(len(m.passes))
		m.passes = append(m.passes, pass{gen: 1})
	}
	p := &m.passes[n]
	p.live = true
	return ticket{gen: p.gen, slot: n}
}

// holds reports whether t names a live admission.
func (s *state) holds(t ticket) bool {
	m := &s.room
	return int(t.slot) < len(m.passes) && m.passes[t.slot].live && m.passes[t.slot].gen == t.gen
}

// dismiss ends an admission, once: a spent ticket is refused and counted.
func (s *state) dismiss(t ticket, now int64) {
	m := &s.room
	if !s.holds(t) {
		s.refuse("admission")
		return
	}
	m.admitted--
	m.dismissed++
	p := &m.passes[t.slot]
	p.gen++
	p.live = false
	m.freePasses = append(m.freePasses, t.slot)
	s.hear(now)
	m.pace.note(m.clock)
}

// bucket limits how fast requests are admitted. Its zero value limits nothing.
type bucket struct {
	perSecond float64
	size      float64
	tokens    float64
	filled    int64 // when tokens was right; nanoseconds
}

// fill adds what has come in by now.
func (b *bucket) fill(now int64) {
	if now > b.filled {
		b.tokens = min(b.size, b.tokens+float64(now-b.filled)/1e9*b.perSecond)
		b.filled = now
	}
}

func (b *bucket) has() bool { return b.perSecond == 0 || b.tokens >= 1 }

func (b *bucket) take() {
	if b.perSecond > 0 {
		b.tokens--
	}
}

// until is how long it takes until n more requests have been admitted, in
// nanoseconds.
func (b *bucket) until(n int) float64 {
	if b.perSecond == 0 {
		return 0
	}
	return max(0, float64(n)-b.tokens) / b.perSecond * 1e9
}
