package proxy

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

// climbing are paths that may leave a prefix, and staying those that can't.
var (
	climbing = []string{
		"/..", "/../x", "/a/..", "/a/../b", "/a/../../b", "//..", "//../x", "/a//../..//b", "/./../x",
		"/%2e%2e/x", "/%2E%2e", "/.%2e/x", "/%2e./x", "/a%2f..%2fb", "/a%2F%2e%2e", "/..%2fx", "/..%5cx",
		"/..\\x", "/a\\..\\b", "\\..", "/a\\%2e%2e", "/..;/x", "/..;a=b/x", "/..%3bx", "/..%3fx", "/..#x", "/..%00/x",
		"/%252e%252e/x", "/%25252e.", "/%%32e%%32%65/x", "/a%252f..", "/a%255c../b",
	}
	staying = []string{
		"/", "/x", "/a.b", "/...", "/..a", "/a..", "/a..b/c", "/a/.../b", "/.", "/./x", "//x", "/a;../b", "/a%2fb", "/%2e", "/%2e/x", "/.%2e.",
		"/v1/models/org%2Fname", "/%", "/%2", "/%zz..", "/..%", "/..%2", "/..%zz", "/a%00b", "/%c0%ae%c0%ae/x", "/.. /x", "/ ../x", "/a=../b", "/x:..",
	}
)

func TestClimbs(t *testing.T) {
	for _, p := range climbing {
		if !climbs([]byte(p)) {
			t.Errorf("%q stays, want it to climb", p)
		}
	}
	for _, p := range staying {
		if climbs([]byte(p)) {
			t.Errorf("%q climbs, want it to stay", p)
		}
	}
}

// TestPathsStayBelowThePrefix: no request leaves the prefix of a worker's URL. What
// may be read as ".." reaches no worker, and is refused on an own path's account
// nowhere; queries are not paths.
func TestPathsStayBelowThePrefix(t *testing.T) {
	w := proxytest.NewWorker(t, proxytest.JSON(200, `{}`))
	o := once()
	o.ClientKeys = keysOf(t, "key")
	r := startRouter(t, o)
	if _, err := r.AddWorker(WorkerSpec{URL: w.URL() + "/tenant"}); err != nil {
		t.Fatal(err)
	}
	r.waitHealthy(1)
	asked := func() (targets []string) {
		for _, s := range w.Seen() {
			if s.Target != "/tenant/health" { // which is checked all the time
				targets = append(targets, s.Target)
			}
		}
		return targets
	}
	send := func(method, target, body string, headers ...proxytest.Header) *proxytest.Response {
		t.Helper()
		c := proxytest.Dial(t, r.addr)
		if err := c.SendRequest(proxytest.Request{Method: method, Target: target, Body: body, Headers: headers}); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadResponse(patience)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		return got
	}
	for _, p := range climbing {
		for _, target := range []string{p, p + "?x=y", "http://x" + p} {
			if !strings.HasPrefix(p, "/") {
				continue
			}
			wantProblem(t, send("GET", target, "", bearerOf("key")), 400, "dot_segments")
		}
	}
	wantProblem(t, send("POST", "/v1/../chat/completions", strings.Repeat("x", 20<<20), bearerOf("key")), 400, "dot_segments")
	wantUnauthorized(t, send("GET", "/../x", ""))
	if got := asked(); len(got) > 0 {
		t.Fatalf("the worker was asked for %q, want nothing", got)
	}
	for _, p := range append(staying, "/x?a=/../b", "/?../..") {
		if strings.ContainsAny(p, " ") { // which no target can hold
			continue
		}
		if got := send("GET", p, "", bearerOf("key")); got.Status != 200 {
			t.Errorf("%s: answer %d %s, want the worker's", p, got.Status, got.Body)
			continue
		}
		if all := asked(); all[len(all)-1] != "/tenant"+p {
			t.Errorf("%s: the worker was asked for %q, want it below its prefix", p, all[len(all)-1])
		}
	}
}

var unescapeOne = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// climbsSlowly resolves all escapes as often as there are any, and looks at each
// segment.
func climbsSlowly(path string) bool {
	for was := ""; was != path; {
		was = path
		path = unescapeOne.ReplaceAllStringFunc(path, func(e string) string {
			s, err := url.PathUnescape(e)
			if err != nil {
				panic(err)
			}
			return s
		})
	}
	for _, s := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if i := strings.IndexAny(s, ";?#\x00"); i >= 0 {
			s = s[:i]
		}
		if s == ".." {
			return true
		}
	}
	return false
}

func FuzzClimbs(f *testing.F) {
	for _, p := range append(climbing, staying...) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if len(path) > 200 {
			return
		}
		if got, want := climbs([]byte(path)), climbsSlowly(path); got != want {
			t.Errorf("climbs(%q) = %v, want %v", path, got, want)
		}
	})
}

// TestClimbsIsLinear: escapes upon escapes cost no more than their length.
func TestClimbsIsLinear(t *testing.T) {
	deep := []byte("/%" + strings.Repeat("25", 500_000) + "2e./x")
	if !climbs(deep) {
		t.Error("an escape of half a million levels stays, want it to climb")
	}
}
