// Package actors holds the goroutines that own the router's shared state.
//
// Each actor is one goroutine, one state struct that only it can reach, and one
// inbox of typed messages. There is no lock here and no other way in.
//
// # Rules
//
//   - Load is counted, never set. A worker's load is the number of live leases
//     on it. Three functions write the counters: grant, advance and giveBack.
//     No message assigns one; health, discovery, restarts and time cannot
//     reach them. A wrong count is a bug to find, not a number to reset.
//
//   - A lease ends exactly once. It is a value with a ticket; the registry
//     refuses a spent ticket and counts the refusal, which is always a bug of
//     the caller. Leases are not reaped by age and counters are not clamped.
//
//   - A worker's identity outlives its membership. Removing a worker makes it
//     ineligible; its live leases stay, and adding the same URL finds them.
//
//   - A loop never blocks on a send. Replies go into channels that have room for
//     all that may come, and are all read; anything else is a try-send.
//
//   - A loop does no I/O, reads no clock and does not log. Callers bring
//     results and times; facts worth logging go into one bounded event channel.
//
//   - An inbox is first in, first out, so a goroutine sees its own earlier
//     messages take effect before its later ones.
//
//   - Where there are limits, who has to wait does so in the registry: a place
//     that becomes free and a request that may have it never coexist behind a
//     message, and each who waits is answered exactly once: with leases, or with
//     why not. Admissions are counted as leases are, by admit and dismiss alone.
//
// # What contains damage
//
// All of it says who may be chosen, and none of it touches a counter of load.
//
//   - A breaker keeps a worker out that fails; see BreakerOptions. What a failure
//     teaches can wait: Lease.ReleaseUnjudged ends the lease, Lease.Judge charges
//     the worker later, or nobody if the request itself was to blame.
//   - A wedged worker, which holds requests and gives no sign of life while
//     others of its role do, is kept out until it gives one. Health checks are no
//     sign.
//   - Breakers and silence together keep out at most BreakerOptions.MaxOpenShare
//     of a role's healthy members, and of those that serve a model, and never the
//     last one. Only the breaker of a worker that has the role or the model to
//     itself has no such floor.
//   - A worker that comes back takes few requests for Options.SlowStart.
//   - Requests that are Retry are granted within a budget; see RetryOptions.
//
// # Actors
//
// Registry owns workers, loads, health, breakers, the policies' state, limits, the
// waiting room and what is parked. While requests wait, a clock goroutine tells it the
// time. Tree owns the prefix tree; what it says is a hint, and routing works without it.
// Prober runs health checks and sends verdicts. Router is the front that
// handlers use: it sends a request through the tree, if the policy reads
// prefixes, and to the registry. Where an Exact is handed in, a request whose tokens
// are known asks that first, and the tree puts its answer in the place of the tree's
// own.
package actors
