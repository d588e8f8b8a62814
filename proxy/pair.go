package proxy

import (
	"errors"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/pd"
)

// PDOptions says how requests are split in two phases, prefill and decode, each
// at a worker of its own.
type PDOptions struct {
	Connector      pd.Connector  // by which workers hand blocks over; those that register say it themselves
	PrefillTimeout time.Duration // of a prefill request, answer included; 0 is without end
	ShortBlocks    int           // a prompt of which the decode worker lacks fewer blocks isn't split; 0 splits all
	Sequential     bool          // never send both requests at once, unless the connector needs it
	Rescues        int           // requests at a time that free blocks nobody came for; 0 sends none
	RescueTimeout  time.Duration // of each
	Beside         bool          // regular workers may be members too, and do all of a request where nobody may serve it in two phases
	Expiry         time.Duration // how long a worker that registered is kept without news of it; 0 is the default
	MaxRegistered  int           // workers that may register; 0 is the default
}

// split is what an exchange knows of a request in two phases.
type split struct {
	kind   pd.Kind
	asked  pd.Request
	pair   pd.Pair
	reply  pd.Reply // of the prefill worker
	answer []byte   // that reply refers to
	kv     []byte   // the decode worker's transfer parameters
	body   []byte   // of the request that is sent
	lines  []byte   // its headers

	run    *prefillRun // a prefill that runs beside the decode request
	known  bool        // reply is there
	kept   bool        // kv serve for another decode worker
	failed int         // attempts with a decode worker that had seen the request, and that were made again
	pinned bool        // the prefill worker holds blocks that nobody came for
	site   *site       // of the prefill worker
	began  time.Time   // of the decode request
}

// begin prepares s for a request.
func (s *split) begin() {
	const keptBytes = 64 << 10
	keep := func(b []byte) []byte {
		if cap(b) > keptBytes {
			return nil
		}
		return b[:0]
	}
	*s = split{answer: keep(s.answer), kv: keep(s.kv), body: keep(s.body), lines: keep(s.lines)}
}

// plan decides how a request is served: whole, or in two phases.
func (x *exchange) plan() attempt {
	q := &x.query
	if x.p.opts.PD == nil {
		q.Role, q.Whole = actors.Regular, false
		return (*exchange).tryWhole
	}
	// What generates nothing has no phases. Prompts are tokenized and embedded
	// where prompts are processed; what is stored is where it was decoded.
	q.Role, q.Whole, q.Beside = actors.Decode, true, x.p.opts.PD.Beside
	s := &x.split
	if x.ctx.IsPost() {
		s.kind = pd.KindOf(x.path)
	}
	if s.kind == pd.Unsplit {
		if _, known := workerPaths[string(x.path)]; known {
			q.Role = actors.Prefill
		}
		x.stripKV() // engines generate on paths of other names too
		return (*exchange).tryWhole
	}
	var ok bool
	if s.asked, ok = pd.ReadRequest(x.body, s.kind); !ok {
		// An engine may read what is not read here, and with it transfer parameters
		// of the client's own.
		return func(*exchange) (bool, error) { return false, errNotObject }
	}
	if s.asked.Whole || len(x.scan.Body.PreviousResponse) > 0 {
		// Several prompts would share one set of blocks, and what a stored response
		// goes on from is at one worker.
		x.stripKV()
		return (*exchange).tryWhole
	}
	q.Short = x.p.opts.PD.ShortBlocks
	return (*exchange).tryPair
}

// stripKV takes a client's own transfer parameters out of its request.
func (x *exchange) stripKV() {
	stripped, ok := pd.AppendDecode(x.split.body[:0], x.body, x.split.kind, nil)
	if ok {
		// The query refers to the body as it was.
		x.body, x.split.body = stripped, nil
	}
}

// tryPair runs the request in two phases; see tryWhole for what it returns.
func (x *exchange) tryPair() (again bool, err error) {
	s := &x.split
	if s.kept {
		return x.tryDecode()
	}
	prefill, decode, err := x.p.router.AcquirePairFor(&x.query, &x.link)
	if err = x.waited(err); err != nil {
		// The zero Lease has nothing to give back.
		prefill.Release(actors.ClientGone, x.p.now())
		decode.Release(actors.ClientGone, x.p.now())
		return false, err
	}
	if prefill.Handle == nil {
		return x.decodeWhole(decode)
	}
	x.query.Short = 0 // from here on both workers are taken to have the prompt
	granted := time.Now()
	handed, reserved := false, true // the two leases
	defer func() {
		if !handed {
			prefill.Release(actors.Aborted, x.p.now())
		}
		if reserved {
			s.stopPrefill()
			decode.Release(actors.Moved, x.p.now())
		}
	}()
	x.pair(&prefill, &decode)
	kv, early := s.pair.AppendEarlyKV(s.kv[:0])
	s.kv = kv
	switch {
	case early && (!x.p.opts.PD.Sequential || s.pair.Connector == pd.MoRIWrite):
		x.startPrefill(&prefill)
		handed = true
	case s.pair.Connector == pd.Mooncake && !early:
		// The blocks could not be fetched.
		x.p.metrics.pd.missing.Inc()
		handed = true
		prefill.Release(actors.Moved, x.p.now())
	default:
		handed = true
		if again, err := x.prefillFirst(prefill); again || err != nil || !s.known {
			return again, err
		}
	}
	x.query.Now = x.p.now()
	x.query.Movable = s.kept
	begun, err := decode.Begin(&x.query)
	if err != nil {
		// A regular worker may be there still.
		return x.p.opts.PD.Beside && errors.Is(err, actors.ErrNoDecode) && x.attemptsLeft(s.failed), err
	}
	reserved = false
	if begun.Worker == decode.Worker {
		begun.Decision = decode.Decision
	} else {
		s.pair.Decode, _ = begun.Handle.(*backend).peer(begun.Rank)
	}
	if s.run == nil && !s.known {
		return x.decodeWhole(begun)
	}
	x.p.metrics.pd.pending.Update(time.Since(granted).Seconds())
	return x.decodeAt(begun)
}

