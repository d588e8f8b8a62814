package report

import "loadstar/bench/compare"

// metric is how a report shows one.
type metric struct {
	id, title string
	more      bool // more is better
}

// group is metrics that are shown together.
type group struct {
	file, title, text string
	metrics           []metric
}

var cellNames = []string{"200 B", "200 B, 16-token stream", "20 kB", "20 kB, 16-token stream", "1 MB"}

var groups = []group{
	{
		"cpu", "CPU per request, µs",
		"User and system time of the router's processes (`/proc/PID/stat`) divided by the requests that were answered, in a closed loop of 32 connections (8 for 1 MB).",
		cellMetrics(compare.CPUPrefix, false),
	},
	{
		"rate", "Requests a second, router on one core",
		"The same runs. Where the router's core was not busy (see the raw results), generator and workers were the limit.",
		cellMetrics(compare.RatePrefix, true),
	},
	{
		"latency", "Added latency at concurrency 1, µs",
		"Time of a 200 B request through the router less the time without one in the same round.",
		[]metric{{compare.LatencyMean, "mean", false}, {compare.LatencyP50, "p50", false}, {compare.LatencyP99, "p99", false}},
	},
	{
		"streams", "Streams",
		"Chunks of 150 B that come alone, 50 a second on each of 200 streams. Memory (Pss) of the open streams less that before, with one chunk a second each.",
		[]metric{
			{compare.ChunkCPU, "CPU per chunk, µs", false},
			{compare.StreamKB, "memory per open stream, kB", false},
			{compare.StreamCPU, "CPU while they are open, % of a core", false},
		},
	},
	{
		"leave", "From a client's leaving to the worker's seeing it, ms",
		"Clients leave one after another, before the answer's head or in mid-stream while the worker is silent.",
		[]metric{
			{compare.LeaveBefore, "before headers, p50", false},
			{compare.LeaveBefore + compare.LeaveTail, "before headers, p99", false},
			{compare.LeaveMid, "mid-stream, p50", false},
			{compare.LeaveMid + compare.LeaveTail, "mid-stream, p99", false},
		},
	},
	{
		"memory", "Memory and balance",
		"Pss after the first 2000 requests; growth with prompts of 4 kB that share nothing; four workers, requests of 24 groups (Zipf 1.2) that share half of their 6 kB, largest share of a worker times four.",
		[]metric{
			{compare.StartMemory, "memory at first, MB", false},
			{compare.UniqueMB, "growth per 10 000 unique prompts, MB", false},
			{compare.HotSpot, "hot-spot factor", false},
		},
	},
}

func cellMetrics(prefix string, more bool) []metric {
	var all []metric
	for _, name := range cellNames {
		all = append(all, metric{prefix + name, name, more})
	}
	return all
}

// bound is a promise about a metric: ours is at most factor times the other
// router's, plus some.
type bound struct {
	metric, other string
	factor, plus  float64
	more          bool // at least instead
}

var bounds = []bound{
	{compare.CPUPrefix + "200 B", nginx, 1.35, 0, false},
	{compare.CPUPrefix + "200 B", "vllm-router", 1. / 6, 0, false},
	{compare.CPUPrefix + "200 B", "vllm-router round_robin", 1 / 1.7, 0, false},
	{compare.CPUPrefix + "200 B", "smg", 1. / 4, 0, false},
	{compare.CPUPrefix + "200 B, 16-token stream", nginx, 1.35, 0, false},
	{compare.CPUPrefix + "200 B, 16-token stream", "vllm-router", 1 / 3.5, 0, false},
	{compare.CPUPrefix + "200 B, 16-token stream", "smg", 1 / 3.5, 0, false},
	{compare.CPUPrefix + "20 kB", nginx, 1.7, 0, false},
	{compare.CPUPrefix + "20 kB", "vllm-router", 1 / 2.5, 0, false},
	{compare.CPUPrefix + "20 kB", "smg", 1. / 2, 0, false},
	{compare.CPUPrefix + "20 kB, 16-token stream", nginx, 1.45, 0, false},
	{compare.CPUPrefix + "20 kB, 16-token stream", "vllm-router", 1. / 3, 0, false},
	{compare.CPUPrefix + "20 kB, 16-token stream", "smg", 1. / 3, 0, false},
	{compare.CPUPrefix + "1 MB", bare, 1.3, 0, false},
	{compare.ChunkCPU, bare, 1, 2, false},
	{compare.LatencyP50, nginx, 1, 15, false},
	{compare.LatencyP50, "vllm-router", .5, 0, false},
	{compare.LatencyP50, "smg", .5, 0, false},
	{compare.LatencyP50, "sglang-router", .5, 0, false},
	{compare.RatePrefix + "200 B", "vllm-router", 4, 0, true},
	{compare.RatePrefix + "200 B", "smg", 3, 0, true},
	{compare.StreamKB, bare, 1, 0, false},
}

// limit is what a bound allows, given the other's value.
func (b bound) limit(other float64) float64 { return b.factor*other + b.plus }

func (b bound) met(mine, other float64) bool {
	if b.more {
		return mine >= b.limit(other)
	}
	return mine <= b.limit(other)
}
