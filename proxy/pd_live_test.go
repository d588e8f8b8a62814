package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"

	"github.com/go-zeromq/zmq4"
	"github.com/tinylib/msgp/msgp"
)

// livePatience is how long the tests of two phases wait for what is due at once:
// several requests long, on a machine that does other things too.
const livePatience = patience

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(livePatience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still waiting for %s", livePatience, what)
		}
	}
}

// wantClosed waits until the router has closed the connection of a request.
func wantClosed(t testing.TB, what string, x *proxytest.Exchange) {
	t.Helper()
	select {
	case <-x.PeerClosed():
	case <-time.After(livePatience):
		t.Fatalf("the connection of %s is still open", what)
	}
}

// wantNoMore fails the test if a worker sees more than n generations within a
// moment.
func wantNoMore(t testing.TB, w *proxytest.Worker, n int) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	if got := len(generations(w)); got != n {
		t.Errorf("%s has seen %d requests, want %d", w.URL(), got, n)
	}
}

// nthGeneration waits for the n-th generation, from 0, that a worker sees.
func nthGeneration(t testing.TB, w *proxytest.Worker, n int) *proxytest.Exchange {
	t.Helper()
	eventually(t, fmt.Sprintf("request %d at %s", n, w.URL()), func() bool { return len(generations(w)) > n })
	return generations(w)[n]
}

// finish reads the answer to its end.
func finish(t testing.TB, c *proxytest.Client) *proxytest.Response {
	t.Helper()
	got, err := c.ReadResponse(livePatience)
	if err != nil {
		t.Fatalf("answer %+v, %v", got, err)
	}
	return got
}

// waitMembers waits until there are n workers in a role, each of them healthy.
func (r *router) waitMembers(role actors.Role, n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d healthy workers for %s", n, role), func() bool {
		h := r.router.Health(r.now())
		return h.Members[role] == n && h.Usable[role] == n
	})
}

// waitUnusable waits until no worker in a role can be used, though it has some.
func (r *router) waitUnusable(role actors.Role) {
	r.t.Helper()
	eventually(r.t, "no usable worker for "+role.String(), func() bool {
		h := r.router.Health(r.now())
		return h.Members[role] > 0 && h.Usable[role] == 0
	})
}

// enrollPair makes members of a prefill and a decode worker.
func (r *router) enrollPair(p, d WorkerSpec) {
	r.t.Helper()
	p.Roles, d.Roles = actors.RolesOf(actors.Prefill), actors.RolesOf(actors.Decode)
	if err := r.AddWorkers([]WorkerSpec{p, d}); err != nil {
		r.t.Fatal(err)
	}
}

