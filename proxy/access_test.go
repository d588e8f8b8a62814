package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery/zmq"
	"loadstar/actors/workerurl"
	"loadstar/proxy/keyring"
	"loadstar/proxy/proxytest"

	"github.com/valyala/fasthttp"
)

// keysOf is a ring of keys, each as a file of keys has it.
func keysOf(t testing.TB, lines ...string) *keyring.Ring {
	t.Helper()
	keys, err := keyring.ParseFile([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := keyring.NewSet(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return keyring.NewRing(s)
}

func bearerOf(key string) proxytest.Header { return proxytest.H("Authorization", "Bearer "+key) }

// wantUnauthorized wants the refusal of a key.
func wantUnauthorized(t testing.TB, got *proxytest.Response) {
	t.Helper()
	wantProblem(t, got, 401, "invalid_api_key")
	if v := got.Get("WWW-Authenticate"); v != "Bearer" {
		t.Errorf("WWW-Authenticate %q, want Bearer", v)
	}
}

// remotely makes one request as a client on another machine would.
func (r *router) remotely(method, target string, headers ...proxytest.Header) *proxytest.Response {
	r.t.Helper()
	ln := &oneConn{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	near, far := net.Pipe()
	ln.conn <- fromAfar{far}
	s := &fasthttp.Server{Handler: r.Handle, NoDefaultServerHeader: true, NoDefaultContentType: true, NoDefaultDate: true, DisableHeaderNamesNormalizing: true, StreamRequestBody: true}
	go s.Serve(ln)
	defer ln.Close()
	defer near.Close()
	_ = near.SetDeadline(time.Now().Add(patience))
	head := proxytest.Request{Method: method, Target: target, Headers: append(headers, proxytest.H("Connection", "close"))}.Head("x")
	if _, err := io.WriteString(near, head); err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(near)
	if err != nil {
		r.t.Fatal(err)
	}
	var status int
	if _, err := fmt.Sscanf(string(text), "HTTP/1.1 %d", &status); err != nil {
		r.t.Fatalf("answer %q: %v", text, err)
	}
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return &proxytest.Response{Status: status, Body: []byte(body)}
}

// fromAfar is a connection whose client is on another machine.
type fromAfar struct{ net.Conn }

func (fromAfar) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711} }

// oneConn is a listener that gives out one connection.
type oneConn struct {
	conn chan net.Conn
	over chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.over); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestClientKeys: what reaches a worker, or tells of it, takes a key that is
// known; probes take none. Neither the key nor its header reaches the worker.
func TestClientKeys(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.ClientKeys, o.AccessLog = keysOf(t, "team-a:k-9-x", "other"), true
	r := startRouter(t, o, w)
	for _, path := range []string{
		chatPath, "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/responses/r1", "/unknown", "/", "/workers/", "//workers",
		"/v1/models", "/scheduling/diagnostics", "/V1/Chat/Completions", "/health/", "/metrics/x", "/liveness%20",
	} {
		for _, tc := range []struct {
			name    string
			headers []proxytest.Header
		}{
			{"none", nil},
			{"empty", []proxytest.Header{proxytest.H("Authorization", "")}},
			{"no key", []proxytest.Header{proxytest.H("Authorization", "Bearer")}},
			{"wrong", []proxytest.Header{bearerOf("wrong")}},
			{"the name", []proxytest.Header{bearerOf("team-a")}},
			{"name and key", []proxytest.Header{bearerOf("team-a:k-9-x")}},
			{"the beginning of one", []proxytest.Header{bearerOf("k")}},
			{"one and more", []proxytest.Header{bearerOf("k-9-x2")}},
			{"two in one", []proxytest.Header{bearerOf("k-9-x, other")}},
			{"another scheme", []proxytest.Header{proxytest.H("Authorization", "Basic k-9-x")}},
			{"no scheme", []proxytest.Header{proxytest.H("Authorization", "k-9-x")}},
			{"in another header", []proxytest.Header{proxytest.H("Proxy-Authorization", "Bearer k-9-x"), proxytest.H("api-key", "k-9-x"), proxytest.H("x-api-key", "wrong")}},
		} {
			t.Run(path+" with "+tc.name, func(t *testing.T) {
				wantUnauthorized(t, r.call("POST", path, "", tc.headers...))
				wantUnauthorized(t, r.call("GET", path+"?api_key=k-9-x", "", tc.headers...))
			})
		}
	}
	wantUnauthorized(t, r.call("POST", chatPath, "{}", proxytest.H("x-api-key", "k-9-x"))) // not of this API
	if n := w.Requests(); n != 0 {
		t.Fatalf("the worker got %d requests, want 0", n)
	}
	for _, path := range []string{"/liveness", "/readiness", "/health", "/metrics"} {
		if got := r.call("GET", path, ""); got.Status != 200 {
			t.Errorf("%s without a key: status %d, want 200", path, got.Status)
		}
	}
	for _, tc := range []struct {
		path    string
		headers []proxytest.Header
	}{
		{chatPath, []proxytest.Header{bearerOf("k-9-x")}},
		{chatPath, []proxytest.Header{proxytest.H("authorization", "bEARER   other")}},
		{chatPath, []proxytest.Header{bearerOf("k-9-x"), proxytest.H("X-Api-Key", "k-9-x")}},
		{"/v1/messages", []proxytest.Header{proxytest.H("X-API-Key", "k-9-x"), proxytest.H("anthropic-version", "2023-06-01")}},
		{"/v1/messages/count_tokens", []proxytest.Header{proxytest.H("x-api-key", "other"), bearerOf("stale")}},
		{"/unknown?a=b", []proxytest.Header{bearerOf("k-9-x")}},
		{"/v1/models", []proxytest.Header{bearerOf("k-9-x")}},
	} {
		before := w.Requests()
		method := "POST"
		if tc.path == "/v1/models" {
			method = "GET"
		}
		wantAnswer(t, r.call(method, tc.path, "", tc.headers...), 200, "{}")
		seen := w.Seen()
		if len(seen) != before+1 {
			t.Fatalf("%s: the worker saw %d requests, want 1", tc.path, len(seen)-before)
		}
		wantValues(t, seen[before], "Authorization")
		wantValues(t, seen[before], "X-Api-Key")
	}
	if log := r.logs.String(); !strings.Contains(log, "tenant=team-a") || strings.Contains(log, "k-9-x") {
		t.Errorf("the log does not name the tenant, or has a key:\n%s", log)
	}
}

// TestClientKeysAndWorkerKey is TestCaseB130: workers get the workers' key in place
// of the client's, which without a check travels on.
func TestClientKeysAndWorkerKey(t *testing.T) {
	for _, tc := range []struct {
		name      string
		keys      *keyring.Ring
		workerKey string
		want      []string
	}{
		{"checked, replaced", keysOf(t, "ck"), "wk", []string{"Bearer wk"}},
		{"checked", keysOf(t, "ck"), "", nil},
		{"replaced", nil, "wk", []string{"Bearer wk"}},
		{"neither", nil, "", []string{"Bearer ck"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, second := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			o := testOptions("round_robin")
			o.ClientKeys, o.WorkerKey, o.AdminKey = tc.keys, tc.workerKey, "ak"
			r := startRouter(t, o, w, second)
			for range 2 {
				wantAnswer(t, r.call("POST", chatPath, "{}", bearerOf("ck")), 200, "{}")
			}
			r.call("GET", "/v1/models", "", bearerOf("ck"))
			wantAnswer(t, r.call("POST", "/flush_cache", "", bearerOf("ak")), 200, "Cache flushed on all servers")
			for _, x := range append(w.Seen(), second.Seen()...) {
				want := tc.want
				if x.Path() == "/flush_cache" && tc.workerKey == "" {
					want = nil // the admin key is the router's
				}
				wantValues(t, x, "Authorization", want...)
			}
			if w.Requests("/flush_cache") != 1 || w.Requests("/v1/models") != 1 {
				t.Errorf("the worker was not asked everything")
			}
		})
	}
}

// TestKeysReplaced: a key that is taken away ends with it, on connections that are
// open too, and requests that run go on.
func TestKeysReplaced(t *testing.T) {
	w := proxytest.NewWorker(t, either)
	o := testOptions("round_robin")
	o.ClientKeys = keysOf(t, "old")
	r := startRouter(t, o, w)
	c := proxytest.Dial(t, r.addr)
	for range 20 { // several of the pooled exchanges know the old set
		wantUnauthorized(t, r.call("POST", chatPath, "{}", bearerOf("new")))
	}
	running := proxytest.Dial(t, r.addr)
	if err := running.Post(chatPath, chat("hi", true), jsonType, bearerOf("old")); err != nil {
		t.Fatal(err)
	}
	w.WaitInFlight(1, patience)
	s, err := keyring.NewSet(keyring.KeyOf("new"))
	if err != nil {
		t.Fatal(err)
	}
	o.ClientKeys.Replace(s)
	for range 20 {
		if err := c.Post(chatPath, "{}", bearerOf("old")); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatal(err)
		}
		wantUnauthorized(t, got)
	}
	w.Release()
	if got, err := running.ReadResponse(patience); err != nil || got.Status != 200 {
		t.Errorf("the request that ran: %v, %v", got, err)
	}
	w.SetScript(proxytest.JSON(200, "{}"))
	wantAnswer(t, r.call("POST", chatPath, "{}", bearerOf("new")), 200, "{}")
}

// TestCaseB78And133UnauthorizedBodies: the body of a request without a key is not
// asked for, is not taken for a request, and does not cut the refusal off.
func TestCaseB78And133UnauthorizedBodies(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.ClientKeys, o.AdminKey = keysOf(t, "ck"), "ak"
	r := startRouter(t, o, w)
	post := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
	}
	const smuggled = "GET /smuggled HTTP/1.1\r\nAuthorization: Bearer ck\r\nHost: x\r\n\r\n"
	for _, tc := range []struct{ name, raw string }{
		{"expects", post(chatPath) + "Expect: 100-continue\r\nContent-Length: 5000000\r\n\r\n"},
		{"expects, admin", post("/workers") + "Expect: 100-continue\r\nContent-Length: 50\r\n\r\n"},
		{"small", post(chatPath) + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled},
		{"small, admin", post("/workers") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled},
		{"chunked", post(chatPath) + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(smuggled)) + smuggled + "\r\n0\r\n\r\n"},
		{"large", post(chatPath) + "Content-Length: 16000000\r\n\r\n" + strings.Repeat("x", 16_000_000)},
		{"large, chunked", post(chatPath) + "Transfer-Encoding: chunked\r\n\r\nf42400\r\n" + strings.Repeat("x", 16_000_000) + "\r\n0\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := proxytest.Dial(t, r.addr)
			if err := c.Send(tc.raw); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadResponse(patience)
			if err != nil {
				t.Fatal(err)
			}
			wantUnauthorized(t, got)
			if len(got.Interim) != 0 {
				t.Errorf("the client was told to go on: %q", got.Interim[0].StatusLine)
			}
		})
	}
	// With the right key of either kind the client is told to go on.
	for path, key := range map[string]string{chatPath: "ck", "/workers": "ak"} {
		c := proxytest.Dial(t, r.addr)
		if err := c.Send("POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.ReadResponse(patience); err != nil || len(got.Interim) != 1 || got.Status == 401 {
			t.Errorf("%s: answer %v, %v, want one behind a 100", path, got, err)
		}
	}
	if n := w.Requests(); n != 1 {
		t.Errorf("the worker got %d requests, want the one with the key", n)
	}
	wantKeysRefused(t, r, 0, 5, 0, 2)
}

