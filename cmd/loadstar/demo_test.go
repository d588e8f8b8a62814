package main

import (
	"strings"
	"testing"
)

// What the demo prints works with keys and TLS too, and tells no key.
func TestDemoBanner(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		want []string
	}{
		{"plain", "", []string{"is at http://a:1 with 2 simulated workers. Try, in another terminal:", "curl -N http://a:1/v1/chat/completions -H 'Content-Type", "  curl http://a:1/workers\n", "and http://a:1/status"}},
		{"TLS", "--tls-cert-path c --tls-key-path k", []string{"is at https://a:1 with", "curl -k -N https://a:1/v1/", "  curl -k https://a:1/workers\n", "and https://a:1/status"}},
		{"clients' keys", "--client-api-key secret", []string{"(KEY is a client's):", "completions -H 'Authorization: Bearer KEY' -H", "/workers\n"}},
		{"an admin key", "--admin-api-key secret", []string{"(KEY is the admin's):", "completions -H 'Content-Type", "/workers -H 'Authorization: Bearer KEY'\n"}},
		{"both", "--client-api-key secret --admin-api-key secret2", []string{"(KEY is a client's, or below the admin's):", "completions -H 'Authorization: Bearer KEY' -H", "/workers -H 'Authorization: Bearer KEY'\n"}},
		{"an admin listener", "--admin-listen 127.0.0.1:2", []string{"curl -N http://a:1/v1/", "curl http://127.0.0.1:2/workers\n", "and http://127.0.0.1:2/status"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := parse(strings.Fields("demo "+c.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := demoBanner("a:1", conf)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it prints %s, want %q in it", got, want)
				}
			}
			if strings.Contains(got, "secret") {
				t.Errorf("it prints %s, want no key in it", got)
			}
		})
	}
}
