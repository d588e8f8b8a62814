package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstar/actors/workerurl"
)

// pdCategory is the heading of the flags of requests in two phases, which mean
// nothing without pdFlag.
const (
	pdCategory = "prefill and decode"
	pdFlag     = "vllm-pd-disaggregation"
)

// pdOptions is how requests are served in two phases, and by whom. They are read
// after --request-timeout-secs, which is the default of one.
func pdOptions(c *config) []*option {
	pd := &c.PD
	return slices.Concat(pdWorkerOptions(pd), phaseSelectorOptions(&c.Sources.Kubernetes), pdPhaseOptions(c), discoveryOptions(&pd.Discovery))
}

// pdWorkerOptions is who serves a phase.
func pdWorkerOptions(pd *pdConfig) []*option {
	return []*option{
		{
			name: pdFlag, category: pdCategory,
			usage: "serve each request in two phases: a prefill worker processes the prompt, a decode worker makes the answer; " +
				"needs --prefill and --decode, or --vllm-discovery-address, or workers that are discovered",
			differs: "--worker-urls beside it, without --enable-igw, is refused here, ignored with --compat",
			one:     readSwitch(&pd.Enabled),
		},
		{
			name: "prefill", arg: "URL [PORT] ...", category: pdCategory, needs: "URL", joined: true,
			usage: "process prompts at these workers; PORT is that of the worker's Mooncake bootstrap server, or none " +
				"(default with mooncake: 8998); a worker named by --decode too serves both phases",
			differs: "one worker for each --prefill there; ignored beside --vllm-discovery-address there",
			many:    prefillWorkers(&pd.Prefill),
		},
		{
			name: "decode", arg: "URL ...", category: pdCategory, needs: "URL",
			usage:   "make answers at these workers",
			differs: "one worker for each --decode there; ignored beside --vllm-discovery-address there",
			many:    workerURLs("decode", &pd.Decode),
		},
		{
			name: "prefill-policy", arg: "POLICY", category: pdCategory, implied: "--policy",
			usage:   "choose prefill workers by POLICY, one of those of --policy",
			differs: "as --policy",
			one:     readOneOf(&pd.PrefillPolicy, "policy", policyNames...),
		},
		{
			name: "decode-policy", arg: "POLICY", category: pdCategory, implied: "--policy",
			usage:   "choose decode workers by POLICY, one of those of --policy",
			differs: "as --policy",
			one:     readOneOf(&pd.DecodePolicy, "policy", policyNames...),
		},
		{
			name: "kv-connector", arg: "NAME", category: pdCategory, def: string(connectorNIXL),
			usage:   "tell workers to hand KV caches over by nixl, mooncake or moriio, which needs --vllm-discovery-address",
			differs: "what can't work is refused here only: mooncake beside --vllm-discovery-address, moriio beside --prefill and --decode",
			one:     readOneOf(&pd.Connector, "kv-connector", connectorNIXL, connectorMooncake, connectorMoRI),
		},
	}
}

// The bounds of --pd-short-prompt-bytes and --pd-rescues.
const (
	maxShortPrompt = 1 << 20 // prompts are told apart up to here
	maxRescues     = 4096
)

// pdPhaseOptions is how the two requests are sent.
func pdPhaseOptions(c *config) []*option {
	pd := &c.PD
	return []*option{
		{
			name: "prefill-timeout-secs", arg: "SECONDS", category: pdCategory, implied: "--request-timeout-secs", from: ours,
			usage: "take a prefill whose whole answer takes longer for failed; 0 or none waits for ever",
			one:   readSecondsOrNone(&c.Timeouts.Prefill),
		},
		{
			name: "pd-short-prompt-bytes", arg: "BYTES", category: pdCategory, def: "0", from: ours,
			usage: "leave a request to its decode worker alone if that lacks less than BYTES of the prompt, " +
				"in blocks of 64; 0 splits every request",
			one: readWhole(&pd.ShortPromptBytes, 0, maxShortPrompt),
		},
		{
			name: "pd-sequential", category: pdCategory, from: ours,
			usage: "never send both requests at once, but where the connector can't do otherwise",
			one:   readSwitch(&pd.Sequential),
		},
		{
			name: "pd-rescues", arg: "N", category: pdCategory, def: "16", from: ours,
			usage: "when a client left between the phases, have a decode worker fetch what was prefilled, " +
				"which frees the prefill worker's memory, at most N times at once; 0 leaves it to the engine's own timer",
			one: readWhole(&pd.Rescues, 0, maxRescues),
		},
		{
			name: "pd-rescue-timeout-secs", arg: "SECONDS", category: pdCategory, def: "30", from: ours,
			usage: "give up such a fetch after SECONDS",
			one:   readSeconds(&pd.RescueTimeout, shortest, longest),
		},
	}
}

