package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Every flag has what --help, the environment and the reader need of it.
func TestEveryFlagIsComplete(t *testing.T) {
	var c config
	names, variables := map[string]bool{}, map[string]bool{}
	for _, o := range commandOptions(&c, demoCommand) {
		t.Run(o.name, func(t *testing.T) {
			if names[o.name] || variables[envName(o.name)] {
				t.Errorf("--%s or %s is there twice", o.name, envName(o.name))
			}
			names[o.name], variables[envName(o.name)] = true, true
			if o.name != strings.ToLower(o.name) || strings.ContainsAny(o.name, "_ =") {
				t.Errorf("name %q, want lower case with dashes", o.name)
			}
			if o.category == "" || o.category != o.GetCategory() {
				t.Errorf("category %q, want one", o.category)
			}
			if first := o.usage[:1]; len(o.usage) < 15 || first != strings.ToLower(first) || strings.HasSuffix(o.usage, ".") {
				t.Errorf("usage %q, want a sentence without capital and full stop", o.usage)
			}
			if (o.one == nil) == (o.many == nil) {
				t.Error("want exactly one way to read it")
			}
			if o.isSwitch() && (o.def != "" || o.many != nil) {
				t.Error("a switch is a single value and off by default")
			}
			if o.from == ours && o.differs != "" {
				t.Errorf("differs %q from a flag that vllm-router doesn't have", o.differs)
			}
			help := o.String()
			for _, want := range []string{"--" + o.name, o.arg, "[" + envName(o.name) + "]", strings.Fields(o.usage)[0]} {
				if !strings.Contains(help, want) {
					t.Errorf("help %q, want %q in it", help, want)
				}
			}
			for line := range strings.SplitSeq(help, "\n") {
				if n := len([]rune(line)); n > 96 {
					t.Errorf("help line of %d columns, want at most 96: %q", n, line)
				}
			}
			if faults := o.read(nil); len(faults) > 0 {
				t.Errorf("the default is wrong: %v", faults)
			}
			if o.IsSet() {
				t.Error("set by its default, want it set by the command line only")
			}
		})
	}
}

