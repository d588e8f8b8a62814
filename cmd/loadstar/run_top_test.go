package main

import (
	"io"
	"strings"
	"testing"
)

// TestTop: the command shows the router's workers once, with the key from the
// environment, where standard output is no terminal.
func TestTop(t *testing.T) {
	_, urls := simulated(t, 1)
	addr := running(t, io.Discard, "--worker-urls", urls[0], "--admin-api-key", "a-key-of-some-length")
	t.Setenv("LOADSTAR_ADMIN_API_KEY", "a-key-of-some-length")
	t.Setenv("LOADSTAR_SELECTOR", "the router's own variables are not looked at")
	_, out := start(t, urls[0], "top", addr, "--once")
	if !strings.HasPrefix(out, "Loadstar ") || strings.Contains(out, "\x1b") {
		t.Errorf("output %q, want the status as plain text", out)
	}
	t.Setenv("LOADSTAR_ADMIN_API_KEY", "another")
	err := program{out: io.Discard, top: showTop}.run(t.Context(), []string{"top", "--once", addr})
	if err == nil || !strings.Contains(err.Error(), "status 401") || exitCode(err) != 1 {
		t.Errorf("error %v, want a 401", err)
	}
}

// TestTopCommandLine: what top takes, and says of what it doesn't.
func TestTopCommandLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		args string
		want topConfig
		err  string
	}{
		{"nothing", "top", topConfig{URL: "http://127.0.0.1:30000"}, ""},
		{"a URL", "top http://a:1/", topConfig{URL: "http://a:1"}, ""},
		{"a URL behind a switch", "top --once a:1", topConfig{URL: "http://a:1", Once: true}, ""},
		{"a key", "top a:1 --admin-api-key k", topConfig{URL: "http://a:1", Key: "k"}, ""},
		{"by flag", "top --url a:1", topConfig{URL: "http://a:1"}, ""},
		{"a key with a space in it", "top --admin-api-key k1 k2", topConfig{}, "unexpected argument behind the value of --admin-api-key"},
		{"no URL", "top ftp://a", topConfig{}, "--url: this is no URL of a router"},
		{"a flag of the router", "top --port 1", topConfig{}, "--port is not a flag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := parse(strings.Fields(tc.args), nil)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) || exitCode(err) != 2 {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || c.Top != tc.want {
				t.Errorf("%+v, %v, want %+v", c.Top, err, tc.want)
			}
		})
	}
}