// minExpiry is the shortest time that a registered worker may be silent.
const minExpiry = time.Second

// discoveryOptions is how workers register themselves.
func discoveryOptions(d *discoveryConfig) []*option {
	return []*option{
		{
			name: "vllm-discovery-address", arg: "HOST:PORT", category: pdCategory,
			usage: "let prefill and decode workers register over ZMQ at HOST:PORT, a host of * being every interface; " +
				"workers of --prefill and --decode are used beside them",
			differs: "an address that can't be used is a warning there, and ends the router here",
			one:     readDiscovery(&d.Listen),
		},
		{
			name: "vllm-discovery-expiry-secs", arg: "SECONDS", category: pdCategory, def: "15", from: ours,
			usage: "drop a registered worker that was silent for SECONDS; workers ping every 3 to 5 (at least 1)",
			one:   readSeconds(&d.Expiry, minExpiry, longest),
		},
		{
			name: "vllm-discovery-max-workers", arg: "N", category: pdCategory, def: "1024", from: ours,
			usage: "let at most N workers be registered at once",
			one:   readWhole(&d.MaxWorkers, 1, maxWorkers),
		},
	}
}

// outsidePD reports each flag of two phases, or variable, that asks for something
// while requests are served whole.
func outsidePD(opts []*option, env environment) []error {
	var faults []error
	for _, o := range opts {
		if o.name == pdFlag && len(o.read(env)) > 0 {
			return nil // it may have been meant to be true
		}
		if o.category != pdCategory || o.name == pdFlag {
			continue
		}
		subject, values, ok := o.source(env)
		none := o.def
		if o.isSwitch() {
			none = "false"
		}
		if ok && (len(values) != 1 || none == "" || !sameValue(none, values[0])) {
			faults = append(faults, fmt.Errorf("%s is about requests in two phases: add --%s, or leave it out", subject, pdFlag))
		}
	}
	return faults
}

// joinPorts joins what follows a URL to it, so that a worker is one value.
func joinPorts(values []string) []string {
	var workers []string
	for i, v := range values {
		if i > 0 && !strings.Contains(v, "://") {
			workers[len(workers)-1] += " " + v
			continue
		}
		workers = append(workers, v)
	}
	return workers
}

// prefillWorkers reads workers as joinPorts leaves them, each once. One that is
// wrong still counts, so that it isn't reported again as one too few.
func prefillWorkers(dst *[]prefillWorker) func([]string) []error {
	return func(values []string) []error {
		var workers []prefillWorker
		var faults []error
		for _, v := range values {
			w, err := parsePrefill(v)
			same := func(known prefillWorker) bool { return known.URL == w.URL }
			switch i := slices.IndexFunc(workers, same); {
			case err != nil:
				faults = append(faults, err)
				workers = append(workers, w)
			case i < 0:
				workers = append(workers, w)
			case workers[i] != w:
				faults = append(faults, fmt.Errorf("%q is there twice, with two bootstrap ports: name it once", workerurl.Redacted(w.URL)))
			}
		}
		*dst = workers
		return faults
	}
}

func parsePrefill(value string) (prefillWorker, error) {
	words := append(strings.Fields(value), "")
	url, err := workerURL("prefill", words[0])
	if err != nil {
		return prefillWorker{URL: words[0]}, err
	}
	w := prefillWorker{URL: url}
	if len(words) > 3 {
		return w, fmt.Errorf("%q is too much: a URL is followed by one bootstrap port, or none", value)
	}
	switch port := words[1]; {
	case port == "":
	case strings.EqualFold(port, "none"):
		w.Bootstrap = noBootstrap
	default:
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return w, fmt.Errorf("invalid bootstrap port %q: it must be a number from 1 to 65535, or none", port)
		}
		w.Bootstrap = int(n)
	}
	return w, nil
}

// readDiscovery reads an address as ZeroMQ has it, where a star is every interface.
func readDiscovery(dst *listenConfig) func(string) error {
	return func(value string) error {
		h, p, err := net.SplitHostPort(value)
		if h == "*" {
			h = ""
		}
		bare, ok := parseHost(h)
		port, perr := strconv.ParseUint(p, 10, 16)
		if err != nil || perr != nil || port == 0 || !ok && h != "" {
			return fmt.Errorf("%q is not an address: write HOST:PORT, such as 0.0.0.0:30001, without a scheme", value)
		}
		*dst = listenConfig{Host: bare, Port: int(port)}
		return nil
	}
}
