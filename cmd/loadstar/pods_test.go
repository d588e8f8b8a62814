package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cluster is as much of an API server as tells of pods with the label app=vllm. Unlike
// a real one it tells of an end only to watches that are open at the time.
type cluster struct {
	*httptest.Server

	mu      sync.Mutex
	version int
	oldest  int // watches that go on from versions before are told that they are too old
	pods    map[string]clusterPod
	changed chan struct{} // closed with each change
	cut     chan struct{} // closed to end all watches
	watches int           // open ones
}

type clusterPod struct {
	uid, ip, app string
	unready      bool
	version      int
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{version: 1, pods: map[string]clusterPod{}, changed: make(chan struct{}), cut: make(chan struct{})}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close) // when the router has ended, whose watches it would wait for
	return c
}

// change has f change the pods.
func (c *cluster) change(f func(pods map[string]clusterPod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := maps.Clone(c.pods)
	f(c.pods)
	c.version++
	for name, p := range c.pods {
		if p != before[name] {
			p.version = c.version
			c.pods[name] = p
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// put adds a pod or changes it.
func (c *cluster) put(name string, p clusterPod) {
	c.change(func(pods map[string]clusterPod) { pods[name] = p })
}

// lose ends all watches, and has a pod gone when they are back.
func (c *cluster) lose(name string) {
	c.change(func(pods map[string]clusterPod) {
		delete(pods, name)
		c.oldest = c.version + 1
		close(c.cut)
		c.cut = make(chan struct{})
	})
}

// watched tells whether somebody watches.
func (c *cluster) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watches > 0
}

// object is a pod as the API server writes it.
func (p clusterPod) object(name string) map[string]any {
	ready := "True"
	if p.unready {
		ready = "False"
	}
	status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": ready}}}
	if p.ip != "" {
		status["podIP"] = p.ip
	}
	return map[string]any{
		"kind": "Pod", "apiVersion": "v1", "status": status,
		"metadata": map[string]any{"name": name, "namespace": "prod", "uid": p.uid, "resourceVersion": fmt.Sprint(p.version), "labels": map[string]any{"app": p.app}},
	}
}

// ServeHTTP implements http.Handler.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch q := r.URL.Query(); {
	case q.Get("labelSelector") != "app=vllm":
		w.WriteHeader(http.StatusNotFound)
	case q.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") != "":
		var from int
		fmt.Sscan(q.Get("resourceVersion"), &from)
		c.watch(w, r, from)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		items := []any{}
		for name, p := range c.pods {
			if p.app == "vllm" {
				items = append(items, p.object(name))
			}
		}
		json.NewEncoder(w).Encode(map[string]any{
			"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(c.version)}, "items": items,
		})
	}
}

func (c *cluster) watch(w http.ResponseWriter, r *http.Request, from int) {
	out, told := json.NewEncoder(w), map[string]clusterPod{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from < c.oldest {
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}`)
		return
	}
	c.watches++
	defer func() { c.watches-- }()
	for name, p := range c.pods {
		if p.version <= from && p.app == "vllm" {
			told[name] = p
		}
	}
	for {
		for name, p := range told {
			if now, is := c.pods[name]; !is || now.app != "vllm" {
				out.Encode(map[string]any{"type": "DELETED", "object": p.object(name)})
				delete(told, name)
			}
		}
		for name, p := range c.pods {
			if before, is := told[name]; p.app == "vllm" && p != before {
				kind := "ADDED"
				if is {
					kind = "MODIFIED"
				}
				out.Encode(map[string]any{"type": kind, "object": p.object(name)})
				told[name] = p
			}
		}
		changed, cut := c.changed, c.cut
		c.mu.Unlock()
		w.(http.Flusher).Flush()
		ended := false
		select {
		case <-changed:
			select {
			case <-cut: // at the same moment
				ended = true
			default:
			}
		case <-r.Context().Done():
			ended = true
		}
		c.mu.Lock()
		if ended {
			return
		}
	}
}

// podWorker is what runs at a pod's address. It always is well.
type podWorker struct {
	ip, port string
	name     atomic.Value // string; what it answers
	asked    atomic.Int64 // requests but for checks
}

// newPodWorkers starts workers at addresses of their own, with one port.
func newPodWorkers(t *testing.T, names ...string) []*podWorker {
	t.Helper()
	all, port := []*podWorker{}, "0"
	for i, name := range names {
		w := &podWorker{ip: fmt.Sprintf("127.0.0.%d", 2+i)}
		w.name.Store(name)
		ln, err := net.Listen("tcp", net.JoinHostPort(w.ip, port))
		if err != nil {
			t.Skip("an address of loopback can't be listened at: ", err)
		}
		_, port, _ = net.SplitHostPort(ln.Addr().String())
		w.port = port
		s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: w}}
		s.Start()
		t.Cleanup(s.Close)
		all = append(all, w)
	}
	return all
}

// ServeHTTP implements http.Handler.
func (w *podWorker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		w.asked.Add(1)
	}
	io.WriteString(rw, w.name.Load().(string))
}

// url is where the worker is.
func (w *podWorker) url() string { return "http://" + net.JoinHostPort(w.ip, w.port) }

// podRouter is a router whose workers are the pods of a cluster.
type podRouter struct {
	t    *testing.T
	addr string
}

func startPods(t *testing.T, c *cluster, port string) *podRouter {
	t.Helper()
	f := files{t, t.TempDir()}
	kubeconfig := f.write("kubeconfig", []byte(fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: %q}}],
		users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: k, user: u}}]}`, c.URL)))
	return &podRouter{t, running(t, io.Discard, "--service-discovery", "--selector", "app=vllm", "--service-discovery-port", port,
		"--kubeconfig", kubeconfig, "--worker-startup-check-interval", "0.05", "--policy", "round_robin")}
}

