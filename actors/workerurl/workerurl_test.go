package workerurl

import (
	"net/url"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"as it should be", "http://worker1:8000", "http://worker1:8000"},
		{"slash at the end", "http://worker1:8000/", "http://worker1:8000"},
		{"slashes at the end", "http://worker1:8000/v1//", "http://worker1:8000/v1"},
		{"upper case", "HTTP://Worker1.Example:8000", "http://worker1.example:8000"},
		{"default port of http", "http://worker1", "http://worker1:80"},
		{"default port of https", "https://worker1/", "https://worker1:443"},
		{"empty port", "http://worker1:", "http://worker1:80"},
		{"port with a zero in front", "http://worker1:08000", "http://worker1:8000"},
		{"path prefix keeps its case", "http://Gate:8000/Team-A/llm", "http://gate:8000/Team-A/llm"},
		{"path prefix keeps its escapes", "http://gate:8000/a%2Fb", "http://gate:8000/a%2Fb"},
		{"IPv4", "http://10.0.0.7:8000", "http://10.0.0.7:8000"},
		{"IPv6", "http://[::1]:8000", "http://[::1]:8000"},
		{"IPv6 without a port", "https://[2001:DB8::1]", "https://[2001:db8::1]:443"},
		{"IPv6 written out", "http://[0:0:0:0:0:0:0:1]:8000", "http://[::1]:8000"},
		{"IPv6 with a zone", "http://[fe80::1%25Eth0]:8000", "http://[fe80::1%25Eth0]:8000"},
		{"underscore", "http://llm_worker_1:8000", "http://llm_worker_1:8000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical(c.raw)
			if err != nil || got != c.want {
				t.Errorf("Canonical(%q) is %q, %v, want %q", c.raw, got, err, c.want)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "an empty URL"},
		{"no scheme", "worker1:8000", `"worker1:8000" has no scheme`},
		{"no scheme, no port", "worker1", "has no scheme"},
		{"other scheme", "ftp://worker1", `the scheme "ftp"`},
		{"no host", "http://:8000", "names no host"},
		{"nothing behind the scheme", "http://", "names no host"},
		{"user info", "http://bob:secret@worker1:8000", `"http://…@worker1:8000" holds user info`},
		{"user info that does not parse", "http://bob:sec ret@worker1:8000", `"http://…@worker1:8000" is not a URL`},
		{"rank", "http://worker1:8000@3", "holds user info"},
		{"rank behind a path", "http://worker1:8000/v1@3", "an @ in its path"},
		{"escaped rank", "http://worker1:8000/v1%403", "an @ in its path"},
		{"query", "http://worker1:8000?a=b", "a query or a fragment"},
		{"query with a key", "http://worker1:8000/v1?key=secret", `"http://worker1:8000/v1?…" holds a query`},
		{"query behind user info", "http://bob:sec?ret@worker1:8000?key=secret", `"http://…@worker1:8000?…" is not a URL`},
		{"empty query", "http://worker1:8000?", "a query or a fragment"},
		{"fragment", "http://worker1:8000#x", "a query or a fragment"},
		{"port 0", "http://worker1:0", "has the port 0"},
		{"port too high", "http://worker1:65536", "has the port 65536"},
		{"port that is none", "http://worker1:http", "is not a URL"},
		{"comma", "http://worker1:8000,http://worker2:8000", "is not a URL"},
		{"comma in the host", "http://a,b:8000", "a host name with a character"},
		{"space", "http://worker 1:8000", "is not a URL"},
		{"foreign letters", "http://wörker:8000", "a host name with a character"},
		{"bad IPv6", "http://[::1::2]:8000", "is not a URL"},
		{"dots in the path", "http://worker1:8000/a/../b", "empty, . or .. part"},
		{"escaped dots in the path", "http://worker1:8000/%2e%2E/b", "empty, . or .. part"},
		{"dot in the path", "http://worker1:8000/./a", "empty, . or .. part"},
		{"empty part in the path", "http://worker1:8000/a//b", "empty, . or .. part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical(c.raw)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Canonical(%q) is %q, %v, want an error with %q", c.raw, got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "sec") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// FuzzCanonical: a canonical URL is its own canonical form, keeps what the
// URL means, and nothing that could be spelled in two ways is left in it.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		"http://worker1:8000/", "https://[2001:DB8::1]/A%2fb/", "http://[fe80::1%25eth0]", "HTTP://A:080", "http://a/b c",
		"http://a/%41", "http://a/b;c", "http://[::ffff:1.2.3.4]:1", "http://a:1/é", "http://a:1/%2f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Canonical(raw)
		if err != nil {
			return
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Fatalf("%q became %q, and that %q, %v", raw, got, again, err)
		}
		before, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q became %q and does not parse: %v", raw, got, err)
		}
		after, err := url.Parse(got)
		if err != nil {
			t.Fatalf("%q became %q, which does not parse: %v", raw, got, err)
		}
		dropped, ok := strings.CutPrefix(before.Path, after.Path)
		if !ok || strings.Trim(dropped, "/") != "" || before.Scheme != after.Scheme {
			t.Errorf("%q became %q, with another path or scheme", raw, got)
		}
		if after.Port() == "" || strings.HasSuffix(got, "/") || strings.ContainsAny(got, "?#@ ") {
			t.Errorf("%q became %q, which is not canonical", raw, got)
		}
	})
}
