package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"loadstar/actors"
	"loadstar/proxy/routekey"

	"github.com/valyala/fasthttp"
)

// liveness says that the process answers.
func (x *exchange) liveness() { x.answerText(fasthttp.StatusOK, "OK") }

// readiness says whether requests should be sent here: some worker may serve
// them, in each phase, and no shutdown has begun.
func (x *exchange) readiness() {
	h := x.p.router.Health(x.p.now())
	ready := x.p.serves(&h) && !x.p.stopping()
	if x.p.opts.PD != nil {
		x.readinessPD(&h, ready)
		return
	}
	if ready {
		x.answerJSON(fasthttp.StatusOK, struct {
			Status  string `json:"status"`
			Healthy int    `json:"healthy_workers"`
			Total   int    `json:"total_workers"`
		}{"ready", h.Usable[actors.Regular], h.Members[actors.Regular]})
		return
	}
	reason := "no healthy workers available"
	if x.p.stopping() {
		reason = "shutting down"
	}
	x.answerJSON(fasthttp.StatusServiceUnavailable, struct {
		Status string `json:"status"`
		Reason string `json:"reason"`
		Total  int    `json:"total_workers"`
	}{"not_ready", reason, h.Members[actors.Regular]})
}

func (x *exchange) readinessPD(h *actors.FleetHealth, ready bool) {
	type phase struct {
		Healthy int `json:"healthy"`
		Total   int `json:"total"`
	}
	status, word := fasthttp.StatusOK, "ready"
	var missing []string
	switch {
	case ready:
	case x.p.stopping():
		missing = []string{"shutting down"}
	default:
		for _, r := range x.p.roles() {
			if !h.Serves(r) {
				missing = append(missing, "no healthy "+r.String()+" workers")
			}
		}
	}
	of := func(r actors.Role) *phase { return &phase{h.Usable[r], h.Members[r]} }
	var whole *phase
	if x.p.opts.PD.Beside {
		whole = of(actors.Regular)
	}
	if !ready {
		status, word = fasthttp.StatusServiceUnavailable, "not_ready"
	}
	x.answerJSON(status, struct {
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
		Prefill *phase `json:"prefill"`
		Decode  *phase `json:"decode"`
		Regular *phase `json:"regular,omitempty"`
	}{word, strings.Join(missing, ", "), of(actors.Prefill), of(actors.Decode), whole})
}

// health says whether some worker may serve requests, in each phase. Unlike
// vllm-router's, it is well while one of many is down, and not while there are
// none.
func (x *exchange) health() {
	h := x.p.router.Health(x.p.now())
	usable, members := 0, 0
	for _, r := range x.p.roles() {
		usable += h.Usable[r]
		members += h.Members[r]
	}
	switch {
	case x.p.stopping():
		x.answerText(fasthttp.StatusServiceUnavailable, "Shutting down")
	case members == 0 && x.p.discovery != nil:
		x.answerText(fasthttp.StatusServiceUnavailable, "Waiting for discovered workers: 0 prefill, 0 decode")
	case members == 0:
		x.answerText(fasthttp.StatusServiceUnavailable, "No workers")
	case !x.p.serves(&h) && len(h.Unusable) == 0 && h.Draining > 0:
		x.answerText(fasthttp.StatusServiceUnavailable, fmt.Sprintf("%d of %d servers drain, and no other takes requests", h.Draining, members))
	case !x.p.serves(&h) && x.p.opts.PD != nil && len(h.Unusable) == 0:
		x.answerText(fasthttp.StatusServiceUnavailable, fmt.Sprintf("Waiting for discovered workers: %d prefill, %d decode",
			h.Members[actors.Prefill], h.Members[actors.Decode]))
	case !x.p.serves(&h):
		x.answerText(fasthttp.StatusServiceUnavailable, "Unhealthy servers: "+x.sick(h.Unusable, members))
	case len(h.Unusable) == 0:
		x.answerText(fasthttp.StatusOK, "All servers healthy")
	default:
		x.answerText(fasthttp.StatusOK, fmt.Sprintf("%d of %d servers healthy. Unhealthy servers: %s", usable, members, x.sick(h.Unusable, members)))
	}
}

// sick tells of workers that can't be used: by name to those who may see the list
// of workers, by number to all others, who need not know the fleet.
func (x *exchange) sick(urls []string, members int) string {
	if x.mayAdminister() {
		return quoteList(urls)
	}
	return fmt.Sprintf("%d of %d", len(urls), members)
}

