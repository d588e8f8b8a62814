package proxy

// spareDescriptors is how many descriptors are kept for what isn't a client or its
// connection to a worker: listeners, health checks, logs, name lookups.
const spareDescriptors = 256

// ConnectionsThatFit returns how many clients may be connected so that each can
// still be given a connection to a worker, or to two where requests have two
// phases, under this process's limit on open files. ok is false where there is no
// limit to be known.
func ConnectionsThatFit(phases int) (n int, ok bool) {
	limit, ok := descriptorLimit()
	return connectionsWithin(limit, phases), ok
}

// connectionsWithin is ConnectionsThatFit with a given limit. Where the limit is
// too low for the spare ones, half of it is kept.
func connectionsWithin(limit uint64, phases int) int {
	const most = 1 << 30
	limit = min(limit, most)
	spare := min(spareDescriptors, limit/2)
	return max(int(limit-spare)/(1+phases), 1)
}
