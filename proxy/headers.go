package proxy

import (
	"strconv"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/orca"
)

// sessionHeaders name a session, the first one found wins. They are those of
// vllm-router but for x-request-id and x-trace-id, which are new with every
// request and would scatter what belongs together.
var sessionHeaders = [...]string{"x-session-id", "x-user-id", "x-tenant-id", "x-correlation-id"}

// seen is what one walk over a request's headers has found.
type seen struct {
	session   [len(sessionHeaders)][]byte
	id        []byte
	idRank    int // position of the id's header among those configured
	origin    []byte
	fetchSite []byte // Sec-Fetch-Site, of browsers
	auth      []byte // Authorization
	apiKey    []byte // x-api-key
	forwarded []byte // X-Forwarded-For
	format    bool   // the client asks how many requests the worker has
}

// readHeaders walks over the request's headers once and builds in x.headers what
// any worker gets: every header that concerns more than one hop, as it came,
// and what this router adds. What it adds comes last, so that a client can't
// have it stripped by naming it in its Connection header.
func (x *exchange) readHeaders() *problem {
	raw := x.ctx.Request.Header.RawHeaders()
	f := seen{idRank: len(x.p.idHeads)}
	x.named.Reset()
	q := &x.query
	q.Class, q.Tenant, q.Deadline = 0, 0, 0
	if d := x.p.opts.Deadline; d > 0 {
		q.Deadline = x.p.now() + int64(d)
	}
	h := x.headers[:0]
	l := httphead.LinesOf(raw)
	for l.Next() {
		switch n := l.Name; len(n) {
		case 6:
			if httphead.Is(n, "origin") {
				f.origin = l.Value
			}
		case 9:
			if f.apiKey == nil && httphead.Is(n, "x-api-key") {
				f.apiKey = l.Value
			}
		case 10:
			if httphead.Is(n, "connection") {
				if err := x.named.Add(l.Value); err != nil {
					return badRequest("A request header can't be accepted: " + err.Error() + ".")
				}
			}
		case 13:
			if f.auth == nil && httphead.Is(n, "authorization") {
				f.auth = l.Value
			}
		case 14:
			// fasthttp itself makes up a length of 0 where there is none.
			x.framed = x.framed || httphead.Is(n, "content-length")
			if httphead.Is(n, "sec-fetch-site") {
				f.fetchSite = l.Value
			}
		case 15:
			if httphead.Is(n, "x-forwarded-for") {
				f.forwarded = l.Value
			}
		case 17:
			if httphead.Is(n, "transfer-encoding") {
				if !httphead.Is(l.Value, "chunked") {
					return badRequest("The request's Transfer-Encoding is not chunked.")
				}
				x.framed = true
			}
		case 18:
			x.noteExplain(&l)
		case 28:
			f.format = f.format || httphead.Is(l.Name, orca.FormatHeader)
		}
		x.noteSession(&f, &l)
		x.noteID(&f, &l)
		x.noteClaim(&l)
		if x.passes(l.Name) {
			h = httphead.AppendLine(h, l.Name, l.Value)
		}
	}
	if err := l.Err(); err != nil {
		return badRequest("A request header can't be accepted: " + err.Error() + ".")
	}
	if !x.named.Empty() {
		h = h[:0]
		for l = httphead.LinesOf(raw); l.Next(); {
			if x.passes(l.Name) && !x.named.Has(l.Name) {
				h = httphead.AppendLine(h, l.Name, l.Value)
			}
		}
	}
	x.identify(&f)
	x.origin, x.fetchSite, x.auth, x.apiKey = f.origin, f.fetchSite, f.auth, f.apiKey
	x.headers = x.addOwn(h, &f)
	return nil
}

func (x *exchange) noteSession(f *seen, l *httphead.Lines) {
	if len(l.Name) < 9 || len(l.Name) > 16 || l.Name[0]|0x20 != 'x' || len(l.Value) == 0 {
		return
	}
	for i, name := range sessionHeaders {
		if f.session[i] == nil && httphead.Is(l.Name, name) {
			f.session[i] = l.Value
		}
	}
}

func (x *exchange) noteID(f *seen, l *httphead.Lines) {
	for i := 0; i < f.idRank; i++ {
		if len(l.Value) > 0 && httphead.Is(l.Name, x.p.idHeads[i]) {
			f.id, f.idRank = l.Value, i
		}
	}
}