// wantKeysRefused wants so many requests counted that were refused for want of a
// client's key, because theirs is not known, and likewise for the admin API.
func wantKeysRefused(t *testing.T, r *router, clientNone, clientUnknown, adminNone, adminUnknown float64) {
	t.Helper()
	m := r.scrape()
	for series, want := range map[string]float64{
		`{api="client",key="none"}`: clientNone, `{api="client",key="unknown"}`: clientUnknown,
		`{api="admin",key="none"}`: adminNone, `{api="admin",key="unknown"}`: adminUnknown,
	} {
		if got, ok := m["loadstar_keys_refused_total"+series]; !ok || got != want {
			t.Errorf("loadstar_keys_refused_total%s is %v, %v; want %v", series, got, ok, want)
		}
	}
}

// TestKeysRefusedAreCounted: those that are missing apart from those that may be
// guesses. What takes no key, and who has one, isn't counted.
func TestKeysRefusedAreCounted(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.ClientKeys, o.AdminKey = keysOf(t, "ck"), "ak"
	r := startRouter(t, o, w)
	wantKeysRefused(t, r, 0, 0, 0, 0)
	for _, tc := range []struct {
		path    string
		headers []proxytest.Header
		status  int
	}{
		{"/v1/x", nil, 401},
		{"/v1/x", []proxytest.Header{proxytest.H("Authorization", "Basic ck")}, 401},
		{"/v1/x", []proxytest.Header{bearerOf("ak")}, 401},
		{"/v1/messages", []proxytest.Header{proxytest.H("x-api-key", "guess")}, 401},
		{"/v1/x", []proxytest.Header{bearerOf("ck")}, 200},
		{"/v1/models", []proxytest.Header{bearerOf("guess")}, 401},
		{"/workers", nil, 401},
		{"/workers", []proxytest.Header{bearerOf("ck")}, 401},
		{"/get_loads", []proxytest.Header{bearerOf("guess")}, 401},
		{"/workers", []proxytest.Header{bearerOf("ak")}, 200},
		{"/health", []proxytest.Header{bearerOf("guess")}, 200},
		{"/metrics", []proxytest.Header{bearerOf("guess")}, 200},
	} {
		if got := r.call("GET", tc.path, "", tc.headers...); got.Status != tc.status {
			t.Errorf("%s with %v: status %d, want %d", tc.path, tc.headers, got.Status, tc.status)
		}
	}
	wantKeysRefused(t, r, 2, 3, 1, 2)
}

