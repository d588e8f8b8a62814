package proxy

import (
	"testing"

	"loadstar/proxy/proxytest"
)

// TestAdminRefusesPages: a web page that is open in a browser on this machine must
// not change the fleet, nor look at it.
func TestAdminRefusesPages(t *testing.T) {
	h := func(pairs ...string) (hs []proxytest.Header) {
		for i := 0; i < len(pairs); i += 2 {
			hs = append(hs, proxytest.H(pairs[i], pairs[i+1]))
		}
		return hs
	}
	for _, tc := range []struct {
		name    string
		origins []string
		compat  bool
		headers []proxytest.Header
		want    int
	}{
		{"no browser", nil, false, nil, 200},
		{"typed in by the user", nil, false, h("Sec-Fetch-Site", "none"), 200},
		{"another page", nil, false, h("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"), 403},
		{"another page in an old browser", nil, false, h("origin", "https://evil.example"), 403},
		{"a page without an origin", nil, false, h("Origin", "null"), 403},
		{"a picture", nil, false, h("Sec-Fetch-Site", "cross-site"), 403},
		{"a page that seems to be of this router", nil, false, h("sec-fetch-site", "same-origin"), 403},
		{"a page that is named", []string{"https://ui.example"}, false, h("Origin", "https://ui.example", "Sec-Fetch-Site", "cross-site"), 200},
		{"a page beside one that is named", []string{"https://ui.example"}, false, h("Origin", "https://evil.example"), 403},
		{"any page, named by a star", []string{"*"}, false, h("Origin", "https://evil.example"), 403},
		{"compatible", nil, true, h("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"), 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := proxytest.NewWorker(t, proxytest.JSON(200, "{}"))
			o := testOptions("round_robin")
			o.CORSOrigins, o.Compat = tc.origins, tc.compat
			r := startRouter(t, o, w)
			for _, call := range []struct{ method, target string }{
				{"GET", "/workers"}, {"GET", "/list_workers"}, {"POST", "/flush_cache"}, {"POST", "/remove_worker?url=" + w.URL()},
			} {
				got := r.call(call.method, call.target, "", tc.headers...)
				if tc.want == 403 {
					wantProblem(t, got, 403, "admin_not_for_browsers")
				} else if got.Status != tc.want {
					t.Errorf("%s %s: %d %s, want %d", call.method, call.target, got.Status, got.Body, tc.want)
				}
			}
			if v := r.snapshot(); tc.want == 403 && (len(v.Workers) != 1 || !v.Workers[0].Member) {
				t.Error("the worker was removed")
			}
			if tc.want == 403 { // what is no admin call is for everybody
				want200(t, r.call("POST", chatPath, chat("hi", false), tc.headers...), "{}")
			}
		})
	}
}
