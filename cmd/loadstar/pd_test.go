package main

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstar/actors"
	"loadstar/proxy"
	"loadstar/proxy/pd"
)

// phases is what the command lines below have in common.
func phases(c *config, prefill []prefillWorker, decode ...string) {
	c.PD.Enabled, c.PD.Prefill, c.PD.Decode = true, prefill, decode
}

// Command lines of vllm-router for two phases: each must run here and mean the
// same.
func TestReferencePDCommandLines(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want func(*config)
	}{
		{"one of each", "--vllm-pd-disaggregation --prefill http://p:8100 --decode http://d:8200", func(c *config) {
			phases(c, []prefillWorker{{"http://p:8100", 0}}, "http://d:8200")
		}},
		{"the documentation's", "--policy consistent_hash --vllm-pd-disaggregation --prefill http://127.0.0.1:8081 --prefill http://127.0.0.1:8082 " +
			"--decode http://127.0.0.1:8083 --decode http://127.0.0.1:8084 --decode http://127.0.0.1:8085 --host 127.0.0.1 --port 8090 --intra-node-data-parallel-size 8", func(c *config) {
			phases(c, []prefillWorker{{"http://127.0.0.1:8081", 0}, {"http://127.0.0.1:8082", 0}},
				"http://127.0.0.1:8083", "http://127.0.0.1:8084", "http://127.0.0.1:8085")
			c.Policy.Name, c.Listen.Port, c.Workers.DPSize = "consistent_hash", 8090, 8
		}},
		{"ports, in every form", "--vllm-pd-disaggregation --kv-connector mooncake --prefill http://a:1 8999 --prefill http://b:1 none --prefill http://c:1 NONE --prefill http://d:1 --decode http://e:1", func(c *config) {
			phases(c, []prefillWorker{{"http://a:1", 8999}, {"http://b:1", noBootstrap}, {"http://c:1", noBootstrap}, {"http://d:1", 0}}, "http://e:1")
			c.PD.Connector = connectorMooncake
		}},
		{"a policy for each phase", "--vllm-pd-disaggregation --policy random --prefill-policy cache_aware --decode-policy power_of_two --prefill http://a:1 --decode http://b:1 --decode http://c:1", func(c *config) {
			phases(c, []prefillWorker{{"http://a:1", 0}}, "http://b:1", "http://c:1")
			c.Policy.Name, c.PD.PrefillPolicy, c.PD.DecodePolicy = "random", "cache_aware", "power_of_two"
		}},
		{"discovery", "--vllm-pd-disaggregation --vllm-discovery-address 0.0.0.0:30001 --policy round_robin", func(c *config) {
			phases(c, nil)
			c.PD.Discovery.Listen, c.Policy.Name = listenConfig{"0.0.0.0", 30001}, "round_robin"
		}},
		{"MoRI-IO", "--vllm-pd-disaggregation --vllm-discovery-address *:36367 --kv-connector moriio", func(c *config) {
			phases(c, nil)
			c.PD.Discovery.Listen, c.PD.Connector = listenConfig{"", 36367}, connectorMoRI
		}},
		{"discovery beside workers that are named", "--vllm-pd-disaggregation --vllm-discovery-address :30001 --prefill http://p:1", func(c *config) {
			phases(c, []prefillWorker{{"http://p:1", 0}})
			c.PD.Discovery.Listen = listenConfig{"", 30001}
		}},
		{"equals signs", "--vllm-pd-disaggregation=true --prefill=http://p:1 --decode=http://d:1 --kv-connector=nixl", func(c *config) {
			phases(c, []prefillWorker{{"http://p:1", 0}}, "http://d:1")
		}},
		{"one worker for both phases, and twice", "--vllm-pd-disaggregation --prefill http://a:80 --prefill http://A/ --decode http://a:80/ --decode http://a", func(c *config) {
			phases(c, []prefillWorker{{"http://a:80", 0}}, "http://a:80")
		}},
		{"single ranks", "--vllm-pd-disaggregation --prefill http://A@1 8998 --prefill http://a:80@01 8998 --decode http://[::1]:1@0 --policy power_of_two --prefill-policy random --intra-node-data-parallel-size 4 --decode http://d:1", func(c *config) {
			phases(c, []prefillWorker{{"http://a:80@1", 8998}}, "http://[::1]:1@0", "http://d:1")
			c.PD.PrefillPolicy, c.Policy.Name, c.Workers.DPSize = "random", policyPowerOfTwo, 4
		}},
		{"switched off, connector at its default", "--vllm-pd-disaggregation false --kv-connector nixl --worker-urls http://a:1", func(c *config) {
			c.Workers.URLs = []string{"http://a:1"}
		}},
		{"flags of ours", "--vllm-pd-disaggregation --prefill http://p:1 --decode http://d:1 --request-timeout-secs 100 --prefill-timeout-secs 5 --pd-short-prompt-bytes 100 " +
			"--pd-sequential --pd-rescues 0 --pd-rescue-timeout-secs 1.5 --vllm-discovery-expiry-secs 9 --vllm-discovery-max-workers 8", func(c *config) {
			phases(c, []prefillWorker{{"http://p:1", 0}}, "http://d:1")
			c.Timeouts.Request, c.Timeouts.FirstByte, c.Timeouts.Idle, c.Timeouts.Prefill = 100*time.Second, 100*time.Second, 100*time.Second, 5*time.Second
			c.PD.ShortPromptBytes, c.PD.Sequential, c.PD.Rescues, c.PD.RescueTimeout = 100, true, 0, 1500*time.Millisecond
			c.PD.Discovery.Expiry, c.PD.Discovery.MaxWorkers = 9*time.Second, 8
		}},
		{"workers of whole requests, ignored as there", "--compat --vllm-pd-disaggregation --worker-urls http://w:1 --prefill http://p:1 --decode http://d:1", func(c *config) {
			phases(c, []prefillWorker{{"http://p:1", 0}}, "http://d:1")
			c.Compat, c.Workers.URLs, c.Retry.Budget, c.Policy.Name = true, []string{"http://w:1"}, noBudget, "cache_aware"
			c.Policy.BacklogTokens = 0
		}},
		{"workers of whole requests beside", "--enable-igw --vllm-pd-disaggregation --worker-urls http://w:1 http://d:1 --prefill http://p:1 --decode http://d:1", func(c *config) {
			phases(c, []prefillWorker{{"http://p:1", 0}}, "http://d:1")
			c.Models.Ask, c.Workers.URLs = true, []string{"http://w:1", "http://d:1"}
		}},
		{"demo", "demo --vllm-pd-disaggregation --policy power_of_two", func(c *config) {
			phases(c, nil)
			c.Demo, c.Policy.Name = true, policyPowerOfTwo
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkConfig(t, strings.Fields(c.line), nil, c.want)
		})
	}
}

