package compare

import (
	"os"
	"runtime"
	"strings"
	"time"

	"loadstar/bench/load"
)

// Result is everything that a comparison measured.
type Result struct {
	Kind     string   `json:"kind"` // "compare"
	Time     string   `json:"time"` // when it began, RFC 3339
	Command  string   `json:"command"`
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Routers  []Router `json:"routers"`
	// Interrupted says that the run was ended before time, and so rounds are missing.
	Interrupted bool     `json:"interrupted,omitempty"`
	Samples     []Sample `json:"samples"`
}

// Kind is what a Result's field of that name says.
const Kind = "compare"

// Machine is where it was measured.
type Machine struct {
	CPU    string    `json:"cpu"`
	Cores  int       `json:"cores"`
	Kernel string    `json:"kernel"`
	Go     string    `json:"go"`
	Load   [2]string `json:"load_average"` // before and after
}

// Router is a router that was measured, or was missing.
type Router struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"` // how to get it
}

// Sample is one measured number.
type Sample struct {
	Metric   string       `json:"metric"`
	Router   string       `json:"router"`
	Round    int          `json:"round"`
	Value    float64      `json:"value"`
	Requests uint64       `json:"requests,omitempty"`
	Failed   uint64       `json:"failed,omitempty"`
	Busy     float64      `json:"busy,omitempty"` // part of its core that the router used
	Note     string       `json:"note,omitempty"` // why there is no value, or what is wrong with it
	Points   []load.Point `json:"distribution,omitempty"`
}

// Metrics are named by what was done, a slash and what was measured.
const (
	CPUPrefix   = "cpu/"  // µs of router CPU per request, for each cell
	RatePrefix  = "rate/" // requests a second with the router on one core
	LatencyMean = "latency/mean"
	LatencyP50  = "latency/p50"
	LatencyP99  = "latency/p99" // µs added at concurrency 1; for "direct", µs in all
	ChunkCPU    = "chunk/cpu"   // µs per chunk that is forwarded alone
	StreamKB    = "stream/memory"
	StreamCPU   = "stream/cpu"    // % of a core with the streams open, one token a second each
	UniqueMB    = "unique/memory" // MB that the router grew by per 10 000 unique prompts
	LeaveBefore = "leave/before"  // ms from leaving before headers to the worker's seeing it, p50
	LeaveMid    = "leave/mid"     // the same in mid-stream
	LeaveTail   = "-p99"          // appended to the two above
	HotSpot     = "hotspot/factor"
	StartMemory = "start/memory" // MB after the first requests
)

// ThisMachine describes the machine, with its load average of the moment as the first.
func ThisMachine() Machine {
	m := Machine{Go: runtime.Version()}
	m.Kernel = firstLine("/proc/sys/kernel/osrelease")
	text, _ := os.ReadFile("/proc/cpuinfo")
	m.Cores = strings.Count(string(text), "processor\t:") // this process doesn't use all
	if _, rest, found := strings.Cut(string(text), "model name"); found {
		line, _, _ := strings.Cut(rest, "\n")
		m.CPU = strings.Trim(line, " \t:")
	}
	m.Load[0] = LoadAverage()
	return m
}

// LoadAverage is the machine's, over 1, 5 and 15 minutes; empty if it is unknown.
func LoadAverage() string {
	fields := strings.Fields(firstLine("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func firstLine(name string) string {
	text, _ := os.ReadFile(name)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
