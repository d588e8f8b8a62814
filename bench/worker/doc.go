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
// # Prefill and decode apart
//
// A worker is either half of a request that a router splits, told apart by
// kv_transfer_params. A prefill half that ends by length keeps its blocks pinned,
// and its answer says where they are, as NIXL's does in pull mode or, with
// Config.KVPush, in push mode. The decode half takes a place in its engine,
// claims the blocks that its own cache lacks, waits for the transfer and decodes
// without prefill. A claim without block ids, or with Mooncake's transfer_id, may
// come before its prefill has ended and waits for it. Engines in one process
// find each other by engine id; others are asked over HTTP, where they served the
// prefill. GET /query is Mooncake's bootstrap, on the same port.
//
// Blocks are freed when the transfer is done, when the decode request is aborted
// after its engine has accepted it, or when the lease is over, which an engine
// renews for requests in its queue. So they stay pinned for the rest of the lease
// if the decode request is lost, refused or aborted before that, or if its worker
// is closed, as with vLLM. A new request waits, and with it all behind it, while
// its prompt finds no room beside what is pinned. Stats and GET /metrics tell what
// is pinned, and what became of what was.
//
// # Data-parallel ranks
//
// With Config.Ranks a worker has several engines, each with a cache, a queue and
// an engine id of its own. GET /metrics tells them apart by the label engine="0"
// and so on; Stats is their sum.
//
// # How it is built
//
// One goroutine owns an engine's state (state.go, which reads no clock, package lru
// and pins.go); HTTP handlers send it messages and wait for progress. Engines
// never talk to each other: the decode request's handler carries the claim from
// one to the other. All this uses only the time package for time, so
// testing/synctest can drive it.
package worker
