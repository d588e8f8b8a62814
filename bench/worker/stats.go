package worker

import (
	"maps"
	"time"
)

// Stats is what a worker has seen, all taken at one instant. With several
// data-parallel ranks it is their sum, peaks included, taken from one after another.
type Stats struct {
	// Open counts the requests for work whose handler has not ended, failing and
	// hanging ones included. Entered − Completed − Aborted − Failed − Refused = Open.
	Open, PeakOpen int
	// Running counts the requests in prefill or decode, Waiting those before it.
	Running, Waiting, PeakRunning int

	Entered   int64 // requests for work that arrived
	Completed int64 // answered to the last byte; Stopped and Truncated are its parts
	Stopped   int64 // ended by themselves
	Truncated int64 // ended at max_tokens
	Aborted   int64 // the client left, or the worker closed
	Failed    int64 // by a fault, or for want of its KV cache
	Refused   int64 // unreadable, unknown model or rank, or queue full

	PromptBlocks    int64 // full prompt blocks looked up in the cache
	HitBlocks       int64 // of these, found
	PromptTokens    int64 // of the requests that started
	GeneratedTokens int64
	CachedBlocks    int // blocks in the cache
	HeldBlocks      int // blocks that the running requests occupy, and the pinned ones

	// What was prefilled here for other workers. Pinned = KVSent + KVDropped +
	// KVExpired + PinnedRequests.
	PinnedRequests, PinnedBlocks int   // kept, or on their way
	Pinned                       int64 // prefills that left something to keep
	KVSent                       int64 // fetched by a decode worker
	KVDropped                    int64 // given up by a decode worker, or replaced under the same id
	KVExpired                    int64 // fetched by nobody before the lease was over
	KVMismatched                 int64 // claimed for another prompt: a real engine would have answered nonsense

	// What other workers prefilled for this one.
	Loading      int           // requests with a place whose blocks have not come
	KVLoaded     int64         // requests whose blocks came
	KVFailed     int64         // requests whose blocks were not to be had
	KVRecomputed int64         // requests prefilled here instead, those whose params say nothing included
	LoadedTokens int64         // tokens that came, without those in the cache
	LoadTime     time.Duration // of their transfers together

	// Ranks counts arrivals by X-data-parallel-rank, for ranks 0 to 63.
	Ranks map[int]int64
}

// outcome is how a request for work ended. The zero value is the one that holds
// when a handler stops half-way.
type outcome uint8

const (
	aborted outcome = iota
	failed
	refused
	stopped
	truncated
)

// sum adds up what each rank has seen. It shares no map with them.
func sum(ranks []Stats) Stats {
	s := ranks[0]
	s.Ranks = maps.Clone(s.Ranks) // a closed engine gives the same one each time
	for _, r := range ranks[1:] {
		s.Open, s.PeakOpen = s.Open+r.Open, s.PeakOpen+r.PeakOpen
		s.Running, s.Waiting, s.PeakRunning = s.Running+r.Running, s.Waiting+r.Waiting, s.PeakRunning+r.PeakRunning
		s.Entered += r.Entered
		s.Completed += r.Completed
		s.Stopped += r.Stopped
		s.Truncated += r.Truncated
		s.Aborted += r.Aborted
		s.Failed += r.Failed
		s.Refused += r.Refused
		s.PromptBlocks += r.PromptBlocks
		s.HitBlocks += r.HitBlocks
		s.PromptTokens += r.PromptTokens
		s.GeneratedTokens += r.GeneratedTokens
		s.CachedBlocks += r.CachedBlocks
		s.HeldBlocks += r.HeldBlocks
		s.PinnedRequests, s.PinnedBlocks = s.PinnedRequests+r.PinnedRequests, s.PinnedBlocks+r.PinnedBlocks
		s.Pinned += r.Pinned
		s.KVSent += r.KVSent
		s.KVDropped += r.KVDropped
		s.KVExpired += r.KVExpired
		s.KVMismatched += r.KVMismatched
		s.Loading += r.Loading
		s.KVLoaded += r.KVLoaded
		s.KVFailed += r.KVFailed
		s.KVRecomputed += r.KVRecomputed
		s.LoadedTokens += r.LoadedTokens
		s.LoadTime += r.LoadTime
		for rank, n := range r.Ranks {
			s.Ranks[rank] += n
		}
	}
	return s
}

// count books an ended request.
func (s *Stats) count(o outcome) {
	switch o {
	case aborted:
		s.Aborted++
	case failed:
		s.Failed++
	case refused:
		s.Refused++
	case stopped:
		s.Stopped++
		s.Completed++
	case truncated:
		s.Truncated++
		s.Completed++
	}
}
