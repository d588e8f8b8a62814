package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstar/actors/workerurl"
)

// workerOptions is the fleet at start-up and how to speak with it.
func workerOptions(w *workersConfig) []*option {
	const category = "workers"
	return []*option{
		{
			name: "worker-urls", arg: "URL ...", category: category, needs: "URL",
			usage: "send requests to these workers, http:// or https://, with @RANK at the end to one data-parallel rank; more may be added later by POST /workers",
			many:  workerURLs("worker-urls", &w.URLs),
		},
		{
			name: "api-key", arg: "KEY", category: category, secret: true,
			usage: "present KEY as a bearer key to workers",
			one:   readKey(&w.APIKey),
		},
		{
			name: "intra-node-data-parallel-size", arg: "N", category: category, def: "1",
			usage: "take each URL without @RANK for N data-parallel ranks, each with a load of its own",
			one:   readWhole(&w.DPSize, 1, 1024),
		},
		{
			name: "worker-startup-timeout-secs", arg: "SECONDS", category: category, def: "600",
			usage: "wait so long for a new worker to become healthy",
			one:   readSeconds(&w.StartupTimeout, shortest, longest),
		},
		{
			name: "worker-startup-check-interval", arg: "SECONDS", category: category, def: "1",
			usage:   "look so often whether a new worker is healthy",
			differs: "30 there",
			one:     readSeconds(&w.StartupInterval, shortest, longest),
		},
	}
}

// workerURLs reads the URLs of a flag into their canonical form, each once. One that is
// wrong still counts, so that it isn't reported again as one too few.
func workerURLs(flag string, dst *[]string) func([]string) []error {
	return func(values []string) []error {
		var urls []string
		var faults []error
		for _, v := range values {
			u, err := workerURL(flag, v)
			if err != nil {
				faults = append(faults, err)
				u = v
			}
			if !slices.Contains(urls, u) {
				urls = append(urls, u)
			}
		}
		*dst = urls
		return faults
	}
}

func workerURL(flag, value string) (string, error) {
	shown := workerurl.Redacted(value)
	if scheme, _, ok := strings.Cut(value, "://"); ok {
		if r, ok := refused["worker-urls="+strings.ToLower(scheme)+"://"]; ok {
			return "", refusedValue{r, shown}
		}
	}
	if strings.Contains(value, ",") || strings.ContainsFunc(value, isSpaceOrControl) {
		return "", fmt.Errorf("%q holds a comma or a space: give one URL in each argument, separated by spaces: --%s http://A:8000 http://B:8000", shown, flag)
	}
	if base, rank, ok := cutRank(value); ok {
		if u, err := workerurl.Canonical(base); err == nil {
			return fmt.Sprintf("%s@%d", u, rank), nil
		}
	}
	return workerurl.Canonical(value)
}

// cutRank takes the data-parallel rank off a worker's URL, if it ends in one.
func cutRank(value string) (base string, rank uint64, ok bool) {
	const bits = 10 // as many ranks as --intra-node-data-parallel-size takes
	i := strings.LastIndexByte(value, '@')
	if i < 0 {
		return value, 0, false
	}
	rank, err := strconv.ParseUint(value[i+1:], 10, bits)
	return value[:i], rank, err == nil
}

// workersAt is how many workers URLs stand for: one each with a rank, and one for
// each of dpSize ranks without.
func workersAt(urls []string, dpSize int) int {
	n := 0
	for _, u := range urls {
		if _, _, ok := cutRank(u); ok {
			n++
		} else {
			n += dpSize
		}
	}
	return n
}

// healthOptions is the active health check.
func healthOptions(h *healthConfig) []*option {
	const category = "health checks"
	return []*option{
		{
			name: "health-check-endpoint", arg: "PATH", category: category, def: "/health",
			usage: "check workers by GET PATH; any 2xx is healthy",
			one:   readPath(&h.Endpoint),
		},
		{
			name: "health-check-interval-secs", arg: "SECONDS", category: category, def: "10",
			usage:   "check each worker every SECONDS",
			differs: "60 there",
			one:     readSeconds(&h.Interval, shortest, longest),
		},
		{
			name: "health-check-timeout-secs", arg: "SECONDS", category: category, def: "5",
			usage: "take a check that lasts longer for a bad one",
			one:   readSeconds(&h.Timeout, shortest, longest),
		},
		{
			name: "health-failure-threshold", arg: "N", category: category, def: "3",
			usage: "take a worker out after N bad checks in a row",
			one:   readWhole(&h.FailureThreshold, 1, math.MaxInt),
		},
		{
			name: "health-success-threshold", arg: "N", category: category, def: "2",
			usage: "bring a worker back after N good checks in a row",
			one:   readWhole(&h.SuccessThreshold, 1, math.MaxInt),
		},
	}
}

