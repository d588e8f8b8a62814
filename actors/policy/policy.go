package policy

// Candidate is one worker that a request may go to.
type Candidate struct {
	// ID is the registry's number of the worker: dense, and reused after the
	// worker is gone.
	ID uint32
	// Hash is [Hash] of URL.
	Hash uint64
	// URL is the worker's canonical URL, with @rank where there is one.
	URL string
	// Load is the number of requests running there at this instant.
	Load int
	// Pending is the prompt work granted to the worker and not yet prefilled,
	// in blocks.
	Pending int
	// Held is the prompts of the requests that decode there, or are about to, in
	// blocks.
	Held int
	// Pace is how many times as long as others the worker takes for a block of
	// prompt, finite. Anything not above zero counts as 1.
	Pace float64
	// Match is how many leading blocks of this prompt the worker is thought to
	// have cached. It is at most Request.Blocks.
	Match int
	// Cost is the operator's relative price of the worker, finite. Anything not
	// above zero counts as 1.
	Cost float64
}

// Request is what a policy may know of a request.
type Request struct {
	// Key is the hash of the prompt's first blocks.
	Key uint64
	// Blocks is the length of the prompt in blocks. It is 0 for a request
	// without a routing key.
	Blocks int
	// Session is the session key with its origin, such as
	// "header:x-session-id:s1", and empty when there is none. It is lent for the
	// call.
	Session []byte
	// Affinity is what kv_aware knows a session by, and empty when it has none to
	// keep. It is lent likewise.
	Affinity []byte
	// Retry says that the request was at another worker before, which failed it.
	Retry bool
	// Decode says that the prompt is prefilled elsewhere, and its worker only
	// decodes.
	Decode bool
	// Now is monotonic time in nanoseconds.
	Now int64
	// Model is a small number that stands for the model asked for, and 0 for none
	// that is known. Another model may have it later.
	Model uint32
	// Pool is a small number that stands for those who serve the model, whether
	// they are candidates just now or not, and 0 for the whole fleet. Models that
	// the same workers serve share it, and another pool may have it later.
	Pool uint32
}

// Choice is a policy's answer.
type Choice struct {
	// Index is the position of the chosen worker among the candidates.
	Index int
	// Reason says what decided.
	Reason Reason
	// MaxLoad and MinLoad are the highest and the lowest load among the
	// candidates, and Imbalanced says that they are further apart than the
	// balance thresholds allow. Only cache_aware and sticky_least_loaded, which
	// judge balance, fill them in.
	MaxLoad, MinLoad int
	Imbalanced       bool
}

// Policy chooses workers. It is not safe for concurrent use.
type Policy interface {
	// Name is the policy's name as the operator writes it.
	Name() string
	// Choose picks one of the candidates, of which there must be at least one,
	// with distinct IDs and URLs.
	Choose(req *Request, candidates []Candidate) Choice
}

// Weigher is a policy that goes by what a request costs at each worker.
type Weigher interface {
	// Weigh says what the last call of Choose, which was for the same request,
	// has taken for the cost of it at one of its candidates, in blocks, and for the
	// price of a miss above its own time.
	Weigh(req *Request, c *Candidate) (lambda, cost float64)
}

// Member is a worker of the fleet, healthy or not.
type Member struct {
	ID  uint32
	URL string
}

// MemberKeeper is a policy whose state follows the fleet's membership.
type MemberKeeper interface {
	// SetMembers replaces the membership. It is called when a worker joins or
	// leaves, not when its health changes, and before the first choice that has
	// a new member among its candidates. The slice is lent.
	SetMembers(members []Member)
}

// SessionKeeper is a policy that remembers where sessions live.
type SessionKeeper interface {
	// FinishSession forgets a session, given by the same bytes as
	// Request.Session or Request.Affinity, and reports whether it was known.
	FinishSession(session []byte) bool
	// Sessions is the number of sessions in the table. It may count some that
	// have expired but have not been cleared away yet.
	Sessions() int
}
