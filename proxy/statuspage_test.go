package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy/proxytest"
	"loadstar/proxy/statuspage"
)

// statusViewer is one who watches a router's status.
type statusViewer struct {
	t      *testing.T
	frames chan statuspage.Frame // closed when the stream has ended
	leave  context.CancelFunc
}

// watch begins to watch a router's status.
func (r *router) watch(t *testing.T) *statusViewer {
	t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+"/status/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("answer %d with %v, want 200 and a stream of events that isn't stored", resp.StatusCode, resp.Header)
	}
	v := &statusViewer{t, make(chan statuspage.Frame, 64), leave}
	go func() {
		defer close(v.frames)
		defer resp.Body.Close()
		for b := bufio.NewReader(resp.Body); ; {
			line, err := b.ReadString('\n')
			if err != nil {
				return
			}
			var f statuspage.Frame
			if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &f) == nil {
				v.frames <- f
			}
		}
	}()
	return v
}

// wait waits for a frame of which cond holds.
func (v *statusViewer) wait(what string, cond func(*statuspage.Frame) bool) statuspage.Frame {
	v.t.Helper()
	late := time.After(patience) // frames come once a second
	for {
		select {
		case f, ok := <-v.frames:
			if !ok {
				v.t.Fatalf("the stream ended before %s", what)
			}
			if cond(&f) {
				return f
			}
		case <-late:
			v.t.Fatalf("no frame with %s", what)
		}
	}
}

// ended waits until the stream has ended.
func (v *statusViewer) ended() {
	v.t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, ok := <-v.frames:
			if !ok {
				return
			}
		case <-late:
			v.t.Fatal("the stream has not ended")
		}
	}
}

// waitViewed waits until somebody watches, or nobody.
func (r *router) waitViewed(want bool) {
	r.t.Helper()
	r.wait(fmt.Sprintf("watched = %v", want), func(*actors.Snapshot) bool { return r.viewers.Watched() == want })
}

// TestStatusEvents: who watches is told what /workers tells, and what was decided
// and answered meanwhile; when the last has left, nobody is told anything.
func TestStatusEvents(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	r := startRouter(t, testOptions("cache_aware"), w)
	v := r.watch(t)
	v.wait("a healthy worker", func(f *statuspage.Frame) bool { return f.Usable == 1 && f.Members == 1 && f.State == "ready" })
	long := strings.Repeat("<b>&", 100)
	c := proxytest.Dial(t, r.addr)
	if err := c.Post(chatPath, chat(strings.Repeat("word ", 100), true), jsonType, proxytest.H("x-request-id", long)); err != nil {
		t.Fatal(err)
	}
	f := v.wait("a load of 1 and its decision", func(f *statuspage.Frame) bool { return loadIn(f) == 1 && len(f.Decisions) == 1 })
	var list struct{ Workers []json.RawMessage }
	if err := json.Unmarshal(r.call("GET", "/workers", "").Body, &list); err != nil {
		t.Fatal(err)
	}
	if got, want := string(f.Workers[0].Admin), string(list.Workers[0]); got != want {
		t.Errorf("the worker is\n%s, and in /workers\n%s", got, want)
	}
	if d := f.Decisions[0]; d.ID != long[:shownID] || d.Worker != w.URL() || d.Reason == "" || d.Blocks == 0 || d.Candidates != 1 || d.Path != chatPath {
		t.Errorf("decision %+v, want that of the request, its id cut at %d", d, shownID)
	}
	w.WaitInFlight(1, patience)
	w.Release()
	if _, err := c.ReadResponse(patience); err != nil {
		t.Fatal(err)
	}
	f = v.wait("a load of 0", func(f *statuspage.Frame) bool { return loadIn(f) == 0 })
	if facts := factsOf(&f); facts["granted"] != "1" || facts["returned"] != "1" || facts["refused"] != "0" {
		t.Errorf("figures %v, want 1 granted and returned", facts)
	}
	v.leave()
	r.waitViewed(false)
	r.wait("no request in flight", func(*actors.Snapshot) bool { return r.metrics.inFlight.Get() == 0 })
}

func loadIn(f *statuspage.Frame) int {
	load := 0
	for _, w := range f.Workers {
		var in struct{ Load int }
		if err := json.Unmarshal(w.Admin, &in); err != nil {
			return -1
		}
		load += in.Load
	}
	return load
}

func factsOf(f *statuspage.Frame) map[string]string {
	all := map[string]string{}
	for _, s := range f.Sections {
		for _, fact := range s.Facts {
			all[fact.Name] = fact.Value
		}
	}
	return all
}

