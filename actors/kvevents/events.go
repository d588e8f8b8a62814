package kvevents

import (
	"log/slog"
	"net"
	"strconv"
	"strings"

	"loadstar/actors"
)

// Bounds.
const (
	// MaxStreams is how many sources there may be.
	MaxStreams = 1024

	// MaxBlockSize is how many tokens a block may have.
	MaxBlockSize = 1024

	// DefaultMaxBlocks is how many blocks are kept, each counted for each worker that
	// has it. With them a process takes some 600 MB.
	DefaultMaxBlocks = 4 << 20
)

// Options configures Events.
type Options struct {
	Sources   map[string][]string // endpoints that publish a worker's events, by its canonical URL
	Replays   map[string][]string // those that answer for missed ones, in the same order
	BlockSize int                 // tokens of a block
	Model     string              // that the workers serve, adapters aside; empty for whatever is asked for

	// Host, External and Disk are what a block counts that lies there and not in the
	// GPU's memory, 0 to 1.
	Host, External, Disk float64

	MaxBlocks int // that are kept; 0 for DefaultMaxBlocks

	Log *slog.Logger // of sources that are cut off; nil for none
}

// source is one endpoint of a worker.
type source struct {
	worker   string // URL
	endpoint string // host:port
	replay   string // host:port; empty for none
}

// sourcesOf lists the sources of a worker. One that is a data-parallel rank has those
// that are named for it by its own URL, else the one at its place in the list of its
// base URL; of a single one the port rises with the rank, as that of vLLM does.
func (o *Options) sourcesOf(worker string) []source {
	if endpoints := o.Sources[worker]; len(endpoints) > 0 {
		return pair(worker, endpoints, o.Replays[worker])
	}
	at := strings.LastIndexByte(worker, '@')
	if at < 0 {
		return nil
	}
	rank, err := strconv.Atoi(worker[at+1:])
	if err != nil {
		return nil
	}
	endpoints, replays := o.Sources[worker[:at]], o.Replays[worker[:at]]
	src := source{worker: worker}
	switch {
	case len(endpoints) == 1:
		var ok bool
		if src.endpoint, ok = shift(endpoints[0], rank); !ok {
			return nil
		}
		if len(replays) > 0 {
			src.replay, _ = shift(replays[0], rank)
		}
		return []source{src}
	case rank < len(endpoints):
		return pair(worker, endpoints, replays)[rank : rank+1]
	}
	return nil
}

func pair(worker string, endpoints, replays []string) []source {
	all := make([]source, len(endpoints))
	for i := range all {
		all[i] = source{worker: worker, endpoint: endpoints[i]}
		if i < len(replays) {
			all[i].replay = replays[i]
		}
	}
	return all
}

// shift adds to an address's port.
func shift(addr string, by int) (string, bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", false
	}
	n, err := strconv.Atoi(port)
	if err != nil || n+by > 65535 {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(n+by)), true
}

// Address reads tcp://HOST:PORT and returns HOST:PORT; false if it is anything else.
func Address(endpoint string) (addr string, ok bool) {
	addr, ok = strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(addr)
	if !ok || err != nil || host == "" || strings.ContainsAny(host, "*/?#@ ") {
		return "", false
	}
	n, err := strconv.Atoi(port)
	return addr, err == nil && n >= 1 && n <= 65535
}

// Events is the index with its sources. It implements actors.Exact.
type Events struct {
	opts     Options
	queries  chan *actors.ExactQuery
	events   chan event
	controls chan control
	done     chan struct{} // closed when all goroutines have ended
}

// Start starts the index, without workers. Call Stop to end it.
func Start(o Options) *Events {
	if o.MaxBlocks == 0 {
		o.MaxBlocks = DefaultMaxBlocks
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Events{
		opts: o, queries: make(chan *actors.ExactQuery, queriesSize), events: make(chan event, eventsSize),
		controls: make(chan control), done: make(chan struct{}),
	}
	go e.loop()
	return e
}

func (e *Events) weights() [numTiers]float64 {
	return [numTiers]float64{device: 1, host: e.opts.Host, external: e.opts.External, disk: e.opts.Disk}
}

// Match implements actors.Exact.
func (e *Events) Match(q *actors.ExactQuery) {
	if q.Reply == nil {
		q.Reply = make(chan struct{}, 1)
	}
	select {
	case <-e.done:
		return
	default:
	}
	select {
	case e.queries <- q:
	default:
		return
	}
	select {
	case <-q.Reply:
	case <-e.done:
		select {
		case <-q.Reply: // answered at the last moment
		default:
		}
	}
}

// Join implements actors.Exact.
func (e *Events) Join(id actors.WorkerID, url string) {
	e.tell(control{join: true, id: id, url: url})
}

// Leave implements actors.Exact.
func (e *Events) Leave(id actors.WorkerID, url string) {
	e.tell(control{leave: true, id: id, url: url})
}

// Stop ends the sources and the index, and returns when all goroutines have ended.
func (e *Events) Stop() {
	e.tell(control{halt: true})
	<-e.done
}

func (e *Events) tell(c control) bool {
	select {
	case e.controls <- c:
		return true
	case <-e.done:
		return false
	}
}

// SourceStats is how a source fares.
type SourceStats struct {
	Worker   string // its URL
	Endpoint string // host:port
	Up       bool   // it is listened to
	Whole    bool   // nothing of what the worker holds is missing
	Blocks   int    // known

	counts [numKinds]uint64
}

// Counts calls f with the number of events of each kind since the worker joined.
func (s *SourceStats) Counts(f func(kind string, n uint64)) {
	for k, n := range s.counts {
		f(kindNames[k], n)
	}
}

// Stats tells of each source of a member, by the members' numbers; nil once stopped.
func (e *Events) Stats() []SourceStats {
	reply := make(chan []SourceStats, 1)
	if !e.tell(control{stats: reply}) {
		return nil
	}
	select {
	case all := <-reply:
		return all
	case <-e.done:
		return nil
	}
}
