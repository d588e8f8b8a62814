package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstar/actors/discovery"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// apiServer is as much of an API server as deals with pods: it lists them and sends
// real watch streams.
type apiServer struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	version  int
	pods     map[string]object // by namespace/name
	events   []event           // since the start
	oldest   int               // versions before are forgotten
	changed  chan struct{}     // closed with each change
	drop     chan struct{}     // closed to end all watches
	streams  bool              // it knows lists that come as watches
	fails    []int             // statuses of the next answers
	deaf     bool              // watches never end by themselves, nor say anything
	stall    chan struct{}     // if not nil, answers wait for it
	requests []string
	watches  int // open ones
}

type object map[string]any

type event struct {
	version int
	kind    string
	pod     object
}

func newAPIServer(t testing.TB) *apiServer {
	a := &apiServer{t: t, version: 1, pods: make(map[string]object), changed: make(chan struct{}), drop: make(chan struct{})}
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.dropWatches()
		a.Close()
	})
	return a
}

// newPod is a pod that is ready, with changes in pairs of path and value.
func newPod(name, ip string, labels ...string) object {
	marks := map[string]any{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		marks[key] = value
	}
	return object{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{"name": name, "namespace": "prod", "uid": "uid-" + name + ip, "labels": marks, "annotations": map[string]any{}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "vllm", "image": "vllm"}}},
		"status": map[string]any{
			"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
			"conditions": []any{map[string]any{"type": "Initialized", "status": "True"}, map[string]any{"type": "Ready", "status": "True"}},
		},
	}
}

func (o object) meta() map[string]any   { return o["metadata"].(map[string]any) }
func (o object) status() map[string]any { return o["status"].(map[string]any) }
func (o object) key() string            { return fmt.Sprint(o.meta()["namespace"], "/", o.meta()["name"]) }

// with is a copy of a pod, changed.
func (o object) with(change func(c object)) object {
	b, _ := json.Marshal(o)
	var c object
	_ = json.Unmarshal(b, &c)
	change(c)
	return c
}

func notReady(o object) {
	o.status()["conditions"].([]any)[1].(map[string]any)["status"] = "False"
}

// put adds or changes pods.
func (a *apiServer) put(pods ...object) {
	a.change(func() {
		for _, p := range pods {
			p = p.with(func(object) {})
			kind := "MODIFIED"
			if a.pods[p.key()] == nil {
				kind = "ADDED"
			}
			a.pods[p.key()] = p
			a.happen(kind, p)
		}
	})
}

// remove deletes pods.
func (a *apiServer) remove(pods ...object) {
	a.change(func() {
		for _, p := range pods {
			delete(a.pods, p.key())
			a.happen("DELETED", p.with(func(object) {}))
		}
	})
}

func (a *apiServer) happen(kind string, p object) {
	a.version++
	p.meta()["resourceVersion"] = strconv.Itoa(a.version)
	a.events = append(a.events, event{a.version, kind, p})
}

func (a *apiServer) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	close(a.changed)
	a.changed = make(chan struct{})
}

// forget has watches that resume be told that they are too late.
func (a *apiServer) forget() { a.change(func() { a.oldest = a.version + 1 }) }

// dropWatches cuts all watches off.
func (a *apiServer) dropWatches() {
	a.change(func() { close(a.drop); a.drop = make(chan struct{}) })
}

// matches applies a label selector of equalities.
func matches(p object, selector string) bool {
	for pair := range strings.SplitSeq(selector, ",") {
		key, value, _ := strings.Cut(pair, "=")
		if labels := p.meta()["labels"].(map[string]any); selector != "" && labels[key] != value {
			return false
		}
	}
	return true
}

// ServeHTTP implements http.Handler.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.URL.String())
	status, stall := 0, a.stall
	if len(a.fails) > 0 {
		status, a.fails = a.fails[0], a.fails[1:]
	}
	a.mu.Unlock()
	q := r.URL.Query()
	namespace := ""
	switch parts := strings.Split(r.URL.Path, "/"); {
	case r.URL.Path == "/api/v1/pods":
	case len(parts) == 6 && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") && parts[5] == "pods":
		namespace = parts[4]
	default:
		status = http.StatusNotFound
	}
	if stall != nil {
		select {
		case <-stall:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		a.fail(w, status)
		return
	}
	keep := func(p object) bool {
		return matches(p, q.Get("labelSelector")) && (namespace == "" || p.meta()["namespace"] == namespace)
	}
	switch {
	case q.Get("watch") == "":
		a.list(w, keep)
	case q.Get("sendInitialEvents") == "true" && !a.streams:
		a.fail(w, http.StatusUnprocessableEntity)
	default:
		a.watch(w, r, keep)
	}
}

