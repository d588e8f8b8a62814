package policy

import (
	"errors"
	"fmt"
	"strings"
)

// catalogue lists the policies in the order in which they are shown.
var catalogue = []struct {
	name     string
	prefixes bool
	work     bool
	make     func(o Options) Policy
}{
	{"random", false, false, func(o Options) Policy { return &random{draws: rng{o.Seed}} }},
	{"round_robin", false, false, func(Options) Policy { return &roundRobin{} }},
	{"power_of_two", false, false, func(o Options) Policy { return &powerOfTwo{draws: rng{o.Seed}} }},
	{"cache_aware", true, false, func(o Options) Policy { return newCacheAware(o) }},
	{"consistent_hash", false, false, func(o Options) Policy { return &consistentHash{abs: o.BalanceAbs} }},
	{"rendezvous_hash", false, false, func(o Options) Policy { return &rendezvousHash{abs: o.BalanceAbs} }},
	{"sticky_least_loaded", false, false, func(o Options) Policy { return newStickyLeastLoaded(o) }},
	{"least_work", true, true, func(o Options) Policy { return newLeastWork("least_work", o) }},
	{kvAware, true, true, newKVAware},
}

// kvAware is least_work where Candidate.Match may be what workers tell they hold.
const kvAware = "kv_aware"

// newKVAware makes of least_work what the options ask for, and of nothing asked for
// least_work itself.
func newKVAware(o Options) Policy {
	work := newLeastWork(kvAware, o)
	var p weighing = work
	if o.Temperature > 0 {
		p = newDrawnWork(work, o)
	}
	if o.AffinityTTL > 0 {
		return newAffineWork(p, o)
	}
	return p
}

// NeedsExact reports whether the named policy goes by what workers tell of their
// caches.
func NeedsExact(name string) bool { return name == kvAware }

// NeedsAffinity reports whether the named policy reads Request.Affinity.
func NeedsAffinity(name string, o Options) bool { return name == kvAware && o.AffinityTTL > 0 }

// Names lists the policies that [New] can make.
func Names() []string {
	names := make([]string, len(catalogue))
	for i := range catalogue {
		names[i] = catalogue[i].name
	}
	return names
}

// NeedsPrefixes reports whether the named policy reads Candidate.Match. For any
// other the prefix tree need not be asked.
func NeedsPrefixes(name string) bool {
	for i := range catalogue {
		if catalogue[i].name == name {
			return catalogue[i].prefixes
		}
	}
	return false
}

// NeedsWork reports whether the named policy reads Candidate.Pending and what else
// is learnt from answers. For any other they need not be looked at for it.
func NeedsWork(name string) bool {
	for i := range catalogue {
		if catalogue[i].name == name {
			return catalogue[i].work
		}
	}
	return false
}

// New makes the named policy. An unknown name is an error that lists the known
// ones; it comes joined with every fault of the options.
func New(name string, o Options) (Policy, error) {
	faults := o.Validate()
	for i := range catalogue {
		if catalogue[i].name != name {
			continue
		}
		if faults != nil {
			return nil, faults
		}
		return catalogue[i].make(o), nil
	}
	unknown := fmt.Errorf("unknown policy %q: use one of %s", name, strings.Join(Names(), ", "))
	return nil, errors.Join(unknown, faults)
}
