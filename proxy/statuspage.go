package proxy

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/proxy/httphead"
	"loadstar/proxy/statuspage"

	"github.com/valyala/fasthttp"
)

// pagePart says what of the status page a route is.
type pagePart uint8

const (
	noPart       pagePart = iota
	pageDocument          // the page, which holds no figure: who may not see any gets none from it
	pageFigures           // what it shows, for it and those who have the admin API
)

var statusRoute = &route{class: pathAdmin, get: (*exchange).statusPage, admin: true, page: pageDocument}

// statusPage answers with the page.
func (x *exchange) statusPage() {
	h := httphead.AppendLine(x.lines[:0], "Content-Security-Policy", statuspage.Policy)
	h = httphead.AppendLine(h, "X-Content-Type-Options", "nosniff")
	h = httphead.AppendLine(h, "X-Frame-Options", "DENY")
	h = httphead.AppendLine(h, "Referrer-Policy", "no-referrer")
	h = httphead.AppendLine(h, "Cross-Origin-Opener-Policy", "same-origin")
	h = httphead.AppendLine(h, "Cross-Origin-Resource-Policy", "same-origin")
	h = httphead.AppendLine(h, "Cache-Control", "no-cache")
	x.answerOwn(fasthttp.StatusOK, h, "text/html; charset=utf-8", statuspage.Page)
}

// fromStatusPage reports whether a browser sent the request for the status page.
// Where no key is asked for, a page of elsewhere could have its name lead to this
// machine and then seem to be this router's own, so the router must have been called
// by a name that leads nowhere else.
func (x *exchange) fromStatusPage() bool {
	return len(x.origin) == 0 && string(x.fetchSite) == "same-origin" && (x.p.adminKey != nil || isLocalName(string(x.ctx.Request.Header.Host())))
}

// isLocalName reports whether a Host header has an address, or a name that browsers
// take to this machine without asking anybody.
func isLocalName(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}

// statusEvents streams what the status page shows, until the client leaves or the
// router stops.
func (x *exchange) statusEvents() {
	if x.ctx.IsHead() {
		x.answerBody(fasthttp.StatusOK, "text/event-stream", nil)
		return
	}
	v, err := x.p.viewers.Join()
	switch {
	case errors.Is(err, statuspage.ErrFull):
		x.refuse(&problem{
			fasthttp.StatusServiceUnavailable, kindUnavailable, "too_many_viewers",
			"As many watch the status page as may at a time.", statusRetryAfter,
		})
		return
	case err != nil:
		x.refuse(problemOf(actors.ErrStopped))
		return
	case !x.ctx.Request.Header.IsHTTP11(): // which has no streams without an end
		defer v.Leave()
		x.answerBody(fasthttp.StatusOK, "text/event-stream", <-v.Frames())
		return
	}
	h := httphead.AppendLine(x.lines[:0], "Cache-Control", "no-store")
	h = httphead.AppendLine(h, "X-Accel-Buffering", "no")
	h = httphead.AppendLine(h, "X-Content-Type-Options", "nosniff")
	x.answerOwn(fasthttp.StatusOK, h, "text/event-stream", nil)
	x.record.status = fasthttp.StatusOK
	x.link.guard.Arm(x.link.client, nil)
	x.ctx.Response.SetBodyStream(&viewing{p: x.p, link: x.link, viewer: v, record: x.record}, httphead.Chunked)
	x.ctx.Response.ImmediateHeaderFlush = true
	x.moved = true
}

// statusRetryAfter is when a viewer that there was no place for should come again,
// in seconds.
const statusRetryAfter = 10

// viewing is the stream of one who watches. It has CloseWithError only, as stream
// has.
type viewing struct {
	p *Proxy
	link
	viewer *statuspage.Viewer
	record record
}

// SupportsBodyWriteTo has fasthttp use WriteTo.
func (*viewing) SupportsBodyWriteTo() bool { return true }

// Read is there for the interface; fasthttp uses WriteTo.
func (*viewing) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo hands frames on until there are no more or the client has left.
func (v *viewing) WriteTo(w io.Writer) (n int64, err error) {
	for {
		select {
		case frame, ok := <-v.viewer.Frames():
			if !ok {
				return n, nil
			}
			if stall := v.p.opts.Timeouts.ClientWrite; stall > 0 {
				if err := v.client.SetWriteDeadline(time.Now().Add(stall)); err != nil {
					return n, err
				}
				// The watcher's own deadline may have been there before.
				if v.guard.Left() {
					return n, errClientGone
				}
			}
			m, err := w.Write(frame)
			n += int64(m)
			v.record.bytes += int64(m)
			if err != nil {
				return n, err
			}
		case <-v.guard.Gone():
			v.guard.Note()
			return n, errClientGone
		}
	}
}

// CloseWithError ends the watching. fasthttp calls it once.
func (v *viewing) CloseWithError(error) error {
	v.viewer.Leave()
	v.settle(nil, false)
	v.p.guards.Put(v.guard)
	v.p.finished(&v.record)
	return nil
}
