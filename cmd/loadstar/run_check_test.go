package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheckCommand: the command ends with 0 if the router is well, with 1 if it isn't, or
// doesn't answer, or sends elsewhere.
func TestCheckCommand(t *testing.T) {
	asked := ""
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/readiness", http.StatusFound)
		case "/sick":
			http.Error(w, "no worker", http.StatusServiceUnavailable)
		}
	}))
	defer router.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tc := range []struct {
		name, url, asked, fault string
		code                    int
	}{
		{"well", router.URL, "GET /readiness", "", 0},
		{"without a scheme", strings.TrimPrefix(router.URL, "http://"), "GET /readiness", "", 0},
		{"a path of its own", router.URL + "/liveness", "GET /liveness", "", 0},
		{"sick", router.URL + "/sick", "GET /sick", "503 Service Unavailable", 1},
		{"sent elsewhere", router.URL + "/away", "GET /away", "302 Found", 1},
		{"not there", gone.URL, "", "the router does not answer", 1},
		{"no URL", "ftp://a", "", "this is no URL of a router", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked = ""
			err := program{out: io.Discard, check: check}.run(t.Context(), []string{"check", tc.url})
			if asked != tc.asked || exitCode(err) != tc.code {
				t.Errorf("asked %q, error %v, exit code %d, want %q and %d", asked, err, exitCode(err), tc.asked, tc.code)
			}
			if err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("error %v, want %q in it", err, tc.fault)
			}
		})
	}
	if c, err := parse([]string{"check"}, nil); err != nil || c.Check.URL != "http://127.0.0.1:30000/readiness" {
		t.Errorf("%+v, %v, want the router's default address", c.Check, err)
	}
}

// A container's health check asks the metrics listener, which speaks plain HTTP and
// asks for no key, whatever clients have to do.
func TestCheckOfTheMetricsListener(t *testing.T) {
	_, out := start(t, `"listening"`, "--port", "0", "--prometheus-port", "0", "--log-format", "json", "--client-api-key", "a-key-of-some-length")
	_, rest, _ := strings.Cut(out, `"metrics":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	if err := (program{check: check}).run(t.Context(), []string{"check", addr + "/health"}); err != nil {
		t.Error(err)
	}
	if err := (program{check: check}).run(t.Context(), []string{"check", listening(t, out)}); exitCode(err) != 1 {
		t.Errorf("error %v, want one: there are no workers", err)
	}
}
