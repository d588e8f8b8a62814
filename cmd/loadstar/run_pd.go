package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"loadstar/actors"
	"loadstar/proxy"
	"loadstar/proxy/pd"
)

// fleetOf is the workers that were named, one entry for each role of each.
func fleetOf(c config) []proxy.WorkerSpec {
	var fleet []proxy.WorkerSpec
	add := func(w proxy.WorkerSpec) {
		w.Priority, w.Source = proxy.DefaultPriority, proxy.SourceFlags
		fleet = append(fleet, w)
	}
	if c.takesRegular() {
		for _, url := range c.Workers.URLs { // one that also serves a phase has both roles
			add(proxy.WorkerSpec{URL: url, Roles: actors.RolesOf(actors.Regular)})
		}
	}
	if !c.PD.Enabled {
		return fleet
	}
	for _, w := range c.PD.Prefill {
		add(proxy.WorkerSpec{URL: w.URL, Roles: actors.RolesOf(actors.Prefill), Bootstrap: c.PD.bootstrapPort(w)})
	}
	for _, url := range c.PD.Decode {
		add(proxy.WorkerSpec{URL: url, Roles: actors.RolesOf(actors.Decode)})
	}
	return fleet
}

// phaseOptions are the settings of two phases in the proxy's terms.
func phaseOptions(c config) *proxy.PDOptions {
	const block = 64 // bytes of prompt
	connectors := map[kvConnector]pd.Connector{
		connectorNIXL: pd.NIXL, connectorMooncake: pd.Mooncake,
		connectorMoRI: pd.MoRIRead, // workers say which of the two modes it is
	}
	return &proxy.PDOptions{
		Connector: connectors[c.PD.Connector], PrefillTimeout: c.Timeouts.Prefill,
		ShortBlocks: (c.PD.ShortPromptBytes + block - 1) / block, Sequential: c.PD.Sequential,
		Rescues: c.PD.Rescues, RescueTimeout: c.PD.RescueTimeout,
		Expiry: c.PD.Discovery.Expiry, MaxRegistered: c.PD.Discovery.MaxWorkers, Beside: c.takesRegular(),
	}
}

// startPD has workers register, if they may.
func startPD(p *proxy.Proxy, c config, log *slog.Logger) error {
	if len(c.Workers.URLs) > 0 && !c.takesRegular() {
		log.Warn("--worker-urls is ignored: requests are served in two phases, at the workers of --prefill and --decode", "urls", len(c.Workers.URLs))
	}
	if !c.PD.Discovery.Enabled() {
		return nil
	}
	if err := p.Discover(c.PD.Discovery.Listen.Addr()); err != nil {
		return fmt.Errorf("%w; choose another --vllm-discovery-address", err)
	}
	return nil
}

// policyText names the policies that choose workers.
func policyText(c config) string {
	var names []string
	for _, r := range c.roles() {
		names = append(names, c.policyFor(r))
	}
	return strings.Join(slices.Compact(names), "+")
}