// retryOptions is how a failed attempt is repeated. --compat has been read before:
// vllm-router bounds the attempts of a request and not those of all.
func retryOptions(c *config) []*option {
	const category, budget = "retries", "0.1"
	r := &c.Retry
	return []*option{
		{
			name: "retry-max-retries", arg: "N", category: category, def: "5",
			usage: "make at most N attempts in all, the first one included",
			one:   readWhole(&r.MaxAttempts, 1, math.MaxInt),
		},
		{
			name: "retry-initial-backoff-ms", arg: "MS", category: category, def: "50",
			usage: "wait MS milliseconds before the second attempt",
			one:   readMillis(&r.InitialBackoff),
		},
		{
			name: "retry-max-backoff-ms", arg: "MS", category: category, def: "30000",
			usage: "never wait longer than MS milliseconds between attempts",
			one:   readMillis(&r.MaxBackoff),
		},
		{
			name: "retry-backoff-multiplier", arg: "FACTOR", category: category, def: "1.5",
			usage: "wait FACTOR times longer before each further attempt (at least 1)",
			one:   readDecimal(&r.Multiplier, 1, math.Inf(1)),
		},
		{
			name: "retry-jitter-factor", arg: "SHARE", category: category, def: "0.2",
			usage: "make each wait longer or shorter by up to this share of it, at random (0 to 1)",
			one:   readDecimal(&r.Jitter, 0, 1),
		},
		{
			name: "disable-retries", category: category,
			usage: "make one attempt only",
			one:   readSwitch(&r.Disabled),
		},
		{
			name: "retry-budget", arg: "SHARE", category: category, implied: budget + ", none with --compat", from: ours,
			presume: func(environment) string {
				if c.Compat {
					return "none"
				}
				return budget
			},
			usage: "make at most SHARE retries for each request that is sent, 0.1 being one for ten, beside those of --retry-budget-floor; none or 1000 does not bound them",
			one:   orNone(strconv.Itoa(noBudget), readDecimal(&r.Budget, 0, noBudget)),
		},
		{
			name: "retry-budget-floor", arg: "N", category: category, def: "10", from: ours,
			usage: "make N retries a second beside those of --retry-budget",
			one:   readWhole(&r.BudgetFloor, 0, maxBudgetFloor),
		},
	}
}

// minOpenShare is the least of --cb-max-open-share; --disable-circuit-breaker is for
// none.
const minOpenShare = 0.01

// maxBudgetFloor is far beyond what a router can send.
const maxBudgetFloor = 1_000_000

// breakerOptions is the circuit breaker of each worker.
func breakerOptions(b *breakerConfig) []*option {
	const category = "circuit breakers"
	return []*option{
		{
			name: "cb-failure-threshold", arg: "N", category: category, def: "10",
			usage: "stop sending to a worker after N failures in a row, or after N within --cb-window-duration-secs " +
				"if they are half of what it answered",
			differs: "in a row only there",
			one:     readWhole(&b.FailureThreshold, 1, math.MaxInt),
		},
		{
			name: "cb-success-threshold", arg: "N", category: category, def: "3",
			usage: "close a half-open breaker after N successes in a row",
			one:   readWhole(&b.SuccessThreshold, 1, math.MaxInt),
		},
		{
			name: "cb-timeout-duration-secs", arg: "SECONDS", category: category, def: "60",
			usage: "keep a breaker open for SECONDS before trying the worker again",
			one:   readSeconds(&b.OpenFor, shortest, longest),
		},
		{
			name: "cb-window-duration-secs", arg: "SECONDS", category: category, def: "120",
			usage:   "count failures that are less than SECONDS old",
			differs: "no effect there",
			one:     readSeconds(&b.Window, shortest, longest),
		},
		{
			name: "disable-circuit-breaker", category: category,
			usage: "send to healthy workers whatever they answered before",
			one:   readSwitch(&b.Disabled),
		},
		{
			name: "cb-max-open-share", arg: "SHARE", category: category, def: "0.5", from: ours,
			usage: "let breakers and --wedged-after-secs keep out at most this share of the healthy workers of each phase, " +
				"and never all of several (0.01 to 1)",
			one: readDecimal(&b.MaxOpenShare, minOpenShare, 1),
		},
	}
}

// containmentOptions is what is done about workers in trouble.
func containmentOptions(c *containmentConfig) []*option {
	const category = "workers in trouble"
	return []*option{
		{
			name: "slow-start-secs", arg: "SECONDS", category: category, def: "10", from: ours,
			usage: "give a worker that has come back a share of the requests that grows for SECONDS; 0 or none gives it the full one at once",
			one:   readSecondsOrNone(&c.SlowStart),
		},
		{
			name: "wedged-after-secs", arg: "SECONDS", category: category, def: "0", from: ours,
			usage: "send nothing to a worker that holds requests and has been silent for SECONDS while others answer; " +
				"choose more than the longest prompt takes; 0 or none never does",
			one: readSecondsOrNone(&c.WedgedAfter),
		},
	}
}
