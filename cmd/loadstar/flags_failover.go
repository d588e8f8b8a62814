package main

import (
	"errors"
	"fmt"
	"math"

	"loadstar/proxy"
)

// failoverConfig is which streams go on at another worker when theirs dies.
type failoverConfig struct {
	Enabled       bool
	Continuations int   // of one stream
	TextBytes     int64 // of one stream's text
	MemoryBytes   int64 // of all streams' requests and text
}

// failoverOptions is what becomes of a stream whose worker dies.
func failoverOptions(f *failoverConfig) []*option {
	const category = "retries"
	return []*option{
		{
			name: "stream-failover", category: category, from: ours,
			usage: "have another worker go on with a plain text stream of /v1/completions or /v1/chat/completions whose worker dies",
			one:   readSwitch(&f.Enabled),
		},
		{
			name: "stream-failover-max", arg: "N", category: category, def: "1", from: ours,
			usage: "with --stream-failover: continue one stream at most N times",
			one:   readWhole(&f.Continuations, 1, 100),
		},
		{
			name: "stream-failover-text", arg: "BYTES", category: category, def: "262144", from: ours,
			usage: "with --stream-failover: remember at most BYTES of a stream's text; one that has more is not continued",
			one:   readWhole(&f.TextBytes, 1, 1<<30),
		},
		{
			name: "stream-failover-memory", arg: "BYTES", category: category, def: "134217728", from: ours,
			usage: "with --stream-failover: hold at most BYTES of all streams' requests and text; one that finds no room is not continued",
			one:   readWhole(&f.MemoryBytes, 0, math.MaxInt32),
		},
	}
}

// checkFailover is check for the continuation of streams.
func (c config) checkFailover() []error {
	f := &c.Failover
	if !f.Enabled {
		return nil
	}
	var faults []error
	if c.PD.Enabled {
		faults = append(faults, errors.New("--stream-failover continues streams of one phase, and --vllm-pd-disaggregation has two: leave one of them out"))
	}
	if f.MemoryBytes < f.TextBytes {
		faults = append(faults, fmt.Errorf("--stream-failover-memory (%d) is below --stream-failover-text (%d), so the longest streams would never be continued: raise the first or lower the second",
			f.MemoryBytes, f.TextBytes))
	}
	return faults
}

// putFailover puts the continuation of streams into the proxy's options.
func putFailover(o *proxy.Options, f failoverConfig) {
	if f.Enabled {
		o.Failover = proxy.FailoverOptions{Continuations: f.Continuations, TextBytes: int(f.TextBytes), MemoryBytes: int(f.MemoryBytes)}
	}
}
