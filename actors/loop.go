package actors

// inboxSize is how many messages may wait. A full inbox makes callers wait,
// which is the back-pressure: each of them holds a client connection open.
const inboxSize = 1024

// loop owns s. It has one inbox and no select: whatever must happen in order
// arrives in order.
func (r *Registry) loop(s *state) {
	for !s.halted {
		m := <-r.inbox
		switch m.kind {
		case kindAcquire:
			s.arrive(m.request, m.reply, false)
		case kindPair:
			s.arrive(m.request, m.reply, true)
		case kindBegin:
			s.begin(m.ticket, m.request)
			m.reply <- struct{}{}
		case kindReturn:
			s.giveBack(m.ticket, m.cause, m.now)
		case kindReturnUnjudged:
			s.withhold(m.ticket)
			s.giveBack(m.ticket, m.cause, m.now)
		case kindJudge:
			s.judge(m.ticket, m.cause, m.now)
		case kindFirstByte:
			s.firstByte(m.ticket, m.now)
		case kindProgress:
			s.progress(m.ticket, m.now)
		case kindPin:
			s.pin(m.ticket, m.pin)
		case kindLeave:
			s.leave(m.ticket)
		case kindDismiss:
			s.dismiss(m.ticket, m.now)
		case kindTick:
			s.tick(m.now)
		case kindControl:
			m.control.apply(s)
		}
		if s.room.queue.size > 0 || s.room.queue.parked > 0 {
			s.hear(m.now)
			s.callIn()
		}
	}
	// First close, then sweep: see wait. Who saw done closed has taken his
	// request back, so the sweep touches nothing of it but the reply channel.
	close(r.done)
	for {
		select {
		case m := <-r.inbox:
			if m.request != nil {
				m.reply <- struct{}{}
			}
		default:
			return
		}
	}
}

// send delivers m, waiting for room. It reports false if the loop has ended.
//
// The first select is a plain try-send. A select that also names done locks
// done, on every call and from every core, and costs a third to two thirds more.
func (r *Registry) send(m message) bool {
	select {
	case r.inbox <- m:
		return true
	default:
	}
	select {
	case r.inbox <- m:
		return true
	case <-r.done:
		return false
	}
}

// trySend delivers m if there is room.
func (r *Registry) trySend(m message) bool {
	select {
	case r.inbox <- m:
		return true
	default:
		return false
	}
}

// wait waits for the answer to q, which is on its way to the loop. c is asked to
// say when the client leaves, if q has to wait for room; nil never leaves.
//
// A receive from an open channel that does not block takes no lock, so looking
// at done is nearly free. Once is enough: the loop closes done before it sweeps
// the inbox, so a message sent while done was open is answered.
func (r *Registry) wait(q *Request, c Client) grant {
	select {
	case <-r.done:
		select {
		case <-q.reply:
			r.await(q, c)
			return q.grant
		default:
			q.reply = nil // an answer may yet land in it, so it is not used again
			return grant{err: ErrStopped}
		}
	default:
	}
	<-q.reply
	if q.queued || q.pass.gen != 0 {
		r.await(q, c)
	}
	return q.grant
}

// await waits for the answer to q, of which the first reply has come: it may say
// that q waits. The loop answers all who wait before it ends.
func (r *Registry) await(q *Request, c Client) {
	if q.queued {
		r.attend(q, c)
	}
	if q.pass.gen != 0 {
		q.Admission = Admission{q.pass, r}
	}
}

// attend waits for the second answer to q. If c panics, q is withdrawn, and what it
// may have been granted meanwhile is given back.
func (r *Registry) attend(q *Request, c Client) {
	answered := false
	leave := func() {
		r.send(message{kind: kindLeave, ticket: q.turn})
		<-q.reply
	}
	defer func() {
		if answered {
			return
		}
		leave()
		if prefill, decode, err := r.pair(q.grant, q); err == nil {
			prefill.Release(Aborted, q.Now)
			decode.Release(Aborted, q.Now)
		}
		if q.pass.gen != 0 {
			a := Admission{q.pass, r}
			a.Release(q.Now)
		}
	}()
	var leaving <-chan struct{}
	if c != nil {
		leaving = c.Leaving()
	}
	select {
	case <-q.reply:
	case <-leaving:
		q.left = true
		leave()
	}
	answered = true
}

// ask sends a control message and waits for its reply.
func ask[T any](r *Registry, m control, reply <-chan T) (T, bool) {
	var none T
	if !r.send(message{kind: kindControl, control: m}) {
		return none, false
	}
	select {
	case v := <-reply:
		return v, true
	case <-r.done:
		select {
		case v := <-reply:
			return v, true
		default:
			return none, false
		}
	}
}