func (a *apiServer) fail(w http.ResponseWriter, status int) {
	reason := map[int]string{403: "Forbidden", 410: "Expired", 422: "Invalid", 404: "NotFound", 500: "InternalError", 401: "Unauthorized"}[status]
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": "the fake says " + reason, "metadata": object{},
	})
}

func (a *apiServer) list(w io.Writer, keep func(object) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := []object{}
	for _, p := range a.pods {
		if keep(p) {
			items = append(items, p)
		}
	}
	_ = json.NewEncoder(w).Encode(object{
		"kind": "PodList", "apiVersion": "v1", "metadata": object{"resourceVersion": strconv.Itoa(a.version)}, "items": items,
	})
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, keep func(object) bool) {
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	out := json.NewEncoder(w)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	over := time.After(time.Duration(seconds) * time.Second)
	a.mu.Lock()
	a.watches++
	defer func() { a.mu.Lock(); a.watches--; a.mu.Unlock() }()
	drop := a.drop
	deaf := a.deaf
	if deaf {
		over = nil
	}
	initial := q.Get("sendInitialEvents") == "true"
	if !initial && from+1 < a.oldest {
		a.mu.Unlock()
		_ = out.Encode(object{"type": "ERROR", "object": object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"}})
		return
	}
	if initial {
		for _, p := range a.pods {
			if keep(p) {
				_ = out.Encode(object{"type": "ADDED", "object": p})
			}
		}
		from = a.version
		_ = out.Encode(object{"type": "BOOKMARK", "object": object{"kind": "Pod", "apiVersion": "v1", "metadata": object{
			"resourceVersion": strconv.Itoa(a.version), "annotations": object{"k8s.io/initial-events-end": "true"},
		}}})
	}
	a.mu.Unlock()
	w.(http.Flusher).Flush()
	seen := map[string]bool{} // pods that matched when they were sent
	for {
		a.mu.Lock()
		select {
		case <-drop: // before anything that happened since is told
			a.mu.Unlock()
			return
		default:
		}
		changed := a.changed
		if deaf {
			changed = nil
			from = a.version
		}
		for _, e := range a.events {
			if e.version <= from {
				seen[e.pod.key()] = keep(e.pod) && e.kind != "DELETED"
				continue
			}
			from = e.version
			before, now := seen[e.pod.key()], keep(e.pod)
			kind := e.kind
			switch { // as the API server does for a selector
			case !now && !before:
				continue
			case !now:
				kind = "DELETED"
			case !before && kind == "MODIFIED":
				kind = "ADDED"
			}
			seen[e.pod.key()] = now && kind != "DELETED"
			_ = out.Encode(object{"type": kind, "object": e.pod})
		}
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-drop:
			return
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// openWatches counts the watches that are open.
func (a *apiServer) openWatches() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watches
}

// fleet is a fleet that notes the workers which get requests.
type fleet struct {
	mu    sync.Mutex
	has   map[string]discovery.Worker
	calls int
}

func (f *fleet) Bring(w discovery.Worker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has[w.URL] = w
	f.calls++
	return nil
}

func (f *fleet) Drain(w discovery.Worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.has, w.URL)
	f.calls++
}

// urls lists the workers, each as HOST:PORT, in order.
func (f *fleet) urls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return joined(f.has)
}

// rig is sources that watch a fake API server.
type rig struct {
	*apiServer
	fleet *fleet
	rec   *discovery.Reconciler
	log   *logged
}

type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func quickly() *wait.Backoff {
	return &wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1, Steps: 1, Cap: 5 * time.Millisecond}
}

// start runs a source for each of the options, quickly.
func start(a *apiServer, all ...Options) *rig {
	a.t.Helper()
	r := &rig{apiServer: a, fleet: &fleet{has: make(map[string]discovery.Worker)}, log: new(logged)}
	r.rec = discovery.New(r.fleet, discovery.Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), Retry: 50 * time.Millisecond})
	client, err := newClient(&rest.Config{Host: a.URL}, maxAnswer)
	if err != nil {
		a.t.Fatal(err)
	}
	for i, o := range all {
		o.backoff = quickly()
		if o.Port == 0 {
			o.Port = 8000
		}
		r.rec.Run(fmt.Sprint("kubernetes/", i), client.Run(o))
	}
	a.t.Cleanup(r.rec.Close)
	return r
}

// patience is how long a test waits for what is due at once.
const patience = 20 * time.Second

// wait waits until cond holds.
func (r *rig) wait(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("after %v still waiting for %s; workers %q, requests %q, log:\n%s", patience, what, r.fleet.urls(), r.requests, r.log)
		}
	}
}

// want waits until the fleet has these workers and no others.
func (r *rig) want(when, urls string) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%s: workers %q", when, urls), func() bool { return r.fleet.urls() == urls })
}

func init() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }
