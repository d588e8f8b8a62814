package kubernetes

import (
	"net"
	"strconv"

	"loadstar/actors"
	"loadstar/actors/discovery"
	"loadstar/actors/workerurl"
)

// bootstrapAnnotation names the port of a prefill worker's Mooncake bootstrap server.
const bootstrapAnnotation = "vllm.ai/bootstrap-port"

// isEligible reports whether a pod may be sent requests.
func isEligible(p *pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase != "Running" {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// addressOf is a pod's primary address, or the first that is one; "" if it has none.
func addressOf(p *pod) string {
	if net.ParseIP(p.Status.PodIP) != nil {
		return p.Status.PodIP
	}
	for _, a := range p.Status.PodIPs {
		if net.ParseIP(a.IP) != nil {
			return a.IP
		}
	}
	return ""
}

// workerOf is the worker that a pod is; false if it is none at present.
func (o *Options) workerOf(p *pod) (discovery.Worker, bool) {
	ip := addressOf(p)
	if !isEligible(p) || ip == "" {
		return discovery.Worker{}, false
	}
	url, err := workerurl.Canonical("http://" + net.JoinHostPort(ip, strconv.Itoa(o.Port)))
	if err != nil {
		return discovery.Worker{}, false
	}
	w := discovery.Worker{
		URL: url, Roles: o.Roles, Priority: discovery.DefaultPriority, Cost: 1, Process: string(p.UID),
		Labels: map[string]string{"namespace": p.Namespace, "pod": p.Name},
	}
	if o.Roles.Has(actors.Prefill) {
		w.Bootstrap = o.bootstrapOf(p)
	}
	return w, true
}

// bootstrapOf is the port of a pod's bootstrap server. One that is no port counts as
// not given, as in vllm-router.
func (o *Options) bootstrapOf(p *pod) int {
	port, err := strconv.ParseUint(p.Annotations[bootstrapAnnotation], 10, 16)
	if err != nil || port == 0 {
		return o.Bootstrap
	}
	return int(port)
}