// adminCalls are one call to each of the admin API's paths.
func adminCalls(w *proxytest.Worker) []proxytest.Request {
	q := url.QueryEscape(w.URL())
	return []proxytest.Request{
		{Method: "GET", Target: "/workers"},
		{Method: "POST", Target: "/workers"},
		{Method: "GET", Target: "/workers/" + url.PathEscape(w.URL())},
		{Method: "DELETE", Target: "/workers/x"},
		{Method: "GET", Target: "/list_workers"},
		{Method: "POST", Target: "/add_worker?url=" + q},
		{Method: "POST", Target: "/remove_worker?url=x"},
		{Method: "POST", Target: "/flush_cache"},
		{Method: "POST", Target: "/v1/load_lora_adapter"},
		{Method: "POST", Target: "/v1/unload_lora_adapter"},
		{Method: "GET", Target: "/get_loads"},
		{Method: "HEAD", Target: "/get_loads"},
		{Method: "POST", Target: "/finish_session?session_id=s"},
	}
}

// TestCaseB128WhoMayAdminister: who may call the admin API, and from where.
func TestCaseB128WhoMayAdminister(t *testing.T) {
	for _, tc := range []struct {
		name           string
		change         func(*Options)
		header         []proxytest.Header
		nearby, remote int // status of what is refused; 0 for what isn't
	}{
		{"by default", func(*Options) {}, nil, 0, 403},
		{"by default, with any key", func(*Options) {}, []proxytest.Header{bearerOf("ak")}, 0, 403},
		{"with the key", func(o *Options) { o.AdminKey = "ak" }, []proxytest.Header{bearerOf("ak")}, 0, 0},
		{"without the key", func(o *Options) { o.AdminKey = "ak" }, nil, 401, 401},
		{"with a wrong key", func(o *Options) { o.AdminKey = "ak" }, []proxytest.Header{bearerOf("ak2")}, 401, 401},
		{"with the key in x-api-key", func(o *Options) { o.AdminKey = "ak" }, []proxytest.Header{proxytest.H("x-api-key", "ak")}, 401, 401},
		{"with a client's key", func(o *Options) { o.AdminKey, o.ClientKeys = "ak", keysOf(t, "ck") }, []proxytest.Header{bearerOf("ck")}, 401, 401},
		{"with a client's key, without an admin key", func(o *Options) { o.ClientKeys = keysOf(t, "ck") }, []proxytest.Header{bearerOf("ck")}, 0, 403},
		{"compatible", func(o *Options) { o.Compat = true }, nil, 0, 0},
		{"compatible, without the key", func(o *Options) { o.Compat, o.AdminKey = true, "ak" }, nil, 401, 401},
		{"compatible, without a client's key", func(o *Options) { o.Compat, o.ClientKeys = true, keysOf(t, "ck") }, nil, 401, 401},
		{"compatible, with a client's key", func(o *Options) { o.Compat, o.ClientKeys = true, keysOf(t, "ck") }, []proxytest.Header{bearerOf("ck")}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			o := testOptions("round_robin")
			tc.change(&o)
			r := startRouter(t, o, w)
			for _, call := range adminCalls(w) {
				check := func(where string, got *proxytest.Response, want int) {
					t.Helper()
					if refused := got.Status == 401 || got.Status == 403; refused != (want != 0) || refused && got.Status != want {
						t.Errorf("%s %s from %s: status %d %s, want it refused by %d (0 is not refused)", call.Method, call.Target, where, got.Status, got.Body, want)
					}
				}
				check("here", r.call(call.Method, call.Target, "", tc.header...), tc.nearby)
				check("elsewhere", r.remotely(call.Method, call.Target, tc.header...), tc.remote)
			}
			if n := len(r.snapshot().Workers); n != 1 {
				t.Errorf("%d workers, want 1", n)
			}
		})
	}
}

