package proxy

import (
	"strings"
	"testing"

	"loadstar/proxy/proxytest"
)

func TestBoundSession(t *testing.T) {
	long := strings.Repeat("a", longestSession)
	for _, tc := range []struct{ name, key, want string }{
		{"none", "", ""},
		{"short", "session:1", "session:1"},
		{"longest", long, long},
		{"too long", long + "a", "sha256:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := string(boundSession([]byte(tc.key)))
			if len(tc.key) <= longestSession && got != tc.want {
				t.Errorf("%q, want it as it is", got)
			}
			if len(tc.key) > longestSession && (len(got) != len("sha256:")+64 || !strings.HasPrefix(got, "sha256:")) {
				t.Errorf("%q, want a digest", got)
			}
		})
	}
	if string(boundSession([]byte(long+"a"))) == string(boundSession([]byte(long+"b"))) {
		t.Error("two keys have the same digest")
	}
}

// TestLongSessions: a session with a long name is one like any other, from a header
// and from a body, until it is finished; but what is kept of its name is bounded.
func TestLongSessions(t *testing.T) {
	a, b := proxytest.NewWorker(t, proxytest.JSON(200, "{}")), proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
	for _, tc := range []struct {
		name string
		size int // of the session's name
	}{
		{"short", 10},
		{"long", 4000},
		{"in the body only", 1 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startRouter(t, testOptions("sticky_least_loaded"), a, b)
			id := strings.Repeat("s", tc.size)
			var headers []proxytest.Header
			body := `{"prompt":"hi","user":"` + id + `"}`
			if tc.size < 1<<20 {
				headers = append(headers, proxytest.H("X-Session-ID", id))
				body = chat("hi", false)
			}
			before := a.Requests()
			for range 4 {
				want200(t, r.call("POST", chatPath, body, headers...), "{}")
			}
			if n := a.Requests() - before; n != 0 && n != 4 {
				t.Errorf("%d of 4 requests of a session went to one worker, want all or none", n)
			}
			if v := r.snapshot(); v.Sessions != 1 {
				t.Errorf("%d sessions, want 1", v.Sessions)
			}
			if x := r.exchanges.Get().(*exchange); cap(x.session) > keptSession {
				t.Errorf("%d bytes are kept for session keys, want at most %d", cap(x.session), keptSession)
			}
			if tc.size < 1<<20 {
				r.call("POST", "/finish_session?session_id="+id, "")
				if v := r.snapshot(); v.Sessions != 0 {
					t.Errorf("%d sessions after the end, want 0", v.Sessions)
				}
			}
		})
	}
}
