package proxy

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"

	"github.com/VictoriaMetrics/metrics"
)

// metricSet holds what handlers count. What the actors know isn't counted here:
// one snapshot of each is written with every scrape, so that the numbers of one
// scrape belong together.
type metricSet struct {
	p     *Proxy
	set   *metrics.Set
	views sync.Pool // of *[]actors.WorkerView: memory for snapshots

	inFlight   *metrics.Gauge
	requests   [numPathClasses]*metrics.Counter
	answered   [numPathClasses]*metrics.Counter // with a status below 300, as vllm-router counts
	outcomes   map[string]*metrics.Counter      // the keys are record.outcome's
	statuses   [6]*metrics.Counter              // by class: 1xx to 5xx; 0 is anything else
	firstByte  histogram
	duration   histogram
	backoff    histogram
	stale      *metrics.Counter
	panics     *metrics.Counter
	unwatched  *metrics.Counter
	turnedAway *metrics.Counter // connections
	noticed    histogram
	decisions  []*metrics.Counter // by policy.Reason
	imbalances *metrics.Counter
	maxLoad    *metrics.Gauge
	minLoad    *metrics.Gauge
	prompt     *metrics.Counter
	matched    *metrics.Counter
	best       *metrics.Counter
	pd         pdMetrics
	usage      usageMetrics
	failover   failoverMetrics

	reportsUsed, reportsUnused *metrics.Counter // workers' words of their own load
}

// histogram is a vmrange or a Prometheus histogram, as the operator chose.
type histogram interface{ Update(float64) }

// requestBuckets are vllm-router's buckets for durations, in seconds.
var requestBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240}

func newMetricSet(p *Proxy) *metricSet {
	s := metrics.NewSet()
	m := &metricSet{p: p, set: s, outcomes: make(map[string]*metrics.Counter)}
	hist := func(name string) histogram {
		if p.opts.PrometheusBuckets {
			return s.NewPrometheusHistogramExt(name, requestBuckets)
		}
		return s.NewHistogram(name)
	}
	m.inFlight = s.NewGauge("loadstar_inflight_requests", nil)
	for c := range numPathClasses {
		m.requests[c] = s.NewCounter(fmt.Sprintf("loadstar_requests_total{path=%q}", c))
		if c < pathAdmin {
			m.answered[c] = s.NewCounter(fmt.Sprintf("vllm_router_requests_total{route=%q}", c))
		}
	}
	for _, c := range actors.Causes() {
		m.outcomes[c.String()] = s.NewCounter(fmt.Sprintf("loadstar_request_outcomes_total{outcome=%q}", c))
	}
	for _, o := range []string{"own", "refused"} {
		m.outcomes[o] = s.NewCounter(fmt.Sprintf("loadstar_request_outcomes_total{outcome=%q}", o))
	}
	for i := range m.statuses {
		class := fmt.Sprintf("%dxx", i)
		if i == 0 {
			class = "other"
		}
		m.statuses[i] = s.NewCounter(fmt.Sprintf("loadstar_answers_total{status=%q}", class))
	}
	m.firstByte = hist("loadstar_first_byte_seconds")
	m.duration = hist("vllm_router_request_duration_seconds")
	m.backoff = hist("vllm_router_retry_backoff_duration_seconds")
	m.noticed = hist("loadstar_client_gone_close_seconds")
	m.reportsUsed = s.NewCounter(`loadstar_load_reports_total{result="used"}`)
	m.reportsUnused = s.NewCounter(`loadstar_load_reports_total{result="unused"}`)
	m.stale = s.NewCounter("loadstar_stale_connections_total")
	m.panics = s.NewCounter("loadstar_panics_total")
	m.unwatched = s.NewCounter("loadstar_unwatched_connections_total")
	for _, api := range []string{"client", "admin"} {
		for _, key := range []string{"none", "unknown"} {
			s.NewCounter(fmt.Sprintf("loadstar_keys_refused_total{api=%q,key=%q}", api, key))
		}
	}
	m.turnedAway = s.NewCounter("loadstar_connections_refused_total")
	for _, r := range append([]policy.Reason{0}, policy.Reasons()...) {
		m.decisions = append(m.decisions, s.NewCounter(fmt.Sprintf("loadstar_decisions_total{reason=%q}", r)))
	}
	m.imbalances = s.NewCounter("vllm_router_load_balancing_events_total")
	m.maxLoad = s.NewGauge("vllm_router_max_load", nil)
	m.minLoad = s.NewGauge("vllm_router_min_load", nil)
	m.prompt = s.NewCounter("loadstar_prompt_blocks_total")
	m.matched = s.NewCounter("loadstar_prompt_blocks_matched_total")
	m.best = s.NewCounter("loadstar_prompt_blocks_best_total")
	for _, r := range p.roles() {
		if p.router.NeedsKey(r) && m.usage.prompt == nil {
			m.usage = newUsageMetrics(s)
		}
	}
	if p.opts.Failover.Continuations > 0 {
		m.failover = newFailoverMetrics(s)
	}
	if p.kv != nil {
		p.kv.count(s)
	}
	if p.opts.PD != nil {
		m.pd = newPDMetrics(s, hist)
	}
	return m
}

// finished counts a request that has ended.
func (m *metricSet) finished(r *record) {
	m.inFlight.Dec()
	m.requests[r.class].Inc()
	m.outcomes[r.outcome()].Inc()
	class := r.status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	m.statuses[class].Inc()
	if r.own {
		return
	}
	if class == 2 {
		m.answered[r.class].Inc()
	}
	if r.first > 0 {
		m.firstByte.Update(r.first.Seconds())
	}
	d := time.Since(r.started).Seconds()
	m.duration.Update(d)
	if r.prefill != "" {
		m.pd.finished(r.class, d)
	}
}

