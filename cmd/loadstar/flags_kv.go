package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstar/actors/kvevents"
	"loadstar/actors/workerurl"
)

// policyKVAware goes by what workers tell, so it can't be asked beside another.
const policyKVAware = "kv_aware"

// kvOptions is what workers tell of their KV caches, and how kv_aware goes by it.
func kvOptions(kv *kvConfig) []*option {
	const category = "events of KV caches"
	return []*option{
		{
			name: "kv-event-source", arg: "URL=ENDPOINT[,ENDPOINT] ...", category: category, needs: "URL=ENDPOINT",
			usage: "with --policy kv_aware: hear from these endpoints, as tcp://HOST:PORT, what the worker at URL holds in its KV cache; " +
				"one for each data-parallel rank, or one whose port rises with the rank",
			differs: "workers are not asked for their endpoints here: name them",
			many:    readEndpoints(&kv.Sources),
		},
		{
			name: "kv-event-replay-source", arg: "URL=ENDPOINT[,ENDPOINT] ...", category: category, needs: "URL=ENDPOINT",
			usage: "ask these endpoints, in the order of --kv-event-source, for events that were missed; without, a worker that loses some is known anew from there on",
			many:  readEndpoints(&kv.Replays),
		},
		{
			name: "kv-event-block-size", arg: "TOKENS", category: category, def: "16",
			usage: "take the workers' KV-cache blocks to have TOKENS tokens, as their --block-size says",
			one:   readWhole(&kv.BlockSize, 1, kvevents.MaxBlockSize),
		},
		{
			name: "kv-event-model", arg: "MODEL", category: category, implied: "any",
			usage:   "go by the events for requests of MODEL and its adapters only",
			differs: "there the sources' model must be known; here it need not",
			one:     readText(&kv.Model),
		},
		{
			name: "kv-penalty-host", arg: "SHARE", category: category, def: "0.8",
			usage: "count a block in the worker's own memory as SHARE of one in its GPU's (0 to 1)",
			one:   readDecimal(&kv.Host, 0, 1),
		},
		{
			name: "kv-penalty-external", arg: "SHARE", category: category, def: "0.6",
			usage: "count a block that lies outside of the worker as SHARE of one in its GPU's memory (0 to 1)",
			one:   readDecimal(&kv.External, 0, 1),
		},
		{
			name: "kv-penalty-disk", arg: "SHARE", category: category, def: "0.3",
			usage: "count a block on the worker's disk as SHARE of one in its GPU's memory (0 to 1)",
			one:   readDecimal(&kv.Disk, 0, 1),
		},
		{
			name: "pd-kv-events", category: category,
			usage:   "has no effect but to demand a policy kv_aware: with that, workers of both phases are listened to",
			differs: "no effect here",
			one:     readSwitch(&kv.PD),
		},
		{
			name: "router-temperature", arg: "T", category: category, def: "0",
			usage:   "with --policy kv_aware, draw the worker that prefills: one that costs C tokens of prompt more than the cheapest has e^(-C/T) of its chance, and with 0 the cheapest is taken",
			differs: "a worker's tokens are multiplied by its requests and one there; here each request is 64 tokens more, and a miss counts for more under backlog",
			one:     readDecimal(&kv.Temperature, 0, math.Inf(1)),
		},
		{
			name: "kv-aware-session-affinity-ttl-secs", arg: "SECONDS", category: category,
			usage: "with --policy kv_aware, keep a session at its worker until SECONDS (1 to 31536000) after its last request, while that isn't too busy: by --balance-abs-threshold and " +
				"--balance-rel-threshold, or, among decode workers, by its share of the requests",
			differs: "there without prefill and decode a busy worker keeps its sessions too, and time runs from a request's end, here from when its worker is chosen",
			one:     readSeconds(&kv.AffinityTTL, time.Second, 365*24*time.Hour),
		},
	}
}

// readEndpoints reads workers and their endpoints. A value without a worker adds to the
// one before it: commas separate values in the environment too.
func readEndpoints(dst *map[string][]string) func([]string) []error {
	return func(values []string) []error {
		all := make(map[string][]string)
		var faults []error
		worker := ""
		for _, v := range values {
			for part := range strings.SplitSeq(v, ",") {
				name, endpoint, found := strings.Cut(part, "=")
				if !found {
					name, endpoint = worker, part
				} else if canonical, err := workerurl.Name(name); err != nil {
					faults = append(faults, err)
					all[name] = append(all[name], endpoint)
					continue
				} else if name = canonical; len(all[name]) > 0 {
					faults = append(faults, fmt.Errorf("%s is named twice: give all its endpoints at once, with commas between", name))
					continue
				}
				addr, ok := kvevents.Address(endpoint)
				twice := slices.Contains(all[name], addr)
				all[name] = append(all[name], addr)
				switch {
				case name == "":
					faults = append(faults, fmt.Errorf("%q names no worker: write URL=tcp://HOST:PORT", part))
				case !ok:
					faults = append(faults, fmt.Errorf("%q is no endpoint: write URL=tcp://HOST:PORT, with a host that this router reaches", endpoint))
				case twice:
					faults = append(faults, fmt.Errorf("%s is named twice for %s: leave one out", endpoint, name))
				}
				worker = name
			}
		}
		*dst = all
		return faults
	}
}
