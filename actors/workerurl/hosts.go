package workerurl

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Hosts says at which hosts workers may be. The zero value allows all.
type Hosts struct {
	names    []string // in lower case
	suffixes []string // in lower case, with the dot in front
	nets     []netip.Prefix
}

// ParseHosts reads patterns: a host name; *.example.com for every name below
// example.com, but not itself; an IP address; or a network, as 10.0.0.0/8. None at
// all allows all. Errors quote the pattern.
func ParseHosts(patterns []string) (Hosts, error) {
	var h Hosts
	for _, p := range patterns {
		bare := p
		if strings.HasPrefix(p, "[") && strings.HasSuffix(p, "]") {
			bare = p[1 : len(p)-1]
		}
		if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" {
			a = a.Unmap()
			h.nets = append(h.nets, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		if n, err := netip.ParsePrefix(p); err == nil && !n.Addr().Is4In6() {
			h.nets = append(h.nets, n.Masked())
			continue
		}
		name := strings.ToLower(p)
		suffix, below := strings.CutPrefix(name, "*")
		switch {
		case below && len(suffix) > 1 && suffix[0] == '.' && suffix[1] != '.' && IsHostName(suffix):
			h.suffixes = append(h.suffixes, suffix)
		case !below && name != "" && IsHostName(name):
			h.names = append(h.names, name)
		default:
			return Hosts{}, fmt.Errorf("%q is no host: write a name, *.example.com, an IP address or a network such as 10.0.0.0/8, without scheme and port", p)
		}
	}
	return h, nil
}

// Allow reports whether the worker at a canonical URL may be a member. Its host is
// compared as it is written: names are not resolved, so an address is allowed by
// networks and addresses alone, a name by names alone.
func (h *Hosts) Allow(base string) bool {
	if len(h.names)+len(h.suffixes)+len(h.nets) == 0 {
		return true
	}
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.WithZone("").Unmap()
		for _, n := range h.nets {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}
	for _, n := range h.names {
		if host == n {
			return true
		}
	}
	for _, s := range h.suffixes {
		if len(host) > len(s) && strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}
