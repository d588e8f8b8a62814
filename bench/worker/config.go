package worker

import (
	"net/http"
	"time"
)

const (
	// BlockBytes is the size of a cache block in bytes of prompt.
	BlockBytes = 64
	// BlockTokens is the size of a cache block in tokens.
	BlockTokens = BlockBytes / tokenBytes

	maxBody     = 64 << 20             // bytes of a request's body
	maxStreams  = 256                  // prompts times n of one request
	maxOutput   = 1 << 18              // tokens of one request's answers together
	maxRanks    = 64                   // data-parallel ranks
	maxPinned   = 1 << 20              // blocks pinned by a worker without a cache size
	maxModelLen = maxBody / tokenBytes // tokens; what the body limit lets in anyway
	keepAlive   = 5 * time.Second
)

// Config describes a worker. A zero field takes the default named beside it;
// where it says so, a negative one turns the feature off.
type Config struct {
	// Model is the name the worker serves. Default "sim".
	Model string
	// PrefillBlocksPerSecond is how many uncached prompt blocks are computed in a
	// second. Default 1250, which is 0.8 ms a block.
	PrefillBlocksPerSecond float64
	// ChunkedPrefill shares the prefill rate evenly among all running prompts.
	// Without it prompts are prefilled whole, one after another.
	ChunkedPrefill bool
	// DecodeBase is the time of a decode step with one stream. Default 10 ms.
	DecodeBase time.Duration
	// DecodePerStream is what each further stream in the batch adds to a step.
	// Default 100 µs; negative for nothing.
	DecodePerStream time.Duration
	// OutputTokens is the length of an answer that max_tokens doesn't cut, 1024 at most.
	// Default 64.
	OutputTokens int
	// CacheBlocks is the size of the prefix cache, and how many blocks may be pinned
	// beside a new request's. Default 4000; negative for no cache.
	CacheBlocks int
	// MaxRunning bounds the requests in prefill, decode and transfer together.
	// Default 256.
	MaxRunning int
	// MaxQueue bounds the requests that wait to run. Default 1024; negative for none.
	MaxQueue int
	// OverloadStatus answers a request that finds the queue full: 503 or 429.
	// Default 503.
	OverloadStatus int
	// Ranks is how many data-parallel ranks the worker has, 64 at most: engines of
	// their own, each with all the above. X-Data-Parallel-Rank picks one; requests
	// without it take turns. Default 0: one engine, whatever rank is named.
	Ranks int
	// TransferPerBlock is how long it takes a decode worker to get a block of KV
	// cache from here. Default 100 µs; negative for nothing.
	TransferPerBlock time.Duration
	// KVLease is how long a prefilled prompt's blocks are kept for a decode worker
	// that has not yet asked for them, in real time. Default 30 s.
	KVLease time.Duration
	// KVWait is how long a decode request waits for blocks whose prefill has not
	// ended, in real time. Default 480 s.
	KVWait time.Duration
	// KVPush answers prefill requests as NIXL's push mode does.
	KVPush bool
	// FailLostKV fails a decode request whose blocks can't be had, as vLLM does
	// unless told to recompute; otherwise its prompt is prefilled here.
	FailLostKV bool
	// Seed varies the answers' words.
	Seed uint64
	// TimeScale divides every time that isn't real: 10 makes the worker ten times faster.
	// Default 1.
	TimeScale float64
	// AllowFaults lets a request ask for a failure with the header X-Sim-Fail.
	AllowFaults bool
	// Fault befalls every request that asks for none itself; after it PrefillFault
	// those that leave the decoding to another worker, and DecodeFault those that
	// were prefilled by another.
	Fault, PrefillFault, DecodeFault Fault
}

func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = "sim"
	}
	if !(c.PrefillBlocksPerSecond > 0) {
		c.PrefillBlocksPerSecond = 1250
	}
	if c.DecodeBase <= 0 {
		c.DecodeBase = 10 * time.Millisecond
	}
	if c.OutputTokens <= 0 {
		c.OutputTokens = 64
	}
	if c.MaxRunning <= 0 {
		c.MaxRunning = 256
	}
	if c.OverloadStatus != http.StatusTooManyRequests {
		c.OverloadStatus = http.StatusServiceUnavailable
	}
	if !(c.TimeScale > 0) {
		c.TimeScale = 1
	}
	if c.KVLease <= 0 {
		c.KVLease = 30 * time.Second
	}
	if c.KVWait <= 0 {
		c.KVWait = 480 * time.Second
	}
	c.Ranks = min(max(c.Ranks, 0), maxRanks)
	c.OutputTokens = min(c.OutputTokens, maxOutput/maxStreams)
	c.DecodePerStream = orDefault(c.DecodePerStream, 100*time.Microsecond)
	c.TransferPerBlock = orDefault(c.TransferPerBlock, 100*time.Microsecond)
	c.CacheBlocks = orDefault(c.CacheBlocks, 4000)
	c.MaxQueue = orDefault(c.MaxQueue, 1024)
	return c
}

// orDefault reads zero as the default and a negative number as none.
func orDefault[T int | time.Duration](v, byDefault T) T {
	if v == 0 {
		return byDefault
	}
	return max(v, 0)
}

// prefillTime is how long n bytes of uncached prompt take alone.
func (c Config) prefillTime(n int) time.Duration {
	blocks := float64(n) / BlockBytes
	return c.scaled(blocks / c.PrefillBlocksPerSecond * float64(time.Second))
}

// stepTime is how long a decode step takes with that many streams, at least one.
func (c Config) stepTime(streams int) time.Duration {
	return c.scaled(float64(c.DecodeBase) + float64(c.DecodePerStream)*float64(streams-1))
}

// transferTime is how long n blocks are on their way to a decode worker. However
// many a claim says, a prompt doesn't have more than fit into a body.
func (c Config) transferTime(n int) time.Duration {
	return c.scaled(float64(c.TransferPerBlock) * float64(min(max(n, 0), maxBody/BlockBytes+1)))
}

// pinLimit is how many blocks may be pinned beside new requests.
func (c Config) pinLimit() int {
	if c.CacheBlocks == 0 {
		return maxPinned
	}
	return c.CacheBlocks
}

func (c Config) scaled(ns float64) time.Duration {
	return time.Duration(ns/c.TimeScale + 0.5)
}