func TestPDEnvironment(t *testing.T) {
	checkConfig(t, nil, variables(map[string]string{
		"LOADSTAR_VLLM_PD_DISAGGREGATION": "1", "LOADSTAR_DECODE": "http://d:1,http://e:1",
		"LOADSTAR_PREFILL": "http://a:1 8999,http://b:1 http://c:1,none", "LOADSTAR_PD_SEQUENTIAL": "true",
	}), func(c *config) {
		phases(c, []prefillWorker{{"http://a:1", 8999}, {"http://b:1", 0}, {"http://c:1", noBootstrap}}, "http://d:1", "http://e:1")
		c.PD.Sequential = true
	})
}

// What is wrong with a command line for two phases, all of it at once.
func TestPDFaults(t *testing.T) {
	const both = " --prefill http://p:1 --decode http://d:1"
	for _, c := range []struct {
		name string
		line string
		want []string // each begins a fault, in this order
	}{
		{"no workers", "--vllm-pd-disaggregation", []string{
			"--vllm-pd-disaggregation requires --prefill: name a prefill worker, or have workers register by --vllm-discovery-address",
			"--vllm-pd-disaggregation requires --decode: name a decode worker",
		}},
		{"no decode worker", "--vllm-pd-disaggregation --prefill http://p:1", []string{"--vllm-pd-disaggregation requires --decode"}},
		{"wrong values are no missing ones", "--vllm-pd-disaggregation --prefill p:1 --prefill http://q:1 abc --decode d:1", []string{
			`--prefill: "p:1" has no scheme`, `--prefill: invalid bootstrap port "abc": it must be a number`, `--decode: "d:1" has no scheme`,
		}},
		{"one worker with two ports", "--vllm-pd-disaggregation --decode http://d:1 --prefill http://p:1 1 --prefill http://p:1 2", []string{
			`--prefill: "http://p:1" is there twice, with two bootstrap ports`,
		}},
		{"MoRI-IO without discovery", "--vllm-pd-disaggregation --kv-connector moriio", []string{"--kv-connector moriio requires --vllm-discovery-address"}},
		{"MoRI-IO with named workers", "--vllm-pd-disaggregation --kv-connector moriio --vllm-discovery-address a:1" + both, []string{
			"--kv-connector moriio does not go with --prefill and --decode",
		}},
		{"Mooncake with discovery", "--vllm-pd-disaggregation --kv-connector mooncake --vllm-discovery-address a:1" + both, []string{
			"--kv-connector mooncake does not go with --vllm-discovery-address",
		}},
		{"workers of whole requests", "--vllm-pd-disaggregation --worker-urls http://w:1" + both, []string{
			"--worker-urls names workers of whole requests, of which --vllm-pd-disaggregation alone has none",
		}},
		{"without the mode", "--prefill http://p:1 --decode http://d:1 --prefill-policy random --decode-policy random --kv-connector mooncake --vllm-discovery-address a:1 --pd-sequential --pd-rescues 3", []string{
			"--prefill is about requests in two phases: add --vllm-pd-disaggregation, or leave it out",
			"--decode is about", "--prefill-policy is about", "--decode-policy is about", "--kv-connector is about",
			"--pd-sequential is about", "--pd-rescues is about", "--vllm-discovery-address is about",
		}},
		{"with the mode off", "--vllm-pd-disaggregation=false --decode http://d:1", []string{"--decode is about requests in two phases"}},
		{"with a mode that can't be read", "--vllm-pd-disaggregation=on --decode http://d:1", []string{`--vllm-pd-disaggregation: "on" is neither true nor false`}},
		{"defaults without the mode", "--pd-sequential false --pd-rescues 16 --vllm-discovery-expiry-secs 15.0", nil},
		{"power of two, one of each", "--vllm-pd-disaggregation --policy power_of_two" + both, []string{
			"--policy power_of_two needs at least 2 prefill workers and --prefill names 1: name more, or choose another policy",
			"--policy power_of_two needs at least 2 decode workers and --decode names 1",
		}},
		{"power of two for one phase", "--vllm-pd-disaggregation --decode-policy power_of_two" + both, []string{
			"--decode-policy power_of_two needs at least 2 decode workers and --decode names 1",
		}},
		{"power of two where another policy counts", "--vllm-pd-disaggregation --policy power_of_two --prefill-policy random --decode-policy random" + both, nil},
		{"power of two with ranks", "--vllm-pd-disaggregation --policy power_of_two --intra-node-data-parallel-size 2" + both, nil},
		{"power of two with one rank", "--vllm-pd-disaggregation --decode-policy power_of_two --intra-node-data-parallel-size 2 --prefill http://p:1 --decode http://d:1@1", []string{
			"--decode-policy power_of_two needs at least 2 decode workers and --decode names 1",
		}},
		{"power of two with discovery", "--vllm-pd-disaggregation --policy power_of_two --vllm-discovery-address a:1 --prefill http://p:1", nil},
		{"short prompts and no policy that reads them", "--vllm-pd-disaggregation --pd-short-prompt-bytes 64 --policy random" + both, []string{
			"--pd-short-prompt-bytes needs a policy that reads prompts",
		}},
		{"short prompts and one policy that reads them", "--vllm-pd-disaggregation --pd-short-prompt-bytes 64 --policy random --prefill-policy least_work" + both, nil},
		{"one port for two", "--vllm-pd-disaggregation --vllm-discovery-address *:30000", []string{"--port and the port of --vllm-discovery-address are both 30000"}},
		{"the metrics' port", "--vllm-pd-disaggregation --vllm-discovery-address 127.0.0.1:29000", []string{"--prometheus-port and the port of --vllm-discovery-address are both 29000"}},
		{"one port on two addresses", "--vllm-pd-disaggregation --vllm-discovery-address 127.0.0.2:30000", nil},
		{"demo with workers", "demo --vllm-pd-disaggregation --decode http://d:1", []string{"--prefill, --decode, --vllm-discovery-address: demo brings its own workers"}},
		{"demo with discovery", "demo --vllm-pd-disaggregation --vllm-discovery-address a:1", []string{"--prefill, --decode, --vllm-discovery-address: demo brings its own workers"}},
		{"demo with MoRI-IO", "demo --vllm-pd-disaggregation --kv-connector moriio", []string{"--kv-connector moriio: demo's workers don't register"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(strings.Fields(c.line), nil)
			if err == nil && c.want == nil {
				return
			}
			got := faultsOf(t, err)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("faults %q, want those that begin with %q", got, c.want)
			}
			if exitCode(err) != 2 {
				t.Errorf("exit code %d, want 2", exitCode(err))
			}
		})
	}
}

