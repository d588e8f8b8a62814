package policy

import "math/bits"

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
	// golden is 2^64 divided by the golden ratio, made odd.
	golden = 0x9e3779b97f4a7c15
)

// Hash is the package's own hash of a worker's URL: 64-bit FNV-1a, then the
// finaliser of MurmurHash3, because FNV alone leaves the high bits of short
// strings poor. It is the same in every process and on every machine, and must
// stay so: placements are made with it.
func Hash(s string) uint64 {
	return hashOf(s)
}

func hashOf[T string | []byte](s T) uint64 {
	h := uint64(fnvOffset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return mix(h)
}

// mix spreads every bit of x over all bits. It is a bijection with mix(0) = 0.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// spread turns a routing key, which may be a small number, into a position
// whose bits are all usable.
func spread(key uint64) uint64 {
	return mix(key + golden)
}

// affinity is the rendezvous score of a worker, by its Hash, for a key that went
// through spread. One folded multiplication is enough because both sides are
// well mixed already.
func affinity(key, worker uint64) uint64 {
	hi, lo := bits.Mul64(key^worker, golden)
	return hi ^ lo
}

// rng is a small generator (SplitMix64 with the mix above), the same in every
// version of Go.
type rng struct {
	state uint64
}

// below draws a number from 0 to n-1. Its bias, n in 2^64, does not matter here.
func (r *rng) below(n int) int {
	r.state += golden
	hi, _ := bits.Mul64(mix(r.state), uint64(n))
	return int(hi)
}

// unit draws a number from 0 to below 1, one of 2^53.
func (r *rng) unit() float64 {
	r.state += golden
	return float64(mix(r.state)>>11) / (1 << 53)
}
