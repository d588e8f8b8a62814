package workerurl

import (
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		patterns string
		allowed  []string
		refused  []string
	}{
		{"", []string{"http://a:80", "http://169.254.169.254:80"}, nil},
		{
			"Worker1 gate.example.com",
			[]string{"http://worker1:8000", "https://gate.example.com:443/v1"},
			[]string{"http://worker2:80", "http://worker1.:80", "http://worker10:80", "http://a.worker1:80", "http://example.com:80", "http://10.0.0.1:80", "http://[::1]:80"},
		},
		{
			"*.Example.com",
			[]string{"http://a.example.com:80", "http://b.a.example.com:80"},
			[]string{"http://example.com:80", "http://aexample.com:80", "http://a.example.com.evil:80", "http://a.example.com.:80", "http://.example.com:80/x"},
		},
		{
			"10.1.2.3/8 192.0.2.7 127.1",
			[]string{"http://10.0.0.0:80", "http://10.255.255.255:1", "http://192.0.2.7:80", "http://[::ffff:10.0.0.1]:80"},
			[]string{"http://11.0.0.0:80", "http://192.0.2.8:80", "http://ten.example:80", "http://127.0.0.1:80", "http://[::10.0.0.1]:80", "http://167772161:80", "http://0x0a000001:80"},
		},
		{
			"fd00::/8 [::1] fe80::/10 ::ffff:198.51.100.1",
			[]string{"http://[fd12::1]:80", "http://[::1]:80", "http://[fe80::1%25eth0]:80", "http://198.51.100.1:80"},
			[]string{"http://[fe00::1]:80", "http://[::2]:80", "http://0.0.0.1:80"},
		},
	} {
		t.Run(tc.patterns, func(t *testing.T) {
			h, err := ParseHosts(strings.Fields(tc.patterns))
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range tc.allowed {
				if !h.Allow(u) {
					t.Errorf("%s is refused", u)
				}
			}
			for _, u := range tc.refused {
				if h.Allow(u) {
					t.Errorf("%s is allowed", u)
				}
			}
		})
	}
	for _, bad := range []string{
		"", "*", "*.", "*a", "*.*.a", "a*", "**.a", "http://a", "a:80", "a/b", "a b", "10.0.0.0/33", "10.0.0.0/", "::ffff:10.0.0.0/104", "fe80::1%eth0", "[a]", "wörker", "*..a",
	} {
		if _, err := ParseHosts([]string{"good", bad}); err == nil || !strings.Contains(err.Error(), "is no host") {
			t.Errorf("%q: error %v, want one", bad, err)
		}
	}
}

// FuzzHosts: a canonical URL is allowed by its own host, and by no other name.
func FuzzHosts(f *testing.F) {
	for _, s := range []string{"http://a", "http://[::1%25x]:1/p", "https://10.0.0.1", "http://A.b.c.", "http://[::ffff:1.2.3.4]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		base, err := Canonical(raw)
		if err != nil {
			return
		}
		none := Hosts{names: []string{"no such name"}}
		if none.Allow(base) {
			t.Errorf("%s is allowed by a name that no host has", base)
		}
		_, host, _ := strings.Cut(base, "://")
		host, _, _ = strings.Cut(host, "/")
		host = host[:strings.LastIndexByte(host, ':')]
		if zone := strings.IndexByte(host, '%'); zone >= 0 {
			host = host[:zone] + "]"
		}
		h, err := ParseHosts([]string{host})
		if err != nil || !h.Allow(base) {
			t.Errorf("%s is not allowed by its own host %s: %v", base, host, err)
		}
	})
}