// decided counts what a policy decided.
func (m *metricSet) decided(d *actors.Decision) {
	m.decisions[d.Reason].Inc()
	if d.Blocks > 0 && m.p.needsKey {
		m.prompt.Add(d.Blocks)
		m.matched.Add(d.Match)
		m.best.Add(d.Best)
	}
	if d.Imbalanced {
		m.imbalances.Inc()
		m.maxLoad.Set(float64(d.MaxLoad))
		m.minLoad.Set(float64(d.MinLoad))
	}
}

// rejected counts a request whose head was refused before it was a request.
func (m *metricSet) rejected(status int) {
	m.outcomes["refused"].Inc()
	m.statuses[status/100].Inc()
}

// keyRefused counts a request without a key that is known, by the API that it was
// for, and by whether it has one at all. Its series are there from the start, so that
// the first guess shows as an increase.
func (m *metricSet) keyRefused(api, key string) {
	m.set.GetOrCreateCounter(fmt.Sprintf("loadstar_keys_refused_total{api=%q,key=%q}", api, key)).Inc()
}

// retried and exhausted count what is rare, so their series are made when they
// are needed.
func (m *metricSet) retried(c pathClass) {
	m.set.GetOrCreateCounter(fmt.Sprintf("vllm_router_retries_total{route=%q}", c)).Inc()
}

func (m *metricSet) exhausted(c pathClass) {
	m.set.GetOrCreateCounter(fmt.Sprintf("vllm_router_retries_exhausted_total{route=%q}", c)).Inc()
}

// clientLeft notes how long it took to act on a client's leaving.
func (m *metricSet) clientLeft(after time.Duration) { m.noticed.Update(after.Seconds()) }

// write writes everything in the text format of Prometheus.
func (m *metricSet) write(w io.Writer) {
	m.set.WritePrometheus(w)
	fmt.Fprintf(w, "loadstar_build_info{version=%q,goversion=%q,policy=%q} 1\n",
		m.p.opts.Version, runtime.Version(), m.p.policies())
	tree, hasTree := m.p.router.TreeStats()
	if hasTree {
		m.writeTree(w, &tree)
	}
	m.writeWorkers(w, &tree)
	m.writeModels(w)
	m.writeSources(w)
	m.p.kv.write(w)
	m.writePeers(w)
	metrics.WriteProcessMetrics(w)
	metrics.WriteFDMetrics(w)
}

// writeWorkers writes what the registry sees right now. A worker that is
// removed and idle is not in it, and so its series end.
func (m *metricSet) writeWorkers(w io.Writer, tree *actors.TreeStats) {
	memory, ok := m.views.Get().(*[]actors.WorkerView)
	if !ok {
		memory = new([]actors.WorkerView)
	}
	defer m.views.Put(memory)
	v, err := m.p.router.SnapshotInto(*memory, m.p.now())
	if err != nil {
		return
	}
	*memory = v.Workers
	active := 0
	for i := range v.Workers {
		if v.Workers[i].Member {
			active++
		}
	}
	metrics.WriteGaugeUint64(w, "vllm_router_active_workers", uint64(active))
	metrics.WriteGaugeUint64(w, "loadstar_leases_live", uint64(v.Live))
	metrics.WriteCounterUint64(w, "loadstar_leases_acquired_total", v.Granted)
	metrics.WriteCounterUint64(w, "loadstar_leases_released_total", v.Returned)
	metrics.WriteCounterUint64(w, "loadstar_lease_releases_refused_total", v.Refused)
	metrics.WriteGaugeFloat64(w, "loadstar_oldest_lease_seconds", v.OldestLease.Seconds())
	metrics.WriteGaugeUint64(w, "loadstar_sessions", uint64(v.Sessions))
	metrics.WriteCounterUint64(w, "loadstar_events_dropped_total", v.EventsDropped)
	m.writeRoom(w, &v)
	m.writeShadows(w, &v)
	series := newWorkerSeries(m.p.policies())
	m.pd.writeWorkers(w, &v)
	writeCaches(w, tree, &v)
	for i := range v.Workers {
		_, _ = w.Write(series.write(&v.Workers[i])) // into memory
	}
}

// writeRoom writes what limits and budgets have to say.
func (m *metricSet) writeRoom(w io.Writer, v *actors.Snapshot) {
	metrics.WriteGaugeFloat64(w, "loadstar_retry_budget_tokens", v.RetryTokens)
	metrics.WriteCounterUint64(w, "loadstar_retry_budget_refused_total", v.RetryRefused)
	r := &v.Room
	metrics.WriteGaugeUint64(w, "loadstar_admitted_requests", uint64(r.Admitted))
	metrics.WriteGaugeFloat64(w, "loadstar_queue_oldest_seconds", r.OldestWait.Seconds())
	metrics.WriteCounterUint64(w, "loadstar_queue_waits_total", r.Waits)
	metrics.WriteGaugeUint64(w, "loadstar_parked_requests", uint64(r.Parked))
	metrics.WriteCounterUint64(w, "loadstar_parked_total", r.Parks)
	for c, n := range r.Waiting {
		metrics.WriteGaugeUint64(w, fmt.Sprintf("loadstar_queue_waiting{class=\"%d\"}", c), uint64(n))
	}
	for i, reason := range actors.Refusals() {
		metrics.WriteCounterUint64(w, fmt.Sprintf("loadstar_queue_refused_total{reason=%q}", reason), r.Refusals[i])
	}
}

func boolGauge(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
