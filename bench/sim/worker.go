package sim

import (
	"time"

	"loadstar/bench/lru"
)

// job is a request at a worker.
type job struct {
	request *request
	lease   lease
	number  int           // of the arrival
	hits    int           // blocks that the worker had cached when it began
	first   time.Duration // when its prompt was prefilled
}

// worker prefills one prompt at a time, in the order in which they come. Decoding
// costs it nothing, as if it had a batch without end.
type worker struct {
	perBlock time.Duration // of prefill
	cache    *lru.Cache
	queue    []*job // the first is being prefilled

	requests, blocks int64 // given to it so far
}

func (s *Settings) worker(number int) *worker {
	return &worker{perBlock: s.PerBlock(number), cache: lru.New(s.CacheBlocks)}
}

// add takes a job in, and reports whether its prefill begins at once.
func (w *worker) add(j *job) (begins bool) {
	w.requests++
	w.blocks += int64(len(j.request.chain))
	w.queue = append(w.queue, j)
	return len(w.queue) == 1
}

// begin looks the next prompt up in the cache, and is how long its prefill takes.
// The last block is always computed, as without it there would be no first token.
func (w *worker) begin() time.Duration {
	j := w.queue[0]
	n := len(j.request.chain)
	j.hits = min(w.cache.Match(j.request.chain), n-1)
	return time.Duration((j.request.size - float64(j.hits)) * float64(w.perBlock))
}

// end is the job whose prefill has ended; next says whether there is another.
func (w *worker) end() (j *job, next bool) {
	j = w.queue[0]
	w.queue = w.queue[1:]
	w.cache.Add(j.request.chain)
	return j, len(w.queue) > 0
}