// TestAdminListener: with a listener of its own the admin API is nowhere else, and
// nothing else is there.
func TestAdminListener(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	o := testOptions("round_robin")
	o.AdminListener, o.ClientKeys = true, keysOf(t, "ck")
	r := startRouter(t, o, w)
	ln, err := Listen("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	go r.ServeAdmin(ln, nil) // ends with the router
	admin := ln.Addr().String()
	for _, call := range adminCalls(w) {
		got := r.call(call.Method, call.Target, "")
		if call.Method == "HEAD" {
			if got.Status != 404 {
				t.Errorf("HEAD %s: status %d, want 404", call.Target, got.Status)
			}
			continue
		}
		wantProblem(t, got, 404, "not_found")
		if got := proxytest.Do(t, admin, call); got.Status == 401 || got.Status == 403 || got.Status == 404 && strings.Contains(string(got.Body), "not_found") {
			t.Errorf("%s %s on the admin listener: %d %s", call.Method, call.Target, got.Status, got.Body)
		}
	}
	for _, path := range []string{"/liveness", "/readiness", "/health", "/metrics"} {
		for _, addr := range []string{r.addr, admin} {
			if got := proxytest.Do(t, addr, proxytest.Request{Target: path}); got.Status != 200 {
				t.Errorf("%s: status %d, want 200", path, got.Status)
			}
		}
	}
	for _, path := range []string{chatPath, "/unknown", "/v1/models", "/scheduling/diagnostics", "//workers"} {
		wantProblem(t, proxytest.Do(t, admin, proxytest.Request{Target: path, Headers: []proxytest.Header{bearerOf("ck")}}), 404, "not_found")
	}
	if n := w.Requests(chatPath) + w.Requests("/unknown") + w.Requests("/v1/models") + w.Requests("/workers"); n != 0 {
		t.Errorf("the worker got %d requests, want 0", n)
	}
}

// TestCaseB129AllowedHosts: a worker is added where its host is allowed, however
// its URL is spelled, and a redirect of one leads nowhere.
func TestCaseB129AllowedHosts(t *testing.T) {
	elsewhere := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	w.SetHealth(func(x *proxytest.Exchange) {
		x.Reply(302, "", proxytest.H("Location", elsewhere.URL()+"/stolen"))
	})
	o := testOptions("round_robin")
	o.WorkerKey, o.StartupTimeout = "wk", 100*time.Millisecond
	var err error
	if o.WorkerHosts, err = workerurl.ParseHosts([]string{"127.0.0.0/24", "*.example.com"}); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, o)
	_, port, _ := net.SplitHostPort(hostOf(t, w.URL()))
	for _, bad := range []string{
		"http://127.0.1.1:" + port, "http://localhost:" + port, "http://2130706433:" + port, "http://0x7f.0.0.1:" + port, "http://127.1:" + port,
		"http://[::1]:" + port, "http://169.254.169.254", "http://example.com", "http://evil-example.com", "http://example.com.evil.net",
		"http://a.example.com.:80",
	} {
		got := r.call("POST", "/add_worker?url="+url.QueryEscape(bad), "")
		wantProblem(t, got, 403, "add_worker_failed")
		if !strings.Contains(string(got.Body), "--allowed-worker-hosts") {
			t.Errorf("%s: answer %s, want it to name the flag", bad, got.Body)
		}
		got = r.call("POST", "/workers", fmt.Sprintf(`{"url":%q}`, bad))
		if got.Status != 403 || !strings.Contains(string(got.Body), "ADD_WORKER_FAILED") {
			t.Errorf("%s: answer %d %s, want 403 and ADD_WORKER_FAILED", bad, got.Status, got.Body)
		}
		if err := r.AddWorkers([]WorkerSpec{{URL: w.URL()}, {URL: bad}}); err == nil {
			t.Errorf("%s among others is added", bad)
		}
	}
	if v := r.snapshot(); len(v.Workers) != 0 {
		t.Errorf("workers %s, want none", describe(&v))
	}
	for _, good := range []string{"http://[::ffff:127.0.0.1]:" + port, "http://A.Example.com:1", w.URL()} {
		if got := r.call("POST", "/add_worker?wait=false&url="+url.QueryEscape(good), ""); got.Status != 202 {
			t.Errorf("%s: answer %d %s, want 202", good, got.Status, got.Body)
		}
	}
	r.wait("a check that meets the redirect", func(v *actors.Snapshot) bool {
		for i := range v.Workers {
			if v.Workers[i].URL == w.URL() && strings.Contains(v.Workers[i].Reason, "status 302") {
				return true
			}
		}
		return false
	})
	if n := len(elsewhere.Seen()); n != 0 {
		t.Errorf("the redirect's target got %d requests, want 0", n)
	}
}

// TestAllowedHostsOfRegistrants: a worker that registers is taken where its host is
// allowed, and one that names a rank is judged by its host.
func TestAllowedHostsOfRegistrants(t *testing.T) {
	o := pdOptions("round_robin")
	var err error
	if o.WorkerHosts, err = workerurl.ParseHosts([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, o)
	f := &registered{p: r.Proxy, at: make(map[string]*registrant)}
	for addr, want := range map[string]error{"127.0.0.1:1": nil, "127.0.0.2:1": errHost, "evil.example:1": errHost} {
		err := f.Register(zmq.Registration{Role: actors.Prefill, HTTPAddress: addr, ZMQAddress: "x:1", TPSize: 1, DPSize: 1})
		if !errors.Is(err, want) {
			t.Errorf("registration of %s: %v, want %v", addr, err, want)
		}
	}
	if _, err := r.AddWorker(WorkerSpec{URL: "http://127.0.0.2:1@127"}); !errors.Is(err, errHost) {
		t.Errorf("a rank elsewhere: %v, want %v", err, errHost)
	}
	if v := r.snapshot(); len(v.Workers) != 1 {
		t.Errorf("workers %s, want one", describe(&v))
	}
}
