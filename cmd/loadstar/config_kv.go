package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"loadstar/actors"
	"loadstar/actors/kvevents"
	"loadstar/actors/policy"
	"loadstar/proxy"
)

// kvConfig is what workers tell of their KV caches, and how kv_aware goes by it.
// Without a policy that does nothing of it counts.
type kvConfig struct {
	Sources   map[string][]string // host:port, by the canonical URL of a worker
	Replays   map[string][]string // likewise
	BlockSize int                 // tokens
	Model     string              // empty is any

	Host, External, Disk float64 // share of a block in the GPU's memory that one elsewhere counts

	PD bool // said to be wanted with two phases

	Temperature float64       // of the draw, in tokens of prompt; 0 draws none
	AffinityTTL time.Duration // for which an idle session stays where it was; 0 keeps none
}

// goesByEvents reports whether some policy goes by what workers tell.
func (c config) goesByEvents() bool {
	return slices.ContainsFunc(c.roles(), func(r actors.Role) bool { return policy.NeedsExact(c.policyFor(r)) })
}

// checkKV is check for what workers tell of their caches.
func (c config) checkKV() []error {
	var faults []error
	kv := &c.KV
	switch wanted := c.goesByEvents(); {
	case wanted && len(kv.Sources) == 0:
		faults = append(faults, errors.New("--policy kv_aware needs --kv-event-source: name the endpoints at which workers publish KV-cache events, or take --policy least_work, which needs none"))
	case !wanted && (len(kv.Sources) > 0 || kv.PD) && !c.Compat:
		faults = append(faults, errors.New("--kv-event-source and --pd-kv-events mean nothing without --policy kv_aware: give that, or leave them out"))
	}
	n := 0
	for _, endpoints := range kv.Sources {
		n += len(endpoints)
	}
	if n > kvevents.MaxStreams {
		faults = append(faults, fmt.Errorf("--kv-event-source names %d endpoints: give %d at most", n, kvevents.MaxStreams))
	}
	for _, url := range slices.Sorted(maps.Keys(kv.Replays)) {
		if len(kv.Replays[url]) > len(kv.Sources[url]) {
			faults = append(faults, fmt.Errorf("--kv-event-replay-source %s has more endpoints than --kv-event-source has for it: give as many, in the same order", url))
		}
	}
	return faults
}

// putKV puts what workers tell, and how it is gone by, into the proxy's options.
func putKV(o *proxy.Options, c config, log *slog.Logger) {
	c.remarkKV(log)
	if !c.goesByEvents() {
		return
	}
	kv := &c.KV
	p := &o.Router.PolicyOptions
	p.Temperature, p.AffinityTTL = kv.Temperature, int64(kv.AffinityTTL)
	o.KVEvents = &kvevents.Options{
		Sources: kv.Sources, Replays: kv.Replays, BlockSize: kv.BlockSize, Model: kv.Model,
		Host: kv.Host, External: kv.External, Disk: kv.Disk, Log: log,
	}
}

// remarkKV tells of what is given and does nothing.
func (c config) remarkKV(log *slog.Logger) {
	kv := &c.KV
	chooses := func(phase actors.Role) bool {
		return slices.ContainsFunc(c.roles(), func(r actors.Role) bool {
			return (r == phase || r == actors.Regular) && policy.NeedsExact(c.policyFor(r))
		})
	}
	if kv.Temperature > 0 && !chooses(actors.Prefill) {
		log.Warn("--router-temperature has no effect: no worker that prefills is chosen by kv_aware")
	}
	if kv.AffinityTTL > 0 && !chooses(actors.Decode) {
		log.Warn("--kv-aware-session-affinity-ttl-secs has no effect: no worker that decodes is chosen by kv_aware")
	}
}
