package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadstar/actors"
	"loadstar/actors/discovery/dns"
	"loadstar/actors/discovery/kubernetes"
)

// minDNSEvery is how often a name is asked for at most.
const minDNSEvery = time.Second

// sourceOptions is where workers come from that nobody names.
func sourceOptions(s *sourcesConfig) []*option {
	const category = "workers that are discovered"
	k := &s.Kubernetes
	return []*option{
		{
			name: "service-discovery", category: category,
			usage:   "take for workers the pods of Kubernetes that are ready and have the labels of --selector, or of --prefill-selector and --decode-selector",
			differs: "--worker-urls is used beside it here; drains what leaves; a pod that isn't healthy delays no other",
			one:     readSwitch(&k.Enabled),
		},
		{
			name: "selector", arg: "KEY=VALUE ...", category: category, needs: "label",
			usage:   "labels that a pod must all have to be a worker",
			differs: "without --service-discovery refused here, ignored with --compat",
			many:    readSelector(&k.Selector),
		},
		{
			name: "service-discovery-port", arg: "PORT", category: category, def: "80",
			usage: "send requests to this port of the pods",
			one:   readWhole(&k.Port, 1, 65535),
		},
		{
			name: "service-discovery-namespace", arg: "NAMESPACE", category: category, implied: "all namespaces",
			usage: "look for pods in this namespace only",
			one:   readNamespace(&k.Namespace),
		},
		{
			name: "kubeconfig", arg: "FILE", category: category, implied: "KUBECONFIG, then the pod's service account", from: ours,
			usage: "find the Kubernetes API server by FILE",
			one:   readText(&k.Kubeconfig),
		},
		{
			name: "workers-file", arg: "FILE", category: category, from: ours,
			usage: "take workers from FILE, a list in YAML or JSON with the keys of POST /workers; read again when it changes and on SIGHUP, " +
				"and the workers before stay while it is faulty",
			one: readText(&s.File),
		},
		{
			name: "dns-discovery", arg: "NAME:PORT ...", category: category, needs: "name", from: ours,
			usage: "take for workers the addresses of NAME, or without a port what the SRV records of _SERVICE._PROTO.NAME point to; " +
				"prefill= or decode= in front says which phase they serve",
			many: readQueries(&s.DNS),
		},
		{
			name: "dns-discovery-interval-secs", arg: "SECONDS", category: category, def: "10", from: ours,
			usage: "ask DNS every SECONDS (at least 1)",
			one:   readSeconds(&s.DNSEvery, minDNSEvery, longest),
		},
	}
}

// phaseSelectorOptions is which pods serve a phase.
func phaseSelectorOptions(k *kubernetesConfig) []*option {
	return []*option{
		{
			name: "prefill-selector", arg: "KEY=VALUE ...", category: pdCategory, needs: "label",
			usage: "with --service-discovery: labels that a pod must all have to be a prefill worker; " +
				"its annotation vllm.ai/bootstrap-port names the port of its Mooncake bootstrap server (default with mooncake: 8998)",
			differs: "as --selector",
			many:    readSelector(&k.Prefill),
		},
		{
			name: "decode-selector", arg: "KEY=VALUE ...", category: pdCategory, needs: "label",
			usage:   "with --service-discovery: labels that a pod must all have to be a decode worker; one that has those of both is a prefill worker",
			differs: "as --selector",
			many:    readSelector(&k.Decode),
		},
	}
}

// readSelector reads labels.
func readSelector(dst *string) func([]string) []error {
	return func(values []string) []error {
		s, err := kubernetes.Selector(values)
		if err != nil {
			*dst = strings.Join(values, ",") // so that it isn't reported as missing
			return []error{err}
		}
		*dst = s
		return nil
	}
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// readNamespace reads the name of a namespace of Kubernetes.
func readNamespace(dst *string) func(string) error {
	return func(value string) error {
		if !namespaceName.MatchString(value) {
			return fmt.Errorf("%q is no namespace: its name has lower-case letters, digits and hyphens, at most 63", value)
		}
		*dst = value
		return nil
	}
}

// maxQueries is how many names may be asked for.
const maxQueries = 64

// readQueries reads names to look for workers at, each once.
func readQueries(dst *[]dnsQuery) func([]string) []error {
	return func(values []string) []error {
		var all []dnsQuery
		var faults []error
		for _, v := range values {
			q, err := parseQuery(v)
			switch {
			case err != nil:
				faults = append(faults, err)
			case !slices.Contains(all, q):
				all = append(all, q)
			}
		}
		if len(all) > maxQueries {
			faults = append(faults, fmt.Errorf("%d names are too many: give %d at most", len(all), maxQueries))
		}
		*dst = all
		return faults
	}
}

func parseQuery(value string) (q dnsQuery, err error) {
	text := value
	if role, name, ok := strings.Cut(value, "="); ok {
		text = name
		switch role {
		case actors.Prefill.String():
			q.Role = actors.Prefill
		case actors.Decode.String():
			q.Role = actors.Decode
		default:
			return q, fmt.Errorf("%q begins with no phase: write prefill=NAME:PORT or decode=NAME:PORT", value)
		}
	}
	if strings.Contains(text, "://") {
		return q, errors.New("a name has no scheme: write NAME:PORT")
	}
	q.Query, err = dns.ParseQuery(text)
	return q, err
}