// The limits of each flag: the values at the edge are taken, those beyond are
// not, and neither is what is no value of its kind.
func TestFlagValues(t *testing.T) {
	const forever = "1000000000"
	for _, c := range []struct {
		flag string
		good []string
		bad  []string
	}{
		{"host", []string{"0.0.0.0", "::1", "[::1]", "localhost", "fe80::1%eth0"}, []string{"", "http://a", "a:1", "a b", "[a]"}},
		{"port", []string{"0", "1", "65535"}, []string{"", "-1", "65536", "80.0", "http", "0x50"}},
		{"prometheus-host", []string{"127.0.0.1"}, []string{"127.0.0.1:29000"}},
		{"prometheus-port", []string{"0", "65535"}, []string{"65536"}},
		{"max-payload-size", []string{"1", "9223372036854775807"}, []string{"0", "9223372036854775808", "512MB"}},
		{"max-header-bytes", []string{"1024", "16777216"}, []string{"1023", "16777217"}},
		{"max-connections", []string{"1", "16777216"}, []string{"0", "16777217"}},
		{"max-tree-size", []string{"1"}, []string{"0", "-1"}},
		{"intra-node-data-parallel-size", []string{"1", "1024"}, []string{"0", "1025"}},
		{"cache-threshold", []string{"0", "0.0", "1", ".5", "1e-3"}, []string{"-0.1", "1.1", "NaN", "", "half"}},
		{"balance-abs-threshold", []string{"0", "9223372036854775807"}, []string{"-1", "1.5"}},
		{"balance-rel-threshold", []string{"1", "1e9"}, []string{"0.99", "inf", "NaN", "1e999"}},
		{"eviction-interval-secs", []string{"1", forever}, []string{"0", "none", "x"}},
		{"worker-startup-timeout-secs", []string{"0.001", "1", forever}, []string{"0", "none", "1m", "1e3", "-1", "", ".", "1000000001", "0.0001"}},
		{"worker-startup-check-interval", []string{"0.5"}, []string{"0"}},
		{"health-check-interval-secs", []string{"0.2", "60"}, []string{"0", "none"}},
		{"health-check-timeout-secs", []string{"5"}, []string{"0"}},
		{"health-check-endpoint", []string{"/", "/healthz?full=1"}, []string{"", "health", "/a b", "/a#b", "/a\r\nb"}},
		{"health-failure-threshold", []string{"1"}, []string{"0"}},
		{"health-success-threshold", []string{"1"}, []string{"0"}},
		{"retry-max-retries", []string{"1"}, []string{"0"}},
		{"retry-initial-backoff-ms", []string{"1"}, []string{"0", "1.5"}},
		{"retry-max-backoff-ms", []string{"50", "1000000000000"}, []string{"0", "1000000000001"}},
		{"retry-backoff-multiplier", []string{"1"}, []string{"0.9", "inf"}},
		{"retry-jitter-factor", []string{"0", "1"}, []string{"-0.1", "1.01"}},
		{"cb-failure-threshold", []string{"1", "4294967295"}, []string{"0"}},
		{"cb-success-threshold", []string{"1"}, []string{"0"}},
		{"cb-timeout-duration-secs", []string{"1"}, []string{"0"}},
		{"cb-window-duration-secs", []string{"1"}, []string{"0"}},
		{"retry-budget", []string{"0", "0.1", "1000", "none", "None"}, []string{"-0.1", "1000.1", "NaN", "inf", "", "10%"}},
		{"retry-budget-floor", []string{"0", "1000000"}, []string{"-1", "1000001", "0.5", "none"}},
		{"cb-max-open-share", []string{"0.01", "0.5", "1"}, []string{"0", "0.009", "1.01", "NaN", "none", "50%"}},
		{"slow-start-secs", []string{"0", "none", "0.5", forever}, []string{"-1", "x"}},
		{"wedged-after-secs", []string{"0", "none", "0.5", forever}, []string{"-1", "x"}},
		{"max-concurrent-requests", []string{"0", "none", "None", "1", "32768", "9223372036854775807"}, []string{"", "-1", "1.5", "x"}},
		{"max-worker-inflight", []string{"0", "none", "1", "9223372036854775807"}, []string{"", "-1", "1.5", "x"}},
		{"rate-limit-tokens-per-second", []string{"0", "none", "0.5", "1", "1000000000"}, []string{"", "-1", "1000000001", "NaN", "inf", "10/s"}},
		{"queue-size", []string{"0", "100", "65536"}, []string{"", "-1", "65537", "none"}},
		{"queue-timeout-secs", []string{"0.001", "60.0", forever}, []string{"0", "none", "-1"}},
		{"queue-ageing-secs", []string{"0.001", "5", forever}, []string{"0", "none", "-1"}},
		{"priority-header", []string{"X-Priority", "p"}, []string{"", "a b", "a:", "a,b", "ä"}},
		{"tenant-header", []string{"X-Tenant-ID", "p"}, []string{"", "a b", "a:", "a,b", "ä"}},
		{"request-deadline-ms", []string{"0", "none", "None", "1", "1000000000000"}, []string{"", "-1", "1.5", "1000000000001", "1s"}},
		{"request-timeout-secs", []string{"0", "none", "None", "0.5", forever}, []string{"-1", "never", "0.0001"}},
		{"connect-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"first-byte-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"idle-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"pool-idle-timeout-secs", []string{"0", "4"}, []string{"4.1", "none"}},
		{"client-header-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"client-body-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"client-write-timeout-secs", []string{"0", "none"}, []string{"x"}},
		{"client-idle-timeout-secs", []string{"1"}, []string{"0", "none"}},
		{"shutdown-delay-secs", []string{"0", "15"}, []string{"none", "-1"}},
		{"shutdown-grace-period-secs", []string{"0", "300"}, []string{"none"}},
		{"policy", []string{"random", "round_robin", "cache_aware", "consistent_hash", "rendezvous_hash", "sticky_least_loaded", "least_work"}, []string{"", "kv-aware", "Random", "round-robin"}},
		{
			"kv-event-source",
			[]string{"http://a:1=tcp://b:2", "http://a:1=tcp://b:2,tcp://b:3", "http://a@1=tcp://[::1]:2", "http://a=tcp://b:1,http://c=tcp://b:1"},
			[]string{"", "http://a:1", "http://a:1=", "tcp://b:2", "a=tcp://b:2", "http://a=tcp://*:1", "http://a=tcp://b", "http://a=tcp://b:0", "http://a=ipc://x", "http://a=tcp://b:1/x", "http://a=tcp://b:1,http://a=tcp://b:2"},
		},
		{"kv-event-replay-source", []string{"http://a:1=tcp://b:2"}, []string{"", "http://a:1"}},
		{"kv-event-block-size", []string{"1", "16", "1024"}, []string{"0", "1025", "x"}},
		{"kv-event-model", []string{"m", ""}, nil},
		{"kv-penalty-host", []string{"0", "1", "0.5"}, []string{"-1", "1.1"}},
		{"kv-penalty-external", []string{"0", "1"}, []string{"x"}},
		{"kv-penalty-disk", []string{"0", "1"}, []string{"x"}},
		{"pd-kv-events", []string{"true", "false"}, []string{"yes"}},
		{"vllm-pd-disaggregation", []string{"true", "0"}, []string{"yes"}},
		{
			"prefill",
			[]string{"http://a:1", "https://a", "http://a:1 8998", "http://a:1 1", "http://a:1 65535", "http://a:1 none", "http://a:1 None"},
			[]string{"", "a:1", "8998", "none", "grpc://a:1", "http://a:1,http://b:1", "http://a:1 abc", "http://a:1 0", "http://a:1 65536", "http://a:1 -1", "http://a:1 8998 8999"},
		},
		{"decode", []string{"http://a:1", "https://a"}, []string{"", "a:1", "grpc://a:1", "http://a:1 8998"}},
		{"prefill-policy", []string{"random", "least_work"}, []string{"", "kv-aware", "Random"}},
		{"decode-policy", []string{"random", "power_of_two"}, []string{"", "kv-aware", "Random"}},
		{"kv-connector", []string{"nixl", "mooncake", "moriio"}, []string{"", "NIXL", "lmcache"}},
		{"vllm-discovery-address", []string{"0.0.0.0:1", "*:30001", ":30001", "[::1]:65535", "router:30001"}, []string{"", "a", "a:", "a:0", "a:65536", "::1:1", "tcp://a:1", "a b:1"}},
		{"prefill-timeout-secs", []string{"0", "none", "0.5", forever}, []string{"-1", "x"}},
		{"pd-short-prompt-bytes", []string{"0", "1", "1048576"}, []string{"-1", "1048577", "1kB"}},
		{"pd-sequential", []string{"true", "false"}, []string{"yes"}},
		{"pd-rescues", []string{"0", "4096"}, []string{"-1", "4097", "none"}},
		{"pd-rescue-timeout-secs", []string{"0.001", "30"}, []string{"0", "none"}},
		{"vllm-discovery-expiry-secs", []string{"1", "15", forever}, []string{"0", "0.9", "none"}},
		{"vllm-discovery-max-workers", []string{"1", "4096"}, []string{"0", "4097"}},
		{
			"peers-nats",
			[]string{"nats://a", "nats://a:4222", "tls://a:4222/", "nats://[::1]:1", "nats://u:p%40@a:1,nats://t@b:2", "tls://10.0.0.1"},
			[]string{"", "a:4222", "http://a:4222", "nats://", "nats://:4222", "nats://a:0", "nats://a:65536", "nats://a:b", "nats://a/x", "nats://a?x=1", "nats://a#x", "nats://a b:1", "nats://a,", "nats://u:%zz@a", "nats://a:1\n"},
		},
		{
			"peers-nats-listen",
			[]string{"127.0.0.1:4222", "127.0.0.1:0", "[::1]:1", "router:4222", "nats://a:1", "nats://a:1/", "nats://u:p%40@a:1", "nats://t@0.0.0.0:1"},
			[]string{"", "a", ":1", "nats://a", "a:65536", "a:1:2", "http://a:1", "tls://a:1", "nats://a:1/x", "nats://a:1?x", "nats://a:1#x", "u:p@a:1 ", "nats://@a:1", "nats://:@a:1", "nats://:p@a:1", "nats://u:@a:1", "nats://u:%zz@a:1"},
		},
		{
			"peers-nats-routes",
			[]string{"a:6222", "nats://a:6222", "nats://a:1/,[::1]:2,10.0.0.1:3"},
			[]string{"", "a", "nats://a", "a:0", "a:65536", "a:1,", "nats://u:p@a:1", "tls://a:1", "http://a:1", "a b:1", "a:1/x"},
		},
		{"peers-nats-creds", []string{"router.creds"}, []string{""}},
		{"peers-group", []string{"loadstar", "a.b-c_d.E9"}, []string{"", ".", "a.", ".a", "a..b", "a b", "a*", ">", "a:b", "ä", strings.Repeat("a", 129)}},
		{"peers-name", []string{"r", "router-1.x:30000_a", strings.Repeat("n", 64)}, []string{"", "a b", "a/b", "ä", strings.Repeat("n", 65)}},
		{"log-level", []string{"debug", "info", "warn", "warning", "WARNING", "error", "critical"}, []string{"", "trace", "3"}},
		{"log-format", []string{"text", "json"}, []string{"logfmt"}},
		{"histogram-buckets", []string{"prometheus", "vmrange"}, []string{"native"}},
		{"api-key", []string{"", "sk-1_2.3~/+=="}, []string{"a b", "a\n", "ä"}},
		{"total-timeout-secs", []string{"3600", "0", "none"}, []string{"-1", "1h"}},
		{"heartbeat-secs", []string{"15", "0.5", "0", "none"}, []string{"-1", "x"}},
		{"max-bodies-memory", []string{"2147483648", "0"}, []string{"-1", "2G"}},
		{"client-api-key", []string{"k", "team-a:k", "a:b:c", "a,b"}, []string{"", "a b", "a b:c", ":k", "a:", "ä"}},
		{"client-api-keys-file", []string{"keys.txt"}, []string{""}},
		{"admin-api-key", []string{"k", "a:b"}, []string{"", "a b", "a\n"}},
		{"admin-listen", []string{"127.0.0.1:0", "[::1]:1", "localhost:1"}, []string{"", ":1", "a"}},
		{"allowed-worker-hosts", []string{"a", "a,b", "*.example.com,10.0.0.0/8,::1"}, []string{"", ",", "a,,b", "a,", "*", "http://a", "a:80", "10.0.0.0/33"}},
		{"worker-tls-ca", []string{"a.pem"}, []string{""}},
		{"worker-tls-cert", []string{"a.pem"}, []string{""}},
		{"worker-tls-key", []string{"a.pem"}, []string{""}},
		{"request-id-headers", []string{"X-Request-ID"}, []string{"a b", "a:", "ä", "a,b"}},
		{"cors-allowed-origins", []string{"*", "null", "https://a.example", "http://[::1]:3000", "app://ui"}, []string{"a.example", "https://a.example/", "https://", "https://a b", "https://a,https://b"}},
		{"worker-urls", []string{"http://a", "https://a:8443/v1", "http://a:1@0", "http://[::1]:1@1023"}, []string{"", "a", "http://a:1@1024", "http://a:1@-1", "http://a:1@", "http://a:1@0@1", "http://me@a:1", "http://me:and@a@1", "grpc://a:1", "grpcs://a:1", "http://a,http://b", "http://a http://b"}},
		{"access-log", []string{"true", "False", "1", "0"}, []string{"", "yes", "2"}},
		{"tls-cert-path", []string{"a.pem"}, nil},
		{"tls-key-path", []string{"a.pem"}, nil},
		{"log-dir", []string{"", "logs"}, nil},
		{"listen", []string{"127.0.0.1:0", "[::1]:65535", "localhost:1"}, []string{"", "a", ":1", "a:", "a:65536", "::1:1"}},
	} {
		t.Run(c.flag, func(t *testing.T) {
			for _, v := range c.good {
				if faults := valueFaults(c.flag, v); len(faults) > 0 {
					t.Errorf("%q: %v, want it taken", v, faults)
				}
			}
			for _, v := range c.bad {
				faults := valueFaults(c.flag, v)
				if len(faults) != 1 || !strings.HasPrefix(faults[0], "--"+c.flag) {
					t.Errorf("%q: faults %q, want one that names the flag", v, faults)
				}
			}
		})
	}
}

// valueFaults gives what is wrong with one value of a flag, leaving out what it
// contradicts.
func valueFaults(flag, value string) []string {
	var c config
	for _, o := range commandOptions(&c, demoCommand) {
		if o.name != flag {
			continue
		}
		if err := (*typed)(o).Set(value); err != nil {
			return []string{err.Error()}
		}
		var lines []string
		for _, err := range o.read(nil) {
			lines = append(lines, err.Error())
		}
		return lines
	}
	return []string{"no such flag"}
}

// A value that is wrong leaves the default, so that it isn't reported a second
// time as a contradiction.
func TestWrongValueLeavesTheDefault(t *testing.T) {
	var c config
	for _, o := range options(&c) {
		if o.name == "retry-max-backoff-ms" {
			_ = (*typed)(o).Set("0")
		}
		o.read(nil)
	}
	if want := 30 * time.Second; c.Retry.MaxBackoff != want {
		t.Errorf("longest backoff %v, want %v", c.Retry.MaxBackoff, want)
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"policy", "round-robin", `--policy: "round-robin" is unknown: did you mean round_robin? give one of random, round_robin,`},
		{"policy", "x", `--policy: "x" is unknown: give one of random,`},
		{"worker-urls", "http://a,http://b", "separated by spaces: --worker-urls http://A:8000 http://B:8000"},
		{"worker-urls", "", "--worker-urls needs at least one URL"},
		{"worker-urls", "grpc://bob:secret@a:1", "--worker-urls grpc://…@a:1 is not supported: "},
		{"worker-urls", "http://bob:secret@a:1 ", `"http://…@a:1 " holds a comma or a space`},
		{"prefill", "http://a:1 abc", `--prefill: invalid bootstrap port "abc": it must be a number from 1 to 65535, or none`},
		{"prefill", "http://a:1 1 2", `--prefill: "http://a:1 1 2" is too much: a URL is followed by one bootstrap port`},
		{"prefill", "http://a:1,http://b:1", "separated by spaces: --prefill http://A:8000 http://B:8000"},
		{"prefill", "grpc://bob:secret@a:1 8998", "--prefill grpc://…@a:1 is not supported: "},
		{"decode", "b:1", `--decode: "b:1" has no scheme: write it as http://HOST:PORT`},
		{"kv-event-source", "tcp://a:1", `--kv-event-source: "tcp://a:1" names no worker: write URL=tcp://HOST:PORT`},
		{"kv-event-source", "http://a=a:1", `--kv-event-source: "a:1" is no endpoint: write URL=tcp://HOST:PORT, with a host that this router reaches`},
		{"kv-event-source", "http://a=tcp://b:1,tcp://b:1", "--kv-event-source: tcp://b:1 is named twice for http://a:80: leave one out"},
		{"shadow-policy", "kv_aware", "--shadow-policy: kv_aware would be least_work"},
		{"kv-connector", "nixle", `--kv-connector: "nixle" is unknown: did you mean nixl? give one of nixl, mooncake, moriio`},
		{"vllm-discovery-address", "tcp://a:1", `--vllm-discovery-address: "tcp://a:1" is not an address: write HOST:PORT, such as 0.0.0.0:30001, without a scheme`},
		{"decode", "http://bob:secret@1", `--decode: "http://…@1" holds user info`},
		{"admin-api-key", "secret\n", "--admin-api-key: the key holds a space, a line end"},
		{"admin-api-key", "", "--admin-api-key: the key is empty: give one, or leave the flag out"},
		{"client-api-key", "secret key", "--client-api-key: key 1: the key holds a space"},
		{"client-api-key", "", "--client-api-key needs at least one key"},
		{"allowed-worker-hosts", "http://a", `--allowed-worker-hosts: "http://a" is no host: write a name, *.example.com,`},
		{"api-key", "secret\n", "--api-key: the key holds a space, a line end"},
		{"request-timeout-secs", "5m", `--request-timeout-secs: "5m" is not a number of seconds from 0.001 to 1000000000, or none`},
		{"retry-max-retries", "0", `--retry-max-retries: "0" is not a whole number of at least 1`},
		{"balance-rel-threshold", "0", `--balance-rel-threshold: "0" is not a number of at least 1`},
		{"max-concurrent-requests", "-1", `--max-concurrent-requests: "-1" is not a whole number of at least 0, or none`},
		{"rate-limit-tokens-per-second", "10/s", `--rate-limit-tokens-per-second: "10/s" is not a number from 0 to 1e+09, or none`},
		{"retry-budget", "10%", `--retry-budget: "10%" is not a number from 0 to 1000, or none`},
		{"request-deadline-ms", "1s", `--request-deadline-ms: "1s" is not a whole number of milliseconds from 1 to 1000000000000, or none`},
		{"priority-header", "a b", `--priority-header: "a b" is not a header's name: write it as x-priority`},
		{"tenant-header", "a b", `--tenant-header: "a b" is not a header's name: write it as x-tenant`},
		{"peers-nats", "http://u:secret@a:1", "--peers-nats: URL 1: it begins neither with nats:// nor with tls://"},
		{"peers-nats", "nats://a:1,nats://u:secret@%zz:1", "--peers-nats: URL 2: it can't be read: write nats://HOST:PORT"},
		{"peers-nats", "nats://u:secret@a:1/x", "--peers-nats: URL 1: there is something behind the port: write nats://HOST:PORT"},
		{"peers-nats", "", "--peers-nats needs at least one URL"},
		{"peers-nats-listen", "http://u:secret@a:1", "--peers-nats-listen: it is neither HOST:PORT nor nats://USER:PASSWORD@HOST:PORT"},
		{"peers-nats-listen", "nats://u:secret/@a:1", "--peers-nats-listen: it can't be read: write HOST:PORT or nats://USER:PASSWORD@HOST:PORT, with anything but letters and digits in user and password as %XX"},
		{"peers-nats-listen", "nats://u:secret@a", "--peers-nats-listen: its host or port is none: write HOST:PORT"},
		{"peers-nats-listen", "tls://u:secret@a:1", "--peers-nats-listen: the server of this process speaks no TLS"},
		{"peers-nats-listen", "nats://secret:@a:1", "--peers-nats-listen: user, password or token is empty"},
		{"peers-nats-routes", "a:1,nats://u:secret@a:1", "--peers-nats-routes: address 2: all servers ask for the same user and password: give them in --peers-nats-listen alone"},
		{"peers-nats-routes", "a", "--peers-nats-routes: address 1: it is no address: write HOST:PORT"},
		{"peers-name", "a b", `--peers-name: "a b" is no name of a router: give 1 to 64 letters, digits`},
		{"peers-group", "a.>", `--peers-group: "a.>" is no group: give words of letters, digits, - and _, joined by points`},
		{"log-level", "loud", `--log-level: "loud" is not a log level: give one of debug, info, warning, error, critical`},
	} {
		t.Run(c.flag+" "+c.value, func(t *testing.T) {
			got := strings.Join(valueFaults(c.flag, c.value), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("message %q, want %q in it", got, c.want)
			}
			if strings.Contains(got, "secret") {
				t.Errorf("message %q tells a secret", got)
			}
		})
	}
}

func TestWholeKeepsToItsType(t *testing.T) {
	var n int64
	if err := readWhole(&n, 0, math.MaxInt64)("9223372036854775807"); err != nil || n != math.MaxInt64 {
		t.Errorf("%d, %v, want %d", n, err, int64(math.MaxInt64))
	}
}