func quoteList(items []string) string {
	q := make([]string, len(items))
	for i, s := range items {
		q[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// writeMetrics answers with all metrics.
func (x *exchange) writeMetrics() {
	var b bytes.Buffer
	x.p.metrics.write(&b)
	x.answerBody(fasthttp.StatusOK, "text/plain; version=0.0.4; charset=utf-8", b.Bytes())
}

// getLoads answers with this router's own counts; no worker is asked.
func (x *exchange) getLoads() {
	type load struct {
		Worker string `json:"worker"`
		Load   int    `json:"load"`
	}
	v, err := x.p.router.Snapshot(x.p.now())
	if err != nil {
		x.refuse(problemOf(err))
		return
	}
	loads, phases := []load{}, map[string]int{}
	for i := range v.Workers {
		w := &v.Workers[i]
		if !w.Member {
			continue
		}
		loads = append(loads, load{w.URL, w.Load})
		for _, r := range twoPhases {
			if w.Roles.Has(r) {
				phases[r.String()+"_"+w.URL] = w.Load
			}
		}
	}
	answer := map[string]any{"workers": loads}
	if x.p.opts.PD != nil {
		answer["loads"], answer["errors"] = phases, []string{} // as vllm-router answers
	}
	x.answerJSON(fasthttp.StatusOK, answer)
}

// noScheduling answers as vllm-router does without its program scheduling.
func (x *exchange) noScheduling() {
	x.answerJSON(fasthttp.StatusNotFound, struct {
		Enabled bool   `json:"enabled"`
		Error   string `json:"error"`
	}{false, "This Router does not own Program scheduling"})
}

// finishSession ends a session wherever a policy keeps it. As in vllm-router the
// answer is the same whether there was one.
func (x *exchange) finishSession() {
	id := x.ctx.QueryArgs().Peek("session_id")
	if len(id) == 0 {
		x.refuse(badRequest("Failed to deserialize query string: missing field `session_id`"))
		return
	}
	forms := routekey.IdentitiesOf(string(id))
	for _, f := range []string{"session:", "user:"} {
		forms = append(forms, f+string(id))
	}
	for _, h := range sessionHeaders {
		forms = append(forms, "header:"+h+":"+string(id))
	}
	for _, f := range forms {
		x.p.router.FinishSession(boundSession([]byte(f)))
	}
	x.answerJSON(fasthttp.StatusOK, struct {
		Status  string `json:"status"`
		Session string `json:"session_id"`
	}{"ok", string(id)})
}

// logEvents writes down what the registry tells until it has ended.
func (p *Proxy) logEvents() {
	refused := 0
	for {
		select {
		case e := <-p.router.Events():
			p.logEvent(e, &refused)
		case <-p.router.Done():
			return
		}
	}
}

// refusedLogged is how many refused releases are logged before only every
// thousandth is: one is a bug, and a flood of them tells no more.
const refusedLogged = 10

func (p *Proxy) logEvent(e actors.Event, refused *int) {
	switch e.Kind {
	case actors.WorkerAdded:
		p.log.Info("worker added", "worker", e.URL, "load", e.Load)
	case actors.WorkerRemoved:
		p.log.Info("worker removed", "worker", e.URL, "load", e.Load)
	case actors.WorkerRetired:
		p.log.Debug("worker removed and idle", "worker", e.URL)
	case actors.WorkerUnready:
		p.log.Warn("worker is not healthy yet", "worker", e.URL, "reason", e.Detail)
	case actors.WorkerHealthy:
		p.log.Info("worker is healthy", "worker", e.URL, "load", e.Load)
	case actors.WorkerUnhealthy:
		p.log.Warn("worker is unhealthy", "worker", e.URL, "reason", e.Detail, "load", e.Load)
	case actors.BreakerSpared:
		p.log.Warn("circuit breaker stays closed: too many of the fleet are out already", "worker", e.URL, "failures_in_row", e.InRow, "failures", e.Failures, "successes", e.Successes)
	case actors.WorkerWedged:
		p.log.Warn("worker gives no sign of life while others do, and gets no more requests", "worker", e.URL, "load", e.Load)
	case actors.WorkerStirred:
		p.log.Info("worker gives signs of life again", "worker", e.URL, "load", e.Load)
	case actors.BreakerMoved:
		p.log.Warn("circuit breaker moved", "worker", e.URL, "state", e.Detail, "load", e.Load,
			"failures_in_row", e.InRow, "failures", e.Failures, "successes", e.Successes)
	case actors.WorkerDraining:
		p.log.Info("worker drains", "worker", e.URL, "load", e.Load)
	case actors.WorkerUndrained:
		p.log.Info("worker drains no longer", "worker", e.URL, "load", e.Load)
	case actors.ReturnRefused:
		if *refused++; *refused <= refusedLogged || *refused%1000 == 0 {
			p.log.Warn("a lease was returned twice, which is a bug; please report it", "outcome", e.Detail, "times", *refused)
		}
	}
}
