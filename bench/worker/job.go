package worker

import "time"

// job is one request's work in the engine. The first block of fields is set
// before it is submitted and read-only from then on.
type job struct {
	prompts  []prompt
	streams  int           // answers written side by side: prompts times n
	limit    int           // tokens of each answer; 0 for a prompt that is only read
	keep     string        // the key under which its blocks are kept at its end; empty for not at all
	progress chan progress // capacity one: the latest, never a backlog

	// Everything following is owned by the engine's goroutine.
	phase   phase
	fetches bool          // its blocks are to come from another worker; set before it is submitted
	lost    bool          // they should have, but can't; may be set before it is submitted
	loaded  bool          // they have
	ready   time.Time     // when they will have; zero while they are only claimed
	takes   time.Duration // their transfer; known when ready is
	looked  bool          // in the cache
	work    time.Duration // prefill left, at the full rate
	hits    int           // blocks found in the cache
	tokens  int           // given to each stream
}

type phase uint8

const (
	idle phase = iota // not in the engine
	queued
	fetching
	prefilling
	decoding
)

// progress is how far a job has come since its start.
type progress struct {
	tokens   int  // per stream
	hits     int  // prompt blocks found in the cache
	loaded   bool // the others came from another worker
	finished bool
}

func newJob(prompts []prompt, streams, limit int) *job {
	return &job{prompts: prompts, streams: streams, limit: limit, progress: make(chan progress, 1)}
}

// offer leaves the job's state in its channel, in place of one not yet read. It
// doesn't block: the engine is the only sender, so a place once freed stays free.
func (j *job) offer() {
	select {
	case <-j.progress:
	default:
	}
	j.progress <- progress{tokens: j.tokens, hits: j.hits, loaded: j.loaded, finished: j.tokens == j.limit}
}

// size is the length of all prompts in bytes.
func (j *job) size() int {
	n := 0
	for _, p := range j.prompts {
		n += p.size
	}
	return n
}

// held is how many blocks the job occupies, the last of each stream in part.
func (j *job) held() int {
	return j.promptBlocks() + j.streams*((j.tokens+BlockTokens-1)/BlockTokens)
}

func (j *job) promptBlocks() int {
	n := 0
	for _, p := range j.prompts {
		n += (p.size + BlockBytes - 1) / BlockBytes
	}
	return n
}
