package proxy

import (
	"bytes"
	"strings"

	"loadstar/proxy/httphead"
	"loadstar/proxy/keyring"

	"github.com/valyala/fasthttp"
)

// side is the listener that a request came to.
type side uint8

const (
	clientSide side = iota
	adminSide       // the admin API's own
)

// HandleAdmin serves one request that came to the admin API's own listener.
func (p *Proxy) HandleAdmin(ctx *fasthttp.RequestCtx) { p.handle(ctx, adminSide) }

// isHere reports whether a route is served on the listener that the request came
// to; r is nil for what is a worker's.
func (x *exchange) isHere(r *route) bool {
	if x.side == adminSide {
		return r != nil && (r.admin || r.class == pathStatus)
	}
	return r == nil || !r.admin || !x.p.opts.AdminListener
}

// notHere is the problem with a path that another listener serves.
func notHere() *problem {
	return &problem{fasthttp.StatusNotFound, kindNotFound, "not_found", "This path is not served on this port.", 0}
}

// admit reports whether the client may call a route, or a worker if r is nil. If
// not, it has answered.
func (x *exchange) admit(r *route) bool {
	e := x.barred(r)
	if e == nil {
		return true
	}
	x.countKey(r, e)
	x.turnDown(e)
	return false
}

// countKey counts a request that is refused for want of a key.
func (x *exchange) countKey(r *route, e *problem) {
	if e.status != fasthttp.StatusUnauthorized {
		return
	}
	api, key := "client", "none"
	if r != nil && r.admin {
		api = "admin"
	}
	if len(bearer(x.auth)) > 0 || len(x.apiKey) > 0 {
		key = "unknown"
	}
	x.p.metrics.keyRefused(api, key)
}

// turnDown answers with a problem a request whose body nobody has read.
func (x *exchange) turnDown(e *problem) {
	// A body that the server doesn't read to its end by itself would cut the answer off.
	length := x.ctx.Request.Header.ContentLength()
	if x.ctx.RequestBodyStream() != nil && (length < 0 || length > prefetched) {
		x.record.refused = e.code
		answerLingering(x.ctx, e)
		return
	}
	x.refuse(e)
}

// barred returns why the client may not call a route, or a worker if r is nil; nil
// if it may. What tells whether the router lives and serves is for everybody.
func (x *exchange) barred(r *route) *problem {
	switch {
	case r == nil || r.class != pathStatus && !r.admin:
		return x.barredClient()
	case !r.admin:
		return nil
	case r.page == pageDocument && (x.p.adminKey != nil || x.p.opts.Compat):
		return nil // it shows nothing without the key, and is where that is typed in
	case x.p.adminKey != nil:
		if _, ok := x.p.adminKey.Find(bearer(x.auth)); !ok {
			return unauthorized("The admin API takes the key given by --admin-api-key, as Authorization: Bearer KEY.")
		}
		return nil
	case x.p.opts.Compat:
		return x.barredClient()
	case !x.ctx.RemoteIP().IsLoopback():
		return &problem{
			fasthttp.StatusForbidden, kindPermission, "admin_not_allowed",
			"The admin API answers to this machine only; --admin-api-key opens it to those who have the key, --compat to everybody, as vllm-router does.", 0,
		}
	}
	return nil
}

// mayAdminister reports whether the request, were it one to the admin API, would be
// answered here.
func (x *exchange) mayAdminister() bool {
	return x.isHere(workerRoute) && x.barred(workerRoute) == nil && !x.pageBarred(workerRoute)
}

// barredClient returns why a client that is none of the router's operators may call
// nothing of a worker's; nil if it may.
func (x *exchange) barredClient() *problem {
	if x.p.opts.ClientKeys == nil {
		return nil
	}
	s := x.keys.At(x.p.opts.ClientKeys)
	tenant, ok := s.Find(bearer(x.auth))
	if !ok && len(x.apiKey) > 0 && isMessages(x.path) {
		tenant, ok = s.Find(x.apiKey)
	}
	if !ok {
		return unauthorized("The request has no key that is known here. Send one as Authorization: Bearer KEY.")
	}
	x.record.tenant = tenant
	if tenant != "" {
		x.query.Tenant = x.p.tenant(byKey, tenant)
	}
	return nil
}

func unauthorized(message string) *problem {
	return &problem{fasthttp.StatusUnauthorized, kindInvalid, "invalid_api_key", message, 0}
}

// isMessages reports whether a path is of the API whose clients send their key as
// x-api-key.
func isMessages(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte("/v1/messages"))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

// bearer is the key in an Authorization header, nil if it holds none.
func bearer(auth []byte) []byte {
	const scheme = "bearer "
	if len(auth) <= len(scheme) || !strings.EqualFold(string(auth[:len(scheme)]), scheme) {
		return nil
	}
	return bytes.TrimLeft(auth[len(scheme):], " ")
}

// isSpent reports whether a client's header holds a key that this router has
// checked. It is of no use to a worker, and none of its business.
func (x *exchange) isSpent(name []byte) bool {
	return x.p.opts.ClientKeys != nil && (httphead.Is(name, "authorization") || httphead.Is(name, "x-api-key"))
}

// barredEarly is barred for a request whose body has yet to come.
func (p *Proxy) barredEarly(ctx *fasthttp.RequestCtx) *problem {
	if p.opts.ClientKeys == nil && p.adminKey == nil {
		return nil
	}
	x := p.exchanges.Get().(*exchange)
	x.ctx, x.record = ctx, record{}
	var e *problem
	if x.parseTarget() == nil && x.readHeaders() == nil { // their faults are told when the request is handled
		r := p.routeOf(x.path)
		if e = x.barred(r); e != nil {
			x.countKey(r, e)
		}
	}
	x.forgetRequest()
	p.exchanges.Put(x)
	return e
}

// keyOf is a set of one key, nil if the key is empty.
func keyOf(text string) *keyring.Set {
	if text == "" {
		return nil
	}
	s, err := keyring.NewSet(keyring.KeyOf(text))
	if err != nil {
		panic("one key is too many: " + err.Error())
	}
	return s
}