// TestStatusFirstBytes: a frame has what was seen of answers in its second.
func TestStatusFirstBytes(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	r := startRouter(t, testOptions("round_robin"), w)
	v := r.watch(t)
	v.wait("the beginning", func(*statuspage.Frame) bool { return true })
	r.call("POST", chatPath, chat("hi", false))
	f := v.wait("an answer", func(f *statuspage.Frame) bool { return f.Workers[0].Answers > 0 })
	if s := f.Workers[0].Seen; s.Answers != 1 || s.Mean <= 0 || s.Worst < s.Mean {
		t.Errorf("seen %+v, want one answer and how long it took", s)
	}
}

// TestStatusOfManyWorkers: a frame is bounded, and leaves out those that are well.
func TestStatusOfManyWorkers(t *testing.T) {
	o := testOptions("round_robin")
	r := startRouter(t, o)
	const all = statuspage.MaxWorkers + 10
	specs := make([]actors.Spec, all)
	for i := range specs {
		base := fmt.Sprintf("http://10.0.%d.%d:1", i/256, i%256)
		specs[i] = actors.Spec{URL: base, Base: base, Rank: actors.NoRank, Handle: &backend{site: newSite(base)}}
	}
	reg := r.router.Registry
	if _, err := reg.Add(specs); err != nil {
		t.Fatal(err)
	}
	for _, s := range specs[:all-1] {
		for range 2 {
			reg.ReportHealth(s.Base, nil)
		}
	}
	var seen statuspage.Observed
	var f statuspage.Frame
	text := strings.TrimSpace(strings.TrimPrefix(string(r.statusFrame(&seen)), "data: "))
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Workers) != statuspage.MaxWorkers || f.Hidden != 10 || f.Members != all || f.Usable != all-1 || f.Workers[0].URL != specs[all-1].URL {
		t.Errorf("%d workers, the first %s, %d hidden, %d usable of %d; want %d, the first that which is sick, 10 hidden, %d of %d",
			len(f.Workers), f.Workers[0].URL, f.Hidden, f.Usable, f.Members, statuspage.MaxWorkers, all-1, all)
	}
	for _, s := range specs {
		if _, err := reg.Remove(s.URL); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStatusViewersEnd: watching ends with the router, and with its hand-over, and
// holds up neither.
func TestStatusViewersEnd(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	t.Run("shutdown", func(t *testing.T) {
		var v *statusViewer
		t.Run("router", func(inner *testing.T) { // whose end fails if it takes long
			v = startRouter(inner, testOptions("round_robin"), w).watch(t)
			v.wait("the beginning", func(*statuspage.Frame) bool { return true })
		})
		v.ended()
	})
	t.Run("hand-over", func(t *testing.T) {
		r := startRouter(t, testOptions("round_robin"), w)
		v := r.watch(t)
		v.wait("the beginning", func(*statuspage.Frame) bool { return true })
		r.HandOver()
		v.ended()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if r.AwaitQuiet(ctx, time.Millisecond); ctx.Err() != nil {
			t.Error("a viewer held up the hand-over")
		}
	})
}

// TestStatusIsBounded: viewers above the bound are told to come again, and a place
// is free when one has left.
func TestStatusIsBounded(t *testing.T) {
	r := startRouter(t, testOptions("round_robin"))
	var all []*statuspage.Viewer
	for range statuspage.MaxViewers {
		v, err := r.viewers.Join()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	got := r.call("GET", "/status/events", "")
	wantProblem(t, got, 503, "too_many_viewers")
	if got.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	all[0].Leave()
	r.watch(t).wait("the beginning", func(*statuspage.Frame) bool { return true })
}

// TestStatusWithoutStreams: HEAD begins no watching, and HTTP/1.0 gets one frame.
func TestStatusWithoutStreams(t *testing.T) {
	r := startRouter(t, testOptions("round_robin"))
	if got := r.call("HEAD", "/status/events", ""); got.Status != 200 || got.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d", got.Status)
	}
	if r.viewers.Watched() {
		t.Error("HEAD watches")
	}
	c := proxytest.Dial(t, r.addr)
	if err := c.Send("GET /status/events HTTP/1.0\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadResponse(patience)
	if err != nil || got.Status != 200 || strings.Count(string(got.Body), "data: ") != 1 {
		t.Errorf("HTTP/1.0: %v, %v, want one frame", got, err)
	}
	r.waitViewed(false)
	wantProblem(t, r.call("POST", "/status", "{}"), 405, "method_not_allowed")
	wantProblem(t, r.call("POST", "/status/events", "{}"), 405, "method_not_allowed")
}

// TestWhoSeesTheStatus: figures are for those who may call the admin API, and for
// the page; the page itself, which has none, also for those who have yet to type
// the key in.
func TestWhoSeesTheStatus(t *testing.T) {
	fetch := func(site, host string, more ...proxytest.Header) []proxytest.Header {
		return append([]proxytest.Header{proxytest.H("Sec-Fetch-Site", site), proxytest.H("Host", host)}, more...)
	}
	for _, tc := range []struct {
		name    string
		options func(*Options)
		headers []proxytest.Header
		page    int
		figures int
		reason  string
	}{
		{"no browser", nil, nil, 200, 200, ""},
		{"typed in", nil, fetch("none", "127.0.0.1:3"), 200, 200, ""},
		{"by the page", nil, fetch("same-origin", "127.0.0.1:3"), 200, 200, ""},
		{"by the page at localhost", nil, fetch("same-origin", "LocalHost"), 200, 200, ""},
		{"by the page at an address of IPv6", nil, fetch("same-origin", "[::1]:3"), 200, 200, ""},
		{"a name that was made to lead here", nil, fetch("same-origin", "evil.example:3"), 200, 403, "admin_not_for_browsers"},
		{"another name like it", nil, fetch("same-origin", "localhost.evil.example"), 200, 403, "admin_not_for_browsers"},
		{"a link on another page", nil, fetch("cross-site", "127.0.0.1:3"), 200, 403, "admin_not_for_browsers"},
		{"another port of this machine", nil, fetch("same-site", "127.0.0.1:3"), 200, 403, "admin_not_for_browsers"},
		{"another page's script", nil, fetch("same-origin", "127.0.0.1:3", proxytest.H("Origin", "https://evil.example")), 200, 403, "admin_not_for_browsers"},
		{"without the admin key", func(o *Options) { o.AdminKey = "ak" }, nil, 200, 401, "invalid_api_key"},
		{"with the admin key", func(o *Options) { o.AdminKey = "ak" }, fetch("same-origin", "router.example", bearerOf("ak")), 200, 200, ""},
		{"with the admin key, from elsewhere", func(o *Options) { o.AdminKey = "ak" }, fetch("cross-site", "router.example", bearerOf("ak")), 200, 403, "admin_not_for_browsers"},
		{"with a client's key", func(o *Options) { o.AdminKey, o.ClientKeys = "ak", keysOf(t, "ck") }, []proxytest.Header{bearerOf("ck")}, 200, 401, "invalid_api_key"},
		{"compatible, without a client's key", func(o *Options) { o.Compat, o.ClientKeys = true, keysOf(t, "ck") }, nil, 200, 401, ""},
		{"compatible, with one", func(o *Options) { o.Compat, o.ClientKeys = true, keysOf(t, "ck") }, []proxytest.Header{bearerOf("ck")}, 200, 200, ""},
		{"where admin calls have a listener", func(o *Options) { o.AdminListener = true }, nil, 404, 404, "not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			o := testOptions("round_robin")
			if tc.options != nil {
				tc.options(&o)
			}
			r := startRouter(t, o, w)
			page := r.call("GET", "/status", "", tc.headers...)
			if page.Status != tc.page || page.Status == 200 && (string(page.Body) != string(statuspage.Page) || page.Get("Content-Security-Policy") != statuspage.Policy || page.Get("X-Frame-Options") != "DENY") {
				t.Errorf("the page: %d with %v, want %d with its policy", page.Status, page.Headers, tc.page)
			}
			figures := r.call("HEAD", "/status/events", "", tc.headers...)
			if figures.Status != tc.figures {
				t.Fatalf("figures: %d, want %d", figures.Status, tc.figures)
			}
			if tc.reason != "" {
				wantProblem(t, r.call("GET", "/status/events", "", tc.headers...), tc.figures, tc.reason)
			}
			if n := w.Requests(); n != 0 {
				t.Errorf("the worker got %d requests, want 0", n)
			}
		})
	}
	r := startRouter(t, testOptions("round_robin"))
	for _, path := range []string{"/status", "/status/events"} {
		if got := r.remotely("GET", path); got.Status != 403 {
			t.Errorf("%s from another machine: %d, want 403", path, got.Status)
		}
	}
}

// TestStatusAtAdminListener: there the page is at / too, where a client's port has
// the workers'.
func TestStatusAtAdminListener(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.AdminListener = true
	r := startRouter(t, o, w)
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	go r.ServeAdmin(ln, nil) // ends with the router
	for _, path := range []string{"/", "/?x=y", "/status"} {
		if got := proxytest.Do(t, ln.Addr().String(), proxytest.Request{Target: path}); got.Status != 200 || string(got.Body) != string(statuspage.Page) {
			t.Errorf("%s at the admin listener: %d %.60q, want the page", path, got.Status, got.Body)
		}
	}
	wantAnswer(t, r.call("GET", "/", ""), 200, "{}")
	if n := w.Requests("/"); n != 1 {
		t.Errorf("the worker got %d requests, want the client's", n)
	}
}
