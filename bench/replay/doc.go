// Package replay sends requests that arrive and share prefixes as those of a trace
// or of a synthetic workload do, through a router to simulated workers, and
// measures how well it placed them: how much of the prompts was cached, how long
// the first tokens took, and how evenly the workers were used.
//
// # Prompts
//
// A request is a list of block ids; see package workload. Each id becomes its own
// text of as many bytes as a block of a simulated worker has. Texts differ between rounds, as nothing is to be
// left from the one before.
//
// # The endless cache
//
// Beside the cached share of the prompts stands what one cache would have reached
// that all workers share and that forgets nothing. A block of it is missed once,
// when it first follows those before it, whatever order requests come in.
//
// # Time
//
// Speed says how much faster requests come than the workload says; it makes the
// load. TimeScale says how much faster the whole runs, workers included; times to
// the first token are told as they would be without it. The router isn't any
// faster for it: at a scale of 10 its own 0.2 ms count for 2, and what it does each
// second, as asking workers for their loads, it does each ten.
//
// # Memory
//
// A trace is read as it is sent. What is kept is bounded: the requests under way,
// and what package workload keeps.
package replay
