package actors

import "math"

// RetryOptions bounds how many of the requests that workers get are retries, so
// that a fleet in trouble isn't given a multiple of its load.
type RetryOptions struct {
	Disabled bool    // no bound
	Ratio    float64 // retries for each first attempt that was granted
	Floor    float64 // retries a second beyond that, for when there is little traffic
}

// budgetSeconds is how much of what the ratio has allowed may be saved up;
// budgetBurst is the same for the floor.
const (
	budgetSeconds = 10
	budgetBurst   = 2
)

// retryToken is the price of a retry. Whole numbers keep sums exact.
const retryToken = 1_000_000_000

// budget is a bucket of tokens, each of which allows a retry. It is counted up
// to the moment only when a second is over or a retry asks.
type budget struct {
	ratio   int64 // parts of a token for each first attempt
	floor   float64
	tokens  int64
	counted int64 // until when the floor's tokens are in; monotonic nanoseconds
	begun   bool

	fed     [budgetSeconds]int64 // first attempts of the last seconds, this one's among them
	sum     int64                // of fed
	at      int                  // which of fed is this second's
	end     int64                // of this second
	unspent int64                // first attempts whose tokens aren't in

	off     bool
	refused uint64
}

func newBudget(o RetryOptions) budget {
	// More than a thousand retries for each request is no bound, and the sums
	// stay far from their limits.
	ratio, floor := min(max(o.Ratio, 0), 1000), min(max(o.Floor, 0), 1e6)
	b := budget{off: o.Disabled, ratio: int64(math.Round(ratio * retryToken)), floor: floor}
	b.tokens = b.limit()
	return b
}

// limit is the most tokens that there may be.
func (b *budget) limit() int64 {
	return int64(budgetBurst*b.floor*retryToken) + b.ratio*min(b.sum, math.MaxInt64/4/max(b.ratio, 1))
}

// first feeds the bucket: a first attempt was granted.
func (b *budget) first(now int64) {
	if now >= b.end {
		b.settle(now)
	}
	b.fed[b.at]++
	b.sum++
	b.unspent++
}

// allows reports whether a retry may be granted.
func (b *budget) allows(now int64) bool {
	if b.off {
		return true
	}
	b.settle(now)
	if b.tokens >= retryToken {
		return true
	}
	b.refused++
	return false
}

// spend takes a token that allows has seen.
func (b *budget) spend() {
	if !b.off {
		b.tokens -= retryToken
	}
}

// settle puts in what has come together until now.
func (b *budget) settle(now int64) {
	const second = 1_000_000_000
	if !b.begun {
		b.begun, b.counted, b.end = true, now, now+second
	}
	if now >= b.end {
		late := (now-b.end)/second + 1
		for range min(late, budgetSeconds) {
			b.at = (b.at + 1) % budgetSeconds
			b.sum -= b.fed[b.at]
			b.fed[b.at] = 0
		}
		b.end += late * second
	}
	most := b.limit()
	b.tokens = min(most, b.tokens+b.ratio*min(b.unspent, most/max(b.ratio, 1)+1))
	b.unspent = 0
	if now > b.counted {
		// As many nanoseconds as parts of a token; a long time fills the bucket.
		b.tokens = int64(min(float64(most), float64(b.tokens)+b.floor*float64(now-b.counted)))
		b.counted = now
	}
}

// left is how many retries may be granted at now.
func (b budget) left(now int64) float64 {
	b.settle(now)
	return float64(b.tokens) / retryToken
}
