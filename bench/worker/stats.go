package worker

// Stats is what a worker has seen, all taken at one instant.
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
	Failed    int64 // a fault was asked for
	Refused   int64 // unreadable, unknown model, or queue full

	PromptBlocks    int64 // full prompt blocks looked up in the cache
	HitBlocks       int64 // of these, found
	PromptTokens    int64 // of the requests that started
	GeneratedTokens int64
	CachedBlocks    int // blocks in the cache
	HeldBlocks      int // blocks that the running requests occupy

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
