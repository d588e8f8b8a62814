package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadstar/actors/policy"
)

// Rule names what chooses the workers: a policy of the router or a formula, and
// behind colons settings of the policy, as least_work:c=0.5:cap=4.
type Rule string

// settable are the settings that a rule may have.
var settable = []struct {
	name string
	set  func(o *policy.Options, v float64)
}{
	{"c", func(o *policy.Options, v float64) { o.MissBacklog = v }},
	{"cap", func(o *policy.Options, v float64) { o.MissCap = v }},
	{"decay", func(o *policy.Options, v float64) { o.BacklogDecay = v }},
	{"gamma", func(o *policy.Options, v float64) { o.LoadBlocks = v }},
	{"threshold", func(o *policy.Options, v float64) { o.CacheThreshold = v }},
	{"abs", func(o *policy.Options, v float64) { o.BalanceAbs = int(v) }},
	{"rel", func(o *policy.Options, v float64) { o.BalanceRel = v }},
}

// Rules are the names of all rules.
func Rules() []string {
	names := policy.Names()
	for _, f := range formulas {
		names = append(names, f.name)
	}
	return names
}

// Check says what is wrong with a rule.
func (r Rule) Check() error {
	_, _, err := r.make(0)
	return err
}

// make is the policy of a rule, and whether that looks at prefixes.
func (r Rule) make(seed uint64) (p policy.Policy, prefixes bool, err error) {
	name, settings, _ := strings.Cut(string(r), ":")
	o := policy.DefaultOptions()
	o.Seed = seed
	for text := range strings.SplitSeq(settings, ":") {
		if text == "" {
			continue
		}
		key, value, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(settable, func(s struct {
			name string
			set  func(*policy.Options, float64)
		},
		) bool {
			return s.name == key
		})
		v, errNumber := strconv.ParseFloat(value, 64)
		if i < 0 || errNumber != nil {
			return nil, false, fmt.Errorf("%s of rule %s: give NAME=NUMBER with one of %s", text, r, strings.Join(settableNames(), ", "))
		}
		settable[i].set(&o, v)
	}
	if f := formulaNamed(name); f != nil {
		return f, true, o.Validate()
	}
	p, err = policy.New(name, o)
	if err != nil {
		return nil, false, fmt.Errorf("rule %s: %w; or a formula: %s", r, err, strings.Join(Rules()[len(policy.Names()):], ", "))
	}
	return p, policy.NeedsPrefixes(name), nil
}

// parks reports whether the router keeps back what a worker can't begin yet.
func (r Rule) parks() bool {
	name, _, _ := strings.Cut(string(r), ":")
	return policy.NeedsWork(name)
}

func settableNames() []string {
	var all []string
	for _, s := range settable {
		all = append(all, s.name)
	}
	return all
}
