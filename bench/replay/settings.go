package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"loadstar/bench/compare"
	"loadstar/bench/workload"
)

// Settings say what is replayed, through which routers, and to what workers. A
// zero number takes the workload's default where there is one.
type Settings struct {
	Workload    string   `json:"workload"` // the name of a synthetic one, or a trace's file
	Routers     []string `json:"routers,omitempty"`
	RouterArgs  []string `json:"router_args,omitempty"` // of all of them
	Copies      int      `json:"copies,omitempty"`      // of each router, that get requests in turn; 0 is one
	NATS        bool     `json:"nats,omitempty"`        // copies, of Loadstar, tell each other what they run
	URL         string   `json:"url,omitempty"`         // of a router that runs, instead
	Listen      []string `json:"listen,omitempty"`      // addresses of the workers before it; none to have none here
	Model       string   `json:"model"`
	Rounds      int      `json:"rounds"`
	Seed        uint64   `json:"seed"` // of the first round; the next ones' follow
	Rate        float64  `json:"rate,omitempty"`
	Speed       float64  `json:"speed"`
	TimeScale   float64  `json:"time_scale"`
	Seconds     float64  `json:"seconds"` // of the workload that are replayed; 0 for all of a trace
	WarmUp      float64  `json:"warm_up"` // seconds of it whose requests are not counted
	Requests    uint64   `json:"requests,omitempty"`
	BlockTokens int      `json:"block_tokens,omitempty"` // tokens of a trace's block
	MaxOutput   int      `json:"max_output"`
	Connections int      `json:"connections"`
	Workers     int      `json:"workers"`
	Prefill     float64  `json:"prefill_blocks_per_second"`
	CacheBlocks int      `json:"cache_blocks"`

	Programs compare.Programs `json:"-"`
	Core     int              `json:"-"` // the routers'; this process must not run there
}

const (
	// rest is how far apart the requests of a conversation are at least: more than an
	// answer takes unless the workers are overloaded.
	rest         = time.Second
	maxWorkers   = 64
	maxCopies    = 16
	modelLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:"
)

// withDefaults are the settings with the workload's defaults, which are those of
// the simulations that routing was designed with.
func (s Settings) withDefaults() Settings {
	if workload.IsSynthetic(s.Workload) {
		s.Rate = cmp.Or(s.Rate, workload.DefaultRate(s.Workload))
		s.Seconds = cmp.Or(s.Seconds, 120)
		s.TimeScale = cmp.Or(s.TimeScale, 1)
		s.Workers = cmp.Or(s.Workers, 4)
		s.Prefill = cmp.Or(s.Prefill, 1250)
		s.BlockTokens = 0
	} else {
		s.BlockTokens = cmp.Or(s.BlockTokens, 512)
		s.TimeScale = cmp.Or(s.TimeScale, 20)
		s.Workers = cmp.Or(s.Workers, 8)
		s.Prefill = cmp.Or(s.Prefill, 8000/float64(s.BlockTokens))
	}
	s.CacheBlocks = cmp.Or(s.CacheBlocks, 4000)
	if s.URL != "" {
		s.Workers = len(s.Listen)
	}
	return s
}

// check reports all faults at once.
func (s Settings) check() error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	wrong(s.Workload == "", "no workload: give one of %s, or the file of a trace", strings.Join(workload.Synthetics(), ", "))
	isSynthetic := workload.IsSynthetic(s.Workload)
	wrong(s.Rate != 0 && !isSynthetic, "rate %v: the requests of a trace have times, give a speed", s.Rate)
	for _, n := range []struct {
		name  string
		value float64
		from  float64
		to    float64
	}{
		{"speed", s.Speed, 1e-3, 1e3},
		{"time scale", s.TimeScale, 1e-3, 1e3},
		{"prefill rate", s.Prefill, 1e-3, 1e9},
		{"seconds", s.Seconds, 0, 1e6},
		{"warm-up", s.WarmUp, 0, 1e6},
		{"rounds", float64(s.Rounds), 1, 100},
		{"max output", float64(s.MaxOutput), 1, 4096},
		{"connections", float64(s.Connections), 1, 1 << 14},
	} {
		wrong(!(n.value >= n.from && n.value <= n.to), "%s %v: give %v to %v", n.name, n.value, n.from, n.to)
	}
	wrong(isSynthetic && !(s.Rate >= 1e-3 && s.Rate <= 1e5), "rate %v: give 0.001 to 100000", s.Rate)
	wrong(!isSynthetic && s.BlockTokens < 1, "%d tokens of a block: give at least 1", s.BlockTokens)
	wrong(s.Model == "" || strings.Trim(s.Model, modelLetters) != "", "model %q: give letters, digits and -_./:", s.Model)
	for _, name := range s.Routers {
		faults = append(faults, compare.CheckName(name))
		wrong(s.NATS && !strings.HasPrefix(name, "loadstar"), "router %q: only loadstar tells its copies by NATS", name)
	}
	wrong(s.Copies < 0 || s.Copies > maxCopies, "%d copies: give 1 to %d", s.Copies, maxCopies)
	wrong(s.URL != "" && (s.Copies > 1 || s.NATS), "a URL, and copies of a router to be started: give one or the other")
	if s.URL == "" {
		wrong(len(s.Routers) == 0, "no router: name one of %s, or give a URL", strings.Join(compare.Names(), ", "))
		wrong(len(s.Listen) > 0, "workers' addresses are for a router that runs: give its URL")
		wrong(s.Model != compare.Model, "model %q: routers that are started serve %s", s.Model, compare.Model)
		wrong(s.Workers < 1 || s.Workers > maxWorkers, "%d workers: give 1 to %d", s.Workers, maxWorkers)
		return errors.Join(faults...)
	}
	wrong(len(s.Routers) > 0 || len(s.RouterArgs) > 0, "a URL, and routers to be started: give one or the other")
	wrong(len(s.Listen) > maxWorkers, "%d workers: give at most %d", len(s.Listen), maxWorkers)
	u, err := url.Parse(s.URL)
	wrong(err != nil || u.Scheme != "http" || !onLoopback(u.Host), "URL %q: give one on loopback, like http://127.0.0.1:30000/v1/chat/completions", s.URL)
	for _, a := range s.Listen {
		wrong(!onLoopback(a), "address %q: give one on loopback, like 127.0.0.1:9001", a)
	}
	return errors.Join(faults...)
}

// onLoopback reports whether a host and port are this machine's own.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// open is the workload of a round. The same round has the same one for all routers.
func (s Settings) open(round int) (workload.Source, io.Closer, error) {
	return workload.Open(s.Workload, workload.Options{
		Rate: s.Rate, Seed: s.Seed + uint64(round-1), Rest: rest, BlockTokens: s.BlockTokens,
	})
}

// real is how long something of the workload takes when it is sent.
func (s Settings) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.Speed / s.TimeScale)
}

// unscaled is how long something that was measured would have taken without the
// time scale.
func (s Settings) unscaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.TimeScale)
}