// decodeWhole has a decode worker do all of the request, without a prefill, or a
// regular worker.
func (x *exchange) decodeWhole(lease actors.Lease) (again bool, err error) {
	x.split.pair = pd.Pair{}
	x.record.prefill = ""
	x.stripKV()
	return x.runWhole(lease)
}

// pair makes a new pair of two leases.
func (x *exchange) pair(prefill, decode *actors.Lease) {
	s, p, d := &x.split, prefill.Handle.(*backend), decode.Handle.(*backend)
	s.site, s.known, s.pinned, x.off = p.site, false, false, nil
	s.pair = pd.Pair{Connector: p.site.connector, ID: pd.NewID()}
	s.pair.Prefill, s.pair.Push = p.peer(prefill.Rank)
	s.pair.Decode, _ = d.peer(decode.Rank)
	x.record.prefill = prefill.URL
	x.startClock()
	x.p.metrics.decided(&prefill.Decision)
	x.p.logDecision(x, prefill)
	x.noteDecision(prefill, true)
}

// prefillFirst runs the prefill and reads what it has for the decode worker. It
// ends the lease.
func (x *exchange) prefillFirst(lease actors.Lease) (again bool, err error) {
	s, pool := &x.split, poolOf(&lease)
	cause, reuse := actors.Aborted, false
	defer func() {
		x.link.part(pool, reuse)
		if err != nil || again {
			x.record.cause = cause
		}
		x.release(&lease, cause, again)
	}()
	if x.record.trace != nil {
		x.record.trace.Follow(x.tracePrefill(&lease))
	}
	s.body = x.composePrefill(&x.leg, &lease, s.body[:0])
	s.answer, s.reply, reuse, err = x.prefill(&lease, s.answer[:0])
	cause = causeOfPrefill(err)
	if status := statusOfPrefill(&x.answer, err); status > 0 && x.record.trace != nil {
		x.record.trace.Answered(status)
	}
	if err != nil {
		return x.prefillFailed(&lease, err, 0)
	}
	s.known = true
	if s.pair.Connector == pd.NIXL {
		s.site.learnPush(s.pair.Prefill.Rank, &s.reply)
	}
	kv, ok := s.pair.AppendDecodeKV(s.kv[:0], &s.reply)
	s.kv = kv
	if !ok {
		x.p.metrics.pd.missing.Inc()
		x.p.log.Debug("the prefill worker's answer has no transfer parameters: its engine ended early, or hands over nothing",
			"id", string(x.id), "worker", lease.URL)
	}
	s.pinned = len(kv) > 0
	s.kept = s.pinned && s.pair.Connector == pd.NIXL && s.pair.MayMove(&s.reply, &s.pair.Decode)
	return false, nil
}

// composePrefill builds the request for the prefill worker in g, the body in buf.
// It gets the client's headers but for those about the body, which is another.
func (x *exchange) composePrefill(g *leg, lease *actors.Lease, buf []byte) (body []byte) {
	s := &x.split
	body, _ = pd.AppendPrefill(buf, x.body, s.kind, s.pair.AppendPrefillKV(nil))
	h := x.appendReadableHeaders(s.lines[:0], isContentHeader)
	h = append(h, "Content-Type: application/json\r\n"...)
	s.lines = x.appendPairID(h)
	g.compose(x.ctx.Request.Header.Method(), poolOf(lease), x.target, s.lines, lease.Rank, body, true)
	return body
}

func isContentHeader(name []byte) bool {
	const content = "content-"
	return len(name) >= len(content) && httphead.Is(name[:len(content)], content)
}

// appendReadableHeaders appends the client's headers but for those left out, and
// for that which asks for a compressed answer: this one is read here.
func (x *exchange) appendReadableHeaders(h []byte, leftOut func(name []byte) bool) []byte {
	for l := httphead.LinesOf(x.headers[:x.ownID]); l.Next(); {
		if !httphead.Is(l.Name, "accept-encoding") && !leftOut(l.Name) {
			h = httphead.AppendLine(h, l.Name, l.Value)
		}
	}
	return h
}

// composeDecode builds the request for the decode worker.
func (x *exchange) composeDecode(lease *actors.Lease) {
	s := &x.split
	s.body, _ = pd.AppendDecode(s.body[:0], x.body, s.kind, s.kv)
	s.lines = x.appendDecodeHeaders(s.lines[:0])
	x.compose(x.ctx.Request.Header.Method(), poolOf(lease), x.target, s.lines, lease.Rank, s.body, true)
	x.patience = x.p.opts.Timeouts.FirstByte
}

// appendDecodeHeaders appends the headers of a request to the decode worker.
func (x *exchange) appendDecodeHeaders(h []byte) []byte {
	return x.appendPairID(x.appendReadableHeaders(h, func([]byte) bool { return false }))
}

// appendPairID appends the header by which the engines find each other.
func (x *exchange) appendPairID(h []byte) []byte {
	h = append(h, "X-Request-Id: "...)
	h = x.split.pair.AppendRequestID(h)
	return append(h, "\r\n"...)
}
