package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"loadstar/actors"

	"github.com/valyala/fasthttp"
)

// DrainWorker has the worker with a canonical name, or all ranks at a base URL, get
// no further requests, and removes it when none runs there any more, or after
// timeout; zero is without end. It returns how many run there, reservations
// included. Errors: those of Registry.DrainWorkers.
func (p *Proxy) DrainWorker(name string, timeout time.Duration) (running int, err error) {
	drains, err := p.router.DrainWorkers(name)
	for _, d := range drains {
		running += d.Leases
		if d.Leases == 0 {
			p.awaitDrain(&d, 0) // it is over already
			continue
		}
		go p.awaitDrain(&d, timeout)
	}
	return running, err
}

// awaitDrain sees a drain through. There is one of them for each worker that
// drains: a drain that is begun anew ends the one before.
func (p *Proxy) awaitDrain(d *actors.Drain, timeout time.Duration) {
	var late <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case emptied := <-d.Over():
			if emptied {
				p.router.Drained(d)
				p.letGo(d.Base, d.Handle)
			}
			return
		case <-late:
			late = nil
			if p.router.EndDrain(d) {
				p.letGo(d.Base, d.Handle)
				return
			}
		case <-p.router.Done():
			return
		}
	}
}

// letGo ends what is kept of a worker that was a member.
func (p *Proxy) letGo(base string, handle any) {
	p.prober.Unwatch(base)
	handle.(*backend).pool.Retire()
}

// drainPath ends the path of the calls that begin and end a drain, behind the
// worker's URL.
var drainPath = []byte("/drain")

var drainRoute = &route{class: pathAdmin, post: (*exchange).postDrain, del: (*exchange).deleteDrain, admin: true}

// asksDrain reports whether a path below /workers/ is about a drain. The slash of
// a worker's own path is escaped there.
func asksDrain(path []byte) bool {
	return bytes.HasSuffix(path, drainPath) && len(path) > len("/workers/")+len(drainPath)
}

// drainTimeout takes timeout_secs out of the query; zero if there is none.
func (x *exchange) drainTimeout() (time.Duration, error) {
	raw := string(x.ctx.QueryArgs().Peek("timeout_secs"))
	if raw == "" {
		return 0, nil
	}
	const longest = 1e9
	v, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsNaN(v) || v < 0.001 || v > longest {
		return 0, fmt.Errorf("timeout_secs must be a number of seconds from 0.001 to %.0f", longest)
	}
	return time.Duration(v * float64(time.Second)), nil
}

// drains reports whether a call that removes a worker asks for a drain.
func (x *exchange) drains() bool { return string(x.ctx.QueryArgs().Peek("drain")) == "true" }

// drain begins to drain a worker, and says how that goes.
func (x *exchange) drain(name string) (status int, message string, err error) {
	timeout, err := x.drainTimeout()
	if err != nil {
		return 0, "", err
	}
	switch running, err := x.p.DrainWorker(name, timeout); {
	case err != nil:
		return 0, "", err
	case running == 0:
		return fasthttp.StatusOK, fmt.Sprintf("Worker %s had no requests and is removed", name), nil
	default:
		return fasthttp.StatusAccepted, fmt.Sprintf("Worker %s drains: %d requests are still there", name, running), nil
	}
}

// postDrain drains the worker in the path.
func (x *exchange) postDrain() {
	if name, ok := x.namedWorker(bytes.TrimSuffix(x.path, drainPath)); ok {
		x.drainNamed(name)
	}
}

func (x *exchange) drainNamed(name string) {
	status, message, err := x.drain(name)
	switch {
	case err == nil:
		x.answerJSON(status, successJSON{true, message})
	case errors.Is(err, actors.ErrUnknownWorker):
		x.adminError(fasthttp.StatusNotFound, "WORKER_NOT_FOUND", fmt.Sprintf("Worker %s not found", name))
	case errors.Is(err, actors.ErrStopped):
		x.adminError(fasthttp.StatusServiceUnavailable, "DRAIN_WORKER_FAILED", err.Error())
	default:
		x.adminError(fasthttp.StatusBadRequest, "DRAIN_WORKER_FAILED", err.Error())
	}
}

// deleteDrain gives the worker in the path requests again.
func (x *exchange) deleteDrain() {
	name, ok := x.namedWorker(bytes.TrimSuffix(x.path, drainPath))
	if !ok {
		return
	}
	switch err := x.p.router.UndrainWorkers(name); {
	case err == nil:
		x.answerJSON(fasthttp.StatusOK, successJSON{true, fmt.Sprintf("Worker %s gets requests", name)})
	case errors.Is(err, actors.ErrUnknownWorker):
		x.adminError(fasthttp.StatusNotFound, "WORKER_NOT_FOUND", fmt.Sprintf("Worker %s not found", name))
	default:
		x.adminError(fasthttp.StatusServiceUnavailable, "UNDRAIN_WORKER_FAILED", err.Error())
	}
}

// isDraining reports whether some worker at a base URL drains.
func (p *Proxy) isDraining(base string) bool {
	return slices.ContainsFunc(p.router.At(base), func(w actors.WorkerAt) bool { return w.Draining })
}