// A variable that asks for something without the mode is named as such.
func TestPDVariableWithoutTheMode(t *testing.T) {
	_, err := parse(nil, variables(map[string]string{"LOADSTAR_DECODE": "http://d:1", "LOADSTAR_KV_CONNECTOR": "nixl"}))
	want := []string{"LOADSTAR_DECODE is about requests in two phases: add --vllm-pd-disaggregation, or leave it out"}
	if got := faultsOf(t, err); !slices.Equal(got, want) {
		t.Errorf("faults %q, want %q", got, want)
	}
}

func TestFleet(t *testing.T) {
	prefill, decode, regular := actors.RolesOf(actors.Prefill), actors.RolesOf(actors.Decode), actors.RolesOf(actors.Regular)
	for _, c := range []struct {
		name string
		line string
		want []proxy.WorkerSpec
	}{
		{"whole requests", "--worker-urls http://a:1", []proxy.WorkerSpec{{URL: "http://a:1", Roles: regular}}},
		{"nobody yet", "--vllm-pd-disaggregation --vllm-discovery-address a:1", nil},
		{"NIXL", "--prefill http://p:1 --prefill http://q:1 none --prefill http://r:1 7 --decode http://p:1", []proxy.WorkerSpec{
			{URL: "http://p:1", Roles: prefill}, {URL: "http://q:1", Roles: prefill}, {URL: "http://r:1", Roles: prefill, Bootstrap: 7}, {URL: "http://p:1", Roles: decode},
		}},
		{"Mooncake", "--kv-connector mooncake --prefill http://p:1 --prefill http://q:1 none --prefill http://r:1 7 --decode http://d:1", []proxy.WorkerSpec{
			{URL: "http://p:1", Roles: prefill, Bootstrap: 8998}, {URL: "http://q:1", Roles: prefill}, {URL: "http://r:1", Roles: prefill, Bootstrap: 7}, {URL: "http://d:1", Roles: decode},
		}},
		{"both", "--enable-igw --worker-urls http://w:1 http://d:1 --prefill http://p:1 --decode http://d:1", []proxy.WorkerSpec{
			{URL: "http://w:1", Roles: regular}, {URL: "http://d:1", Roles: regular}, {URL: "http://p:1", Roles: prefill}, {URL: "http://d:1", Roles: decode},
		}},
		{"compatible", "--compat --worker-urls http://w:1 --prefill http://p:1 --decode http://d:1", []proxy.WorkerSpec{
			{URL: "http://p:1", Roles: prefill}, {URL: "http://d:1", Roles: decode},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := strings.Fields(c.line)
			if strings.Contains(c.line, "--decode") {
				args = append(args, "--vllm-pd-disaggregation")
			}
			conf, err := parse(args, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.want {
				c.want[i].Priority, c.want[i].Source = proxy.DefaultPriority, proxy.SourceFlags
			}
			if got := fleetOf(conf); !reflect.DeepEqual(got, c.want) {
				t.Errorf("workers %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPhaseOptions(t *testing.T) {
	const line = "--vllm-pd-disaggregation --prefill http://p:1 --decode http://d:1 --decode http://e:1"
	byDefault := proxy.PDOptions{
		PrefillTimeout: 30 * time.Minute, Rescues: 16, RescueTimeout: 30 * time.Second, Expiry: 15 * time.Second, MaxRegistered: 1024,
	}
	for _, c := range []struct {
		name   string
		line   string
		want   func(*proxy.PDOptions)
		policy [3]string // of regular, prefill and decode workers
		text   string
	}{
		{"defaults", line, func(*proxy.PDOptions) {}, [3]string{"least_work", "least_work", "least_work"}, "least_work"},
		{
			"policies", line + " --policy random --prefill-policy least_work --decode-policy power_of_two", func(*proxy.PDOptions) {},
			[3]string{"random", "least_work", "power_of_two"},
			"least_work+power_of_two",
		},
		{
			"one policy", line + " --policy random --prefill-policy least_work", func(*proxy.PDOptions) {},
			[3]string{"random", "least_work", "random"},
			"least_work+random",
		},
		{
			"regular workers beside", line + " --enable-igw --policy random --prefill-policy least_work --decode-policy least_work",
			func(o *proxy.PDOptions) { o.Beside = true },
			[3]string{"random", "least_work", "least_work"},
			"least_work+random",
		},
		{"Mooncake", line + " --kv-connector mooncake", func(o *proxy.PDOptions) { o.Connector = pd.Mooncake }, [3]string{"least_work", "least_work", "least_work"}, "least_work"},
		{"MoRI-IO", "--vllm-pd-disaggregation --vllm-discovery-address a:1 --kv-connector moriio --vllm-discovery-expiry-secs 9 --vllm-discovery-max-workers 8", func(o *proxy.PDOptions) {
			o.Connector, o.Expiry, o.MaxRegistered = pd.MoRIRead, 9*time.Second, 8
		}, [3]string{"least_work", "least_work", "least_work"}, "least_work"},
		{"phases", line + " --prefill-timeout-secs none --pd-short-prompt-bytes 65 --pd-sequential --pd-rescues 0 --pd-rescue-timeout-secs 1", func(o *proxy.PDOptions) {
			o.PrefillTimeout, o.ShortBlocks, o.Sequential, o.Rescues, o.RescueTimeout = 0, 2, true, 0, time.Second
		}, [3]string{"least_work", "least_work", "least_work"}, "least_work"},
		{"whole blocks", line + " --pd-short-prompt-bytes 128", func(o *proxy.PDOptions) { o.ShortBlocks = 2 }, [3]string{"least_work", "least_work", "least_work"}, "least_work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := parse(strings.Fields(c.line), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := byDefault
			c.want(&want)
			o := proxyOptions(conf, slog.New(slog.DiscardHandler))
			if o.PD == nil || !reflect.DeepEqual(*o.PD, want) {
				t.Errorf("options %+v, want %+v", o.PD, want)
			}
			if !slices.Equal(o.Router.Policy[:], c.policy[:]) {
				t.Errorf("policies %q, want %q", o.Router.Policy, c.policy)
			}
			if got := policyText(conf); got != c.text {
				t.Errorf("policies in words %q, want %q", got, c.text)
			}
		})
	}
	if o := proxyOptions(defaultConfig, slog.New(slog.DiscardHandler)); o.PD != nil {
		t.Errorf("options %+v for whole requests, want none", o.PD)
	}
}
