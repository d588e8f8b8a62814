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
//   - A lease ends exactly once. It is a value with a ticket; the registry
//     refuses a spent ticket and counts the refusal, which is always a bug of
//     the caller. Leases are not reaped by age and counters are not clamped.
//   - A worker's identity outlives its membership. Removing a worker makes it
//     ineligible; its live leases stay, and adding the same URL finds them.
//   - A loop never blocks on a send. Replies go into channels of capacity one
//     that are read exactly once; anything else is a try-send.
//   - A loop does no I/O, reads no clock and does not log. Callers bring
//     results and times; facts worth logging go into one bounded event channel.
//   - An inbox is first in, first out, so a goroutine sees its own earlier
//     messages take effect before its later ones.
//
// # Actors
//
// Registry owns workers, loads, health, breakers and the policies' state. Tree
// owns the prefix tree; what it says is a hint, and routing works without it.
// Prober runs health checks and sends verdicts. Router is the front that
// handlers use: it sends a request through the tree, if the policy reads
// prefixes, and to the registry.
package actors
