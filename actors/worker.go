package actors

import (
	"strconv"
	"strings"
)

// WorkerID is the registry's number for a worker. Numbers are dense and are
// given to another worker once this one is removed and idle.
type WorkerID uint32

// Role says which phases of a request a worker serves.
type Role uint8

// Roles. A Regular worker serves whole requests.
const (
	Regular Role = iota
	Prefill
	Decode
	numRoles
)

var roleNames = [numRoles]string{"regular", "prefill", "decode"}

// String returns the name that the admin API uses.
func (r Role) String() string { return roleNames[r] }

// Roles is a set of roles. The empty set stands for Regular alone.
type Roles uint8

// RolesOf returns the set of these roles.
func RolesOf(roles ...Role) Roles {
	var s Roles
	for _, r := range roles {
		s |= 1 << r
	}
	return s
}

// Has reports whether r is in the set.
func (s Roles) Has(r Role) bool { return s.normal()&(1<<r) != 0 }

// String returns the names of the roles, joined by plus signs.
func (s Roles) String() string {
	var names []string
	for r, name := range roleNames {
		if s.Has(Role(r)) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

func (s Roles) normal() Roles {
	if s == 0 {
		return 1 << Regular
	}
	return s
}

// AnyModel is the model of a worker that is taken to serve whatever it is asked
// for.
const AnyModel = "unknown"

// Spec describes a worker to the registry.
type Spec struct {
	URL      string   // identity: canonical base, with @rank behind it for a data-parallel rank
	Base     string   // canonical URL without the rank; health is checked here
	Rank     int      // data-parallel rank, or NoRank
	Roles    Roles    // which phases it serves
	Model    string   // model it serves; AnyModel or empty if that isn't known
	Models   []string // further names that it serves; never written in place
	Priority int      // reported, never used for routing
	Cost     float64  // relative price, weighs in least_work; 1 by default
	Labels   map[string]string
	Source   string // who named it, for those who look: the command line, the admin API, or a source of workers
	Process  string // tells the process there from the next one, where the source knows
	Handle   any    // opaque to the registry; comes back in the lease
}

// completed is s with what was left out.
func (s Spec) completed() Spec {
	if s.Cost <= 0 {
		s.Cost = 1
	}
	if s.Model == "" {
		s.Model = AnyModel
	}
	s.Roles = s.Roles.normal()
	return s
}

// NoRank is the rank of a worker that isn't a data-parallel rank.
const NoRank = -1

// Expand returns the specs of one base URL: the spec itself, or one for each of
// n data-parallel ranks when n is above 1.
func Expand(s Spec, n int) []Spec {
	if n <= 1 {
		s.URL, s.Rank = s.Base, NoRank
		return []Spec{s}
	}
	specs := make([]Spec, n)
	for i := range specs {
		specs[i] = s
		specs[i].Rank = i
		specs[i].URL = s.Base + "@" + strconv.Itoa(i)
	}
	return specs
}
