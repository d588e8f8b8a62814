// Package compare runs Loadstar and every other router that is found on the same
// machine, before the same workers and under the same load, taking turns, and
// measures what each costs.
//
// The routers share one core, of which only one is busy at a time; workers and
// generator have the others. CPU time is the kernel's account of a router's
// processes, so it holds when the machine is not quiet; rates and times do not,
// and only their ratios within a run mean something.
//
// First all routers run before two workers that answer at once, and each round
// measures every cell for every router. Then each round starts every router
// afresh before four workers that can hold a request, for memory, chunks and
// clients that leave.
//
// Nothing is installed. Processes are started on loopback and ended by what
// started them, each with its process group.
package compare
