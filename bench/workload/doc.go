// Package workload has the requests that routing is judged with: when they come,
// and which blocks of their prompts they share. They are read from a trace or made
// up.
//
// A request is a list of block ids. Two prompts share just the blocks that their
// lists begin with.
//
// A trace is read as it is used. What is kept is bounded: the requests of one tick
// of the trace's clock, and the endless cache's blocks. A trace that needs more
// ends with an error that says so.
package workload
