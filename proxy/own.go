package proxy

import (
	"encoding/json"
	"slices"
	"strings"

	"loadstar/proxy/httphead"

	"loadstar/actors/workerurl"

	"github.com/valyala/fasthttp"
)

// route is a path that this router answers itself. These are a closed list;
// whatever isn't in it is a worker's.
type route struct {
	class pathClass
	get   func(*exchange) // also serves HEAD
	post  func(*exchange)
	del   func(*exchange)
	admin bool // changes the fleet, or shows what only its operators should see
	page  pagePart
	both  bool // workers have the path too, and it must not be reached there
}

// ownRoutes lists the paths that this router answers itself; see routeOf for
// those with a worker's URL in them.
func (p *Proxy) ownRoutes() map[string]*route {
	return map[string]*route{
		"/liveness":               {class: pathStatus, get: (*exchange).liveness},
		"/readiness":              {class: pathStatus, get: (*exchange).readiness},
		"/health":                 {class: pathStatus, get: (*exchange).health},
		"/metrics":                {class: pathStatus, get: (*exchange).writeMetrics},
		"/v1/models":              {class: pathModels, get: (*exchange).models},
		"/get_loads":              {class: pathAdmin, get: (*exchange).getLoads, admin: true},
		"/scheduling/diagnostics": {class: pathAdmin, get: (*exchange).noScheduling},
		"/finish_session":         {class: pathAdmin, post: (*exchange).finishSession, admin: true},
		"/list_workers":           {class: pathAdmin, get: (*exchange).listWorkers, admin: true},
		"/add_worker":             {class: pathAdmin, post: (*exchange).addWorker, admin: true},
		"/remove_worker":          {class: pathAdmin, post: (*exchange).removeWorker, admin: true},
		"/flush_cache":            {class: pathAdmin, post: (*exchange).flushCache, admin: true},
		"/v1/load_lora_adapter":   {class: pathAdmin, post: (*exchange).changeAdapter, admin: true, both: true},
		"/v1/unload_lora_adapter": {class: pathAdmin, post: (*exchange).changeAdapter, admin: true, both: true},
		"/workers":                {class: pathAdmin, get: (*exchange).getWorkers, post: (*exchange).postWorkers, admin: true},
		"/debug/decisions":        {class: pathAdmin, get: (*exchange).writeDecisions, admin: true},
		"/status":                 statusRoute,
		"/status/events":          {class: pathAdmin, get: (*exchange).statusEvents, admin: true, page: pageFigures},
	}
}

var workerRoute = &route{class: pathAdmin, get: (*exchange).getWorker, del: (*exchange).deleteWorker, admin: true}

// routeOf returns the route for a path, or nil when a worker should see it.
func (p *Proxy) routeOf(path []byte) *route {
	if r := p.routes[string(path)]; r != nil {
		return r
	}
	if len(path) > len("/workers/") && string(path[:len("/workers/")]) == "/workers/" {
		if asksDrain(path) {
			return drainRoute
		}
		return workerRoute
	}
	return nil
}

// shownPath is the path for the access log. What should name a worker and doesn't
// is left out: it may hold a password.
func (x *exchange) shownPath() string {
	if r := x.p.routeOf(x.path); r == workerRoute || r == drainRoute {
		raw, err := unescapeWorker(x.path)
		if err == nil {
			_, err = workerurl.Name(raw)
		}
		if err != nil {
			return "/workers/…"
		}
	}
	return string(x.path)
}

// allowed lists the methods of a route.
func (r *route) allowed() string {
	var m []string
	if r.post != nil {
		m = append(m, "POST")
	}
	if r.get != nil {
		m = append(m, "GET", "HEAD")
	}
	if r.del != nil {
		m = append(m, "DELETE")
	}
	return strings.Join(m, ",")
}

// serveOwn answers a request for one of this router's own paths.
func (x *exchange) serveOwn(r *route) {
	var serve func(*exchange)
	switch string(x.ctx.Method()) {
	case fasthttp.MethodGet, fasthttp.MethodHead:
		serve = r.get
	case fasthttp.MethodPost:
		serve = r.post
	case fasthttp.MethodDelete:
		serve = r.del
	case fasthttp.MethodOptions:
		if len(x.p.opts.CORSOrigins) > 0 {
			x.preflight(r.allowed())
			return
		}
	}
	switch {
	case !x.admit(r): // which has answered
	case serve == nil:
		x.refuseMethod(r.allowed())
	case r.admin && x.pageBarred(r):
		x.refuse(&problem{
			fasthttp.StatusForbidden, kindPermission, "admin_not_for_browsers",
			"The admin API does not answer to web pages, which could be anybody's; --cors-allowed-origins names those that it does.", 0,
		})
	default:
		serve(x)
	}
}

// fromPage reports whether a browser sent the request for a page that is not named
// as one that may. Such a page reaches what answers to this machine only. An origin
// of "*" names none.
func (x *exchange) fromPage() bool {
	if len(x.origin) > 0 {
		return !slices.Contains(x.p.opts.CORSOrigins, string(x.origin))
	}
	return len(x.fetchSite) > 0 && string(x.fetchSite) != "none"
}

// pageBarred reports whether a route of the admin API answers no page like the one
// that sent the request.
func (x *exchange) pageBarred(r *route) bool {
	return !x.p.opts.Compat && x.fromPage() && r.page != pageDocument && (r.page != pageFigures || !x.fromStatusPage())
}

// preflight answers a browser that asks whether its page may call a path.
func (x *exchange) preflight(allowed string) {
	h := httphead.AppendLine(x.lines[:0], "Allow", allowed)
	h = httphead.AppendLine(h, "access-control-allow-methods", corsMethods)
	h = httphead.AppendLine(h, "access-control-allow-headers", corsHeaders)
	h = httphead.AppendLine(h, "access-control-max-age", "3600")
	x.answerOwn(fasthttp.StatusOK, h, "", nil)
}

const plainText = "text/plain; charset=utf-8"

// answerText answers with plain text.
func (x *exchange) answerText(status int, text string) {
	x.answerBody(status, plainText, []byte(text))
}

// answerJSON answers with a value of this router's own, which marshals.
func (x *exchange) answerJSON(status int, v any) {
	x.answerBody(status, "application/json", mustJSON(v))
}

// mustJSON marshals a value of this router's own making.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("a value of the router's own does not marshal: " + err.Error())
	}
	return b
}

func (x *exchange) answerBody(status int, contentType string, body []byte) {
	x.answerOwn(status, x.lines[:0], contentType, body)
}
