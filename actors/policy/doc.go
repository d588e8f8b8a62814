// Package policy decides which worker a request goes to.
//
// A [Policy] is a pure state machine: it is called by one goroutine, it starts
// none, takes no lock, reads no clock and does no I/O. What it may know of the
// request and of the workers is in its arguments, and the same calls in the
// same order, with the same [Options], give the same choices on every machine.
//
// # Guarantees
//
//   - A tie never goes to the first. Among equals the worker is chosen by
//     rendezvous hash of the routing key and the worker's URL, so an idle fleet
//     spreads new prefixes evenly, and routers that do not talk to each other
//     (or one router before and after a restart) agree.
//   - A choice does not depend on the order of the candidates. The exceptions
//     are those policies whose choice is a position: random, round_robin and the
//     draws of power_of_two and of kv_aware with a temperature. They are stable when candidates come sorted by ID.
//   - A choice allocates nothing, but for the rare growth of a table.
//   - Everything kept is bounded: by the number of members, or by
//     [Options].SessionCap times the longest session key, whose length is for
//     the caller to bound.
//   - Arguments are lent. No policy keeps a slice that it was given.
//
// # Policies
//
//   - random: uniform.
//   - round_robin: a counter over the candidates.
//   - power_of_two: the less loaded of two random candidates.
//   - cache_aware: the longest known prefix while it is long enough and the
//     loads are balanced, otherwise the least load.
//   - consistent_hash: a ring of virtual nodes; a session stays where
//     vllm-router put it, and moves on only when its owner is far above the
//     mean load.
//   - rendezvous_hash: the highest score of session and URL, under the same
//     bound of load.
//   - sticky_least_loaded: a new session goes to the least load and stays there,
//     in a bounded table.
//   - least_work: the least sum of queued work, of prompt not cached there and
//     of requests running, where the price of a miss rises with the backlog.
//   - kv_aware: least_work, for callers that know what workers hold from the workers
//     themselves. With a temperature the cheapest worker is the likeliest, not the only
//     one; with a lifetime of sessions they stay where they are.
package policy
