// Package worker is a simulated inference worker: it answers like a vLLM server,
// takes the time a GPU would take, and needs no GPU. The demo routes to two of
// them and the benchmarks measure routers with them.
//
// # What is simulated
//
// A prompt is cut into blocks of 64 bytes. An LRU cache remembers blocks by the
// hash of all text up to their end, so only a prefix can hit; the rest is
// prefilled at a fixed rate, either one prompt after another or, with chunked
// prefill, all at once with the rate shared evenly. Then the request joins the
// decode batch, which gives one token to each stream per step; a step takes
// longer the more streams there are. Prefill does not slow decode. Only prompts
// enter the cache, answers don't.
//
// A token is four bytes of prompt, or one word of the answer. Answers are words
// that depend on the prompt and the seed alone. Sampling parameters, stop
// strings, tools and logprobs are accepted and change nothing; max_tokens,
// min_tokens, ignore_eos, n and cache_salt are honoured.
//
// # How it is built
//
// One goroutine owns the engine's state (state.go, which reads no clock, and
// cache.go); HTTP handlers send it messages and wait for progress. It uses only
// the time package for time, so testing/synctest can drive it.
package worker
