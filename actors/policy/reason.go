package policy

// Reason says what decided a choice. The zero Reason means that nobody said.
type Reason uint8

// The reasons for a choice.
const (
	// Random is a draw.
	Random Reason = iota + 1
	// RoundRobin is a turn.
	RoundRobin
	// LeastLoad is the least load, where nothing but load was looked at.
	LeastLoad
	// PrefixHit is a worker with the longest known prefix.
	PrefixHit
	// PrefixMiss means that no worker has enough of the prefix to matter.
	PrefixMiss
	// LoadImbalance means that loads were too far apart to look at affinity.
	LoadImbalance
	// Backlog means that a worker with a longer prefix was passed over because
	// of its queue, its load or its price.
	Backlog
	// SessionKept is the worker where the session lives.
	SessionKept
	// SessionNew is a worker for a session seen for the first time, or again
	// after it expired.
	SessionNew
	// SessionMoved is a worker for a session whose own is not a candidate.
	SessionMoved
	// Ring is the owner on the hash ring.
	Ring
	// Rendezvous is the owner by rendezvous hash.
	Rendezvous
	// OwnerFull means that the owner by hash was far above the mean load, and
	// the next in line was taken.
	OwnerFull
	// Pinned is the one worker that holds what the request goes on from. No
	// policy was asked.
	Pinned
)

var reasonNames = [...]string{
	Random:        "random",
	RoundRobin:    "round_robin",
	LeastLoad:     "least_load",
	PrefixHit:     "prefix_hit",
	PrefixMiss:    "prefix_miss",
	LoadImbalance: "load_imbalance",
	Backlog:       "backlog",
	SessionKept:   "session_kept",
	SessionNew:    "session_new",
	SessionMoved:  "session_moved",
	Ring:          "ring",
	Rendezvous:    "rendezvous",
	OwnerFull:     "owner_full",
	Pinned:        "pinned",
}

// String is the reason as a metric label: lower case with underscores, and
// "unknown" for a Reason that is not one of the constants.
func (r Reason) String() string {
	if int(r) >= len(reasonNames) || reasonNames[r] == "" {
		return "unknown"
	}
	return reasonNames[r]
}

// Reasons lists all reasons, in order.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonNames)-1)
	for r := range reasonNames {
		if r > 0 {
			all = append(all, Reason(r))
		}
	}
	return all
}