// has waits until just these workers are healthy.
func (r *podRouter) has(when string, workers ...*podWorker) {
	r.t.Helper()
	var all []string
	for _, w := range workers {
		all = append(all, w.url()+"=kubernetes")
	}
	slices.Sort(all)
	want := strings.Join(all, " ")
	eventually(r.t, fmt.Sprintf("%s: %q", when, want), func() bool { return shownSources(r.t, r.addr) == want })
}

// ask makes some requests, all of which must be answered, and names in order those
// who did.
func (r *podRouter) ask() string {
	r.t.Helper()
	by := map[string]bool{}
	for range 6 {
		by[answer(r.t, r.addr, `{"model":"m","messages":[]}`)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(by)), " ")
}

func (r *podRouter) wantAsk(when, want string) {
	r.t.Helper()
	if got := r.ask(); got != want {
		r.t.Errorf("%s: requests were answered by %q, want %q", when, got, want)
	}
}

// TestCaseB107PodsThatMayNotServe: a pod that isn't ready any more, or whose label is
// another, gets no request, though it answers its checks.
func TestCaseB107PodsThatMayNotServe(t *testing.T) {
	ws := newPodWorkers(t, "a", "b")
	a, b := ws[0], ws[1]
	c := newCluster(t)
	well := clusterPod{uid: "1", ip: a.ip, app: "vllm"}
	c.put("a", well)
	c.put("b", clusterPod{uid: "2", ip: b.ip, app: "vllm"})
	r := startPods(t, c, a.port)
	r.has("at first", a, b)
	r.wantAsk("at first", "a b")
	eventually(t, "a watch", c.watched)
	for _, tc := range []struct {
		name string
		pod  clusterPod
	}{
		{"not ready", clusterPod{uid: "1", ip: a.ip, app: "vllm", unready: true}},
		{"another label", clusterPod{uid: "1", ip: a.ip, app: "web"}},
	} {
		c.put("a", tc.pod)
		r.has(tc.name, b)
		r.wantAsk(tc.name, "b")
		c.put("a", well)
		r.has("as before", a, b)
		r.wantAsk("as before", "a b")
	}
}

// TestCaseB108DeletionNobodyTold: a pod that was deleted while the watch was down gets
// no request once it is back, though something answers checks at its address.
func TestCaseB108DeletionNobodyTold(t *testing.T) {
	ws := newPodWorkers(t, "a", "b", "c")
	c := newCluster(t)
	c.put("a", clusterPod{uid: "1", ip: ws[0].ip, app: "vllm"})
	c.put("b", clusterPod{uid: "2", ip: ws[1].ip, app: "vllm"})
	r := startPods(t, c, ws[0].port)
	r.has("at first", ws[0], ws[1])
	eventually(t, "a watch", c.watched)
	c.put("c", clusterPod{uid: "3", ip: ws[2].ip, app: "vllm"})
	r.has("by the watch", ws...)
	c.lose("a")
	r.has("after a new list", ws[1], ws[2])
	r.wantAsk("after a new list", "b c")
}

// TestCaseB109AddressesOfOthers: a pod that has no address any more is gone, and what
// gets the address gets no request until it is a worker itself.
func TestCaseB109AddressesOfOthers(t *testing.T) {
	ws := newPodWorkers(t, "a", "b")
	a, b := ws[0], ws[1]
	c := newCluster(t)
	c.put("a", clusterPod{uid: "1", ip: a.ip, app: "vllm"})
	c.put("b", clusterPod{uid: "2", ip: b.ip, app: "vllm"})
	r := startPods(t, c, a.port)
	r.has("at first", a, b)
	r.wantAsk("at first", "a b")
	eventually(t, "a watch", c.watched)
	c.put("a", clusterPod{uid: "1", app: "vllm"}) // evicted
	c.put("other", clusterPod{uid: "3", ip: a.ip, app: "web"})
	a.name.Store("other")
	before := a.asked.Load()
	r.has("without its address", b)
	r.wantAsk("without its address", "b")
	if n := a.asked.Load() - before; n > 0 {
		t.Errorf("what has the address got %d requests, want none", n)
	}
	c.change(func(pods map[string]clusterPod) {
		delete(pods, "other")
		pods["next"] = clusterPod{uid: "4", ip: a.ip, app: "vllm"}
	})
	a.name.Store("next")
	r.has("with the next pod", a, b)
	r.wantAsk("with the next pod", "b next")
}
