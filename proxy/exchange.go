package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/keyring"
	"loadstar/proxy/routekey"
	"loadstar/proxy/watch"

	"github.com/valyala/fasthttp"
)

// exchange is one request while its handler runs. Exchanges are pooled: a
// stream that outlives the handler takes along only what it needs.
type exchange struct {
	leg    // the attempt that runs
	ctx    *fasthttp.RequestCtx
	target []byte // path and query of the request target, as sent
	path   []byte // without the query

	// Of the request's head; see readHeaders.
	named   httphead.Named
	headers []byte // header lines for any worker
	ownID   int    // where in headers the request id's line begins; it is the last
	carry   carry  // of a trace
	id      []byte // request id
	session []byte // session key
	kin     []byte // what kv_aware keeps the session by
	asked   string // the model's name, where it is another than the body has by now
	origin  []byte

	fetchSite []byte // how a browser's page stands to this router; empty for other clients
	auth      []byte // Authorization
	apiKey    []byte // x-api-key

	side side           // where it came from
	keys keyring.Reader // of the clients' keys

	body   []byte
	share  bodyShare // of the memory for bodies
	framed bool      // the request came with a body, if perhaps an empty one

	// How it is routed.
	scan    routekey.Scanner
	query   actors.Request
	exclude []actors.WorkerID
	why     *actors.Explanation // memory for that of the query; nil until one was wanted
	tokens  []uint32            // of the prompt, where that matters
	seen    int                 // attempts that a worker has seen, and that failed; those of a decode phase are counted apart
	suspect suspect             // at which the first of them failed

	sse     bool // the worker's answer is a stream of events
	encoded bool // or compressed

	split split // of a request in two phases
	spare spare // of a stream that may be continued

	// The answer for the client.
	lines   []byte // its header lines, but for the carrier
	reason  []byte // its reason phrase, where it is the worker's
	carried []byte // scratch of setHead
	kept    bool   // it holds a worker's error, for want of a better one
	roams   bool   // the last worker hasn't what the request is about
	moved   bool   // a stream has taken over the lease, the link and the record
	lent    bool   // and the exchange itself, which it gives back
	record  record
}

// Handle serves one request. A panic in it is that request's 500.
func (p *Proxy) Handle(ctx *fasthttp.RequestCtx) { p.handle(ctx, clientSide) }

func (p *Proxy) handle(ctx *fasthttp.RequestCtx, from side) {
	defer p.survive(ctx)
	x := p.exchanges.Get().(*exchange)
	x.side = from
	x.begin(ctx)
	defer x.end()
	x.dispatch()
}

// begin prepares x for a request.
func (x *exchange) begin(ctx *fasthttp.RequestCtx) {
	x.ctx = ctx
	x.link = link{client: ctx.Conn(), guard: x.p.guards.Get().(*watch.Guard)}
	x.id = x.id[:0]
	x.moved, x.lent, x.kept, x.roams, x.framed, x.off = false, false, false, false, false, nil
	x.split.begin()
	x.seen, x.suspect, x.query.Admission = 0, suspect{}, actors.Admission{}
	x.query.Explain = nil
	x.exclude = x.exclude[:0]
	x.share.of = x.p.bodies
	x.record = record{started: time.Now()}
	x.p.metrics.inFlight.Inc()
}

// end gives everything back, whatever happened.
func (x *exchange) end() {
	if r := recover(); r != nil {
		x.panicked(r)
	}
	defer x.giveBack()
	// This also has fasthttp send the answer at once, and not only when it has
	// answered whatever else the client has sent ahead.
	var by time.Time
	if stall := x.p.opts.Timeouts.ClientWrite; stall > 0 {
		by = time.Now().Add(stall)
	}
	_ = x.ctx.SetWriteDeadline(by) // a connection that refuses it is closed
}

// giveBack gives back what no stream has taken over.
func (x *exchange) giveBack() {
	defer x.leave()
	if !x.moved {
		x.query.Admission.Release(x.p.now())
		x.link.settle(nil, false)
		x.p.guards.Put(x.link.guard)
		x.record.status = x.ctx.Response.StatusCode()
		x.p.finished(&x.record)
	}
}

// leave lets go of the request, and of x itself unless a stream needs it.
func (x *exchange) leave() {
	x.share.giveBack()
	x.forgetRequest()
	if !x.lent {
		x.recycle()
	}
}

