package proxy

import (
	"loadstar/proxy/httphead"
	"loadstar/proxy/routekey"
)

// frameworks are the headers by which clients name their session and, within it, the
// agent that asks. The first session found wins. They are those of vllm-router's
// kv_aware.
var frameworks = [...]struct{ session, agent string }{
	{"x-claude-code-session-id", "x-claude-code-agent-id"},
	{"session-id", "thread-id"},
	{"x-session-id", ""},
}

// findAffinity fills in what kv_aware keeps the session by. Only a router that keeps
// some looks at headers and body for it.
func (x *exchange) findAffinity() {
	var found [len(frameworks)]routekey.IdentityHeaders
	for l := httphead.LinesOf(x.ctx.Request.Header.RawHeaders()); l.Next(); {
		for i := range frameworks {
			f, h := &frameworks[i], &found[i]
			switch {
			case h.Session == nil && httphead.Is(l.Name, f.session):
				h.Session = l.Value
			case h.Agent == nil && f.agent != "" && httphead.Is(l.Name, f.agent):
				h.Agent = l.Value
			}
		}
	}
	var said routekey.IdentityHeaders
	for i := range found {
		if len(found[i].Session) > 0 {
			said = found[i]
			break
		}
	}
	x.kin = boundSession(x.scan.AppendIdentity(x.kin[:0], said))
	x.query.Affinity = x.kin
}

// forgetAffinity keeps no more memory for another request than most need.
func (x *exchange) forgetAffinity() {
	x.query.Affinity = nil
	if cap(x.kin) > keptSession {
		x.kin = nil
	}
}
