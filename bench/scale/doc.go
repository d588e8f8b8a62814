// Package scale measures whether what Loadstar costs stays the same as the fleet
// and the number of open streams grow, and says of each figure what it must not
// exceed.
//
// Routers have one core, and take turns where they are compared; workers, which are
// one process, and the generator have the others. CPU time and memory are the
// kernel's account of the router's process, so they hold on a busy machine; times
// don't. Everything is on loopback and ends with the run.
package scale
