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
	workload.Setup
	Routers     []string `json:"routers,omitempty"`
	RouterArgs  []string `json:"router_args,omitempty"` // of all of them
	Copies      int      `json:"copies,omitempty"`      // of each router, that get requests in turn; 0 is one
	NATS        bool     `json:"nats,omitempty"`        // copies, of Loadstar, tell each other what they run
	URL         string   `json:"url,omitempty"`         // of a router that runs, instead
	Listen      []string `json:"listen,omitempty"`      // addresses of the workers before it; none to have none here
	Model       string   `json:"model"`
	Rounds      int      `json:"rounds"`
	Seed        uint64   `json:"seed"` // of the first round; the next ones' follow
	TimeScale   float64  `json:"time_scale"`
	Requests    uint64   `json:"requests,omitempty"`
	Connections int      `json:"connections"`

	Programs compare.Programs `json:"-"`
	Core     int              `json:"-"` // the routers'; this process must not run there
}

// Rest is how far apart the requests of a conversation are at least: more than an
// answer takes unless the workers are overloaded.
const Rest = time.Second

const (
	maxWorkers   = 64
	maxCopies    = 16
	modelLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:"
)

// withDefaults are the settings with the workload's defaults.
func (s Settings) withDefaults() Settings {
	s.Setup = s.WithDefaults()
	byDefault := 20.0
	if workload.IsSynthetic(s.Workload) {
		byDefault = 1
	}
	s.TimeScale = cmp.Or(s.TimeScale, byDefault)
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
	least := 1
	if s.URL != "" {
		least = 0
	}
	faults = append(faults, s.Check(least, maxWorkers), workload.OutOfRange(
		workload.Range{Name: "time scale", Value: s.TimeScale, From: 1e-3, To: 1e3},
		workload.Range{Name: "rounds", Value: float64(s.Rounds), From: 1, To: 100},
		workload.Range{Name: "connections", Value: float64(s.Connections), From: 1, To: 1 << 14},
	))
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
		return errors.Join(faults...)
	}
	wrong(len(s.Routers) > 0 || len(s.RouterArgs) > 0, "a URL, and routers to be started: give one or the other")
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
		Rate: s.Rate, Seed: s.Seed + uint64(round-1), Rest: Rest, BlockTokens: s.BlockTokens,
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