// recycle keeps x for another request.
func (x *exchange) recycle() {
	x.scan.Reset()
	x.body = reuseBody(x.body)
	if cap(x.session) > keptSession {
		x.session = nil
	}
	x.link, x.rest = link{}, nil
	x.query.Key, x.query.Session, x.query.Model = nil, nil, nil
	x.forgetAffinity()
	x.forgetTokens()
	x.p.exchanges.Put(x)
}

// forgetRequest lets go of what points into the request.
func (x *exchange) forgetRequest() {
	x.ctx, x.path, x.target, x.origin, x.fetchSite, x.auth, x.apiKey = nil, nil, nil, nil, nil, nil, nil
}

func (x *exchange) panicked(r any) {
	x.p.panicked(x.shownPath(), r)
	x.record.cause = actors.Aborted
	if !x.moved {
		answerProblem(x.ctx, problemOf(nil))
	}
	x.ctx.SetConnectionClose()
}

// survive ends a panic outside of an exchange's own care, such as one on the way
// out of it. An answer that is there by then stands, and the connection ends behind
// it. It must be deferred itself.
func (p *Proxy) survive(ctx *fasthttp.RequestCtx) {
	r := recover()
	if r == nil {
		return
	}
	p.panicked("", r)
	if h := &ctx.Response.Header; h.StatusCode() == fasthttp.StatusOK && len(h.Peek(carrier)) == 0 {
		answerProblem(ctx, problemOf(nil))
	}
	ctx.SetConnectionClose()
}

