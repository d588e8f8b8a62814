package sim

import "loadstar/bench/workload"

const wholeAnswers = 1 << 20 // tokens, more than any has

// Reference are the scenarios that routing was designed with, those of a trace only
// if its file is given. The router's view holds twice the workers' caches there.
func Reference(trace string) []Scenario {
	rows := []struct {
		name  string
		setup workload.Setup
	}{
		{"40 req/s", workload.Setup{Workload: "conversations", Rate: 40}},
		{"80 req/s", workload.Setup{Workload: "conversations", Rate: 80}},
		{"120 req/s", workload.Setup{Workload: "conversations", Rate: 120}},
		{"8 workers, half the cache, 100 req/s", workload.Setup{Workload: "conversations", Rate: 100, Workers: 8, CacheBlocks: 2000}},
		{"2 hot groups, 80 req/s", workload.Setup{Workload: "hot", Rate: 80}},
		{"2 hot groups, 130 req/s", workload.Setup{Workload: "hot", Rate: 130}},
		{"nothing shared, 60 req/s", workload.Setup{Workload: "unique", Rate: 60}},
		{"nothing shared, 115 req/s", workload.Setup{Workload: "unique", Rate: 115}},
		{"trace", workload.Setup{Workload: trace}},
		{"trace × 1.6", workload.Setup{Workload: trace, Speed: 1.6}},
		{"trace × 2.2", workload.Setup{Workload: trace, Speed: 2.2}},
	}
	var all []Scenario
	for _, row := range rows {
		if row.setup.Workload == "" {
			continue
		}
		s := Settings{Setup: row.setup, Rest: 0.25}
		if !workload.IsSynthetic(s.Workload) {
			s.TokenTime, s.MaxOutput = 25, wholeAnswers
		}
		s = s.WithDefaults()
		s.WarmUp, s.ViewBlocks = 20, 2*s.CacheBlocks
		all = append(all, Scenario{row.name, s})
	}
	return all
}
