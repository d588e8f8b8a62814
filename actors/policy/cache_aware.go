package policy

import "math"

// cacheAware keeps vllm-router's rule and thresholds: the longest known prefix
// while it is long enough and loads are balanced, otherwise the least load.
type cacheAware struct {
	threshold float64
	balance   balance
}

func newCacheAware(o Options) *cacheAware {
	return &cacheAware{
		threshold: o.CacheThreshold,
		balance:   balance{abs: o.BalanceAbs, rel: o.BalanceRel},
	}
}

func (p *cacheAware) Name() string { return "cache_aware" }

func (p *cacheAware) Choose(req *Request, c []Candidate) Choice {
	low, high, match := math.MaxInt, 0, 0
	for i := range c {
		w := &c[i]
		low = min(low, w.Load)
		high = max(high, w.Load)
		match = max(match, w.Match)
	}
	choice := Choice{MaxLoad: high, MinLoad: low, Imbalanced: p.balance.lost(high, low)}
	needed := 0
	switch {
	case req.Blocks <= 0:
		choice.Reason = PrefixMiss
	case choice.Imbalanced:
		choice.Reason = LoadImbalance
	case float64(match)/float64(req.Blocks) > p.threshold:
		choice.Reason = PrefixHit
		needed = match
	default:
		choice.Reason = PrefixMiss
	}
	choice.Index = leastLoaded(req.Key, needed, c)
	return choice
}
