package sim

const wholeAnswers = 1 << 20 // tokens, more than any has

// Reference are the scenarios that routing was designed with, those of a trace only
// if its file is given. The router's view holds twice the workers' caches there.
func Reference(trace string) []Scenario {
	all := []Scenario{
		{"40 req/s", Settings{Workload: "conversations", Rate: 40}},
		{"80 req/s", Settings{Workload: "conversations", Rate: 80}},
		{"120 req/s", Settings{Workload: "conversations", Rate: 120}},
		{"8 workers, half the cache, 100 req/s", Settings{Workload: "conversations", Rate: 100, Workers: 8, CacheBlocks: 2000}},
		{"2 hot groups, 80 req/s", Settings{Workload: "hot", Rate: 80}},
		{"2 hot groups, 130 req/s", Settings{Workload: "hot", Rate: 130}},
		{"nothing shared, 60 req/s", Settings{Workload: "unique", Rate: 60}},
		{"nothing shared, 115 req/s", Settings{Workload: "unique", Rate: 115}},
	}
	if trace != "" {
		all = append(all,
			Scenario{"trace", Settings{Workload: trace, TokenTime: 25, MaxOutput: wholeAnswers}},
			Scenario{"trace × 1.6", Settings{Workload: trace, Speed: 1.6, TokenTime: 25, MaxOutput: wholeAnswers}},
			Scenario{"trace × 2.2", Settings{Workload: trace, Speed: 2.2, TokenTime: 25, MaxOutput: wholeAnswers}},
		)
	}
	for i := range all {
		s := all[i].Settings.WithDefaults()
		s.WarmUp, s.Rest = 20, 0.25
		s.ViewBlocks = 2 * s.CacheBlocks
		all[i].Settings = s
	}
	return all
}
