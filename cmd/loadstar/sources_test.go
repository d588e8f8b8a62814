package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery/dns"
)

func TestSourceCommandLines(t *testing.T) {
	name := func(r actors.Role, host string, port int) dnsQuery {
		return dnsQuery{dns.Query{Name: host, Port: port}, r}
	}
	for _, c := range []struct {
		name string
		line string
		want func(*config)
	}{
		{"pods", "--service-discovery --selector app=vllm tier=gpu --service-discovery-port 8000 --service-discovery-namespace prod", func(c *config) {
			c.Sources.Kubernetes = kubernetesConfig{Enabled: true, Selector: "app=vllm,tier=gpu", Port: 8000, Namespace: "prod"}
		}},
		{"labels joined and again", "--service-discovery --selector b=2,a=1 --selector a=1", func(c *config) {
			c.Sources.Kubernetes = kubernetesConfig{Enabled: true, Selector: "a=1,b=2", Port: 80}
		}},
		{"pods beside workers that are named", "--service-discovery --selector a=b --worker-urls http://a:1 --kubeconfig /k", func(c *config) {
			c.Workers.URLs, c.Sources.Kubernetes = []string{"http://a:1"}, kubernetesConfig{Enabled: true, Selector: "a=b", Port: 80, Kubeconfig: "/k"}
		}},
		{"power of two over what will be found", "--policy power_of_two --service-discovery --selector a=b", func(c *config) {
			c.Policy.Name, c.Sources.Kubernetes = policyPowerOfTwo, kubernetesConfig{Enabled: true, Selector: "a=b", Port: 80}
		}},
		{"pods of two phases", "--vllm-pd-disaggregation --service-discovery --prefill-selector r=p --decode-selector r=d", func(c *config) {
			c.PD.Enabled, c.Sources.Kubernetes = true, kubernetesConfig{Enabled: true, Prefill: "r=p", Decode: "r=d", Port: 80}
		}},
		{"pods of one phase", "--vllm-pd-disaggregation --service-discovery --prefill-selector r=p --decode http://d:1", func(c *config) {
			c.PD.Enabled, c.PD.Decode, c.Sources.Kubernetes = true, []string{"http://d:1"}, kubernetesConfig{Enabled: true, Prefill: "r=p", Port: 80}
		}},
		{"pods of all kinds", "--enable-igw --vllm-pd-disaggregation --service-discovery --selector r=w --prefill-selector r=p --decode-selector r=d", func(c *config) {
			c.PD.Enabled, c.Models.Ask = true, true
			c.Sources.Kubernetes = kubernetesConfig{Enabled: true, Selector: "r=w", Prefill: "r=p", Decode: "r=d", Port: 80}
		}},
		{"names of all kinds", "--enable-igw --vllm-pd-disaggregation --dns-discovery w:1 prefill=p:1 decode=d:2", func(c *config) {
			c.PD.Enabled, c.Models.Ask = true, true
			c.Sources.DNS = []dnsQuery{name(actors.Regular, "w", 1), name(actors.Prefill, "p", 1), name(actors.Decode, "d", 2)}
		}},
		{"a file", "--workers-file /etc/workers.yaml", func(c *config) { c.Sources.File = "/etc/workers.yaml" }},
		{"a file of two phases", "--vllm-pd-disaggregation --workers-file w", func(c *config) { c.PD.Enabled, c.Sources.File = true, "w" }},
		{"names", "--dns-discovery vllm.prod:8000 _http._tcp.vllm.prod. vllm.prod:8000 --dns-discovery-interval-secs 1.5", func(c *config) {
			c.Sources.DNS = []dnsQuery{name(actors.Regular, "vllm.prod", 8000), name(actors.Regular, "_http._tcp.vllm.prod", 0)}
			c.Sources.DNSEvery = 1500 * time.Millisecond
		}},
		{"names of two phases", "--vllm-pd-disaggregation --dns-discovery prefill=p:1 decode=d:2", func(c *config) {
			c.PD.Enabled, c.Sources.DNS = true, []dnsQuery{name(actors.Prefill, "p", 1), name(actors.Decode, "d", 2)}
		}},
		{"selectors without discovery, compatible", "--compat --selector a=b", func(c *config) {
			c.Compat, c.Retry.Budget, c.Policy.Name, c.Sources.Kubernetes.Selector = true, noBudget, "cache_aware", "a=b"
			c.Policy.BacklogTokens = 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, strings.Fields(c.line), nil, c.want)
		})
	}
}

func TestSourceFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want []string
	}{
		{"pods and no labels", "--service-discovery", []string{"--service-discovery requires --selector"}},
		{"labels of nobody", "--service-discovery --selector", []string{"--selector needs at least one label", "--service-discovery requires --selector"}},
		{"no label", "--service-discovery --selector app", []string{`--selector: "app" is not a label: write KEY=VALUE`}},
		{"bad label", "--service-discovery --selector a=-b-", []string{"--selector: not labels"}},
		{"two values", "--service-discovery --selector a=b a=c", []string{`--selector: the label "a" has two values`}},
		{"labels without discovery", "--selector a=b", []string{"--selector, --prefill-selector and --decode-selector mean nothing without --service-discovery"}},
		{"phases' labels without the mode", "--service-discovery --selector a=b --prefill-selector a=c", []string{"--prefill-selector is about requests in two phases"}},
		{"phases without labels", "--vllm-pd-disaggregation --service-discovery --selector a=b --prefill http://p:1 --decode http://d:1", []string{
			"--service-discovery with --vllm-pd-disaggregation requires --prefill-selector or --decode-selector",
		}},
		{"one phase without workers", "--vllm-pd-disaggregation --service-discovery --prefill-selector a=b", []string{"--vllm-pd-disaggregation requires --decode"}},
		{"labels of both kinds", "--vllm-pd-disaggregation --service-discovery --selector a=b --prefill-selector a=b --decode-selector a=c", []string{
			"--selector is about workers of whole requests",
		}},
		{"namespace", "--service-discovery --selector a=b --service-discovery-namespace A_b", []string{`--service-discovery-namespace: "A_b" is no namespace`}},
		{"port", "--service-discovery --selector a=b --service-discovery-port 0", []string{"--service-discovery-port: "}},
		{"no port of a name", "--dns-discovery vllm", []string{`--dns-discovery: "vllm" is neither NAME:PORT nor _SERVICE._PROTO.NAME`}},
		{"half a service", "--dns-discovery _http.vllm", []string{`--dns-discovery: "_http.vllm" is no service`}},
		{"scheme", "--dns-discovery http://a:1", []string{"--dns-discovery: a name has no scheme"}},
		{"no such phase", "--dns-discovery middle=a:1", []string{`--dns-discovery: "middle=a:1" begins with no phase`}},
		{"phase without the mode", "--dns-discovery decode=a:1", []string{"--dns-discovery a:1: this router takes no decode workers"}},
		{"mode without a phase", "--vllm-pd-disaggregation --dns-discovery a:1 --prefill http://p:1 --decode http://d:1", []string{"--dns-discovery a:1: this router takes no regular workers"}},
		{"too often", "--dns-discovery a:1 --dns-discovery-interval-secs 0.1", []string{"--dns-discovery-interval-secs: "}},
		{"demo", "demo --workers-file w", []string{"--service-discovery, --workers-file, --dns-discovery: demo brings its own workers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(strings.Fields(c.line), nil)
			if got := faultsOf(t, err); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("faults %q, want those that begin with %q", got, c.want)
			}
		})
	}
}
