// Package discovery keeps the fleet in step with what others say of it.
//
// A source says, again and again, which workers there are: pods that match a
// selector, names in DNS, lines of a file. It always says all of them. The Reconciler
// compares that with what the source said last and changes the fleet.
//
// # Rules
//
//   - What a source says no longer is drained: it gets no more requests, and its
//     running ones end as they would have. Nothing here can reach a load.
//   - A source only takes away what a source brought. A worker of the command line or
//     of the admin API stays what it is, whoever else names it, and a source that
//     names it gets it once it is gone.
//   - Of several sources that name a worker the one that was started first decides
//     what it is like. When that one says it no longer, the next takes over, and the
//     worker never notices.
//   - A source that fails says nothing, and what it said last goes on to hold.
//   - A worker that goes and comes back while it drains just stays.
//
// # Goroutines
//
// One, the loop, owns what was said and what the fleet was told, and calls the Fleet,
// a call at a time. Each source has one of its own, which waits until the loop has
// taken what it says: so nothing piles up but the newest set.
package discovery