func (p *Proxy) panicked(path string, r any) {
	p.metrics.panics.Inc()
	p.log.Error("a request made the router panic", "path", path, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
}

// dispatch answers what is this router's to answer, and forwards the rest.
func (x *exchange) dispatch() {
	e := x.parseTarget()
	if x.p.tracer != nil {
		x.beginTrace()
	}
	if e == nil {
		e = x.readHeaders()
	}
	if x.p.opts.AccessLog {
		x.record.log = x.accessEntry()
	}
	if e != nil {
		// A head that can be read in two ways may frame its body in two ways,
		// so nothing behind it is taken for a request.
		x.refuse(e)
		x.ctx.SetConnectionClose()
		return
	}
	r := x.p.routeOf(x.path)
	if x.side == adminSide && string(x.path) == "/" {
		r = statusRoute // which elsewhere has a path of its own: / is the workers'
	}
	if !x.isHere(r) {
		x.record.own = true
		x.refuse(notHere())
		return
	}
	if r != nil {
		x.record.class, x.record.own = r.class, true
		x.serveOwn(r)
		return
	}
	known, ok := workerPaths[string(x.path)]
	x.record.class = known.class
	switch m := x.ctx.Method(); {
	case string(m) == fasthttp.MethodOptions && len(x.p.opts.CORSOrigins) > 0:
		x.record.own = true
		x.preflight("POST")
	case !x.admit(nil): // which has answered
	case climbs(x.path):
		x.turnDown(&problem{
			fasthttp.StatusBadRequest, kindInvalid, "dot_segments",
			"The path has a segment that may be read as \"..\". Send the path that is meant.", 0,
		})
	case x.p.disguised(x.path):
		x.turnDown(&problem{
			fasthttp.StatusBadRequest, kindInvalid, "disguised_path",
			"This is a path of the admin API, written with escapes. Write it plainly.", 0,
		})
	case ok && known.generates && string(m) != fasthttp.MethodPost:
		x.refuseMethod("POST")
	default:
		x.forward()
	}
}

// parseTarget takes the request target apart.
func (x *exchange) parseTarget() *problem {
	h := &x.ctx.Request.Header
	if p := string(h.Protocol()); p != "HTTP/1.1" && p != "HTTP/1.0" {
		return &problem{fasthttp.StatusHTTPVersionNotSupported, kindInvalid, "http_version", "The router speaks HTTP/1.1.", 0}
	}
	switch string(h.Method()) {
	case fasthttp.MethodConnect, fasthttp.MethodTrace:
		return &problem{fasthttp.StatusMethodNotAllowed, kindInvalid, "method_not_allowed", "The router does not take this method.", 0}
	}
	t := h.RequestURI()
	if len(t) == 0 || t[0] != '/' {
		// The absolute form names the router; the worker gets the path.
		i := bytes.Index(t, []byte("://"))
		if i < 0 {
			return badRequest("The request target is not a path.")
		}
		t = t[i+len("://"):]
		switch i = bytes.IndexAny(t, "/?"); {
		case i < 0:
			t = []byte("/")
		case t[i] == '?':
			t = append([]byte("/"), t[i:]...)
		default:
			t = t[i:]
		}
	}
	x.target, x.path = t, t
	if i := bytes.IndexByte(t, '?'); i >= 0 {
		x.path = t[:i]
	}
	return nil
}

func (x *exchange) accessEntry() *accessEntry {
	client := ""
	if a, ok := x.ctx.RemoteAddr().(*net.TCPAddr); ok {
		client = a.IP.String()
	}
	return &accessEntry{method: string(x.ctx.Method()), path: x.shownPath(), id: string(x.id), client: client}
}

// forward relays the request to a worker and the answer back.
func (x *exchange) forward() {
	limit, silence := x.p.opts.Limits.BodyBytes, x.p.opts.Timeouts.ClientBody
	var err error
	x.body, err = readBody(x.body, &x.ctx.Request, x.ctx.Conn(), limit, silence, &x.share)
	switch {
	case err == nil:
		x.findKey()
		x.once = !x.repeatable()
		x.explainAll()
		x.serve(x.plan())
		x.strand()
	case errors.Is(err, errTooLarge):
		x.record.refused = "payload_too_large"
		answerLingering(x.ctx, tooLarge(limit))
	case errors.Is(err, errNoRoom):
		x.record.refused = "router_exhausted"
		answerLingering(x.ctx, noRoom())
	case isTimeout(err):
		x.refuse(&problem{fasthttp.StatusRequestTimeout, kindInvalid, "request_timeout", "The request body did not arrive in time.", 0})
		x.ctx.SetConnectionClose()
	default:
		x.refuse(badRequest("The request body could not be read to its end."))
		x.ctx.SetConnectionClose()
	}
}

// findKey fills in what the policies may know of the request.
func (x *exchange) findKey() {
	s := &x.scan
	s.Limit, s.Identities = 0, x.p.needsAffinity
	if !x.p.needsKey {
		s.Limit = routekey.HeadBytes
	}
	if !x.findModel() {
		s.Reset()
		if len(x.body) > 0 {
			x.readForm()
		} else {
			s.Raw(x.target)
		}
	}
	if len(x.session) == 0 {
		x.session = routekey.AppendSession(x.session, s.Body.SessionKind, s.Body.Session)
	}
	x.session = boundSession(x.session)
	q := &x.query
	if q.Model = s.Body.Model; q.Model == nil {
		q.Model = modelInPath(x.path)
	}
	q.Key, q.Head, q.Session = s.Key.Blocks, s.Key.Head, x.session
	if x.p.kv != nil {
		x.findTokens()
	}
	if x.p.needsAffinity {
		x.findAffinity()
	}
	q.Pin, q.Stream = x.responsePin(), s.Body.Stream
	if x.record.trace != nil {
		x.traceQuestion()
	}
}

// looksJSON reports whether a body may be a JSON object, whatever its
// Content-Type claims.
func looksJSON(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
	return false
}

// refuse answers with a problem.
func (x *exchange) refuse(e *problem) {
	x.record.refused = e.code
	h := x.lines[:0]
	if e.retryAfter > 0 {
		h = httphead.AppendLine(h, "Retry-After", itoa(e.retryAfter))
	}
	if e.status == fasthttp.StatusUnauthorized {
		h = httphead.AppendLine(h, "WWW-Authenticate", "Bearer")
	}
	if x.p.opts.Compat {
		x.answerOwn(e.status, h, plainText, []byte(e.message))
		return
	}
	x.answerOwn(e.status, h, "application/json", e.body())
}

func (x *exchange) refuseMethod(allowed string) {
	x.refuse(wrongMethod(allowed))
	x.ctx.Response.Header.Set("Allow", allowed)
}

// answerOwn answers with a body of this router's own; lines are what is
// particular to its head.
func (x *exchange) answerOwn(status int, lines []byte, contentType string, body []byte) {
	if contentType != "" {
		lines = httphead.AppendLine(lines, "Content-Type", contentType)
	}
	lines = append(lines, "Date: "...)
	lines = fasthttp.AppendHTTPDate(lines, time.Now())
	x.lines = append(lines, "\r\n"...)
	var reason []byte
	if status == statusClientGone {
		reason = []byte("Client Closed Request") // which the standard has no words for
	}
	x.setHead(status, reason)
	x.ctx.Response.SetBody(body)
}