// noteClaim notes what a header says of a request's claim to be served: its class,
// its tenant, and by when.
func (x *exchange) noteClaim(l *httphead.Lines) {
	o, q := &x.p.opts, &x.query
	switch {
	case o.ClassHeader != "" && httphead.Is(l.Name, o.ClassHeader):
		if v := l.Value; len(v) == 1 && v[0] >= '0' && v[0] < '0'+actors.Classes {
			q.Class = v[0] - '0'
		}
	case o.TenantHeader != "" && httphead.Is(l.Name, o.TenantHeader):
		q.Tenant = x.p.tenant(byHeader, string(l.Value))
	case httphead.Is(l.Name, "x-request-deadline-ms"):
		if ms, err := strconv.ParseUint(string(l.Value), 10, 32); err == nil {
			q.Deadline = x.p.now() + int64(ms)*int64(time.Millisecond)
		}
	}
}

// identify settles the request's id and session key.
func (x *exchange) identify(f *seen) {
	if f.id != nil {
		x.id = append(x.id[:0], f.id...)
	} else {
		x.id = appendRequestID(x.id[:0], x.path)
	}
	x.session = x.session[:0]
	for i, v := range f.session {
		if v != nil {
			x.session = append(x.session, "header:"...)
			x.session = append(x.session, sessionHeaders[i]...)
			x.session = append(x.session, ':')
			x.session = append(x.session, v...)
			return
		}
	}
}

// passes reports whether a client's header goes to the worker as it is. The
// others concern this hop only or are written anew.
func (x *exchange) passes(name []byte) bool {
	switch len(name) {
	case 4:
		if httphead.Is(name, "host") {
			return false
		}
	case 6:
		if httphead.Is(name, "expect") {
			return false
		}
	case 9:
		if x.isSpent(name) {
			return false
		}
	case 10:
		if x.carry.own && !x.carry.parent && httphead.Is(name, "tracestate") {
			return false
		}
	case 11:
		if x.carry.own && httphead.Is(name, "traceparent") {
			return false
		}
	case 12:
		if httphead.Is(name, "x-request-id") {
			return false
		}
	case 13:
		if x.isSpent(name) || x.p.opts.WorkerKey != "" && httphead.Is(name, "authorization") {
			return false
		}
	case 14:
		if httphead.Is(name, "content-length") {
			return false
		}
	case 15:
		if x.p.opts.ForwardedHeaders && httphead.Is(name, "x-forwarded-for") {
			return false
		}
	case 16, 17:
		if x.p.opts.ForwardedHeaders && (httphead.Is(name, "x-forwarded-host") || httphead.Is(name, "x-forwarded-proto")) {
			return false
		}
	case 20:
		if (x.p.opts.Ranks > 1 || x.p.opts.PD != nil) && httphead.Is(name, "x-data-parallel-rank") {
			return false
		}
	}
	return !httphead.IsHop(name)
}

// addOwn appends what this router adds to a request for a worker.
func (x *exchange) addOwn(h []byte, f *seen) []byte {
	if k := x.p.opts.WorkerKey; k != "" {
		h = append(h, "Authorization: Bearer "...)
		h = append(h, k...)
		h = append(h, "\r\n"...)
	}
	if x.p.opts.ForwardedHeaders {
		h = append(h, "X-Forwarded-For: "...)
		if len(f.forwarded) > 0 {
			h = append(h, f.forwarded...)
			h = append(h, ", "...)
		}
		h = append(h, x.ctx.RemoteIP().String()...)
		h = append(h, "\r\n"...)
		proto := "http"
		if x.ctx.IsTLS() {
			proto = "https"
		}
		h = httphead.AppendLine(h, "X-Forwarded-Proto", proto)
		h = httphead.AppendLine(h, "X-Forwarded-Host", x.ctx.Request.Header.Host())
	}
	if x.carry.own {
		h = x.appendCarry(h)
	}
	if x.asks = x.p.opts.AskLoad && !f.format; x.asks {
		h = append(h, askLoad...)
	}
	x.ownID = len(h)
	return httphead.AppendLine(h, "X-Request-Id", x.id)
}

// CORS answers, as vllm-router gives them.
const (
	corsMethods = "GET, POST, OPTIONS"
	corsHeaders = "content-type, authorization"
	corsVary    = "origin, access-control-request-method, access-control-request-headers"
)

// appendCORS appends the headers that let a browser's page read the answer, if
// its origin is an allowed one.
func (x *exchange) appendCORS(h []byte) []byte {
	allowed := x.p.opts.CORSOrigins
	if len(allowed) == 0 {
		return h
	}
	h = httphead.AppendLine(h, "vary", corsVary)
	for _, o := range allowed {
		if o == "*" || o == string(x.origin) {
			h = httphead.AppendLine(h, "access-control-allow-origin", o)
			return httphead.AppendLine(h, "access-control-expose-headers", "x-request-id")
		}
	}
	return h
}
