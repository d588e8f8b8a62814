package report

import (
	"slices"

	"loadstar/bench/compare"
)

// Names of routers that a report treats apart.
const (
	ours   = "loadstar"
	bare   = "bare"
	direct = "direct"
	nginx  = "nginx"
)

// stat is what the rounds of one metric of one router came to.
type stat struct {
	median, least, most float64
	rounds              int
}

// table is stats by metric and router.
type table struct {
	routers []string // as they were measured; the missing ones left out
	mine    string   // the one that charts show apart
	stats   map[[2]string]stat
}

func tabulate(r *compare.Result) table {
	t := table{mine: ours, stats: make(map[[2]string]stat)}
	for _, router := range r.Routers {
		if router.Missing == "" {
			t.routers = append(t.routers, router.Name)
		}
	}
	values := make(map[[2]string][]float64)
	for _, s := range r.Samples {
		// A sample with a note has a value only if the note says so of a part of it.
		if s.Note != "" && s.Value == 0 {
			continue
		}
		key := [2]string{s.Metric, s.Router}
		values[key] = append(values[key], s.Value)
	}
	for key, v := range values {
		slices.Sort(v)
		t.stats[key] = stat{median(v), v[0], v[len(v)-1], len(v)}
	}
	return t
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (t table) get(metric, router string) (stat, bool) {
	s, found := t.stats[[2]string{metric, router}]
	return s, found
}

// has reports whether anybody's value of a metric is known.
func (t table) has(metric string) bool {
	return slices.ContainsFunc(t.routers, func(r string) bool {
		_, found := t.get(metric, r)
		return found
	})
}
