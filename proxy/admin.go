package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/workerurl"

	"github.com/valyala/fasthttp"
)

// workerJSON is a worker as the admin API shows it. The first keys and their
// order are vllm-router's; what follows is ours.
type workerJSON struct {
	URL            string            `json:"url"`
	Model          string            `json:"model_id"`
	Type           string            `json:"worker_type"`
	Healthy        bool              `json:"is_healthy"`
	Load           int               `json:"load"`
	ConnectionMode string            `json:"connection_mode"`
	Priority       int               `json:"priority"`
	Cost           float64           `json:"cost"`
	Breaker        string            `json:"breaker"`
	Phases         map[string]int    `json:"phases"`
	Draining       bool              `json:"draining,omitempty"` // gets no further requests, and is removed with its last one
	Removed        bool              `json:"removed,omitempty"`  // no member any more, with requests still running
	Reason         string            `json:"reason,omitempty"`   // of the last check that went wrong
	Processed      uint64            `json:"processed"`
	Models         []string          `json:"models,omitempty"` // that it serves; none if that isn't known
	Foreign        int               `json:"foreign"`          // what others run there, no part of the load
	ForeignPending int               `json:"foreign_pending_blocks,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Source         string            `json:"source,omitempty"` // who named it
}

// prefillJSON is a prefill worker: vllm-router tells its bootstrap port.
type prefillJSON struct {
	workerJSON
	Bootstrap *int `json:"bootstrap_port"`
}

// newWorkerJSON is what is told of workers of every role.
func newWorkerJSON(v *actors.WorkerView) workerJSON {
	phases := make(map[string]int)
	for ph, n := range v.InPhase {
		if n > 0 {
			phases[actors.Phase(ph).String()] = n
		}
	}
	w := workerJSON{
		URL: v.URL, Model: v.Model, Type: v.Roles.String(), Healthy: v.Healthy, Load: v.Load, ConnectionMode: "Http",
		Priority: v.Priority, Cost: v.Cost, Breaker: v.Breaker.String(), Phases: phases, Removed: !v.Member, Draining: v.Draining,
		Reason: v.Reason, Processed: v.Granted, Foreign: v.Foreign, ForeignPending: v.ForeignPending, Labels: v.Labels, Source: v.Source, Models: v.Serves,
	}
	if w.Model == actors.AnyModel && len(v.Serves) > 0 {
		w.Model = v.Serves[0]
	}
	return w
}

func workerToJSON(v *actors.WorkerView) any {
	w := newWorkerJSON(v)
	if !v.Roles.Has(actors.Prefill) {
		return w
	}
	p := prefillJSON{workerJSON: w}
	if u, err := url.Parse(v.Handle.(*backend).site.bootstrap); err == nil {
		if port, err := strconv.Atoi(u.Port()); err == nil {
			p.Bootstrap = &port
		}
	}
	return p
}

// workersJSON is the fleet as GET /workers shows it.
type workersJSON struct {
	Workers []any      `json:"workers"`
	Total   int        `json:"total"`
	Stats   statsJSON  `json:"stats"`
	Leaving []any      `json:"leaving,omitempty"`
	Cache   *cacheJSON `json:"cache,omitempty"` // not among the stats, all of which are counts for vllm-router's clients
}

// statsJSON is vllm-router's counts.
type statsJSON struct {
	Prefill int `json:"prefill_count"`
	Decode  int `json:"decode_count"`
	Regular int `json:"regular_count"`
}

// getWorkers lists the members of the fleet, and apart from them the workers
// that were removed and still have requests running.
func (x *exchange) getWorkers() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	members, leaving := []any{}, []any{}
	counts := map[actors.Role]int{}
	for i := range v.Workers {
		w := &v.Workers[i]
		if !w.Member {
			leaving = append(leaving, workerToJSON(w))
			continue
		}
		members = append(members, workerToJSON(w))
		for _, r := range []actors.Role{actors.Regular, actors.Prefill, actors.Decode} {
			if w.Roles.Has(r) {
				counts[r]++
			}
		}
	}
	x.answerJSON(fasthttp.StatusOK, workersJSON{
		Workers: members, Total: len(members), Leaving: leaving,
		Stats: statsJSON{counts[actors.Prefill], counts[actors.Decode], counts[actors.Regular]},
		Cache: x.p.metrics.cache(),
	})
}

// listWorkers lists the URLs of the members.
func (x *exchange) listWorkers() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	urls := []string{}
	for i := range v.Workers {
		if v.Workers[i].Member {
			urls = append(urls, v.Workers[i].URL)
		}
	}
	x.answerJSON(fasthttp.StatusOK, map[string]any{"urls": urls})
}

// adminError answers a call to /workers as vllm-router does.
func (x *exchange) adminError(status int, code, message string) {
	x.record.refused = code
	x.answerJSON(status, struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{message, code})
}

// getWorker shows one worker.
func (x *exchange) getWorker() {
	name, ok := x.namedWorker(x.path)
	if !ok {
		return
	}
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	for i := range v.Workers {
		if w := &v.Workers[i]; w.URL == name && w.Member {
			x.answerJSON(fasthttp.StatusOK, workerToJSON(w))
			return
		}
	}
	x.adminError(fasthttp.StatusNotFound, "WORKER_NOT_FOUND", fmt.Sprintf("Worker %s not found", name))
}

// namedWorker takes the worker's canonical name out of a path. It reports
// false if it has answered that there is none.
func (x *exchange) namedWorker(path []byte) (string, bool) {
	raw, err := unescapeWorker(path)
	name := raw
	if err == nil {
		name, err = workerurl.Name(raw)
	}
	if err != nil {
		x.adminError(fasthttp.StatusBadRequest, "INVALID_WORKER_URL", err.Error())
		return "", false
	}
	return name, true
}

// deleteWorker takes one worker, or all ranks at a base URL, out of the fleet; with
// drain=true once its requests have ended.
func (x *exchange) deleteWorker() {
	name, ok := x.namedWorker(x.path)
	if !ok {
		return
	}
	if x.drains() {
		x.drainNamed(name)
		return
	}
	switch err := x.p.RemoveWorker(name); {
	case err == nil || x.p.opts.Compat && errors.Is(err, actors.ErrUnknownWorker):
		x.answerJSON(fasthttp.StatusOK, successJSON{true, fmt.Sprintf("Worker %s removed successfully", name)})
	case errors.Is(err, actors.ErrUnknownWorker):
		x.adminError(fasthttp.StatusNotFound, "WORKER_NOT_FOUND", fmt.Sprintf("Worker %s not found", name))
	default:
		x.adminError(fasthttp.StatusServiceUnavailable, "REMOVE_WORKER_FAILED", err.Error())
	}
}

type successJSON struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// postWorkers adds the worker that the body describes.
func (x *exchange) postWorkers() {
	var in discovery.Description
	const adminBody = 1 << 20
	body, err := readBody(nil, &x.ctx.Request, x.ctx.Conn(), adminBody, x.p.opts.Timeouts.ClientBody, nil)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		x.adminError(fasthttp.StatusBadRequest, "ADD_WORKER_FAILED", "the body must be a JSON object with a url: "+err.Error())
		return
	}
	w, err := in.Worker(x.p.roles())
	if err != nil {
		x.adminError(fasthttp.StatusBadRequest, "ADD_WORKER_FAILED", err.Error())
		return
	}
	spec := specOf(&w)
	spec.Source = sourceAPI
	status, message := x.add(spec)
	switch {
	case status < 300:
		x.answerJSON(status, successJSON{true, message})
	default:
		x.adminError(status, "ADD_WORKER_FAILED", message)
	}
}

// DefaultPriority is what vllm-router reports of a worker that was given none.
const DefaultPriority = discovery.DefaultPriority

// addWorker adds the worker that the query names.
func (x *exchange) addWorker() {
	url := x.ctx.QueryArgs().Peek("url")
	if len(url) == 0 {
		x.refuse(badRequest("Failed to deserialize query string: missing field `url`"))
		return
	}
	if x.p.opts.PD != nil {
		x.refuse(badRequest("This router needs to know the worker's phase: POST /workers with url and worker_type, prefill or decode, or regular where --enable-igw allows it."))
		return
	}
	status, message := x.add(WorkerSpec{URL: string(url), Priority: DefaultPriority, Cost: 1, Source: sourceAPI})
	if status < 300 {
		x.answerText(status, message)
		return
	}
	x.refuse(&problem{status, kindInvalid, "add_worker_failed", message, 0})
}

// add adds a worker and waits until it is healthy, unless the query says
// wait=false. A worker that isn't healthy by then stays in the fleet, and gets
// requests once it is, unless the query says require_healthy=true.
func (x *exchange) add(spec WorkerSpec) (status int, message string) {
	args := x.ctx.QueryArgs()
	wait := string(args.Peek("wait")) != "false"
	require := x.p.opts.Compat || string(args.Peek("require_healthy")) == "true"
	base, err := x.p.AddWorker(spec)
	switch {
	case errors.Is(err, actors.ErrDuplicate) && x.p.opts.Compat:
		return fasthttp.StatusBadRequest, fmt.Sprintf("Worker %s already exists", base)
	case errors.Is(err, actors.ErrDuplicate):
		return fasthttp.StatusConflict, fmt.Sprintf("Worker %s already exists", base)
	case errors.Is(err, actors.ErrStopped):
		return fasthttp.StatusServiceUnavailable, err.Error()
	case errors.Is(err, errHost):
		return fasthttp.StatusForbidden, err.Error()
	case err != nil:
		return fasthttp.StatusBadRequest, err.Error()
	}
	limit := x.p.opts.StartupTimeout
	switch {
	case wait && x.awaitHealthy(base, limit):
		return fasthttp.StatusOK, "Successfully added worker: " + base
	case wait && require:
		_ = x.p.RemoveWorker(base) // it may be gone already
		return fasthttp.StatusBadRequest, fmt.Sprintf("Timeout %ds waiting for worker %s to become healthy. "+
			"Please set --worker-startup-timeout-secs to a larger value", int(limit/time.Second), base)
	}
	return fasthttp.StatusAccepted, fmt.Sprintf("Added worker: %s; it gets requests once it is healthy", base)
}

// removeWorker takes the worker that the query names out of the fleet.
func (x *exchange) removeWorker() {
	raw := string(x.ctx.QueryArgs().Peek("url"))
	if raw == "" {
		x.refuse(badRequest("Failed to deserialize query string: missing field `url`"))
		return
	}
	name, err := workerurl.Name(raw)
	status, message := fasthttp.StatusOK, "Successfully removed worker: "+name
	switch {
	case err != nil:
	case x.drains():
		status, message, err = x.drain(name)
	default:
		err = x.p.RemoveWorker(name)
	}
	switch {
	case err == nil:
		x.answerText(status, message)
	case x.p.opts.Compat && errors.Is(err, actors.ErrUnknownWorker):
		x.answerText(fasthttp.StatusOK, "Successfully removed worker: "+name)
	case errors.Is(err, actors.ErrUnknownWorker):
		x.refuse(&problem{fasthttp.StatusNotFound, kindNotFound, "worker_not_found", fmt.Sprintf("Worker %s not found", name), 0})
	case errors.Is(err, actors.ErrStopped):
		x.refuse(problemOf(err))
	default:
		x.refuse(badRequest(err.Error()))
	}
}

// flushCache has every worker drop its prefix cache, and forgets what was known
// of them.
func (x *exchange) flushCache() {
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	var ids []actors.WorkerID
	bases := membersOf(&v, func(w *actors.WorkerView) bool { ids = append(ids, w.ID); return true })
	failed := x.p.control.postAll(bases, "/flush_cache", x.authorization())
	x.p.router.Forget(ids...)
	if len(failed) == 0 {
		x.answerText(fasthttp.StatusOK, "Cache flushed on all servers")
		return
	}
	x.refuse(&problem{
		fasthttp.StatusInternalServerError, kindServer, "flush_failed",
		"Cache flush failed on one or more servers: " + quoteList(failed), 0,
	})
}

// membersOf lists, once each, the base URLs of the members that keep says.
func membersOf(v *actors.Snapshot, keep func(*actors.WorkerView) bool) []string {
	var bases []string
	known := map[string]bool{}
	for i := range v.Workers {
		w := &v.Workers[i]
		if w.Member && keep(w) && !known[w.Base] {
			known[w.Base] = true
			bases = append(bases, w.Base)
		}
	}
	return bases
}

// authorization is what a call of this router's own to a worker authenticates
// with, on behalf of a client: the workers' key, or what the client sent unless it
// was meant for this router.
func (x *exchange) authorization() string {
	if k := x.p.opts.WorkerKey; k != "" {
		return "Bearer " + k
	}
	if x.p.opts.ClientKeys != nil || x.p.adminKey != nil && x.record.class == pathAdmin {
		return ""
	}
	return string(x.auth)
}
