package main

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	long := strings.Repeat("long", 20)
	names := []string{"host", "port", "policy", "worker-urls", "cache-threshold", "abc", "abd", long}
	for _, c := range []struct{ word, want string }{
		{"host", "host"},
		{"prot", "port"},
		{"wroker-urls", "worker-urls"},
		{"worker_urls", "worker-urls"},
		{"workers-url", "worker-urls"},
		{"cache-treshhold", "cache-threshold"},
		{"abx", "abc"},
		{long + "er", ""},
		{"zzzz", ""},
		{"", ""},
	} {
		if got := nearest(c.word, names); got != c.want {
			t.Errorf("nearest(%q) is %q, want %q", c.word, got, c.want)
		}
	}
}

// FuzzDistance compares with the definition, written as it is read.
func FuzzDistance(f *testing.F) {
	f.Add("", "")
	f.Add("kitten", "sitting")
	f.Add("ca", "abc")
	f.Add("prot", "port")
	f.Fuzz(func(t *testing.T, a, b string) {
		const most = 6 // the definition takes exponential time
		a, b = a[:min(len(a), most)], b[:min(len(b), most)]
		if got, want := distance(a, b), plainDistance(a, b); got != want {
			t.Errorf("distance(%q, %q) is %d, want %d", a, b, got, want)
		}
	})
}

func plainDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	change := 1
	if a[0] == b[0] {
		change = 0
	}
	d := min(plainDistance(a[1:], b)+1, plainDistance(a, b[1:])+1, plainDistance(a[1:], b[1:])+change)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, plainDistance(a[2:], b[2:])+1)
	}
	return d
}
