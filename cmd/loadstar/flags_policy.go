package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/actors/policy"
)

// policyPowerOfTwo is the one policy that cannot do with a single worker.
const policyPowerOfTwo = "power_of_two"

// policyNames is every policy, as flags name them.
var policyNames = []string{
	"random", "round_robin", policyPowerOfTwo, "cache_aware",
	"consistent_hash", "rendezvous_hash", "sticky_least_loaded", "least_work", policyKVAware,
}

// policyOptions is how a worker is chosen for a request. --compat has been read
// before.
func policyOptions(c *config) []*option {
	const category = "routing"
	p := &c.Policy
	thresholds := []*option{
		{
			name: "cache-threshold", arg: "SHARE", category: category, def: "0.3",
			usage: "with cache_aware, follow a cached prefix if it is more than this share of the prompt (0 to 1)",
			one:   readDecimal(&p.CacheThreshold, 0, 1),
		},
		{
			name: "balance-abs-threshold", arg: "N", category: category, def: "64",
			usage: "with cache_aware, take loads for unbalanced if they differ by more than N requests and by --balance-rel-threshold",
			one:   readWhole(&p.BalanceAbs, 0, math.MaxInt),
		},
		{
			name: "balance-rel-threshold", arg: "FACTOR", category: category, def: "1.5",
			usage: "with cache_aware, take loads for unbalanced if the highest is more than FACTOR times the lowest, " +
				"and by --balance-abs-threshold (at least 1)",
			one: readDecimal(&p.BalanceRel, 1, math.Inf(1)),
		},
	}
	all := []*option{
		{
			name: "policy", arg: "POLICY", category: category,
			implied: "least_work; cache_aware with --compat or a threshold of cache_aware's",
			presume: func(env environment) string {
				tuned := slices.ContainsFunc(thresholds, func(o *option) bool {
					_, _, given := o.source(env)
					return given
				})
				if c.Compat || tuned {
					return "cache_aware"
				}
				return "least_work"
			},
			usage: "choose workers by random, round_robin, power_of_two, cache_aware, " +
				"consistent_hash, rendezvous_hash, sticky_least_loaded, least_work or kv_aware, which needs --kv-event-source",
			differs: "cache_aware there, whatever else is given; least_work is new; rendezvous_hash is in the Rust front end only; kv_aware is exact here for prompts of token ids only, and needs --kv-event-source",
			one:     readOneOf(&p.Name, "policy", policyNames...),
		},
		{
			name: "shadow-policy", arg: "POLICY ...", category: category, from: ours,
			usage: "ask these policies too, at most 4, and count what they would have done without doing it: loadstar_shadow_* metrics",
			many:  shadowPolicies(&p.Shadows),
		},
	}
	all = append(all, thresholds...)
	return append(all, []*option{
		{
			name: "worker-backlog-tokens", arg: "N", category: category, from: ours,
			implied: "8192; 0 with --compat",
			presume: func(environment) string {
				if c.Compat {
					return "0"
				}
				return strconv.Itoa(policy.BacklogTokens)
			},
			usage: "with least_work or kv_aware, have streamed requests wait here, the short ones first, while their worker has two requests and N tokens of prompt, at four bytes, " +
				"that it hasn't come to; not less than an engine computes in a step; 0 sends them at once",
			one: readWhole(&p.BacklogTokens, 0, 1<<30),
		},
		{
			name: "max-tree-size", arg: "BYTES", category: category, def: "33554432",
			usage:   "keep all prefix trees together within BYTES of memory",
			differs: "characters for each worker and tree there",
			one:     readWhole(&p.MaxTreeBytes, 1, math.MaxInt64),
		},
		{
			name: "eviction-interval-secs", arg: "SECONDS", category: category, def: "120",
			usage:   "has no effect: trees are kept within --max-tree-size at every moment",
			differs: "no effect here; the Rust front end calls it --eviction-interval, which is understood too",
			one:     readSeconds(new(time.Duration), shortest, longest),
		},
	}...)
}

// shadowPolicies reads the names of policies, each once.
func shadowPolicies(dst *[]string) func([]string) []error {
	others := slices.DeleteFunc(slices.Clone(policyNames), func(name string) bool { return name == policyKVAware })
	return func(values []string) []error {
		names, faults := []string{}, []error(nil)
		for _, v := range values {
			switch {
			case !slices.Contains(policyNames, v):
				faults = append(faults, fmt.Errorf("%q is not a policy: use some of %s", v, strings.Join(others, ", ")))
			case v == policyKVAware:
				faults = append(faults, errors.New("kv_aware would be least_work, since workers are listened to for the policy that acts only: name least_work"))
			case slices.Contains(names, v):
				faults = append(faults, fmt.Errorf("%s is named twice: leave one out", v))
			default:
				names = append(names, v)
			}
		}
		if len(names) > actors.MaxShadows {
			faults = append(faults, fmt.Errorf("%d policies are named: leave out all but %d", len(names), actors.MaxShadows))
		}
		*dst = names
		return faults
	}
}
