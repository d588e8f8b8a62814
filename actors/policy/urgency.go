package policy

// How requests wait whose worker is chosen and has as much to do as it should have at
// a time. The registry has more of it, and so has the simulator. Times are in
// nanoseconds.
const (
	// LongestPark is how long one waits at most. It is sent then, whatever is before it.
	LongestPark int64 = 30e9

	// BacklogTokens is how many tokens of prompt a worker should have before others wait,
	// where nothing else is said: as many as an engine computes in a step.
	BacklogTokens = 8192

	// LeastSent is how many requests a worker is sent in any case that it hasn't begun to
	// answer: one to work on, and one for when that is done.
	LeastSent = 2

	// FirstPatience is for how long a worker may answer nothing until it is sent one more.
	FirstPatience int64 = 1e9

	// parkGrace is what every request is taken to have waited before it came: among
	// those that have hardly waited, the short ones go first.
	parkGrace int64 = 1e9
)

// Patience is for how long a worker that was sent n more since it answered last may
// be still until it is sent yet another one: it may have put aside what it has, and
// the next one would show it.
func Patience(first int64, n int) int64 { return first << min(n, 8) }

// Urgency says who of those that wait for a worker is next: who has the highest. It is
// the time waited for each block that the worker has to prefill, "highest response
// ratio next" (Brinch Hansen, 1971): short prompts don't wait for long ones, and long
// ones not for ever.
func Urgency(waited int64, blocks int) float64 {
	return float64(waited+parkGrace) / float64(blocks+1)
}