// kvOf is the transfer parameters of a request, null if it has none.
func kvOf(t testing.TB, x *proxytest.Exchange) map[string]any {
	t.Helper()
	var q struct {
		KV map[string]any `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(x.Body(), &q); err != nil {
		t.Fatalf("the request's body %.300q: %v", x.Body(), err)
	}
	return q.KV
}

// wantKV fails the test unless the transfer parameters have these fields; null in
// want is a field that is null, and a missing one any.
func wantKV(t testing.TB, what string, got map[string]any, want string) {
	t.Helper()
	var w map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	for name, value := range w {
		if g, there := got[name]; !there || !reflect.DeepEqual(g, value) {
			t.Errorf("%s: transfer parameters %v, want %s: %v", what, got, name, value)
		}
	}
}

// missingHandoffs is how many are counted.
func (r *router) missingHandoffs() float64 {
	const name = "loadstar_pd_kv_handoff_missing_total"
	r.t.Helper()
	var b bytes.Buffer
	r.metrics.write(&b)
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				r.t.Fatalf("metric %q: %v", line, err)
			}
			return v
		}
	}
	return 0
}

// enginesText is /metrics of a server with n engines.
func enginesText(n int) string {
	var b strings.Builder
	b.WriteString("# HELP vllm:num_requests_running Number of requests.\n")
	for i := range n {
		fmt.Fprintf(&b, "vllm:num_requests_running{engine=\"%d\",model_name=\"m\"} 0.0\n", i)
		fmt.Fprintf(&b, "vllm:kv_cache_usage_perc{engine=\"%d\",model_name=\"m\"} 0.0\n", i)
	}
	b.WriteString("other_metric{engine=\"99\"} 1\n")
	return b.String()
}

// withEngines has script serve generations and /metrics tell of n engines.
func withEngines(n int, script proxytest.Script) proxytest.Script {
	return func(x *proxytest.Exchange) {
		if x.Path() == "/metrics" {
			x.Reply(200, enginesText(n), proxytest.H("Content-Type", "text/plain"))
			return
		}
		script(x)
	}
}

// newBootstrap starts a Mooncake bootstrap server, which is a worker that answers
// /query alone.
func newBootstrap(t testing.TB, answer string) *proxytest.Worker {
	t.Helper()
	return proxytest.NewWorker(t, bootstrapAnswer(200, answer))
}

func bootstrapAnswer(status int, answer string) proxytest.Script {
	return func(x *proxytest.Exchange) {
		if x.Method != "GET" || x.Path() != "/query" {
			x.Reply(404, "")
			return
		}
		x.Reply(status, answer, jsonType)
	}
}

func portOf(t testing.TB, w *proxytest.Worker) int {
	t.Helper()
	port := 0
	if _, err := fmt.Sscanf(w.Addr(), "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// dealer is the engine's side of discovery: another implementation of ZMQ.
type dealer struct {
	t testing.TB
	s zmq4.Socket
}

// startDiscovery has a router take registrations, and returns who makes them.
func (r *router) startDiscovery() *dealer {
	r.t.Helper()
	if err := r.Discover("127.0.0.1:0"); err != nil {
		r.t.Fatal(err)
	}
	return r.newDealer()
}

func (r *router) newDealer() *dealer {
	r.t.Helper()
	// A test's context ends before its cleanups, one of which stops keep.
	s := zmq4.NewDealer(context.WithoutCancel(r.t.Context()))
	if err := s.Dial("tcp://" + r.discovery.Addr().String()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	return &dealer{r.t, s}
}

// registration is the fields of a ping.
func registration(role string, w *proxytest.Worker, zmqAddr string, more ...any) map[string]any {
	m := map[string]any{"type": role, "http_address": w.Addr(), "zmq_address": zmqAddr}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

// ping registers workers, or renews what was registered.
func (d *dealer) ping(registrations ...map[string]any) {
	d.t.Helper()
	for _, m := range registrations {
		b, err := msgp.AppendIntf(nil, m)
		if err == nil {
			err = d.s.Send(zmq4.NewMsg(b))
		}
		if err != nil {
			d.t.Errorf("ping %v: %v", m, err)
		}
	}
}

// keep pings until stop is called, which waits for the last one.
func (d *dealer) keep(registrations ...map[string]any) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			d.ping(registrations...)
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			close(over)
			<-done
		}
	}
	d.t.Cleanup(stop)
	return stop
}

// memberText is one member of a JSON object as it is written: the space before
// its name, the name, the colon with its space, and the value.
type memberText struct{ name, text string }

// membersText takes a JSON object apart by counting quotes and brackets.
func membersText(t testing.TB, object []byte) []memberText {
	t.Helper()
	var all []memberText
	depth, quoted, from := 0, false, 0
	add := func(text []byte) {
		text = bytes.TrimRight(text, " \t\r\n")
		var name string
		end := bytes.IndexByte(text, ':')
		if end < 0 || json.Unmarshal(bytes.TrimSpace(text[:end]), &name) != nil {
			t.Fatalf("%q is no member of %q", text, object)
		}
		all = append(all, memberText{name, string(text)})
	}
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				from = i + 1
			}
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				add(object[from:i])
			}
		case c == ',' && depth == 1:
			add(object[from:i])
			from = i + 1
		}
	}
	return all
}

// wantUntouched fails the test unless the members of got are those of client, in
// order and byte for byte but for the values of those called touched, without
// those called gone, and with new ones behind them.
func wantUntouched(t testing.TB, what string, got, client []byte, touched, gone []string) {
	t.Helper()
	g := membersText(t, got)
	var want []memberText
	for _, m := range membersText(t, client) {
		if !slices.Contains(gone, m.name) {
			want = append(want, m)
		}
	}
	if len(g) < len(want) {
		t.Fatalf("%s has %d members, want at least %d: %s", what, len(g), len(want), got)
	}
	for i, w := range want {
		switch {
		case g[i].name != w.name:
			t.Fatalf("%s: member %d is %q, want %q", what, i, g[i].name, w.name)
		case slices.Contains(touched, w.name):
			if upTo := strings.IndexByte(w.text, ':') + 1; !strings.HasPrefix(g[i].text, w.text[:upTo]) {
				t.Errorf("%s: the name of %q is written %q, want %q", what, w.name, g[i].text, w.text[:upTo])
			}
		case g[i].text != w.text:
			t.Errorf("%s: %q, want %q", what, g[i].text, w.text)
		}
	}
	for _, m := range g[len(want):] {
		if !slices.Contains(touched, m.name) {
			t.Errorf("%s has a member %q that nobody asked for", what, m.name)
		}
	}
}

// jsonValueOf is the value of b with numbers as they are written.
func jsonValueOf(t testing.TB, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.300q is not JSON: %v", b, err)
	}
	return v
}

func wantSameJSON(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !reflect.DeepEqual(jsonValueOf(t, got), jsonValueOf(t, want)) {
		t.Errorf("%s\n%s\nwant\n%s", what, got, want)
	}
}
