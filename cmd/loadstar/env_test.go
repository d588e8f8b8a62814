package main

import (
	"slices"
	"testing"
)

// variables is an environment that holds these.
func variables(m map[string]string) environment {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		name string
		vars map[string]string
		args []string
		want func(*config)
	}{
		{"scalar", map[string]string{"LOADSTAR_PORT": "8080"}, nil, func(c *config) { c.Listen.Port = 8080 }},
		{"the flag wins", map[string]string{"LOADSTAR_PORT": "8080"}, []string{"--port", "9090"}, func(c *config) { c.Listen.Port = 9090 }},
		{"the flag wins over what is wrong", map[string]string{"LOADSTAR_PORT": "x"}, []string{"--port", "9090"}, func(c *config) { c.Listen.Port = 9090 }},
		{"empty is absent", map[string]string{"LOADSTAR_PORT": "", "LOADSTAR_WORKER_URLS": "", "LOADSTAR_ACCESS_LOG": ""}, nil, func(*config) {}},
		{"switch", map[string]string{"LOADSTAR_DISABLE_RETRIES": "True"}, nil, func(c *config) { c.Retry.Disabled = true }},
		{"switch that the flag turns off", map[string]string{"LOADSTAR_DISABLE_RETRIES": "1"}, []string{"--disable-retries=false"}, func(*config) {}},
		{
			"list with spaces and commas",
			map[string]string{"LOADSTAR_WORKER_URLS": "http://a:1 http://b:2,http://c:3,\n http://a:1/"},
			nil,
			func(c *config) { c.Workers.URLs = []string{"http://a:1", "http://b:2", "http://c:3"} },
		},
		{
			"a list of the command line replaces it",
			map[string]string{"LOADSTAR_WORKER_URLS": "http://a:1"},
			[]string{"--worker-urls", "http://b:2"},
			func(c *config) { c.Workers.URLs = []string{"http://b:2"} },
		},
		{
			"what Kubernetes puts there for a service called loadstar",
			map[string]string{
				"LOADSTAR_PORT": "tcp://10.3.0.9:30000", "LOADSTAR_PROMETHEUS_PORT": "tcp://10.3.0.10:29000",
				"LOADSTAR_SERVICE_HOST": "10.3.0.9", "LOADSTAR_SERVICE_PORT": "30000", "LOADSTAR_PORT_30000_TCP_PROTO": "tcp",
			},
			nil,
			func(*config) {},
		},
		{"compatible", map[string]string{"LOADSTAR_COMPAT": "true"}, nil, func(c *config) {
			c.Compat, c.Retry.Budget, c.Policy.Name, c.Policy.BacklogTokens = true, noBudget, "cache_aware", 0
		}},
		{"a threshold of cache_aware's", map[string]string{"LOADSTAR_CACHE_THRESHOLD": "0.5"}, nil, func(c *config) { c.Policy.CacheThreshold, c.Policy.Name = 0.5, "cache_aware" }},
		{"limits", map[string]string{"LOADSTAR_MAX_CONCURRENT_REQUESTS": "3", "LOADSTAR_RETRY_BUDGET": "none"}, nil, func(c *config) {
			c.Admission.MaxConcurrent, c.Retry.Budget = 3, noBudget
		}},
		{"a refused feature that is off", map[string]string{"LOADSTAR_ENABLE_PROGRAM_SCHEDULING": "false", "LOADSTAR_ROUTER_TEMPERATURE": "0"}, nil, func(*config) {}},
		{"the demo's address", map[string]string{"LOADSTAR_LISTEN": "localhost:7"}, []string{"demo"}, func(c *config) { c.Demo, c.Listen = true, listenConfig{"localhost", 7} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, c.args, variables(c.vars), c.want)
		})
	}
}

func TestEnvironmentFaults(t *testing.T) {
	vars := variables(map[string]string{
		"LOADSTAR_PORT":                      "x",
		"LOADSTAR_WORKER_URLS":               "b:2,grpc://c:3",
		"LOADSTAR_ACCESS_LOG":                "perhaps",
		"LOADSTAR_POLICY":                    "kv_aware",
		"LOADSTAR_REQUEST_ID_HEADERS":        ",",
		"LOADSTAR_ENABLE_PROGRAM_SCHEDULING": "true",
		"API_KEY_VALIDATION_URLS":            "http://keys.example",
	})
	want := []string{
		`LOADSTAR_PORT: "x" is not a whole number from 0 to 65535`,
		`LOADSTAR_ACCESS_LOG: "perhaps" is neither true nor false: give one of them`,
		`LOADSTAR_WORKER_URLS: "b:2" has no scheme: write it as http://HOST:PORT`,
		`LOADSTAR_WORKER_URLS grpc://c:3 is not supported: workers are spoken to over HTTP; start the engine's OpenAI server and give its http:// URL`,
		`--policy kv_aware needs --kv-event-source: name the endpoints at which workers publish KV-cache events, or take --policy least_work, which needs none`,
		`LOADSTAR_ENABLE_PROGRAM_SCHEDULING is not in this version: it comes with program scheduling; leave it out`,
		`API_KEY_VALIDATION_URLS is not supported: keys are checked here; leave it out and give them by --client-api-keys-file`,
	}
	_, err := parse(nil, vars)
	got := faultsOf(t, err)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%q, want\n%q", got, want)
	}
}
