// Package routing measures how long first tokens take behind routers, in the
// situations that a fleet gets into: idle, busy, near saturation, with prompts that
// share much or nothing, workers that are slower than others or lose their cache.
//
// A scenario is a workload and its workers. In each round each scenario goes through
// all routers, one after another, with the same requests for all of them; see
// package replay for how. Beside what was measured stands what package sim says of
// the same requests and the same policies of Loadstar.
package routing
